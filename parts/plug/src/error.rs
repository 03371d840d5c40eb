//! What can go wrong with a plug, with the operation.

use std::error::Error as StdError;
use std::io;
use std::path::PathBuf;

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failure of a plug.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The edge to the system refused.
    #[error("plug: {operation}")]
    System {
        /// What was tried.
        operation: &'static str,
        /// The refusal.
        #[source]
        source: netloom_sys::Error,
    },
    /// The loop that carries frames could not go on.
    #[error("plug: {operation}")]
    Loop {
        /// What was tried.
        operation: &'static str,
        /// The failure.
        #[source]
        source: io::Error,
    },
    /// The interface's side could not be used.
    #[error("plug: port")]
    Port(#[from] netloom_port::Error),
    /// The switch's side could not be used.
    #[error("plug: switch: {operation}")]
    Switch {
        /// What was tried.
        operation: &'static str,
        /// The failure.
        #[source]
        source: Box<dyn StdError + Send + Sync>,
    },
    /// The file that shows that this plug runs could not be used.
    #[error("{path:?}: lock")]
    Lock {
        /// The file.
        path: PathBuf,
        /// The refusal: EAGAIN or EACCES when another process has it.
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
