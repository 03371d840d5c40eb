//! Failures of a switch, with the object and the operation.

use std::path::PathBuf;

use netloom_sys::Failure;

/// The object of failures that concern the whole switch.
pub(crate) const SWITCH: &str = "switch";

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failure of a switch's process, or of its client.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The system refused, or the memory shared with ports or its protocol failed.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// The state file is malformed or contradictory.
    #[error("switch: state file {}: {reason}", path.display())]
    BrokenState {
        /// The file.
        path: PathBuf,
        /// Its fault.
        reason: String,
    },
    /// A message is malformed.
    #[error("switch: message: {0}")]
    Message(String),
    /// The switch refused a request.
    #[error("switch: {0}")]
    Refused(String),
}

impl Error {
    /// The kernel's error number behind it; `None` if the kernel refused nothing.
    pub fn raw_os_error(&self) -> Option<i32> {
        match self {
            Error::Failed(failure) => failure.raw_os_error(),
            _ => None,
        }
    }

    pub(crate) fn refused(reason: impl Into<String>) -> Self {
        Error::Refused(reason.into())
    }
}
