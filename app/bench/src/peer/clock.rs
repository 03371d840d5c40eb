//! The machine-wide clock, and pacing.

use std::time::Duration;

use rustix::thread::clock_nanosleep_absolute;
use rustix::time::{ClockId, Timespec, clock_gettime};

/// CLOCK_MONOTONIC in nanoseconds.
pub(super) fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// A duration in nanoseconds.
pub(super) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Sleeps until a time of [`now`]; returns at once if it has passed.
pub(super) fn sleep_until(time: u64) {
    if time <= now() {
        return;
    }
    let (seconds, rest) = (time / 1_000_000_000, time % 1_000_000_000);
    let (Ok(tv_sec), Ok(tv_nsec)) = (i64::try_from(seconds), i64::try_from(rest)) else { return };
    // Waking early, on a signal, only turns the following pieces into a burst.
    let _ = clock_nanosleep_absolute(ClockId::Monotonic, &Timespec { tv_sec, tv_nsec });
}

/// A steady pace that recovers only a bounded burst after a long delay: a process kept off its core would
/// otherwise send a burst that nobody asked for.
pub(super) struct Pace {
    start: u64,
    rate: f64,
    burst: u64,
}

impl Pace {
    /// `rate` pieces per second from now on; at most `burst` overdue pieces are recovered at once.
    pub(super) fn new(rate: f64, burst: u64) -> Pace {
        Pace { start: now(), rate, burst }
    }

    /// Sleeps until piece `number` is due and returns that time.
    pub(super) fn wait(&mut self, number: u64) -> u64 {
        let at = due(self.start, number, self.rate);
        sleep_until(at);
        let late = now().saturating_sub(due(at, self.burst, self.rate));
        self.start += late;
        at + late
    }
}

/// Due time of piece `number` at `rate` pieces per second since `start`.
pub(super) fn due(start: u64, number: u64, rate: f64) -> u64 {
    #[expect(clippy::cast_precision_loss, reason = "counts below 2^53")]
    let offset = number as f64 * 1e9 / rate;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an hour at most")]
    let offset = offset as u64;
    start + offset
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_due_at_their_pace() {
        assert_eq!(due(5, 0, 10.0), 5);
        assert_eq!(due(5, 3, 1000.0), 3_000_005);
        let before = now();
        sleep_until(before + 2_000_000);
        assert!(now() >= before + 2_000_000);
        sleep_until(before);
        assert_eq!(nanoseconds(Duration::from_millis(3)), 3_000_000);
    }

    #[test]
    fn a_long_delay_is_not_made_up_for() {
        // Due 2 s ago (a test runs later than that after boot), except for the last 64 of 1,000 per second.
        let (before, second) = (now(), 1_000_000_000);
        let mut pace = Pace { start: before - 2 * second, rate: 1000.0, burst: 64 };
        pace.wait(0);
        let due = due(pace.start, 64, 1000.0);
        assert!((before - second..now() + second).contains(&due), "{before} {due}");
    }
}
