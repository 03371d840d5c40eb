//! Flows: their number, and the fields that distinguish them.
//!
//! The source's UDP port varies first, over all dynamic ones (RFC 6335), then its address, counted up from
//! the given one.

use std::fmt;
use std::str::FromStr;

use crate::{Error, Result};

/// Ports used before the address changes: a power of two.
pub const PORTS: u32 = 1 << 14;
/// The first of these ports.
const FIRST_PORT: u16 = 49_152;
/// The maximum number of flows: 1,024 addresses.
pub const MOST_FLOWS: u32 = PORTS * 1024;

/// A number of flows, taken in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flows(u32);

/// One flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// The source's UDP port.
    pub port: u16,
    /// The addend to the last 32 bits of the source's address.
    pub address: u32,
}

impl Flows {
    /// One flow.
    pub const ONE: Flows = Flows(1);

    /// This many flows.
    ///
    /// # Errors
    /// [`Error::Range`] for zero or more than [`MOST_FLOWS`].
    pub fn new(count: u32) -> Result<Flows> {
        if (1..=MOST_FLOWS).contains(&count) {
            return Ok(Flows(count));
        }
        Err(Error::range("number of flows", count, 1, MOST_FLOWS))
    }

    /// How many.
    pub fn count(self) -> u32 {
        self.0
    }

    /// The flow of the n-th frame.
    pub fn at(self, n: u64) -> Flow {
        let number = u32::try_from(n % u64::from(self.0)).unwrap_or(0);
        let port = u16::try_from(number % PORTS).unwrap_or(0);
        Flow { port: FIRST_PORT + port, address: number / PORTS }
    }
}

impl FromStr for Flows {
    type Err = Error;

    /// A number.
    fn from_str(text: &str) -> Result<Flows> {
        let count = text.trim().parse();
        Flows::new(count.map_err(|_| Error::text("number of flows", text, "is not a number"))?)
    }
}

impl fmt::Display for Flows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_first_and_then_addresses() {
        let flows: Flows = "16386".parse().unwrap();
        assert_eq!(flows.at(0), Flow { port: 49_152, address: 0 });
        assert_eq!(flows.at(16_383), Flow { port: 65_535, address: 0 });
        assert_eq!(flows.at(16_385), Flow { port: 49_153, address: 1 });
        assert_eq!(flows.at(16_386), flows.at(0));
    }

    #[test]
    fn what_is_no_number_of_flows_is_named() {
        assert_eq!(
            "0".parse::<Flows>().unwrap_err().to_string(),
            "number of flows 0: must be 1 to 16777216"
        );
        assert!("x".parse::<Flows>().unwrap_err().to_string().contains("\"x\""));
    }
}
