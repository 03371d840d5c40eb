//! Services of the system: times, and the limit of descriptors.

use std::time::{SystemTime, UNIX_EPOCH};

use netloom_ofconn::Time;
use rustix::process::{Resource, Rlimit};
use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds in a second.
pub(crate) const SECOND: Time = 1_000_000_000;

/// Seconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// The machine's monotonic clock.
pub(crate) fn clock() -> Time {
    netloom_sys::clock::monotonic()
}

/// CPU time of this thread in nanoseconds.
pub(crate) fn cpu_ns() -> u64 {
    netloom_sys::clock::nanoseconds(clock_gettime(ClockId::ThreadCPUTime))
}

/// Raises the limit of descriptors: many switches times many slices exceed many systems' default.
pub(crate) fn raise_limit() {
    let Rlimit { maximum, .. } = rustix::process::getrlimit(Resource::Nofile);
    let _ = rustix::process::setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}
