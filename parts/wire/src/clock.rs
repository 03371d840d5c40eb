//! The clocks: CLOCK_MONOTONIC for all delays, CLOCK_REALTIME for records of fates.

use rustix::time::{ClockId, clock_gettime};

/// Time since some fixed point, in ns; never runs backwards.
pub(crate) fn monotonic() -> u64 {
    read(ClockId::Monotonic)
}

/// Time since 1970 in ns.
pub(crate) fn realtime() -> u64 {
    read(ClockId::Realtime)
}

fn read(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    // Neither clock is ever before 0 on a machine that runs.
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}
