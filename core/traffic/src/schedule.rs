//! When generated frames are due: exactly at the rate, for any number of frames.
//!
//! The n-th frame is due when the packets, or the bits, before it have been sent at
//! the rate, rounded down to nanoseconds. The remainder is kept, so that errors never add up. Times end with a `u64`,
//! after 584 years.

use crate::Rate;

/// Nanoseconds per second, times the thousandths of a rate.
const NS: u64 = 1_000_000_000_000;

/// The due times of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// Thousandths of packets or bits a second; 0: immediately.
    rate: u64,
    bits: bool,
    /// When the next is due, in nanoseconds after the start.
    due: u64,
    /// The remainder of a nanosecond, in parts of `rate`.
    rest: u64,
}

impl Schedule {
    /// A schedule at this rate. At [`Rate::Max`] all frames are due at once.
    pub fn new(rate: Rate) -> Schedule {
        let bits = matches!(rate, Rate::Bits(_));
        Schedule { rate: rate.thousandths().unwrap_or(0), bits, due: 0, rest: 0 }
    }

    /// When the next frame is due, in nanoseconds after the start.
    pub fn due(&self) -> u64 {
        self.due
    }

    /// The due time of the next frame, which has `size` bytes with its check sequence; advances to the one
    /// after it.
    pub fn next(&mut self, size: u32) -> u64 {
        let due = self.due;
        if self.rate != 0 {
            // Saturates only beyond frames of 2 MB, which no interface sends.
            let parts = if self.bits { u64::from(size).saturating_mul(8 * NS) } else { NS };
            // Both are below the rate, at most 10^18: the sum fits.
            let rest = self.rest + parts % self.rate;
            let carry = u64::from(rest >= self.rate);
            self.rest = rest - carry * self.rate;
            self.due = due.saturating_add(parts / self.rate + carry);
        }
        due
    }

    /// Like `frames` calls of [`Schedule::next`], for frames with a total of `bytes`.
    pub fn skip(&mut self, frames: u64, bytes: u64) {
        if self.rate == 0 {
            return;
        }
        let units = if self.bits { u128::from(bytes) * 8 } else { u128::from(frames) };
        let parts = units * u128::from(NS) + u128::from(self.rest);
        // In 128 bits: the product of many frames may exceed 64.
        let rate = u128::from(self.rate);
        let whole = u64::try_from(parts / rate).unwrap_or(u64::MAX);
        self.rest = u64::try_from(parts % rate).unwrap_or(0);
        self.due = self.due.saturating_add(whole);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Computed by the formula; the last time there is if that is later.
    fn expected(rate: Rate, frames: u64, bytes: u64) -> u64 {
        let units =
            if matches!(rate, Rate::Bits(_)) { u128::from(bytes) * 8 } else { frames.into() };
        let rate = u128::from(rate.thousandths().unwrap());
        u64::try_from(units * u128::from(NS) / rate).unwrap_or(u64::MAX)
    }

    fn rates() -> impl Strategy<Value = Rate> {
        prop_oneof![
            (1_000_u32..40_000_000).prop_map(|rate| Rate::Packets(f64::from(rate))),
            (1_u32..1_000_000).prop_map(|rate| Rate::Packets(f64::from(rate) / 1000.0)),
            (8_000_u64..400_000_000_000).prop_map(|rate| Rate::Bits(rate as f64)),
        ]
    }

    proptest! {
        #[test]
        fn each_step_is_what_the_formula_says(rate in rates(), before in 0_u64..1_000_000_000,
                                              sizes in proptest::collection::vec(64_u32..9019, 1..300)) {
            let mut schedule = Schedule::new(rate);
            let mut bytes = before * 64;
            schedule.skip(before, bytes);
            for (n, size) in (before..).zip(&sizes) {
                prop_assert_eq!(schedule.next(*size), expected(rate, n, bytes));
                bytes += u64::from(*size);
            }
        }

        #[test]
        fn skipping_is_stepping(rate in rates(), frames in 0_u32..2000, size in 64_u32..1519) {
            let mut stepped = Schedule::new(rate);
            for _ in 0..frames {
                stepped.next(size);
            }
            let mut skipped = Schedule::new(rate);
            skipped.skip(frames.into(), u64::from(frames) * u64::from(size));
            prop_assert_eq!(stepped, skipped);
        }
    }

    /// A rate with fractional nanoseconds: 10^9 frames, in strides, the last ones one by one.
    #[test]
    fn a_thousand_million_frames_do_not_drift() {
        let rate = Rate::Packets(1_488_095.238);
        let mut schedule = Schedule::new(rate);
        let (mut n, stride) = (0_u64, 999_983);
        while n + stride < 1_000_000_000 {
            schedule.skip(stride, 0);
            n += stride;
        }
        while n < 1_000_000_000 {
            assert_eq!(schedule.next(64), expected(rate, n, 0));
            n += 1;
        }
        assert_eq!(schedule.due(), expected(rate, 1_000_000_000, 0));
        assert_eq!(schedule.due(), 672_000_000_043);
    }

    #[test]
    fn the_last_time_is_after_584_years() {
        let rate = Rate::Packets(0.001);
        let mut schedule = Schedule::new(rate);
        schedule.skip(18_446_744, 0);
        assert_eq!(schedule.next(64), 18_446_744_000_000_000_000);
        assert_eq!([schedule.next(64), schedule.next(64)], [u64::MAX; 2]);
    }

    #[test]
    fn at_top_speed_all_are_due_at_once() {
        let mut schedule = Schedule::new(Rate::Max);
        schedule.skip(1_000_000, 64);
        assert_eq!([schedule.next(64), schedule.next(64)], [0, 0]);
    }
}
