//! What a sender tells receivers on the same machine: that it begins, and how many frames it sent.
//!
//! ```text
//!  0      4    5      6      8           24             32            40
//!  | magic| end| IPv6 |stream| destination | frames offered | of them refused |
//! ```
//!
//! All in network byte order; an IPv4 destination takes the first 4 of its 16 bytes. A beginning has no counts.
//! Receivers use it to know of frames lost behind the last one that came, which no stamp can tell.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Bytes of a notice.
pub const NOTICE: usize = 40;
/// The first four bytes.
const MAGIC: [u8; 4] = *b"nlg1";

/// What a sender tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The number of its stream.
    pub stream: u16,
    /// The destination in its frames.
    pub to: IpAddr,
    /// What it sent, when it has ended.
    pub sent: Option<SentFrames>,
}

/// What a sender sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SentFrames {
    /// Frames that have a number, from 0 on.
    pub offered: u64,
    /// Of these, frames that the sender's interface did not take.
    pub refused: u64,
}

impl Notice {
    /// Encodes it.
    pub fn bytes(&self) -> [u8; NOTICE] {
        let mut bytes = [0; NOTICE];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4] = u8::from(self.sent.is_some());
        bytes[5] = u8::from(self.to.is_ipv6());
        bytes[6..8].copy_from_slice(&self.stream.to_be_bytes());
        match self.to {
            IpAddr::V4(to) => bytes[8..12].copy_from_slice(&to.octets()),
            IpAddr::V6(to) => bytes[8..24].copy_from_slice(&to.octets()),
        }
        let sent = self.sent.unwrap_or_default();
        bytes[24..32].copy_from_slice(&sent.offered.to_be_bytes());
        bytes[32..].copy_from_slice(&sent.refused.to_be_bytes());
        bytes
    }

    /// Decodes one; `None` for anything else.
    pub fn read(bytes: &[u8; NOTICE]) -> Option<Notice> {
        let (head, rest) = bytes.split_first_chunk::<8>()?;
        let (to, counts) = rest.split_first_chunk::<16>()?;
        let [magic @ .., ended, v6, high, low] = head;
        if *magic != MAGIC || *ended > 1 || *v6 > 1 {
            return None;
        }
        let [a, b, c, d, ..] = *to;
        let to = match v6 {
            0 => IpAddr::V4(Ipv4Addr::new(a, b, c, d)),
            _ => IpAddr::V6(Ipv6Addr::from(*to)),
        };
        let (offered, refused) = counts.split_first_chunk::<8>()?;
        let offered = u64::from_be_bytes(*offered);
        let refused = u64::from_be_bytes(refused.try_into().ok()?);
        let sent = (*ended == 1).then_some(SentFrames { offered, refused });
        let possible = offered <= crate::SEQUENCES && refused <= offered;
        possible.then_some(Notice { stream: u16::from_be_bytes([*high, *low]), to, sent })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_told_is_read(stream: u16, to: IpAddr, ended: bool, offered in 0..crate::SEQUENCES, refused: u64) {
            let sent = ended.then_some(SentFrames { offered, refused: refused.min(offered) });
            let notice = Notice { stream, to, sent };
            prop_assert_eq!(Notice::read(&notice.bytes()), Some(notice));
        }

        #[test]
        fn any_bytes_are_read(bytes in proptest::array::uniform(any::<u8>())) {
            if let Some(notice) = Notice::read(&bytes) {
                prop_assert!(notice.sent.is_none_or(|sent| sent.refused <= sent.offered));
            }
        }
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let sent = Some(SentFrames { offered: 5, refused: 2 });
        let notice = Notice { stream: 3, to: [10, 0, 0, 1].into(), sent };
        let broken = |at: usize, value: u8| {
            let mut bytes = notice.bytes();
            bytes[at] = value;
            Notice::read(&bytes)
        };
        assert_eq!(broken(31, 5), Some(notice));
        // Another magic, neither beginning nor end, no family, more refused than offered.
        assert_eq!(
            [(0, 0), (4, 2), (5, 2), (39, 6)].map(|(at, value)| broken(at, value)),
            [None; 4]
        );
    }
}
