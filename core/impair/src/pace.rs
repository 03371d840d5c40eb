//! A transmitter's clock: when each frame is sent at a given rate, exact over any number of frames.
//!
//! The remainder of a division is carried to the next frame while the transmitter is busy, so that
//! each time is rounded down by less than a nanosecond and times never drift.

use std::num::NonZeroU64;

/// Bits in a byte times nanoseconds in a second.
const SCALE: u128 = 8_000_000_000;

/// The transmitter of one direction. Keeps its busy time when its rate changes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transmitter {
    rate: NonZeroU64,
    /// When it becomes idle: whole nanoseconds, and the rest in parts of 1/rate ns.
    until: u64,
    rest: u128,
}

impl Transmitter {
    /// An idle transmitter of `rate` bits per second.
    pub(crate) fn new(rate: NonZeroU64) -> Self {
        Transmitter { rate, until: 0, rest: 0 }
    }

    /// Changes the rate from the next frame on.
    pub(crate) fn set(&mut self, rate: NonZeroU64) {
        if rate != self.rate {
            self.rate = rate;
            // It was in parts of the old rate.
            self.rest = 0;
        }
    }

    /// When a frame that arrives now would start.
    pub(crate) fn start(&self, now: u64) -> u64 {
        self.until.max(now)
    }

    /// Accepts a frame that arrives now; returns when its last bit is sent.
    pub(crate) fn send(&mut self, now: u64, bytes: u32) -> u64 {
        // The rest of the frame before counts only while the transmitter is busy: an idle one starts afresh.
        if self.until < now {
            (self.until, self.rest) = (now, 0);
        }
        let rate = u128::from(self.rate.get());
        let parts = u128::from(bytes) * SCALE + self.rest;
        self.rest = parts % rate;
        let whole = u64::try_from(parts / rate).unwrap_or(u64::MAX);
        self.until = self.until.saturating_add(whole);
        self.until
    }

    /// How long `bytes` take, in ns, rounded down.
    pub(crate) fn duration(&self, bytes: usize) -> u64 {
        let parts = u128::try_from(bytes).unwrap_or(u128::MAX / SCALE) * SCALE;
        u64::try_from(parts / u128::from(self.rate.get())).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_million_frames_do_not_drift() {
        for rate in [999_983, 7_777_777, 1_000_000_007, 39_999_999_999] {
            let mut transmitter = Transmitter::new(NonZeroU64::new(rate).unwrap());
            let mut bytes = 0u128;
            let mut end = 0;
            for n in 0..1_000_000u32 {
                let size = 60 + n % 7919 % 1455;
                bytes += u128::from(size);
                end = transmitter.send(0, size);
            }
            assert_eq!(u128::from(end), bytes * SCALE / u128::from(rate));
        }
    }

    #[test]
    fn idle_time_is_not_saved_up() {
        let mut transmitter = Transmitter::new(NonZeroU64::new(8_000_000_000).unwrap());
        assert_eq!(transmitter.send(0, 1000), 1000);
        assert_eq!(transmitter.send(500, 1000), 2000);
        assert_eq!(transmitter.start(1500), 2000);
        assert_eq!(transmitter.send(1_000_000, 1000), 1_001_000);
        transmitter.set(NonZeroU64::new(4_000_000_000).unwrap());
        assert_eq!(transmitter.send(1_000_000, 1000), 1_003_000);
        assert_eq!(transmitter.duration(1000), 2000);
    }
}
