//! Why a port cannot be published.

use netloom_sys::Failure;

/// What can go wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The system refused something.
    #[error(transparent)]
    Failed(#[from] Failure),
}

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;
