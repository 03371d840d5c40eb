//! The module `ospf`: a process on the loopback and on every link within the autonomous system.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::keys::{Layers, find};
use super::{Interface, Node, Nodes, is_external};
use crate::at::At;

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
    let own = node.layers.text("ospf.router_id").map(str::to_owned);
    if let Some(id) = own.or(node.router_id.map(|id| id.to_string())) {
        let _ = writeln!(text, " ospf router-id {id}");
    }
    if let Some(bandwidth) = node.layers.number("ospf.reference_bandwidth") {
        let _ = writeln!(text, " auto-cost reference-bandwidth {bandwidth}");
    }
    node.layers.nearest("ospf.process").iter().for_each(|at| at.changed("FRR has one process"));
    text.push_str("!\n");
}

fn area<'a>(layers: &Layers<'a>) -> Option<&'a str> {
    let is_area = |c: char| c.is_ascii_digit() || c == '.';
    layers.text("ospf.area").filter(|text| !text.is_empty() && text.chars().all(is_area))
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
                let _ = writeln!(lines, " bandwidth {}", (kilobits / 1000).clamp(1, 100_000));
                bandwidth.changed("what OSPF reckons with, no rate; `tc.rate` is one");
            }
            None => bandwidth.odd("a number of kilobits a second"),
        }
    }
    let off = layers.0.iter().find_map(|at| find(at, "ospf")).filter(|at| at.text().is_some());
    off.iter().for_each(At::carried);
    if off.is_some() || is_external(nodes, node, interface) {
        return;
    }
    let _ = writeln!(lines, " ip ospf area {}", area(layers).unwrap_or(usual));
    let kind = layers.text("ospf.network_type");
    if let Some(kind) = kind.or(interface.is_pair.then_some("point-to-point")) {
        let _ = writeln!(lines, " ip ospf network {kind}");
    }
    if layers.is("ospf.passive", interface.is_stub) {
        lines.push_str(" ip ospf passive\n");
    }
    if let Some(cost) = layers.number("ospf.cost") {
        let _ = writeln!(lines, " ip ospf cost {cost}");
    }
}
