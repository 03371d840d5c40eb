//! A sender, a middle and a receiver in namespaces of their own, points at all four interfaces between
//! them, and what is known of the traffic by other means: the relay's ledger, taps, the sender's log.
//!
//! Nothing here reads a mark, a block or a time by the code that is tested. Everything goes with the
//! values that stand for it.

#![allow(dead_code, reason = "each test binary uses a part")]

pub(crate) mod frame;
pub(crate) mod kinds;
pub(crate) mod net;
pub(crate) mod points;
pub(crate) mod relay;
pub(crate) mod send;
pub(crate) mod session;
pub(crate) mod tap;
pub(crate) mod truth;

use std::time::Duration;

/// Longest that anything is waited for.
pub(crate) const BOUND: Duration = Duration::from_secs(20);

/// The sender's port of datagrams.
pub(crate) const FROM: u16 = 4000;
/// The receiver's.
pub(crate) const TO: u16 = 5000;

/// Numbers from a seed (splitmix64).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `most`.
    pub(crate) fn below(&mut self, most: u64) -> u64 {
        self.next() % most
    }

    /// In so many of a thousand cases.
    pub(crate) fn hits(&mut self, permille: u64) -> bool {
        self.below(1000) < permille
    }
}
