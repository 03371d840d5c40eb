//! Routes given by hand, resolved to next hops and interfaces.

use std::collections::HashMap;
use std::net::IpAddr;

use ipnet::IpNet;

use super::error::PlanError;
use super::family::Family;
use super::segment::Topology;
use super::{Interface, PlannedNode, Route};
use crate::lab::{RouteSpec, Via};

/// Every node's interfaces, to find next hops in.
pub(crate) struct Neighbours<'a> {
    nodes: &'a [PlannedNode],
    topology: &'a Topology,
    by_name: HashMap<&'a str, usize>,
    /// By node and segment: its interfaces there, in their order.
    there: HashMap<(usize, usize), Vec<usize>>,
}

/// A route of a node, with its text for messages.
struct GivenRoute<'a> {
    node: usize,
    spec: &'a RouteSpec,
}

impl<'a> Neighbours<'a> {
    pub(crate) fn new(nodes: &'a [PlannedNode], topology: &'a Topology) -> Self {
        let by_name = nodes.iter().enumerate().map(|(node, of)| (of.name.as_str(), node)).collect();
        let mut there: HashMap<(usize, usize), Vec<usize>> = HashMap::new();
        for (node, of) in nodes.iter().enumerate() {
            for (index, interface) in of.interfaces.iter().enumerate() {
                there
                    .entry((node, topology.of_link[interface.link.get()]))
                    .or_default()
                    .push(index);
            }
        }
        Neighbours { nodes, topology, by_name, there }
    }

    /// The routes given for one node.
    pub(crate) fn resolve(
        &self,
        node: usize,
        specs: &[RouteSpec],
    ) -> Result<Vec<Route>, PlanError> {
        let mut routes = Vec::with_capacity(specs.len());
        for spec in specs {
            let asked = GivenRoute { node, spec };
            let device = self.device(&asked)?;
            match &spec.via {
                Some(Via::Address(via)) => routes.push(self.via_address(&asked, *via, device)?),
                Some(Via::Node(name)) => routes.extend(self.via_node(&asked, name, device)?),
                None => routes.extend(self.on_link(&asked, device)?),
            }
        }
        Ok(routes)
    }

    fn interfaces(&self, asked: &GivenRoute<'_>) -> &[Interface] {
        &self.nodes[asked.node].interfaces
    }

    fn name(&self, asked: &GivenRoute<'_>) -> String {
        self.nodes[asked.node].name.clone()
    }

    fn device(&self, asked: &GivenRoute<'_>) -> Result<Option<usize>, PlanError> {
        let Some(name) = &asked.spec.dev else { return Ok(None) };
        let found = self.interfaces(asked).iter().position(|i| i.name == *name);
        let missing = || PlanError::UnknownInterface {
            node: self.name(asked),
            to: asked.to(),
            interface: name.clone(),
        };
        found.map(Some).ok_or_else(missing)
    }

    fn via_address(
        &self,
        asked: &GivenRoute<'_>,
        via: IpAddr,
        device: Option<usize>,
    ) -> Result<Route, PlanError> {
        let family = Family::of(via);
        let to = asked.spec.to.map_or(family.everything(), |to| to.trunc());
        if Family::of_net(&to) != family {
            let (node, to) = (self.name(asked), asked.to());
            return Err(PlanError::FamilyMismatch { node, to, hop: via });
        }
        let near = |i: &Interface| i.addresses.iter().any(|own| own.contains(&via));
        let near = || self.interfaces(asked).iter().position(near);
        let interface = device.or_else(near).ok_or_else(|| self.no_hop(asked, via.to_string()))?;
        Ok(Route::single(to, Some(via), interface))
    }

    fn via_node(
        &self,
        asked: &GivenRoute<'_>,
        name: &str,
        device: Option<usize>,
    ) -> Result<Vec<Route>, PlanError> {
        let families = match &asked.spec.to {
            Some(to) => vec![Family::of_net(to)],
            None => Family::BOTH.to_vec(),
        };
        // A node is not its own next hop.
        let hop = self.by_name.get(name).copied().filter(|n| *n != asked.node);
        let route = |family: Family| {
            let (via, interface) = self.neighbour(asked, hop?, family, device)?;
            let to = asked.spec.to.map_or(family.everything(), |to| to.trunc());
            Some(Route::single(to, Some(via), interface))
        };
        let routes: Vec<Route> = families.into_iter().filter_map(route).collect();
        if routes.is_empty() {
            return Err(self.no_hop(asked, format!("{name:?}")));
        }
        Ok(routes)
    }

    /// The address of a node on the first segment shared with it, and the interface there.
    fn neighbour(
        &self,
        asked: &GivenRoute<'_>,
        hop: usize,
        family: Family,
        device: Option<usize>,
    ) -> Option<(IpAddr, usize)> {
        for (index, own) in self.interfaces(asked).iter().enumerate() {
            if device.is_some_and(|device| device != index) {
                continue;
            }
            let theirs = self.there.get(&(hop, self.topology.of_link[own.link.get()]));
            let theirs = theirs.into_iter().flatten().map(|i| &self.nodes[hop].interfaces[*i]);
            let theirs = theirs.flat_map(|i| &i.addresses).map(IpNet::addr);
            let mut theirs = theirs.filter(|a| Family::of(*a) == family);
            // Addresses by hand may put neighbours into different prefixes.
            if let Some(via) = theirs.find(|a| own.addresses.iter().any(|net| net.contains(a))) {
                return Some((via, index));
            }
        }
        None
    }

    fn on_link(
        &self,
        asked: &GivenRoute<'_>,
        device: Option<usize>,
    ) -> Result<Vec<Route>, PlanError> {
        let no_way = || PlanError::NoWay { node: self.name(asked), to: asked.to() };
        let interface = device.ok_or_else(no_way)?;
        if let Some(to) = asked.spec.to {
            return Ok(vec![Route::single(to.trunc(), None, interface)]);
        }
        let addresses = &self.interfaces(asked)[interface].addresses;
        let has = |family: &Family| addresses.iter().any(|a| Family::of_net(a) == *family);
        let families = Family::BOTH.into_iter().filter(has);
        let route = |family: Family| Route::single(family.everything(), None, interface);
        let routes: Vec<Route> = families.map(route).collect();
        // Without an address no family can be told.
        if routes.is_empty() { Err(no_way()) } else { Ok(routes) }
    }

    fn no_hop(&self, asked: &GivenRoute<'_>, hop: String) -> PlanError {
        PlanError::NoNextHop { node: self.name(asked), to: asked.to(), hop }
    }
}

impl GivenRoute<'_> {
    fn to(&self) -> String {
        self.spec.to.map_or_else(|| "default".to_owned(), |to| to.to_string())
    }
}
