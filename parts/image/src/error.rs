//! Failures of making an image.

use netloom_sys::{Failure, Unsupported};

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failure of making an image.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The system refused.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// A program is missing.
    #[error("{0}")]
    Unsupported(#[from] Unsupported),
    /// apt refused; its words name the package.
    #[error("packages: {operation}: {said}")]
    Apt {
        /// What it was to do.
        operation: &'static str,
        /// Its errors.
        said: String,
    },
    /// No name of a package.
    #[error("package {0:?}: no package has such a name")]
    Name(String),
    /// Another process builds there.
    #[error("image {0:?}: is being built by another process")]
    Busy(std::path::PathBuf),
    /// The packages have no kernel, or more than one.
    #[error("kernel: the packages have {0} kernels, not one")]
    Kernels(usize),
}
