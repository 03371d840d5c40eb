//! Errors: of the socket itself, refusals by the kernel, malformed answers.
//!
//! A [`Refusal`] is one refused request with its object; [`Error::Refused`] carries all of them.

use std::fmt;
use std::io;
use std::sync::Arc;

use netloom_sys::{Failure, Unsupported};

/// The object of failures that concern no request.
pub(crate) const SOCKET: &str = "netlink socket";

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of the netlink interface.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The kernel refused these requests; all others of the batch succeeded.
    #[error("{}", join(.0))]
    Refused(Vec<Refusal>),
    /// A table kept changing while it was listed.
    #[error("{table}: list: changed during each of {tries} tries")]
    Changing {
        /// The table.
        table: &'static str,
        /// Number of attempts.
        tries: u32,
    },
    /// The kernel's answer lacks required content.
    #[error("{object}: {operation}: answer of the kernel is not understood")]
    Answer {
        /// The object of the query.
        object: String,
        /// The query.
        operation: &'static str,
    },
    /// The system refused something other than a request, e.g. the socket itself or a file in proc.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// The kernel lacks something.
    #[error("{0}")]
    Unsupported(#[from] Unsupported),
}

impl Error {
    /// A feature that the kernel lacks, by the error that it gives, and what would provide it.
    pub(crate) fn unsupported(feature: &'static str, source: &io::Error, needs: &str) -> Self {
        let (reason, needs) = (source.to_string(), format!("needs {needs}"));
        Unsupported { feature, reason, needs }.into()
    }

    /// The refusals of [`Error::Refused`]; none for other errors.
    #[must_use]
    pub fn refusals(&self) -> &[Refusal] {
        match self {
            Self::Refused(refusals) => refusals,
            _ => &[],
        }
    }
}

/// One request that the kernel refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The object as the caller named it, e.g. `link "h1:eth0--r1:eth1"`.
    pub object: Arc<str>,
    /// The operation, e.g. `create`.
    pub operation: &'static str,
    /// The kernel's error number (positive, as in errno.h).
    pub errno: i32,
    /// The kernel's own explanation, if it gave one.
    pub explanation: Option<String>,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reason = io::Error::from_raw_os_error(self.errno);
        write!(f, "{}: {}: {reason}", self.object, self.operation)?;
        match &self.explanation {
            Some(text) => write!(f, ": {}", text.trim_end_matches(['.', '\n'])),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Refusal {}

fn join(refusals: &[Refusal]) -> String {
    refusals.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}
