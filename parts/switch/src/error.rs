//! What can go wrong with a switch, with the object and the operation.

use std::io;
use std::path::{Path, PathBuf};

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failure of a switch's process, or of talking to it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The edge to the system refused.
    #[error("switch: {operation}")]
    System {
        /// What was tried.
        operation: &'static str,
        /// The refusal.
        #[source]
        source: netloom_sys::Error,
    },
    /// The process could not be set up.
    #[error("switch: {operation}")]
    Setup {
        /// What was tried.
        operation: &'static str,
        /// The failure.
        #[source]
        source: io::Error,
    },
    /// Memory shared with ports, or the protocol spoken with them.
    #[error("switch: {operation}")]
    Shared {
        /// What was tried.
        operation: &'static str,
        /// The failure.
        #[source]
        source: netloom_shm::Error,
    },
    /// The state file could not be read or written.
    #[error("switch: state file {}: {operation}", path.display())]
    State {
        /// The file.
        path: PathBuf,
        /// What was tried.
        operation: &'static str,
        /// The failure.
        #[source]
        source: io::Error,
    },
    /// The state file is not one, or says what cannot be.
    #[error("switch: state file {}: {reason}", path.display())]
    BrokenState {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A message that makes no sense.
    #[error("switch: message: {0}")]
    Message(String),
    /// The switch did not do what it was asked.
    #[error("switch: {0}")]
    Refused(String),
}

impl Error {
    pub(crate) fn setup(operation: &'static str, source: impl Into<io::Error>) -> Self {
        Error::Setup { operation, source: source.into() }
    }

    pub(crate) fn shared(operation: &'static str) -> impl Fn(netloom_shm::Error) -> Self {
        move |source| Error::Shared { operation, source }
    }

    pub(crate) fn state(path: &Path, op: &'static str, source: impl Into<io::Error>) -> Self {
        Error::State { path: path.to_owned(), operation: op, source: source.into() }
    }

    pub(crate) fn refused(reason: impl Into<String>) -> Self {
        Error::Refused(reason.into())
    }
}
