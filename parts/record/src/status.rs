//! What a recorder says of itself, once a second and when it is asked, in `status.json`.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Frames that a recorder saw and did not store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lost {
    /// Because the ring of an interface was full.
    pub ring: u64,
    /// Because memory was full.
    pub memory: u64,
    /// Because the disk was full or failed.
    pub disk: u64,
}

/// Where every frame has gone since the recorder began: at its end, `seen` is the sum of all others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Books {
    /// Frames that passed recorded links.
    pub seen: u64,
    /// Packets stored.
    pub stored: u64,
    /// Frames whose packet was stored already: further sightings.
    pub again: u64,
    /// Frames that are not in the recording.
    pub dropped: Lost,
}

impl Books {
    /// Frames whose fate is known.
    pub fn known(&self) -> u64 {
        let Lost { ring, memory, disk } = self.dropped;
        [self.stored, self.again, ring, memory, disk].into_iter().fold(0, u64::saturating_add)
    }

    /// Frames whose fate is not known: 0 at the end; while it records, those on their way to the disk.
    pub fn difference(&self) -> i128 {
        i128::from(self.seen) - i128::from(self.known())
    }
}

/// Addresses of nodes, by their names.
pub type Nodes = BTreeMap<String, Vec<IpAddr>>;

/// Most nodes that are known beyond those of now, and most addresses of a node with earlier ones.
const MOST_EARLIER: usize = 4096;
const MOST_ADDRESSES: usize = 256;

/// The nodes of now, with what was there before, as far as there is room: a recording has packets of nodes that were
/// deleted, and of addresses that were others.
pub fn with_earlier(mut now: Nodes, earlier: &Nodes) -> Nodes {
    let most = now.len() + MOST_EARLIER;
    for (name, addresses) in earlier {
        if now.len() >= most && !now.contains_key(name) {
            continue;
        }
        let known = now.entry(name.clone()).or_default();
        for address in addresses {
            if known.len() < MOST_ADDRESSES && !known.contains(address) {
                known.push(*address);
            }
        }
    }
    now
}

/// The state of a recorder.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// The lab.
    pub lab: String,
    /// The folder of the running lab.
    pub runtime: PathBuf,
    /// When it began, in nanoseconds since 1970 UTC.
    pub began_ns: u64,
    /// When this was written.
    pub told_ns: u64,
    /// The bound, in bytes.
    pub keep: u64,
    /// Bytes on disk.
    pub bytes: u64,
    /// Segments on disk.
    pub segments: usize,
    /// Links recorded now.
    pub links: Vec<String>,
    /// Where every frame has gone.
    pub books: Books,
    /// Why the last write failed, while it does.
    pub trouble: Option<String>,
    /// Whether it has ended in order.
    pub ended: bool,
    /// Addresses of nodes, also of those that are gone.
    pub nodes: Nodes,
    /// When earlier recorders began and ended whose packets are here, too, in order.
    #[serde(default)]
    pub earlier: Vec<(u64, u64)>,
    /// Packets up to this time gave way to newer ones; 0: none did.
    #[serde(default)]
    pub gone_ns: u64,
    /// Links of the lab that cannot be recorded.
    #[serde(default)]
    pub unrecorded: Vec<String>,
}

/// Most earlier recorders that are known.
const MOST_SPANS: usize = 256;

/// Why packets of a time are not in a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// No recorder ran.
    NotRecorded,
    /// They gave way to newer ones.
    GaveWay,
}

impl Status {
    /// What the recorder after this one says of earlier ones, of which packets may be left.
    pub fn spans(&self) -> Vec<(u64, u64)> {
        let own = (self.began_ns, self.told_ns);
        let all = self.earlier.iter().copied().chain((self.told_ns > 0).then_some(own));
        let mut all: Vec<_> = all.filter(|(_, end)| *end > self.gone_ns).collect();
        all.drain(..all.len().saturating_sub(MOST_SPANS));
        all
    }

    /// The times within a range of which packets are not here, in order. `now`: the recorder runs, and this is the time.
    pub fn missing(&self, range: (u64, u64), now: Option<u64>) -> Vec<(u64, u64, Missing)> {
        let (begin, end) = range;
        let mut found = vec![];
        // No recorder has said anything, or that is lost.
        if self.told_ns == 0 {
            return found;
        }
        let mut from = begin;
        if self.gone_ns > begin {
            from = self.gone_ns.min(end);
            found.push((begin, from, Missing::GaveWay));
        }
        let own = (self.began_ns, now.unwrap_or(self.told_ns));
        for (began, ended) in self.earlier.iter().copied().chain([own]) {
            if began > from && began < end {
                found.push((from, began, Missing::NotRecorded));
            }
            if began < end {
                from = from.max(ended);
            }
        }
        if from < end {
            found.push((from, end, Missing::NotRecorded));
        }
        found
    }
}

/// What a recorder said last, as far as it can be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// Its state; that of no recorder if it has said nothing.
    pub status: Status,
    /// Why it cannot be read, though it is there: it counts as missing.
    pub problem: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(all: &[(&str, &[u8])]) -> Nodes {
        let address = |last: &u8| IpAddr::from([10, 0, 0, *last]);
        all.iter()
            .map(|(name, of)| ((*name).to_owned(), of.iter().map(address).collect()))
            .collect()
    }

    #[test]
    fn nodes_and_addresses_of_before_stay_known() {
        let (before, now) = (
            nodes(&[("gone", &[1]), ("moved", &[2, 3])]),
            nodes(&[("moved", &[3, 4]), ("new", &[])]),
        );
        let known = with_earlier(now, &before);
        assert_eq!(known, nodes(&[("gone", &[1]), ("moved", &[3, 4, 2]), ("new", &[])]));
        // It says no more when it is said again.
        assert_eq!(with_earlier(known.clone(), &known), known);
    }

    #[test]
    fn times_without_packets_are_known() {
        use Missing::{GaveWay, NotRecorded};
        let status = Status {
            earlier: vec![(10, 20), (30, 40)],
            began_ns: 50,
            told_ns: 60,
            ..Status::default()
        };
        let told = |status: &Status, begin, end, now| status.missing((begin, end), now);
        assert_eq!(told(&status, 12, 18, None), []);
        assert_eq!(told(&status, 12, 35, None), [(20, 30, NotRecorded)]);
        let gaps = [(5, 10, NotRecorded), (20, 30, NotRecorded), (40, 50, NotRecorded)];
        assert_eq!(told(&status, 5, 55, None), gaps);
        assert_eq!(told(&status, 55, 80, None), [(60, 80, NotRecorded)]);
        assert_eq!(told(&status, 55, 80, Some(80)), []);
        assert_eq!(told(&status, 22, 28, None), [(22, 28, NotRecorded)]);
        // What gave way is one time, whatever was recorded of it.
        let gave = Status { gone_ns: 35, ..status };
        assert_eq!(told(&gave, 12, 45, None), [(12, 35, GaveWay), (40, 45, NotRecorded)]);
        assert_eq!(told(&gave, 12, 18, None), [(12, 18, GaveWay)]);
        assert_eq!(gave.spans(), [(30, 40), (50, 60)]);
        assert_eq!(Status::default().spans(), []);
        assert_eq!(told(&Status::default(), 12, 18, None), []);
    }

    #[test]
    fn what_is_known_of_before_is_bounded() {
        let before: Nodes = (0..10_000).map(|at| (format!("n{at}"), vec![])).collect();
        let known = with_earlier(nodes(&[("now", &[1])]), &before);
        assert_eq!(known.len(), 1 + MOST_EARLIER);
        let numbers = 0..1000_u32;
        let many = Nodes::from([(
            "now".to_owned(),
            numbers.map(|n| std::net::Ipv4Addr::from(n).into()).collect(),
        )]);
        assert_eq!(with_earlier(nodes(&[("now", &[1])]), &many)["now"].len(), MOST_ADDRESSES);
        assert_eq!(with_earlier(many.clone(), &nodes(&[("now", &[1])])), many);
    }
}
