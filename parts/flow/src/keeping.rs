//! Records that are due for the state file.

use std::collections::BTreeMap;
use std::path::Path;

use netloom_pipeline::{Place, Time};

use netloom_ofconn::record_file::Retry;

use crate::journal::Journal;
use crate::state::SavedPort;
use crate::system::SECOND;

/// Pause between saves of counters, at least.
pub(crate) const PAUSE: Time = SECOND;

/// The file, and what is due.
#[derive(Debug)]
pub(crate) struct Keeping {
    pub(crate) journal: Journal,
    /// When counters are to be saved; `None` while none have changed.
    pub(crate) due: Option<Time>,
    /// Not before.
    pub(crate) not_before: Time,
    /// Entries used since then have other counters than the file says.
    pub(crate) saved: Time,
    /// What an earlier process knew of ports that have not been added yet.
    pub(crate) ports: BTreeMap<u32, SavedPort>,
    pub(crate) buffer: Vec<u8>,
    /// Entries that were written, and their bytes.
    pub(crate) entries: (u64, u64),
    /// Ports are being added that an earlier process had.
    pub(crate) restoring: bool,
    /// What comes next in the file that is being rewritten.
    pub(crate) rewriting: Option<Rewriting>,
    pub(crate) retry: Retry,
}

/// What comes next in a file that is rewritten: groups and meters from a number on, then entries from a place on.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Rewriting {
    Groups(u32),
    Meters(u32),
    Rules(Place),
}

impl Keeping {
    pub(crate) fn new(path: &Path) -> Keeping {
        Keeping {
            journal: Journal::new(path),
            due: None,
            not_before: 0,
            saved: 0,
            ports: BTreeMap::new(),
            buffer: vec![],
            entries: (0, 0),
            restoring: false,
            rewriting: None,
            retry: Retry::default(),
        }
    }

    /// When [`Server::save_counters`] is to be called.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.due
    }

    /// Whether the file is being rewritten.
    pub(crate) fn is_rewriting(&self) -> bool {
        self.rewriting.is_some()
    }

    /// About how many bytes this many entries need.
    pub(crate) fn needed(&self, entries: u64) -> u64 {
        let (count, bytes) = self.entries;
        bytes / count.max(1) * entries
    }

    /// Packets have been counted.
    pub(crate) fn counted(&mut self, now: Time) {
        self.due.get_or_insert(self.not_before.max(now + PAUSE));
    }
}
