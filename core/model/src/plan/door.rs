//! The way back from an `internet` door into the lab.

use std::net::IpAddr;

use ipnet::IpNet;

use super::family::Family;
use super::{Interface, LinkSlot, Plan, PlannedEnd, PlannedNode};

impl Plan {
    /// The routes that the host's side of an `internet` door needs to answer nodes behind routers:
    /// prefix and next hop. Empty for a link that is no such door. The next hop is the first router on the door's segment, which has a route to
    /// everything that can reach the door.
    pub fn door_routes(&self, link: LinkSlot) -> Vec<(IpNet, IpAddr)> {
        let ends = self.link_at(link).map(|l| l.ends.iter()).into_iter().flatten();
        let addresses = ends.filter_map(|end| match end {
            PlannedEnd::Internet { addresses } => Some(addresses),
            _ => None,
        });
        addresses.flatten().flat_map(|door| self.routes_behind(link, door)).collect()
    }

    fn routes_behind(&self, link: LinkSlot, door: &IpNet) -> Vec<(IpNet, IpAddr)> {
        let near = self.links_of_segment(link);
        let routers = self.nodes.iter().filter(|n| match Family::of_net(door) {
            Family::V4 => n.forwarding.ipv4(),
            Family::V6 => n.forwarding.ipv6(),
        });
        let gateway = routers.into_iter().find_map(|router| {
            let near = router.interfaces.iter().filter(|i| near.get(i.link.get()) == Some(&true));
            let addresses = near.flat_map(|i: &Interface| &i.addresses);
            let mut near = addresses.filter(|a| a.trunc() == door.trunc());
            near.next().map(|address| (router, address.addr()))
        });
        let Some((router, via)) = gateway else { return Vec::new() };
        behind(router, door).into_iter().map(|prefix| (prefix, via)).collect()
    }

    /// By link: whether it is on the same segment as this one.
    fn links_of_segment(&self, link: LinkSlot) -> Vec<bool> {
        let mut near = vec![false; self.links.len()];
        let mut switches = vec![false; self.switches.len()];
        near[link.get()] = true;
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

/// The prefixes that a router is connected or has a route to, except the door's own and the default.
fn behind(router: &PlannedNode, door: &IpNet) -> Vec<IpNet> {
    let connected = router.all_addresses().map(IpNet::trunc);
    let routed = router.routes.iter().map(|r| r.to).filter(|to| to.prefix_len() > 0);
    let of_family = |to: &IpNet| Family::of_net(to) == Family::of_net(door);
    let mut all: Vec<IpNet> = connected.chain(routed).filter(of_family).collect();
    all.retain(|to| *to != door.trunc());
    all.sort();
    all.dedup();
    all
}
