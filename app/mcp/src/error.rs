//! Errors of this crate. A tool that fails answers why; only what the protocol cannot carry is an error of it.

/// Why the server ended, or a tool refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Nobody to talk to, or not in the protocol.
    #[error("mcp: {0}")]
    Talk(String),
    /// An argument cannot be used.
    #[error("argument {name:?}: {why}")]
    Argument {
        /// Its name.
        name: String,
        /// What is wrong, and what to write instead.
        why: String,
    },
    /// Refused or failed, in the words of the lab or of the verb.
    #[error("{0}")]
    Refused(String),
}

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn argument(name: &str, why: impl Into<String>) -> Error {
        Error::Argument { name: name.to_owned(), why: why.into() }
    }
}

impl From<netloom_api::Error> for Error {
    fn from(error: netloom_api::Error) -> Error {
        Error::Refused(error.to_string())
    }
}
