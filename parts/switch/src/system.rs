//! Services of the system: time and random bytes.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::{Error, Result};

/// Seconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Unpredictable random bytes.
pub(crate) fn random(bytes: &mut [u8]) -> Result<()> {
    match rustix::rand::getrandom(&mut *bytes, rustix::rand::GetRandomFlags::empty()) {
        Ok(count) if count == bytes.len() => Ok(()),
        Ok(_) => Err(Error::setup("get random bytes", rustix::io::Errno::AGAIN)),
        Err(e) => Err(Error::setup("get random bytes", e)),
    }
}
