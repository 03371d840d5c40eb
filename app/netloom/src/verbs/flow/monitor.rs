//! `flow monitor`: follows what a switch tells its controllers.

use netloom_ofconn::client::Client;
use std::io::Write;
use std::os::fd::AsFd;

use anyhow::Result;
use netloom_flow::fields_of;
use netloom_openflow::flow::{FlowCommand, FlowRemoved, RemovedReason};
use netloom_openflow::packet::PacketInReason;
use netloom_openflow::port::{PortReason, PortState};
use netloom_openflow::switch::{Fragments, SwitchConfig};
use netloom_openflow::text::print_flow;
use netloom_openflow::{FlowMod, Message, PacketIn, PortStatus};
use rustix::event::{PollFd, PollFlags, poll};
use serde_json::{Value, json};

use crate::flags::FlowMonitor;
use crate::verbs::ending;

/// Prints a line for each message until interrupted.
pub(super) fn monitor(mut client: Client, args: &FlowMonitor) -> Result<i32> {
    let ending = ending()?;
    // A client gets packet-ins after it has set how much of each it wants.
    let config = SwitchConfig { fragments: Fragments::Normal, miss_send_len: 0xffff };
    client.send(&Message::SetConfig(config))?;
    let mut left = args.count.unwrap_or(u64::MAX);
    let mut out = std::io::stdout().lock();
    while left > 0 {
        match client.receive(Some(std::time::Duration::ZERO))? {
            Some((_, message)) => {
                let Some(told) = MessageLine::of(&message) else { continue };
                let line = if args.spoken.json { told.value.to_string() } else { told.text };
                writeln!(out, "{line}")?;
                out.flush()?;
                left -= 1;
            }
            None if ends(&client, &ending)? => break,
            None => {}
        }
    }
    Ok(0)
}

/// Waits for a message or the end; whether it is the end.
fn ends(client: &Client, ending: impl AsFd) -> Result<bool> {
    let mut all = [
        PollFd::from_borrowed_fd(client.as_fd(), PollFlags::IN),
        PollFd::new(&ending, PollFlags::IN),
    ];
    match poll(&mut all, None) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(e) => return Err(std::io::Error::from(e).into()),
    }
    Ok(!all[1].revents().is_empty())
}

/// A message in words and as a value.
struct MessageLine {
    text: String,
    value: Value,
}

impl MessageLine {
    fn of(message: &Message) -> Option<MessageLine> {
        match message {
            Message::PacketIn(packet) => Some(packet_in(packet)),
            Message::PortStatus(status) => Some(port(status)),
            Message::FlowRemoved(removed) => Some(gone(removed)),
            _ => None,
        }
    }
}

fn packet_in(packet: &PacketIn) -> MessageLine {
    let port = packet.in_port().map_or_else(|| "-".to_owned(), |port| port.to_string());
    let reason = match packet.reason {
        PacketInReason::NoMatch => "no match",
        PacketInReason::Action => "action",
        PacketInReason::InvalidTtl => "invalid TTL",
        _ => "unknown reason",
    };
    let (fields, length, table) = (fields_of(&packet.data), packet.total_len, packet.table);
    let text = format!("packet-in port {port}, table {table}, {reason}, {length} B: {fields}");
    let digits: String = packet.data.iter().map(|byte| format!("{byte:02x}")).collect();
    let value = json!({
        "message": "packet-in", "port": packet.in_port().map(|port| port.0), "table": table,
        "reason": reason, "length": length, "cookie": packet.cookie, "fields": fields,
        "frame": digits,
    });
    MessageLine { text, value }
}

fn port(status: &PortStatus) -> MessageLine {
    let change = match status.reason {
        PortReason::Add => "added",
        PortReason::Delete => "removed",
        PortReason::Modify => "changed",
        _ => "unknown change",
    };
    let (number, name) = (status.port.number, status.port.name.text().into_owned());
    let up = !status.port.state.has(PortState::LINK_DOWN);
    let state = if up { "up" } else { "down" };
    MessageLine {
        text: format!("port-status port {number} {name}: {change}, {state}"),
        value: json!({"message": "port-status", "port": number.0, "name": name, "change": change, "up": up}),
    }
}

fn gone(removed: &FlowRemoved) -> MessageLine {
    let reason = match removed.reason {
        RemovedReason::IdleTimeout => "idle timeout",
        RemovedReason::HardTimeout => "hard timeout",
        RemovedReason::Delete => "deleted",
        RemovedReason::GroupDelete => "its group was deleted",
        _ => "unknown reason",
    };
    let flow = print_flow(&FlowMod {
        cookie: removed.cookie,
        table: removed.table,
        priority: removed.priority,
        idle_timeout: removed.idle_timeout,
        hard_timeout: removed.hard_timeout,
        ..FlowMod::new(FlowCommand::Delete, removed.matching.clone())
    });
    let flow = flow.strip_suffix(",actions=drop").unwrap_or(&flow).to_owned();
    let (packets, bytes) = (removed.packets, removed.bytes);
    MessageLine {
        text: format!("flow-removed {flow}: {reason}, {packets} packets, {bytes} B"),
        value: json!({
            "message": "flow-removed", "flow": flow, "reason": reason, "packets": packets,
            "bytes": bytes,
        }),
    }
}
