//! Errors of vhost-user ports, with the object and the operation.

use netloom_sys::Failure;

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failure of a port. What a guest or its front end does wrong is none: it is counted ([`crate::Faults`]).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The kernel refused.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// Another process listens at this path.
    #[error("socket {path:?}: listen: another process listens there")]
    Taken {
        /// The path.
        path: std::path::PathBuf,
    },
}

impl Error {
    /// The kernel's error number behind it; `None` if the kernel refused nothing.
    pub fn raw_os_error(&self) -> Option<i32> {
        match self {
            Error::Failed(failure) => failure.raw_os_error(),
            Error::Taken { .. } => None,
        }
    }
}
