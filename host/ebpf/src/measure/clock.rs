//! A point's clock, and detection of its steps.
//!
//! TAI is a wall clock: setting Unix time steps it. The monotonic clock is never stepped and is the
//! same everywhere on one machine; so a step is a change in the difference of the two, found when a
//! block is read. Steps that cancel out before that are not found. TAI is Unix time plus an offset
//! that is 0 until something sets it; if only one of two hosts has it set, they differ by 37 s.

use netloom_sys::clock;
use rustix::time::{ClockId, clock_getres};

/// The clocks that programs can read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[allow(clippy::manual_non_exhaustive, reason = "the last one is a clock, too")]
pub enum Clock {
    /// CLOCK_TAI: for points on several machines.
    #[default]
    Tai,
    /// CLOCK_MONOTONIC: for points on one machine; delays then have no clock error.
    Monotonic,
    /// The time stored in a frame, for test runs.
    #[doc(hidden)]
    Frame,
}

/// What others need to compare times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockState {
    /// The clock.
    pub clock: Clock,
    /// TAI minus Unix time, in seconds; 0 if not set.
    pub tai_offset: i64,
    /// The clock's offset to Unix time, in nanoseconds. Exact for TAI; for the monotonic clock as
    /// of now.
    pub to_unix: i64,
    /// The clock's last step since the point began, in its own time.
    pub stepped_at: Option<u64>,
}

impl Clock {
    /// The clock now, in nanoseconds; the monotonic clock for times stored in frames.
    pub fn now(self) -> u64 {
        match self {
            // Every kernel that runs our programs has TAI (3.10).
            Clock::Tai => clock::tai(),
            Clock::Monotonic | Clock::Frame => clock::monotonic(),
        }
    }

    /// The clock minus the monotonic one: a step changes it.
    fn ahead(self) -> i64 {
        match self {
            Clock::Tai => clock::offset(clock::tai, clock::monotonic),
            Clock::Monotonic | Clock::Frame => 0,
        }
    }
}

/// Smaller differences are reading errors.
const STEP: u64 = 500_000;
const SECOND: i64 = 1_000_000_000;

/// Watches a clock.
#[derive(Debug)]
pub struct Watch {
    clock: Clock,
    began: u64,
    /// The clock minus the monotonic one.
    ahead: i64,
    stepped_at: Option<u64>,
    /// Blocks that began up to this time may contain counts from before the step: a clock set back
    /// repeats earlier times.
    touched: Option<u64>,
}

impl Watch {
    /// Watches a clock from now on.
    pub fn new(clock: Clock) -> Watch {
        let (began, ahead) = (clock.now(), clock.ahead());
        Watch { clock, began, ahead, stepped_at: None, touched: None }
    }

    /// Starts counting from now.
    pub(super) fn restart(&mut self) {
        *self = Watch::new(self.clock);
    }

    pub(super) fn began(&self) -> u64 {
        self.began
    }

    pub(super) fn now(&self) -> u64 {
        self.clock.now()
    }

    /// Checks whether the clock was stepped since the last call.
    pub fn look(&mut self) {
        self.compare(self.clock.ahead(), clock::monotonic());
    }

    /// The same with given readings: the clock minus the monotonic one, and the latter.
    fn compare(&mut self, ahead: i64, monotonic: u64) {
        if ahead.abs_diff(self.ahead) <= STEP {
            return;
        }
        // A step ahead cuts blocks short that began before `is`; a step back repeats times up to
        // `would_be`.
        let would_be = monotonic.saturating_add_signed(self.ahead);
        let is = monotonic.saturating_add_signed(ahead);
        self.ahead = ahead;
        self.stepped_at = Some(is);
        self.touched = self.touched.max(Some(would_be.max(is)));
    }

    /// Whether a block that began at this time was affected by a step.
    pub fn stepped_since(&self, begin: u64) -> bool {
        self.touched.is_some_and(|until| begin <= until)
    }

    /// What others need to compare this clock's times with theirs.
    pub fn state(&self) -> ClockState {
        let tai_offset = clock::offset(clock::tai, clock::realtime);
        let to_unix = match self.clock {
            Clock::Monotonic => -clock::offset(clock::monotonic, clock::realtime),
            // TAI differs by whole seconds, so rounding removes the error of the readings.
            _ => -seconds(tai_offset) * SECOND,
        };
        let (clock, stepped_at) = (self.clock, self.stepped_at);
        ClockState { clock, tai_offset: seconds(tai_offset), to_unix, stepped_at }
    }
}

/// The resolution of the coarse clock, in nanoseconds.
pub(super) fn tick() -> u64 {
    clock::nanoseconds(clock_getres(ClockId::MonotonicCoarse))
}

fn seconds(ns: i64) -> i64 {
    (ns + SECOND / 2).div_euclid(SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_lead_to_unix_time() {
        let _kept = netloom_kit::tai_kept();
        for clock in [Clock::Tai, Clock::Monotonic] {
            let watch = Watch::new(clock);
            let there = watch.now().cast_signed() + watch.state().to_unix;
            assert!((clock::realtime().cast_signed() - there).abs() < SECOND, "{clock:?}");
        }
    }

    #[test]
    fn a_clock_that_runs_is_not_stepped() {
        let _kept = netloom_kit::tai_kept();
        for clock in [Clock::Tai, Clock::Monotonic] {
            let mut watch = Watch::new(clock);
            watch.look();
            assert_eq!(watch.state().stepped_at, None, "{clock:?}");
            assert!(!watch.stepped_since(0), "{clock:?}");
        }
    }

    const S: u64 = 1_000_000_000;

    /// A clock 10 s ahead of the monotonic one, which is at 1000 s.
    fn watch() -> Watch {
        let mut watch = Watch::new(Clock::Tai);
        watch.ahead = 10 * SECOND;
        watch
    }

    #[test]
    fn what_began_before_the_clock_was_set_on_is_told_and_what_it_passed_over() {
        let mut watch = watch();
        watch.compare(30 * SECOND, 1000 * S);
        assert_eq!(watch.state().stepped_at, Some(1030 * S));
        assert!(watch.stepped_since(1009 * S) && watch.stepped_since(1020 * S));
        assert!(watch.stepped_since(1030 * S) && !watch.stepped_since(1030 * S + 1));
    }

    #[test]
    fn what_began_before_the_clock_was_set_back_is_told_and_what_it_shows_again() {
        let mut watch = watch();
        watch.compare(4 * SECOND, 1000 * S);
        assert_eq!(watch.state().stepped_at, Some(1004 * S));
        // Blocks from 1004 s to 1010 s have packets from before and after the step.
        assert!(watch.stepped_since(1004 * S) && watch.stepped_since(1010 * S));
        assert!(!watch.stepped_since(1010 * S + 1));
        // A later step never shortens an earlier one's range.
        watch.compare(5 * SECOND, 1002 * S);
        assert!(watch.stepped_since(1010 * S) && !watch.stepped_since(1010 * S + 1));
        assert_eq!(watch.state().stepped_at, Some(1007 * S));
    }

    #[test]
    fn small_steps_add_up_and_how_clocks_are_read_is_none() {
        let mut watch = watch();
        for apart in [1, 250_000, 500_000, -500_000] {
            watch.compare(10 * SECOND + apart, 1000 * S);
        }
        assert_eq!(watch.state().stepped_at, None);
        watch.compare(10 * SECOND + 500_001, 1000 * S);
        assert!(watch.stepped_since(1010 * S));
    }

    #[test]
    fn blocks_that_began_before_either_reading_are_touched() {
        // From 5000 s to 5010 s and, later, back from 5020 s to 5005 s.
        let mut watch = Watch::new(Clock::Monotonic);
        watch.compare(10 * SECOND, 5000 * S);
        assert_eq!(watch.state().stepped_at, Some(5010 * S));
        assert!(watch.stepped_since(5010 * S) && !watch.stepped_since(5011 * S));
        watch.compare(-5 * SECOND, 5010 * S);
        assert_eq!(watch.state().stepped_at, Some(5005 * S));
        assert!(watch.stepped_since(5020 * S) && !watch.stepped_since(5021 * S));
    }
}
