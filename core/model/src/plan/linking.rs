//! Adds and removes links of a running lab's plan, and recomputes the routes of all nodes.
//!
//! The plan is converted back to the lab it stands for ([`Plan::as_lab`]), with all decisions given by
//! hand. So a new link gets what it would have got at the end of the file, and nothing before
//! it changes except routes. The [`Scheme`] has the information that a plan alone lacks.

use std::collections::BTreeSet;
use std::sync::Arc;

use ipnet::IpNet;
use netloom_impair::Impairments;

use super::address::{self, Addressing};
use super::change::Renumbered;
use super::error::PlanError;
use super::family::Family;
use super::form::next_index;
use super::graph::Graph;
use super::mac::Macs;
use super::names::{self, names};
use super::pool::Block;
use super::segment::{Topology, topology};
use super::{
    DEFAULT_MTU, Interface, LinkId, LinkSlot, NodeId, Plan, PlannedEnd, PlannedLink, PlannedNode,
    Route, Scheme, Slot, SwitchSlot, hosts, ports, route, sysctl,
};
use crate::bounds::{MAX_LINKS, mtu_problem};
use crate::lab::{End, Lab, Link, Node, Switch};

/// A link to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewLink {
    /// Its name; `None` for the automatic one.
    pub name: Option<String>,
    /// Its ends.
    pub ends: [NewEnd; 2],
    /// Addresses by hand, by end: at most one a family for each.
    pub addresses: [Vec<IpNet>; 2],
    /// Whether a node's end shall have no address, by end.
    pub bare: [bool; 2],
    /// Hardware addresses by hand, of nodes' ends.
    pub macs: [Option<[u8; 6]>; 2],
    /// MTU of both ends; the switch's, else 1500, when `None`.
    pub mtu: Option<u32>,
    /// Its impairments: index 0 for frames that the first end sends, 1 for the second.
    pub impairments: [Impairments; 2],
}

/// An end of a link to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NewEnd {
    /// A node's.
    Node {
        /// Index into [`Plan::nodes`].
        node: Slot,
        /// The interface's name; the first free `ethN` when `None`.
        iface: Option<String>,
        /// Names and indexes of the interfaces in the node, whichever program made them.
        there: Vec<(String, u32)>,
    },
    /// A switch's.
    Switch(SwitchSlot),
    /// Nothing.
    Nowhere,
}

/// A lab brought up by a version that stored no scheme.
const NO_SCHEME: &str = "the lab was brought up by an earlier version of netloom, so that its links \
                         cannot be changed; run `netloom up --replace` with its file";

impl Plan {
    /// Adds a link after all others and returns its place. Recomputes the routes of the whole network.
    ///
    /// # Errors
    /// Why it is impossible; the plan is then unchanged.
    pub fn add_link(&mut self, new: NewLink) -> Result<LinkSlot, String> {
        let mut plan = self.clone();
        // All steps work on a copy, so that a failure halfway leaves the plan as it was.
        // All steps work on a copy, so that a failure halfway leaves the plan as it was.
        let bare = new.bare;
        let slot = plan.push_link(new)?;
        plan.decide_again(Some((slot, bare)))?;
        *self = plan;
        Ok(slot)
    }

    /// Removes a link of nodes and switches with its interfaces. Recomputes the routes without it.
    ///
    /// # Errors
    /// Why it is impossible; the plan is then unchanged.
    pub fn remove_link(&mut self, link: LinkSlot) -> Result<(), String> {
        let Some(found) = self.link_at(link) else { return Err("no such link".into()) };
        let ports = found.ends.iter().filter(|e| matches!(e, PlannedEnd::Port { .. })).count();
        let inner = |end: &PlannedEnd| matches!(end, PlannedEnd::Node { .. }) || end.is_in_core();
        if !found.ends.iter().all(inner) {
            return Err("it is a door, which comes and goes with its lab".into());
        }
        // Without this link the segment would be two, and half of its nodes would need another prefix.
        // Without this link the segment would be two, and half of its nodes would need another
        // prefix.
        if ports == 2 {
            return Err("it joins two switches, whose nodes share one prefix; `netloom link set` \
                        takes it --down"
                .into());
        }
        let mut plan = self.clone();
        let links = Renumbered::new(plan.link_slots().map(|slot| slot != link));
        plan.drop_links(&links);
        plan.decide_again(None)?;
        *self = plan;
        Ok(())
    }

    /// Inserts the link with names, indexes and hardware addresses, but only the addresses given by hand.
    fn push_link(&mut self, new: NewLink) -> Result<LinkSlot, String> {
        let scheme = self.scheme.as_ref().ok_or(NO_SCHEME)?;
        let id = scheme.next_link;
        // IPv6 needs 1280 bytes (RFC 8200, section 5), so a smaller MTU is refused where it is in use.
        // An MTU may be too small for IPv6 alone, so it matters whether the link will have any.
        let by_hand = new.addresses.iter().flatten().any(|of| matches!(of, IpNet::V6(_)));
        let has_ipv6 = by_hand || scheme.pool.ipv6.is_some();
        if let Some(wrong) = new.mtu.and_then(|mtu| mtu_problem(mtu, has_ipv6)) {
            return Err(wrong.to_string());
        }
        if self.links.len() >= MAX_LINKS {
            return Err(format!("a lab has {MAX_LINKS} links at most"));
        }
        self.check_ends(&new)?;
        let slot = LinkSlot::new(self.links.len());
        let mtu = new.mtu.unwrap_or_else(|| self.mtu_of(&new.ends));
        let ends: Vec<PlannedEnd> =
            (0..2).map(|side| self.end(&new, side, slot, id, mtu)).collect();
        let [first, second] = ends.try_into().map_err(|_| "it has two ends")?;
        let name = match new.name {
            Some(name) => name,
            None => self.free_link_name(&[&first, &second]),
        };
        let ends = [first, second];
        self.links.push(PlannedLink { id, name, ends, mtu, impairments: new.impairments });
        if let Some(scheme) = &mut self.scheme {
            scheme.next_link = id.next();
        }
        Ok(slot)
    }

    fn check_ends(&self, new: &NewLink) -> Result<(), String> {
        if let Some(name) = &new.name {
            if let Some(problem) = crate::naming::link_name_problem(name) {
                return Err(problem);
            }
            if self.link(name).is_some() {
                return Err(format!("there is a link of the name {name:?} already"));
            }
        }
        match &new.ends {
            [NewEnd::Node { node: a, .. }, NewEnd::Node { node: b, .. }] if a == b => {
                return Err("it joins a node to itself".into());
            }
            [NewEnd::Nowhere, NewEnd::Switch(_) | NewEnd::Nowhere]
            | [NewEnd::Switch(_), NewEnd::Nowhere] => {
                return Err("a `nowhere` link needs a node at its other end".into());
            }
            [NewEnd::Switch(_), NewEnd::Switch(_)] => {
                return Err("it joins two switches, which is for the lab file to do: their nodes \
                            would share one prefix"
                    .into());
            }
            _ => {}
        }
        for mac in new.macs.iter().flatten() {
            if self.macs().any(|known| known == *mac) || new.macs[0] == new.macs[1] {
                let mac = mac.map(|b| format!("{b:02x}")).join(":");
                return Err(format!("hardware address {mac}: another interface has it"));
            }
        }
        for end in &new.ends {
            let NewEnd::Node { node, iface: Some(iface), there } = end else { continue };
            if let Some(problem) = crate::naming::node_interface_problem(iface) {
                return Err(problem);
            }
            let own = self.nodes[*node].interfaces.iter().any(|i| i.name == *iface);
            if own || there.iter().any(|(name, _)| name == iface) {
                let node = &self.nodes[*node].name;
                return Err(format!("node {node:?} has an interface {iface:?} already"));
            }
        }
        Ok(())
    }

    fn mtu_of(&self, ends: &[NewEnd; 2]) -> u32 {
        let of = |end: &NewEnd| match end {
            NewEnd::Switch(switch) => self.switch_at(*switch).map(|s| s.mtu),
            NewEnd::Node { .. } | NewEnd::Nowhere => None,
        };
        ends.iter().find_map(of).unwrap_or(DEFAULT_MTU)
    }

    /// Plans one end, and adds the interface to its node.
    fn end(
        &mut self,
        new: &NewLink,
        side: usize,
        link: LinkSlot,
        id: LinkId,
        mtu: u32,
    ) -> PlannedEnd {
        let lab = self.lab.clone();
        // The set is made again for each end: the first end's interface is in the plan by now.
        let mut macs = Macs::with_taken(&lab, self.macs());
        match &new.ends[side] {
            NewEnd::Node { node, iface, there } => {
                let planned = &mut self.nodes[*node];
                let name = iface.clone().unwrap_or_else(|| free_interface(planned, there));
                let mac = macs.take("node", &planned.name, &name);
                let (mac, mac_given) = (new.macs[side].unwrap_or(mac), new.macs[side].is_some());
                // Programs in the node make interfaces too; the kernel refuses an index in use.
                let known = planned.interfaces.iter().map(|i| i.index);
                let number = next_index(known.chain(there.iter().map(|(_, index)| *index)));
                let addresses = new.addresses[side].clone();
                planned.interfaces.push(Interface {
                    name,
                    index: number,
                    link,
                    mac,
                    mac_given,
                    mtu,
                    addresses,
                });
                PlannedEnd::Node { node: *node, interface: planned.interfaces.len() - 1 }
            }
            NewEnd::Switch(switch) => {
                let name = self.free_port(&new.ends[1 - side], side, id.get());
                let mac = macs.take("port", &self.switches[*switch].name, &name);
                let number = ports::free_number(self, *switch);
                PlannedEnd::Port { switch: *switch, name, mac, number, numbered: false }
            }
            NewEnd::Nowhere => {
                let name = self.free_port(&new.ends[1 - side], side, id.get());
                let mac = macs.take("port", "nowhere", &name);
                PlannedEnd::Nowhere { name, mac }
            }
        }
    }

    /// Every hardware address in use.
    fn macs(&self) -> impl Iterator<Item = [u8; 6]> {
        let interfaces = self.nodes.iter().flat_map(|n| &n.interfaces).map(|i| i.mac);
        let ports = self.links.iter().flat_map(|l| &l.ends).filter_map(|end| match end {
            PlannedEnd::Port { mac, .. } | PlannedEnd::Nowhere { mac, .. } => Some(*mac),
            _ => None,
        });
        interfaces.chain(ports).chain(self.switches.iter().map(|s| s.mac))
    }

    /// A port is named after the node's end if that fits: its other end is, or will be, the node's last
    /// interface.
    fn free_port(&self, other: &NewEnd, side: usize, id: usize) -> String {
        let ports = self.links.iter().flat_map(|l| &l.ends).filter_map(|end| match end {
            PlannedEnd::Port { name, .. } | PlannedEnd::Nowhere { name, .. } => Some(name.clone()),
            PlannedEnd::Host { iface } => Some(iface.clone()),
            _ => None,
        });
        let taken: BTreeSet<String> =
            ports.chain(self.switches.iter().map(|s| s.bridge.clone())).collect();
        let readable = match other {
            NewEnd::Node { node, iface, there } => {
                let node = &self.nodes[*node];
                // Side 0 is planned first: a node at side 1 has no interface for this link yet.
                let planned = node.interfaces.last().filter(|_| side == 1).map(|i| i.name.clone());
                let name = iface.clone().or(planned).unwrap_or_else(|| free_interface(node, there));
                Some(format!("{}-{name}", node.name.replace('/', "-")))
            }
            NewEnd::Switch(_) | NewEnd::Nowhere => None,
        };
        let letter = ["a", "b"][side];
        names::free_core_name(readable.as_deref(), &format!("p{id}{letter}"), &taken)
    }

    fn free_link_name(&self, ends: &[&PlannedEnd; 2]) -> String {
        let words = ends.map(|end| match end {
            PlannedEnd::Node { node, interface } => {
                let node = &self.nodes[*node];
                format!("{}:{}", node.name, node.interfaces[*interface].name)
            }
            PlannedEnd::Port { switch, .. } => self.switches[*switch].name.clone(),
            PlannedEnd::Host { iface } => format!("host:{iface}"),
            PlannedEnd::Internet { .. } => "internet".to_owned(),
            PlannedEnd::Nowhere { .. } => "nowhere".to_owned(),
        });
        let plain = words.join("--");
        let numbered = (2..).map(|n: usize| format!("{plain}#{n}"));
        let mut all = std::iter::once(plain.clone()).chain(numbered);
        all.find(|name| self.link(name).is_none()).unwrap_or(plain)
    }

    /// Decides the routes of all nodes again for the current links.
    pub(crate) fn decide_routes(&mut self) -> Result<(), String> {
        self.decide_again(None)
    }

    /// Decides missing addresses, and all computed routes, for the current network. `fresh` is a
    /// link without addresses yet, and which of its ends shall have none.
    fn decide_again(&mut self, fresh: Option<(LinkSlot, [bool; 2])>) -> Result<(), String> {
        let Some(scheme) = self.scheme.clone() else { return Err(NO_SCHEME.into()) };
        // `up` of a file uses the same functions, so a link gets what the file would have given it.
        let mut lab = self.as_lab(&scheme);
        if let Some((slot, bare)) = fresh {
            lab.links[slot.get()].bare = bare;
        }
        let (names, topology) = (names(&lab), topology(&lab));
        let told = |e: PlanError| e.to_string();
        let blocks = |family| self.known_blocks(&scheme, family);
        // IPv4 first: IPv6 takes the same numbers where they are free.
        let known = blocks(Family::V4);
        let ipv4 =
            address::assign(&lab, &names, &topology, Family::V4, None, known).map_err(told)?;
        let known = blocks(Family::V6);
        let ipv6 = address::assign(&lab, &names, &topology, Family::V6, Some(&ipv4), known)
            .map_err(told)?;
        let both = [ipv4, ipv6];
        address::check_unique(&lab, &names, &topology, &both).map_err(told)?;
        self.take_addresses(&both);
        let ids: Vec<NodeId> = self.nodes.iter().map(|node| node.id).collect();
        if let Some(scheme) = &mut self.scheme {
            scheme.note(&both, &topology, &lab.switches, |owner| ids[owner]);
        }
        self.take_routes(&lab, &topology, &both).map_err(told)?;
        self.hosts = hosts::hosts(&self.nodes);
        Ok(())
    }

    /// The blocks in which their owners have links; routes to one without any would lead nowhere. A link
    /// without addresses has an invisible prefix in one of them.
    fn known_blocks(&self, scheme: &Scheme, family: Family) -> Vec<Block> {
        let mine = scheme.blocks.iter().filter(|(_, prefix)| Family::of_net(prefix) == family);
        let block = |(id, prefix): &(NodeId, IpNet)| {
            let owner = self.slot_of(*id)?;
            let links = self.nodes[owner].interfaces.iter().filter_map(|i| self.link_at(i.link));
            let used = links.into_iter().any(|link| self.lies_in(link, prefix));
            used.then_some(Block { owner: owner.get(), prefix: *prefix })
        };
        mine.filter_map(block).collect()
    }

    /// Whether a link without a switch has an address in a prefix, or no address at all.
    fn lies_in(&self, link: &PlannedLink, prefix: &IpNet) -> bool {
        let mut all: Vec<&IpNet> = Vec::new();
        for end in &link.ends {
            match end {
                PlannedEnd::Node { node, interface } => {
                    let node = self.node_at(*node);
                    let found = node.and_then(|node| node.interfaces.get(*interface));
                    all.extend(found.iter().flat_map(|i| &i.addresses));
                }
                PlannedEnd::Internet { addresses } => all.extend(addresses),
                PlannedEnd::Host { .. } | PlannedEnd::Nowhere { .. } => {}
                // Segments of switches have prefixes of their own, outside all blocks.
                PlannedEnd::Port { .. } => return false,
            }
        }
        all.is_empty() || all.iter().any(|address| prefix.contains(*address))
    }

    /// The lab of this plan, as far as addresses and routes depend on it.
    fn as_lab(&self, scheme: &Scheme) -> Lab {
        let node = |node: &PlannedNode| Node {
            spec: Arc::clone(&node.spec),
            // The routes themselves are in the plan and stay; here it counts only that they are by hand.
            // The routes themselves are in the plan and stay; only that they are by hand counts
            // here.
            routes: scheme.routed_by_hand.contains(&node.id).then(Vec::new),
            ..Node::default()
        };
        let switch = |switch: &super::PlannedSwitch| Switch {
            name: switch.name.clone(),
            subnets: scheme.switches.get(&switch.name).cloned().unwrap_or_default(),
            // Neither addresses nor routes depend on it.
            mtu: None,
            stp: switch.stp,
            kind: switch.kind.clone(),
        };
        Lab {
            name: self.lab.clone(),
            pool: scheme.pool,
            routing: scheme.routing,
            ecmp: scheme.ecmp,
            nodes: self.nodes.iter().map(node).collect(),
            switches: self.switches.iter().map(switch).collect(),
            links: self.links.iter().map(|link| self.as_link(link)).collect(),
            slices: vec![],
            record: None,
            expect: vec![],
            place: vec![],
            layout: std::collections::BTreeMap::new(),
            numbered_as: scheme.numbered_as.clone(),
        }
    }

    fn as_link(&self, link: &PlannedLink) -> Link {
        let interface = |end: &PlannedEnd| match end {
            PlannedEnd::Node { node, interface } => self.node_at(*node)?.interfaces.get(*interface),
            _ => None,
        };
        let end = |end: &PlannedEnd| match end {
            PlannedEnd::Node { node, .. } => {
                End::Node { node: node.get(), iface: interface(end).map(|i| i.name.clone()) }
            }
            PlannedEnd::Port { switch, .. } => End::Switch { switch: switch.get() },
            PlannedEnd::Host { iface } => End::Host { iface: iface.clone() },
            PlannedEnd::Internet { .. } => End::Internet,
            PlannedEnd::Nowhere { .. } => End::Nowhere,
        };
        let addresses = |end: &PlannedEnd| match end {
            PlannedEnd::Internet { addresses } => addresses.clone(),
            end => interface(end).map_or_else(Vec::new, |i| i.addresses.clone()),
        };
        // An end without address was meant to have none.
        let bare = |end: &PlannedEnd| interface(end).is_some_and(|i| i.addresses.is_empty());
        Link {
            name: Some(link.name.clone()),
            bare: [bare(&link.ends[0]), bare(&link.ends[1])],
            addresses: [addresses(&link.ends[0]), addresses(&link.ends[1])],
            impairments: link.impairments.clone(),
            ..Link::between([end(&link.ends[0]), end(&link.ends[1])])
        }
    }

    /// Assigns the decided addresses to ends; existing ones stay.
    fn take_addresses(&mut self, both: &[Addressing; 2]) {
        for (index, link) in self.links.iter().enumerate() {
            for (side, end) in link.ends.iter().enumerate() {
                let PlannedEnd::Node { node, interface } = end else { continue };
                let decided = both.iter().filter_map(|of| of.ends[index][side]);
                if let Some(found) = self.nodes[*node].interfaces.get_mut(*interface) {
                    found.addresses = decided.collect();
                }
            }
        }
    }

    fn take_routes(
        &mut self,
        lab: &Lab,
        topology: &Topology,
        both: &[Addressing; 2],
    ) -> Result<(), PlanError> {
        let interface = |end: &PlannedEnd| match end {
            PlannedEnd::Node { interface, .. } => *interface,
            _ => 0,
        };
        let interfaces: Vec<[usize; 2]> =
            self.links.iter().map(|l| [interface(&l.ends[0]), interface(&l.ends[1])]).collect();
        let mut routes: Vec<Vec<Route>> = vec![Vec::new(); self.nodes.len()];
        let graph = |(family, addressing)| {
            (family, Graph::new(lab, topology, (family, addressing), &interfaces))
        };
        let graphs: Vec<_> = Family::BOTH.into_iter().zip(both).map(graph).collect();
        for (index, node) in self.nodes.iter_mut().enumerate() {
            node.internet = graphs.iter().any(|(_, graph)| graph.reaches_door(index));
        }
        if lab.routing {
            route::add_routes(lab, &graphs, &mut routes)?;
        }
        for ((node, routes), of) in self.nodes.iter_mut().zip(routes).zip(&lab.nodes) {
            if of.routes.is_none() {
                node.routes = routes;
            }
            // The hash policy of multipath goes with routes: a node may have got or lost several ways.
            // The hash policy of multipath goes with the routes: a node may have got or lost
            // several next hops.
            let at = sysctl::take_out_several_ways(node);
            node.sysctls.splice(at..at, sysctl::of_several_ways(&node.name, &node.routes));
        }
        Ok(())
    }
}

/// The first `ethN` that no interface of the node has.
fn free_interface(node: &PlannedNode, there: &[(String, u32)]) -> String {
    let taken = |name: &String| {
        node.interfaces.iter().any(|i| i.name == *name) || there.iter().any(|(n, _)| n == name)
    };
    let mut all = (0..).map(|n: u32| format!("eth{n}"));
    all.find(|name| !taken(name)).unwrap_or_else(|| format!("eth{}", usize::MAX))
}
