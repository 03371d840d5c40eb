//! Converts time stamps of an interface to nanoseconds since 1970 UTC.
//!
//! See draft-ietf-opsawg-pcapng, section 4.2, `if_tsresol` and `if_tsoffset`.

/// The unit and offset of an interface's time stamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Clock {
    unit: Unit,
    /// Seconds since 1970 UTC.
    offset: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    /// This many nanoseconds.
    Longer(u64),
    /// This many make a nanosecond.
    Shorter(u64),
    /// 2 to this power make a second.
    Binary(u32),
    /// Too short for 64 bits of them to make a nanosecond.
    Nothing,
}

impl Clock {
    /// From `if_tsresol`, any of whose 256 values has a meaning, and `if_tsoffset`.
    pub(super) fn new(resolution: u8, offset: i64) -> Clock {
        let power = u32::from(resolution & 0x7f);
        let unit = match (resolution & 0x80 != 0, power) {
            (true, _) => Unit::Binary(power),
            (false, ..=9) => Unit::Longer(10u64.pow(9 - power)),
            (false, _) => 10u64.checked_pow(power - 9).map_or(Unit::Nothing, Unit::Shorter),
        };
        Clock { unit, offset }
    }

    /// `ticks` as nanoseconds, rounded down, if they fit into 64 bits.
    #[inline]
    pub(super) fn ns(&self, ticks: u64) -> Option<u64> {
        // Our own files have this unit: no need for arithmetic in 128 bits.
        if self.offset == 0 && self.unit == Unit::Longer(1) {
            return Some(ticks);
        }
        let ns = match self.unit {
            Unit::Longer(each) => i128::from(ticks) * i128::from(each),
            Unit::Shorter(count) => i128::from(ticks / count),
            // 94 bits at most, and the power is at most 127.
            Unit::Binary(power) => (i128::from(ticks) * 1_000_000_000) >> power,
            Unit::Nothing => 0,
        };
        u64::try_from(ns + i128::from(self.offset) * 1_000_000_000).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::Clock;

    #[test]
    fn powers_of_ten() {
        assert_eq!(Clock::new(0, 0).ns(7), Some(7_000_000_000));
        assert_eq!(Clock::new(3, 0).ns(7), Some(7_000_000));
        assert_eq!(Clock::new(6, 0).ns(1_340_954_905_298_858), Some(1_340_954_905_298_858_000));
        assert_eq!(Clock::new(9, 0).ns(u64::MAX), Some(u64::MAX));
        assert_eq!(Clock::new(12, 0).ns(1_999), Some(1));
        assert_eq!(Clock::new(28, 0).ns(u64::MAX), Some(1));
        assert_eq!(Clock::new(29, 0).ns(u64::MAX), Some(0));
        assert_eq!(Clock::new(127, 0).ns(u64::MAX), Some(0));
    }

    #[test]
    fn powers_of_two() {
        assert_eq!(Clock::new(0x80, 0).ns(3), Some(3_000_000_000));
        assert_eq!(Clock::new(0x80 | 10, 0).ns(1024 + 512), Some(1_500_000_000));
        assert_eq!(Clock::new(0x80 | 32, 0).ns(1 << 31), Some(500_000_000));
        assert_eq!(Clock::new(0x80 | 64, 0).ns(u64::MAX), Some(999_999_999));
        assert_eq!(Clock::new(0xff, 0).ns(u64::MAX), Some(0));
    }

    #[test]
    fn offsets() {
        assert_eq!(Clock::new(9, 2).ns(5), Some(2_000_000_005));
        assert_eq!(Clock::new(6, -1).ns(1_000_001), Some(1_000));
        assert_eq!(Clock::new(6, -1).ns(999_999), None);
        assert_eq!(Clock::new(0, i64::MAX).ns(u64::MAX), None);
        assert_eq!(Clock::new(0, i64::MIN).ns(u64::MAX), None);
        assert_eq!(Clock::new(9, 1).ns(u64::MAX), None);
    }
}
