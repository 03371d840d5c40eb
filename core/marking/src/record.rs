//! A block as one point reports it, and whether the report is reliable.
//!
//! A block is complete at a point if the point counted from a guard before its beginning until a guard
//! after its end, and missed nothing meanwhile. Each flaw is reported by name: a flawed
//! block is marked, never silently wrong.

use serde::Serialize;

use crate::{Colour, Counters, Schedule, Totals};

/// Flaws of a block's counts; all false means complete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Completeness {
    /// The point started or restarted later than a guard before the block's beginning.
    pub started_within: bool,
    /// It was read, or the point ended, before the block was closed.
    pub ended_within: bool,
    /// Packets arrived after the block was closed; they are only counted as late.
    pub late: bool,
    /// The table of flows was full. Flows with an entry are exact.
    pub table_full: bool,
    /// The clock was stepped: times, and with a wall clock blocks, cannot be compared.
    pub clock_stepped: bool,
    /// The interface disappeared.
    pub interface_gone: bool,
    /// More packets than the sum of times can hold: the mean is invalid.
    pub sum_passed: bool,
    /// The bank was reused for a later block before it was read.
    pub overwritten: bool,
    /// Packets took another path meanwhile: some may have passed none of the points.
    pub rerouted: bool,
}

impl Completeness {
    /// Whether the block has no flaw.
    pub fn is_complete(&self) -> bool {
        *self == Completeness::default()
    }

    /// Its flaws, in words.
    pub fn reasons(&self) -> Vec<&'static str> {
        let all = [
            (self.started_within, "counting began within the block"),
            (self.ended_within, "counting ended before the block was closed"),
            (self.late, "packets came after the block was closed"),
            (self.table_full, "the table of flows was full"),
            (self.clock_stepped, "the clock was stepped"),
            (self.interface_gone, "the interface went away"),
            (self.sum_passed, "more packets than the sum of times can hold"),
            (self.overwritten, "overwritten before it was read"),
            (self.rerouted, "the route changed"),
        ];
        all.into_iter().filter_map(|(is, why)| is.then_some(why)).collect()
    }

    /// The flaws of either of two records.
    pub fn or(self, other: Completeness) -> Completeness {
        Completeness {
            started_within: self.started_within || other.started_within,
            ended_within: self.ended_within || other.ended_within,
            late: self.late || other.late,
            table_full: self.table_full || other.table_full,
            clock_stepped: self.clock_stepped || other.clock_stepped,
            interface_gone: self.interface_gone || other.interface_gone,
            sum_passed: self.sum_passed || other.sum_passed,
            overwritten: self.overwritten || other.overwritten,
            rerouted: self.rerouted || other.rerouted,
        }
    }
}

/// One block of one flow at one point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Record {
    /// The block's number.
    pub block: u64,
    /// Its colour.
    pub colour: Colour,
    /// Its beginning, in nanoseconds of the point's clock.
    pub begin: u64,
    /// The origin of the totals' times, on the same clock.
    pub origin: u64,
    /// All packets.
    pub all: Totals,
    /// Double-marked packets.
    pub double: Totals,
    /// Bytes of all packets.
    pub bytes: u64,
    /// Packets that arrived after the block was closed.
    pub late: u64,
    /// Packets that could not be hashed.
    pub unhashable: u64,
    /// Its flaws.
    pub completeness: Completeness,
}

impl Record {
    /// The record of a block counted on several CPUs since `began`, as read at `read`
    /// (both on the point's clock).
    pub fn new<'a>(
        schedule: &Schedule,
        block: u64,
        cpus: impl IntoIterator<Item = &'a Counters>,
        began: u64,
        read: u64,
    ) -> Record {
        let mut record = Record {
            block,
            colour: Colour::of(block),
            begin: schedule.begin(block),
            origin: schedule.origin(block),
            all: Totals::default(),
            double: Totals::default(),
            bytes: 0,
            late: 0,
            unhashable: 0,
            completeness: Completeness::default(),
        };
        for cpu in cpus {
            record.all.add(&cpu.all);
            record.double.add(&cpu.double);
            record.bytes += cpu.bytes;
            record.late += cpu.late;
            record.unhashable += cpu.unhashable;
            // Each CPU has a sum of its own, so the bound is that of each.
            record.completeness.sum_passed |= cpu.all.packets > schedule.most_packets();
        }
        record.completeness.late = record.late > 0;
        record.completeness.started_within =
            began > schedule.begin(block).saturating_sub(schedule.guard());
        record.completeness.ended_within = read < schedule.closed(block);
        record
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_that_restarts_marks_its_block() {
        let schedule = Schedule::new(10_000, 1_000, 100).unwrap();
        let record = |began, read| Record::new(&schedule, 2, &[], began, read).completeness;
        assert!(record(11_900, 13_100).is_complete());
        assert_eq!(record(11_901, 13_100).reasons(), ["counting began within the block"]);
        assert_eq!(record(0, 13_099).reasons(), ["counting ended before the block was closed"]);
        assert_eq!(record(11_901, 13_099).reasons().len(), 2);
    }

    #[test]
    fn late_packets_and_passed_sums_mark_it() {
        let schedule = Schedule::new(10_000, 1_000, 100).unwrap();
        let mut counters = Counters { late: 1, ..Counters::default() };
        counters.all.packets = schedule.most_packets() + 1;
        let record = Record::new(&schedule, 0, &[counters], 0, 20_000);
        assert!(record.completeness.late && record.completeness.sum_passed);
        assert_eq!(record.completeness.or(Completeness::default()), record.completeness);
    }
}
