//! Errors of a switch's memories and of joining it, with object and operation.

use std::path::PathBuf;

use netloom_sys::Failure;

use crate::reason::Reason;

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failure at a shared-memory switch.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The kernel refused.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// A descriptor from a peer is not valid memory.
    #[error("{object}: map: {reason}")]
    Memory {
        /// The memory.
        object: &'static str,
        /// Its fault.
        reason: &'static str,
    },
    /// A peer's message, or one for it, violates the protocol.
    #[error("message: {operation}: {reason}")]
    Message {
        /// The operation tried.
        operation: &'static str,
        /// Its fault.
        reason: &'static str,
    },
    /// The switch refuses.
    #[error("switch {switch:?}: join: {text} ({reason})")]
    Refused {
        /// The switch's socket.
        switch: PathBuf,
        /// The reason, for programs.
        reason: Reason,
        /// The reason, in the switch's words.
        text: String,
    },
    /// The switch did not answer in time, or ended before it did.
    #[error("switch {switch:?}: {operation}: {reason}")]
    Silent {
        /// The switch's socket.
        switch: PathBuf,
        /// The request.
        operation: &'static str,
        /// What happened instead.
        reason: &'static str,
    },
    /// A switch is looked for where others than this user and root could have put one.
    #[error("folder of labs {folder:?} is not searched: {source}")]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// The user that can fill or exchange it.
        source: netloom_sys::Error,
    },
    /// The process of a switch is another user's.
    #[error(
        "switch {switch:?}: join: user {uid} runs it, not you or root; name it by its path if you want that"
    )]
    Stranger {
        /// The switch's socket.
        switch: PathBuf,
        /// The user.
        uid: u32,
    },
    /// An invalid name of a switch or a port.
    #[error("name {name:?}: use: {reason}")]
    Name {
        /// The name.
        name: String,
        /// Its fault.
        reason: &'static str,
    },
}

impl Error {
    /// The kernel's error number behind it; `None` if the kernel refused nothing.
    pub fn raw_os_error(&self) -> Option<i32> {
        match self {
            Error::Failed(failure) => failure.raw_os_error(),
            _ => None,
        }
    }
}
