//! Four banks of counters by block number: the reference for what a point in the kernel does.
//!
//! Bank k mod 4 holds block k from half a period before its beginning until the first packet of block
//! k + 4, which takes the bank over. It is read between [`Schedule::closed`] and
//! [`Schedule::reused`], two periods or more, while only late packets are counted into it. Every
//! packet is counted exactly once: `outside` and `late` count packets that are in no block.

use crate::{BANKS, Colour, Counters, Mark, Record, Schedule};

/// How a packet was counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// In the counts of this block.
    Counted(u64),
    /// After this block was closed, among its late packets.
    Late(u64),
    /// In no block that can still or already be counted.
    Outside,
}

/// What a point sees at one time: a packet, or a super-frame of several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Its time, in nanoseconds of the point's clock.
    pub time: u64,
    /// Its mark.
    pub mark: Mark,
    /// Its number of packets on the wire: 1, or the segments of a super-frame.
    pub packets: u64,
    /// Their bytes on the wire, each with its headers.
    pub bytes: u64,
    /// Whether it could not be hashed.
    pub unhashable: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Bank {
    block: Option<u64>,
    read: bool,
    counters: Counters,
}

/// The counters of one flow at one point.
#[derive(Clone, Debug)]
pub struct Banks {
    schedule: Schedule,
    began: u64,
    banks: [Bank; 4],
    outside: u64,
    unread: u64,
}

impl Banks {
    /// Counters of a point that counts from `began` on (its clock, nanoseconds).
    pub fn new(schedule: Schedule, began: u64) -> Banks {
        Banks { schedule, began, banks: [Bank::default(); 4], outside: 0, unread: 0 }
    }

    /// Counts a sighting.
    pub fn see(&mut self, seen: &Seen) -> Outcome {
        let Some(block) = self.schedule.block_of(seen.time, seen.mark.colour) else {
            return self.outside(seen);
        };
        // Its bank was taken over by a block four or more later.
        if self.bank(block).block.is_some_and(|held| held > block) {
            return self.outside(seen);
        }
        self.take(block);
        let (origin, closed) = (self.schedule.origin(block), self.schedule.closed(block));
        let counters = &mut self.bank(block).counters;
        // The block may be read already: its other counters are final.
        if seen.time > closed {
            counters.late += seen.packets;
            return Outcome::Late(block);
        }
        // Not below 0: a packet counts from the block's origin on at the earliest.
        let time = seen.time - origin;
        counters.all.add(time, seen.packets);
        if seen.mark.double {
            counters.double.add(time, seen.packets);
        }
        counters.bytes += seen.bytes;
        counters.unhashable += if seen.unhashable { seen.packets } else { 0 };
        Outcome::Counted(block)
    }

    /// The record of a block as of `now`; it may be read again for late packets. The record of a block
    /// without sightings has no packets; that of a block whose bank was reused says so.
    pub fn read(&mut self, block: u64, now: u64) -> Record {
        let (schedule, began) = (self.schedule, self.began);
        let bank = self.bank(block);
        let here = bank.block == Some(block);
        let gone = bank.block.is_some_and(|held| held > block);
        let counters = if here { bank.counters } else { Counters::default() };
        // Before it is closed, a block that was read may still get packets.
        bank.read |= here && now >= schedule.closed(block);
        let mut record = Record::new(&schedule, block, &[counters], began, now);
        record.completeness.overwritten = gone;
        record
    }

    /// Packets whose mark belongs to no countable block: before block 0, or after their bank
    /// was reused.
    pub fn outside_packets(&self) -> u64 {
        self.outside
    }

    /// Blocks whose banks were reused before they were read after their close.
    pub fn unread_blocks(&self) -> u64 {
        self.unread
    }

    fn outside(&mut self, seen: &Seen) -> Outcome {
        self.outside += seen.packets;
        Outcome::Outside
    }

    fn bank(&mut self, block: u64) -> &mut Bank {
        let [a, b, c, d] = &mut self.banks;
        match block % BANKS {
            0 => a,
            1 => b,
            2 => c,
            _ => d,
        }
    }

    /// Assigns the bank to this block.
    fn take(&mut self, block: u64) {
        let bank = self.bank(block);
        if bank.block == Some(block) {
            return;
        }
        let lost = bank.block.is_some() && !bank.read;
        *bank = Bank { block: Some(block), ..Bank::default() };
        self.unread += u64::from(lost);
    }
}

/// The mark of a block without double marking.
impl From<Colour> for Mark {
    fn from(colour: Colour) -> Mark {
        Mark { colour, double: false }
    }
}

#[cfg(test)]
mod tests;
