//! The kernel's clocks in nanoseconds, and offsets between them.
//!
//! The monotonic clock is the machine's, even in a time namespace with its own: BPF programs and
//! other processes know only the machine's. Nothing here waits. See clock_gettime(2),
//! time_namespaces(7).

use std::sync::OnceLock;

use rustix::time::{ClockId, DynamicClockId, Timespec, clock_gettime, clock_gettime_dynamic};

/// Number of readings; the closest counts.
const TRIES: usize = 8;

/// CLOCK_MONOTONIC of the machine: counts from a fixed point and never runs backwards.
#[inline]
pub fn monotonic() -> u64 {
    nanoseconds(clock_gettime(ClockId::Monotonic)).wrapping_add_signed(-namespace_offset())
}

/// Converts a time of [`monotonic`] for this process's timers and sleeps, which use the clock of
/// its time namespace.
pub fn for_timers(monotonic: u64) -> u64 {
    monotonic.saturating_add_signed(namespace_offset())
}

/// The offset of this process's time namespace from the machine's monotonic clock. It is fixed
/// before a process enters the namespace.
fn namespace_offset() -> i64 {
    static OFFSET: OnceLock<i64> = OnceLock::new();
    *OFFSET.get_or_init(|| {
        // Without the file the kernel has no time namespaces.
        let offsets = std::fs::read_to_string("/proc/self/timens_offsets").unwrap_or_default();
        offset_in(&offsets, "monotonic").unwrap_or(0)
    })
}

/// A clock's offset in text such as `monotonic 10 500000000`, one clock per line; `None` if missing.
pub(crate) fn offset_in(offsets: &str, clock: &str) -> Option<i64> {
    let line = offsets.lines().find_map(|line| line.strip_prefix(clock))?;
    let mut numbers = line.split_whitespace().map(str::parse::<i64>);
    let (seconds, rest) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    seconds.checked_mul(1_000_000_000)?.checked_add(rest)
}

/// CLOCK_BOOTTIME of the caller's time namespace: since it was made, in one of [`new_boot_time`]; else since the machine
/// was started.
///
/// [`new_boot_time`]: crate::namespace::new_boot_time
pub fn boot_time() -> u64 {
    nanoseconds(clock_gettime(ClockId::Boottime))
}

/// CLOCK_REALTIME: since 1970, UTC.
#[inline]
pub fn realtime() -> u64 {
    nanoseconds(clock_gettime(ClockId::Realtime))
}

/// CLOCK_TAI: atomic time, a whole number of seconds ahead of UTC. 0 on kernels before 3.10.
pub fn tai() -> u64 {
    clock_gettime_dynamic(DynamicClockId::Tai).map_or(0, nanoseconds)
}

/// A kernel time as one number. None of its clocks is before 0 on a running machine.
#[inline]
pub fn nanoseconds(time: Timespec) -> u64 {
    let [seconds, rest] = [time.tv_sec, time.tv_nsec].map(|part| u64::try_from(part).unwrap_or(0));
    seconds.wrapping_mul(1_000_000_000).wrapping_add(rest)
}

/// The first clock minus the second, by the closest of several readings: accurate to half the time
/// between two readings of the second.
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
        let before = realtime();
        let system = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let after = realtime();
        assert!((u128::from(before)..=after.into()).contains(&system.as_nanos()), "{system:?}");
        // A second more, since somebody may set the clock.
        let (offset, second) = (offset(realtime, monotonic), 1_000_000_000);
        let before = realtime();
        let unix = monotonic().wrapping_add_signed(offset);
        assert!((before - second..realtime() + second).contains(&unix), "{before} {unix}");
        assert!(monotonic() <= monotonic());
        assert_eq!(nanoseconds(Timespec { tv_sec: 2, tv_nsec: 7 }), 2_000_000_007);
    }

    #[test]
    fn the_offset_of_a_time_namespace_is_read() {
        let text = "monotonic          -3   500000000\nboottime           9           0\n";
        assert_eq!(offset_in(text, "monotonic"), Some(-2_500_000_000));
        assert_eq!(offset_in(text, "boottime"), Some(9_000_000_000));
        assert_eq!(offset_in("boottime 1 0\n", "monotonic"), None);
        assert_eq!(offset_in("monotonic 9223372036854775807 0", "monotonic"), None);
    }
}
