//! Failures of a plug, with the operation.

use std::error::Error as StdError;

use netloom_sys::Failure;

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failure of a plug.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The system refused, or the switch's side failed.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// The interface's side failed.
    #[error("plug: port")]
    Port(#[from] netloom_port::Error),
}

impl Error {
    /// A failure of a virtual machine's card.
    pub(crate) fn card(source: netloom_vhost::Error) -> Self {
        Failure::new("plug: card", "open", source).into()
    }

    /// A failure of the switch's side.
    pub fn switch(
        operation: &'static str,
        source: impl Into<Box<dyn StdError + Send + Sync>>,
    ) -> Self {
        Failure::new("plug: switch", operation, source).into()
    }
}
