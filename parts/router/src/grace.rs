//! The announcement that a router of OSPF restarts, as bytes: a link-state update with one Grace-LSA (RFC 3623 for version
//! 2, RFC 5187 for version 3).
//!
//! Pure. A daemon that is killed announces nothing; the process that restarts it says for it that neighbours are to go on as they
//! are for a while. The Grace-LSA must reach them before the new daemon's first hello (RFC 3623, section 5).

use std::net::{Ipv4Addr, Ipv6Addr};

/// The number of OSPF among the protocols over IP.
pub const PROTOCOL: u8 = 89;
/// All routers of OSPF on a link.
pub const ALL_V4: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 5);
/// See [`ALL_V4`].
pub const ALL_V6: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 5);

const LINK_STATE_UPDATE: u8 = 4;
/// Options of an LSA of version 2: external routes, opaque LSAs.
const OPTIONS: u8 = 0x42;
/// Types of LSAs: opaque with the scope of a link, and Grace-LSA of version 3.
const OPAQUE_LINK: u8 = 9;
const GRACE_V6: u16 = 0x000b;
/// The opaque type of a Grace-LSA, in the highest byte of its number.
const GRACE_V4: u32 = 3 << 24;
/// Bytes of an LSA's header, and the place of the checksum in it.
const HEADER: usize = 20;
const CHECKSUM: usize = 16;

/// A restart that is announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restart {
    /// The router's number.
    pub router: Ipv4Addr,
    /// The area of the link.
    pub area: u32,
    /// For how many seconds neighbours are to go on as they are.
    pub grace: u32,
    /// The number of this announcement; later ones have greater numbers.
    pub sequence: u32,
}

/// The sequence number of an LSA that is made at a time, in milliseconds since 1970: it grows each quarter of a second, since
/// the router takes an announcement back by the number that follows.
pub fn sequence(now: u64) -> u32 {
    /// The first number is -2^31 + 1.
    const FIRST: u32 = 0x8000_0001;
    /// The year 2024. There are enough numbers until 2058.
    const START: u64 = 1_704_067_200_000;
    FIRST.wrapping_add(u32::try_from(now.saturating_sub(START) / 250).unwrap_or(u32::MAX - 1))
}

impl Restart {
    /// The packet of version 2 that says it on a link, from the router's address there.
    pub fn packet_v4(&self, from: Ipv4Addr) -> Vec<u8> {
        let mut lsa = self.header(u16::from(OPTIONS) << 8 | u16::from(OPAQUE_LINK), GRACE_V4);
        self.reasons(&mut lsa);
        // On links with more than two routers the address says who restarts.
        lsa.extend([0, 3, 0, 4]);
        lsa.extend(from.octets());
        finish(&mut lsa);
        let mut packet = self.update(2, &[0; 10], &lsa);
        // Without the authentication, which is none.
        let sum = ones_complement(&packet, 0);
        // Both versions have it behind type, length, router
        // and area (RFC 2328 A.3.1, RFC 5340 A.3.1).
        put(&mut packet, 12, sum);
        packet
    }

    /// The packet of version 3 that says it on a link, from the router's link-local address there. The number of the LSA is
    /// that of the interface.
    pub fn packet_v6(&self, from: Ipv6Addr, interface: u32) -> Vec<u8> {
        let mut lsa = self.header(GRACE_V6, interface);
        self.reasons(&mut lsa);
        finish(&mut lsa);
        let mut packet = self.update(3, &[0; 2], &lsa);
        let length = u32::try_from(packet.len()).unwrap_or(0).to_be_bytes();
        let pseudo = [&from.octets()[..], &ALL_V6.octets(), &length, &[0, 0, 0, PROTOCOL]].concat();
        let before = pseudo.chunks(2).map(word).sum();
        let sum = ones_complement(&packet, before);
        put(&mut packet, 12, sum);
        packet
    }

    fn header(&self, kind: u16, number: u32) -> Vec<u8> {
        // An age of 0; length and checksum, at the end, are written by `finish` (RFC 2328, A.4.1).
        let mut lsa = vec![0, 0];
        lsa.extend(kind.to_be_bytes());
        lsa.extend(number.to_be_bytes());
        lsa.extend(self.router.octets());
        lsa.extend(self.sequence.to_be_bytes());
        lsa.extend([0; 4]);
        lsa
    }

    /// How long, and why: unknown, as of every restart that nobody planned.
    fn reasons(&self, lsa: &mut Vec<u8>) {
        lsa.extend([0, 1, 0, 4]);
        lsa.extend(self.grace.to_be_bytes());
        lsa.extend([0, 2, 0, 1, 0, 0, 0, 0]);
    }

    /// A link-state update of one LSA; `rest` is what follows the checksum in the header.
    fn update(&self, version: u8, rest: &[u8], lsa: &[u8]) -> Vec<u8> {
        let mut packet = vec![version, LINK_STATE_UPDATE, 0, 0];
        packet.extend(self.router.octets());
        packet.extend(self.area.to_be_bytes());
        packet.extend([0; 2]);
        packet.extend(rest);
        packet.extend(1_u32.to_be_bytes());
        packet.extend(lsa);
        let length = u16::try_from(packet.len()).unwrap_or(0);
        put(&mut packet, 2, length);
        packet
    }
}

fn put(bytes: &mut [u8], at: usize, value: u16) {
    if let Some(place) = bytes.get_mut(at..at + 2) {
        place.copy_from_slice(&value.to_be_bytes());
    }
}

/// Writes length and checksum of an LSA.
fn finish(lsa: &mut [u8]) {
    let length = u16::try_from(lsa.len()).unwrap_or(0);
    put(lsa, HEADER - 2, length);
    // Without its age.
    let sum = fletcher(lsa.get(2..).unwrap_or(&[]), CHECKSUM - 2);
    put(lsa, CHECKSUM, sum);
}

/// The checksum of ISO 8473 over bytes with a zero one at `place` (RFC 1008).
fn fletcher(bytes: &[u8], place: usize) -> u16 {
    let (mut low, mut high) = (0_i64, 0_i64);
    for byte in bytes {
        low = (low + i64::from(*byte)) % 255;
        high = (high + low) % 255;
    }
    let behind = i64::try_from(bytes.len() - place).unwrap_or(0) - 1;
    let x = (behind * low - high).rem_euclid(255);
    let y = (high - (behind + 1) * low).rem_euclid(255);
    // 0 would say that there is no checksum.
    let byte = |value: i64| u16::try_from(if value == 0 { 255 } else { value }).unwrap_or(255);
    byte(x) << 8 | byte(y)
}

fn word(pair: &[u8]) -> u32 {
    u32::from(pair.first().copied().unwrap_or(0)) << 8
        | u32::from(pair.get(1).copied().unwrap_or(0))
}

/// The internet checksum (RFC 1071) of bytes, and of words before them.
fn ones_complement(bytes: &[u8], before: u32) -> u16 {
    let mut sum = before + bytes.chunks(2).map(word).sum::<u32>();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !u16::try_from(sum).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESTART: Restart =
        Restart { router: Ipv4Addr::new(10, 1, 2, 3), area: 7, grace: 30, sequence: 0x8000_0001 };

    /// Both sums of a valid checksum of ISO 8473 are zero.
    fn is_valid(lsa: &[u8]) -> bool {
        let (mut low, mut high) = (0_u32, 0_u32);
        for byte in &lsa[2..] {
            low = (low + u32::from(*byte)) % 255;
            high = (high + low) % 255;
        }
        (low, high) == (0, 0)
    }

    #[test]
    fn a_packet_of_version_2_is_as_rfc_3623_says() {
        let packet = RESTART.packet_v4(Ipv4Addr::new(10, 0, 0, 1));
        assert_eq!(packet[..12], [2, 4, 0, 72, 10, 1, 2, 3, 0, 0, 0, 7]);
        assert_eq!(ones_complement(&packet, 0), 0);
        assert_eq!(packet[24..28], [0, 0, 0, 1]);
        let lsa = &packet[28..];
        assert_eq!(lsa[..16], [0, 0, 0x42, 9, 3, 0, 0, 0, 10, 1, 2, 3, 0x80, 0, 0, 1]);
        assert_eq!(lsa[18..20], [0, 44]);
        assert_eq!(lsa[20..28], [0, 1, 0, 4, 0, 0, 0, 30]);
        assert_eq!(lsa[28..36], [0, 2, 0, 1, 0, 0, 0, 0]);
        assert_eq!(lsa[36..], [0, 3, 0, 4, 10, 0, 0, 1]);
        assert!(is_valid(lsa));
    }

    #[test]
    fn a_packet_of_version_3_is_as_rfc_5187_says() {
        let from: Ipv6Addr = "fe80::1".parse().unwrap();
        let packet = RESTART.packet_v6(from, 2);
        assert_eq!(packet[..12], [3, 4, 0, 56, 10, 1, 2, 3, 0, 0, 0, 7]);
        let pseudo = [&from.octets()[..], &ALL_V6.octets(), &[0, 0, 0, 56, 0, 0, 0, 89]].concat();
        assert_eq!(ones_complement(&[pseudo, packet.clone()].concat(), 0), 0);
        let lsa = &packet[20..];
        assert_eq!(lsa[..12], [0, 0, 0, 0x0b, 0, 0, 0, 2, 10, 1, 2, 3]);
        assert!(is_valid(lsa));
    }

    #[test]
    fn checksums_are_valid_whatever_is_announced() {
        for number in 0..2000_u32 {
            let restart = Restart { grace: number, sequence: number << 7, ..RESTART };
            let packet = restart.packet_v4(Ipv4Addr::from(number << 3));
            assert!(is_valid(&packet[28..]), "{restart:?}");
        }
    }

    #[test]
    fn later_announcements_have_greater_numbers() {
        let signed = |now| i32::from_be_bytes(sequence(now).to_be_bytes());
        assert!(signed(0) > i32::MIN && signed(u64::MAX) > signed(0));
        assert!(signed(1_764_000_000_250) > signed(1_764_000_000_000));
    }
}
