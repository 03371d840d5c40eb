//! Packets that walk through a plan, hop by hop.
//!
//! Knows only the plan: segments are derived from its links, each step is a longest-prefix match
//! over the node's connected prefixes and routes, as in the kernel. If a route has several next
//! hops, a packet takes all of them at once: each path must lead to the destination.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

use ipnet::IpNet;

use crate::plan::{Plan, PlannedEnd, SwitchSlot};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Place {
    Node(usize),
    /// The host's side of a door, by link.
    Door(usize),
}

/// How a walk ended other than at its destination.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Lost {
    /// No route here.
    NoRoute(Place),
    /// Nobody has the next hop's address.
    NoNeighbour(Place, IpAddr),
    /// It reached a node that does not forward.
    NotForwarding(usize),
    /// Out through a door.
    Outside(usize),
    Circle,
}

/// A place on a segment.
struct Port {
    place: Place,
    segment: usize,
    addresses: Vec<IpNet>,
}

#[derive(Clone)]
struct Entry {
    to: IpNet,
    /// Next hops, each with the segment that leads to it.
    hops: Vec<(Option<IpAddr>, usize)>,
}

pub(crate) struct Simulator<'a> {
    plan: &'a Plan,
    ports: Vec<Port>,
    neighbours: HashMap<(usize, IpAddr), Place>,
    own: HashMap<Place, HashSet<IpAddr>>,
    tables: HashMap<Place, Vec<Entry>>,
}

impl<'a> Simulator<'a> {
    pub(crate) fn new(plan: &'a Plan) -> Self {
        let mut new = Simulator {
            plan,
            ports: ports(plan),
            neighbours: HashMap::new(),
            own: HashMap::new(),
            tables: HashMap::new(),
        };
        for port in &new.ports {
            let table = new.tables.entry(port.place).or_default();
            for address in &port.addresses {
                new.neighbours.insert((port.segment, address.addr()), port.place);
                new.own.entry(port.place).or_default().insert(address.addr());
                table.push(Entry { to: address.trunc(), hops: vec![(None, port.segment)] });
            }
        }
        new.add_routes();
        for table in new.tables.values_mut() {
            // Stable: connected before routed for equal lengths.
            table.sort_by_key(|entry| std::cmp::Reverse(entry.to.prefix_len()));
        }
        new
    }

    fn add_routes(&mut self) {
        let segments = segments(self.plan);
        for (index, node) in self.plan.nodes.iter().enumerate() {
            let table = self.tables.entry(Place::Node(index)).or_default();
            table.extend(node.routes.iter().map(|route| {
                let segment = |interface: usize| segments[node.interfaces[interface].link.get()];
                let first = [(route.via, segment(route.interface))].into_iter();
                let also = route.also.iter().map(|hop| (Some(hop.via), segment(hop.interface)));
                Entry { to: route.to, hops: first.chain(also).collect() }
            }));
        }
        // The outside is one machine: it has all doors.
        let doors = self.ports.iter().filter(|port| matches!(port.place, Place::Door(_)));
        let connected =
            doors.flat_map(|port| port.addresses.iter().map(|a| (a.trunc(), None, port.segment)));
        let back = self.plan.ways_back();
        let routed = back.iter().map(|way| (way.to, Some(way.via), segments[way.door.get()]));
        let entries: Vec<Entry> = connected
            .chain(routed)
            .map(|(to, via, at)| Entry { to, hops: vec![(via, at)] })
            .collect();
        for (place, table) in &mut self.tables {
            if matches!(place, Place::Door(_)) {
                table.extend(entries.iter().cloned());
            }
        }
    }

    /// Walks from a place to an address by all paths; returns the number of segments crossed by the shortest.
    pub(super) fn walk(&self, from: Place, to: IpAddr) -> Result<usize, Lost> {
        self.walk_on(from, to, &mut vec![from], &mut HashMap::new())
    }

    /// Continues from the last place of a path; `known` has the places with a known outcome.
    fn walk_on(
        &self,
        at: Place,
        to: IpAddr,
        path: &mut Vec<Place>,
        known: &mut HashMap<Place, usize>,
    ) -> Result<usize, Lost> {
        if self.own.get(&at).is_some_and(|own| own.contains(&to)) {
            return Ok(0);
        }
        match at {
            Place::Node(node) if path.len() > 1 && !self.plan.nodes[node].forwarding.any() => {
                return Err(Lost::NotForwarding(node));
            }
            Place::Door(link) if path.len() > 1 => return Err(Lost::Outside(link)),
            _ => {}
        }
        let mut entries = self.tables.get(&at).into_iter().flatten();
        let entry = entries.find(|e| e.to.contains(&to)).ok_or(Lost::NoRoute(at))?;
        let mut shortest = usize::MAX;
        for (via, segment) in &entry.hops {
            let next = via.unwrap_or(to);
            let there = self.neighbours.get(&(*segment, next));
            let there = *there.ok_or(Lost::NoNeighbour(at, next))?;
            if path.contains(&there) {
                return Err(Lost::Circle);
            }
            let rest = match known.get(&there) {
                Some(rest) => *rest,
                None => {
                    path.push(there);
                    let rest = self.walk_on(there, to, path, known)?;
                    path.pop();
                    rest
                }
            };
            shortest = shortest.min(rest + 1);
        }
        known.insert(at, shortest);
        Ok(shortest)
    }

    pub(super) fn places(&self) -> impl Iterator<Item = Place> {
        let nodes = (0..self.plan.nodes.len()).map(Place::Node);
        nodes.chain(self.ports.iter().map(|p| p.place).filter(|p| matches!(p, Place::Door(_))))
    }

    /// All addresses of one family that a place should reach: those on segments that routers with
    /// addresses of the family connect to its own.
    pub(super) fn reachable(&self, from: Place, ipv4: bool) -> HashSet<IpAddr> {
        let has = |port: &&Port| port.addresses.iter().any(|a| a.addr().is_ipv4() == ipv4);
        let ports: Vec<&Port> = self.ports.iter().filter(has).collect();
        let mut segments: HashSet<usize> = HashSet::new();
        let mut grown: HashSet<usize> =
            ports.iter().filter(|p| p.place == from).map(|p| p.segment).collect();
        while grown.len() > segments.len() {
            segments.clone_from(&grown);
            let forwards = |p: &Port| match p.place {
                Place::Node(node) => self.plan.nodes[node].forwarding.any(),
                Place::Door(_) => false,
            };
            let joined = ports.iter().filter(|p| forwards(p) && segments.contains(&p.segment));
            let routers: HashSet<Place> = joined.map(|p| p.place).collect();
            grown.extend(ports.iter().filter(|p| routers.contains(&p.place)).map(|p| p.segment));
        }
        let near = ports.iter().filter(|p| segments.contains(&p.segment));
        let addresses = near.flat_map(|p| &p.addresses).map(IpNet::addr);
        addresses.filter(|a| a.is_ipv4() == ipv4).collect()
    }

    /// Sends a packet from everywhere to everywhere reachable, in both families; returns the number sent.
    pub(crate) fn check_all(&self) -> usize {
        let mut sent = 0;
        for from in self.places() {
            for to in [true, false].map(|ipv4| self.reachable(from, ipv4)).into_iter().flatten() {
                let walk = self.walk(from, to);
                assert!(walk.is_ok(), "{from:?} to {to}: {walk:?}\n{}", self.describe());
                sent += 1;
            }
        }
        sent
    }

    /// Sends a packet to an address that nobody has, from everywhere.
    pub(super) fn check_no_circle(&self, to: IpAddr) {
        for from in self.places() {
            let walk = self.walk(from, to);
            assert!(walk != Err(Lost::Circle), "{from:?} to {to}: {walk:?}\n{}", self.describe());
        }
    }

    pub(super) fn describe(&self) -> String {
        let mut text: Vec<String> = self.plan.links.iter().map(|l| l.name.clone()).collect();
        for node in &self.plan.nodes {
            text.push(format!("{} forwarding={}", node.name, node.forwarding.any()));
            let interfaces = node.interfaces.iter();
            text.extend(interfaces.map(|i| format!("  {} {:?}", i.name, i.addresses)));
            text.extend(node.routes.iter().map(|r| format!("  {} {:?} {:?}", r.to, r.via, r.also)));
        }
        text.join("\n")
    }
}

fn ports(plan: &Plan) -> Vec<Port> {
    let segments = segments(plan);
    let mut ports = Vec::new();
    for (link, planned) in plan.links.iter().enumerate() {
        for end in &planned.ends {
            let (place, addresses) = match end {
                PlannedEnd::Node { node, interface } => {
                    let addresses = &plan.nodes[*node].interfaces[*interface].addresses;
                    (Place::Node(node.get()), addresses.clone())
                }
                PlannedEnd::Internet { addresses } => (Place::Door(link), addresses.clone()),
                PlannedEnd::Port { .. } | PlannedEnd::Host { .. } | PlannedEnd::Nowhere { .. } => {
                    continue;
                }
            };
            ports.push(Port { place, segment: segments[link], addresses });
        }
    }
    ports
}

/// By link its segment, as the smallest link of it.
pub(super) fn segments(plan: &Plan) -> Vec<usize> {
    let mut segments: Vec<usize> = (0..plan.links.len()).collect();
    let mut of_switch: HashMap<SwitchSlot, usize> = HashMap::new();
    let mut changed = true;
    while changed {
        changed = false;
        for (link, planned) in plan.links.iter().enumerate() {
            for end in &planned.ends {
                let PlannedEnd::Port { switch, .. } = end else { continue };
                let known = of_switch.entry(*switch).or_insert(segments[link]);
                let least = (*known).min(segments[link]);
                changed |= *known != least || segments[link] != least;
                *known = least;
                segments[link] = least;
            }
        }
    }
    segments
}
