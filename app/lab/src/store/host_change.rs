//! Changes of the host that are undone when a lab goes.

use serde::{Deserialize, Serialize};

/// One change of the host, as it is undone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HostChange {
    /// A link was made: it is deleted.
    Link(String),
    /// An interface was made a port and raised: it is released, and set down if it was.
    Port {
        /// Its name.
        iface: String,
        /// Whether it was up before.
        was_up: bool,
    },
    /// An interface was raised: it is set down.
    Raised(String),
    /// A table of NAT was made: it is removed.
    Nat(String),
    /// A sysctl was set: it gets its old value when no lab of the machine needs it any more.
    Sysctl {
        /// Path below /proc/sys.
        path: String,
        /// What it was before any lab set it.
        old: String,
    },
}
