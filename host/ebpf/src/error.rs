//! What the kernel or libbpf refused, with the object and the operation.

use std::io;
use std::path::PathBuf;

use netloom_sys::Unsupported;

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An operation on programs, maps or what they are attached to that failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The machine or the user lacks something.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    /// Programs were not taken by the kernel, though the user may load some.
    #[error("programs of {part}: load{}", after_colon(log))]
    Load {
        /// The part whose programs they are.
        part: &'static str,
        /// The last lines of what libbpf and the kernel's verifier said.
        log: String,
        /// The refusal.
        #[source]
        source: libbpf_rs::Error,
    },
    /// A map could not be read or written.
    #[error("map {map}: {operation}")]
    Map {
        /// The map's name.
        map: &'static str,
        /// What was tried.
        operation: &'static str,
        /// The refusal.
        #[source]
        source: libbpf_rs::Error,
    },
    /// A system call on something else.
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
    /// A group's folder could not be used.
    #[error("{path:?}: {operation}")]
    Path {
        /// The folder.
        path: PathBuf,
        /// What was tried.
        operation: &'static str,
        /// The refusal.
        #[source]
        source: io::Error,
    },
    /// A part is there already where it was to be made: it is to be reopened.
    #[error("{object}: {program} is attached already")]
    Exists {
        /// What it is attached to.
        object: String,
        /// The program.
        program: &'static str,
    },
    /// A program with our name has not the maps that ours have: another version made it.
    #[error("program {program}: has no map {map} of the expected form")]
    Foreign {
        /// The program.
        program: &'static str,
        /// The map that it lacks.
        map: &'static str,
    },
    /// Something that is not known to the part.
    #[error("{object}: {reason}")]
    Unknown {
        /// What was asked for.
        object: String,
        /// Why there is nothing.
        reason: &'static str,
    },
}

impl Error {
    pub(crate) fn call(
        object: impl Into<String>,
        operation: &'static str,
        source: impl Into<io::Error>,
    ) -> Self {
        Error::Call { object: object.into(), operation, source: source.into() }
    }
}

fn after_colon(log: &str) -> String {
    if log.is_empty() { String::new() } else { format!(": {log}") }
}

/// What those lack who may not load programs.
pub(crate) fn not_permitted(feature: &'static str) -> Unsupported {
    Unsupported {
        feature,
        reason: "the kernel does not let this user load BPF programs".to_owned(),
        needs: "run as root, or with CAP_BPF and CAP_NET_ADMIN".to_owned(),
    }
}
