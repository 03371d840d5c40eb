//! Waits until an exact time, and records the error.
//!
//! Times are CLOCK_MONOTONIC in nanoseconds. The wait sleeps until the last half millisecond, then polls the
//! clock. A sender that other work interrupts again and again [insists](crate::insist). Stamps are Unix time: the offset between the clocks is refreshed ten times a second.

use std::sync::atomic::{AtomicBool, Ordering};

use netloom_sys::clock;
use netloom_traffic::Histogram;

use crate::pace::TOLERANCE;
use crate::realtime::{CpuClaim, LONG};

/// Part of the wait spent polling: longer than a sleep may overrun.
const AWAKE: u64 = 500_000;
/// Longest sleep between checks of the stop flag.
const ASLEEP: u64 = 50_000_000;
/// How long a clock offset stays valid.
const HOLDS: u64 = 100_000_000;

/// A clock and its measured errors.
#[derive(Debug)]
pub(crate) struct Clock {
    offset: u64,
    looked: u64,
    /// Whether the sender had to insist on its CPU.
    pub(crate) insist: CpuClaim,
    /// Lateness of each departure in nanoseconds.
    pub(crate) errors: Histogram,
    /// Number and total length of gaps above [`TOLERANCE`] between two clock reads. The thread only polls
    /// between them, so it was not running.
    pub(crate) interruptions: (u64, u64),
    /// Departures later than [`TOLERANCE`], and how many of them because of such an interruption.
    pub(crate) late: (u64, u64),
}

impl Clock {
    pub(crate) fn new() -> Clock {
        let mut clock = Clock {
            offset: 0,
            looked: 0,
            insist: CpuClaim::new(),
            errors: Histogram::default(),
            interruptions: (0, 0),
            late: (0, 0),
        };
        clock.look();
        clock
    }

    /// Now, by CLOCK_MONOTONIC.
    #[inline]
    pub(crate) fn now() -> u64 {
        clock::monotonic()
    }

    /// Converts a time of [`Clock::now`] to Unix time.
    #[inline]
    pub(crate) fn unix(&mut self, now: u64) -> u64 {
        if now.wrapping_sub(self.looked) >= HOLDS {
            self.look();
        }
        now.wrapping_add(self.offset)
    }

    fn look(&mut self) {
        let before = Clock::now();
        // Read between two readings of the other clock: half their distance bounds the error.
        let unix = clock::realtime();
        let after = Clock::now();
        self.looked = after;
        self.offset = unix.wrapping_sub(before + (after - before) / 2);
    }

    /// Waits until `due` and returns the current time, at or after it; `None` when `stop` is set.
    #[inline]
    pub(crate) fn wait(&mut self, due: u64, stop: &AtomicBool) -> Option<u64> {
        let mut before = None;
        let mut interrupted = false;
        loop {
            let now = Clock::now();
            let apart = now - before.unwrap_or(now);
            if apart > TOLERANCE {
                interrupted = true;
                self.interruptions.0 += 1;
                self.interruptions.1 += apart;
                if apart > LONG {
                    self.insist.interrupted(now);
                }
            }
            if let Some(rest) = self.insist.rest(now) {
                sleep(rest);
                self.insist.rested(Clock::now());
                // A gap over a sleep says nothing of interruptions.
                before = None;
                continue;
            }
            if now >= due {
                self.errors.add(now - due);
                if now - due > TOLERANCE {
                    self.late.0 += 1;
                    self.late.1 += u64::from(interrupted);
                }
                return Some(now);
            }
            before = Some(now);
            if due - now > 2 * AWAKE {
                if stop.load(Ordering::Relaxed) {
                    return None;
                }
                sleep((due - now - AWAKE).min(ASLEEP));
                before = None;
            } else {
                std::hint::spin_loop();
            }
        }
    }
}

fn sleep(ns: u64) {
    std::thread::sleep(std::time::Duration::from_nanos(ns));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_before_its_time() {
        let stop = AtomicBool::new(false);
        let mut clock = Clock::new();
        for ahead in [0, 20_000, 3_000_000] {
            let due = Clock::now() + ahead;
            assert!(clock.wait(due, &stop).unwrap() >= due);
        }
        assert_eq!(clock.errors.count(), 3);
        stop.store(true, Ordering::Relaxed);
        assert_eq!(clock.wait(Clock::now() + (1 << 40), &stop), None);
    }

    #[test]
    fn stamps_are_unix_time() {
        let mut clock = Clock::new();
        let system = || {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
            u64::try_from(now.as_nanos()).unwrap()
        };
        let before = system();
        let stamp = clock.unix(Clock::now());
        let after = system();
        // The two clocks are not read simultaneously.
        assert!(before <= stamp + 1_000_000 && stamp <= after + 1_000_000);
    }
}
