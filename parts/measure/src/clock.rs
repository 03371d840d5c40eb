//! The clock of a session, and which blocks it was stepped in.
//!
//! A wall clock that is stepped back lasts twice through some blocks, and one that is stepped ahead skips
//! some. The monotonic clock is never stepped, so that a step is a change of their difference; touched by
//! it is every block that began before the later of both readings.

use netloom_ebpf::measure::{Clock, ClockState};
use netloom_sys::clock;

/// Differences below this are how the clocks are read.
const STEP: u64 = 500_000;
const SECOND: i64 = 1_000_000_000;

/// A clock now, in nanoseconds.
pub(crate) fn now(clock: Clock) -> u64 {
    match clock {
        Clock::Tai => clock::tai(),
        _ => clock::monotonic(),
    }
}

/// Watches a clock.
#[derive(Debug)]
pub(crate) struct Watch {
    clock: Clock,
    /// It less the monotonic clock.
    ahead: i64,
    stepped_at: Option<u64>,
    /// Blocks that begin until then are not whole.
    touched: Option<u64>,
}

impl Watch {
    pub(crate) fn new(clock: Clock) -> Watch {
        Watch { clock, ahead: ahead(clock), stepped_at: None, touched: None }
    }

    /// Looks whether the clock was stepped since the last time.
    pub(crate) fn look(&mut self) {
        self.compare(ahead(self.clock), clock::monotonic());
    }

    fn compare(&mut self, ahead: i64, monotonic: u64) {
        if ahead.abs_diff(self.ahead) <= STEP {
            return;
        }
        let would_be = monotonic.saturating_add_signed(self.ahead);
        let is = monotonic.saturating_add_signed(ahead);
        self.ahead = ahead;
        self.stepped_at = Some(is);
        self.touched = self.touched.max(Some(would_be.max(is)));
    }

    /// Whether a step stands against a block that begins then.
    pub(crate) fn touches(&self, begin: u64) -> bool {
        self.touched.is_some_and(|touched| begin <= touched)
    }

    /// What others must know to compare times of this clock with theirs.
    pub(crate) fn state(&self) -> ClockState {
        let tai_offset = seconds(clock::offset(clock::tai, clock::realtime));
        let to_unix = match self.clock {
            Clock::Tai => -tai_offset * SECOND,
            _ => clock::offset(clock::realtime, clock::monotonic),
        };
        ClockState { clock: self.clock, tai_offset, to_unix, stepped_at: self.stepped_at }
    }
}

fn ahead(clock: Clock) -> i64 {
    match clock {
        Clock::Tai => clock::offset(clock::tai, clock::monotonic),
        _ => 0,
    }
}

fn seconds(ns: i64) -> i64 {
    (ns + SECOND / 2).div_euclid(SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_runs_is_not_stepped() {
        for clock in [Clock::Tai, Clock::Monotonic] {
            let mut watch = Watch::new(clock);
            watch.look();
            assert_eq!(watch.state().stepped_at, None);
            assert!(!watch.touches(0));
            let unix = now(clock).saturating_add_signed(watch.state().to_unix);
            assert!(unix.abs_diff(clock::realtime()) < 1_000_000_000, "{clock:?}");
        }
    }

    #[test]
    fn blocks_that_began_before_either_reading_are_touched() {
        // From 5000 s to 5010 s and, later, back from 5020 s to 5005 s.
        let second = 1_000_000_000;
        let mut watch = Watch::new(Clock::Monotonic);
        watch.compare(10 * SECOND, 5000 * second);
        assert_eq!(watch.state().stepped_at, Some(5010 * second));
        assert!(watch.touches(5010 * second) && !watch.touches(5011 * second));
        watch.compare(-5 * SECOND, 5010 * second);
        assert_eq!(watch.state().stepped_at, Some(5005 * second));
        assert!(watch.touches(5020 * second) && !watch.touches(5021 * second));
    }
}
