//! Converts the programs' clock to Unix time.
//!
//! Programs read TAI if the kernel lets them (Linux 6.1), else the monotonic clock. TAI always
//! differs from Unix time by whole seconds, so its offset is exact. The monotonic clock's offset
//! comes from a reading between two readings of that clock, with an error of half their distance.

use libbpf_sys::bpf_prog_type;
use netloom_sys::clock;

use super::Where;

const SECOND: i64 = 1_000_000_000;

/// The clock of a tap's programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Clock {
    Tai,
    Monotonic,
}

impl Clock {
    /// The clock that programs at this place may read.
    pub(super) fn of(at: Where) -> Self {
        let kind: bpf_prog_type = match at {
            Where::Xdp => libbpf_sys::BPF_PROG_TYPE_XDP,
            Where::Tc => libbpf_sys::BPF_PROG_TYPE_SCHED_CLS,
        };
        crate::load::quiet();
        let helper = libbpf_sys::BPF_FUNC_ktime_get_tai_ns;
        // SAFETY: takes numbers and a null pointer, as it requires; loads a program and unloads it.
        let there = unsafe { libbpf_sys::libbpf_probe_bpf_helper(kind, helper, std::ptr::null()) };
        // 0: the kernel refuses it; less: that could not be found out.
        if there == 1 { Clock::Tai } else { Clock::Monotonic }
    }

    /// The offset to Unix time, in nanoseconds, modulo 2^64.
    pub(super) fn to_unix(self) -> u64 {
        let offset = match self {
            Clock::Tai => nearest_second(self.measured()),
            Clock::Monotonic => self.measured(),
        };
        offset.cast_unsigned()
    }

    /// Its reading, in nanoseconds.
    fn now(self) -> u64 {
        match self {
            // Every kernel that runs our programs has TAI (3.10).
            Clock::Tai => clock::tai(),
            Clock::Monotonic => clock::monotonic(),
        }
    }

    fn measured(self) -> i64 {
        clock::offset(clock::realtime, || self.now())
    }
}

fn nearest_second(ns: i64) -> i64 {
    (ns + SECOND / 2).div_euclid(SECOND) * SECOND
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
        let _kept = netloom_kit::tai_kept();
        for clock in [Clock::Tai, Clock::Monotonic] {
            let now = clock.now().wrapping_add(clock.to_unix());
            let unix = clock::realtime();
            assert!(unix.abs_diff(now) < SECOND.unsigned_abs(), "{clock:?}");
        }
    }
}
