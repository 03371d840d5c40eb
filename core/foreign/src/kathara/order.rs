//! `lab.dep`: which device starts after which others. All programs start when the whole network is up, so the order is
//! that in which devices are in the lab.

use std::collections::{BTreeMap, BTreeSet};

use crate::kathara::beside;
use crate::{Job, Result, Verdict, source, wrong};

/// A device, the line that names it last, and the devices that it waits for.
type Waiting = (String, u32, Vec<String>);

/// Reads the file, if it is there; returns the devices that it names, those first that wait for nobody.
pub(super) fn read(job: &Job<'_>) -> Result<Vec<String>> {
    let file = beside(job, "lab.dep");
    let Some(text) = source::text_or_tell(job, &file, "the order of devices") else {
        return Ok(vec![]);
    };
    let mut after: Vec<Waiting> = vec![];
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let Some((device, others)) = line.split_once(':') else {
            return Err(wrong(&file, number, "expected DEVICE: DEVICE..."));
        };
        let id = job.ledger.enter(&file, number, line);
        let why = "only the order in the lab: programs start when the whole network is up";
        job.ledger.say(id, Verdict::Changed(why.into()));
        let others = others.split_whitespace().map(str::to_owned).collect();
        let device = device.trim();
        // The last line of a device counts.
        match after.iter_mut().find(|(known, ..)| known == device) {
            Some(known) => (known.1, known.2) = (number, others),
            None => after.push((device.to_owned(), number, others)),
        }
    }
    let rounds = rounds(&file, &after)?;
    let mut order = visited(&after);
    // The sort is stable, so within a round the order is that of the visits.
    order.sort_by_key(|device| rounds.get(device).copied().unwrap_or(0));
    Ok(order)
}

/// Devices in the order in which Kathara visits them: one that others wait for, then those that wait for it, depth
/// first.
fn visited(after: &[Waiting]) -> Vec<String> {
    let mut before: Vec<(&str, Vec<&str>)> = vec![];
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    for (device, _, others) in after {
        for other in others {
            let place = *places.entry(other).or_insert_with(|| {
                before.push((other, vec![]));
                before.len() - 1
            });
            before[place].1.push(device);
        }
    }
    let (mut order, mut seen) = (vec![], BTreeSet::new());
    let mut open: Vec<&str> = before.iter().rev().map(|(device, _)| *device).collect();
    while let Some(device) = open.pop() {
        if seen.insert(device) {
            order.push(device.to_owned());
            let next = places.get(device).map_or(&[][..], |place| &before[*place].1);
            open.extend(next.iter().rev());
        }
    }
    order
}

/// In which round devices start, from 1; those that wait for nobody are in none. Takes away devices that wait for nobody
/// until nobody is left, and refuses devices that wait for each other.
fn rounds(file: &str, after: &[Waiting]) -> Result<BTreeMap<String, usize>> {
    let mut left: BTreeMap<&str, (u32, &Vec<String>)> =
        after.iter().map(|(device, line, others)| (device.as_str(), (*line, others))).collect();
    let mut rounds = BTreeMap::new();
    for round in 1.. {
        let is_free = |(_, others): &(u32, &Vec<String>)| {
            others.iter().all(|other| !left.contains_key(other.as_str()))
        };
        let free: Vec<&str> = left
            .iter()
            .filter(|(_, waiting)| is_free(waiting))
            .map(|(device, _)| *device)
            .collect();
        for device in &free {
            left.remove(device);
            rounds.insert((*device).to_owned(), round);
        }
        let Some((device, (line, others))) = left.first_key_value() else { break };
        if free.is_empty() {
            let other = others.iter().find(|other| left.contains_key(other.as_str()));
            let other = other.map_or("", |other| other.as_str());
            let message = format!("devices wait for each other in a circle: {device} for {other}");
            return Err(wrong(file, *line, message));
        }
    }
    Ok(rounds)
}
