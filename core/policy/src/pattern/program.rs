//! Which programs a rule is about: by path, and by content where the path alone is not trusted.

use std::fmt;

use super::PathPattern;
use crate::request::Program;

/// A SHA-256 digest, as `sha256:` and 64 digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sha256(pub [u8; 32]);

impl Sha256 {
    /// Reads `sha256:` and 64 hexadecimal digits.
    pub fn parse(text: &str) -> Option<Sha256> {
        let digits = text.strip_prefix("sha256:")?;
        if digits.len() != 64 || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
            return None;
        }
        let mut bytes = [0; 32];
        for (byte, at) in bytes.iter_mut().zip((0..).step_by(2)) {
            *byte = u8::from_str_radix(digits.get(at..at + 2)?, 16).ok()?;
        }
        Some(Sha256(bytes))
    }
}

impl fmt::Display for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sha256:")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// Programs at these paths, with this content if a digest is given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ProgramPattern {
    /// Where the executable lies; `None` is anywhere.
    pub path: Option<PathPattern>,
    /// The executable's content; `None` is any.
    pub sha256: Option<Sha256>,
}

impl ProgramPattern {
    /// Whether `program` is one of these. A program whose content is unknown has no digest that matches.
    pub fn matches(&self, program: &Program) -> bool {
        self.path.as_ref().is_none_or(|pattern| pattern.matches(&program.path))
            && self.sha256.is_none_or(|digest| program.sha256 == Some(digest.0))
    }

    /// Whether every program of this pattern is one of `other`.
    pub fn within(&self, other: &ProgramPattern) -> bool {
        let path = match (&self.path, &other.path) {
            (_, None) => true,
            (None, Some(_)) => false,
            (Some(a), Some(b)) => a.within(b),
        };
        path && (other.sha256.is_none() || self.sha256 == other.sha256)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_read_and_written() {
        let text = format!("sha256:{}", "0aFf".repeat(16));
        let digest = Sha256::parse(&text).unwrap();
        assert_eq!(digest.to_string(), text.to_ascii_lowercase());
        for wrong in ["", "sha256:", "sha256:00", &text[..70], &format!("{text}0"), &text[7..]] {
            assert_eq!(Sha256::parse(wrong), None, "{wrong}");
        }
        assert_eq!(Sha256::parse(&format!("sha256:{}", "é".repeat(32))), None);
    }

    #[test]
    fn a_digest_narrows_and_an_unknown_content_never_matches_one() {
        let path = Some(PathPattern::parse("/usr/bin/*").unwrap());
        let wide = ProgramPattern { path: path.clone(), sha256: None };
        let narrow = ProgramPattern { path, sha256: Some(Sha256([7; 32])) };
        let program = |sha256| Program { path: "/usr/bin/curl".into(), sha256 };
        assert!(narrow.within(&wide) && !wide.within(&narrow));
        assert!(wide.within(&ProgramPattern::default()));
        assert!(narrow.matches(&program(Some([7; 32]))));
        assert!(!narrow.matches(&program(Some([8; 32]))));
        assert!(!narrow.matches(&program(None)));
        assert!(wide.matches(&program(None)));
    }
}
