//! The text of `/etc/hosts`: every address of every node, so that `traceroute` shows names.
//!
//! A node's name stands only for its first address of each family, so that a lookup returns the one
//! to use; every further address is `INTERFACE.NODE`. A child is `NAME.PARENT` as in DNS.

use std::collections::{HashMap, HashSet};
use std::fmt::Write;
use std::net::IpAddr;

use super::PlannedNode;
use crate::naming::dotted;

/// The names that every hosts file begins with.
pub(super) const LOCALHOST: &str =
    "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n";

/// An address of a node, and the interface that has it.
pub type HostAddress<'a> = (&'a str, IpAddr);

/// The text of `/etc/hosts` for the planned addresses of nodes.
pub(super) fn hosts(nodes: &[PlannedNode]) -> String {
    text(nodes, |_| None)
}

/// The same; `known` has the current addresses of nodes that have changed, in order.
pub(super) fn text<'a>(
    nodes: &'a [PlannedNode],
    known: impl Fn(&'a PlannedNode) -> Option<Vec<HostAddress<'a>>>,
) -> String {
    let names: Vec<String> = nodes.iter().map(|node| dotted(&node.name)).collect();
    let taken: HashSet<&str> = names.iter().map(String::as_str).collect();
    let mut text = String::from(LOCALHOST);
    let aliases = aliases(nodes, &taken);
    for ((node, name), alias) in nodes.iter().zip(&names).zip(aliases) {
        let addresses = known(node).unwrap_or_else(|| planned(node));
        let mut known = HashSet::new();
        for (interface, address) in addresses {
            // Writing into a string does not fail.
            let _ = match known.insert(address.is_ipv4()) {
                true => writeln!(text, "{address}\t{name}{alias}"),
                false => writeln!(text, "{address}\t{}", further(interface, name, &taken)),
            };
        }
    }
    text
}

/// By node: its host name by hand with a space before it, where no other node is called so; else nothing.
fn aliases(nodes: &[PlannedNode], taken: &HashSet<&str>) -> Vec<String> {
    let mut count: HashMap<&str, usize> = HashMap::new();
    for name in nodes.iter().filter_map(|node| node.hostname.as_deref()) {
        *count.entry(name).or_default() += 1;
    }
    // The C library takes the first line with a name: one for two nodes would hide the second.
    let alone =
        |name: &&str| count.get(name) == Some(&1) && !taken.contains(name) && *name != "localhost";
    let alias = |node: &PlannedNode| {
        let name = node.hostname.as_deref().filter(|name| alone(name));
        name.map_or_else(String::new, |name| format!(" {name}"))
    };
    nodes.iter().map(alias).collect()
}

fn planned(node: &PlannedNode) -> Vec<HostAddress<'_>> {
    let of =
        |i: &'_ super::Interface| i.addresses.iter().map(ipnet::IpNet::addr).collect::<Vec<_>>();
    let named = node.interfaces.iter().map(|i| (i.name.as_str(), of(i)));
    let of_interfaces =
        named.flat_map(|(name, all)| all.into_iter().map(move |address| (name, address)));
    of_interfaces.chain(node.loopback.iter().map(|net| ("lo", net.addr()))).collect()
}

/// The name of a node's further address: never a node's name, and nothing that would end the line.
fn further(interface: &str, node: &str, taken: &HashSet<&str>) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let label: String = interface.chars().map(|c| if fits(c) { c } else { '-' }).collect();
    let numbers = std::iter::once(String::new()).chain((2..).map(|n: u32| format!("-{n}")));
    let mut names = numbers.map(|number| format!("{label}{number}.{node}"));
    names.find(|name| !taken.contains(name.as_str())).unwrap_or_default()
}
