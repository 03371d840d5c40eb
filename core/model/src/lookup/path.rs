//! The path of packets from one node to another: every interface that they pass, in order.
//!
//! Each node's kernel gives the next hop; from there
//! to the next node's interface the path is the shortest one along links and switches of the plan.
//! Interfaces of nodes and ports of kernel bridges are points; a shared-memory switch has none inside, so it
//! forms one hop with its links. No query goes to the machine here: a closure supplies routes.
//!
//! A wire at a bridge's port takes frames where they leave, before any other program there. Frames that enter
//! it are seen at its hidden tap. That is then the point, so that the wire's effects count for the link.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;

use crate::Plan;
use crate::kinds::CapturedAt;
use crate::plan::{LinkSlot, PlannedEnd, PlannedNode, Slot, SwitchSlot};

use crate::lookup::slot;
use crate::lookup::target::Space;
use crate::lookup::{LookupError, Result};

/// An interface that packets pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passage {
    /// Its network namespace.
    pub space: Space,
    /// Its name there.
    pub interface: String,
    /// Its name in the lab: `h1:eth0`, `s1/h1:eth0` for a bridge's port.
    pub name: String,
    /// Whether they leave there; else they enter.
    pub out: bool,
    /// Whether the interface is the hidden tap of the wire that takes the port's frames.
    pub wire: bool,
}

/// A path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketPath {
    /// The node that sends.
    pub from: String,
    /// The node that receives.
    pub to: String,
    /// The sender's address.
    pub source: IpAddr,
    /// The receiver's address.
    pub destination: IpAddr,
    /// The points from the sender's interface to the receiver's; at least two.
    pub points: Vec<Passage>,
    /// The hop between each point and the next: `link NAME`, `switch NAME`, `node NAME`.
    pub hops: Vec<String>,
}

/// A question to a node's kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question<'a> {
    /// The node.
    pub node: &'a str,
    /// The destination of packets.
    pub to: IpAddr,
    /// Their source and incoming interface, if they are forwarded.
    pub forwarded: Option<(IpAddr, &'a str)>,
}

/// The kernel's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Next {
    /// The outgoing interface.
    pub interface: String,
    /// The next router; `None` when the receiver is on the link.
    pub via: Option<IpAddr>,
    /// The source address of the node's own packets.
    pub source: Option<IpAddr>,
}

/// A node of a plan by its name.
///
/// # Errors
/// [`LookupError::NoNode`].
pub fn node<'p>(plan: &'p Plan, name: &str) -> Result<&'p PlannedNode> {
    Ok(&plan.nodes[slot(plan, name)?])
}

/// The first node on a path whose planned route to the end has several next hops, and how many: flows with
/// other ports may diverge there.
pub fn branch<'p>(plan: &'p Plan, way: &PacketPath) -> Option<(&'p str, usize)> {
    let leaving = way.points.iter().filter(|point| point.out);
    let nodes = leaving.filter_map(|point| match &point.space {
        Space::Node(name) => plan.node(name).map(|slot| &plan.nodes[slot]),
        _ => None,
    });
    let mut several = nodes.filter_map(|node| {
        let own = node.interfaces.iter().flat_map(|i| &i.addresses);
        // The receiver is on the link: then no route with next hops is used.
        if own.clone().any(|net| net.contains(&way.destination)) {
            return None;
        }
        let routes = node.routes.iter().filter(|route| route.to.contains(&way.destination));
        let best = routes.max_by_key(|route| route.to.prefix_len())?;
        (!best.also.is_empty()).then_some((node.name.as_str(), 1 + best.also.len()))
    });
    several.next()
}

/// Why a node sends packets no further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// It has no route, or one that drops packets.
    NoRoute,
    /// It has a route, but does not forward what comes by that interface.
    NotForwarding,
    /// It has a route, but its own way back to the source is another one, which its reverse path filter refuses
    /// (RFC 3704, section 2).
    ReversePath,
    /// It has a route, and its kernel does not tell why it drops such packets.
    Unknown,
}

impl Stop {
    /// The reason in words.
    fn words(self, question: &Question<'_>) -> String {
        let Question { node, to, forwarded } = question;
        let Some((source, interface)) = forwarded else {
            return format!("node {node:?} has no route to {to}");
        };
        let drops =
            format!("node {node:?} drops packets of {source} for {to} that come by {interface:?}");
        match self {
            Stop::NoRoute => format!("node {node:?} has no route to {to} for packets of {source}"),
            Stop::NotForwarding => format!("{drops}: it does not forward"),
            Stop::ReversePath => {
                format!("{drops}: it sends to {source} by another interface, and rp_filter is on")
            }
            Stop::Unknown => format!("{drops}: it has a route, and does not tell why"),
        }
    }
}

/// The next hop by the plan, for a node whose kernel cannot be asked: the guest of a virtual machine. The longest prefix of
/// its segments and routes counts; of several next hops the first is taken. Whether it forwards is the guest's matter.
///
/// # Errors
/// [`LookupError::NoNode`].
pub fn by_plan(plan: &Plan, question: &Question<'_>) -> Result<Answer> {
    let node = node(plan, question.node)?;
    let source = |of: &crate::plan::Interface| {
        let own = of.addresses.iter().map(ipnet::IpNet::addr);
        own.filter(|own| own.is_ipv4() == question.to.is_ipv4()).find(|own| !own.is_loopback())
    };
    let segments = node
        .interfaces
        .iter()
        .flat_map(|i| i.addresses.iter().map(move |net| (net.prefix_len(), i, None, *net)));
    let routes = node.routes.iter().filter_map(|route| {
        let interface = node.interfaces.get(route.interface)?;
        Some((route.to.prefix_len(), interface, route.via, route.to))
    });
    // Of equal ones the last counts: the segment.
    let all = routes.chain(segments).filter(|(.., net)| net.contains(&question.to));
    let best = all.max_by_key(|(length, ..)| *length);
    let next = best.map(|(_, interface, via, _)| Next {
        interface: interface.name.clone(),
        via,
        source: source(interface),
    });
    Ok(next.ok_or(Stop::NoRoute))
}

/// Where packets go next, or why they do not.
pub type Answer = std::result::Result<Next, Stop>;

/// Answers questions.
pub type Routes<'a, E> = dyn FnMut(&Question<'_>) -> std::result::Result<Answer, E> + 'a;

/// Finds paths in a plan.
#[derive(Debug)]
pub struct Finder<'a> {
    plan: &'a Plan,
    /// Directions with a wire: link's name and the sending end.
    wired: BTreeSet<(&'a str, usize)>,
}

/// A node's interface on a segment, and the way to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StationPath {
    /// The node.
    pub node: Slot,
    /// Its interface.
    pub interface: usize,
    /// The links in between, each with the end from which it is crossed.
    pub crossed: Vec<(LinkSlot, usize)>,
}

/// A link, and the end from which it is crossed.
type Crossing = (LinkSlot, usize);

impl<'a> Finder<'a> {
    /// For this plan, with wires in these directions: names of links and their sending ends.
    pub fn new(plan: &'a Plan, wired: impl IntoIterator<Item = (&'a str, usize)>) -> Finder<'a> {
        Finder { plan, wired: wired.into_iter().collect() }
    }

    /// The path of packets to an address of a node; with this source, or one of the sender's choice.
    ///
    /// # Errors
    /// [`LookupError::NoNode`]; [`LookupError::Invalid`] without a path, with the node and the address at
    /// which it ends; errors of `routes`.
    pub fn find<E: From<LookupError>>(
        &self,
        (from, to): (&str, &str),
        (source, destination): (Option<IpAddr>, IpAddr),
        routes: &mut Routes<'_, E>,
    ) -> std::result::Result<PacketPath, E> {
        let (mut at, target) = (slot(self.plan, from)?, slot(self.plan, to)?);
        let mut trace = Trace::default();
        let mut found_source = source;
        let mut came: Option<String> = None;
        let mut passed = BTreeSet::new();
        let fail =
            |reason| LookupError::Invalid { object: format!("way from {from} to {to}"), reason };
        let alone = || fail("a node sends nothing to itself".to_owned());
        if at == target {
            return Err(alone().into());
        }
        while at != target {
            let node = &self.plan.nodes[at].name;
            if !passed.insert(at) {
                return Err(
                    fail(format!("packets for {destination} come to node {node:?} again")).into()
                );
            }
            let forwarded = found_source.zip(came.as_deref());
            let question = Question { node, to: destination, forwarded };
            let next = routes(&question)?.map_err(|stop| fail(stop.words(&question)))?;
            if found_source.is_none() {
                // Only the sender itself chooses a source address.
                found_source = Some(next.source.ok_or_else(|| {
                    fail(format!("node {node:?} has no address to send to {destination} from"))
                })?);
            }
            let hop = next.via.unwrap_or(destination);
            let (path, there) = self.to_station(at, &next.interface, hop).map_err(fail)?;
            if let Some(card) = self.card_without_interface(&path) {
                return Err(fail(card).into());
            }
            trace.leave(self, at, &next.interface);
            trace.cross(self, &path);
            let arrived = &self.plan.nodes[there.0];
            let interface = &arrived.interfaces[there.1].name;
            trace.arrive(&arrived.name, interface);
            came = Some(interface.clone());
            at = there.0;
        }
        // The first node has chosen one.
        let source = found_source.ok_or_else(alone)?;
        let (from, to) = (from.to_owned(), to.to_owned());
        Ok(PacketPath { from, to, source, destination, points: trace.points, hops: trace.hops })
    }

    /// Why packets cannot be seen at an end of these crossings, if it is a card that has no interface.
    fn card_without_interface(&self, path: &[Crossing]) -> Option<String> {
        let links = path.iter().map(|(link, _)| &self.plan.links[*link]);
        let card = links.into_iter().find(|link| self.plan.is_guests_card(link))?;
        let node = &self.plan.nodes[self.plan.machine_of(card)?].name;
        Some(format!(
            "the card of machine {node:?} on link {:?} is a port of its switch, where nothing counts packets; without \
             `vhost-user` it has an interface",
            card.name
        ))
    }

    /// The crossings from a node's interface to the station with an address, and its owner.
    fn to_station(
        &self,
        node: Slot,
        interface: &str,
        address: IpAddr,
    ) -> std::result::Result<(Vec<Crossing>, (Slot, usize)), String> {
        let name = &self.plan.nodes[node].name;
        let own = self.plan.nodes[node].interfaces.iter().position(|i| i.name == interface);
        let own = own.ok_or_else(|| {
            format!("packets leave node {name:?} by interface {interface:?}, which is of no link of the lab")
        })?;
        // Addresses may occur on several segments; the one that the interface leads to counts.
        let mut owners = Vec::new();
        for (at, other) in self.plan.nodes.iter().enumerate() {
            let has = |(i, found): (usize, &crate::plan::Interface)| {
                found.addresses.iter().any(|a| a.addr() == address).then_some((Slot::new(at), i))
            };
            owners.extend(other.interfaces.iter().enumerate().filter_map(has));
        }
        if owners.is_empty() {
            return Err(format!(
                "node {name:?} hands packets to {address}, which no node of the lab's plan has"
            ));
        }
        let path = self
            .shortest((node, own), &owners)
            .ok_or_else(|| format!("no link leads from {name}:{interface} to {address}"))?;
        Ok(path)
    }

    /// The shortest path along links to any of these interfaces of nodes.
    fn shortest(
        &self,
        from: (Slot, usize),
        to: &[(Slot, usize)],
    ) -> Option<(Vec<Crossing>, (Slot, usize))> {
        let mut stations = self.segment(from);
        let found = stations.find(|found| to.contains(&(found.node, found.interface)))?;
        Some((found.crossed, (found.node, found.interface)))
    }

    /// All nodes' interfaces on the segment of one, with the shortest path to each.
    pub fn stations(&self, node: Slot, interface: usize) -> Vec<StationPath> {
        let own = (node, interface);
        self.segment(own).filter(|found| (found.node, found.interface) != own).collect()
    }

    /// Nodes' interfaces on the segment of one, the nearest first, as frames spread over its links and switches.
    fn segment(&self, from: (Slot, usize)) -> impl Iterator<Item = StationPath> + '_ {
        let start = self.crossing_of(from);
        let mut before: BTreeMap<Crossing, Option<Crossing>> =
            start.iter().map(|start| (*start, None)).collect();
        let mut next: VecDeque<Crossing> = start.into_iter().collect();
        std::iter::from_fn(move || {
            while let Some((link, end)) = next.pop_front() {
                match &self.plan.links[link].ends[1 - end] {
                    PlannedEnd::Node { node, interface } => {
                        let back = |at: &Crossing| before.get(at).copied().flatten();
                        let mut crossed: Vec<Crossing> =
                            std::iter::successors(Some((link, end)), back).collect();
                        crossed.reverse();
                        return Some(StationPath { node: *node, interface: *interface, crossed });
                    }
                    PlannedEnd::Port { switch, .. } => {
                        for onward in self.ports(*switch).filter(|on| *on != (link, 1 - end)) {
                            // Each port is entered once, so loops of switches end here.
                            before.entry(onward).or_insert_with(|| {
                                next.push_back(onward);
                                Some((link, end))
                            });
                        }
                    }
                    _ => {}
                }
            }
            None
        })
    }

    /// The link of a node's interface, from that end.
    fn crossing_of(&self, (node, interface): (Slot, usize)) -> Option<Crossing> {
        let link = self.plan.nodes.get(node.get())?.interfaces.get(interface)?.link;
        let link = (link != LinkSlot::NOT_SHOWN).then_some(link)?;
        let own = |end: &PlannedEnd| match end {
            PlannedEnd::Node { node: at, interface: i } => (*at, *i) == (node, interface),
            _ => false,
        };
        Some((link, self.plan.link_at(link)?.ends.iter().position(own)?))
    }

    /// Where frames that cross a link from this end can be seen: when they leave the switch before it, and when they
    /// enter the one after it.
    pub fn ports_of(&self, crossing: (LinkSlot, usize)) -> [Option<Passage>; 2] {
        let (link, end) = crossing;
        [self.port((link, end), true), self.port((link, 1 - end), false)]
    }

    /// Links with an end at a switch, and which end that is.
    fn ports(&self, at: SwitchSlot) -> impl Iterator<Item = Crossing> {
        let ends = self.plan.link_slots().flat_map(|link| [(link, 0), (link, 1)]);
        ends.filter_map(move |(link, end)| match &self.plan.links[link].ends[end] {
            PlannedEnd::Port { switch, .. } if *switch == at => Some((link, end)),
            _ => None,
        })
    }

    /// The port of a kernel bridge at which a crossing begins or ends.
    fn port(&self, (link, end): Crossing, out: bool) -> Option<Passage> {
        let planned = &self.plan.links[link];
        let PlannedEnd::Port { switch, name, .. } = &planned.ends[end] else { return None };
        let switch = &self.plan.switches[*switch];
        match switch.kind.captured_at() {
            CapturedAt::Ports => {}
            CapturedAt::Mirror => return None,
        }
        let far = &planned.ends[1 - end];
        // Between two switches a wire takes frames where they enter.
        let at_tap = out && !far.is_in_core() && self.wired.contains(&(planned.name.as_str(), end));
        let interface = if at_tap { planned.hidden_name(end) } else { name.clone() };
        let name = format!("{}/{}", switch.name, self.plan.end_text(far));
        Some(Passage { space: Space::Core, interface, name, out, wire: at_tap })
    }
}

/// A path as far as known.
#[derive(Default)]
struct Trace {
    points: Vec<Passage>,
    hops: Vec<String>,
    /// The objects passed since the last point.
    between: Vec<String>,
}

impl Trace {
    fn point(&mut self, point: Passage) {
        if !self.points.is_empty() {
            self.hops.push(std::mem::take(&mut self.between).join(" + "));
        }
        self.points.push(point);
    }

    fn at_node(&mut self, node: &str, interface: &str, out: bool) {
        let name = format!("{node}:{interface}");
        let space = Space::Node(node.to_owned());
        let interface = interface.to_owned();
        self.point(Passage { space, interface, name, out, wire: false });
    }

    fn leave(&mut self, finder: &Finder<'_>, node: Slot, interface: &str) {
        let node = &finder.plan.nodes[node].name;
        if !self.points.is_empty() {
            self.between.push(format!("node {node}"));
        }
        self.at_node(node, interface, true);
    }

    fn arrive(&mut self, node: &str, interface: &str) {
        self.at_node(node, interface, false);
    }

    fn cross(&mut self, finder: &Finder<'_>, path: &[Crossing]) {
        for (number, (link, end)) in path.iter().enumerate() {
            let planned = &finder.plan.links[*link];
            if number > 0 {
                if let PlannedEnd::Port { switch, .. } = &planned.ends[*end] {
                    self.between.push(format!("switch {}", finder.plan.switches[*switch].name));
                }
                finder.port((*link, *end), true).into_iter().for_each(|point| self.point(point));
            }
            self.between.push(format!("link {}", planned.name));
            finder.port((*link, 1 - end), false).into_iter().for_each(|point| self.point(point));
        }
    }
}

#[cfg(test)]
mod tests;
