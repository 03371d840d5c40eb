//! The addresses that nodes have now, as their kernels tell: a DHCP client or a program of the node may
//! have changed what was planned.
//!
//! Those of loopback and link-local ones are left out. The order decides what a node's name stands for:
//! interfaces in the order of the plan, on each the planned addresses first; then interfaces that were
//! moved here or made by the node itself.

use std::net::IpAddr;
use std::os::fd::BorrowedFd;

use ipnet::IpNet;
use netloom_model::plan::{Interface, PlannedNode};
use netloom_netlink::{AddressInfo, LinkInfo, Socket};
use netloom_sys::namespace;

use crate::{Error, Result};

/// An address of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    /// The interface's name in the node.
    pub(crate) interface: String,
    pub(crate) address: IpNet,
}

/// The first address of a version (4 or 6), by which others know the node.
pub(crate) fn first(held: &[Held], version: u8) -> Option<IpAddr> {
    held.iter().map(|held| held.address.addr()).find(|a| a.is_ipv4() == (version == 4))
}

/// What a node was planned to have.
pub(crate) fn planned(node: &PlannedNode) -> Vec<Held> {
    let of_interface = |i: &Interface| {
        let held = |address: &IpNet| Held { interface: i.name.clone(), address: *address };
        i.addresses.iter().map(held).collect::<Vec<_>>()
    };
    node.interfaces.iter().flat_map(of_interface).collect()
}

/// What a node has, read in its network namespace, which the calling thread enters; it ends afterwards.
/// A guest's are not seen from outside: they are as planned.
pub(crate) fn read(node: &PlannedNode, space: BorrowedFd<'_>) -> Result<Vec<Held>> {
    if node.kind.as_vm().is_some() {
        return Ok(planned(node));
    }
    let object = || format!("node {:?}", node.name);
    namespace::enter_network(space).map_err(Error::of(object(), "look into"))?;
    let mut socket = Socket::open_to_ask().map_err(Error::of(object(), "open a netlink socket"))?;
    let links = socket.links().map_err(Error::of(object(), "read its interfaces"))?;
    let found = socket.addresses().map_err(Error::of(object(), "read its addresses"))?;
    Ok(ordered(node, &links, &found))
}

/// A planned interface among those that were found.
pub(crate) fn seen<'l>(interface: &Interface, links: &'l [LinkInfo]) -> Option<&'l LinkInfo> {
    links.iter().find(|l| l.index == interface.index || l.name == interface.name)
}

/// The findings, in order.
pub(crate) fn ordered(node: &PlannedNode, links: &[LinkInfo], found: &[AddressInfo]) -> Vec<Held> {
    let mut rest: Vec<&AddressInfo> = found.iter().filter(|a| counts(a.address.addr())).collect();
    let mut all = Vec::with_capacity(rest.len());
    for interface in &node.interfaces {
        let Some(link) = seen(interface, links) else { continue };
        let (mut here, others): (Vec<&AddressInfo>, Vec<_>) =
            rest.into_iter().partition(|a| a.link == link.index);
        // Stable: what is not planned stays in the kernel's order.
        here.sort_by_key(|a| {
            let place = interface.addresses.iter().position(|p| p.addr() == a.address.addr());
            place.unwrap_or(usize::MAX)
        });
        let held = |a: &AddressInfo| Held { interface: link.name.clone(), address: a.address };
        all.extend(here.into_iter().map(held));
        rest = others;
    }
    for address in rest {
        if let Some(link) = links.iter().find(|l| l.index == address.link) {
            all.push(Held { interface: link.name.clone(), address: address.address });
        }
    }
    all
}

/// Whether others could use an address.
fn counts(address: IpAddr) -> bool {
    let link_local = matches!(address, IpAddr::V6(six) if six.is_unicast_link_local());
    !address.is_loopback() && !link_local
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(index: u32, name: &str) -> LinkInfo {
        LinkInfo {
            index,
            name: name.to_owned(),
            mac: None,
            mtu: 1500,
            up: true,
            arp: true,
            carrier: true,
            operational: netloom_netlink::Operational::Up,
            kind: None,
            master: None,
            peer: None,
            peer_netns: None,
            discipline: String::new(),
            settings: netloom_netlink::LinkSettings::default(),
            traffic: netloom_netlink::Traffic::default(),
        }
    }

    fn found(link: u32, address: &str) -> AddressInfo {
        AddressInfo { link, address: address.parse().unwrap(), given: true }
    }

    #[test]
    fn planned_interfaces_and_addresses_come_first() {
        let text = "name: t\nnodes: {a: , b: }\nlinks:\n  - {ends: [a, b], subnet: 10.1.0.0/24}\n  \
                    - {ends: [a, b], addresses: {a: none}}\n";
        let lab = netloom_model::parse("t.yaml", text.as_bytes(), "t").unwrap();
        let plan = netloom_model::plan::plan(&lab).unwrap();
        let a = &plan.nodes[0];
        let links = [link(1, "lo"), link(9, "br0"), link(2, "eth0"), link(3, "eth1")];
        let addresses = [
            found(1, "127.0.0.1/8"),
            found(1, "10.255.0.1/32"),
            found(9, "10.9.0.1/24"),
            found(2, "10.1.0.200/24"),
            found(2, "10.1.0.1/24"),
            found(3, "192.0.2.7/24"),
            found(3, "fe80::7/64"),
        ];
        let held = ordered(a, &links, &addresses);
        let words: Vec<_> = held.iter().map(|h| format!("{} {}", h.interface, h.address)).collect();
        assert_eq!(
            words,
            [
                "eth0 10.1.0.1/24",
                "eth0 10.1.0.200/24",
                "eth1 192.0.2.7/24",
                "lo 10.255.0.1/32",
                "br0 10.9.0.1/24",
            ]
        );
        assert_eq!(first(&held, 4), "10.1.0.1".parse().ok());
        assert_eq!(first(&held, 6), None);
    }
}
