//! Why there is no way out.

use netloom_sys::Failure;

/// What can go wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The system refused something.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// The network namespace was not entered.
    #[error(transparent)]
    Entering(#[from] netloom_sys::Error),
    /// The kernel refused something at the tap.
    #[error(transparent)]
    Tap(#[from] netloom_netlink::Error),
    /// The program ended before it could have passed anything.
    #[error("{program}: ended at once: {status}")]
    Ended {
        /// Its path.
        program: String,
        /// How.
        status: std::process::ExitStatus,
    },
}

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;
