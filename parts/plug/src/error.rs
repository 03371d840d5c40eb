//! Failures of a plug, with the operation.

use std::error::Error as StdError;
use std::io;
use std::path::PathBuf;

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failure of a plug.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A call of the system layer failed.
    #[error("plug: {operation}")]
    System {
        /// The operation.
        operation: &'static str,
        /// The cause.
        #[source]
        source: netloom_sys::Error,
    },
    /// The loop that carries frames could not continue.
    #[error("plug: {operation}")]
    Loop {
        /// The operation.
        operation: &'static str,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The interface's side failed.
    #[error("plug: port")]
    Port(#[from] netloom_port::Error),
    /// The switch's side failed.
    #[error("plug: switch: {operation}")]
    Switch {
        /// The operation.
        operation: &'static str,
        /// The cause.
        #[source]
        source: Box<dyn StdError + Send + Sync>,
    },
    /// The lock file of a running plug could not be used.
    #[error("{path:?}: lock")]
    Lock {
        /// The file.
        path: PathBuf,
        /// The cause: EAGAIN or EACCES when another process holds the lock.
        #[source]
        source: io::Error,
    },
}

impl Error {
    /// A failure of the switch's side.
    pub fn switch(
        operation: &'static str,
        source: impl Into<Box<dyn StdError + Send + Sync>>,
    ) -> Self {
        Error::Switch { operation, source: source.into() }
    }

    pub(crate) fn looping(operation: &'static str, source: impl Into<io::Error>) -> Self {
        Error::Loop { operation, source: source.into() }
    }

    pub(crate) fn system(operation: &'static str) -> impl FnOnce(netloom_sys::Error) -> Self {
        move |source| Error::System { operation, source }
    }
}
