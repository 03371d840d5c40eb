//! From the clock that programs can read to Unix time.
//!
//! Programs read TAI where the kernel lets them (Linux 6.1), else the monotonic clock. TAI is a whole
//! number of seconds from Unix time, whatever is done to either, so its offset is exact; the monotonic
//! clock's is read between two readings of that clock, and is off by half of what those are apart.

use libbpf_sys::bpf_prog_type;
use rustix::time::{ClockId, DynamicClockId, Timespec, clock_gettime, clock_gettime_dynamic};

use super::Where;

const SECOND: i128 = 1_000_000_000;
/// Readings of which the closest is taken.
const TRIES: usize = 8;

/// The clock of a tap's programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Clock {
    Tai,
    Monotonic,
}

impl Clock {
    /// What programs at this place may read.
    pub(super) fn of(at: Where) -> Self {
        let kind: bpf_prog_type = match at {
            Where::Xdp => libbpf_sys::BPF_PROG_TYPE_XDP,
            Where::Tc => libbpf_sys::BPF_PROG_TYPE_SCHED_CLS,
        };
        crate::load::quiet();
        let helper = libbpf_sys::BPF_FUNC_ktime_get_tai_ns;
        // SAFETY: takes numbers and a null pointer, which it asks for; loads a program and lets go of it.
        let there = unsafe { libbpf_sys::libbpf_probe_bpf_helper(kind, helper, std::ptr::null()) };
        if there == 1 { Clock::Tai } else { Clock::Monotonic }
    }

    /// What is to be added to it for Unix time, in nanoseconds, as a word that wraps round.
    pub(super) fn to_unix(self) -> u64 {
        let offset = match self {
            Clock::Tai => nearest_second(self.measured()),
            Clock::Monotonic => self.measured(),
        };
        let wrapped = offset.rem_euclid(1 << 64);
        u64::try_from(wrapped).unwrap_or(0)
    }

    /// Its reading, in nanoseconds.
    fn now(self) -> i128 {
        match self {
            // Every kernel that runs our programs has TAI (3.10).
            Clock::Tai => clock_gettime_dynamic(DynamicClockId::Tai).map_or(0, ns),
            Clock::Monotonic => ns(clock_gettime(ClockId::Monotonic)),
        }
    }

    fn measured(self) -> i128 {
        let tries = (0..TRIES).map(|_| {
            let before = self.now();
            let unix = ns(clock_gettime(ClockId::Realtime));
            let after = self.now();
            (after - before, unix - i128::midpoint(before, after))
        });
        tries.min_by_key(|(apart, _)| *apart).map_or(0, |(_, offset)| offset)
    }
}

fn nearest_second(ns: i128) -> i128 {
    (ns + SECOND / 2).div_euclid(SECOND) * SECOND
}

fn ns(time: Timespec) -> i128 {
    i128::from(time.tv_sec) * SECOND + i128::from(time.tv_nsec)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_of_tai_are_whole_seconds() {
        for (measured, exact) in [(0, 0), (-36_999_999_950, -37), (-37_000_000_400, -37), (40, 0)] {
            assert_eq!(nearest_second(measured), exact * SECOND);
        }
    }

    #[test]
    fn the_offset_leads_to_unix_time() {
        for clock in [Clock::Tai, Clock::Monotonic] {
            let now = u64::try_from(clock.now()).unwrap().wrapping_add(clock.to_unix());
            let unix = ns(clock_gettime(ClockId::Realtime));
            assert!((unix - i128::from(now)).abs() < SECOND, "{clock:?}");
        }
    }
}
