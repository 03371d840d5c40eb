//! The fate of every frame: per interface, and in total.
//!
//! The ledger balances: offered frames are filtered, written, or lost at a named place. While a
//! capture runs the difference is in flight: in rings, in memory, being written.

use serde::{Deserialize, Serialize};

/// Frames lost, by place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lost {
    /// Before they were taken: the engine's ring or queue was full.
    pub ring: u64,
    /// Taken, but memory was exhausted: the output was too slow for too long.
    pub memory: u64,
    /// In memory, but not written: the disk was full or failed, or a pipe's reader has gone.
    pub disk: u64,
}

impl Lost {
    /// The sum of all places.
    pub fn total(&self) -> u64 {
        self.ring + self.memory + self.disk
    }
}

/// The ledger of an interface, or of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ledger {
    /// Frames offered to the engine. If the engine's filter cannot count rejected frames
    /// ([`crate::Counts::filtered`]), only those that passed it.
    pub offered: u64,
    /// Not wanted: rejected by the filter, of the other direction, or beyond the requested number.
    pub filtered: u64,
    /// Put into memory.
    pub captured: u64,
    /// Known to be in the output.
    pub written: u64,
    /// Lost.
    pub lost: Lost,
    /// Captured frames that were cut.
    pub truncated: u64,
    /// Bytes of captured frames on the wire, without FCS.
    pub bytes: u64,
}

impl Ledger {
    /// `offered - (filtered + written + lost)`: 0 at the end of a capture. While it runs the parts
    /// are read one after the other, so it may be off by concurrent changes, in both directions.
    pub fn difference(&self) -> i64 {
        let accounted = self.filtered + self.written + self.lost.total();
        // Wraps to the right sign for any possible difference.
        self.offered.wrapping_sub(accounted).cast_signed()
    }
}

impl std::ops::AddAssign for Ledger {
    fn add_assign(&mut self, other: Ledger) {
        self.offered += other.offered;
        self.filtered += other.filtered;
        self.captured += other.captured;
        self.written += other.written;
        self.lost.ring += other.lost.ring;
        self.lost.memory += other.lost.memory;
        self.lost.disk += other.lost.disk;
        self.truncated += other.truncated;
        self.bytes += other.bytes;
    }
}

impl std::iter::Sum for Ledger {
    fn sum<I: Iterator<Item = Ledger>>(all: I) -> Ledger {
        all.fold(Ledger::default(), |mut sum, one| {
            sum += one;
            sum
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_difference_tells_what_is_missing_and_what_is_too_much() {
        let lost = Lost { ring: 1, memory: 2, disk: 3 };
        let whole = Ledger {
            offered: 20,
            filtered: 4,
            captured: 13,
            written: 10,
            lost,
            ..Ledger::default()
        };
        assert_eq!(whole.difference(), 0);
        assert_eq!(Ledger { offered: 25, ..whole }.difference(), 5);
        assert_eq!(Ledger { offered: 18, ..whole }.difference(), -2);
        let both: Ledger = [whole, whole].into_iter().sum();
        assert_eq!((both.offered, both.lost.total(), both.difference()), (40, 12, 0));
    }

    #[test]
    fn it_is_written_with_its_names() {
        let text = serde_json::to_string(&Ledger { offered: 7, ..Ledger::default() }).unwrap();
        assert!(text.starts_with(r#"{"offered":7,"filtered":0,"#), "{text}");
        assert!(text.contains(r#""lost":{"ring":0,"memory":0,"disk":0}"#), "{text}");
        assert_eq!(serde_json::from_str::<Ledger>(&text).unwrap().offered, 7);
    }
}
