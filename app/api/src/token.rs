//! The secret that authorizes a caller over TCP.
//!
//! Any process on the machine can connect to its ports, so each request must carry
//! `Authorization: Bearer TOKEN` (RFC 6750). The comparison takes constant time for tokens of equal length;
//! only the length shows, which is not a secret.

use std::hint::black_box;

use axum::http::{HeaderMap, header};
use netloom_sys::{Failure, random};

use crate::Result;

/// Random bytes in a token; each becomes two characters.
const RANDOM: usize = 32;

/// Allowed length of a chosen token.
const LENGTHS: std::ops::RangeInclusive<usize> = 16..=512;

/// What a protocol with a token begins with.
const OFFERED: &[u8] = b"netloom.token.";

/// A token.
#[derive(Clone)]
pub struct Token(String);

impl Token {
    /// An unpredictable token: 256 bits from the kernel.
    ///
    /// # Errors
    /// Errors of the kernel.
    pub fn random() -> Result<Token> {
        let bytes = random::array::<RANDOM>().map_err(Failure::of("token", "draw at random"))?;
        Ok(Token(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    /// A token chosen by the user; `None` unless it is 16 to 512 letters, digits and `-._~+/=`.
    pub fn chosen(text: &str) -> Option<Token> {
        let good = |b: u8| b.is_ascii_alphanumeric() || b"-._~+/=".contains(&b);
        let fits = LENGTHS.contains(&text.len()) && text.bytes().all(good);
        fits.then(|| Token(text.to_owned()))
    }

    /// The token itself.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// Whether the value of an `Authorization` header contains it.
    pub(crate) fn is_in(&self, header: &[u8]) -> bool {
        const SCHEME: &[u8] = b"bearer ";
        let Some((scheme, given)) = header.split_at_checked(SCHEME.len()) else { return false };
        scheme.eq_ignore_ascii_case(SCHEME) && same(given.trim_ascii(), self.0.as_bytes())
    }

    /// Whether a protocol that is offered for a WebSocket has it. Browsers let pages set no other header of theirs; names of
    /// protocols have fewer characters than tokens (RFC 6455, section 4.1), so it is written in hexadecimal.
    pub(crate) fn is_offered(&self, headers: &HeaderMap) -> bool {
        let values = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).iter();
        let values = values.flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
        let mut given = values.filter_map(|name| name.trim_ascii().strip_prefix(OFFERED));
        let own: String = self.0.bytes().map(|byte| format!("{byte:02x}")).collect();
        match (given.next(), given.next()) {
            (Some(given), None) => same(given, own.as_bytes()),
            _ => false,
        }
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token")
    }
}

/// Whether two texts are equal, in a time that depends only on their lengths.
fn same(given: &[u8], wanted: &[u8]) -> bool {
    if given.len() != wanted.len() {
        return false;
    }
    let differences = given.iter().zip(wanted).fold(0, |all, (a, b)| black_box(all | (a ^ b)));
    black_box(differences) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_tokens_are_long_and_different() {
        let [one, other] = [Token::random().unwrap(), Token::random().unwrap()];
        assert!(one.text().len() == 64 && one.text() != other.text());
        assert!(Token::chosen(one.text()).is_some());
        assert!(!format!("{one:?}").contains(one.text()));
    }

    #[test]
    fn only_the_whole_token_is_right() {
        let token = Token::chosen("0123456789abcdef").unwrap();
        for good in
            ["Bearer 0123456789abcdef", "bearer 0123456789abcdef", "BEARER  0123456789abcdef "]
        {
            assert!(token.is_in(good.as_bytes()), "{good}");
        }
        for bad in [
            "",
            "Bearer",
            "Bearer ",
            "0123456789abcdef",
            "Basic 0123456789abcdef",
            "Bearer 0123456789abcde",
            "Bearer 0123456789abcdeg",
            "Bearer 0123456789abcdef0",
            "Bearer 0123456789ABCDEF",
            "Bearer: 0123456789abcdef",
        ] {
            assert!(!token.is_in(bad.as_bytes()), "{bad}");
        }
    }

    #[test]
    fn a_protocol_has_the_whole_token_once() {
        let token = Token::chosen("ab/=ab/=ab/=ab/=").unwrap();
        let offered = |values: &[&'static str]| {
            let pairs = values.iter().map(|v| (header::SEC_WEBSOCKET_PROTOCOL, v.parse().unwrap()));
            token.is_offered(&pairs.collect())
        };
        let good = "netloom.token.61622f3d61622f3d61622f3d61622f3d";
        assert!(offered(&[good]));
        assert!(offered(&["netloom.terminal, netloom.token.61622f3d61622f3d61622f3d61622f3d"]));
        assert!(offered(&["netloom.terminal", good]));
        assert!(!offered(&[good, good]), "twice");
        for bad in [
            "",
            "netloom.terminal",
            "netloom.token.",
            "netloom.token.61622f3d61622f3d61622f3d61622f3",
            "netloom.token.61622f3d61622f3d61622f3d61622f3e",
            "netloom.token.61622F3D61622F3D61622F3D61622F3D",
            "netloom.token.ab/=ab/=ab/=ab/=",
            "61622f3d61622f3d61622f3d61622f3d",
        ] {
            assert!(!offered(&[bad]), "{bad}");
        }
        assert!(!offered(&[]));
    }

    #[test]
    fn what_is_chosen_has_a_length_and_plain_characters() {
        for bad in ["", "short", "0123456789abcde\n", "0123456789abcd f", "ßßßßßßßßßßßßßßßß"]
        {
            assert!(Token::chosen(bad).is_none(), "{bad:?}");
        }
        assert!(Token::chosen(&"x".repeat(512)).is_some_and(|t| t.text().len() == 512));
        assert!(Token::chosen(&"x".repeat(513)).is_none());
    }
}
