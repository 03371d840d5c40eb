//! What must go before anything is added: removed links that hold what an added or changed part gets, and doors.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;

use super::Merged;
use crate::plan::{Interface, NodeId, Plan, PlannedEnd, PlannedLink, Slot};

/// Moves such links, and nodes and switches that hold nothing else, from the late parts to the early ones.
pub(super) fn clear(merged: &mut Merged, running: &Plan) {
    if merged.doors {
        // The host's side of doors is made as a whole, so no old one may be left when the new ones
        // come.
        let doors = running.links.iter().filter(|link| super::is_door(link));
        let gone = doors.map(|link| link.id).filter(|id| merged.late.links.remove(id));
        merged.early.links.extend(gone.collect::<Vec<_>>());
    }
    let given = Given::of(merged);
    let stands = |link: &&PlannedLink| {
        merged.late.links.contains(&link.id)
            && link.ends.iter().any(|end| {
                match end {
                    PlannedEnd::Node { node, interface } => {
                        let node = running.node_at(*node);
                        let own = node.and_then(|n| Some((n.id, n.interfaces.get(*interface)?)));
                        own.is_some_and(|(node, own)| given.needs(node, own))
                    }
                    // A recreated switch takes its ports with it.
                    PlannedEnd::Port { switch, .. } => {
                        let of = running.switch_at(*switch).map_or("", |of| &of.name);
                        let number = running.port_number(end).map(|(_, number)| number);
                        merged.early.switches.contains(of)
                            || number.is_some_and(|number| given.has_port(of, number))
                    }
                    _ => false,
                }
            })
    };
    let early: BTreeSet<_> = running.links.iter().filter(stands).map(|link| link.id).collect();
    merged.late.links.retain(|id| !early.contains(id));
    merged.early.links.extend(early);
    // An object that is recreated in a removed node is removed with it.
    // Parents precede their children.
    let around = |at: &Slot| running.node_at(*at)?.parent.filter(|parent| parent < at);
    let going = running.slots().filter(|at| merged.early.nodes.contains(&running.nodes[*at].id));
    let holders = going.flat_map(|at| std::iter::successors(around(&at), around));
    let holders: BTreeSet<NodeId> = holders.map(|at| running.nodes[at].id).collect();
    for node in holders {
        if merged.late.nodes.remove(&node) {
            merged.early.nodes.insert(node);
        }
    }
}

/// Names, prefixes and ports that added and changed links get.
struct Given {
    /// By switch and number.
    ports: BTreeSet<(String, u32)>,
    names: BTreeMap<NodeId, BTreeSet<String>>,
    /// By their first address and their length.
    prefixes: BTreeSet<(IpAddr, u8)>,
}

impl Given {
    fn of(merged: &Merged) -> Given {
        let (ports, prefixes) = (BTreeSet::new(), BTreeSet::new());
        let mut given = Given { ports, names: BTreeMap::new(), prefixes };
        for link in &merged.target.links {
            let fresh = merged.added.links.contains(&link.id);
            if !fresh && !merged.changed.links.contains(&link.id) {
                continue;
            }
            for end in &link.ends {
                // A changed link keeps its ports and names; only its addresses may be new.
                if let Some((of, number)) = merged.target.port_number(end).filter(|_| fresh) {
                    given.ports.insert((of.to_owned(), number));
                }
                let PlannedEnd::Node { node, interface } = end else { continue };
                let Some(node) = merged.target.node_at(*node) else { continue };
                let Some(own) = node.interfaces.get(*interface) else { continue };
                let prefixes = own.addresses.iter().map(|net| (net.network(), net.prefix_len()));
                given.prefixes.extend(prefixes);
                if fresh {
                    given.names.entry(node.id).or_default().insert(own.name.clone());
                }
            }
        }
        given
    }

    fn has_port(&self, of: &str, number: u32) -> bool {
        !self.ports.is_empty() && self.ports.contains(&(of.to_owned(), number))
    }

    fn needs(&self, node: NodeId, own: &Interface) -> bool {
        let named = self.names.get(&node).is_some_and(|names| names.contains(&own.name));
        named || own.addresses.iter().any(|own| self.overlaps(own))
    }

    /// Whether a prefix overlaps one of these: of two that overlap, one contains the other.
    fn overlaps(&self, own: &IpNet) -> bool {
        let within = (own.network(), 0)..=(own.broadcast(), u8::MAX);
        let around = |length: &u8| {
            let wider = IpNet::new(own.addr(), *length);
            wider.is_ok_and(|wider| self.prefixes.contains(&(wider.network(), *length)))
        };
        self.prefixes.range(within).next().is_some() || (0..own.prefix_len()).any(|n| around(&n))
    }
}
