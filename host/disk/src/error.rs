//! What can go wrong with a large file, with the path and the operation.

use std::io;
use std::path::PathBuf;

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failure of a file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The kernel refused an operation that is not a write.
    #[error("{path:?}: {operation}")]
    Path {
        /// The file.
        path: PathBuf,
        /// What was tried.
        operation: &'static str,
        /// The refusal.
        #[source]
        source: io::Error,
    },
    /// What stands at the path cannot be such a file.
    #[error("{path:?}: create: {reason}")]
    Refused {
        /// The path.
        path: PathBuf,
        /// What is in the way, in words.
        reason: String,
    },
    /// Another process writes to the file.
    #[error("{path:?}: {writer} is writing to it: give another file, or end that process first")]
    Busy {
        /// The file.
        path: PathBuf,
        /// Who has it, in words.
        writer: String,
    },
    /// No space is left on the file system, or in its user's quota. What was to be written stays
    /// queued.
    #[error("{path:?}: write: no space left after {written} bytes")]
    Full {
        /// The file.
        path: PathBuf,
        /// Bytes of whole chunks that are in it.
        written: u64,
    },
    /// The file is as long as the process or the file system allows. What was to be written stays
    /// queued.
    #[error("{path:?}: write: no file may be longer here, after {written} bytes")]
    Limit {
        /// The file.
        path: PathBuf,
        /// Bytes of whole chunks that are in it.
        written: u64,
    },
    /// Writing failed for another reason. What was to be written stays queued.
    #[error("{path:?}: write after {written} bytes")]
    Write {
        /// The file.
        path: PathBuf,
        /// Bytes of whole chunks that are in it.
        written: u64,
        /// The refusal.
        #[source]
        source: io::Error,
    },
    /// More bytes were to be written than the buffer has. Nothing was queued.
    #[error("{path:?}: write: {len} bytes of a buffer of {holds}")]
    Length {
        /// The file.
        path: PathBuf,
        /// What was asked for.
        len: usize,
        /// The buffer's size.
        holds: usize,
    },
}

impl Error {
    /// The kernel's error number behind it, if it was a refusal whose number is not in the variant.
    pub fn raw_os_error(&self) -> Option<i32> {
        match self {
            Error::Path { source, .. } | Error::Write { source, .. } => source.raw_os_error(),
            _ => None,
        }
    }
}
