//! Errors of ports, with the object and the operation.

use std::io;

use netloom_sys::Unsupported;

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failure of a port.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The kernel refused.
    #[error("{object}: {operation}")]
    Call {
        /// The object.
        object: String,
        /// The operation tried.
        operation: &'static str,
        /// The kernel's error.
        #[source]
        source: io::Error,
    },
    /// A descriptor is not of the stated kind.
    #[error("descriptor: use as {kind}: {reason}")]
    Kind {
        /// The kind of port.
        kind: &'static str,
        /// What it lacks.
        reason: &'static str,
    },
    /// A shared-memory switch, or the path to it, is invalid.
    #[error(transparent)]
    Switch(Box<netloom_shm::Error>),
    /// The machine or the user lacks something.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
}

impl Error {
    pub(crate) fn call(
        object: impl Into<String>,
        operation: &'static str,
        source: impl Into<io::Error>,
    ) -> Self {
        Error::Call { object: object.into(), operation, source: source.into() }
    }

    /// The kernel's error number behind it; `None` if the kernel refused nothing.
    pub fn raw_os_error(&self) -> Option<i32> {
        match self {
            Error::Call { source, .. } => source.raw_os_error(),
            Error::Kind { .. } | Error::Switch(_) | Error::Unsupported(_) => None,
        }
    }
}

/// The same failure as an error of this crate.
impl From<netloom_rawsock::Error> for Error {
    fn from(error: netloom_rawsock::Error) -> Self {
        match error {
            netloom_rawsock::Error::Call { object, operation, source } => {
                Error::Call { object, operation, source }
            }
            netloom_rawsock::Error::Unsupported(unsupported) => Error::Unsupported(unsupported),
            other => Error::call("packet socket", "use", io::Error::other(other)),
        }
    }
}
