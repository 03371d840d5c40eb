//! The kernel's refusals, with the object and the operation.

use std::io;
use std::path::PathBuf;

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An operation on the system that failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An operation on a path failed.
    #[error("{path:?}: {operation}")]
    Path {
        /// The path.
        path: PathBuf,
        /// The operation tried.
        operation: &'static str,
        /// The kernel's error.
        #[source]
        source: io::Error,
    },
    /// A system call on an object without a path failed.
    #[error("{object}: {operation}")]
    Call {
        /// The object.
        object: String,
        /// The operation tried.
        operation: &'static str,
        /// The kernel's error.
        #[source]
        source: io::Error,
    },
    /// The kernel refused for a known reason.
    #[error("{path:?}: {operation}: {reason}")]
    Refused {
        /// The path.
        path: PathBuf,
        /// The operation tried.
        operation: &'static str,
        /// The obstacle, in words.
        reason: String,
        /// The kernel's error.
        #[source]
        source: io::Error,
    },
    /// The machine lacks something.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    /// A kernel file does not have its documented format.
    #[error("{path:?}: unexpected content {found:?}")]
    Content {
        /// The file.
        path: PathBuf,
        /// Its content.
        found: String,
    },
}

/// A feature that this machine or this user does not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{feature}: not available here: {reason}; {needs}")]
pub struct Unsupported {
    /// The feature's name, as `doctor` lists it.
    pub feature: &'static str,
    /// What was observed.
    pub reason: String,
    /// What would provide it.
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

    /// The kernel's error number behind it; `None` if the kernel refused nothing.
    pub fn raw_os_error(&self) -> Option<i32> {
        match self {
            Error::Path { source, .. }
            | Error::Call { source, .. }
            | Error::Refused { source, .. } => source.raw_os_error(),
            Error::Unsupported(_) | Error::Content { .. } => None,
        }
    }
}
