//! What is wrong with what was asked for.

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why something cannot be sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Text that is not such a value.
    #[error("{what} {text:?}: {reason}")]
    Text {
        /// What it was to be.
        what: &'static str,
        /// The text.
        text: String,
        /// What is wrong with it, and what would be right.
        reason: String,
    },
    /// A number that is too small or too large.
    #[error("{what} {value}: must be {least} to {most}")]
    Range {
        /// What it is.
        what: &'static str,
        /// The number.
        value: String,
        /// The least that may be.
        least: String,
        /// The most.
        most: String,
    },
    /// Two addresses that cannot stand in one packet.
    #[error("addresses {source_address} and {target}: of different families")]
    Families {
        /// Where from.
        source_address: std::net::IpAddr,
        /// Where to.
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
