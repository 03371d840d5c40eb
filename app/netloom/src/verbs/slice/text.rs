//! Formats slices: switches, ports, controllers, counters. Produces text only.

use netloom_slice::control::Shown;
use netloom_slice::control::requests::{ControllerShown, SliceShown, VirtualShown};

use crate::output::{facts, moment, or_dash, table};

/// `slice show`.
pub(super) fn shown(shown: &Shown) -> String {
    let mut lines = vec![(
        "slicer",
        format!("process {}, since {}, CPU {}", shown.pid, moment(shown.since), cpu(shown.cpu_us)),
    )];
    lines.extend(shown.trouble.iter().map(|why| ("trouble", why.clone())));
    let mut text = facts(&lines);
    let rows = shown.switches.iter().map(|switch| {
        let state = match (switch.connected, &switch.resumed) {
            (true, Some(resumed)) => format!("connected, went on with {} rules", resumed.rules),
            (true, None) => "connected".to_owned(),
            (false, _) => "not connected".to_owned(),
        };
        vec![
            switch.name.clone(),
            or_dash(switch.datapath.clone(), |id| id),
            state,
            or_dash(switch.version.clone(), |version| version),
        ]
    });
    text += "\n";
    text += &table(&["SWITCH", "DATAPATH", "STATE", "VERSION"], rows.collect());
    for slice in &shown.slices {
        text += &format!("\nslice {}\n", slice.name);
        for one in &slice.switches {
            text += &facts(&virtual_lines(one));
        }
    }
    text
}

fn cpu(us: u64) -> String {
    format!("{}.{:02} s", us / 1_000_000, us / 10_000 % 100)
}

fn virtual_lines(one: &VirtualShown) -> Vec<(&'static str, String)> {
    let mut lines = vec![("switch", one.switch.clone())];
    lines.extend(one.datapath.iter().map(|id| ("datapath", id.clone())));
    lines.extend(one.socket.iter().map(|path| ("OpenFlow", format!("unix:{path}"))));
    let ports =
        one.ports.iter().map(|port| format!("{} {} ({} there)", port.number, port.name, port.real));
    let ports: Vec<String> = ports.collect();
    lines.extend((!ports.is_empty()).then(|| ("ports", ports.join(", "))));
    lines.extend(one.controllers.iter().map(|one| ("controller", controller(one))));
    let most = one.most_entries.map_or_else(String::new, |most| format!(" of {most}"));
    lines.push(("rules", format!("{}, in {}{most} entries of the switch", one.rules, one.entries)));
    for refusal in &one.refusals {
        let example = refusal.example.iter().map(|example| format!("; for example {example}"));
        let text =
            format!("{}: {}{}", moment(refusal.at), refusal.words, example.collect::<String>());
        lines.push(("refused", text));
    }
    lines
}

fn controller(one: &ControllerShown) -> String {
    let from = one.namespace.iter().map(|from| format!(" in {from}")).collect::<String>();
    let state = match (&one.reason, one.connected) {
        (_, true) => "connected".to_owned(),
        (Some(why), false) => format!("not connected: {why}"),
        (None, false) => "not connected".to_owned(),
    };
    format!("{}{from}, {state}", one.target)
}

/// `slice stats`.
pub(super) fn stats(shown: &Shown) -> String {
    let head = [
        "SLICE",
        "SWITCH",
        "RULES",
        "ENTRIES",
        "MOST",
        "REFUSED",
        "PACKET-INS",
        "DROPPED",
        "PACKET-OUTS",
        "LLDP",
    ];
    let rows =
        shown.slices.iter().flat_map(|slice| slice.switches.iter().map(move |one| row(slice, one)));
    let mut text = table(&head, rows.collect());
    let rows = shown.slices.iter().map(|slice| {
        vec![
            slice.name.clone(),
            slice.messages.to_string(),
            slice.held.to_string(),
            cpu(slice.cpu_us),
        ]
    });
    text += "\n";
    text += &table(&["SLICE", "MESSAGES", "HELD", "CPU"], rows.collect());
    text
}

fn row(slice: &SliceShown, one: &VirtualShown) -> Vec<String> {
    let counts = [one.rules, one.entries].map(|count| count.to_string());
    let most = or_dash(one.most_entries, |most| most.to_string());
    let more =
        [one.refused, one.packet_ins, one.packet_ins_dropped, one.packet_outs, one.lldp_received];
    let mut row = vec![slice.name.clone(), one.switch.clone()];
    row.extend(counts);
    row.push(most);
    row.extend(more.map(|count| count.to_string()));
    row
}
