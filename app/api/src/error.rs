//! What went wrong at either end, with the object and the operation.

use std::io;
use std::path::PathBuf;

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// A failure to serve, or of a call to a lab.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A socket could not be used.
    #[error("{path:?}: {operation}")]
    Socket {
        /// The socket's path.
        path: PathBuf,
        /// What was tried.
        operation: &'static str,
        /// The refusal.
        #[source]
        source: io::Error,
    },
    /// Something of the process could not be made.
    #[error("{object}: {operation}")]
    Process {
        /// What it was tried on.
        object: &'static str,
        /// What was tried.
        operation: &'static str,
        /// The refusal.
        #[source]
        source: io::Error,
    },
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
    /// The lab refused; its own words.
    #[error("{error}")]
    Refused {
        /// HTTP status: 404 no such lab, node, link or switch, 409 not as things stand, 501 not on this
        /// machine, 400 wrong request or setting, else 500.
        status: u16,
        /// Why.
        error: String,
    },
    /// No answer came in time.
    #[error("{path:?}: no answer to {request} in {seconds} s")]
    Late {
        /// The socket's path.
        path: PathBuf,
        /// What was asked.
        request: String,
        /// How long was waited.
        seconds: u64,
    },
    /// The lab process answers nothing at all: it is stopped, or hangs.
    #[error(
        "the lab process{} has not answered anything for {seconds} s; `netloom down`, or `netloom up` of its \
         file, ends it and goes on",
        .pid.map_or_else(String::new, |pid| format!(" (pid {pid})"))
    )]
    Silent {
        /// The lab process, where it can be seen.
        pid: Option<i32>,
        /// How long was waited.
        seconds: u64,
    },
    /// The lab process closed the connection before its answer was whole, as when it is killed.
    #[error("{path:?}: the lab process ended before it answered {request}")]
    Closed {
        /// The socket's path.
        path: PathBuf,
        /// What was asked.
        request: String,
    },
    /// The answer is not what this version understands.
    #[error("{path:?}: unexpected answer to {request}: {what}")]
    Answer {
        /// The socket's path.
        path: PathBuf,
        /// What was asked.
        request: String,
        /// What is wrong with the answer.
        what: String,
    },
}

impl Error {
    /// For `map_err` on operations on a socket.
    pub(crate) fn socket<E: Into<io::Error>>(
        path: impl Into<PathBuf>,
        operation: &'static str,
    ) -> impl FnOnce(E) -> Error {
        let path = path.into();
        move |source| Error::Socket { path, operation, source: source.into() }
    }

    /// For `map_err` on calls of the system edge on a socket.
    pub(crate) fn system(
        path: impl Into<PathBuf>,
        operation: &'static str,
    ) -> impl FnOnce(netloom_sys::Error) -> Error {
        let path = path.into();
        move |e| {
            let source = match e.raw_os_error() {
                Some(number) => io::Error::from_raw_os_error(number),
                None => io::Error::other(e.to_string()),
            };
            Error::Socket { path, operation, source }
        }
    }
}
