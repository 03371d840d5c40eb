//! Failures of connections, with the object and the operation.

use netloom_sys::Failure;

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failure to make or to watch a connection.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The system refused.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// The request cannot be done: files of TLS, a thread that has ended.
    #[error("{0}")]
    Refused(String),
}

impl Error {
    pub(crate) fn refused(reason: impl Into<String>) -> Self {
        Error::Refused(reason.into())
    }
}

/// Failures of the edge to Linux are those of the system here.
impl From<netloom_sys::Error> for Error {
    fn from(error: netloom_sys::Error) -> Error {
        Failure::new("connection", "ask the system", error).into()
    }
}
