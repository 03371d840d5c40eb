//! MAC addresses, and what a destination address asks for.
//!
//! See IEEE 802-2014, clause 8.2 (the group bit), and IEEE 802.1Q-2022, table 8-1 (reserved
//! addresses).

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};

/// A MAC address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// `ff:ff:ff:ff:ff:ff`.
    pub const BROADCAST: Mac = Mac([0xff; 6]);

    /// The destination of a frame; `None` if it is too short to have one.
    #[inline]
    pub fn destination(frame: &[u8]) -> Option<Mac> {
        frame.first_chunk().copied().map(Mac)
    }

    /// The source address of a frame; `None` if it is too short to have one.
    #[inline]
    pub fn source(frame: &[u8]) -> Option<Mac> {
        frame.get(6..)?.first_chunk().copied().map(Mac)
    }

    /// Whether it is a group address: multicast or broadcast.
    #[inline]
    pub fn is_group(self) -> bool {
        self.0[0] & 1 != 0
    }

    /// Whether a station may have it: neither a group address nor zero.
    #[inline]
    pub fn is_station(self) -> bool {
        !self.is_group() && self.0 != [0; 6]
    }

    /// As a number below 2^48, the first byte highest.
    #[inline]
    pub fn to_u64(self) -> u64 {
        let [a, b, c, d, e, f] = self.0;
        u64::from(u32::from_be_bytes([a, b, c, d])) << 16 | u64::from(u16::from_be_bytes([e, f]))
    }

    /// From the low 48 bits of a number.
    #[inline]
    pub fn from_u64(number: u64) -> Mac {
        let [_, _, a, b, c, d, e, f] = number.to_be_bytes();
        Mac([a, b, c, d, e, f])
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl FromStr for Mac {
    type Err = Error;

    /// Six bytes in hexadecimal, one or two digits each, with `:` or `-` between them.
    fn from_str(text: &str) -> Result<Mac> {
        let wrong = || Error::text("MAC address", text, "not six bytes like 02:00:00:00:00:01");
        let between = if text.contains('-') { '-' } else { ':' };
        let mut mac = [0; 6];
        let mut parts = text.split(between);
        for byte in &mut mac {
            let part = parts.next().ok_or_else(wrong)?;
            // `from_str_radix` alone would take a sign.
            let digits = part.bytes().all(|b| b.is_ascii_hexdigit());
            if !digits || !(1..=2).contains(&part.len()) {
                return Err(wrong());
            }
            *byte = u8::from_str_radix(part, 16).map_err(|_| wrong())?;
        }
        if parts.next().is_some() { Err(wrong()) } else { Ok(Mac(mac)) }
    }
}

/// What a destination address asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Destination {
    /// One station: its port if it is known, else all.
    Unicast,
    /// All ports but the sender's.
    Broadcast,
    /// All ports but the sender's: there is no snooping of groups.
    Multicast,
    /// `01:80:c2:00:00:0X` with this X, 1 to 15: only for the next bridge, which is this one. Not
    /// forwarded.
    Reserved(u8),
}

/// What a destination asks for.
///
/// Of the 16 addresses reserved for bridges, `…:01` to `…:0f` (pause, LACP and other slow protocols,
/// 802.1X, LLDP, …) are not forwarded. `…:00` (spanning tree) is: this switch takes no part in
/// spanning tree, and dropping it would hide a loop through the switch from the bridges that do.
/// Linux bridges do the same by default.
#[inline]
pub fn decide(destination: Mac) -> Destination {
    const RESERVED: [u8; 5] = [0x01, 0x80, 0xc2, 0, 0];
    if !destination.is_group() {
        return Destination::Unicast;
    }
    if destination == Mac::BROADCAST {
        return Destination::Broadcast;
    }
    let [head @ .., last] = destination.0;
    match last {
        1..=15 if head == RESERVED => Destination::Reserved(last),
        _ => Destination::Multicast,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn destinations() {
        let of = |text: &str| decide(text.parse().unwrap());
        assert_eq!(of("02:00:00:00:00:01"), Destination::Unicast);
        assert_eq!(of("00:00:00:00:00:00"), Destination::Unicast);
        assert_eq!(of("ff:ff:ff:ff:ff:ff"), Destination::Broadcast);
        assert_eq!(of("33:33:00:00:00:fb"), Destination::Multicast);
        assert_eq!(of("01:80:c2:00:00:00"), Destination::Multicast);
        assert_eq!(of("01:80:c2:00:00:01"), Destination::Reserved(1));
        assert_eq!(of("01:80:c2:00:00:0e"), Destination::Reserved(14));
        assert_eq!(of("01:80:c2:00:00:10"), Destination::Multicast);
        assert_eq!(of("01:80:c2:00:00:21"), Destination::Multicast);
        assert_eq!(of("01:80:c2:00:01:02"), Destination::Multicast);
    }

    #[test]
    fn texts() {
        assert_eq!("2:0:0:0:0:A".parse(), Ok(Mac([2, 0, 0, 0, 0, 10])));
        assert_eq!("02-00-00-00-00-0a".parse(), Ok(Mac([2, 0, 0, 0, 0, 10])));
        for wrong in ["", "02", "02:00:00:00:00", "02:00:00:00:00:01:02", "02:00:00:00:00:0g"] {
            assert!(wrong.parse::<Mac>().is_err(), "{wrong}");
        }
        for wrong in ["02:00:00:00:00:+1", "002:00:00:00:00:01", "02:00-00:00:00:01", ":::::"] {
            assert!(wrong.parse::<Mac>().is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "\\PC*") {
            let _ = text.parse::<Mac>();
        }

        #[test]
        fn what_is_written_is_read(bytes: [u8; 6]) {
            let mac = Mac(bytes);
            prop_assert_eq!(mac.to_string().parse(), Ok(mac));
            prop_assert_eq!(Mac::from_u64(mac.to_u64()), mac);
        }
    }
}
