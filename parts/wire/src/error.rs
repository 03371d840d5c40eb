//! Errors of the wire process, with the operation.

use netloom_control::Fault;
use netloom_sys::{Failure, describe};

/// The object of failures that concern the whole process.
pub(crate) const WIRES: &str = "wires";

/// The object of failures of communication with the process.
pub(crate) const CONTROL: &str = "wires: control socket";

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failure of a wire, of the wire process, or of communication with it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The system refused, or communication over the control socket failed.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// The process refused a request.
    #[error("wires: {0}")]
    Refused(String),
    /// A request has no answer, for another reason.
    #[error("wires: {0}")]
    Control(Fault),
    /// A port could not be used.
    #[error("wires: port")]
    Port(#[from] netloom_port::Error),
}

impl Error {
    /// It as answered: the client's own error adds the prefix.
    pub(crate) fn reason(&self) -> String {
        match self {
            Error::Refused(reason) => reason.clone(),
            Error::Port(e) => describe(e),
            other => describe(other),
        }
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
