//! What could not be read, with its text.

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// A rule that could not be understood or kept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A text that is not of its form.
    #[error("{object} {text:?}: {reason}")]
    Text {
        /// What it should be.
        object: &'static str,
        /// What was given, shortened.
        text: String,
        /// Why it is none.
        reason: &'static str,
    },
    /// More than there is room for.
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
    #[error("port {number}: numbers go from 1 to 255")]
    Port {
        /// The number.
        number: u16,
    },
}

/// Most characters of a text that a message repeats.
const SHOWN: usize = 64;

impl Error {
    pub(crate) fn text(object: &'static str, text: &str, reason: &'static str) -> Error {
        Error::Text { object, text: text.chars().take(SHOWN).collect(), reason }
    }
}
