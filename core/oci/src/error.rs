//! Reasons of refusal.

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Bytes or text that are refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No name of an image.
    #[error("image {text:?}: {why}")]
    Name {
        /// The text.
        text: String,
        /// The fault.
        why: &'static str,
    },
    /// A document that cannot be used.
    #[error("{what}: {why}")]
    Document {
        /// Which: `manifest`, `index`, `config`, …
        what: &'static str,
        /// The fault.
        why: String,
    },
    /// A tar archive that cannot be read on.
    #[error("tar archive: {0}")]
    Archive(String),
    /// An entry of an archive that cannot be obeyed.
    #[error("entry {entry:?}: {why}")]
    Entry {
        /// Its path.
        entry: String,
        /// The fault.
        why: &'static str,
    },
    /// No address of a server.
    #[error("address {text:?}: {why}")]
    Address {
        /// The text.
        text: String,
        /// The fault.
        why: &'static str,
    },
}

impl Error {
    pub(crate) fn document(what: &'static str, why: impl ToString) -> Error {
        Error::Document { what, why: why.to_string() }
    }

    pub(crate) fn entry(path: &[u8], why: &'static str) -> Error {
        Error::Entry { entry: String::from_utf8_lossy(path).into_owned(), why }
    }
}
