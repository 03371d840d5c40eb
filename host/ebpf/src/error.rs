//! Refusals by the kernel or libbpf, with the object and the operation.

use netloom_sys::{Failure, Unsupported};

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An operation on programs, maps or their targets failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The machine or the user lacks something.
    #[error("{0}")]
    Unsupported(#[from] Unsupported),
    /// The kernel rejected programs, though the user may load some.
    #[error("programs of {part}: load{}", after_colon(log))]
    Load {
        /// The part that the programs belong to.
        part: &'static str,
        /// The last lines of output of libbpf and the kernel's verifier.
        log: String,
        /// The kernel's error.
        #[source]
        source: libbpf_rs::Error,
    },
    /// The kernel refused.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// A part to be created exists already: reopen it instead.
    #[error("{object}: {program} is attached already")]
    Exists {
        /// The object to which it is attached.
        object: String,
        /// The program.
        program: &'static str,
    },
    /// A program of our name lacks our maps: another version made it.
    #[error("program {program}: has no map {map} of the expected form")]
    Foreign {
        /// The program.
        program: &'static str,
        /// The missing map.
        map: &'static str,
    },
    /// Something unknown to the part.
    #[error("{object}: {reason}")]
    Unknown {
        /// The request.
        object: String,
        /// Why it does not exist.
        reason: &'static str,
    },
}

fn after_colon(log: &str) -> String {
    if log.is_empty() { String::new() } else { format!(": {log}") }
}

/// The missing right of a user who may not load programs.
pub(crate) fn not_permitted(feature: &'static str) -> Unsupported {
    Unsupported {
        feature,
        reason: "the kernel does not let this user load BPF programs".to_owned(),
        needs: "run as root, or with CAP_BPF and CAP_NET_ADMIN".to_owned(),
    }
}
