//! Formats OpenFlow switches: process, ports, controllers. Produces text only.

use std::collections::BTreeMap;

use netloom_flow::control::requests::{
    ConnectionShown, ControllerShown, ControllerState, PortShown, Shown,
};
use netloom_lab::view::OpenflowStatus;

use crate::output::{facts, moment, or_dash, table};
use crate::verbs::figures::{amount, plane_text};

/// Counters with their own column.
const PLAIN: [&str; 4] = ["received-packets", "received-bytes", "sent-packets", "sent-bytes"];

/// What stands above the ports.
pub(super) fn lines(status: &OpenflowStatus, shown: Option<&Shown>) -> Vec<(&'static str, String)> {
    let mut lines = vec![("datapath", status.datapath.clone())];
    lines.push(("OpenFlow", format!("unix:{}", status.socket)));
    let Some(shown) = shown else { return lines };
    let cpu = format!("{}.{:02} s", shown.cpu_us / 1_000_000, shown.cpu_us / 10_000 % 100);
    let again = match shown.takeovers {
        0 => String::new(),
        times => format!(", restarted {times}"),
    };
    lines.push((
        "process",
        format!("{}, since {}, CPU {cpu}{again}", shown.pid, moment(shown.since)),
    ));
    lines.push(("forwards by", plane(shown)));
    let counts = [(shown.entries, "entries"), (shown.groups, "groups"), (shown.meters, "meters")];
    let counts = counts.map(|(count, what)| format!("{count} {what}")).join(", ");
    lines.push(("tables", format!("{}: {counts}", shown.tables)));
    lines.push(("without controller", fail(shown)));
    let counters = shown.counters.iter().filter(|(_, count)| **count > 0);
    let counters: Vec<String> = counters.map(|(name, count)| format!("{name} {count}")).collect();
    lines.extend((!counters.is_empty()).then(|| ("counters", counters.join(", "))));
    lines.extend(shown.trouble.iter().map(|why| ("trouble", why.clone())));
    lines
}

fn plane(shown: &Shown) -> String {
    let text = plane_text(&shown.plane.kind, shown.plane.slower.is_some());
    match &shown.plane.slower {
        Some(why) => format!("{text} ({why})"),
        None => text,
    }
}

fn fail(shown: &Shown) -> String {
    use netloom_flow::application::Fail;
    match (shown.fail, shown.standalone) {
        (Fail::Secure, _) => "secure".into(),
        (Fail::Standalone, true) => "standalone, as now".into(),
        (Fail::Standalone, false) => "standalone".into(),
    }
}

/// Its ports, a line each.
pub(super) fn ports(shown: &Shown) -> String {
    if shown.ports.is_empty() {
        return String::new();
    }
    let head = ["PORT", "NAME", "INTERFACE", "STATE", "RECEIVED", "SENT", "OTHER"];
    let row = |port: &PortShown| {
        let [received, sent] = traffic(&port.counters);
        let number = port.number.to_string();
        vec![
            number,
            port.name.clone(),
            port.interface.clone(),
            state(port),
            received,
            sent,
            other(port),
        ]
    };
    table(&head, shown.ports.iter().map(row).collect())
}

/// All about a port.
pub(super) fn port(port: &PortShown) -> String {
    let [received, sent] = traffic(&port.counters);
    facts(&[
        ("port", format!("{} {}: {}", port.number, port.name, state(port))),
        ("interface", port.interface.clone()),
        ("MAC", port.mac.clone()),
        ("received", received),
        ("sent", sent),
        ("other", other(port)),
    ])
}

fn state(port: &PortShown) -> String {
    let state = if port.up { "up" } else { "down" };
    std::iter::once(state)
        .chain(port.config.iter().map(String::as_str))
        .collect::<Vec<_>>()
        .join(", ")
}

fn traffic(counters: &BTreeMap<String, u64>) -> [String; 2] {
    let of = |name: String| counters.get(&name).copied().unwrap_or(0);
    ["received", "sent"].map(|way| amount(of(format!("{way}-packets")), of(format!("{way}-bytes"))))
}

/// Further counters that are not zero.
fn other(port: &PortShown) -> String {
    let rest = port.counters.iter().filter(|(name, n)| **n > 0 && !PLAIN.contains(&name.as_str()));
    let rest: Vec<String> = rest.map(|(name, count)| format!("{name} {count}")).collect();
    if rest.is_empty() { "-".into() } else { rest.join(", ") }
}

/// Its controllers, and connections that others made, a line each; empty if there are none.
pub(super) fn controllers(shown: &Shown) -> String {
    let own = shown.controllers.iter().map(controller);
    let others = shown.connections.iter().map(|c| connection(c.peer.clone(), "connected", Some(c)));
    let rows: Vec<_> = own.chain(others).collect();
    if rows.is_empty() {
        return String::new();
    }
    let head = ["CONTROLLER", "STATE", "VERSION", "ROLE", "RECEIVED", "SENT", "DROPPED"];
    table(&head, rows)
}

fn controller(of: &ControllerShown) -> Vec<String> {
    let name = match &of.namespace {
        Some(space) => format!("{} in {space}", of.target),
        None => of.target.clone(),
    };
    let state = match (of.state, &of.reason) {
        (ControllerState::Connected, _) if of.auxiliary > 0 => {
            format!("connected, {} auxiliary", of.auxiliary)
        }
        (ControllerState::Connected, _) => "connected".to_owned(),
        (ControllerState::Listening, _) => "listening".to_owned(),
        (ControllerState::Waiting, _) => "its node is not there".to_owned(),
        (ControllerState::Connecting, _) => "connecting".to_owned(),
        (ControllerState::Backoff, Some(why)) => format!("not connected: {why}"),
        (ControllerState::Backoff, None) => "not connected".to_owned(),
    };
    connection(name, &state, of.connection.as_ref())
}

fn connection(name: String, state: &str, of: Option<&ConnectionShown>) -> Vec<String> {
    let version =
        of.and_then(|c| c.version).map(|v| netloom_openflow::Version::from(v).to_string());
    vec![
        name,
        state.to_owned(),
        or_dash(version, |v| v),
        or_dash(of, |c| c.role.clone()),
        or_dash(of, |c| c.received.to_string()),
        or_dash(of, |c| c.sent.to_string()),
        or_dash(of, |c| c.packet_ins_dropped.to_string()),
    ]
}
