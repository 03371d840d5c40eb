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
pub(crate) const BOUND: Duration = Duration::from_secs(60);

/// The sender's port of datagrams.
pub(crate) const FROM: u16 = 4000;
/// The receiver's.
pub(crate) const TO: u16 = 5000;
