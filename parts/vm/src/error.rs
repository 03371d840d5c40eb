//! Failures of a machine, with the object and the operation.

use std::error::Error as StdError;

use netloom_sys::{Failure, Unsupported};

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failure of a machine or of its guest.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The system refused.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// The host's kernel interface refused.
    #[error(transparent)]
    System(#[from] netloom_sys::Error),
    /// An interface of the node.
    #[error(transparent)]
    Port(#[from] netloom_port::Error),
    /// The guest's network.
    #[error(transparent)]
    Netlink(#[from] netloom_netlink::Error),
    /// The machine cannot run here.
    #[error("{0}")]
    Unsupported(#[from] Unsupported),
    /// The machine or the guest refuses a request.
    #[error("machine: {0}")]
    Refused(String),
}

/// For `map_err`: a failure of `operation` on `object`.
pub(crate) fn failed<E: Into<Box<dyn StdError + Send + Sync>>>(
    object: impl Into<String>,
    operation: &'static str,
) -> impl FnOnce(E) -> Error {
    move |source| Failure::new(object, operation, source).into()
}
