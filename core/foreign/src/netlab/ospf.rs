//! The module `ospf`: a process on the loopback and on every link within the autonomous system.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::Ipv4Addr;

use super::keys::{Layers, find};
use super::{Interface, Node, Nodes, is_external, is_stub};
use crate::at::At;

/// Kinds of networks.
const NETWORKS: [&str; 4] = ["broadcast", "non-broadcast", "point-to-point", "point-to-multipoint"];

/// The area where nothing names one.
const BACKBONE: &str = "0.0.0.0";

/// Writes what a router says on its interfaces, and its process.
pub(super) fn configure(
    nodes: &Nodes<'_>,
    node: &Node<'_>,
    interfaces: &mut BTreeMap<String, String>,
    text: &mut String,
) {
    let area = area(&node.layers).unwrap_or(BACKBONE);
    if node.loopback.is_some() {
        let _ = writeln!(interfaces.entry("lo".into()).or_default(), " ip ospf area {area}");
    }
    for interface in &node.interfaces {
        let lines = interfaces.entry(interface.name.clone()).or_default();
        on(nodes, node, interface, area, lines);
    }
    text.push_str("router ospf\n");
    if let Some(id) = node.layers.router_id("ospf.router_id").or(node.router_id) {
        let _ = writeln!(text, " ospf router-id {id}");
    }
    if let Some(bandwidth) = node.layers.number("ospf.reference_bandwidth") {
        let _ = writeln!(text, " auto-cost reference-bandwidth {bandwidth}");
    }
    node.layers.nearest("ospf.process").iter().for_each(|at| at.changed("FRR has one process"));
    text.push_str("!\n");
}

fn area<'a>(layers: &Layers<'a>) -> Option<&'a str> {
    let is_area = |text: &str| text.parse::<u32>().is_ok() || text.parse::<Ipv4Addr>().is_ok();
    layers.parsed("ospf.area", "an area: a number, or as an address", |text| {
        is_area(text).then_some(text)
    })
}

/// How OSPF sees a network, as FRR calls it.
fn kind<'a>(layers: &Layers<'a>) -> Option<&'a str> {
    let known = |text: &&str| NETWORKS.contains(text);
    layers.parsed("ospf.network_type", "a kind of network that FRR knows", |text| {
        Some(text).filter(known)
    })
}

/// Whether a router speaks it on an interface.
fn is_on(nodes: &Nodes<'_>, node: &Node<'_>, interface: &Interface<'_>) -> bool {
    let layers = &interface.layers;
    let off = layers.0.iter().find_map(|at| find(at, "ospf")).filter(|at| at.text().is_some());
    off.iter().for_each(At::carried);
    let has_address = interface.address.is_some()
        || interface.is_unnumbered && (node.loopback.is_some() || interface.peers.len() == 1);
    let external = match interface.role {
        Some(role) => role == "external",
        None => is_external(nodes, node, interface),
    };
    off.is_none() && has_address && !external
}

/// Whether a router speaks it anywhere but on its loopback.
pub(super) fn is_used(nodes: &Nodes<'_>, node: &Node<'_>) -> bool {
    node.interfaces.iter().any(|interface| is_on(nodes, node, interface))
}

fn on(
    nodes: &Nodes<'_>,
    node: &Node<'_>,
    interface: &Interface<'_>,
    usual: &str,
    lines: &mut String,
) {
    let layers = &interface.layers;
    if let Some(bandwidth) = layers.nearest("bandwidth") {
        match bandwidth.text().and_then(|text| text.parse::<u32>().ok()) {
            Some(kilobits) => {
                // FRR takes megabits.
                let _ = writeln!(lines, " bandwidth {}", (kilobits / 1000).clamp(1, 100_000));
                bandwidth.changed("what OSPF reckons with, no rate; `tc.rate` is one");
            }
            None => bandwidth.odd("a number of kilobits a second"),
        }
    }
    if !is_on(nodes, node, interface) {
        return;
    }
    let _ = writeln!(lines, " ip ospf area {}", area(layers).unwrap_or(usual));
    let off = layers.nearest("ospf.network_type").filter(|at| at.text() == Some("false"));
    off.iter().for_each(At::carried);
    // A bridge is a neighbour of its own.
    let others = interface.peers.len() + usize::from(interface.is_bridged);
    let usual = (others == 1).then_some("point-to-point");
    let kind = if off.is_some() { None } else { kind(layers).or(usual) };
    if let Some(kind) = kind {
        let _ = writeln!(lines, " ip ospf network {kind}");
    }
    let alone = interface.is_single || interface.role == Some("passive");
    let is_stub = alone || is_stub(interface, |peer| nodes[peer].runs("ospf"));
    let own = layers.nearest("ospf.passive").or_else(|| node.layers.nearest("ospf.passive"));
    own.iter().for_each(At::carried);
    if own.map_or(is_stub, |at| at.is_true()) {
        lines.push_str(" ip ospf passive\n");
    }
    if let Some(cost) = layers.number("ospf.cost") {
        let _ = writeln!(lines, " ip ospf cost {cost}");
    }
}
