//! Reachability: routers and the segments between them, in one address family.
//!
//! A router is on a segment of this graph when it has an address in the segment's prefix.

use std::net::IpAddr;

use ipnet::IpNet;

use super::address::Addressing;
use super::family::Family;
use super::pool::Block;
use super::segment::{EndRef, Topology};
use crate::lab::{End, Lab};

/// A node's or door's place on a segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attachment {
    pub(crate) segment: usize,
    pub(crate) address: IpAddr,
    /// Index into the node's interfaces.
    pub(crate) interface: usize,
    pub(crate) node: usize,
}

/// The graph of one family.
pub(crate) struct Graph<'a> {
    lab: &'a Lab,
    family: Family,
    pub(crate) addressing: &'a Addressing,
    /// By node: its places, in the order of its interfaces.
    pub(crate) of_node: Vec<Vec<Attachment>>,
    /// By segment: the places of its routers, in the order of the file.
    pub(crate) routers: Vec<Vec<Attachment>>,
    /// By segment: the host's address where it has an `internet` door.
    pub(crate) doors: Vec<Option<IpAddr>>,
    /// By segment: the component its routers belong to; `None` without a router.
    pub(crate) component: Vec<Option<usize>>,
    /// By component: whether it reaches an `internet` door.
    pub(crate) has_door: Vec<bool>,
    /// By segment: whether its owner's block leads to it.
    pub(crate) in_block: Vec<bool>,
}

impl<'a> Graph<'a> {
    /// Builds the graph; `interfaces` is by link and side the index into the node's interfaces.
    pub(crate) fn new(
        lab: &'a Lab,
        topology: &Topology,
        (family, addressing): (Family, &'a Addressing),
        interfaces: &[[usize; 2]],
    ) -> Self {
        let segments = topology.segments.len();
        let mut graph = Graph {
            lab,
            family,
            addressing,
            of_node: vec![Vec::new(); lab.nodes.len()],
            routers: vec![Vec::new(); segments],
            doors: vec![None; segments],
            component: vec![None; segments],
            has_door: Vec::new(),
            in_block: vec![false; segments],
        };
        // Links are in the order of the file, and so are each node's interfaces.
        for (link, ends) in lab.links.iter().enumerate() {
            for (side, end) in ends.ends.iter().enumerate() {
                let interface = interfaces[link][side];
                graph.attach(EndRef { link, side }, end, topology.of_link[link], interface);
            }
        }
        graph.find_components();
        for segment in 0..segments {
            graph.in_block[segment] = graph.led_to_by_block(segment);
        }
        graph
    }

    fn attach(&mut self, place: EndRef, end: &End, segment: usize, interface: usize) {
        let Some(address) = self.addressing.ends[place.link][place.side] else { return };
        let prefix = self.addressing.prefixes[segment].map(|p| p.net);
        let Some(prefix) = prefix.filter(|p| address.trunc() == *p) else { return };
        debug_assert!(prefix.contains(&address.addr()));
        let address = address.addr();
        match end {
            End::Node { node, .. } => {
                let place = Attachment { segment, address, interface, node: *node };
                self.of_node[*node].push(place);
                if self.family.forwards(&self.lab.nodes[*node]) {
                    self.routers[segment].push(place);
                }
            }
            End::Internet => {
                // The first door in the file wins, so a later one changes nothing.
                self.doors[segment].get_or_insert(address);
            }
            End::Switch { .. } | End::Host { .. } | End::Nowhere => {}
        }
    }

    /// A block leads to a segment when its owner is a router that is on it.
    fn led_to_by_block(&self, segment: usize) -> bool {
        let block = self.addressing.prefixes[segment].and_then(|p| p.block);
        let owner = block.map(|b| self.addressing.blocks[b].owner);
        owner.is_some_and(|owner| self.routers[segment].iter().any(|r| r.node == owner))
    }

    fn find_components(&mut self) {
        let mut seen = vec![false; self.of_node.len()];
        for start in 0..self.routers.len() {
            if self.component[start].is_some() || self.routers[start].is_empty() {
                continue;
            }
            let new = self.has_door.len();
            let mut door = false;
            let mut open = vec![start];
            self.component[start] = Some(new);
            while let Some(segment) = open.pop() {
                door |= self.doors[segment].is_some();
                for router in &self.routers[segment] {
                    if std::mem::replace(&mut seen[router.node], true) {
                        continue;
                    }
                    for next in &self.of_node[router.node] {
                        if self.component[next.segment].replace(new).is_none() {
                            open.push(next.segment);
                        }
                    }
                }
            }
            self.has_door.push(door);
        }
    }

    /// Whether a node reaches a door, by itself or through a router.
    pub(crate) fn reaches_door(&self, node: usize) -> bool {
        self.of_node[node].iter().any(|place| {
            let through = self.component[place.segment].is_some_and(|c| self.has_door[c]);
            through || self.doors[place.segment].is_some()
        })
    }

    /// The component of a router; `None` if it is on no segment.
    pub(crate) fn component_of(&self, router: usize) -> Option<usize> {
        self.of_node[router].first().and_then(|place| self.component[place.segment])
    }

    /// The prefix of a segment; only those without one have no routers either.
    pub(crate) fn prefix(&self, segment: usize) -> Option<IpNet> {
        self.addressing.prefixes[segment].map(|p| p.net)
    }

    /// Blocks that lead to a segment. One whose links were removed, or whose owner has no address in it,
    /// leads nowhere: its owner would send packets for the block back.
    pub(crate) fn router_blocks(&self) -> impl Iterator<Item = &Block> {
        let blocks = &self.addressing.blocks;
        let mut leads = vec![false; blocks.len()];
        for (prefix, in_block) in self.addressing.prefixes.iter().zip(&self.in_block) {
            if let (true, Some(block)) = (*in_block, prefix.and_then(|prefix| prefix.block)) {
                leads[block] = true;
            }
        }
        blocks.iter().zip(leads).filter(|of| of.1).map(|of| of.0)
    }
}
