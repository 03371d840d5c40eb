//! The module `bgp`, with the plug-in `bgp.policy`: sessions within a system over loopbacks, by route reflectors if there
//! are any, and on every link between two systems.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::Ipv4Addr;

use super::keys::find;
use super::links::prefix;
use super::{Interface, Node, Nodes, is_stub};
use crate::at::At;

/// Gives nodes the numbers of their autonomous systems.
pub(super) fn systems(root: &At<'_>, nodes: &mut Nodes<'_>) {
    let mut listed: BTreeMap<String, (u32, bool)> = BTreeMap::new();
    for (number, at) in find(root, "bgp.as_list").iter().flat_map(At::entries) {
        let Ok(asn) = number.parse::<u32>() else {
            at.odd("the number of a system");
            continue;
        };
        at.get("name").iter().for_each(|at| at.changed("only for people"));
        for (key, is_reflector) in [("members", false), ("rr", true)] {
            for item in at.get(key).iter().flat_map(At::items) {
                let name = item.text().unwrap_or_default();
                match nodes.iter().any(|node| node.name == name) {
                    true => item.carried(),
                    false => item.left_out("there is no such node in the lab"),
                }
                let known = listed.entry(name.to_owned()).or_insert((asn, false));
                known.1 |= is_reflector;
            }
        }
    }
    for node in nodes.iter_mut().filter(|node| node.runs("bgp")) {
        let (asn, is_reflector) =
            listed.get(&node.name).map_or((None, false), |(asn, rr)| (Some(*asn), *rr));
        node.asn = node.layers.number("bgp.as").or(asn);
        node.is_reflector = node.layers.is("bgp.rr", is_reflector);
    }
}

/// A neighbour.
struct Session {
    address: Ipv4Addr,
    asn: u32,
    name: String,
    /// Lines of the address family.
    lines: Vec<String>,
}

/// Writes a router's process, and the policies of its neighbours.
pub(super) fn configure(nodes: &Nodes<'_>, number: usize, text: &mut String) {
    let node = &nodes[number];
    let Some(asn) = node.asn else { return };
    let mut maps = String::new();
    let mut sessions = inner(nodes, number, asn);
    for interface in &node.interfaces {
        sessions.extend(outer(nodes, (node, asn), interface, &mut maps));
    }
    let _ = writeln!(text, "router bgp {asn}");
    if let Some(id) = node.layers.router_id("bgp.router_id").or(node.router_id) {
        let _ = writeln!(text, " bgp router-id {id}");
    }
    // FRR would give other systems no route without a policy
    // (RFC 8212), and no network that it has no route of.
    text.push_str(" no bgp default ipv4-unicast\n no bgp ebgp-requires-policy\n no bgp network import-check\n");
    if let Some(preference) = node.layers.number("bgp.locpref") {
        let _ = writeln!(text, " bgp default local-preference {preference}");
    }
    for session in &sessions {
        let Session { address, asn: other, name, .. } = session;
        let _ = writeln!(text, " neighbor {address} remote-as {other}");
        let _ = writeln!(text, " neighbor {address} description {name}");
        // Sessions over loopbacks outlive a link; the neighbour expects this address.
        if *other == asn && node.loopback.is_some() {
            let _ = writeln!(text, " neighbor {address} update-source lo");
        }
    }
    text.push_str(" address-family ipv4 unicast\n");
    networks(nodes, node, text);
    for session in &sessions {
        for line in &session.lines {
            let _ = writeln!(text, "  neighbor {} {line}", session.address);
        }
    }
    let _ = write!(text, " exit-address-family\n!\n{maps}");
}

/// What a router tells of itself: its loopback, links without other routers, and what it is told to.
fn networks(nodes: &Nodes<'_>, node: &Node<'_>, text: &mut String) {
    let loopback = node.loopback.filter(|_| node.layers.is("bgp.advertise_loopback", true));
    let mut networks: Vec<String> = loopback.iter().map(|net| net.trunc().to_string()).collect();
    for interface in &node.interfaces {
        let ends = !interface.is_bridged && is_stub(interface, |peer| !nodes[peer].is_host);
        let is_stub = interface.is_single || ends;
        if interface.layers.is("bgp.advertise", is_stub) {
            networks.extend(prefix(interface).map(|net| net.to_string()));
        }
    }
    let mut away = vec![];
    for at in node.layers.nearest("bgp.originate").iter().flat_map(At::one_or_items) {
        match at.text().map(str::parse::<ipnet::Ipv4Net>) {
            Some(Ok(net)) => {
                away.push(net.trunc().to_string());
                at.carried();
            }
            _ => at.odd("a prefix of IPv4"),
        }
    }
    for network in networks.iter().chain(&away) {
        let _ = writeln!(text, "  network {network}");
    }
}

/// Sessions within the system: with everybody, or by reflectors.
fn inner(nodes: &Nodes<'_>, number: usize, asn: u32) -> Vec<Session> {
    let node = &nodes[number];
    let members = || nodes.iter().enumerate().filter(|(_, other)| other.asn == Some(asn));
    let reflected = members().any(|(_, other)| other.is_reflector);
    let mut sessions = vec![];
    for (_, other) in members().filter(|(other, _)| *other != number) {
        // What a client learns it has from its reflectors (RFC 4456).
        if reflected && !node.is_reflector && !other.is_reflector {
            continue;
        }
        let Some(address) = other.loopback.map(|net| net.addr()) else { continue };
        let mut lines = vec!["activate".to_owned()];
        if node.layers.is("bgp.next_hop_self", true) {
            // Links to other systems are in no IGP, so their addresses mean nothing further inside.
            lines.push("next-hop-self".to_owned());
        }
        if node.is_reflector && !other.is_reflector {
            lines.push("route-reflector-client".to_owned());
        }
        sessions.push(Session { address, asn, name: other.new.clone(), lines });
    }
    sessions
}

/// Sessions with other systems on a link, with their policies.
fn outer(
    nodes: &Nodes<'_>,
    (_, asn): (&Node<'_>, u32),
    interface: &Interface<'_>,
    maps: &mut String,
) -> Vec<Session> {
    let mut sessions = vec![];
    if interface.address.is_none() && !interface.is_unnumbered {
        return sessions;
    }
    let peers = interface.peers.iter().filter_map(|(peer, address)| Some((peer, (*address)?)));
    for (peer, address) in peers {
        let other = &nodes[*peer];
        let Some(theirs) = other.asn.filter(|theirs| *theirs != asn && other.runs("bgp")) else {
            continue;
        };
        let mut lines = vec!["activate".to_owned()];
        let name = format!("{}-{}", other.new, interface.name);
        policies(interface, asn, &name, &mut lines, maps);
        sessions.push(Session { address, asn: theirs, name: other.new.clone(), lines });
    }
    sessions
}

/// The plug-in's attributes of an interface.
fn policies(
    interface: &Interface<'_>,
    asn: u32,
    name: &str,
    lines: &mut Vec<String>,
    maps: &mut String,
) {
    let layers = &interface.layers;
    if let Some(weight) = layers.number("bgp.weight") {
        lines.push(format!("weight {weight}"));
    }
    let inward = layers.number("bgp.locpref").map(|n| format!("local-preference {n}"));
    let mut outward: Vec<String> = vec![];
    outward.extend(layers.number("bgp.med").map(|med| format!("metric {med}")));
    let count = |text: &str| text.parse::<usize>().ok().filter(|count| (1..=10).contains(count));
    let again = layers
        .parsed("bgp.prepend.count", "a number from 1 to 10", count)
        .map(|count| vec![asn.to_string(); count].join(" "));
    let path = |text: &str| {
        let is_path = !text.is_empty() && text.chars().all(|c| c.is_ascii_digit() || c == ' ');
        is_path.then(|| text.to_owned())
    };
    let path = layers.parsed("bgp.prepend.path", "numbers of systems", path).or(again);
    outward.extend(path.map(|path| format!("as-path prepend {path}")));
    for (way, sets) in [("in", inward.into_iter().collect()), ("out", outward)] {
        if sets.is_empty() {
            continue;
        }
        lines.push(format!("route-map {name}-{way} {way}"));
        let _ = writeln!(maps, "route-map {name}-{way} permit 10");
        sets.iter().for_each(|set| maps.push_str(&format!(" set {set}\n")));
        maps.push_str("!\n");
    }
}
