//! Ports of switches in shared memory: their names, and the addresses that they are locked to.
//!
//! A port of a link is called as the other end of the link where that is a node or an interface of the
//! host (`h1:eth0`, `host:eth1`), which no other link has; else as the link.

use super::names::{Names, end_name, names};
use super::{PlannedEnd, PlannedLink, PlannedNode, PlannedSwitch};
use crate::lab::{End, Lab};
use crate::shm::OWN_ADDRESS;

/// An end of a link on a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EndOnSwitch {
    /// What the port is called.
    pub(crate) port: String,
    /// The name of the node, switch or door at the other end.
    pub(crate) to: String,
    /// Whether that is a node.
    pub(crate) node: bool,
}

/// By switch: the ends of links on it, in the order of the links.
pub(crate) fn ends_of_switches(lab: &Lab) -> Vec<Vec<EndOnSwitch>> {
    let names = names(lab);
    let mut all = vec![Vec::new(); lab.switches.len()];
    for (index, link) in lab.links.iter().enumerate() {
        for side in 0..2 {
            let End::Switch { switch } = link.ends[side] else { continue };
            let Some(ends) = all.get_mut(switch) else { continue };
            let other = &link.ends[1 - side];
            ends.push(EndOnSwitch {
                port: port(lab, &names, index, 1 - side),
                to: match other {
                    End::Node { node, .. } => lab.nodes[*node].name.clone(),
                    other => end_name(lab, other, None),
                },
                node: matches!(other, End::Node { .. }),
            });
        }
    }
    all
}

/// What the port is called whose link has this as its other end.
fn port(lab: &Lab, names: &Names, link: usize, other: usize) -> String {
    match &lab.links[link].ends[other] {
        end @ (End::Node { .. } | End::Host { .. }) => {
            end_name(lab, end, names.interfaces[link][other].as_deref())
        }
        End::Switch { .. } | End::Internet => names.links[link].clone(),
    }
}

/// Puts addresses in the place of `own` in the locks of ports.
pub(super) fn fill_in_own_addresses(
    switches: &mut [PlannedSwitch],
    nodes: &[PlannedNode],
    links: &[PlannedLink],
) {
    for (index, switch) in switches.iter_mut().enumerate() {
        let Some(shm) = &mut switch.shm else { continue };
        let own = |lock: &String| lock == OWN_ADDRESS;
        if !shm.ports.values().any(|port| port.lock.iter().any(own)) {
            continue;
        }
        for link in links {
            let Some((node, interface)) = node_on(link, index) else { continue };
            let Some(interface) = nodes[node].interfaces.get(interface) else { continue };
            let name = format!("{}:{}", nodes[node].name, interface.name);
            let Some(port) = shm.ports.get_mut(&name) else { continue };
            for lock in port.lock.iter_mut().filter(|lock| own(lock)) {
                *lock = netloom_bridge::Mac(interface.mac).to_string();
            }
        }
        // Whatever is left is the address of nobody: the parser lets none of these pass.
        shm.ports.values_mut().for_each(|port| port.lock.retain(|lock| !own(lock)));
    }
}

/// The node and interface at the other end of a link on this switch.
fn node_on(link: &PlannedLink, switch: usize) -> Option<(usize, usize)> {
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
