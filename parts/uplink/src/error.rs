//! Why there is no way out.

use netloom_sys::Failure;

/// What can go wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The system refused something.
    #[error(transparent)]
    Failed(#[from] Failure),
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
