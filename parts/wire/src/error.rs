//! Errors of the wire process, with the operation.

use netloom_sys::Failure;

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
    /// An invalid message.
    #[error("wires: message: {0}")]
    Message(String),
    /// The peer process belongs to another user.
    #[error("wires: control socket: the other end is user {0}")]
    Stranger(u32),
    /// The process refused a request.
    #[error("wires: {0}")]
    Refused(String),
    /// The process ended before it answered.
    #[error("wires: the process that carries frames has ended")]
    Ended,
    /// A port could not be used.
    #[error("wires: port")]
    Port(#[from] netloom_port::Error),
}
