//! The sysctls that make a node behave alike on every host.
//!
//! A new namespace copies the IPv4 settings of the host (`devinet_init_net`), so all relevant ones
//! are written. IPv6 starts from the kernel's own values (`addrconf_init_net`) unless
//! `net.core.devconf_inherit_init_net` says otherwise, so only settings that differ from them, follow a
//! boot parameter (`disable_ipv6`) or decide who forwards are written. Left out: settings that one of
//! these implies (`default` by IPv6's `all/forwarding` and `all/disable_ipv6`), those without
//! effect beside one of these (`autoconf` without `accept_ra`; `all/accept_dad`, which is 0, and
//! `all/accept_ra`, which the kernel ignores), and `ping_group_range`, which a user namespace refuses
//! for groups it does not map. They are written before the node has interfaces, because an
//! interface copies `default` when it is made.

use std::sync::Arc;

use super::hash::hash;
use super::{PlannedNode, Route};
use crate::lab::Node;

/// Sets both `all` and `default`, because the kernel uses the stricter or looser of the two.
const IPV4_OFF: [&str; 5] =
    ["rp_filter", "accept_redirects", "send_redirects", "arp_ignore", "arp_announce"];

/// netloom's own, then the file's, as paths below `/proc/sys/`.
pub(crate) fn sysctls(node: &Node) -> Vec<(String, String)> {
    let word = |on| if on { "1" } else { "0" };
    let [four, six] = [word(node.forwarding.ipv4()), word(node.forwarding.ipv6())];
    let mut list = vec![
        // First, because changing it resets others, such as accept_redirects.
        ("net/ipv4/ip_forward".to_owned(), four),
        // It follows ip_forward only when that changes.
        ("net/ipv4/conf/default/forwarding".to_owned(), four),
    ];
    for name in IPV4_OFF {
        list.extend(["all", "default"].map(|of| (format!("net/ipv4/conf/{of}/{name}"), "0")));
    }
    let ipv6 = [
        ("all/disable_ipv6", "0"),
        ("all/forwarding", six),
        ("default/accept_dad", "0"),
        ("default/accept_ra", "0"),
        ("default/accept_redirects", "0"),
    ];
    list.extend(ipv6.map(|(path, value)| (format!("net/ipv6/conf/{path}"), value)));
    let own = list.into_iter().map(|(path, value)| (path, value.to_owned()));
    own.chain(node.sysctls.iter().map(|(key, value)| (path(key), value.clone()))).collect()
}

/// Bits of `fib_multipath_hash_fields` (ip-sysctl.rst): addresses 1 and 2, protocol 4, ports 16 and 32.
const FLOW_FIELDS: &str = "55";

/// The sysctls of a node with several next hops: it hashes flows by addresses, protocol and ports (the
/// kernel's default, addresses and IPv6's flow label, sends all IPv4 traffic of two hosts one way), with a seed of its own.
/// The flows that one router sends to the next share a part of the first one's hash: with an equal hash
/// they would all leave by one path.
///
/// Every kernel has policy 1. It uses the hash that the sender's socket gave a packet, which
/// is the same at every router; policy 3 (Linux 5.13) does not. The seed exists since Linux 6.11.
pub(crate) fn of_several_ways(name: &str, routes: &[Route]) -> Vec<(String, String)> {
    let several = |ipv4: bool| {
        routes.iter().any(|route| route.to.addr().is_ipv4() == ipv4 && !route.also.is_empty())
    };
    of_families(name, [several(true), several(false)])
}

/// The number of netloom's own in a node's list.
pub(super) fn number_of_own(node: &PlannedNode) -> usize {
    let plain = Node { spec: Arc::clone(&node.spec), ..Node::default() };
    sysctls(&plain).len() + of_several_ways(&node.name, &node.routes).len()
}

/// Removes them from a node's list, whatever its current routes; returns their position.
pub(crate) fn take_out_several_ways(node: &mut PlannedNode) -> usize {
    let plain = Node { spec: Arc::clone(&node.spec), ..Node::default() };
    let own = sysctls(&plain).len().min(node.sysctls.len());
    for families in [[true, true], [true, false], [false, true]] {
        let list = of_families(&node.name, families);
        // The list as a whole is compared: the file may set one of these keys itself, and that must
        // stay.
        if node.sysctls[own..].starts_with(&list) {
            node.sysctls.drain(own..own + list.len());
            break;
        }
    }
    own
}

/// The same for routes of IPv4, and of IPv6, with several next hops.
fn of_families(name: &str, several: [bool; 2]) -> Vec<(String, String)> {
    let mut list = Vec::new();
    for (family, _) in ["ipv4", "ipv6"].into_iter().zip(several).filter(|(_, several)| *several) {
        let mut add = |prefix: &str, key: &str, value: &str| {
            let path = format!("{prefix}net/{family}/fib_multipath_hash_{key}");
            list.push((path, value.to_owned()));
        };
        add("", "policy", "1");
        add("-", "fields", FLOW_FIELDS);
        add("-", "policy", "3");
    }
    if !list.is_empty() {
        // 31 bits, and never 0, which means the kernel's choice. It applies to both families.
        let seed = (hash(&["flows", name]) >> 33) | 1;
        list.push(("-net/ipv4/fib_multipath_hash_seed".to_owned(), seed.to_string()));
    }
    list
}

/// `net.ipv4.tcp_ecn` as a path. A key with a slash is already a path, so that `eth0.1` can be named.
fn path(key: &str) -> String {
    if key.contains('/') { key.to_owned() } else { key.replace('.', "/") }
}

/// Whether a sysctl path belongs to one interface, `net/ipv4/conf/eth0/…`, and so can be written
/// only when the interface exists. All others are written before.
pub fn is_of_an_interface(path: &str) -> bool {
    let mut parts = path.split('/');
    let family = parts.next() == Some("net") && matches!(parts.next(), Some("ipv4" | "ipv6"));
    let per_interface = matches!(parts.next(), Some("conf" | "neigh"));
    family && per_interface && !matches!(parts.next(), None | Some("all" | "default" | "lo"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forwarding::{Forwarding, OneFamily};
    use crate::lab::NodeSpec;

    #[test]
    fn forwarding_comes_first_and_the_files_own_last() {
        let with = |forwarding| Node::from(NodeSpec { forwarding, ..NodeSpec::default() });
        let mut node = with(Forwarding::Both(true));
        node.sysctls.insert("net.ipv4.tcp_ecn".into(), "1".into());
        node.sysctls.insert("net/ipv4/conf/eth0.1/rp_filter".into(), "2".into());
        let list = sysctls(&node);
        assert_eq!(list[0], ("net/ipv4/ip_forward".into(), "1".into()));
        let own = &list[list.len() - 2..];
        assert_eq!(own[0], ("net/ipv4/tcp_ecn".into(), "1".into()));
        assert_eq!(own[1].0, "net/ipv4/conf/eth0.1/rp_filter");
        assert_eq!(sysctls(&Node::default())[0].1, "0");
        let six = with(Forwarding::Only(OneFamily::Ipv6));
        let list = sysctls(&six);
        let value = |path: &str| list.iter().find(|(p, _)| p == path).map(|(_, v)| v.as_str());
        assert_eq!(value("net/ipv4/ip_forward"), Some("0"));
        assert_eq!(value("net/ipv6/conf/all/forwarding"), Some("1"));
    }

    #[test]
    fn sysctls_of_one_interface_are_told_apart() {
        assert!(is_of_an_interface("net/ipv4/conf/eth0/rp_filter"));
        assert!(is_of_an_interface("net/ipv6/neigh/eth0.1/ucast_solicit"));
        assert!(!is_of_an_interface("net/ipv4/conf/all/rp_filter"));
        assert!(!is_of_an_interface("net/ipv4/neigh/default/gc_thresh3"));
        assert!(!is_of_an_interface("net/ipv4/tcp_ecn"));
    }
}
