//! Types of VLAN tags ("tag protocol identifiers").

use std::fmt;
use std::str::FromStr;

use netloom_packet::headers::TAGS;

use crate::error::{Error, Result};

/// A tag's type: one of [`TAGS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tpid(u16);

impl Tpid {
    /// That of 802.1Q, which tags of single VLANs have.
    pub const CUSTOMER: Tpid = Tpid(0x8100);
    /// That of 802.1ad for tags around others.
    pub const SERVICE: Tpid = Tpid(0x88a8);

    /// The type of a number, if tags have it.
    #[inline]
    pub fn new(number: u16) -> Option<Tpid> {
        TAGS.contains(&number).then_some(Tpid(number))
    }

    /// Its number.
    #[inline]
    pub const fn number(self) -> u16 {
        self.0
    }
}

impl Default for Tpid {
    fn default() -> Tpid {
        Tpid::SERVICE
    }
}

impl fmt::Display for Tpid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#06x}", self.0)
    }
}

impl FromStr for Tpid {
    type Err = Error;

    fn from_str(text: &str) -> Result<Tpid> {
        // `from_str_radix` alone would take a sign.
        let digits = text.strip_prefix("0x").filter(|digits| digits.len() == 4);
        let number = digits.and_then(|digits| u16::from_str_radix(digits, 16).ok());
        number.and_then(Tpid::new).ok_or_else(|| {
            Error::text("type of VLAN tags", text, "not 0x8100, 0x88a8, 0x9100 or 0x9200")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts() {
        for number in TAGS {
            let tpid = Tpid::new(number).unwrap();
            assert_eq!(tpid.to_string().parse(), Ok(tpid));
            assert_eq!(tpid.number(), number);
        }
        assert_eq!("0x88A8".parse(), Ok(Tpid::SERVICE));
        for wrong in ["", "0x", "8100", "33024", "0x0800", "0x+8100", "0x18100"] {
            let error = wrong.parse::<Tpid>().unwrap_err().to_string();
            assert!(error.contains("0x8100, 0x88a8"), "{error}");
        }
    }
}
