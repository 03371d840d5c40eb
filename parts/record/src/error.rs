//! Errors of recordings.

use netloom_sys::Failure;

/// Why a recording is not written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// This lab was never recorded.
    #[error("lab {lab:?}: nothing of it was recorded; start with `netloom record start -l {lab}`")]
    None {
        /// The lab.
        lab: String,
    },
    /// Another process records it.
    #[error(
        "lab {lab:?}: it is recorded already{}; `netloom record stop -l {lab}` ends that",
        pid.map(|pid| format!(" by process {pid}")).unwrap_or_default()
    )]
    Busy {
        /// The lab.
        lab: String,
        /// The process, if it can be seen.
        pid: Option<i32>,
    },
    /// What was recorded is of another lab of this name, which is there.
    #[error(
        "lab {lab:?}: {folder:?} has the recording of another lab of this name, which is in {other:?}; take that down, or set NETLOOM_DATA_DIR for one of them"
    )]
    Another {
        /// The name of both.
        lab: String,
        /// The recording.
        folder: std::path::PathBuf,
        /// The other lab's folder.
        other: std::path::PathBuf,
    },
    /// A question that cannot be answered.
    #[error("{0}")]
    Question(String),
    /// libpcap is missing.
    #[error(transparent)]
    Libpcap(#[from] netloom_libpcap::Error),
    /// A folder that cannot be trusted, and the like.
    #[error(transparent)]
    Sys(#[from] netloom_sys::Error),
    /// A system call failed.
    #[error(transparent)]
    Failed(#[from] Failure),
}

/// The result of an operation on a recording.
pub type Result<T> = std::result::Result<T, Error>;
