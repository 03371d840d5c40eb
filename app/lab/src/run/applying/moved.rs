//! Addresses that have moved to another interface: what nodes know of the old one is forgotten.
//!
//! The kernel announces no address that it gets: `arp_notify` tells of interfaces that come up or change their hardware address, not of
//! addresses (ip-sysctl.rst). A node that knows the old hardware address would send there until its entry ages, for a minute or so.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::os::fd::AsFd;

use netloom_model::Plan;
use netloom_model::plan::PlannedNode;
use netloom_netlink::{Batch, DeleteNeighbour, Family, Socket};

use crate::Error;
use crate::run::running::{Running, Work};
use crate::stage::spaces;

/// The hardware address behind each address of a plan.
type Owners = BTreeMap<IpAddr, [u8; 6]>;

fn owners(plan: &Plan) -> Owners {
    let interfaces = plan.nodes.iter().flat_map(|node| &node.interfaces);
    interfaces.flat_map(|own| own.addresses.iter().map(|net| (net.addr(), own.mac))).collect()
}

/// Addresses that another interface had before, with the hardware address that they have now.
fn moved(before: &Plan, now: &Plan) -> Owners {
    let before = owners(before);
    let mut now = owners(now);
    now.retain(|address, mac| before.get(address).is_some_and(|old| old != mac));
    now
}

/// Those of the addresses that a node may have as neighbours.
fn near(node: &PlannedNode, moved: &Owners) -> Owners {
    let nets = || node.interfaces.iter().flat_map(|own| &own.addresses);
    let is_near =
        |address: &IpAddr| nets().any(|net| net.contains(address) && net.addr() != *address);
    moved.iter().filter(|(address, _)| is_near(address)).map(|(at, mac)| (*at, *mac)).collect()
}

impl Running {
    /// Has living nodes ask again for addresses that have moved since `before`. A node that cannot be asked to keeps what it knows,
    /// which its kernel forgets in time.
    pub(super) fn forget_moved(&self, work: &Work, before: &Plan) {
        let now = self.state();
        let moved = moved(before, &now.plan);
        if moved.is_empty() {
            return;
        }
        for node in &now.plan.nodes {
            let near = near(node, &moved);
            let init = work.inits.get(&node.id).filter(|init| init.lives());
            let Some(init) = init.filter(|_| !near.is_empty()) else { continue };
            let object = format!("node {:?}", node.name);
            let Ok(space) = init.network(&object) else { continue };
            let _ = spaces::inside(space.as_fd(), &object, |socket| {
                forget(socket, &near, &object)
                    .map_err(Error::of(&object, "forget neighbours that have moved"))
            });
        }
    }
}

/// Deletes entries with other hardware addresses than these. What somebody made for good stays.
fn forget(socket: &mut Socket, near: &Owners, object: &str) -> netloom_netlink::Result<()> {
    let mut batch = Batch::new();
    for family in [Family::V4, Family::V6] {
        for known in socket.neighbours(family)? {
            let right = near.get(&known.address);
            if right.is_some_and(|right| known.mac != Some(*right)) && !known.permanent {
                let gone = DeleteNeighbour { link: known.link, address: known.address };
                batch.push(object, &gone);
            }
        }
    }
    socket.run(&mut batch)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(links: &str) -> Plan {
        let lab = format!(
            "name: x\npool: {{ipv6: none}}\nnodes: {{a: {{}}, b: {{}}, c: {{}}}}\nswitches: {{s: {{}}}}\nlinks: [{links}]\n"
        );
        let lab = netloom_model::parse("x", lab.as_bytes(), "x").unwrap();
        netloom_model::plan::plan(&lab).unwrap()
    }

    #[test]
    fn addresses_that_moved_are_forgotten_by_their_neighbours() {
        let of = |a: &str, b: &str| {
            plan(&format!(
                "{{ends: [a, s], addresses: {{a: {a}/24}}}}, {{ends: [b, s], addresses: {{b: {b}/24}}}}, \
                 {{ends: [c, s], addresses: {{c: 10.0.0.3/24}}}}"
            ))
        };
        let (before, now) = (of("10.0.0.9", "10.0.0.2"), of("10.0.0.1", "10.0.0.9"));
        assert!(moved(&before, &before).is_empty());
        let found = moved(&before, &now);
        // The new one of a is nobody's old one.
        let address: IpAddr = "10.0.0.9".parse().unwrap();
        assert_eq!(found, Owners::from([(address, now.nodes[1].interfaces[0].mac)]));
        let asks: Vec<bool> = now.nodes.iter().map(|node| !near(node, &found).is_empty()).collect();
        assert_eq!(asks, [true, false, true]);
    }
}
