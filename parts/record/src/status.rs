//! What a recorder says of itself, once a second, in `status.json`.

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
    /// Frames whose fate is not known: 0 at the end; while it records, those on their way to the disk.
    pub fn difference(&self) -> i128 {
        let Lost { ring, memory, disk } = self.dropped;
        let known = [self.stored, self.again, ring, memory, disk];
        i128::from(self.seen) - known.iter().map(|count| i128::from(*count)).sum::<i128>()
    }
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
    /// Addresses of nodes, by their names.
    pub nodes: BTreeMap<String, Vec<IpAddr>>,
}
