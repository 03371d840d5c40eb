//! Errors of requested traffic.

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why traffic cannot be sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A text that is not a valid value.
    #[error("{what} {text:?}: {reason}")]
    Text {
        /// What it should be.
        what: &'static str,
        /// The text.
        text: String,
        /// The fault, and a valid example.
        reason: String,
    },
    /// A number out of range.
    #[error("{what} {value}: must be {least} to {most}")]
    Range {
        /// What it is.
        what: &'static str,
        /// The number.
        value: String,
        /// The minimum.
        least: String,
        /// The maximum.
        most: String,
    },
    /// Two addresses of different families.
    #[error("addresses {source_address} and {target}: of different families")]
    Families {
        /// The source.
        source_address: std::net::IpAddr,
        /// The destination.
        target: std::net::IpAddr,
    },
}

impl Error {
    pub(crate) fn text(what: &'static str, text: &str, reason: impl Into<String>) -> Error {
        Error::Text { what, text: text.to_owned(), reason: reason.into() }
    }

    pub(crate) fn range<T: ToString>(what: &'static str, value: T, least: T, most: T) -> Error {
        let [value, least, most] = [value, least, most].map(|number| number.to_string());
        Error::Range { what, value, least, most }
    }
}
