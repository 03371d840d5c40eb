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
