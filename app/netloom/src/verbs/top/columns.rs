//! The columns of each table, and what stands in the row of a key. A cell is made only for a row that is seen.

use netloom_lab::view::{LinkStatus, NodeStatus, ProgramView};

use ratatui::layout::Constraint;

use super::super::{figures, link, list};
use super::model::{Model, Tab, node_of};
use crate::output::{bytes, or_dash};

/// A column: its head, and how wide it is.
type Column = (&'static str, Constraint);

/// The columns of a table.
pub(super) fn heads(tab: Tab) -> &'static [Column] {
    use Constraint::{Fill, Length};
    match tab {
        Tab::Labs => {
            &[("LAB", Fill(1)), ("STATE", Length(9)), ("NODES", Length(6)), ("LINKS", Length(6))]
        }
        Tab::Nodes => &[
            ("NODE", Fill(1)),
            ("STATE", Length(9)),
            ("CPU", Length(7)),
            ("MEMORY", Length(10)),
            ("PROCS", Length(5)),
            ("LOST", Length(8)),
            ("PROGRAMS", Fill(1)),
        ],
        Tab::Links => &[
            ("LINK", Fill(3)),
            ("STATE", Length(7)),
            ("THERE", Length(6)),
            ("BACK", Length(6)),
            ("LOST/S", Length(7)),
            ("LOST", Length(8)),
            ("WIRE", Fill(2)),
        ],
        Tab::Switches => {
            &[("SWITCH", Fill(1)), ("KIND", Length(9)), ("LINKS", Length(6)), ("STATE", Fill(1))]
        }
        Tab::Programs => {
            &[("NODE", Fill(1)), ("PROGRAM", Fill(1)), ("STATE", Fill(1)), ("RESTARTS", Length(8))]
        }
    }
}

/// The cells of the row of a key; none if it has gone.
pub(super) fn cells(model: &Model, key: &str) -> Vec<String> {
    let picture = &model.picture;
    match model.tab {
        Tab::Labs => model.labs.iter().find(|lab| lab.name == key).map_or_else(Vec::new, |lab| {
            vec![
                lab.name.clone(),
                list::state(lab.state).to_owned(),
                lab.nodes.to_string(),
                lab.links.to_string(),
            ]
        }),
        Tab::Nodes => picture.nodes.get(key).map_or_else(Vec::new, |(node, counters)| {
            vec![
                node.name.clone(),
                figures::life(node).to_owned(),
                or_dash(model.rates.cpu(key), |share| format!("{:.1}%", share * 100.0)),
                or_dash(counters.memory, bytes),
                or_dash(counters.processes, |n| n.to_string()),
                counters.lost.to_string(),
                figures::programs(node),
            ]
        }),
        Tab::Links => picture.links.get(key).map_or_else(Vec::new, |(status, counters)| {
            let rate = model.rates.link(key);
            vec![
                status.name.clone(),
                state(status).to_owned(),
                bits(rate.bits[0]),
                bits(rate.bits[1]),
                format!("{:.0}", rate.lost[0] + rate.lost[1]),
                counters.lost[0].saturating_add(counters.lost[1]).to_string(),
                wire(status),
            ]
        }),
        Tab::Switches => picture.switches.get(key).map_or_else(Vec::new, |switch| {
            let openflow = switch.openflow.as_ref().map(|flow| match flow.running {
                true => format!("{} entries", flow.entries),
                false => "stopped".to_owned(),
            });
            let links = switch.links.len().to_string();
            vec![switch.name.clone(), switch.kind.clone(), links, or_dash(openflow, |text| text)]
        }),
        Tab::Programs => program(model, key).map_or_else(Vec::new, |(node, program)| {
            let restarts = program.restarts.to_string();
            vec![node.name.clone(), program.command.join(" "), life(program), restarts]
        }),
    }
}

/// The program of a row, with its node.
fn program<'m>(model: &'m Model, key: &str) -> Option<(&'m NodeStatus, &'m ProgramView)> {
    let (_, at) = key.split_once(' ')?;
    let (node, _) = model.picture.nodes.get(node_of(key))?;
    Some((node, node.programs.get(at.parse::<usize>().ok()?)?))
}

fn life(program: &ProgramView) -> String {
    match (program.pid, program.ending()) {
        (Some(pid), _) => format!("runs as {pid}"),
        (None, Some(ending)) => ending,
        (None, None) => "-".to_owned(),
    }
}

/// A link's state, short.
fn state(status: &LinkStatus) -> &'static str {
    if status.down { "cut" } else { link::state(status) }
}

/// What a link's wire does: once, if it is the same both ways.
fn wire(status: &LinkStatus) -> String {
    let Some(wire) = &status.wire else { return "-".to_owned() };
    if wire.state != "running" {
        return wire.state.clone();
    }
    let mut does: Vec<String> = figures::directions(wire).map(figures::impairments).collect();
    does.dedup();
    does.join(" / ")
}

/// Bits a second in at most five letters: `1.2M`.
pub(super) fn bits(rate: f64) -> String {
    const UNITS: [&str; 6] = ["", "k", "M", "G", "T", "P"];
    let (mut value, mut unit) = (rate, 0);
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    let digits = usize::from(unit > 0 && value < 9.95);
    format!("{value:.digits$}{}", UNITS[unit])
}

/// All about the chosen row, in lines of a label and a value.
pub(super) fn detail(model: &Model, key: &str) -> Vec<(String, String)> {
    let heads = heads(model.tab).iter().map(|(head, _)| head.to_lowercase());
    let mut lines: Vec<(String, String)> = heads.zip(cells(model, key)).collect();
    let mut say = |label: &str, value: String| lines.push((label.to_owned(), value));
    match model.tab {
        Tab::Nodes | Tab::Programs => {
            let Some((node, _)) = model.picture.nodes.get(node_of(key)) else { return lines };
            node.reason.iter().for_each(|reason| say("reason", reason.clone()));
            say("addresses", node.addresses.join(" "));
            for interface in &node.interfaces {
                let up = match interface.up {
                    Some(true) => "up",
                    Some(false) => "down",
                    None => "not there",
                };
                say(&interface.name, format!("{up}, link {}", interface.link));
            }
            for program in &node.programs {
                say("program", format!("{}: {}", program.command.join(" "), life(program)));
            }
            node.drops.iter().for_each(|d| say("lost", format!("{} ({})", d.packets, d.cause)));
        }
        Tab::Links => {
            let Some((status, counters)) = model.picture.links.get(key) else { return lines };
            let rate = model.rates.link(key);
            for (end, name) in status.ends.iter().enumerate() {
                let sends =
                    [bits(rate.bits[end]) + "bit/s", format!("{:.0} packets/s", rate.packets[end])];
                let total =
                    [format!("{} packets", counters.packets[end]), bytes(counters.bytes[end])];
                let lost = format!("{} lost", counters.lost[end]);
                say(&format!("from {name}"), [&sends[..], &total, &[lost]].concat().join(", "));
            }
            for loss in &status.lost {
                say("lost", format!("{} from {} ({})", loss.packets, loss.from, loss.cause));
            }
        }
        Tab::Switches => {
            let Some(switch) = model.picture.switches.get(key) else { return lines };
            switch.links.iter().for_each(|link| say("link", link.clone()));
            if let Some(flow) = &switch.openflow {
                say("datapath", flow.datapath.clone());
                for controller in &flow.controllers {
                    let how = if controller.connected { "connected" } else { "not connected" };
                    say("controller", format!("{}: {how}", controller.controller));
                }
            }
        }
        Tab::Labs => {}
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_short() {
        for (rate, text) in [
            (0.0, "0"),
            (7.4, "7"),
            (999.4, "999"),
            (999.9, "1.0k"),
            (12_340.0, "12k"),
            (9_940_000.0, "9.9M"),
            (999_600_000.0, "1.0G"),
            (3e15, "3.0P"),
        ] {
            assert_eq!(bits(rate), text, "{rate}");
            assert!(bits(rate).len() <= 5);
        }
    }
}
