//! The clocks: CLOCK_REALTIME for what is written, CLOCK_MONOTONIC for what is waited for.

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds since 1970, UTC.
pub(crate) fn realtime() -> u64 {
    read(ClockId::Realtime)
}

/// Nanoseconds since some fixed point; never runs backwards.
pub(crate) fn monotonic() -> u64 {
    read(ClockId::Monotonic)
}

fn read(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    // Neither clock is ever before 0 on a machine that runs.
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}
