//! Failures of an OpenFlow switch, with the object and the operation.

use std::path::PathBuf;

use netloom_control::Fault;
use netloom_sys::{Failure, describe};

/// The object of failures that concern the whole switch.
pub(crate) const SWITCH: &str = "openflow switch";

/// The object of failures of communication over its control socket.
pub(crate) const CONTROL: &str = "openflow switch: control socket";

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failure of a switch's process, or of its client.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The system refused.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// The state file is malformed or contradictory.
    #[error("openflow switch: state file {}: {reason}", path.display())]
    BrokenState {
        /// The file.
        path: PathBuf,
        /// Its fault.
        reason: String,
    },
    /// The switch refused a request.
    #[error("openflow switch: {0}")]
    Refused(String),
    /// A request has no answer, for another reason.
    #[error("openflow switch: {0}")]
    Control(Fault),
    /// A port could not be used.
    #[error("openflow switch: port")]
    Port(#[from] netloom_port::Error),
    /// Links could not be asked for.
    #[error("openflow switch: links")]
    Links(#[from] netloom_netlink::Error),
}

/// Failures of the edge to Linux are those of the system here.
impl From<netloom_sys::Error> for Error {
    fn from(error: netloom_sys::Error) -> Error {
        Failure::new(SWITCH, "ask the system", error).into()
    }
}

/// Failures of connections are the switch's.
impl From<netloom_ofconn::Error> for Error {
    fn from(error: netloom_ofconn::Error) -> Error {
        match error {
            netloom_ofconn::Error::Failed(failure) => failure.into(),
            other => Error::Refused(other.to_string()),
        }
    }
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
