//! `ls` and `status`: what runs, and how.

use anyhow::Result;
use netloom_lab::view::{LabState, LabStatus, LabSummary, NodeStatus};
use netloom_lab::{listing, runtime_dir};

use crate::flags::{Json, Status};
use crate::labs;
use crate::output::{bytes, or_dash, print, print_json, table};

/// `netloom ls`
pub(crate) fn ls(args: &Json) -> Result<i32> {
    let labs = listing::labs(&runtime_dir())?;
    if args.json {
        print_json(&labs)?;
    } else if labs.is_empty() {
        print("no lab is running\n")?;
    } else {
        let row = |l: &LabSummary| {
            vec![
                l.name.clone(),
                state(l.state).into(),
                l.nodes.to_string(),
                l.links.to_string(),
                or_dash(l.pid, |p| p.to_string()),
            ]
        };
        print(&table(&["LAB", "STATE", "NODES", "LINKS", "PID"], labs.iter().map(row).collect()))?;
    }
    Ok(0)
}

fn state(state: LabState) -> &'static str {
    match state {
        LabState::Starting => "starting",
        LabState::Up => "up",
        LabState::Degraded => "degraded",
        LabState::Orphaned => "orphaned",
        LabState::Broken => "broken",
    }
}

/// `netloom status`
pub(crate) fn status(lab: Option<&str>, args: &Status) -> Result<i32> {
    let client = labs::connect(args.name.as_deref().or(lab))?;
    let status = client.status()?;
    if args.json {
        print_json(&status)?;
    } else {
        print(&text(&status))?;
    }
    Ok(0)
}

fn text(status: &LabStatus) -> String {
    let mut text = format!(
        "lab {}: {}, {} nodes, {} links\n\n",
        status.name,
        state(status.state),
        status.nodes.len(),
        status.links.len()
    );
    let head = ["NODE", "STATE", "CPU", "MEMORY", "PROCESSES", "PROGRAMS", "ADDRESSES"];
    text.push_str(&table(&head, status.nodes.iter().map(node_row).collect()));
    let head = ["INTERFACE", "LINK", "STATE", "RECEIVED", "SENT", "LOST"];
    let rows: Vec<Vec<String>> = status.nodes.iter().flat_map(interface_rows).collect();
    if !rows.is_empty() {
        text.push('\n');
        text.push_str(&table(&head, rows));
    }
    text
}

fn node_row(node: &NodeStatus) -> Vec<String> {
    let limits = &node.limits;
    let of = |used: String, limit: Option<String>| match limit {
        Some(limit) => format!("{used} of {limit}"),
        None => used,
    };
    let cpu = or_dash(node.cpu_ns, |ns| format!("{:.2} s", seconds(ns)));
    let share = limits.cpu_milli.map(|m| format!("{}%", f64::from(m) / 10.0));
    let addresses = node.interfaces.iter().flat_map(|i| &i.addresses);
    vec![
        node.name.clone(),
        if node.alive { "up".into() } else { "dead".into() },
        match share {
            Some(share) => format!("{cpu} (at most {share})"),
            None => cpu,
        },
        of(or_dash(node.memory, bytes), limits.memory.map(bytes)),
        of(or_dash(node.processes, |n| n.to_string()), limits.processes.map(|n| n.to_string())),
        programs(node),
        addresses.cloned().collect::<Vec<_>>().join(" "),
    ]
}

fn programs(node: &NodeStatus) -> String {
    if node.programs.is_empty() {
        return "-".into();
    }
    let running = node.programs.iter().filter(|p| p.pid.is_some()).count();
    let restarts: u32 = node.programs.iter().map(|p| p.restarts).sum();
    let mut text = format!("{running} of {} run", node.programs.len());
    if restarts > 0 {
        text.push_str(&format!(", restarted {restarts}"));
    }
    text
}

fn interface_rows(node: &NodeStatus) -> Vec<Vec<String>> {
    let row = |i: &netloom_lab::view::InterfaceStatus| {
        let state = match i.up {
            Some(true) => "up",
            Some(false) => "down",
            None => "gone",
        };
        let packets = |count: u64, octets: u64| format!("{count} ({})", bytes(octets));
        vec![
            format!("{}:{}", node.name, i.name),
            i.link.clone(),
            state.into(),
            or_dash(i.traffic, |t| packets(t.rx_packets, t.rx_bytes)),
            or_dash(i.traffic, |t| packets(t.tx_packets, t.tx_bytes)),
            or_dash(i.traffic, |t| (t.rx_lost + t.tx_lost).to_string()),
        ]
    };
    node.interfaces.iter().map(row).collect()
}

#[allow(clippy::cast_precision_loss, reason = "two digits are shown")]
fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}
