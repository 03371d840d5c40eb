//! Failures of a slicer, with the object and the operation.

use netloom_sys::Failure;

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
    /// A message is malformed.
    #[error("slicer: message: {0}")]
    Message(String),
    /// The peer process belongs to another user.
    #[error("slicer: control socket: the other end is user {0}")]
    Stranger(u32),
    /// The slicer refused a request.
    #[error("slicer: {0}")]
    Refused(String),
    /// The slicer's process ended before it answered.
    #[error("slicer: its process has ended")]
    Ended,
}

impl Error {
    pub(crate) fn refused(reason: impl Into<String>) -> Self {
        Error::Refused(reason.into())
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
impl From<netloom_ofconn::control::Fault> for Error {
    fn from(fault: netloom_ofconn::control::Fault) -> Error {
        use netloom_ofconn::control::Fault;
        match fault {
            Fault::Failed(failure) => failure.into(),
            Fault::Message(reason) => Error::Message(reason),
            Fault::Stranger(user) => Error::Stranger(user),
            _ => Error::Ended,
        }
    }
}
