//! Errors of this crate, and the feature that a machine lacks.

use std::error::Error as StdError;
use std::io;
use std::iter::successors;
use std::path::PathBuf;

use crate::Failure;

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An operation on the system that failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The kernel refused.
    #[error(transparent)]
    Failed(#[from] Failure),
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
    /// A folder that others than this user and root can fill or exchange.
    #[error("{path:?}: {reason}")]
    Untrusted {
        /// The folder, or one above it.
        path: PathBuf,
        /// The user or program that can, in words.
        reason: String,
    },
    /// The machine lacks something.
    #[error("{0}")]
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
///
/// A variant of another error that holds one shows it by `"{0}"`: a transparent variant would hide it from the chain of
/// sources, in which [`Unsupported::behind`] looks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{feature}: not available here: {reason}; {needs}")]
pub struct Unsupported {
    /// The feature's name, as `doctor` lists it.
    pub feature: &'static str,
    /// The observation.
    pub reason: String,
    /// What would provide it.
    pub needs: String,
}

impl Unsupported {
    /// The missing feature, if that is behind the error at any depth.
    pub fn behind<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a Unsupported> {
        successors(Some(error), |cause| (**cause).source()).find_map(|cause| cause.downcast_ref())
    }
}

impl Error {
    /// The kernel's error number behind it; `None` if the kernel refused nothing.
    pub fn raw_os_error(&self) -> Option<i32> {
        match self {
            Error::Failed(failure) => failure.raw_os_error(),
            Error::Refused { source, .. } => source.raw_os_error(),
            Error::Untrusted { .. } | Error::Unsupported(_) | Error::Content { .. } => None,
        }
    }
}
