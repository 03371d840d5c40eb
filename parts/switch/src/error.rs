//! Failures of a switch, with the object and the operation.

use std::io;
use std::path::{Path, PathBuf};

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failure of a switch's process, or of its client.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A call of the system layer failed.
    #[error("switch: {operation}")]
    System {
        /// The operation.
        operation: &'static str,
        /// The cause.
        #[source]
        source: netloom_sys::Error,
    },
    /// The process could not be set up.
    #[error("switch: {operation}")]
    Setup {
        /// The operation.
        operation: &'static str,
        /// The failure.
        #[source]
        source: io::Error,
    },
    /// Memory shared with ports, or the protocol with them, failed.
    #[error("switch: {operation}")]
    Shared {
        /// The operation.
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
        /// The operation.
        operation: &'static str,
        /// The failure.
        #[source]
        source: io::Error,
    },
    /// The state file is malformed or contradictory.
    #[error("switch: state file {}: {reason}", path.display())]
    BrokenState {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A message is malformed.
    #[error("switch: message: {0}")]
    Message(String),
    /// The switch refused a request.
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
