//! `events`: what happens in a lab, until it is taken down.

use std::time::Duration;

use anyhow::Result;
use netloom_lab::view::{
    EventKind, LabEvent, LinkStatus, LosingKind, LosingView, NodeState, NodeStatus,
};

use super::listening::{Heard, Listener};
use super::{behind, figures};
use crate::flags::Events;
use crate::labs::{self, Wish};
use crate::output::{count, print, show, utc};

/// How long the lab may wait for the next event.
const WAIT: Duration = Duration::from_secs(10);

/// Most places that lose packets of which a line is told at a time.
const MOST_LOSING: usize = 8;

/// Pause between two looks for a lab process.
const LOOK: Duration = Duration::from_millis(200);

/// `netloom events`
pub(crate) fn events(wish: &Wish, args: &Events) -> Result<i32> {
    let folder = labs::chosen(wish.or(args.name.as_deref())?)?;
    // Says why, if it cannot be heard.
    drop(labs::connect_to(&folder)?);
    let mut listener = Listener::new(folder);
    let mut told = false;
    loop {
        match listener.hear(WAIT)? {
            Heard::Events(events) => {
                told = false;
                for event in &events {
                    match args.json {
                        true => print(&format!("{}\n", netloom_form::to_string(event)?))?,
                        false => show(&text(event))?,
                    }
                }
            }
            Heard::NoProcess => {
                if !std::mem::replace(&mut told, true) {
                    let lab = listener.lab();
                    labs::tell(&format!(
                        "lab {lab:?}: its process has ended; waiting until `netloom up` of its file adopts it"
                    ));
                }
                std::thread::sleep(LOOK);
            }
            Heard::NoLab => return Ok(0),
        }
    }
}

/// An event in lines, without its counters.
fn text(event: &LabEvent) -> String {
    let whole = event.kind == EventKind::Snapshot;
    let mut lines = Vec::new();
    if event.missed {
        lines.push("events were missed; this is how it is now".to_owned());
    }
    if let Some(lab) = &event.lab {
        let mut line = format!("lab {}: {}", lab.name, super::list::state(lab.state));
        if whole {
            let (nodes, links) = (event.nodes.len(), event.links.len());
            line += &format!(", {}, {}", count(nodes, "node"), count(links, "link"));
        }
        lines.push(line);
    }
    if let Some(late) = &event.behind {
        match behind::status(late).as_str() {
            "" => lines.push("nothing is behind any more".to_owned()),
            told => lines.extend(told.lines().map(str::to_owned)),
        }
    }
    if let Some(losing) = &event.losing {
        if losing.is_empty() {
            lines.push("nothing loses packets any more".to_owned());
        }
        lines.extend(losing.iter().take(MOST_LOSING).map(loses));
        let more = losing.len().saturating_sub(MOST_LOSING);
        lines.extend((more > 0).then(|| format!("and {more} more lose packets")));
    }
    // A snapshot of a large lab would scroll away what matters.
    let wanted = |node: &&NodeStatus| !whole || node.state != NodeState::Up;
    lines.extend(event.nodes.iter().filter(wanted).map(node));
    let wanted = |link: &&LinkStatus| !whole || !link.up || link.wire.is_some();
    lines.extend(event.links.iter().filter(wanted).map(link));
    if !whole {
        let switch = |name: &String| format!("switch {name}: changed");
        lines.extend(event.switches.iter().map(|s| switch(&s.name)));
    }
    let gone = &event.gone;
    for (kind, names) in [("node", &gone.nodes), ("link", &gone.links), ("switch", &gone.switches)]
    {
        lines.extend(names.iter().map(|name| format!("{kind} {name}: gone")));
    }
    let time = utc(event.time_ns);
    lines.iter().map(|line| format!("{time} {line}\n")).collect()
}

fn loses(place: &LosingView) -> String {
    let what = match (place.kind, &place.from) {
        (LosingKind::Link, Some(from)) => format!("link {} from {from}", place.name),
        (LosingKind::Link, None) => format!("link {}", place.name),
        (LosingKind::Node, _) => format!("node {}", place.name),
    };
    format!("{what}: loses packets ({} since {})", place.packets, utc(place.since_ns))
}

fn node(node: &NodeStatus) -> String {
    let life = figures::life(node);
    let reason = node.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
    let programs = match figures::programs(node) {
        none if none == "-" => String::new(),
        programs => format!(" ({programs})"),
    };
    format!("node {}: {life}{reason}{programs}", node.name)
}

fn link(link: &LinkStatus) -> String {
    let mut line = format!("link {}: {}", link.name, super::link::state(link));
    for direction in link.wire.iter().flat_map(figures::directions) {
        line += &format!("; from {} {}", direction.from, figures::impairments(direction));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_not_as_usual_is_told_of_a_snapshot() {
        let event = serde_json::json!({
            "id": "1.0", "kind": "snapshot", "missed": true, "time_ns": 0,
            "lab": {"name": "x", "state": "degraded", "pid": 1, "since": 2},
            "behind": [{
                "kind": "link", "name": "l", "from": "a:eth0", "cause": "late", "late_ns": "30000000", "p99_ns": "1000",
                "count": 1, "since_ns": "0",
            }],
            "links": [
                {"name": "l", "ends": ["a:eth0", "b:eth0"], "up": true, "wire": null},
                {"name": "m", "ends": ["a:eth1", "b:eth1"], "up": false, "down": true, "wire": {
                    "state": "running", "restarts": 0, "directions": [null, {
                        "from": "b:eth1", "impairments": {"delay": "10ms", "loss": "1%"}, "offered_packets": 0,
                        "offered_bytes": 0, "sent_packets": 0, "sent_bytes": 0, "duplicated": 0, "corrupted": 0,
                        "reordered": 0, "held_packets": 0, "held_bytes": 0, "lost": {}, "late_us": [0.0, 0.0],
                    }],
                }},
            ],
            "gone": {"nodes": ["old"]},
        });
        let text = text(&serde_json::from_value(event).unwrap());
        let lines: Vec<&str> = text
            .lines()
            .map(|line| line.strip_prefix("1970-01-01T00:00:00.000000Z ").unwrap())
            .collect();
        assert_eq!(
            lines,
            [
                "events were missed; this is how it is now",
                "lab x: degraded, 0 nodes, 2 links",
                "behind: link l from a:eth0 was 30.0 ms late, since 1970-01-01T00:00:00.000000Z",
                "link m: down by hand; from b:eth1 delay 10ms, loss 1%",
                "node old: gone",
            ]
        );
    }
}
