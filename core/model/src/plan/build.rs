//! Puts a plan together from names, addresses and routes.

use std::sync::Arc;

use ipnet::IpNet;

use super::address::{self, Addressing};
use super::by_hand::Neighbours;
use super::error::PlanError;
use super::family::Family;
use super::graph::Graph;
use super::hash::Digest;
use super::mac::Macs;
use super::names::{Names, names};
use super::segment::{EndRef, Topology, topology};
use super::{
    DEFAULT_MTU, FIRST_INDEX, Interface, LinkId, LinkSlot, NodeId, Plan, PlannedEnd, PlannedLink,
    PlannedNode, PlannedSwitch, Route, Scheme, Slot, SwitchSlot, hosts, ports, route, sysctl,
};
use crate::lab::{End, Lab, Link};
use crate::published::Taken;

/// [`super::plan`] without the text of the file, for plans that are only compared.
pub(crate) fn build(lab: &Lab) -> Result<Plan, PlanError> {
    check_ends(lab)?;
    check_ports(lab)?;
    check_published(lab)?;
    let names = names(lab);
    let topology = topology(lab);
    // IPv6 after IPv4: it takes the same numbers where they are free.
    let assign = |family, like| address::assign(lab, &names, &topology, family, like, vec![]);
    let ipv4 = assign(Family::V4, None)?;
    let ipv6 = assign(Family::V6, Some(&ipv4))?;
    let both = [ipv4, ipv6];
    address::check_unique(lab, &names, &topology, &both)?;
    let builder = Builder { lab, names, topology, addresses: both };
    builder.build()
}

/// The parser's indices are valid, but nothing here may panic on a lab from elsewhere.
fn check_ends(lab: &Lab) -> Result<(), PlanError> {
    for (link, ends) in lab.links.iter().enumerate() {
        for (side, end) in ends.ends.iter().enumerate() {
            let known = match end {
                End::Node { node, .. } => *node < lab.nodes.len(),
                End::Switch { switch } => *switch < lab.switches.len(),
                End::Host { .. } | End::Internet | End::Nowhere => true,
            };
            if !known {
                return Err(PlanError::UnknownEnd { link, side });
            }
        }
    }
    Ok(())
}

/// A port of the host is one node's.
fn check_published(lab: &Lab) -> Result<(), PlanError> {
    let mut taken = Taken::default();
    for (at, node) in lab.nodes.iter().enumerate() {
        for port in &node.ports {
            if let Some(other) = taken.take(port, at) {
                let (node, other) = (node.name.clone(), lab.nodes[other].name.clone());
                return Err(PlanError::PortTaken { node, port: port.to_string(), other });
            }
        }
    }
    Ok(())
}

fn check_ports(lab: &Lab) -> Result<(), PlanError> {
    let mut ports = vec![0_usize; lab.switches.len()];
    for end in lab.links.iter().flat_map(|l| &l.ends) {
        if let End::Switch { switch } = end {
            ports[*switch] += 1;
        }
    }
    for (switch, ports) in lab.switches.iter().zip(ports) {
        let most = switch.kind.most_ports();
        if ports > most {
            let switch = switch.name.clone();
            return Err(PlanError::TooManyPorts { switch, ports, most });
        }
    }
    Ok(())
}

struct Builder<'a> {
    lab: &'a Lab,
    names: Names,
    topology: Topology,
    /// IPv4, IPv6.
    addresses: [Addressing; 2],
}

impl Builder<'_> {
    fn build(&self) -> Result<Plan, PlanError> {
        // MACs by hand are taken before any is made.
        let by_hand = self.lab.links.iter().flat_map(|link| link.macs).flatten();
        let mut macs = Macs::with_taken(&self.lab.name, by_hand);
        let mtus = self.segment_mtus();
        let mut switches = self.switches(&mut macs, &mtus);
        let mut nodes = self.nodes();
        let mut links = Vec::with_capacity(self.lab.links.len());
        let mut interfaces = Vec::with_capacity(self.lab.links.len());
        for (index, link) in self.lab.links.iter().enumerate() {
            let mtu = link.mtu.or(mtus[self.topology.of_link[index]]).unwrap_or(DEFAULT_MTU);
            let ends = [0, 1].map(|side| {
                let place = EndRef { link: index, side };
                self.end(place, link, mtu, &mut macs, &mut nodes)
            });
            interfaces.push([0, 1].map(|side| match &ends[side] {
                PlannedEnd::Node { interface, .. } => *interface,
                // Never read: only ends of nodes have one.
                _ => 0,
            }));
            links.push(PlannedLink {
                id: LinkId::new(index),
                name: self.names.links[index].clone(),
                ends,
                mtu,
                impairments: link.impairments.clone(),
            });
        }
        // After all links: a port may be named by a node that a later link connects.
        ports::fill_in_addresses(&mut switches, &nodes, &links);
        ports::number(&switches, &mut links);
        self.add_routes(&interfaces, &mut nodes)?;
        let hosts = hosts::hosts(&nodes);
        let (lab, digest) = (self.lab.name.clone(), String::new());
        let next_id = NodeId::new(nodes.len());
        let scheme = Some(self.scheme());
        let (slices, record) = (self.lab.slices.clone(), self.lab.record);
        let mut plan =
            Plan { lab, digest, next_id, nodes, switches, links, slices, record, hosts, scheme };
        super::form::check(&plan)?;
        // Last, over everything else.
        plan.digest = format!("{:016x}", digest_of(&mut plan));
        Ok(plan)
    }

    /// The scheme for links made later.
    fn scheme(&self) -> Scheme {
        let by_hand = self.lab.nodes.iter().enumerate().filter(|(_, node)| node.routes.is_some());
        let mut scheme = Scheme {
            pool: self.lab.pool,
            routing: self.lab.routing,
            ecmp: self.lab.ecmp,
            switches: std::collections::BTreeMap::new(),
            blocks: vec![],
            routed_by_hand: by_hand.map(|(id, _)| NodeId::new(id)).collect(),
            next_link: LinkId::new(self.lab.links.len()),
            file: None,
            numbered_as: self.lab.numbered_as.clone(),
        };
        // A node's place is its id here.
        scheme.note(&self.addresses, &self.topology, &self.lab.switches, NodeId::new);
        scheme
    }

    /// By segment: the smallest MTU given to its switches.
    fn segment_mtus(&self) -> Vec<Option<u32>> {
        let mtu = |switch: &usize| self.lab.switches[*switch].mtu;
        let segments = self.topology.segments.iter();
        // The smallest: bridges drop larger frames without a word to the sender.
        segments.map(|s| s.switches.iter().filter_map(mtu).min()).collect()
    }

    fn switches(&self, macs: &mut Macs<'_>, mtus: &[Option<u32>]) -> Vec<PlannedSwitch> {
        let mut mtu = vec![DEFAULT_MTU; self.lab.switches.len()];
        for (segment, given) in self.topology.segments.iter().zip(mtus) {
            for switch in &segment.switches {
                mtu[*switch] = given.unwrap_or(DEFAULT_MTU);
            }
        }
        let switch = |(index, switch): (usize, &crate::lab::Switch)| PlannedSwitch {
            name: switch.name.clone(),
            index: FIRST_INDEX + u32::try_from(index).unwrap_or(0),
            bridge: self.names.bridges[index].clone(),
            mac: macs.take("switch", &switch.name, ""),
            mtu: mtu[index],
            stp: switch.stp,
            kind: ports::with_number(&self.lab.name, &switch.name, switch.kind.clone()),
        };
        self.lab.switches.iter().enumerate().map(switch).collect()
    }

    /// The nodes without interfaces and routes.
    fn nodes(&self) -> Vec<PlannedNode> {
        let node = |(id, node): (usize, &crate::lab::Node)| PlannedNode {
            id: NodeId::new(id),
            spec: Arc::clone(&node.spec),
            sysctls: sysctl::sysctls(node),
            interfaces: Vec::new(),
            routes: Vec::new(),
            internet: false,
        };
        self.lab.nodes.iter().enumerate().map(node).collect()
    }

    fn addresses(&self, place: EndRef) -> Vec<IpNet> {
        self.addresses.iter().filter_map(|of| of.ends[place.link][place.side]).collect()
    }

    /// Plans one end, and adds the interface to its node.
    fn end(
        &self,
        place: EndRef,
        link: &Link,
        mtu: u32,
        macs: &mut Macs<'_>,
        nodes: &mut [PlannedNode],
    ) -> PlannedEnd {
        let EndRef { link: index, side } = place;
        match &link.ends[side] {
            End::Node { node, .. } => {
                let planned = &mut nodes[*node];
                let name = self.names.interfaces[index][side].clone().unwrap_or_default();
                let mac = macs.take("node", &planned.name, &name);
                // Taken even where one is given by hand: the other interfaces keep theirs.
                let (mac, mac_given) = (link.macs[side].unwrap_or(mac), link.macs[side].is_some());
                let addresses = self.addresses(place);
                let number = FIRST_INDEX + u32::try_from(planned.interfaces.len()).unwrap_or(0);
                let link = LinkSlot::new(index);
                planned.interfaces.push(Interface {
                    name,
                    index: number,
                    link,
                    mac,
                    mac_given,
                    mtu,
                    addresses,
                });
                PlannedEnd::Node { node: Slot::new(*node), interface: planned.interfaces.len() - 1 }
            }
            End::Switch { switch } => {
                let name = self.names.ports[index][side].clone().unwrap_or_default();
                let mac = macs.take("port", &self.lab.switches[*switch].name, &name);
                let (switch, number) = (SwitchSlot::new(*switch), link.numbers[side]);
                PlannedEnd::Port { switch, name, mac, number, numbered: number.is_some() }
            }
            End::Host { iface } => PlannedEnd::Host { iface: iface.clone() },
            End::Internet => PlannedEnd::Internet { addresses: self.addresses(place) },
            End::Nowhere => {
                let name = self.names.ports[index][side].clone().unwrap_or_default();
                let mac = macs.take("port", "nowhere", &name);
                PlannedEnd::Nowhere { name, mac }
            }
        }
    }

    fn add_routes(
        &self,
        interfaces: &[[usize; 2]],
        nodes: &mut [PlannedNode],
    ) -> Result<(), PlanError> {
        let mut routes: Vec<Vec<Route>> = vec![Vec::new(); nodes.len()];
        let graph = |(family, addressing)| {
            (family, Graph::new(self.lab, &self.topology, (family, addressing), interfaces))
        };
        let graphs: Vec<_> = Family::BOTH.into_iter().zip(&self.addresses).map(graph).collect();
        for (index, node) in nodes.iter_mut().enumerate() {
            node.internet = graphs.iter().any(|(_, graph)| graph.reaches_door(index));
        }
        if self.lab.routing {
            // Routes by hand replace all computed ones of a node.
            route::add_routes(self.lab, &graphs, &mut routes)?;
        }
        if self.lab.nodes.iter().any(|node| node.routes.is_some()) {
            let neighbours = Neighbours::new(nodes, &self.topology);
            for (index, node) in self.lab.nodes.iter().enumerate() {
                if let Some(specs) = &node.routes {
                    routes[index] = neighbours.resolve(index, specs)?;
                }
            }
        }
        for ((node, routes), of_file) in nodes.iter_mut().zip(routes).zip(&self.lab.nodes) {
            let own = node.sysctls.len() - of_file.sysctls.len();
            // Before the file's, which may override them.
            node.sysctls.splice(own..own, sysctl::of_several_ways(&node.name, &routes));
            node.routes = routes;
        }
        Ok(())
    }
}

/// The hash of everything in a plan except the digest, the next id and the scheme. Routes, of which there can
/// be millions, are hashed as numbers, the rest as JSON.
pub(super) fn digest_of(plan: &mut Plan) -> u64 {
    let mut digest = Digest::new();
    for node in &mut plan.nodes {
        let routes = std::mem::take(&mut node.routes);
        json(&mut digest, node);
        routes.iter().for_each(|route| digest_route(&mut digest, route));
        node.routes = routes;
    }
    json(&mut digest, &plan.lab);
    json(&mut digest, &plan.switches);
    json(&mut digest, &plan.links);
    // Only when there are some: digests of labs from before slices stay what they were.
    if !plan.slices.is_empty() {
        json(&mut digest, &plan.slices);
    }
    if let Some(record) = &plan.record {
        json(&mut digest, record);
    }
    json(&mut digest, &plan.hosts);
    digest.finish()
}

fn json(digest: &mut Digest, part: &impl serde::Serialize) {
    // Serialising cannot fail: the digest does not, and these types only have text keys.
    let written = serde_json::to_writer(digest, part);
    debug_assert!(written.is_ok());
}

fn digest_route(digest: &mut Digest, route: &Route) {
    let mut number = |number: u128| {
        digest.bytes(&number.to_be_bytes());
    };
    number(super::family::number(route.to.addr()));
    number(route.via.map_or(0, super::family::number));
    // Zero stands for no next hop above; these bits tell it from an address of zeros.
    let kinds = [route.to.addr().is_ipv4(), route.via.is_some()].map(u64::from);
    digest.word(u64::from(route.to.prefix_len()) | kinds[0] << 8 | kinds[1] << 9);
    digest.word(route.interface as u64);
    for hop in route.also.iter() {
        digest.bytes(&super::family::number(hop.via).to_be_bytes());
        digest.word(hop.interface as u64);
    }
}
