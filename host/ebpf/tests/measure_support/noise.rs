//! Numbers without order that are the same every time.

use netloom_digest::splitmix::SplitMix64;

/// A source of numbers.
#[derive(Clone, Debug)]
pub(crate) struct Noise(SplitMix64);

impl Noise {
    pub(crate) fn new(seed: u64) -> Noise {
        Noise(SplitMix64::new(seed))
    }

    pub(crate) fn word(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Below `n`.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.0.below(n)
    }

    /// One in `n`.
    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    pub(crate) fn byte(&mut self) -> u8 {
        self.word().to_be_bytes()[0]
    }

    pub(crate) fn bytes(&mut self, n: u64) -> Vec<u8> {
        self.0.bytes(usize::try_from(n).unwrap())
    }

    pub(crate) fn of<T: Copy>(&mut self, all: &[T]) -> T {
        *self.0.one_of(all)
    }
}
