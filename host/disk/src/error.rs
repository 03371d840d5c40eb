//! Errors of large files; each names the path and the operation.

use std::io;
use std::path::PathBuf;

use netloom_sys::Failure;

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failure of a file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The kernel refused an operation other than a write.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// The object at the path cannot be used as such a file.
    #[error("{path:?}: create: {reason}")]
    Refused {
        /// The path.
        path: PathBuf,
        /// The obstacle, in words.
        reason: String,
    },
    /// Another process writes to the file.
    #[error("{path:?}: {writer} is writing to it: give another file, or end that process first")]
    Busy {
        /// The file.
        path: PathBuf,
        /// The process that writes to it, in words.
        writer: String,
    },
    /// The file system is full, or the user's quota is. The unwritten chunks stay queued.
    #[error("{path:?}: write: no space left after {written} bytes")]
    Full {
        /// The file.
        path: PathBuf,
        /// Bytes of whole chunks that are in the file.
        written: u64,
    },
    /// The file has the greatest length that the process or the file system allows. The unwritten
    /// chunks stay queued.
    #[error("{path:?}: write: no file may be longer here, after {written} bytes")]
    Limit {
        /// The file.
        path: PathBuf,
        /// Bytes of whole chunks that are in the file.
        written: u64,
    },
    /// Writing failed for another reason. The unwritten chunks stay queued.
    #[error("{path:?}: write after {written} bytes")]
    Write {
        /// The file.
        path: PathBuf,
        /// Bytes of whole chunks that are in the file.
        written: u64,
        /// The kernel's error.
        #[source]
        source: io::Error,
    },
    /// The length given exceeds the buffer's size. Nothing was queued.
    #[error("{path:?}: write: {len} bytes of a buffer of {holds}")]
    Length {
        /// The file.
        path: PathBuf,
        /// The length given.
        len: usize,
        /// The buffer's size.
        holds: usize,
    },
}

impl Error {
    /// The kernel's error number behind it; `None` for a variant that stores no number.
    pub fn raw_os_error(&self) -> Option<i32> {
        match self {
            Error::Failed(failure) => failure.raw_os_error(),
            Error::Write { source, .. } => source.raw_os_error(),
            _ => None,
        }
    }
}
