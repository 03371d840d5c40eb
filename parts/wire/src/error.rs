//! Errors of the wire process, with the operation.

use std::io;

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failure of a wire, of the wire process, or of communication with it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The system interface refused.
    #[error("wires: {operation}")]
    System {
        /// The operation tried.
        operation: &'static str,
        /// The system's error.
        #[source]
        source: netloom_sys::Error,
    },
    /// Communication over the control socket failed.
    #[error("wires: control socket: {operation}")]
    Control {
        /// The operation tried.
        operation: &'static str,
        /// The failure.
        #[source]
        source: io::Error,
    },
    /// The event loop of the process or of a worker could not be set up.
    #[error("wires: {operation}")]
    Loop {
        /// The operation tried.
        operation: &'static str,
        /// The failure.
        #[source]
        source: io::Error,
    },
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

impl Error {
    pub(crate) fn control(operation: &'static str, source: impl Into<io::Error>) -> Self {
        Error::Control { operation, source: source.into() }
    }

    pub(crate) fn setup(operation: &'static str, source: impl Into<io::Error>) -> Self {
        Error::Loop { operation, source: source.into() }
    }
}
