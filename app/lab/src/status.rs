//! Reads how a lab is: inits, cgroups, programs and interfaces, from the kernel.

use std::os::fd::AsFd;
use std::time::{SystemTime, UNIX_EPOCH};

use netloom_model::Plan;
use netloom_model::plan::{PlannedEnd, PlannedNode};
use netloom_netlink::{LinkInfo, Socket};
use netloom_node::control::{Answer, Connection, Request};
use netloom_node::spec::socket_name;
use netloom_sys::namespace;
use rustix::process::Pid;

use crate::making::has_work;
use crate::network::on_a_thread;
use crate::state::{Folder, State};
use crate::view::{
    InterfaceStatus, LabState, LabStatus, LimitsView, LinkStatus, NodeStatus, ProgramView,
    SwitchStatus, Traffic,
};
use crate::{Error, Result};

/// Reads all of it. `pids` are the living inits of nodes, by slot.
///
/// `whole`: all of them and the core's live.
pub(crate) fn read(
    folder: &Folder,
    state: &State,
    pids: &[Option<Pid>],
    whole: bool,
) -> Result<LabStatus> {
    let plan = &state.plan;
    let found = interfaces(plan, pids)?;
    let nodes: Vec<NodeStatus> = plan
        .nodes
        .iter()
        .enumerate()
        .map(|(slot, n)| node(folder, state, n, pids[slot], &found[slot]))
        .collect();
    let links = plan.links.iter().map(|l| link(plan, l, &nodes)).collect();
    Ok(LabStatus {
        name: plan.lab.clone(),
        state: if whole { LabState::Up } else { LabState::Degraded },
        digest: plan.digest.clone(),
        pid: rustix::process::getpid().as_raw_nonzero().get(),
        since: state.since,
        read_ns: now_ns(),
        user: state.user,
        nodes,
        switches: (0..plan.switches.len()).map(|i| switch(plan, i)).collect(),
        links,
    })
}

/// Unix time in nanoseconds.
pub(crate) fn now_ns() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
}

/// Interfaces of every living node, by one thread that visits all namespaces.
fn interfaces(plan: &Plan, pids: &[Option<Pid>]) -> Result<Vec<Vec<LinkInfo>>> {
    on_a_thread(|| {
        let read = |i: usize| -> Result<Vec<LinkInfo>> {
            let Some(pid) = pids[i] else { return Ok(vec![]) };
            let object = format!("node {:?}", plan.nodes[i].name);
            // An init that ends meanwhile has no interfaces.
            let Ok(ns) = namespace::network_of(pid) else { return Ok(vec![]) };
            namespace::enter_network(ns.as_fd()).map_err(Error::system(&object, "look into"))?;
            let mut socket =
                Socket::open().map_err(Error::network(&object, "open a netlink socket"))?;
            socket.links().map_err(Error::network(&object, "read its interfaces"))
        };
        (0..plan.nodes.len()).map(read).collect()
    })
}

fn node(
    folder: &Folder,
    state: &State,
    planned: &PlannedNode,
    pid: Option<Pid>,
    found: &[LinkInfo],
) -> NodeStatus {
    let usage = state.groups.usage(planned.id);
    let limits = &planned.limits;
    let plan = &state.plan;
    NodeStatus {
        name: planned.name.clone(),
        alive: pid.is_some(),
        pid: pid.map(|p| p.as_raw_nonzero().get()),
        forwarding: planned.forwarding,
        parent: planned.parent.map(|p| plan.nodes[p].name.clone()),
        children: None,
        cpu_ns: usage.cpu_ns,
        cpu_user_ns: None,
        cpu_system_ns: None,
        cpu_receive_ns: None,
        load: None,
        memory: usage.memory.or_else(|| state.groups.resident(planned.id)),
        processes: usage.processes,
        sockets: None,
        sockets_counted: None,
        sockets_refused: None,
        protect: None,
        drops: vec![],
        limits: LimitsView {
            cpu_milli: limits.cpu_milli,
            memory: limits.memory,
            weight: limits.weight,
            processes: limits.processes,
            sockets: limits.sockets,
        },
        programs: if pid.is_some() { programs(folder, planned) } else { vec![] },
        interfaces: interface_statuses(&state.plan, planned, found),
    }
}

fn programs(folder: &Folder, planned: &PlannedNode) -> Vec<ProgramView> {
    if !has_work(planned) {
        return vec![];
    }
    let path = folder.sockets().join(socket_name(planned.id));
    let answer = Connection::open(&planned.name, &path)
        .ok()
        .flatten()
        .and_then(|c| c.ask(&Request::Programs).ok().flatten());
    match answer {
        Some(Answer::Programs(states)) => states
            .into_iter()
            .map(|s| ProgramView {
                command: s.command,
                pid: s.pid,
                exit_code: s.exit_code,
                restarts: s.restarts,
            })
            .collect(),
        _ => vec![],
    }
}

fn interface_statuses(
    plan: &Plan,
    planned: &PlannedNode,
    found: &[LinkInfo],
) -> Vec<InterfaceStatus> {
    let one = |interface: &netloom_model::plan::Interface| {
        let seen = found.iter().find(|l| l.name == interface.name);
        InterfaceStatus {
            name: interface.name.clone(),
            link: plan.links[interface.link].name.clone(),
            mac: seen.and_then(|l| l.mac).map_or_else(String::new, mac_text),
            mtu: seen.map_or(interface.mtu, |l| l.mtu),
            addresses: interface.addresses.iter().map(ToString::to_string).collect(),
            up: seen.map(|l| l.up && l.carrier),
            traffic: seen.map(|l| traffic(&l.traffic)),
        }
    };
    planned.interfaces.iter().map(one).collect()
}

fn traffic(t: &netloom_netlink::Traffic) -> Traffic {
    Traffic {
        rx_bytes: t.rx_bytes,
        rx_packets: t.rx_packets,
        rx_lost: t.rx_dropped + t.rx_errors,
        tx_bytes: t.tx_bytes,
        tx_packets: t.tx_packets,
        tx_lost: t.tx_dropped + t.tx_errors,
    }
}

fn mac_text(mac: [u8; 6]) -> String {
    mac.map(|b| format!("{b:02x}")).join(":")
}

fn switch(plan: &Plan, index: usize) -> SwitchStatus {
    let switch = &plan.switches[index];
    let ends_here =
        |e: &PlannedEnd| matches!(e, PlannedEnd::Port { switch, .. } if *switch == index);
    let links = plan.links.iter().filter(|l| l.ends.iter().any(ends_here));
    SwitchStatus {
        name: switch.name.clone(),
        kind: "kernel".into(),
        bridge: switch.bridge.clone(),
        links: links.map(|l| l.name.clone()).collect(),
    }
}

/// The end of a link in words: `NODE:IFACE`, `SWITCH`, `host:IFACE` or `internet`.
pub fn end_text(plan: &Plan, end: &PlannedEnd) -> String {
    match end {
        PlannedEnd::Node { node, interface } => {
            let node = &plan.nodes[*node];
            format!("{}:{}", node.name, node.interfaces[*interface].name)
        }
        PlannedEnd::Port { switch, .. } => plan.switches[*switch].name.clone(),
        PlannedEnd::Host { iface } => format!("host:{iface}"),
        PlannedEnd::Internet { .. } => "internet".into(),
    }
}

fn link(plan: &Plan, link: &netloom_model::plan::PlannedLink, nodes: &[NodeStatus]) -> LinkStatus {
    let up = |end: &PlannedEnd| match end {
        PlannedEnd::Node { node, interface } => {
            nodes[*node].interfaces.get(*interface).and_then(|i| i.up) == Some(true)
        }
        _ => true,
    };
    LinkStatus {
        name: link.name.clone(),
        ends: [end_text(plan, &link.ends[0]), end_text(plan, &link.ends[1])],
        up: link.ends.iter().all(up),
        wire: None,
    }
}
