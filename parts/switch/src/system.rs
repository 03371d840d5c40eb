//! Services of the system: time and random bytes.

use std::time::{SystemTime, UNIX_EPOCH};

use netloom_sys::Failure;

use crate::Result;
use crate::error::SWITCH;

/// Seconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Unpredictable random bytes.
pub(crate) fn random<const N: usize>() -> Result<[u8; N]> {
    netloom_sys::random::array().map_err(|e| Failure::new(SWITCH, "get random bytes", e).into())
}
