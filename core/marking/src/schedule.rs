//! Blocks in time: which block a packet belongs to, by its mark *and* its time.
//!
//! Block k lasts from start + k L to start + (k + 1) L and has colour k mod 2. A packet whose
//! clock error and delay together are less than L/2 always finds its own block: that is figure 4
//! of RFC 9341 as arithmetic, without a "current block" that somebody would have to switch.
//! `bank` counts, `mark` sets marks. All times are in nanoseconds.

use crate::{Colour, Error, Result};

/// The longest period: an hour. A 64-bit sum of times then holds 2.5 million packets.
const LONGEST: u64 = 3_600_000_000_000;

/// How many blocks are kept at a time.
pub const BANKS: u64 = 4;

/// When blocks begin, how long they last, and how long counting continues after their end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    start: u64,
    period: u64,
    guard: u64,
}

/// The guard that a path needs, in nanoseconds: d = A + D + 3 s (RFC 9341, section 5), where A bounds
/// the difference of the clocks, D is the mean delay and s its standard deviation.
pub fn guard_for(clock_error: u64, mean_delay: u64, deviation: u64) -> u64 {
    clock_error.saturating_add(mean_delay).saturating_add(deviation.saturating_mul(3))
}

impl Schedule {
    /// Blocks of `period` from `start` on, closed `guard` after their end.
    ///
    /// # Errors
    ///
    /// A guard of half a period or more, a period of zero or above an hour, a start less
    /// than half a period after the clock's 0.
    pub fn new(start: u64, period: u64, guard: u64) -> Result<Schedule> {
        if !(2..=LONGEST).contains(&period) {
            return Err(Error::Period { period, most: LONGEST });
        }
        // d < L/2 (RFC 9341, section 5): else time alone would identify no packet's block.
        if guard.saturating_mul(2) >= period {
            return Err(Error::Guard { period, guard, least: guard.saturating_mul(2) });
        }
        if start < period / 2 {
            return Err(Error::Start { start, half: period / 2 });
        }
        Ok(Schedule { start, period, guard })
    }

    /// When block 0 begins.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// The length of a block: L in RFC 9341, MP in the API.
    pub fn period(&self) -> u64 {
        self.period
    }

    /// How long after its end a block still counts packets.
    pub fn guard(&self) -> u64 {
        self.guard
    }

    /// The part of a block in which time alone identifies a packet's block:
    /// L - 2 d (RFC 9341, section 5).
    pub fn counting_interval(&self) -> u64 {
        self.period - 2 * self.guard
    }

    /// The block by time alone; `None` before block 0.
    pub fn block_at(&self, time: u64) -> Option<u64> {
        Some(time.checked_sub(self.start)? / self.period)
    }

    /// The block of a packet with this colour seen at this time: the current block if
    /// it has the colour, else the one whose edge is nearer. `None` if that would be before block 0.
    pub fn block_of(&self, time: u64, colour: Colour) -> Option<u64> {
        let Some(since) = time.checked_sub(self.start) else {
            let ahead = self.start - time;
            return (ahead <= self.period / 2 && colour == Colour::of(0)).then_some(0);
        };
        let (block, within) = (since / self.period, since % self.period);
        if colour == Colour::of(block) {
            Some(block)
        } else if within < self.period - self.period / 2 {
            // Before the next block's origin: late, of the block before.
            block.checked_sub(1)
        } else {
            Some(block + 1)
        }
    }

    /// When a block begins. Times beyond the clock's end are clamped to it.
    pub fn begin(&self, block: u64) -> u64 {
        self.start.saturating_add(block.saturating_mul(self.period))
    }

    /// When a block ends and the next begins.
    pub fn end(&self, block: u64) -> u64 {
        self.begin(block.saturating_add(1))
    }

    /// When a block is closed: its counts are final, and later packets are late.
    pub fn closed(&self, block: u64) -> u64 {
        self.end(block).saturating_add(self.guard)
    }

    /// The origin of a block's times: half a period before it begins, so that
    /// early packets have no negative time.
    pub fn origin(&self, block: u64) -> u64 {
        // `new` keeps the first block's from being negative.
        self.begin(block) - self.period / 2
    }

    /// Until when a block owns its bank: after that, packets of the block four later may arrive.
    pub fn reused(&self, block: u64) -> u64 {
        self.origin(block.saturating_add(BANKS))
    }

    /// How many packets of a block one counter can hold before the sum of their times can
    /// exceed 64 bits: 2^64 / (1.5 L + d). At 1 s 9.2e9 or more, at 60 s 1.5e8, at 3600 s 2.5e6.
    pub fn most_packets(&self) -> u64 {
        // Rounded up, so that the bound also holds for odd periods.
        u64::MAX / (self.period + self.period / 2 + 1 + self.guard)
    }
}

#[cfg(test)]
mod tests;
