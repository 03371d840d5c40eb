//! Rates from counters that are told when they change.

use std::collections::BTreeMap;

use netloom_lab::stream::{A_TURN, Picture};
use netloom_lab::view::{EventKind, LabEvent};

/// A second in nanoseconds, and the longest time between two readings in a row.
const SECOND: u64 = 1_000_000_000;
const LONGEST: u64 = SECOND * 3 / 2;

/// What a link does in a second, by the end that sends.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct LinkRate {
    /// Bits.
    pub(super) bits: [f64; 2],
    /// Frames.
    pub(super) packets: [f64; 2],
    /// Frames lost.
    pub(super) lost: [f64; 2],
}

/// Rates of links and nodes.
#[derive(Debug, Default)]
pub(super) struct Rates {
    links: BTreeMap<String, LinkRate>,
    /// The share of a processor, and when it was told.
    nodes: BTreeMap<String, (f64, u64)>,
    last_ns: u64,
}

impl Rates {
    /// The rate of a link; nothing is told of those that do nothing.
    pub(super) fn link(&self, name: &str) -> LinkRate {
        self.links.get(name).copied().unwrap_or_default()
    }

    /// The share of a processor that a node uses.
    pub(super) fn cpu(&self, name: &str) -> Option<f64> {
        self.nodes.get(name).map(|(share, _)| *share)
    }

    /// Nothing has happened for longer than a reading takes.
    pub(super) fn quiet(&mut self) {
        self.links.clear();
        self.nodes.values_mut().for_each(|(share, _)| *share = 0.0);
    }

    /// Takes an event in, before the picture does.
    pub(super) fn event(&mut self, before: &Picture, event: &LabEvent) {
        let now = event.time_ns;
        if event.kind == EventKind::Snapshot {
            *self = Rates { last_ns: now, ..Rates::default() };
            let known = event.counters.nodes.iter().map(|node| (node.name.clone(), (0.0, now)));
            self.nodes.extend(known);
            return;
        }
        // After a longer silence: what is different was not so a second ago.
        let passed = Some(now.saturating_sub(self.last_ns)).filter(|t| (1..LONGEST).contains(t));
        let seconds = seconds(passed.unwrap_or(SECOND));
        self.last_ns = now;
        self.links.clear();
        for new in &event.counters.links {
            let Some((_, old)) = before.links.get(&new.name) else { continue };
            let per = |new: [u64; 2], old: [u64; 2]| {
                [0, 1].map(|end| float(new[end].saturating_sub(old[end])) / seconds)
            };
            let rate = LinkRate {
                bits: per(new.bytes, old.bytes).map(|bytes| bytes * 8.0),
                packets: per(new.packets, old.packets),
                lost: per(new.lost, old.lost),
            };
            self.links.insert(new.name.clone(), rate);
        }
        let turn = SECOND * before.nodes.len().div_ceil(A_TURN).max(1) as u64;
        for new in &event.counters.nodes {
            let Some((_, old)) = before.nodes.get(&new.name) else { continue };
            let last = self.nodes.get(&new.name).map_or(0, |(_, at)| *at);
            // A node is told when something changed: what is new was used since its last turn, not
            // in all the time of its silence.
            let passed = now.saturating_sub(last).clamp(1, turn);
            let used = new.cpu_ns.unwrap_or(0).saturating_sub(old.cpu_ns.unwrap_or(0));
            self.nodes.insert(new.name.clone(), (float(used) / float(passed), now));
        }
    }
}

fn seconds(ns: u64) -> f64 {
    float(ns) / 1e9
}

#[expect(clippy::cast_precision_loss, reason = "a few digits are shown")]
fn float(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use netloom_lab::view::{Counters, LinkCounters};

    use super::*;

    fn event(time_ns: u64, bytes: Option<u64>) -> LabEvent {
        let link =
            |bytes| LinkCounters { name: "l".into(), bytes: [bytes, 0], ..Default::default() };
        let links = bytes.map(link).into_iter().collect();
        LabEvent { time_ns, counters: Counters { links, nodes: vec![] }, ..LabEvent::default() }
    }

    #[test]
    fn a_rate_is_of_the_last_second_also_after_silence() {
        let (mut rates, mut picture) = (Rates::default(), Picture::default());
        let link = serde_json::json!({"name": "l", "ends": ["a", "b"], "up": true, "wire": null});
        let first = LabEvent {
            kind: EventKind::Snapshot,
            links: vec![serde_json::from_value(link).unwrap()],
            ..event(SECOND, Some(100))
        };
        let mut take = |event: LabEvent| {
            rates.event(&picture, &event);
            picture.apply(event);
            rates.link("l").bits[0]
        };
        assert_eq!(take(first), 0.0);
        assert_eq!(take(event(2 * SECOND, Some(225))), 1000.0);
        assert_eq!(take(event(2 * SECOND + SECOND / 2, Some(350))), 2000.0);
        assert_eq!(take(event(9 * SECOND, Some(475))), 1000.0);
        assert_eq!(take(event(10 * SECOND, None)), 0.0, "not told of: it did nothing");
    }
}
