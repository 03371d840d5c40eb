//! Failures of server and client, with the object and the operation.

use std::io;
use std::path::{Path, PathBuf};

use netloom_sys::Failure;

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// A failure to serve, or of a call to a lab.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A socket could not be used, or a resource of the process not be created.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// Another process serves this folder.
    #[error("{0:?}: another process serves it")]
    Busy(PathBuf),
    /// Nobody serves this folder.
    #[error("{0:?}: no lab is running there")]
    NotRunning(PathBuf),
    /// The process that serves this folder belongs to another user.
    #[error("{path:?}: belongs to the user with id {uid}")]
    Stranger {
        /// The socket's path.
        path: PathBuf,
        /// The user, as seen from here.
        uid: u32,
    },
    /// The lab refused the request.
    #[error("{error}")]
    Refused {
        /// HTTP status: 404 no such lab, node, link or switch; 409 conflicts with the current state; 501 not
        /// supported on this machine; 400 invalid request or setting; otherwise 500.
        status: u16,
        /// The reason.
        error: String,
    },
    /// No answer arrived in time.
    #[error("{path:?}: no answer to {request} in {seconds} s")]
    Late {
        /// The socket's path.
        path: PathBuf,
        /// The request.
        request: String,
        /// How long the client waited.
        seconds: u64,
    },
    /// The lab process does not answer at all: it is stopped, or hangs.
    #[error(
        "the lab process{} has not answered anything for {seconds} s; `netloom down`, or `netloom up` of its \
         file, ends it and goes on",
        .pid.map_or_else(String::new, |pid| format!(" (pid {pid})"))
    )]
    Silent {
        /// The lab process, if visible.
        pid: Option<i32>,
        /// How long the client waited.
        seconds: u64,
    },
    /// The lab process closed the connection before its answer was complete, for example because it was
    /// killed.
    #[error("{path:?}: the lab process ended before it answered {request}")]
    Closed {
        /// The socket's path.
        path: PathBuf,
        /// The request.
        request: String,
    },
    /// This version does not understand the answer.
    #[error("{path:?}: unexpected answer to {request}: {what}")]
    Answer {
        /// The socket's path.
        path: PathBuf,
        /// The request.
        request: String,
        /// The fault of the answer.
        what: String,
    },
}

impl Error {
    /// For `map_err` on socket calls of the system layer: the kernel's own words are enough.
    pub(crate) fn system(
        path: impl AsRef<Path>,
        operation: &'static str,
    ) -> impl Fn(netloom_sys::Error) -> Failure {
        move |e| {
            let source = match e.raw_os_error() {
                Some(number) => io::Error::from_raw_os_error(number),
                None => io::Error::other(e.to_string()),
            };
            Failure::path(&path, operation, source)
        }
    }
}
