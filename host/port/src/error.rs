//! Errors of ports, with the object and the operation.

use netloom_sys::{Failure, Unsupported};

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failure of a port.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The kernel refused.
    #[error(transparent)]
    Failed(#[from] Failure),
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
    #[error("{0}")]
    Unsupported(#[from] Unsupported),
}

impl Error {
    /// The kernel's error number behind it; `None` if the kernel refused nothing.
    pub fn raw_os_error(&self) -> Option<i32> {
        match self {
            Error::Failed(failure) => failure.raw_os_error(),
            Error::Kind { .. } | Error::Switch(_) | Error::Unsupported(_) => None,
        }
    }
}

/// The same failure as an error of this crate.
impl From<netloom_rawsock::Error> for Error {
    fn from(error: netloom_rawsock::Error) -> Self {
        match error {
            netloom_rawsock::Error::Failed(failure) => Error::Failed(failure),
            netloom_rawsock::Error::Unsupported(unsupported) => Error::Unsupported(unsupported),
            other => Failure::new("packet socket", "use", other).into(),
        }
    }
}
