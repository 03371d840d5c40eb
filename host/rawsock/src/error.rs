//! Errors of packet sockets, with the object and the operation.

use netloom_sys::{Failure, Unsupported};

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failure of a packet socket.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The kernel refused.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// Frames that no interface can accept.
    #[error("frames: prepare: {reason}")]
    Frames {
        /// Their fault.
        reason: &'static str,
    },
    /// The interface is down: nothing arrives until it is up again.
    #[error("interface {index}: receive: it is down")]
    Down {
        /// The interface.
        index: u32,
    },
    /// The interface no longer exists, or is in another network namespace: nothing will ever arrive.
    #[error("interface {index}: receive: it is gone")]
    Gone {
        /// The interface.
        index: u32,
    },
    /// The machine or the user lacks something.
    #[error("{0}")]
    Unsupported(#[from] Unsupported),
}

impl Error {
    /// The kernel's error number behind it; `None` if the kernel refused nothing.
    pub fn raw_os_error(&self) -> Option<i32> {
        match self {
            Error::Failed(failure) => failure.raw_os_error(),
            Error::Frames { .. }
            | Error::Down { .. }
            | Error::Gone { .. }
            | Error::Unsupported(_) => None,
        }
    }
}
