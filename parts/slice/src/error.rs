//! Failures of a slicer, with the object and the operation.

use netloom_control::Fault;
use netloom_sys::{Failure, describe};

/// The object of failures that concern the whole slicer.
pub(crate) const SLICER: &str = "slicer";

/// The object of failures of communication over its control socket.
pub(crate) const CONTROL: &str = "slicer: control socket";

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failure of a slicer's process, or of its client.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The system refused.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// The slicer refused a request.
    #[error("slicer: {0}")]
    Refused(String),
    /// A request has no answer, for another reason.
    #[error("slicer: {0}")]
    Control(Fault),
}

impl Error {
    pub(crate) fn refused(reason: impl Into<String>) -> Self {
        Error::Refused(reason.into())
    }

    /// It as answered: the client's own error adds the prefix.
    pub(crate) fn reason(&self) -> String {
        match self {
            Error::Refused(reason) => reason.clone(),
            other => describe(other),
        }
    }
}

/// Failures of connections are the slicer's.
impl From<netloom_ofconn::Error> for Error {
    fn from(error: netloom_ofconn::Error) -> Error {
        match error {
            netloom_ofconn::Error::Failed(failure) => failure.into(),
            other => Error::Refused(other.to_string()),
        }
    }
}

/// Failures of the edge to Linux are those of the system here.
impl From<netloom_sys::Error> for Error {
    fn from(error: netloom_sys::Error) -> Error {
        Failure::new(SLICER, "ask the system", error).into()
    }
}

/// Requests without an answer.
impl From<Fault> for Error {
    fn from(fault: Fault) -> Error {
        match fault {
            Fault::Failed(failure) => failure.into(),
            Fault::Refused(reason) => Error::Refused(reason),
            other => Error::Control(other),
        }
    }
}
