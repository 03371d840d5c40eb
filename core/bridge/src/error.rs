//! Errors of rules: texts that could not be read, limits, port numbers.

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// A rule that could not be parsed or stored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A malformed text.
    #[error("{object} {text:?}: {reason}")]
    Text {
        /// What it should describe.
        object: &'static str,
        /// The given text, shortened.
        text: String,
        /// Its fault.
        reason: &'static str,
    },
    /// More than the limit.
    #[error("{object}: {has} given, at most {most} possible")]
    TooMany {
        /// Of what.
        object: &'static str,
        /// How many there are.
        has: usize,
        /// How many there may be.
        most: usize,
    },
    /// A port number that no port can have.
    #[error("port {number}: use 1 to 255")]
    Port {
        /// The number.
        number: u16,
    },
}

/// Maximum characters of a text that a message repeats.
const SHOWN: usize = 64;

impl Error {
    pub(crate) fn text(object: &'static str, text: &str, reason: &'static str) -> Error {
        Error::Text { object, text: text.chars().take(SHOWN).collect(), reason }
    }
}
