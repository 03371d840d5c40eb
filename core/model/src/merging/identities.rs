//! The target: the wanted plan, with the identities of objects that stay, and new ones for added objects.
//!
//! Names and hardware addresses in the core namespace are identities, too: two plans may give the same substitute name to
//! different objects.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::{Fates, Machine};
use crate::difference::Kind;
use crate::plan::form::next_index;
use crate::plan::mac::Macs;
use crate::plan::names::CoreNames;
use crate::plan::{
    Interface, LinkId, LinkSlot, NodeId, Plan, PlannedEnd, PlannedLink, PlannedNode, PlannedSwitch,
    Slot,
};

/// What of the running plan stands for what of the wanted one.
pub(super) struct Named {
    /// By slot of the wanted plan: the slot of the running one.
    nodes: Vec<Option<Slot>>,
    links: Vec<Option<LinkSlot>>,
    switches: Vec<Option<usize>>,
}

impl Named {
    pub(super) fn of(fates: &Fates<'_>, running: &Plan, wanted: &Plan) -> Named {
        let nodes: BTreeMap<&str, Slot> =
            running.slots().zip(&running.nodes).map(|(at, n)| (n.name.as_str(), at)).collect();
        let links: BTreeMap<&str, LinkSlot> =
            running.link_slots().zip(&running.links).map(|(at, l)| (l.name.as_str(), at)).collect();
        let staying = |kind, name: &str| fates.stays(kind, name);
        let node = |node: &PlannedNode| {
            nodes.get(node.name.as_str()).copied().filter(|_| staying(Kind::Node, &node.name))
        };
        let link = |link: &PlannedLink| {
            links.get(link.name.as_str()).copied().filter(|_| staying(Kind::Link, &link.name))
        };
        let switches: BTreeMap<&str, usize> =
            running.switches.iter().enumerate().map(|(at, s)| (s.name.as_str(), at)).collect();
        let switch = |switch: &PlannedSwitch| {
            let at = switches.get(switch.name.as_str()).copied();
            at.filter(|_| staying(Kind::Switch, &switch.name))
        };
        Named {
            nodes: wanted.nodes.iter().map(node).collect(),
            links: wanted.links.iter().map(link).collect(),
            switches: wanted.switches.iter().map(switch).collect(),
        }
    }
}

/// See [`super::Merged::target`].
pub(super) fn target(named: &Named, running: &Plan, wanted: &Plan, machine: &Machine<'_>) -> Plan {
    let mut target = wanted.clone();
    give_node_ids(named, running, &mut target);
    give_link_ids(named, running, &mut target);
    give_indexes(named, running, &mut target, machine);
    name_switches(named, running, &mut target);
    name_ports(named, running, &mut target);
    target
}

fn give_node_ids(named: &Named, running: &Plan, target: &mut Plan) {
    // Not the wanted plan's: an id is never given twice, also not to a node that replaces another.
    target.next_id = running.next_id;
    let mut of_wanted: BTreeMap<NodeId, NodeId> = BTreeMap::new();
    for (node, old) in target.nodes.iter_mut().zip(&named.nodes) {
        let id = match old {
            Some(old) => running.nodes[*old].id,
            None => {
                let id = target.next_id;
                target.next_id = id.next();
                id
            }
        };
        of_wanted.insert(node.id, id);
        node.id = id;
    }
    if let Some(scheme) = &mut target.scheme {
        let given = |id: &NodeId| of_wanted.get(id).copied();
        // The scheme was made with the ids of a fresh plan.
        for (id, _) in &mut scheme.blocks {
            *id = given(id).unwrap_or(*id);
        }
        scheme.routed_by_hand = scheme.routed_by_hand.iter().filter_map(given).collect();
    }
}

fn give_link_ids(named: &Named, running: &Plan, target: &mut Plan) {
    let Some(mut next) = running.scheme.as_ref().map(|scheme| scheme.next_link) else { return };
    for (link, old) in target.links.iter_mut().zip(&named.links) {
        link.id = match old {
            Some(old) => running.links[*old].id,
            None => {
                let id = next;
                next = next.next();
                id
            }
        };
    }
    if let Some(scheme) = &mut target.scheme {
        scheme.next_link = next;
    }
}

/// Interfaces that stay keep their indexes; new ones of a living node get the next above all that there are.
fn give_indexes(named: &Named, running: &Plan, target: &mut Plan, machine: &Machine<'_>) {
    for (node, old) in target.nodes.iter_mut().zip(&named.nodes) {
        let Some(old) = old else { continue };
        let before = &running.nodes[*old];
        let links: HashSet<LinkSlot> = before.interfaces.iter().map(|i| i.link).collect();
        let names: HashMap<&str, &Interface> =
            before.interfaces.iter().map(|i| (i.name.as_str(), i)).collect();
        let is_kept = |link: LinkSlot| {
            let old = named.links.get(link.get()).copied().flatten();
            old.is_some_and(|old| links.contains(&old))
        };
        let mut next = 0;
        // The look into a living node costs a call to its namespace; most nodes get nothing new.
        if node.interfaces.iter().any(|i| !is_kept(i.link)) {
            let there = (machine.there)(node.id);
            let known = before.interfaces.iter().map(|i| i.index);
            next = next_index(known.chain(there.iter().map(|(_, index)| *index)));
        }
        for interface in &mut node.interfaces {
            // A link of a node with itself has two interfaces there.
            let kept = names.get(interface.name.as_str()).filter(|_| is_kept(interface.link));
            match kept {
                Some(kept) => {
                    interface.index = kept.index;
                    interface.mac = kept.mac;
                }
                None => {
                    interface.index = next;
                    next += 1;
                }
            }
        }
    }
}

fn name_switches(named: &Named, running: &Plan, target: &mut Plan) {
    let kept: BTreeSet<usize> = named.switches.iter().flatten().copied().collect();
    let of_kept = |at: &usize| &running.switches[*at];
    let kept_bridges = kept.iter().map(|at| of_kept(at).bridge.clone());
    // Bridges and ports share the core namespace, so a new bridge must avoid both.
    let kept_ports = kept_ports(named, running).into_iter().map(|(name, _)| name);
    let mut names = CoreNames::with_taken(kept_bridges.chain(kept_ports));
    let mut indexes: BTreeSet<u32> = kept.iter().map(|at| of_kept(at).index).collect();
    // Those of removed ones are taken until they have gone.
    let mut next = running.switches.iter().map(|s| s.index).max().unwrap_or(1).max(1) + 1;
    for (switch, old) in target.switches.iter_mut().zip(&named.switches) {
        if let Some(old) = old {
            let old = &running.switches[*old];
            (switch.index, switch.bridge, switch.mac) = (old.index, old.bridge.clone(), old.mac);
            continue;
        }
        if !indexes.insert(next) {
            next = indexes.last().copied().unwrap_or(next) + 1;
            indexes.insert(next);
        }
        switch.index = next;
        next += 1;
        if !names.add(&switch.bridge) {
            switch.bridge = names.take_like("br");
        }
    }
}

/// Names and hardware addresses of the ports that stay.
fn kept_ports(named: &Named, running: &Plan) -> Vec<(String, [u8; 6])> {
    let links = named.links.iter().flatten().map(|at| &running.links[*at]);
    let ports = links.flat_map(|link| &link.ends).filter_map(|end| match end {
        PlannedEnd::Port { name, mac, .. } | PlannedEnd::Nowhere { name, mac } => {
            Some((name.clone(), *mac))
        }
        _ => None,
    });
    ports.collect()
}

/// Ports that stay keep names, hardware addresses and numbers; no new one gets what those have, or what has not gone yet.
fn name_ports(named: &Named, running: &Plan, target: &mut Plan) {
    let bridges = target.switches.iter().map(|s| s.bridge.clone());
    let ends = running.links.iter().flat_map(|link| &link.ends);
    // All of the running plan, not only those that stay: removed ports go last.
    let ports = ends.filter_map(|end| match end {
        PlannedEnd::Port { name, .. } | PlannedEnd::Nowhere { name, .. } => Some(name.clone()),
        _ => None,
    });
    let hosts = target.links.iter().flat_map(|l| &l.ends).filter_map(|end| match end {
        PlannedEnd::Host { iface } => Some(iface.clone()),
        _ => None,
    });
    let mut names = CoreNames::with_taken(bridges.chain(ports).chain(hosts));
    let own = target.nodes.iter().flat_map(|n| &n.interfaces).map(|i| i.mac);
    let taken = own.chain(kept_ports(named, running).into_iter().map(|(_, mac)| mac));
    let lab = target.lab.clone();
    let mut macs = Macs::with_taken(&lab, taken.chain(target.switches.iter().map(|s| s.mac)));
    let mut numbers = kept_numbers(named, running);
    for end in target.links.iter().flat_map(|link| &link.ends) {
        if let Some((switch, number)) = target.port_number(end)
            && end.given_number().is_some()
        {
            // Numbers of the file come before any that is chosen.
            numbers.entry(switch.to_owned()).or_default().all.insert(number);
        }
    }
    let switches = &target.switches;
    for (link, old) in target.links.iter_mut().zip(&named.links) {
        let id = link.id;
        for side in [0, 1] {
            let (name, mac, port) = match &mut link.ends[side] {
                PlannedEnd::Port { switch, name, mac, number, numbered } => {
                    (name, mac, Some((&switches[*switch], number, *numbered)))
                }
                PlannedEnd::Nowhere { name, mac } => (name, mac, None),
                _ => continue,
            };
            let kept = old.as_ref().map(|old| &running.links[*old].ends[side]);
            if let Some(
                PlannedEnd::Port { name: n, mac: m, .. } | PlannedEnd::Nowhere { name: n, mac: m },
            ) = kept
            {
                (*name, *mac) = (n.clone(), *m);
                if let (Some((_, number, _)), Some(PlannedEnd::Port { number: kept, .. })) =
                    (port, kept)
                {
                    *number = *kept;
                }
                continue;
            }
            if !names.add(name) {
                *name = names.take_like(&port_like(id, side));
            }
            let of = port.as_ref().map_or("nowhere", |(of, ..)| of.name.as_str());
            *mac = macs.take("port", of, name);
            if let Some((of, Some(number), false)) = port {
                let taken = numbers.entry(of.name.clone()).or_default();
                if !taken.all.insert(*number) {
                    *number = taken.take_free();
                }
            }
        }
    }
}

fn port_like(link: LinkId, side: usize) -> String {
    format!("p{link}{}", ["a", "b"][side])
}

/// The numbers of a switch's ports.
#[derive(Default)]
struct Numbers {
    all: HashSet<u32>,
    /// All up to here are taken.
    low: u32,
}

impl Numbers {
    /// Takes the lowest free one.
    fn take_free(&mut self) -> u32 {
        loop {
            self.low += 1;
            if self.all.insert(self.low) {
                return self.low;
            }
        }
    }
}

/// By name of the switch: the numbers of ports that stay.
fn kept_numbers(named: &Named, running: &Plan) -> BTreeMap<String, Numbers> {
    let mut numbers: BTreeMap<String, Numbers> = BTreeMap::new();
    for link in named.links.iter().flatten().map(|at| &running.links[*at]) {
        for (of, number) in link.ends.iter().filter_map(|end| running.port_number(end)) {
            numbers.entry(of.to_owned()).or_default().all.insert(number);
        }
    }
    numbers
}
