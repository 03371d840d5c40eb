//! What can go wrong with a switch's memories and with joining it, with object and operation.

use std::io;
use std::path::PathBuf;

use crate::reason::Reason;

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failure at a shared-memory switch.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The kernel refused.
    #[error("{object}: {operation}")]
    Call {
        /// What it was tried on.
        object: String,
        /// What was tried.
        operation: &'static str,
        /// The refusal.
        #[source]
        source: io::Error,
    },
    /// A descriptor that a peer has given is not a memory as it must be.
    #[error("{object}: map: {reason}")]
    Memory {
        /// Which memory.
        object: &'static str,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A message of a peer, or one for it, is not as the protocol says.
    #[error("message: {operation}: {reason}")]
    Message {
        /// What was tried with it.
        operation: &'static str,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The switch does not want us.
    #[error("switch {switch:?}: join: {text} ({reason})")]
    Refused {
        /// The switch's socket.
        switch: PathBuf,
        /// Why, for programs.
        reason: Reason,
        /// Why, in the switch's words.
        text: String,
    },
    /// The switch did not answer in time, or ended while it was asked.
    #[error("switch {switch:?}: {operation}: {reason}")]
    Silent {
        /// The switch's socket.
        switch: PathBuf,
        /// What was asked of it.
        operation: &'static str,
        /// What was seen instead.
        reason: &'static str,
    },
    /// A name of a switch or a port that cannot be one.
    #[error("name {name:?}: use: {reason}")]
    Name {
        /// The name.
        name: String,
        /// What is wrong with it.
        reason: &'static str,
    },
}

impl Error {
    /// An error of a call on `object`.
    pub fn call(
        object: impl Into<String>,
        operation: &'static str,
        source: impl Into<io::Error>,
    ) -> Self {
        Error::Call { object: object.into(), operation, source: source.into() }
    }

    /// The kernel's error number behind it, if it was a refusal.
    pub fn raw_os_error(&self) -> Option<i32> {
        match self {
            Error::Call { source, .. } => source.raw_os_error(),
            _ => None,
        }
    }
}
