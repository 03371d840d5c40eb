//! Services of the system: times, and the limit of descriptors.

use std::time::{SystemTime, UNIX_EPOCH};

use netloom_pipeline::Time;
use rustix::process::{Resource, Rlimit};

/// Nanoseconds in a second.
pub(crate) const SECOND: Time = 1_000_000_000;

/// Seconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// The clock of the tables: the machine's monotonic one, which goes on when another process takes over.
pub(crate) fn clock() -> Time {
    netloom_sys::clock::monotonic()
}

/// CPU time of this process in microseconds.
pub(crate) fn cpu_us() -> u64 {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    netloom_sys::clock::nanoseconds(used) / 1000
}

/// Raises the limit of descriptors: a thousand connections exceed many systems' default.
pub(crate) fn raise_limit() {
    let Rlimit { maximum, .. } = rustix::process::getrlimit(Resource::Nofile);
    // A refusal leaves the limit as it was, which is enough for few connections.
    let _ = rustix::process::setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}
