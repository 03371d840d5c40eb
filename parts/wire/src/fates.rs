//! The fates of a direction's last frames, for comparison with frames seen at its ends.
//!
//! Records have sequence numbers without gaps; the oldest are forgotten first, and a reader can
//! count them. A frame is counted as offered: a super-frame that stays whole is one.

use std::collections::VecDeque;

use netloom_impair::Fate;
use serde::{Deserialize, Serialize};

/// The fate of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Its sequence number, from 0.
    pub sequence: u64,
    /// Its arrival time: CLOCK_REALTIME, in ns.
    pub time_ns: u64,
    /// Its identity, the same at every hop: `netloom_packet::identity`.
    pub hash: u64,
    /// Its length without the virtio-net header.
    pub bytes: u32,
    /// Number of packets it stands for.
    pub packets: u32,
    /// Its fate; times are in ns from `time_ns`.
    pub fate: Fate,
}

/// The last records of a direction.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    keep: usize,
    next: u64,
    /// The sequence number at which keeping began.
    since: u64,
    records: VecDeque<Record>,
}

impl Kept {
    /// Keeps the last `keep` records from now on. The sequence continues.
    pub(crate) fn keep(&mut self, keep: usize) {
        // Those that passed while nothing was kept are not missed by a reader: nobody asked for them.
        if !self.is_on() {
            self.since = self.next;
        }
        self.keep = keep;
        while self.records.len() > keep {
            self.records.pop_front();
        }
        self.records.shrink_to_fit();
    }

    /// Whether records are kept.
    pub(crate) fn is_on(&self) -> bool {
        self.keep > 0
    }

    /// Adds a record and sets its sequence number.
    pub(crate) fn push(&mut self, mut record: Record) {
        record.sequence = self.next;
        self.next += 1;
        if self.records.len() >= self.keep {
            self.records.pop_front();
        }
        self.records.push_back(record);
    }

    /// Up to `most` records after the number `after`, and how many of those requested are gone.
    /// Without `after`, all since keeping began are requested.
    pub(crate) fn read(&self, after: Option<u64>, most: usize) -> (Vec<Record>, u64) {
        let wanted = after.map_or(self.since, |a| a.saturating_add(1)).min(self.next);
        let oldest = self.records.front().map_or(self.next, |r| r.sequence);
        let skip = usize::try_from(wanted.saturating_sub(oldest)).unwrap_or(usize::MAX);
        let records = self.records.iter().skip(skip).take(most).copied().collect();
        (records, oldest.saturating_sub(wanted))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use netloom_impair::Cause;

    fn kept(keep: usize, count: u64) -> Kept {
        let mut kept = Kept::default();
        kept.keep(keep);
        push(&mut kept, count);
        kept
    }

    fn push(kept: &mut Kept, count: u64) {
        for hash in 0..count {
            let fate = Fate::Lost(Cause::Loss);
            kept.push(Record { sequence: 0, time_ns: 0, hash, bytes: 60, packets: 1, fate });
        }
    }

    fn numbers(read: &(Vec<Record>, u64)) -> (Vec<u64>, u64) {
        (read.0.iter().map(|r| r.sequence).collect(), read.1)
    }

    #[test]
    fn reads_on_from_where_a_reader_was() {
        let kept = kept(4, 3);
        assert_eq!(numbers(&kept.read(None, 2)), (vec![0, 1], 0));
        assert_eq!(numbers(&kept.read(Some(1), 2)), (vec![2], 0));
        assert_eq!(numbers(&kept.read(Some(2), 2)), (vec![], 0));
        assert_eq!(numbers(&kept.read(Some(u64::MAX), 2)), (vec![], 0));
    }

    #[test]
    fn what_is_forgotten_is_counted() {
        let mut kept = kept(4, 10);
        assert_eq!(numbers(&kept.read(None, 9)), (vec![6, 7, 8, 9], 6));
        assert_eq!(numbers(&kept.read(Some(3), 9)), (vec![6, 7, 8, 9], 2));
        kept.keep(0);
        assert!(!kept.is_on());
        assert_eq!(numbers(&kept.read(Some(3), 9)), (vec![], 6));
    }

    #[test]
    fn who_comes_later_misses_nothing_of_what_others_were_shown() {
        let mut kept = kept(4, 10);
        kept.keep(0);
        kept.keep(4);
        assert_eq!(numbers(&kept.read(None, 9)), (vec![], 0));
        push(&mut kept, 2);
        assert_eq!(numbers(&kept.read(None, 9)), (vec![10, 11], 0));
        push(&mut kept, 3);
        assert_eq!(numbers(&kept.read(None, 9)), (vec![11, 12, 13, 14], 1));
    }
}
