//! What the kernel refused, with the object and the operation.

use std::io;
use std::path::PathBuf;

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An operation on the system that failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A path could not be used.
    #[error("{path:?}: {operation}")]
    Path {
        /// The path.
        path: PathBuf,
        /// What was tried.
        operation: &'static str,
        /// The refusal.
        #[source]
        source: io::Error,
    },
    /// A system call on something without a path.
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
    /// The kernel refused for a reason that can be told.
    #[error("{path:?}: {operation}: {reason}")]
    Refused {
        /// The path.
        path: PathBuf,
        /// What was tried.
        operation: &'static str,
        /// What is in the way, in words.
        reason: String,
        /// The refusal.
        #[source]
        source: io::Error,
    },
    /// The machine lacks something.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    /// A file of the kernel's did not read as documented.
    #[error("{path:?}: unexpected content {found:?}")]
    Content {
        /// The file.
        path: PathBuf,
        /// What was in it.
        found: String,
    },
}

/// A feature that this machine or this user does not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{feature}: not available here: {reason}; {needs}")]
pub struct Unsupported {
    /// The feature's name, as `doctor` lists it.
    pub feature: &'static str,
    /// What was seen.
    pub reason: String,
    /// What would allow it.
    pub needs: String,
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

    /// An error on a path.
    pub fn path(
        path: impl Into<PathBuf>,
        operation: &'static str,
        source: impl Into<io::Error>,
    ) -> Self {
        Error::Path { path: path.into(), operation, source: source.into() }
    }

    /// The kernel's error number behind it, if it was a refusal.
    pub fn raw_os_error(&self) -> Option<i32> {
        match self {
            Error::Path { source, .. }
            | Error::Call { source, .. }
            | Error::Refused { source, .. } => source.raw_os_error(),
            Error::Unsupported(_) | Error::Content { .. } => None,
        }
    }
}

/// An error and its source on one line.
pub fn with_source(error: &Error) -> String {
    use std::error::Error as _;
    error.source().map_or_else(|| error.to_string(), |s| format!("{error}: {s}"))
}
