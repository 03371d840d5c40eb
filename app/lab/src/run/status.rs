//! Reads the status of a lab from the kernel: inits, cgroups, programs and interfaces.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::AsFd;
use std::time::Duration;

use netloom_config::printable;
use netloom_model::Plan;
use netloom_model::plan::form::LinkForm;
use netloom_model::plan::{Interface, PlannedEnd, PlannedLink, PlannedNode, Slot, SwitchSlot};
use netloom_netlink::{LinkInfo, Socket, diag};
use netloom_node::control::{Answer, Connection, HealthState, NodeReport, ProgramState, Request};
use netloom_node::spec::socket_name;
use netloom_slice::control::Shown as Sliced;
use netloom_switch::control::requests::Presence;
use netloom_sys::cgroup::Usage;
use netloom_sys::namespace;

use crate::build::starting::has_work;
use crate::keep::slicers;
use crate::keep::switches::Switches;
use crate::keep::wires;
use crate::run::drift::{self, Seen};
use crate::run::impairing;
use crate::run::losses::{self, Between};
use crate::run::running::Phase;
use crate::run::sources::{Sources, traffic};
use crate::stage::addresses::{self, Held};
use crate::stage::spaces::on_a_thread;
use crate::stage::stack;
use crate::stage::users;
use crate::store::moved::Home;
use crate::store::state::{Folder, State};
use crate::view::{
    ChildrenView, HealthView, InterfaceStatus, LabState, LimitsView, LinkStatus, NodeState,
    NodeStatus, ProgramView, SwitchStatus, Traffic,
};
use crate::{Error, Result};

/// The result of one visit to a node's namespace.
#[derive(Default)]
pub(super) struct Visit {
    pub(super) seen: Seen,
    sockets: Option<u64>,
    /// Packets that its queueing disciplines dropped.
    discipline: u64,
}

/// Reads one node, by its place in the plan.
pub(crate) fn read_node(sources: &Sources<'_>, slot: Slot) -> Result<NodeStatus> {
    let planned = &sources.state.plan.nodes[slot];
    let links = planned.interfaces.iter().filter_map(|i| sources.state.plan.link_at(i.link));
    let between = Between::read(sources, &links.collect::<Vec<_>>(), false);
    // A thread of its own enters the namespace, and ends.
    on_a_thread(|| Ok(node(sources, slot, &between, &visit(sources, slot)?)))
}

/// The nodes at the ends of a link, and those to which its interfaces were moved.
pub(crate) fn ends_and_guests(state: &State, link: &PlannedLink) -> BTreeSet<Slot> {
    let plan = &state.plan;
    let mut slots = BTreeSet::new();
    for end in &link.ends {
        let PlannedEnd::Node { node, interface } = end else { continue };
        let index = plan.nodes[*node].interfaces[*interface].index;
        let home = Home::Node { node: plan.nodes[*node].id, index };
        let hosts = state.moved.iter().filter(|m| m.home == home);
        slots.insert(*node);
        slots.extend(hosts.filter_map(|m| plan.slot_of(m.node)));
    }
    slots
}

/// Where a lab stands. `whole`: all inits and keepers are complete; `troubled`: a node has a program that ended with an error,
/// lost an interface, or could not become ready.
pub(super) fn lab_state(phase: Phase, whole: bool, troubled: bool) -> LabState {
    match phase {
        Phase::Making | Phase::Starting => LabState::Starting,
        Phase::Failed => LabState::Failed,
        Phase::Up | Phase::Ended if whole && !troubled => LabState::Up,
        Phase::Up | Phase::Ended => LabState::Degraded,
    }
}

fn object(sources: &Sources<'_>, slot: Slot) -> String {
    format!("node {:?}", sources.state.plan.nodes[slot].name)
}

/// Enters a node's network; a socket there, or `None` for a node that has none. The calling thread ends afterwards.
fn enter(sources: &Sources<'_>, slot: Slot) -> Result<Option<Socket>> {
    let Some(pid) = sources.pids[slot.get()] else { return Ok(None) };
    // A node whose init ends meanwhile has no interfaces.
    let Ok(ns) = namespace::network_of(pid) else { return Ok(None) };
    let object = || object(sources, slot);
    namespace::enter_network(ns.as_fd()).map_err(Error::of(object(), "look into"))?;
    Socket::open_to_ask().map(Some).map_err(Error::of(object(), "open a netlink socket"))
}

/// The interfaces of a node as its links need them: without addresses. The calling thread ends afterwards.
pub(super) fn glance(
    sources: &Sources<'_>,
    slot: Slot,
    between: &Between,
) -> Result<Vec<InterfaceStatus>> {
    let found = match enter(sources, slot)? {
        Some(mut socket) => {
            socket.links().map_err(Error::of(object(sources, slot), "read its interfaces"))?
        }
        None => vec![],
    };
    Ok(interface_statuses(sources, slot, between, &found, &[]).0)
}

/// Reads a node's network from inside its namespace. The calling thread ends afterwards.
pub(super) fn visit(sources: &Sources<'_>, slot: Slot) -> Result<Visit> {
    let object = || object(sources, slot);
    let Some(mut socket) = enter(sources, slot)? else { return Ok(Visit::default()) };
    let links = socket.links().map_err(Error::of(object(), "read its interfaces"))?;
    let addresses = socket.addresses().map_err(Error::of(object(), "read its addresses"))?;
    // A kernel without them has dropped nothing there.
    let discipline = socket.dropped_by_disciplines().unwrap_or(0);
    let mut seen = Seen { links, addresses, ..Seen::default() };
    if sources.drift.is_some() {
        seen.routes = drift::seen::routes(&mut socket, &object())?;
        seen.rules = drift::seen::rules(&mut socket, &object())?;
        // netloom's own are many files, and show in each interface.
        let of_file = sources.state.plan.nodes[slot].sysctls_of_file();
        seen.settings = drift::seen::settings(of_file, &object())?;
    }
    // The socket of this query does not belong to the node.
    drop(socket);
    Ok(Visit { seen, sockets: diag::in_use().ok(), discipline })
}

pub(super) fn node(
    sources: &Sources<'_>,
    slot: Slot,
    between: &Between,
    found: &Visit,
) -> NodeStatus {
    let Sources { running, state, pids, .. } = sources;
    let plan = &state.plan;
    let planned = &plan.nodes[slot];
    let pid = pids[slot.get()];
    // First: what is read later has all of it.
    let receiving = running.kept.keepers.guards.receive_time(planned);
    let usage = state.groups.usage(planned.id.get());
    // Both are read one after the other: the part must not exceed the whole.
    let receiving = receiving.map(|ns| usage.cpu_ns.map_or(ns, |all| ns.min(all)));
    let cpu = Cpu::of(&usage, receiving);
    let limits = &planned.limits;
    let counts = running.kept.keepers.guards.sockets(state, planned);
    let protect = running.kept.keepers.guards.protection(state, slot);
    let held = held(sources, slot, found);
    let (interfaces, queue) = interface_statuses(sources, slot, between, &found.seen.links, &held);
    let received = found.seen.links.iter().map(|l| (l.index, l.traffic.rx_packets)).collect();
    let losses = |pid: rustix::process::Pid| {
        stack::losses(pid.as_raw_nonzero().get(), &running.quiet, planned.id, received)
    };
    let mut stack = pid.map_or(vec![], losses);
    // Those of the lab are counted one by one.
    let own = found.seen.links.iter().filter(|l| !interfaces.iter().any(|i| i.name == l.name));
    let own = own.map(|link| traffic(&link.traffic)).map(|t| t.rx_lost + t.tx_lost).sum();
    stack.splice(0..0, [("own-interfaces", own), ("discipline", found.discipline)]);
    let report = pid.and_then(|_| report(&running.folder, planned)).unwrap_or_default();
    let (standing, reason) = standing(state, planned, sources.phase, pid.is_some(), &report);
    NodeStatus {
        name: planned.name.clone(),
        alive: pid.is_some(),
        state: standing,
        reason,
        pid: pid.map(|p| p.as_raw_nonzero().get()),
        forwarding: planned.forwarding,
        privileged: planned.privileged,
        ids: planned.kind.as_vm().is_none().then(|| users::of(state, planned)),
        parent: planned.parent.map(|p| plan.nodes[p].name.clone()),
        children: planned
            .children
            .map(|limit| ChildrenView { count: plan.descendants(slot).len(), limit }),
        cpu_ns: usage.cpu_ns,
        cpu_user_ns: cpu.map(|cpu| cpu.user),
        cpu_system_ns: cpu.map(|cpu| cpu.system),
        cpu_receive_ns: receiving,
        load: pid.map(|_| running.loads().of(planned.id)),
        memory: usage.memory.or_else(|| state.groups.resident(planned.id.get())),
        processes: usage.processes,
        sockets: found.sockets,
        sockets_counted: counts.as_ref().map(|c| c.open),
        sockets_refused: counts.as_ref().map(|c| c.refused),
        limits: LimitsView {
            cpu_milli: limits.cpu_milli,
            memory: limits.memory,
            weight: limits.weight,
            processes: limits.processes,
            sockets: limits.sockets,
        },
        drops: losses::of_node(protect.as_ref(), &interfaces, queue, stack),
        protect,
        addresses: held.iter().map(|held| held.address.to_string()).collect(),
        programs: report.programs.iter().map(program).collect(),
        health: report.health.as_ref().map(health),
        interfaces,
    }
}

/// Parts of a node's CPU time, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cpu {
    user: u64,
    system: u64,
}

impl Cpu {
    /// The kernel tells the whole exactly, and its parts by samples: these are shared out such that the parts are the whole
    /// (as for the whole machine's, `cputime_adjust` in `kernel/sched/cputime.c`). Receiving is part of the whole.
    fn of(usage: &Usage, receiving: Option<u64>) -> Option<Cpu> {
        let (all, user, system) = (usage.cpu_ns?, usage.cpu_user_ns?, usage.cpu_system_ns?);
        let rest = all.saturating_sub(receiving.unwrap_or(0));
        let sampled = u128::from(user) + u128::from(system);
        let user = match sampled {
            0 => 0,
            sampled => {
                u64::try_from(u128::from(all) * u128::from(user) / sampled).unwrap_or(u64::MAX)
            }
        };
        let user = user.min(rest);
        Some(Cpu { user, system: rest - user })
    }
}

/// The current addresses of a node.
pub(super) fn held(sources: &Sources<'_>, slot: Slot, found: &Visit) -> Vec<Held> {
    let planned = &sources.state.plan.nodes[slot];
    match sources.pids[slot.get()] {
        // A guest's addresses are not seen from outside: the plan's are the best guess.
        Some(_) if planned.kind.as_vm().is_none() => {
            addresses::ordered(planned, &found.seen.links, &found.seen.addresses)
        }
        _ => addresses::planned(planned),
    }
}

/// How long an init may take to say how its programs are.
const REPORTED: Duration = Duration::from_secs(5);

/// The answer of a node's init; empty if it has no programs.
pub(crate) fn report(folder: &Folder, planned: &PlannedNode) -> Option<NodeReport> {
    if !has_work(planned) {
        return None;
    }
    let path = folder.sockets().join(socket_name(planned.id.get()));
    let connect = || Some(Connection::open(&planned.name, &path).ok()??.within(REPORTED));
    // One that does not answer in time is not asked again.
    if let Some(report) = connect()?.report().ok()? {
        return Some(report);
    }
    // An init of an older version understands only this question.
    match connect()?.ask(&Request::Programs) {
        Ok(Some(Answer::Programs(programs))) => Some(NodeReport::of_programs(programs)),
        _ => None,
    }
}

fn program(state: &ProgramState) -> ProgramView {
    ProgramView {
        command: state.command.clone(),
        pid: state.pid,
        exit_code: state.exit_code,
        signal: state.signal,
        ended: state.ended,
        restarts: state.restarts,
        restart_in_ms: state.restart_in_ms,
    }
}

fn health(state: &HealthState) -> HealthView {
    let word = match state.healthy {
        None => "starting",
        Some(true) => "healthy",
        Some(false) => "unhealthy",
    };
    HealthView { state: word.to_owned(), failures: state.failures, reason: state.reason.clone() }
}

/// A node's state, and why it is not up.
pub(super) fn standing(
    state: &State,
    planned: &PlannedNode,
    phase: Phase,
    alive: bool,
    report: &NodeReport,
) -> (NodeState, Option<String>) {
    match reported(phase, alive, report) {
        (NodeState::Up, _) if !lost(state, planned).is_empty() => {
            (NodeState::Degraded, Some(lost(state, planned).join("; ")))
        }
        found => found,
    }
}

/// The same by its init's report alone.
fn reported(phase: Phase, alive: bool, report: &NodeReport) -> (NodeState, Option<String>) {
    let failed = |(i, p): (usize, ProgramView)| {
        let ending = p.ending().filter(|_| p.has_failed())?;
        let words = p.command.join(" ");
        Some(format!("program {} ({}) {ending}", i + 1, printable::line(&words)))
    };
    let programs = report.programs.iter().map(program);
    let mut failures: Vec<String> = programs.enumerate().filter_map(failed).collect();
    let sick = report.health.as_ref().filter(|health| health.healthy == Some(false));
    failures.extend(sick.map(|health| {
        format!("unhealthy: {}", health.reason.as_deref().unwrap_or("its check fails"))
    }));
    match (alive, &report.failed, &report.waits_for) {
        (false, ..) if phase == Phase::Making => (NodeState::Starting, None),
        (false, ..) => (NodeState::Dead, None),
        (true, Some(why), _) => (NodeState::Failed, Some(why.clone())),
        (true, None, Some(what)) => (NodeState::Starting, Some(what.clone())),
        (true, None, None) if failures.is_empty() => (NodeState::Up, None),
        (true, None, None) => (NodeState::Degraded, Some(failures.join("; "))),
    }
}

/// The reasons why interfaces of a node are lost.
fn lost(state: &State, planned: &PlannedNode) -> Vec<String> {
    if state.lost.is_empty() {
        return vec![];
    }
    let why = |i: &Interface| state.lost.get(&state.plan.links[i.link].id).cloned();
    planned.interfaces.iter().filter_map(why).collect()
}

/// The interfaces in a node: its own that are not elsewhere, and guests. And how many frames for its own their receive queues
/// had no room for.
pub(super) fn interface_statuses(
    sources: &Sources<'_>,
    slot: Slot,
    between: &Between,
    found: &[LinkInfo],
    held: &[Held],
) -> (Vec<InterfaceStatus>, u64) {
    let state = sources.state;
    let plan = &state.plan;
    let planned = &plan.nodes[slot];
    let away = |index: u32| {
        let home = Home::Node { node: planned.id, index };
        state.moved.iter().any(|m| m.home == home)
    };
    let addresses = |name: &str| {
        let here = held.iter().filter(|held| held.interface == name);
        here.map(|held| held.address.to_string()).collect()
    };
    let mut queue = 0;
    let own = planned.interfaces.iter().enumerate().filter(|(_, i)| !away(i.index));
    let own = own.map(|(at, i)| {
        let link = &plan.links[i.link];
        if state.form(link) == LinkForm::Guest {
            return card_status(sources, i, link, addresses(&i.name));
        }
        let lost = state.lost.contains_key(&plan.links[i.link].id);
        // At a lost link's index there may be another interface.
        let seen = addresses::seen(i, found).filter(|_| !lost);
        let name = seen.map_or(i.name.as_str(), |link| link.name.as_str());
        let mut shown = interface_status(&i.name, &link.name, i.mtu, addresses(name), seen);
        let here = PlannedEnd::Node { node: slot, interface: at };
        if let (Some(traffic), Some(side)) =
            (&mut shown.traffic, link.ends.iter().position(|end| *end == here))
        {
            // Lost before the interface, but meant for it. What it counts itself may have arrived.
            traffic.rx_lost = between.not_handed_over(state, link, side);
            queue += traffic.rx_lost;
        }
        shown
    });
    let mut all: Vec<InterfaceStatus> = own.collect();
    let guests = state.moved.iter().filter(|m| m.node == planned.id).map(|m| {
        let seen = found.iter().find(|l| l.name == m.name);
        interface_status(&m.name, &link_of(plan, &m.home), 0, addresses(&m.name), seen)
    });
    all.extend(guests);
    (all, queue)
}

/// The card of a guest that is a port of its switch, which counts its frames: what the port receives goes to the guest.
fn card_status(
    sources: &Sources<'_>,
    interface: &Interface,
    link: &PlannedLink,
    addresses: Vec<String>,
) -> InterfaceStatus {
    let port = sources.switches.port(sources, link);
    let traffic = port.as_ref().map(|port| {
        let count = |name: &str| port.counters.get(name).copied().unwrap_or(0);
        let lost = port.counters.iter().filter(|(name, _)| name.starts_with("dropped-"));
        Traffic {
            rx_bytes: count("received-bytes"),
            rx_packets: count("received-frames"),
            // A port does not say what the guest itself lost.
            rx_lost: 0,
            tx_bytes: count("sent-bytes"),
            tx_packets: count("sent-frames"),
            tx_lost: lost.map(|(_, frames)| frames).sum(),
        }
    });
    InterfaceStatus {
        name: interface.name.clone(),
        link: link.name.clone(),
        mac: mac_text(interface.mac),
        mtu: interface.mtu,
        addresses,
        up: Some(port.is_some_and(|port| port.presence == Presence::Here)),
        traffic,
    }
}

/// The name of an interface's link; empty for an interface of the host.
fn link_of(plan: &Plan, home: &Home) -> String {
    let Home::Node { node, index } = home else { return String::new() };
    let home = plan.nodes.iter().find(|n| n.id == *node);
    let found = home.and_then(|n| n.interfaces.iter().find(|i| i.index == *index));
    found.map_or_else(String::new, |i| plan.links[i.link].name.clone())
}

fn interface_status(
    name: &str,
    link: &str,
    mtu: u32,
    addresses: Vec<String>,
    seen: Option<&LinkInfo>,
) -> InterfaceStatus {
    InterfaceStatus {
        name: name.to_owned(),
        link: link.to_owned(),
        mac: seen.and_then(|l| l.mac).map_or_else(String::new, mac_text),
        mtu: seen.map_or(mtu, |l| l.mtu),
        addresses,
        // Up means that frames pass: without a carrier none do.
        up: seen.map(|l| l.up && l.carrier),
        traffic: seen.map(|l| traffic(&l.traffic)),
    }
}

fn mac_text(mac: [u8; 6]) -> String {
    mac.map(|b| format!("{b:02x}")).join(":")
}

/// The names of the links that end in each of these switches, in the order of the plan.
pub(super) fn links_of_switches(
    plan: &Plan,
    slots: &[SwitchSlot],
) -> BTreeMap<SwitchSlot, Vec<String>> {
    let mut all: BTreeMap<SwitchSlot, Vec<String>> =
        slots.iter().map(|slot| (*slot, vec![])).collect();
    for link in &plan.links {
        let ends = link.ends.iter().filter_map(|end| match end {
            PlannedEnd::Port { switch, .. } => Some(*switch),
            _ => None,
        });
        // A link from a switch to itself is one of it.
        for switch in ends.collect::<BTreeSet<_>>() {
            all.entry(switch).and_modify(|names| names.push(link.name.clone()));
        }
    }
    all
}

/// A switch, in which links of these names end.
pub(super) fn switch(
    sources: &Sources<'_>,
    slot: SwitchSlot,
    links: Vec<String>,
    slicer: Option<&Sliced>,
) -> SwitchStatus {
    let plan = &sources.state.plan;
    let flows = &sources.running.kept.keepers.flows;
    let switch = &plan.switches[slot];
    let folder = &sources.running.folder;
    let shm = switch.kind.as_shm();
    let vde = shm.and_then(|options| Switches::vde_folder(folder, &switch.name, options));
    let mut openflow = flows.status(&sources.running.folder, switch);
    if let (Some(openflow), Some(slicer)) = (&mut openflow, slicer) {
        openflow.slices = slicers::on(slicer, &sources.state.plan, &switch.name);
    }
    SwitchStatus {
        name: switch.name.clone(),
        kind: switch.kind.word().into(),
        bridge: switch.bridge.clone(),
        links,
        openflow,
        vde: vde.map(|path| path.display().to_string()),
    }
}

/// The status of a link. `found` has the interfaces of the nodes that may have one of the link: `slots`.
pub(super) fn link<'f>(
    sources: &Sources<'_>,
    link: &PlannedLink,
    between: &Between,
    directions: &wires::States,
    found: &impl Fn(Slot) -> &'f [InterfaceStatus],
    slots: &[Slot],
) -> LinkStatus {
    let state = sources.state;
    let plan = &state.plan;
    let keepers = &sources.running.kept.keepers;
    let wire = impairing::view(state, link, directions, keepers.wires.restarts());
    let runs = wire.as_ref().is_none_or(|w| w.state == "running");
    let up = |end: &PlannedEnd| match end {
        PlannedEnd::Node { node, interface } => {
            let name = &plan.nodes[*node].interfaces[*interface].name;
            // A moved interface is read where it is.
            let here = found(*node).iter().find(|i| i.name == *name);
            let all = slots.iter().flat_map(|slot| found(*slot));
            here.or_else(|| all.into_iter().find(|i| i.link == link.name)).and_then(|i| i.up)
                == Some(true)
        }
        _ => true,
    };
    let at_node = |side: usize| at_node(plan, link, side, found);
    let lost = losses::of_link(sources, link, between, wire.as_ref(), &at_node);
    let down = state.down.contains(&link.id);
    let kept = !down && !state.lost.contains_key(&link.id);
    let carries = kept && runs && keepers.switches.is_plugged(plan, link);
    LinkStatus {
        name: link.name.clone(),
        ends: [plan.end_text(&link.ends[0]), plan.end_text(&link.ends[1])],
        up: carries && link.ends.iter().all(up),
        down,
        wire,
        lost,
    }
}

/// The counters of a node's interface at an end of a link.
pub(super) fn at_node<'f>(
    plan: &Plan,
    link: &PlannedLink,
    side: usize,
    found: &impl Fn(Slot) -> &'f [InterfaceStatus],
) -> Option<Traffic> {
    let PlannedEnd::Node { node, interface } = link.ends[side] else { return None };
    let name = &plan.nodes[node].interfaces[interface].name;
    found(node).iter().find(|i| i.name == *name && i.link == link.name)?.traffic
}
