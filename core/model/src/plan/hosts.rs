//! The text of `/etc/hosts`: every node by name, a child as `NAME.PARENT` as in DNS.

use std::fmt::Write;

use super::PlannedNode;

/// `a/b/c` as `c.b.a`: what a node is called in `/etc/hosts`.
pub(crate) fn dotted(name: &str) -> String {
    name.rsplit('/').collect::<Vec<_>>().join(".")
}

/// The text of `/etc/hosts`.
pub(super) fn hosts(nodes: &[PlannedNode]) -> String {
    let mut text =
        String::from("127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n");
    for node in nodes {
        let name = dotted(&node.name);
        // Writing into a string does not fail.
        if let Some(address) = node.ipv4() {
            let _ = writeln!(text, "{address}\t{name}");
        }
        if let Some(address) = node.ipv6() {
            let _ = writeln!(text, "{address}\t{name}");
        }
    }
    text
}
