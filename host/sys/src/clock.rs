//! The kernel's clocks as numbers of nanoseconds, and what lies between two of them.
//!
//! Nothing is waited for here. See clock_gettime(2).

use rustix::time::{ClockId, DynamicClockId, Timespec, clock_gettime, clock_gettime_dynamic};

/// Readings of which the closest is taken.
const TRIES: usize = 8;

/// CLOCK_MONOTONIC: since some fixed point; never runs backwards.
#[inline]
pub fn monotonic() -> u64 {
    nanoseconds(clock_gettime(ClockId::Monotonic))
}

/// CLOCK_REALTIME: since 1970, UTC.
#[inline]
pub fn realtime() -> u64 {
    nanoseconds(clock_gettime(ClockId::Realtime))
}

/// CLOCK_TAI: atomic time, a whole number of seconds from UTC. 0 on kernels before 3.10.
pub fn tai() -> u64 {
    clock_gettime_dynamic(DynamicClockId::Tai).map_or(0, nanoseconds)
}

/// A time of the kernel's as one number. None of its clocks is before 0 on a machine that runs.
#[inline]
pub fn nanoseconds(time: Timespec) -> u64 {
    let [seconds, rest] = [time.tv_sec, time.tv_nsec].map(|part| u64::try_from(part).unwrap_or(0));
    seconds.wrapping_mul(1_000_000_000).wrapping_add(rest)
}

/// The first clock less the second, by the closest of several readings: off by half of what it took to
/// read the second one twice.
pub fn offset(first: impl Fn() -> u64, second: impl Fn() -> u64) -> i64 {
    let tries = (0..TRIES).map(|_| {
        let (before, middle, after) = (second(), first(), second());
        (
            after.wrapping_sub(before),
            middle.cast_signed() - u64::midpoint(before, after).cast_signed(),
        )
    });
    tries.min_by_key(|(apart, _)| *apart).map_or(0, |(_, offset)| offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_are_those_of_the_standard_library_and_their_offsets_lead_from_one_to_the_other() {
        let system = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let apart = u128::from(realtime()).abs_diff(system.as_nanos());
        assert!(apart < 1_000_000_000, "{apart}");
        let unix = monotonic().wrapping_add_signed(offset(realtime, monotonic));
        assert!(unix.abs_diff(realtime()) < 1_000_000_000);
        assert!(monotonic() <= monotonic());
        assert_eq!(nanoseconds(Timespec { tv_sec: 2, tv_nsec: 7 }), 2_000_000_007);
    }
}
