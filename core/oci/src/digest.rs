//! Digests: what a thing is called by its content.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::Digest as _;

use crate::Error;

/// A SHA-256, the one algorithm that registries use.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest(String);

/// What digests begin with.
const ALGORITHM: &str = "sha256:";

impl Digest {
    /// The digest of bytes.
    pub fn of(bytes: &[u8]) -> Digest {
        let mut hasher = Hasher::default();
        hasher.add(bytes);
        hasher.finish()
    }

    /// 64 lower-case hexadecimal digits: a file's name.
    pub fn hex(&self) -> &str {
        &self.0
    }

    /// The first twelve digits, for people.
    pub fn short(&self) -> &str {
        // It always has 64 digits.
        &self.0[..12]
    }

    /// The name of a layer above others, whose name is `below`: what is in a layer depends on those.
    pub fn above(&self, below: Option<&Digest>) -> Digest {
        match below {
            None => self.clone(),
            Some(below) => Digest::of(format!("{below} {self}").as_bytes()),
        }
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{ALGORITHM}{}", self.0)
    }
}

impl FromStr for Digest {
    type Err = Error;

    fn from_str(text: &str) -> Result<Digest, Error> {
        let hex = text
            .strip_prefix(ALGORITHM)
            .ok_or_else(|| Error::document("digest", format!("{text:?} is not sha256:…")))?;
        let is_digit = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        if hex.len() != 64 || !hex.bytes().all(is_digit) {
            let why = format!("{text:?} has no 64 hexadecimal digits");
            return Err(Error::document("digest", why));
        }
        Ok(Digest(hex.to_owned()))
    }
}

impl TryFrom<String> for Digest {
    type Error = Error;

    fn try_from(text: String) -> Result<Digest, Error> {
        text.parse()
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> String {
        digest.to_string()
    }
}

/// Computes a digest piece by piece.
#[derive(Clone, Debug, Default)]
pub struct Hasher(sha2::Sha256);

impl Hasher {
    /// Adds bytes.
    pub fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The digest of all.
    pub fn finish(self) -> Digest {
        let bytes = self.0.finalize();
        let hex = bytes.iter().fold(String::with_capacity(64), |mut hex, byte| {
            for digit in [byte >> 4, byte & 15] {
                // Four bits are always a digit.
                hex.push(char::from_digit(digit.into(), 16).unwrap_or('0'));
            }
            hex
        });
        Digest(hex)
    }
}
