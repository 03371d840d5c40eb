//! `why --losses`: every place in the lab where packets were lost, and why.
//!
//! Everything is in the books that `status` shows; a packet stands in one row. What an interface of a node counts is in the row of
//! its link, which has the larger of what both ends count. Without `--last` counts are since the object was made; with it the
//! difference of two readings.

mod meanings;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::Result;
use netloom_api::Client;
use netloom_lab::calls;
use netloom_lab::view::{LabStatus, LinkStatus, NodeStatus};
use rustix::event::{PollFd, PollFlags};
use serde::Serialize;

use self::meanings::meaning;
use crate::labs;
use crate::output::{count, print, print_json, table};

/// Causes at a node that its links tell, too.
const OF_LINKS: [&str; 3] = ["queue", "rx", "tx"];

/// Where packets were lost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Loss {
    /// `link`, `node` or `machine`.
    kind: &'static str,
    /// The object.
    name: String,
    /// The end of the link, or the interface, that they came from.
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<String>,
    /// The cause, as in `status --json`.
    cause: String,
    /// Packets.
    packets: u64,
    /// What the cause is.
    means: String,
}

/// A row's place, by which two readings are compared.
type Place = (&'static str, String, Option<String>, String);

/// What the answer is about.
#[derive(Serialize)]
struct Losses {
    lab: String,
    /// How long was looked, in milliseconds; `null`: since each object was made.
    last_ms: Option<u64>,
    losses: Vec<Loss>,
}

/// `netloom why --losses`
pub(super) fn show(lab: Option<&str>, last: Option<Duration>, json: bool) -> Result<i32> {
    let client = labs::connect(lab)?;
    let (status, last, losses) = match last {
        None => {
            let status = client.call(&calls::Status::whole())?;
            let losses = of(&status);
            (status, None, losses)
        }
        Some(last) => between(&client, last)?,
    };
    if json {
        let last_ms = last.map(|last| u64::try_from(last.as_millis()).unwrap_or(u64::MAX));
        print_json(&Losses { lab: status.name, last_ms, losses })?;
    } else {
        print(&text(&status, last, &losses))?;
    }
    Ok(0)
}

/// Two readings, this far apart, or less when the program is told to end.
fn between(client: &Client, last: Duration) -> Result<(LabStatus, Option<Duration>, Vec<Loss>)> {
    let signals = super::ending()?;
    let before = of(&client.call(&calls::Status::whole())?);
    let begun = Instant::now();
    let mut wait = [PollFd::new(&signals, PollFlags::IN)];
    let time = netloom_sys::process::timespec(last);
    // Interrupted or not: what was lost until now is told.
    let _ = rustix::event::poll(&mut wait, Some(&time));
    let now = client.call(&calls::Status::whole())?;
    let losses = since(of(&now), &before);
    Ok((now, Some(begun.elapsed()), losses))
}

/// Everything lost that a reading has, most first.
fn of(status: &LabStatus) -> Vec<Loss> {
    let mut all: Vec<Loss> = status.links.iter().flat_map(of_link).collect();
    all.extend(status.nodes.iter().flat_map(of_node));
    let machine = status.machine_drops.iter();
    all.extend(machine.map(|drop| row("machine", "machine", None, &drop.cause, drop.packets, "")));
    sorted(all)
}

fn sorted(mut all: Vec<Loss>) -> Vec<Loss> {
    all.retain(|loss| loss.packets > 0);
    // Equal ones stay in the order of the file.
    all.sort_by_key(|loss| std::cmp::Reverse(loss.packets));
    all
}

fn row(
    kind: &'static str,
    name: &str,
    from: Option<&str>,
    cause: &str,
    packets: u64,
    setting: &str,
) -> Loss {
    let mut means = meaning(kind, cause).to_owned();
    if !setting.is_empty() {
        means += &format!(": {setting}");
    }
    let (name, from, cause) = (name.to_owned(), from.map(str::to_owned), cause.to_owned());
    Loss { kind, name, from, cause, packets, means }
}

fn of_link(link: &LinkStatus) -> Vec<Loss> {
    let setting = |from: &str, cause: &str| -> String {
        let directions = link.wire.iter().flat_map(|wire| wire.directions.iter().flatten());
        let mut own = directions.filter(|direction| direction.from == from);
        let keys = meanings::settings(cause);
        let found = own.next().map(|direction| {
            let set = keys.iter().filter_map(|key| Some((key, direction.impairments.get(*key)?)));
            set.map(|(key, value)| format!("{key} {value}")).collect::<Vec<_>>().join(", ")
        });
        found.unwrap_or_default()
    };
    let one = |loss: &netloom_lab::view::LossView| {
        let set = setting(&loss.from, &loss.cause);
        row("link", &link.name, Some(&loss.from), &loss.cause, loss.packets, &set)
    };
    link.lost.iter().map(one).collect()
}

fn of_node(node: &NodeStatus) -> Vec<Loss> {
    let senders = node.protect.iter().flat_map(|protect| &protect.senders);
    let mut all: Vec<Loss> = senders
        .map(|s| row("node", &node.name, Some(&s.sender), "protect", s.dropped_packets, ""))
        .collect();
    // Senders that are gone are in the sum alone.
    let told: u64 = all.iter().map(|loss| loss.packets).sum();
    for drop in node.drops.iter().filter(|drop| !OF_LINKS.contains(&drop.cause.as_str())) {
        let packets = match drop.cause.as_str() {
            "protect" => drop.packets.saturating_sub(told),
            _ => drop.packets,
        };
        all.push(row("node", &node.name, None, &drop.cause, packets, ""));
    }
    all
}

/// What is more than in an earlier reading. What was recreated since counts from nothing.
fn since(now: Vec<Loss>, before: &[Loss]) -> Vec<Loss> {
    let place = |loss: &Loss| -> Place {
        (loss.kind, loss.name.clone(), loss.from.clone(), loss.cause.clone())
    };
    let before: BTreeMap<Place, u64> = before.iter().map(|l| (place(l), l.packets)).collect();
    let less = |loss: Loss| {
        let known = before.get(&place(&loss)).copied().unwrap_or(0);
        let packets = loss.packets.checked_sub(known).unwrap_or(loss.packets);
        Loss { packets, ..loss }
    };
    sorted(now.into_iter().map(less).collect())
}

fn text(status: &LabStatus, last: Option<Duration>, losses: &[Loss]) -> String {
    let when = match last {
        None => "since each was made".to_owned(),
        Some(last) => format!("in {:.1} s", last.as_secs_f64()),
    };
    if losses.is_empty() {
        return format!("lab {}: no place lost a packet {when}\n", status.name);
    }
    let places = count(losses.len(), "place");
    let head = format!("lab {}: {places} lost packets {when}\n\n", status.name);
    let cells = |loss: &Loss| {
        let place = match loss.kind {
            "machine" => "the machine".to_owned(),
            kind => format!("{kind} {}", loss.name),
        };
        vec![
            place,
            loss.from.clone().unwrap_or_else(|| "-".to_owned()),
            loss.packets.to_string(),
            loss.cause.clone(),
            loss.means.clone(),
        ]
    };
    let columns = ["PLACE", "FROM", "PACKETS", "CAUSE", "WHICH MEANS"];
    head + &table(&columns, losses.iter().map(cells).collect())
}

#[cfg(test)]
mod tests {
    use netloom_lab::view::{DropView, LossView};

    use super::*;
    use crate::verbs::samples;

    fn loss(from: &str, cause: &str, packets: u64) -> LossView {
        LossView { from: from.into(), cause: cause.into(), packets }
    }

    fn sample() -> LabStatus {
        let mut status = samples::status();
        status.links[0].lost = vec![loss("t:eth0", "wire: loss", 2), loss("s", "interface", 9)];
        let drop = |cause: &str, packets| DropView { cause: cause.into(), packets };
        status.nodes[0].drops = vec![drop("protect", 8), drop("rx", 4), drop("closed-port", 5)];
        status.machine_drops = vec![drop("neighbour-queue", 1)];
        status
    }

    #[test]
    fn each_packet_stands_in_one_row_with_its_cause() {
        let status = sample();
        let all = of(&status);
        let rows: Vec<_> = all
            .iter()
            .map(|l| (l.kind, l.name.as_str(), l.from.as_deref(), l.cause.as_str(), l.packets))
            .collect();
        assert_eq!(
            rows,
            [
                ("link", "t:eth0--s", Some("s"), "interface", 9),
                ("node", "t", Some("h2:eth0"), "protect", 7),
                ("node", "t", None, "closed-port", 5),
                ("link", "t:eth0--s", Some("t:eth0"), "wire: loss", 2),
                ("node", "t", None, "protect", 1),
                ("machine", "machine", None, "neighbour-queue", 1),
            ]
        );
        assert!(all[3].means.ends_with(": loss 1%"), "{}", all[3].means);
        assert!(all.iter().all(|loss| !loss.means.is_empty()), "{all:#?}");
        let shown = text(&status, None, &all);
        assert!(shown.starts_with("lab fake: 6 places lost packets since each was made\n\nPLACE"));
        assert!(
            shown.lines().last().is_some_and(|line| line.starts_with("the machine ")),
            "{shown}"
        );
    }

    #[test]
    fn two_readings_tell_what_came_between() {
        let before = of(&sample());
        let mut status = sample();
        assert!(since(of(&status), &before).is_empty());
        status.links[0].lost[0].packets += 3;
        // A recreated wire.
        status.links[0].lost[1].packets = 4;
        let rows: Vec<_> =
            since(of(&status), &before).into_iter().map(|l| (l.cause, l.packets)).collect();
        assert_eq!(rows, [("interface".to_owned(), 4), ("wire: loss".to_owned(), 3)]);
        let none = text(&status, Some(Duration::from_millis(2040)), &[]);
        assert_eq!(none, "lab fake: no place lost a packet in 2.0 s\n");
    }
}
