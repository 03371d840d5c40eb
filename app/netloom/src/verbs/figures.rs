//! Formats figures of nodes, interfaces and links: the same in `status`, `node` and `link`.
//!
//! Produces text only. Unknown values are `-`.

use netloom_lab::view::{
    ChildrenView, DirectionView, HealthView, InterfaceStatus, LinkStatus, NodeState, NodeStatus,
    OpenflowController, OpenflowSlice, OpenflowStatus, ProgramView, ProtectView, SwitchStatus,
    TroubledNode, WireView,
};

use crate::output::{bytes, or_dash};

/// Columns of [`interface_rows`].
pub(super) const INTERFACES: [&str; 6] = ["INTERFACE", "LINK", "STATE", "RECEIVED", "SENT", "LOST"];

/// Columns of [`switch_rows`].
pub(super) const SWITCHES: [&str; 3] = ["SWITCH", "KIND", "LINKS"];

/// Columns of [`slice_rows`].
pub(super) const SLICES: [&str; 5] = ["SLICE", "SWITCH", "RULES", "ENTRIES", "CONTROLLERS"];

/// Columns of [`openflow_rows`].
pub(super) const OPENFLOW: [&str; 6] =
    ["OPENFLOW", "STATE", "DATAPATH", "FORWARDS BY", "ENTRIES", "CONTROLLERS"];

/// Columns of [`wire_rows`].
pub(super) const WIRES: [&str; 7] =
    ["WIRE", "STATE", "FROM", "IMPAIRMENTS", "OFFERED", "LOST", "HELD"];

/// A node's state in a word.
pub(crate) fn life(node: &NodeStatus) -> &'static str {
    word(now(node))
}

/// A node's state: the kernel's word before the lab's, which may not have noticed yet.
fn now(node: &NodeStatus) -> NodeState {
    match node.state {
        NodeState::Starting => NodeState::Starting,
        _ if !node.alive => NodeState::Dead,
        state => state,
    }
}

fn word(state: NodeState) -> &'static str {
    match state {
        NodeState::Starting => "starting",
        NodeState::Up => "up",
        NodeState::Degraded => "degraded",
        NodeState::Failed => "failed",
        NodeState::Dead => "dead",
    }
}

/// A line with the reason why a node is not up.
pub(super) fn reason(node: &NodeStatus) -> Option<String> {
    why(&node.name, now(node), node.reason.as_deref())
}

/// The same of a node that is only counted.
pub(super) fn trouble(node: &TroubledNode) -> Option<String> {
    why(&node.name, node.state, node.reason.as_deref())
}

fn why(name: &str, state: NodeState, reason: Option<&str>) -> Option<String> {
    let word = match state {
        NodeState::Starting => "waits",
        _ => word(state),
    };
    reason.map(|reason| format!("{name} {word}: {reason}\n"))
}

/// Causes of a node's losses that say that it did not keep up with what came, beside those of its interfaces.
const NOT_KEPT_UP: [&str; 6] =
    ["socket-buffer", "socket-memory", "listen-queue", "tcp-backlog", "conntrack", "discipline"];

/// A line with what a node's network stack dropped since nobody took it in time.
pub(super) fn not_kept_up(node: &NodeStatus) -> Option<String> {
    let told = node.drops.iter().filter(|drop| NOT_KEPT_UP.contains(&drop.cause.as_str()));
    let words: Vec<String> = told.map(|d| format!("{} ({})", d.packets, d.cause)).collect();
    (!words.is_empty()).then(|| format!("{} dropped: {}\n", node.name, words.join(", ")))
}

/// Usage and limit.
pub(super) fn of(used: String, limit: Option<String>) -> String {
    match limit {
        Some(limit) => format!("{used} of {limit}"),
        None => used,
    }
}

/// Nanoseconds as seconds.
#[expect(clippy::cast_precision_loss, reason = "two digits are shown")]
pub(super) fn seconds(ns: u64) -> String {
    format!("{:.2} s", ns as f64 / 1e9)
}

/// CPU time, and the maximum share.
pub(super) fn cpu(node: &NodeStatus) -> String {
    let used = or_dash(node.cpu_ns, seconds);
    match node.limits.cpu_milli {
        Some(milli) => format!("{used} (at most {})", share(milli)),
        None => used,
    }
}

/// Thousandths of a CPU as a percentage.
pub(super) fn share(milli: u32) -> String {
    format!("{}%", f64::from(milli) / 10.0)
}

pub(super) fn memory(node: &NodeStatus) -> String {
    of(or_dash(node.memory, bytes), node.limits.memory.map(bytes))
}

pub(super) fn processes(node: &NodeStatus) -> String {
    let limit = node.limits.processes.map(|n| n.to_string());
    of(or_dash(node.processes, |n| n.to_string()), limit)
}

/// The sockets that count towards a limit, or else all.
pub(super) fn sockets(node: &NodeStatus) -> String {
    let count = |number: Option<u64>| or_dash(number, |n| n.to_string());
    match node.limits.sockets {
        Some(limit) => of(count(node.sockets_counted), Some(limit.to_string())),
        None => count(node.sockets),
    }
}

pub(super) fn children(view: &ChildrenView) -> String {
    format!("{} of {}", view.count, view.limit)
}

/// Programs that run, that are done, and how the others ended.
pub(super) fn programs(node: &NodeStatus) -> String {
    if node.programs.is_empty() {
        return "-".into();
    }
    let count =
        |wanted: fn(&ProgramView) -> bool| node.programs.iter().filter(|p| wanted(p)).count();
    let running = count(|p| p.pid.is_some());
    let done = count(|p| p.ended && !p.has_failed());
    let failed = node.programs.iter().filter(|p| p.has_failed());
    let mut parts = Vec::new();
    if running > 0 || count(|p| !p.ended) > 0 {
        parts.push(format!("{running} of {} run", node.programs.len()));
    }
    if done > 0 {
        parts.push(format!("{done} done"));
    }
    parts.extend(failed.filter_map(|p| {
        let name = p.command.first().map_or("", |path| path.rsplit('/').next().unwrap_or(path));
        Some(format!("{name} {}", p.ending()?))
    }));
    let restarts: u32 = node.programs.iter().map(|p| p.restarts).sum();
    if restarts > 0 {
        parts.push(format!("restarted {restarts}"));
    }
    if let Some(pause) = node.programs.iter().filter_map(|p| p.restart_in_ms).min() {
        parts.push(again(pause));
    }
    parts.join(", ")
}

/// When a program is started again.
#[expect(clippy::cast_precision_loss, reason = "one digit is shown")]
pub(super) fn again(pause_ms: u64) -> String {
    format!("starts again in {:.1} s", pause_ms as f64 / 1e3)
}

/// The state of a node's check, and how it fails.
pub(super) fn health(view: &HealthView) -> String {
    match (&view.reason, view.failures) {
        (Some(reason), failures @ 1..) => {
            let times = if failures == 1 { "once".to_owned() } else { format!("{failures} times") };
            format!("{}, failed {times} in a row: {reason}", view.state)
        }
        _ => view.state.clone(),
    }
}

/// The budget of a protected node.
pub(super) fn budget(view: &ProtectView) -> Vec<String> {
    let packets = view.packets.map(|n| format!("packets {n}/s"));
    let octets = view.bytes.map(|n| format!("bytes {}/s", bytes(n)));
    let auto = view.auto.then(|| match view.auto_packets {
        Some(now) => format!("auto, now {now}/s"),
        None => "auto, not limited now".to_owned(),
    });
    packets.into_iter().chain(octets).chain(auto).collect()
}

/// All limits of a node, on one line.
pub(super) fn limits(node: &NodeStatus) -> String {
    let limits = &node.limits;
    let number = |key: &str, n: Option<u32>| n.map(|n| format!("{key} {n}"));
    let mut parts: Vec<String> = [
        limits.cpu_milli.map(|m| format!("cpu {}", share(m))),
        number("weight", limits.weight),
        limits.memory.map(|n| format!("memory {}", bytes(n))),
        number("processes", limits.processes),
        number("sockets", limits.sockets),
        number("children", node.children.map(|c| c.limit)),
    ]
    .into_iter()
    .flatten()
    .collect();
    parts.extend(node.protect.iter().flat_map(budget));
    if parts.is_empty() { "-".into() } else { parts.join(", ") }
}

/// A row for each interface of a node.
pub(super) fn interface_rows(node: &NodeStatus) -> Vec<Vec<String>> {
    let row = |i: &InterfaceStatus| {
        let state = match i.up {
            Some(true) => "up",
            Some(false) => "down",
            None => "gone",
        };
        vec![
            format!("{}:{}", node.name, i.name),
            i.link.clone(),
            state.into(),
            or_dash(i.traffic, |t| amount(t.rx_packets, t.rx_bytes)),
            or_dash(i.traffic, |t| amount(t.tx_packets, t.tx_bytes)),
            or_dash(i.traffic, |t| (t.rx_lost + t.tx_lost).to_string()),
        ]
    };
    node.interfaces.iter().map(row).collect()
}

/// A row for each switch, if there are others than kernel bridges.
pub(super) fn switch_rows(switches: &[SwitchStatus]) -> Vec<Vec<String>> {
    // Of kernel bridges the table would only repeat the links.
    if switches.iter().all(|s| s.kind == "kernel") {
        return vec![];
    }
    let row = |s: &SwitchStatus| {
        let links = if s.links.is_empty() { "-".into() } else { s.links.join(" ") };
        vec![s.name.clone(), s.kind.clone(), links]
    };
    switches.iter().map(row).collect()
}

/// A row for each OpenFlow switch.
pub(super) fn openflow_rows(switches: &[SwitchStatus]) -> Vec<Vec<String>> {
    let rows = switches.iter().filter_map(|s| {
        let of = s.openflow.as_ref()?;
        Some(vec![
            s.name.clone(),
            openflow_state(of),
            of.datapath.clone(),
            or_dash(of.plane.as_ref(), |plane| plane_text(plane, of.slower.is_some())),
            of.entries.to_string(),
            controllers(&of.controllers),
        ])
    });
    rows.collect()
}

fn openflow_state(of: &OpenflowStatus) -> String {
    match (of.running, of.standalone) {
        (false, _) => "down".into(),
        (true, true) => "up, standalone".into(),
        (true, false) => "up".into(),
    }
}

/// A row for each slice of a switch.
pub(super) fn slice_rows(switches: &[SwitchStatus]) -> Vec<Vec<String>> {
    let of = |s: &SwitchStatus| s.openflow.as_ref().map(|of| of.slices.clone()).unwrap_or_default();
    let rows = switches.iter().flat_map(|s| of(s).into_iter().map(|one| (s.name.clone(), one)));
    let row = |(switch, one): (String, OpenflowSlice)| {
        let (rules, entries) = (one.rules.to_string(), one.entries.to_string());
        vec![one.slice, switch, rules, entries, controllers(&one.controllers)]
    };
    rows.map(row).collect()
}

/// What moves a switch's frames.
pub(super) fn plane_text(plane: &str, slower: bool) -> String {
    match (plane, slower) {
        ("packet-sockets", _) => "packet sockets: slower".into(),
        (plane, true) => format!("{plane}: slower"),
        (plane, false) => plane.into(),
    }
}

fn controllers(all: &[OpenflowController]) -> String {
    let one = |c: &OpenflowController| {
        let state = if c.connected { "connected" } else { "not connected" };
        format!("{} ({state})", c.controller)
    };
    match all {
        [] => "-".into(),
        all => all.iter().map(one).collect::<Vec<_>>().join(", "),
    }
}

/// Packets and bytes.
pub(super) fn amount(packets: u64, octets: u64) -> String {
    format!("{packets} ({})", bytes(octets))
}

/// A row for each impaired direction of a link; a single row if its wire does not run.
pub(super) fn wire_rows(link: &LinkStatus) -> Vec<Vec<String>> {
    let Some(wire) = &link.wire else { return vec![] };
    let row = |figures: [String; 5]| {
        let mut row = vec![link.name.clone(), wire_state(wire)];
        row.extend(figures);
        row
    };
    let rows: Vec<_> = directions(wire)
        .map(|d| {
            let held = amount(d.held_packets, d.held_bytes);
            let offered = amount(d.offered_packets, d.offered_bytes);
            row([d.from.clone(), impairments(d), offered, losses(d), held])
        })
        .collect();
    if rows.is_empty() { vec![row([(); 5].map(|()| "-".into()))] } else { rows }
}

/// The impaired directions of a wire.
pub(super) fn directions(wire: &WireView) -> impl Iterator<Item = &DirectionView> {
    wire.directions.iter().flatten()
}

pub(super) fn wire_state(wire: &WireView) -> String {
    match wire.restarts {
        0 => wire.state.clone(),
        restarts => format!("{}, restarted {restarts}", wire.state),
    }
}

/// `delay 10ms, loss 1%`
pub(super) fn impairments(direction: &DirectionView) -> String {
    let parts: Vec<String> =
        direction.impairments.iter().map(|(key, value)| format!("{key} {value}")).collect();
    if parts.is_empty() { "-".into() } else { parts.join(", ") }
}

/// Packets lost, with the causes: `3 (loss 1, queue 2)`.
pub(super) fn losses(direction: &DirectionView) -> String {
    let causes: Vec<(&String, u64)> =
        direction.lost.iter().map(|(cause, n)| (cause, *n)).filter(|(_, n)| *n > 0).collect();
    let total: u64 = causes.iter().map(|(_, n)| n).sum();
    let words: Vec<String> = causes.iter().map(|(cause, n)| format!("{cause} {n}")).collect();
    if words.is_empty() { "0".into() } else { format!("{total} ({})", words.join(", ")) }
}
