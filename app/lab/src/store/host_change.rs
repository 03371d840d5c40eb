//! Changes of the host that are undone when a lab is taken down.

use serde::{Deserialize, Serialize};

/// One change of the host, with what is needed to undo it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HostChange {
    /// A link was made: undone by deleting it.
    Link(String),
    /// An interface was made a port and raised: undone by releasing it, and setting it down if it was down.
    Port {
        /// Its name.
        iface: String,
        /// Whether it was up before.
        was_up: bool,
    },
    /// An interface was raised: undone by setting it down.
    Raised(String),
    /// A NAT table was made: undone by removing it.
    Nat(String),
    /// A sysctl was set: undone once no lab of the machine needs it any longer.
    Sysctl {
        /// Path below /proc/sys.
        path: String,
        /// Its value before any lab set it.
        old: String,
    },
}
