//! Ports of switches: their names in rules, and the addresses at them.
//!
//! A link's port is named after the other end of the link if that is a node or an interface of the
//! host (`h1:eth0`, `host:eth1`), which no other link has; else after the link. Where ports have numbers, each has that
//! of the file, or the lowest that is free, in the order of the links; so has a link made later, and no number changes.

use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};

use super::hash::hash;
use super::names::{Names, end_name, names};
use super::{Plan, PlannedEnd, PlannedLink, PlannedNode, PlannedSwitch, Slot, SwitchSlot};
use crate::kinds::{PortEnd, SwitchKind};
use crate::lab::{End, Lab};

/// By switch: the ends of links on it, in the order of the links.
pub(crate) fn ends_of_switches(lab: &Lab) -> Vec<Vec<PortEnd>> {
    let names = names(lab);
    let mut all = vec![Vec::new(); lab.switches.len()];
    let mut given = vec![Vec::new(); lab.switches.len()];
    for (index, link) in lab.links.iter().enumerate() {
        for side in 0..2 {
            let End::Switch { switch } = link.ends[side] else { continue };
            let Some(ends) = all.get_mut(switch) else { continue };
            let other = &link.ends[1 - side];
            given[switch].push(link.numbers[side]);
            ends.push(PortEnd {
                port: port(lab, &names, index, 1 - side),
                number: 0,
                to: match other {
                    End::Node { node, .. } => lab.nodes[*node].name.clone(),
                    other => end_name(lab, other, None),
                },
                node: matches!(other, End::Node { .. }),
            });
        }
    }
    for (ends, given) in all.iter_mut().zip(given) {
        ends.iter_mut().zip(numbered(&given)).for_each(|(end, number)| end.number = number);
    }
    all
}

/// The numbers of a switch's ports in their order: those that are given, else the lowest that are free.
fn numbered(given: &[Option<u32>]) -> Vec<u32> {
    // Given numbers first, wherever they stand: an earlier port must not take a later one's.
    let taken: HashSet<u32> = given.iter().flatten().copied().collect();
    let mut free = (1..).filter(|number| !taken.contains(number));
    given.iter().map(|given| given.or_else(|| free.next()).unwrap_or(u32::MAX)).collect()
}

/// The name of the port whose link has this other end.
fn port(lab: &Lab, names: &Names, link: usize, other: usize) -> String {
    match &lab.links[link].ends[other] {
        end @ (End::Node { .. } | End::Host { .. }) => {
            end_name(lab, end, names.interfaces[link][other].as_deref())
        }
        End::Switch { .. } | End::Internet | End::Nowhere => names.links[link].clone(),
    }
}

/// Tells switches the addresses of the nodes' interfaces at their ports.
pub(super) fn fill_in_addresses(
    switches: &mut [PlannedSwitch],
    nodes: &[PlannedNode],
    links: &[PlannedLink],
) {
    for (index, switch) in switches.iter_mut().enumerate() {
        // Few switches ask, but those ask once per port: so links are traversed once per switch.
        let known: OnceCell<HashMap<String, [u8; 6]>> = OnceCell::new();
        let all = || {
            let ends = links.iter().filter_map(|link| node_on(link, SwitchSlot::new(index)));
            let named = ends.filter_map(|(node, at)| {
                let interface = nodes[node.get()].interfaces.get(at)?;
                Some((format!("{}:{}", nodes[node.get()].name, interface.name), interface.mac))
            });
            named.collect()
        };
        switch.kind.fill_in_addresses(|port| known.get_or_init(all).get(port).copied());
    }
}

/// The kind of a switch with the number that controllers know it by, where it has one.
pub(crate) fn with_number(lab: &str, switch: &str, mut kind: SwitchKind) -> SwitchKind {
    kind.fill_in_number(|| hash(&["datapath", lab, switch]));
    kind
}

/// Numbers the ports of switches that number them.
pub(super) fn number(switches: &[PlannedSwitch], links: &mut [PlannedLink]) {
    // In two passes: the free numbers are known when all given ones are.
    let mut given: Vec<Vec<Option<u32>>> = vec![vec![]; switches.len()];
    for end in links.iter().flat_map(|link| &link.ends) {
        if let PlannedEnd::Port { switch, .. } = end {
            given[switch.get()].push(end.given_number());
        }
    }
    let numbers: Vec<Vec<u32>> = given.iter().map(|given| numbered(given)).collect();
    let mut numbers: Vec<_> = numbers.iter().map(|numbers| numbers.iter()).collect();
    for end in links.iter_mut().flat_map(|link| &mut link.ends) {
        let PlannedEnd::Port { switch, number, .. } = end else { continue };
        let next = numbers[switch.get()].next().copied();
        *number = next.filter(|_| switches[switch.get()].kind.numbers_ports());
    }
}

impl Plan {
    /// The switch of a port that has a number, and that number.
    pub(crate) fn port_number(&self, end: &PlannedEnd) -> Option<(&str, u32)> {
        let PlannedEnd::Port { switch, number: Some(number), .. } = end else { return None };
        Some((self.switch_at(*switch)?.name.as_str(), *number))
    }
}

/// The number of a new port of a switch, if its ports have numbers.
pub(crate) fn free_number(plan: &Plan, of: SwitchSlot) -> Option<u32> {
    plan.switch_at(of).filter(|switch| switch.kind.numbers_ports())?;
    let taken: HashSet<u32> = plan
        .links
        .iter()
        .flat_map(|link| &link.ends)
        .filter_map(|end| match end {
            PlannedEnd::Port { switch, number, .. } if *switch == of => *number,
            _ => None,
        })
        .collect();
    (1..).find(|number| !taken.contains(number))
}

/// The node and interface at the other end of a link on this switch.
fn node_on(link: &PlannedLink, switch: SwitchSlot) -> Option<(Slot, usize)> {
    match &link.ends {
        [PlannedEnd::Node { node, interface }, PlannedEnd::Port { switch: of, .. }]
        | [PlannedEnd::Port { switch: of, .. }, PlannedEnd::Node { node, interface }]
            if *of == switch =>
        {
            Some((*node, *interface))
        }
        _ => None,
    }
}
