//! What can go wrong with the process that carries frames, with the operation.

use std::io;

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failure of a wire, of the process that carries it, or of talking to that.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The edge to the system refused.
    #[error("wires: {operation}")]
    System {
        /// What was tried.
        operation: &'static str,
        /// The refusal.
        #[source]
        source: netloom_sys::Error,
    },
    /// Talking over the control socket failed.
    #[error("wires: control socket: {operation}")]
    Control {
        /// What was tried.
        operation: &'static str,
        /// The failure.
        #[source]
        source: io::Error,
    },
    /// The loop of the process or of a worker could not be set up.
    #[error("wires: {operation}")]
    Loop {
        /// What was tried.
        operation: &'static str,
        /// The failure.
        #[source]
        source: io::Error,
    },
    /// A message that makes no sense.
    #[error("wires: message: {0}")]
    Message(String),
    /// The process at the other end is another user's.
    #[error("wires: control socket: the other end is user {0}")]
    Stranger(u32),
    /// The process did not do what it was asked.
    #[error("wires: {0}")]
    Refused(String),
    /// The process ended before it answered.
    #[error("wires: the process that carries frames has ended")]
    Ended,
    /// A port could not be used.
    #[error("wires: port")]
    Port(#[from] netloom_port::Error),
}

impl Error {
    pub(crate) fn control(operation: &'static str, source: impl Into<io::Error>) -> Self {
        Error::Control { operation, source: source.into() }
    }

    pub(crate) fn setup(operation: &'static str, source: impl Into<io::Error>) -> Self {
        Error::Loop { operation, source: source.into() }
    }
}
