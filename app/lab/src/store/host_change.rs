//! Changes of the host that are undone when a lab is taken down, and the names by which netloom makes them.
//!
//! A change that is read from a state is undone only if it is one of these: no state makes netloom write to another
//! setting, or remove another link or table.

use serde::{Deserialize, Serialize};

/// The host's kernel settings that labs set, below `/proc/sys`; `*` is the name of an interface.
pub(crate) mod settings {
    /// Forwarding, of IPv4 and IPv6.
    pub(crate) const FORWARDING: [&str; 2] =
        ["net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding"];

    /// Limits of the kernel's tables of learnt neighbours, which all namespaces share; by family (arp(7)). Above the first
    /// the kernel looks for old entries with each new one, and above the second it refuses new ones.
    pub(crate) const NEIGHBOURS: [[&str; 2]; 2] = [
        ["net/ipv4/neigh/default/gc_thresh2", "net/ipv4/neigh/default/gc_thresh3"],
        ["net/ipv6/neigh/default/gc_thresh2", "net/ipv6/neigh/default/gc_thresh3"],
    ];

    /// Whether a setting is a limit, which labs raise by what each needs.
    pub(crate) fn is_limit(path: &str) -> bool {
        NEIGHBOURS.as_flattened().contains(&path)
    }

    const OF_INTERFACES: [&str; 2] = ["net/ipv4/conf/*/forwarding", "net/ipv6/conf/*/accept_ra"];

    /// Forwarding of IPv4 from an interface.
    pub(crate) fn forwarding(iface: &str) -> String {
        OF_INTERFACES[0].replace('*', iface)
    }

    /// Whether an interface takes router advertisements.
    pub(crate) fn accept_ra(iface: &str) -> String {
        OF_INTERFACES[1].replace('*', iface)
    }

    /// Whether labs set it.
    pub(crate) fn are_ours(path: &str) -> bool {
        let of_interface = |pattern: &str| {
            let (before, after) = pattern.split_once('*').unwrap_or((pattern, ""));
            let name = path.strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
            name.is_some_and(|name| {
                super::is_interface(name) && !["all", "default"].contains(&name)
            })
        };
        FORWARDING.contains(&path) || is_limit(path) || OF_INTERFACES.into_iter().any(of_interface)
    }
}

/// The beginning of the names of netloom's links on the host.
pub(crate) const MARK: &str = "nl";

/// The kinds of links on the host, which follow the mark: bridges, their ports, ends of doors to the internet.
pub(crate) const BRIDGE: char = 'b';
pub(crate) const PORT: char = 'h';
pub(crate) const DOOR: char = 'i';

/// Digits of the lab's hash in the name of a link, and of a table.
pub(crate) const LINK_HASH: usize = 7;
const TABLE_HASH: usize = 8;

/// Most bytes of the name of an interface.
const LONGEST: usize = 15;

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
        /// By how much a limit is raised for this lab; other settings have none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        more: Option<u32>,
    },
}

impl HostChange {
    /// Whether netloom makes such changes.
    pub(crate) fn is_ours(&self) -> bool {
        match self {
            HostChange::Link(name) => is_own_link(name),
            HostChange::Port { iface, .. } | HostChange::Raised(iface) => is_interface(iface),
            HostChange::Nat(table) => {
                let hash = table.strip_prefix(netloom_netlink::nat::TABLE_PREFIX);
                hash.is_some_and(|hash| hash.len() == TABLE_HASH && is_hexadecimal(hash))
            }
            HostChange::Sysctl { path, old, more } if settings::is_limit(path) => {
                more.is_some() && old.parse::<u32>().is_ok()
            }
            HostChange::Sysctl { path, old, .. } => {
                settings::are_ours(path) && old.parse::<u8>().is_ok()
            }
        }
    }

    /// Whether a limit was raised.
    pub(crate) fn is_limit(&self) -> bool {
        matches!(self, HostChange::Sysctl { path, .. } if settings::is_limit(path))
    }
}

fn is_own_link(name: &str) -> bool {
    let rest = name.strip_prefix(MARK).and_then(|rest| rest.strip_prefix([BRIDGE, PORT, DOOR]));
    rest.is_some_and(|rest| rest.len() > LINK_HASH && is_hexadecimal(rest)) && is_interface(name)
}

/// Whether this is a name that the kernel gives an interface.
fn is_interface(name: &str) -> bool {
    let fits = (1..=LONGEST).contains(&name.len()) && name != "." && name != "..";
    fits && !name.contains(|c: char| c == '/' || c == ':' || c.is_whitespace() || c.is_control())
}

fn is_hexadecimal(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sysctl(path: &str, old: &str) -> HostChange {
        HostChange::Sysctl { path: path.to_owned(), old: old.to_owned(), more: None }
    }

    #[test]
    fn what_doors_change_is_ours() {
        for path in settings::FORWARDING.map(str::to_owned).into_iter().chain([
            settings::forwarding("eth0.7"),
            settings::accept_ra("enp0s31f6"),
            settings::forwarding("nli12345670"),
        ]) {
            assert!(sysctl(&path, "0").is_ours(), "{path}");
        }
        let port = |iface: &str| HostChange::Port { iface: iface.to_owned(), was_up: true };
        for change in [
            HostChange::Link("nlb12345670".into()),
            HostChange::Link("nlhabcdef012ff".into()),
            HostChange::Link("nli12345671".into()),
            HostChange::Nat("netloom-4547e752".into()),
            HostChange::Raised("eth1".into()),
            port("eth1"),
        ] {
            assert!(change.is_ours(), "{change:?}");
        }
    }

    #[test]
    fn nothing_else_is_whatever_a_state_says() {
        for path in [
            "",
            "kernel/core_pattern",
            "net/ipv4/conf/../../../kernel/core_pattern",
            "net/ipv4/conf/../forwarding",
            "net/ipv4/conf//forwarding",
            "net/ipv4/conf/a/b/forwarding",
            "net/ipv4/conf/all/forwarding",
            "net/ipv6/conf/default/accept_ra",
            "net/ipv4/conf/eth0/forwarding/",
            "net/ipv4/conf/eth0/accept_ra",
            "net/ipv4/conf/forwarding",
            "../../etc/passwd",
            "/etc/passwd",
        ] {
            assert!(!sysctl(path, "1").is_ours(), "{path}");
        }
        for old in ["", "|/tmp/x", "1 1", "-1", "256"] {
            assert!(!sysctl("net/ipv4/ip_forward", old).is_ours(), "{old}");
        }
        for name in
            ["eth0", "docker0", "nl", "nlb1234567", "nlb1234567g", "nlx12345670", "nlb12345670/1"]
        {
            assert!(!HostChange::Link(name.into()).is_ours(), "{name}");
        }
        for table in ["filter", "netloom-", "netloom-outside", "netloom-4547e7521"] {
            assert!(!HostChange::Nat(table.into()).is_ours(), "{table}");
        }
        assert!(!HostChange::Raised("a b".into()).is_ours());
    }
}
