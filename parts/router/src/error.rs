//! Why a router cannot be followed.

use netloom_ofconn::client::ClientError;
use netloom_sys::Failure;

/// What can go wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The system refused something.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// The kernel's answer about routes.
    #[error(transparent)]
    Netlink(#[from] netloom_netlink::Error),
    /// The switch could not be asked.
    #[error("the router's switch")]
    Switch(#[from] ClientError),
    /// The switch did something else than asked.
    #[error("the router's switch: {0}")]
    Strange(String),
}

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;
