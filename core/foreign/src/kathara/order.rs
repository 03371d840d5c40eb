//! `lab.dep`: which device starts after which others. All programs start when the whole network is up, so the order is
//! only checked for circles.

use std::collections::BTreeMap;

use crate::kathara::beside;
use crate::{Job, Result, Verdict, source, wrong};

/// Reads the file, if it is there.
pub(super) fn read(job: &Job<'_>) -> Result<()> {
    let file = beside(job, "lab.dep");
    let Some(text) = source::text_or_tell(job, &file, "the order of devices") else {
        return Ok(());
    };
    let mut after: BTreeMap<String, (u32, Vec<String>)> = BTreeMap::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let Some((device, others)) = line.split_once(':') else {
            return Err(wrong(&file, number, "expected DEVICE: DEVICE..."));
        };
        let id = job.ledger.enter(&file, number, line);
        let why = "programs start when the whole network is up";
        job.ledger.say(id, Verdict::Changed(why.into()));
        let entry = after.entry(device.trim().to_owned()).or_insert((number, vec![]));
        entry.1.extend(others.split_whitespace().map(str::to_owned));
    }
    circle(&file, &after)
}

/// Refuses devices that wait for each other: takes away whoever waits for nobody until nobody is left.
fn circle(file: &str, after: &BTreeMap<String, (u32, Vec<String>)>) -> Result<()> {
    let mut left = after.clone();
    loop {
        let free: Vec<String> = left
            .iter()
            .filter(|(_, (_, others))| others.iter().all(|other| !left.contains_key(other)))
            .map(|(device, _)| device.clone())
            .collect();
        free.iter().for_each(|device| drop(left.remove(device)));
        let Some((device, (line, others))) = left.first_key_value() else { return Ok(()) };
        if free.is_empty() {
            let other = others.iter().find(|other| left.contains_key(*other));
            let other = other.map_or("", |other| other.as_str());
            let message = format!("devices wait for each other in a circle: {device} for {other}");
            return Err(wrong(file, *line, message));
        }
    }
}
