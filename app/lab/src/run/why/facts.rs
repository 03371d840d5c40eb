//! Answers the questions of `core/why` about a running lab: each node, link and switch is read once.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;

use netloom_bridge::VlanMode;
use netloom_flow::control::requests::{PortKey, TraceWhat};
use netloom_model::Plan;
use netloom_model::kinds::shm::ShmSwitch;
use netloom_model::lookup::path::{self, Finder, Passage, Question, StationPath};
use netloom_model::lookup::slot;
use netloom_model::lookup::target::Space;
use netloom_model::plan::port_names::shortened_port_name;
use netloom_model::plan::{LinkSlot, PlannedEnd, PlannedNode, Slot};
use netloom_netlink::{Contents, Family, Found, Lookup as KernelLookup, PathAnswer, Socket};
use netloom_switch::rules::{Vid, Vlan};
use netloom_sys::namespace;
use netloom_why::Place;
use netloom_why::facts::{
    BgpRoute, Crossing, Daemons, Discarding, Facts, Life, Link, Lookup, Matched, Node,
    PlannedInterface, PlannedRoute, PortRules, Refusal, Routed, Station, Switch, Traced,
};

use super::{daemons, names, programs, reading};
use crate::keep::switches::vlan_of;
use crate::run::running::Running;
use crate::store::state::State;
use crate::view::{LinkStatus, NodeStatus};
use crate::{Error, Result};

/// The kernel's table of ordinary routes comes first where several have a route.
const DISCARDS: [(u8, &str); 4] =
    [(6, "blackhole"), (7, "unreachable"), (8, "prohibit"), (9, "throw")];

pub(super) struct LabFacts<'a> {
    running: &'a Running,
    state: &'a State,
    spaces: BTreeMap<Slot, Option<Rc<OwnedFd>>>,
    nodes: BTreeMap<String, Rc<Node>>,
    links: BTreeMap<String, Rc<Link>>,
    daemons: Option<Rc<Vec<(String, Daemons)>>>,
}

impl<'a> LabFacts<'a> {
    pub(super) fn new(running: &'a Running, state: &'a State) -> LabFacts<'a> {
        let (spaces, nodes, links, daemons) = Default::default();
        LabFacts { running, state, spaces, nodes, links, daemons }
    }

    pub(super) fn plan(&self) -> &'a Plan {
        &self.state.plan
    }

    /// Forgets what was read of nodes, which is then read again.
    pub(super) fn forget_nodes(&mut self) {
        self.nodes.clear();
    }

    /// The network namespace of a node; `None` if its init has ended.
    pub(super) fn space(&self, at: Slot) -> Option<Rc<OwnedFd>> {
        if let Some(known) = self.spaces.get(&at) {
            return known.clone();
        }
        let pids = self.running.pids_of(self.plan(), &[at].into());
        let pid = pids.get(at.get()).copied().flatten()?;
        namespace::network_of(pid).ok().map(Rc::new)
    }

    /// The namespace of switches' ports.
    pub(super) fn core(&self) -> Option<OwnedFd> {
        self.running.core_network()
    }

    /// Does something in a node's network namespace; `None` if its init has ended.
    pub(super) fn within<T: Send>(
        &self,
        at: Slot,
        f: impl FnOnce() -> Result<T> + Send,
    ) -> Result<Option<T>> {
        let Some(space) = self.space(at) else { return Ok(None) };
        inside(&space, f).map(Some)
    }

    /// The address of a family that a node is known by: the plan's, else one that it has.
    pub(super) fn address(&mut self, at: Slot, family: u8) -> Result<Option<IpAddr>> {
        let planned = planned_address(&self.plan().nodes[at], family);
        match planned {
            Some(planned) => Ok(Some(planned)),
            None => self.held(at, family),
        }
    }

    /// An address of a family that a node has; the plan's if it has none.
    pub(super) fn held(&mut self, at: Slot, family: u8) -> Result<Option<IpAddr>> {
        let planned = &self.plan().nodes[at];
        let node = self.node(&planned.name)?;
        let mut all = node.interfaces.iter().flat_map(|i| &i.addresses).map(ipnet::IpNet::addr);
        let usable = |a: &IpAddr| {
            let link_local = matches!(a, IpAddr::V6(six) if six.is_unicast_link_local());
            a.is_ipv4() == (family == 4) && !a.is_loopback() && !link_local
        };
        let preferred = planned_address(planned, family);
        Ok(preferred.filter(|p| node.has(*p)).or_else(|| all.find(usable)).or(preferred))
    }

    /// A link as it is now, read again.
    pub(super) fn fresh_link(&self, link: &str) -> Result<Link> {
        Ok(of_status(&self.running.link(link)?))
    }

    fn read(&self, at: Slot) -> Result<Node> {
        let planned = &self.plan().nodes[at];
        let read = match planned.kind.as_vm() {
            Some(_) => self.space(at).map(|_| Node { life: Life::Guest, ..Node::default() }),
            None => self.within(at, || reading::node(planned))?,
        };
        let pids = self.running.pids_of(self.plan(), &[at].into());
        let pid = pids.get(at.get()).copied().flatten().map(|pid| pid.as_raw_nonzero().get());
        let mut node = read.unwrap_or(Node { life: Life::Dead, ..Node::default() });
        node.name.clone_from(&planned.name);
        node.planned = planned.interfaces.iter().map(|i| self.planned_interface(i)).collect();
        node.planned_routes = planned_routes(planned);
        if node.life == Life::Up {
            node.resolvers = pid.map_or_else(Vec::new, names::resolvers);
            node.budget = self.running.node(&planned.name).ok().and_then(|status| budget(&status));
        }
        Ok(node)
    }

    fn planned_interface(&self, of: &netloom_model::plan::Interface) -> PlannedInterface {
        let link = self.plan().link_at(of.link);
        PlannedInterface {
            name: of.name.clone(),
            addresses: of.addresses.clone(),
            link: link.map_or_else(String::new, |link| link.name.clone()),
            unplugged: link.is_some_and(|link| self.state.down.contains(&link.id)),
            mtu: of.mtu,
        }
    }

    /// A look-up with the index of its interface.
    fn asked(&mut self, node: &str, lookup: &Lookup<'_>) -> Result<KernelLookup> {
        let known = self.node(node)?;
        let came = lookup
            .came
            .and_then(|(source, interface)| Some((source, known.interface(interface)?.index)));
        Ok(KernelLookup { to: lookup.to, forwarded: came })
    }

    fn slot(&self, node: &str) -> Result<Slot> {
        Ok(slot(self.plan(), node)?)
    }

    /// Directions of links that have a wire, as far as the plan tells: their points are at other interfaces.
    fn wired(&mut self, crossed: &[(LinkSlot, usize)]) -> Result<Vec<(String, usize)>> {
        let mut all = Vec::new();
        for (link, _) in crossed {
            let name = self.plan().links[*link].name.clone();
            let found = self.link(&name)?;
            if found.wire.is_some() {
                let ends = (0..2).filter(|end| !found.impairments[*end].is_empty());
                all.extend(ends.map(|end| (name.clone(), end)));
            }
        }
        Ok(all)
    }

    /// All nodes' interfaces on the segment of one, with the links to each.
    fn segment(&self, node: &str, interface: &str) -> Result<Vec<StationPath>> {
        let at = self.slot(node)?;
        let plan = self.plan();
        let own = plan.nodes[at].interfaces.iter().position(|i| i.name == interface);
        Ok(own.map_or_else(Vec::new, |own| Finder::new(plan, []).stations(at, own)))
    }

    /// The name of the port of an OpenFlow switch at a link.
    fn flow_port(&self, switch: &str, link: &str) -> Option<String> {
        let planned = self.plan().links.iter().find(|l| l.name == link)?;
        let side = (0..2).find(|side| match &planned.ends[*side] {
            PlannedEnd::Port { switch: at, .. } => self.plan().switches[*at].name == switch,
            _ => false,
        })?;
        Some(self.plan().port_name(planned, side))
    }

    fn crossings(&mut self, crossed: &[(LinkSlot, usize)]) -> Result<Vec<Crossing>> {
        let wired = self.wired(crossed)?;
        let plan = self.plan();
        let named = wired.iter().map(|(link, end)| (link.as_str(), *end));
        let finder = Finder::new(plan, named);
        let ports: Vec<_> = crossed.iter().map(|at| finder.ports_of(*at)).collect();
        let crossing = |(at, (link, from)): (usize, &(LinkSlot, usize))| {
            let planned = &plan.links[*link];
            let switch = match &planned.ends[1 - from] {
                PlannedEnd::Port { switch, .. } => Some(&plan.switches[*switch]),
                _ => None,
            };
            let next = ports.get(at + 1);
            Crossing {
                link: planned.name.clone(),
                from: *from,
                into: ports[at][1].as_ref().map(place),
                switch: switch.map(|s| Switch { name: s.name.clone(), kind: s.kind.word().into() }),
                out_of: next.and_then(|next| next[0].as_ref()).map(place),
            }
        };
        Ok(crossed.iter().enumerate().map(crossing).collect())
    }
}

/// Does something in a network namespace, on a thread that ends.
pub(super) fn inside<T: Send>(space: &OwnedFd, f: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    namespace::run_in(space.as_fd(), "netloom-why", f)
}

fn place(passage: &Passage) -> Place {
    let node = match &passage.space {
        Space::Node(node) => Some(node.clone()),
        Space::Core | Space::Host => None,
    };
    let (interface, name) = (passage.interface.clone(), passage.name.clone());
    Place { node, interface, out: passage.out, name }
}

fn planned_address(node: &PlannedNode, family: u8) -> Option<IpAddr> {
    if family == 4 { node.ipv4().map(IpAddr::V4) } else { node.ipv6().map(IpAddr::V6) }
}

fn planned_routes(node: &PlannedNode) -> Vec<PlannedRoute> {
    let name = |at: usize| node.interfaces.get(at).map(|i| i.name.clone()).unwrap_or_default();
    let route = |route: &netloom_model::plan::Route| {
        let also = route.also.iter().map(|hop| (Some(hop.via), name(hop.interface)));
        let hops = std::iter::once((route.via, name(route.interface))).chain(also).collect();
        PlannedRoute { to: route.to, hops }
    };
    node.routes.iter().map(route).collect()
}

fn of_status(status: &LinkStatus) -> Link {
    let mut link = Link {
        down: status.down,
        ends: status.ends.clone(),
        wire: status.wire.as_ref().map(|wire| wire.state.clone()),
        ..Link::default()
    };
    let directions = status.wire.iter().flat_map(|wire| &wire.directions).enumerate().take(2);
    for (end, direction) in directions.filter_map(|(end, d)| Some((end, d.as_ref()?))) {
        link.impairments[end].clone_from(&direction.impairments);
        link.lost[end].clone_from(&direction.lost);
    }
    link
}

/// What rules of routing may ask for.
fn carried(lookup: &Lookup<'_>) -> Option<Contents> {
    lookup.carries.map(|(protocol, ports)| Contents { protocol, ports })
}

impl Facts for LabFacts<'_> {
    type Error = Error;

    fn lab(&self) -> &str {
        &self.state.plan.lab
    }

    fn node(&mut self, node: &str) -> Result<Rc<Node>> {
        if let Some(known) = self.nodes.get(node) {
            return Ok(Rc::clone(known));
        }
        let at = self.slot(node)?;
        let space = self.space(at);
        self.spaces.insert(at, space);
        let read = Rc::new(self.read(at)?);
        self.nodes.insert(node.to_owned(), Rc::clone(&read));
        Ok(read)
    }

    fn route(&mut self, node: &str, lookup: &Lookup<'_>) -> Result<Routed> {
        let at = self.slot(node)?;
        let known = self.node(node)?;
        if known.life != Life::Up {
            return by_plan(self.plan(), node, lookup);
        }
        let (asked, carries) = (self.asked(node, lookup)?, carried(lookup));
        let object = format!("node {node:?}");
        let answer = self.within(at, || {
            let refused = || Error::of(&object, "ask for its route");
            let mut socket = Socket::open_to_ask().map_err(refused())?;
            socket.path_to(&asked, carries.as_ref()).map_err(refused())
        })?;
        let name = |index: u32| {
            let found = known.interfaces.iter().find(|i| i.index == index);
            found.map_or_else(|| format!("interface {index}"), |i| i.name.clone())
        };
        Ok(match answer {
            None => Routed::Refused(Refusal::NoRoute),
            Some(PathAnswer::Found(Found::Here)) => Routed::Here,
            Some(PathAnswer::Found(Found::Leaves { link, via, source })) => {
                Routed::Leaves { interface: name(link), via, source }
            }
            Some(PathAnswer::Dropped(errno)) => Routed::Refused(refusal(errno)),
        })
    }

    fn matched(&mut self, node: &str, lookup: &Lookup<'_>) -> Result<Option<Matched>> {
        let (at, asked, carries) = (self.slot(node)?, self.asked(node, lookup)?, carried(lookup));
        let object = format!("node {node:?}");
        let found = self.within(at, || {
            let refused = || Error::of(&object, "ask for its route");
            let mut socket = Socket::open_to_ask().map_err(refused())?;
            socket.matched_route(&asked, carries.as_ref()).map_err(refused())
        })?;
        Ok(found.flatten().map(|found| Matched { to: found.to, table: found.table }))
    }

    fn discarding(&mut self, node: &str, to: IpAddr) -> Result<Vec<Discarding>> {
        let at = self.slot(node)?;
        let family = if to.is_ipv4() { Family::V4 } else { Family::V6 };
        let object = format!("node {node:?}");
        let routes = self.within(at, || {
            let refused = || Error::of(&object, "read its routes");
            let mut socket = Socket::open_to_ask().map_err(refused())?;
            socket.forwarding_routes(family).map_err(refused())
        })?;
        let of_kind = |route: netloom_netlink::ForwardingRoute| {
            let (_, kind) = DISCARDS.iter().find(|(number, _)| *number == route.kind)?;
            let (table, origin) = (route.table, route.origin);
            Some(Discarding { kind, to: route.to, table, origin })
        };
        Ok(routes.unwrap_or_default().into_iter().filter_map(of_kind).collect())
    }

    fn stations(&mut self, node: &str, interface: &str, first: IpAddr) -> Result<Vec<Station>> {
        let plan = self.plan();
        let mut all = self.segment(node, interface)?;
        let planned = |found: &StationPath| {
            let own = &plan.nodes[found.node].interfaces[found.interface];
            own.addresses.iter().any(|net| net.addr() == first)
        };
        all.sort_by_key(|found| !planned(found));
        let station = |found: &StationPath| {
            let station = &plan.nodes[found.node];
            let interface = station.interfaces[found.interface].name.clone();
            Station { node: station.name.clone(), interface }
        };
        Ok(all.iter().map(station).collect())
    }

    fn crossed(&mut self, node: &str, interface: &str, to: &Station) -> Result<Vec<Crossing>> {
        let plan = self.plan();
        let is_it = |found: &StationPath| {
            let station = &plan.nodes[found.node];
            station.name == to.node && station.interfaces[found.interface].name == to.interface
        };
        let found = self.segment(node, interface)?.into_iter().find(is_it);
        found.map_or(Ok(vec![]), |found| self.crossings(&found.crossed))
    }

    fn has(&mut self, node: &str, address: IpAddr) -> Result<bool> {
        if let Some(known) = self.nodes.get(node) {
            return Ok(known.has(address));
        }
        let at = self.slot(node)?;
        if self.plan().nodes[at].kind.as_vm().is_some() {
            return Ok(false);
        }
        let object = format!("node {node:?}");
        let found = self.within(at, || {
            let refused = || Error::of(&object, "read its addresses");
            let mut socket = Socket::open_to_ask().map_err(refused())?;
            socket.addresses().map_err(refused())
        })?;
        Ok(found.is_some_and(|all| all.iter().any(|found| found.address.addr() == address)))
    }

    fn traced(&mut self, switch: &str, links: [&str; 2], frame: &[u8]) -> Result<Option<Traced>> {
        let [Some(input), Some(output)] = links.map(|link| self.flow_port(switch, link)) else {
            return Ok(None);
        };
        let hex = frame.iter().map(|byte| format!("{byte:02x}")).collect();
        let what = TraceWhat::Frame { port: PortKey::Name(input), hex };
        // A switch that does not answer is told as one that does not tell.
        let Ok(found) = self.running.trace_a_frame(switch, &what) else { return Ok(None) };
        let passes = found.sent.iter().any(|sent| sent.name == output);
        let mut traced = Traced {
            passes,
            elsewhere: found.sent.iter().map(|sent| sent.name.clone()).collect(),
            entry: found.steps.iter().rev().find_map(|step| step.entry.clone()),
            drops: found.drops,
            asks: found.packet_ins > 0,
            meters: found.meters,
            away: vec![],
        };
        if !passes && let Ok(shown) = self.running.show_the_openflow(switch) {
            let away = shown.controllers.iter().filter(|c| c.connection.is_none());
            let why = |c: &netloom_flow::control::requests::ControllerShown| match &c.reason {
                Some(reason) => format!("{} is not connected: {reason}", c.target),
                None => format!("{} is not connected", c.target),
            };
            traced.away = away.map(why).collect();
        }
        Ok(Some(traced))
    }

    fn planned_owner(&mut self, address: IpAddr) -> Result<Option<Option<String>>> {
        let plan = self.plan();
        let beyond =
            |end: &PlannedEnd| !matches!(end, PlannedEnd::Node { .. } | PlannedEnd::Port { .. });
        if plan.links.iter().flat_map(|link| &link.ends).any(beyond) {
            return Ok(None);
        }
        let has = |at: &Slot| plan.nodes[*at].all_addresses().any(|net| net.addr() == address);
        Ok(Some(plan.slots().find(has).map(|at| plan.nodes[at].name.clone())))
    }

    fn daemons(&mut self) -> Result<Rc<Vec<(String, Daemons)>>> {
        if let Some(known) = &self.daemons {
            return Ok(Rc::clone(known));
        }
        let plan = self.plan();
        let routers: BTreeSet<Slot> =
            plan.slots().filter(|at| plan.nodes[*at].kind.as_vm().is_none()).collect();
        let pids = self.running.pids_of(plan, &routers);
        let each = routers.iter().filter_map(|at| {
            let found =
                daemons::read(pids.get(at.get()).copied().flatten()?.as_raw_nonzero().get())?;
            Some((plan.nodes[*at].name.clone(), found))
        });
        let all = Rc::new(each.collect::<Vec<_>>());
        self.daemons = Some(Rc::clone(&all));
        Ok(all)
    }

    fn stopped(&mut self, node: &str, inode: u32) -> Result<Option<i32>> {
        let at = self.slot(node)?;
        let pids = self.running.pids_of(self.plan(), &BTreeSet::from([at]));
        let init = pids.get(at.get()).copied().flatten();
        Ok(init.and_then(|init| programs::stopped(init.as_raw_nonzero().get(), inode)))
    }

    fn bgp_route(&mut self, node: &str, to: IpAddr) -> Result<Option<BgpRoute>> {
        let at = self.slot(node)?;
        let pids = self.running.pids_of(self.plan(), &BTreeSet::from([at]));
        let pid = pids.get(at.get()).copied().flatten();
        Ok(pid.and_then(|pid| daemons::bgp_route(pid.as_raw_nonzero().get(), to)))
    }

    fn link(&mut self, link: &str) -> Result<Rc<Link>> {
        if let Some(known) = self.links.get(link) {
            return Ok(Rc::clone(known));
        }
        let read = Rc::new(self.fresh_link(link)?);
        self.links.insert(link.to_owned(), Rc::clone(&read));
        Ok(read)
    }

    fn ports(&mut self, switch: &str, links: [&str; 2]) -> Result<Option<[PortRules; 2]>> {
        let running = self.running;
        let shown = running.kept.keepers.switches.shown(&running.folder, switch);
        let Some(shown) = shown else { return Ok(None) };
        let is_aware = shown.ports.iter().any(|port| port.rules.vlan.is_some());
        let port = |link: &str| {
            let planned = self.plan().links.iter().find(|l| l.name == link)?;
            let (side, of_file) = (0..2).find_map(|side| {
                let at = self.plan().shm_switch_at(&planned.ends[side])?;
                let found = self.plan().switch_at(at).filter(|s| s.name == switch)?;
                Some((side, found.kind.as_shm()?))
            })?;
            let name = self.plan().port_name(planned, side);
            let found = shown.ports.iter().find(|port| port.name == name)?;
            Some(PortRules {
                vlan: vlan(found.rules.vlan.as_ref(), is_aware),
                planned: vlan_of_file(of_file, &name),
                port: name,
                macs: found.rules.macs.iter().map(|mac| mac.0).collect(),
            })
        };
        Ok(port(links[0]).zip(port(links[1])).map(|(a, b)| [a, b]))
    }
}

/// Ports without a rule are access ports of VLAN 1 once another has one.
fn vlan(rule: Option<&Vlan>, is_aware: bool) -> VlanMode {
    match rule {
        None if is_aware => VlanMode::Access(Vid::ONE),
        None => VlanMode::Any,
        Some(rule) => rule.into(),
    }
}

/// The VLANs that the lab's file gives a port.
fn vlan_of_file(switch: &ShmSwitch, name: &str) -> VlanMode {
    let is_aware = switch.ports.values().any(|port| port.vlan.is_some());
    let own = switch.ports.iter().find(|(port, _)| shortened_port_name(port) == name);
    // The file was checked when the lab came up.
    let rule = own.and_then(|(_, port)| vlan_of(port.vlan.as_ref()?).ok());
    vlan(rule.as_ref(), is_aware)
}

/// What a node's protection has dropped, and its budget in words.
fn budget(status: &NodeStatus) -> Option<(u64, String)> {
    let protect = status.protect.as_ref()?;
    let packets = protect.packets.or(protect.auto_packets).map(|n| format!("{n} packets a second"));
    let bytes = protect.bytes.map(|n| format!("{n} bytes a second"));
    let words: Vec<String> = packets.into_iter().chain(bytes).collect();
    let words =
        if words.is_empty() { "found by the node itself".to_owned() } else { words.join(" and ") };
    Some((protect.dropped_packets, words))
}

fn refusal(errno: i32) -> Refusal {
    use rustix::io::Errno;
    match Errno::from_raw_os_error(errno) {
        Errno::HOSTUNREACH => Refusal::Unreachable,
        Errno::ACCESS => Refusal::Prohibited,
        Errno::INVAL => Refusal::Invalid,
        Errno::XDEV => Refusal::ReversePath,
        _ => Refusal::NoRoute,
    }
}

/// For a node whose kernel cannot be asked.
fn by_plan(plan: &Plan, node: &str, lookup: &Lookup<'_>) -> Result<Routed> {
    if path::node(plan, node)?.all_addresses().any(|net| net.addr() == lookup.to) {
        return Ok(Routed::Here);
    }
    let question = Question { node, to: lookup.to, forwarded: lookup.came };
    Ok(match path::by_plan(plan, &question)? {
        Ok(next) => {
            let source = next.source.filter(|_| lookup.came.is_none());
            Routed::Leaves { interface: next.interface, via: next.via, source }
        }
        Err(_) => Routed::Refused(Refusal::NoRoute),
    })
}
