//! The way back from an `internet` door into the lab.

use std::collections::{BTreeMap, HashSet};
use std::net::IpAddr;

use ipnet::IpNet;

use super::family::Family;
use super::{Interface, LinkSlot, Plan, PlannedEnd, PlannedLink, PlannedNode};

/// What the outer side of the `internet` doors needs to know of nodes behind routers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WayBack {
    /// The door.
    pub door: LinkSlot,
    /// The prefix.
    pub to: IpNet,
    /// The next hop: the first router on the door's segment, which has a route to everything that can reach the door.
    pub via: IpAddr,
}

impl PlannedLink {
    /// Whether it is an `internet` door.
    pub fn leads_to_internet(&self) -> bool {
        self.ends.iter().any(|end| matches!(end, PlannedEnd::Internet { .. }))
    }
}

impl Plan {
    /// The routes that the outer side of all `internet` doors together needs to answer nodes behind routers: one for a
    /// prefix, none for those in which a door has an address. A prefix behind several doors is reached by the one whose router is
    /// in it, else by the first.
    pub fn ways_back(&self) -> Vec<WayBack> {
        let doors: Vec<(LinkSlot, &IpNet)> = self
            .link_slots()
            .flat_map(|at| self.door_addresses(at).map(move |door| (at, door)))
            .collect();
        // Prefixes that the outer side is itself connected to need no route.
        let own: HashSet<IpNet> = doors.iter().map(|(_, address)| address.trunc()).collect();
        let mut known: BTreeMap<IpNet, (bool, WayBack)> = BTreeMap::new();
        for (door, address) in doors {
            let Some((router, via)) = self.gateway(door, address) else { continue };
            let inside: HashSet<IpNet> = router.all_addresses().map(IpNet::trunc).collect();
            for to in behind(router, address).into_iter().filter(|to| !own.contains(to)) {
                let way = (inside.contains(&to), WayBack { door, to, via });
                let best = known.entry(to).or_insert(way);
                // The router in a prefix needs no further hop.
                if way.0 && !best.0 {
                    *best = way;
                }
            }
        }
        known.into_values().map(|(_, way)| way).collect()
    }

    /// The addresses of the outer end of an `internet` door; none of another link.
    fn door_addresses(&self, link: LinkSlot) -> impl Iterator<Item = &IpNet> {
        let ends = self.link_at(link).map(|l| l.ends.iter()).into_iter().flatten();
        ends.flat_map(|end| match end {
            PlannedEnd::Internet { addresses } => addresses.as_slice(),
            _ => &[],
        })
    }

    /// The first router on the segment of a door, and its address there.
    fn gateway(&self, link: LinkSlot, door: &IpNet) -> Option<(&PlannedNode, IpAddr)> {
        let near = self.links_of_segment(link);
        let routers = self.nodes.iter().filter(|n| match Family::of_net(door) {
            Family::V4 => n.forwarding.ipv4(),
            Family::V6 => n.forwarding.ipv6(),
        });
        routers.into_iter().find_map(|router| {
            let near = router.interfaces.iter().filter(|i| near.get(i.link.get()) == Some(&true));
            let addresses = near.flat_map(|i: &Interface| &i.addresses);
            let mut near = addresses.filter(|a| a.trunc() == door.trunc());
            near.next().map(|address| (router, address.addr()))
        })
    }

    /// By link: whether it is on the same segment as this one.
    fn links_of_segment(&self, link: LinkSlot) -> Vec<bool> {
        let mut near = vec![false; self.links.len()];
        let mut switches = vec![false; self.switches.len()];
        near[link.get()] = true;
        // Until nothing is added: switches join segments in any order.
        let mut grows = true;
        while grows {
            grows = false;
            for (index, link) in self.links.iter().enumerate() {
                let ports = link.ends.iter().filter_map(|end| match end {
                    PlannedEnd::Port { switch, .. } => Some(switch.get()),
                    _ => None,
                });
                let joined = near[index] || ports.clone().any(|switch| switches[switch]);
                if joined {
                    grows |= !std::mem::replace(&mut near[index], true);
                    for switch in ports {
                        grows |= !std::mem::replace(&mut switches[switch], true);
                    }
                }
            }
        }
        near
    }
}

/// The prefixes that a router is connected or has a route to, except the door's own and the default; some twice.
fn behind(router: &PlannedNode, door: &IpNet) -> Vec<IpNet> {
    let connected = router.all_addresses().map(IpNet::trunc);
    let routed = router.routes.iter().map(|r| r.to).filter(|to| to.prefix_len() > 0);
    let of_family = |to: &IpNet| Family::of_net(to) == Family::of_net(door);
    let mut all: Vec<IpNet> = connected.chain(routed).filter(of_family).collect();
    all.retain(|to| *to != door.trunc());
    all
}
