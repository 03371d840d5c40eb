//! The Internet checksum (RFC 1071), with pseudo-headers, and finishing an unfinished one.
//!
//! A sum is kept unfolded in 64 bits and in network byte order. A checksum is the
//! complement of the folded sum; data with its checksum in place sums up to 0xffff.

use crate::error::{Error, Result, be16, put};
use crate::headers::Ip;
use crate::vnet::VnetHeader;

/// Adds bytes to a sum, as 16-bit words; an odd last byte is padded with zero. All parts except
/// the last must have even length.
pub fn add(sum: u64, bytes: &[u8]) -> u64 {
    // Adds 32-bit words into 64 bits: 2^32 of them fit, and folding treats both halves alike. In the
    // machine's byte order, which compilers turn into wide additions: a folded sum's bytes can be
    // swapped afterwards (RFC 1071, section 2 (B)).
    let (words, rest) = bytes.as_chunks::<4>();
    let native = words.iter().fold(0, |sum, word| sum + u64::from(u32::from_ne_bytes(*word)));
    let sum = sum + u64::from(u16::from_be(fold(native)));
    let (words, rest) = rest.as_chunks::<2>();
    let sum = words.iter().fold(sum, |sum, word| sum + u64::from(u16::from_be_bytes(*word)));
    rest.iter().fold(sum, |sum, byte| sum + (u64::from(*byte) << 8))
}

/// The sum in 16 bits, with the carries added in.
pub fn fold(sum: u64) -> u16 {
    let sum = (sum >> 32) + (sum & 0xffff_ffff);
    let mut sum = (sum >> 16) + (sum & 0xffff);
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    u16::try_from(sum).unwrap_or(0)
}

/// The checksum of bytes whose checksum field is zero.
pub fn checksum(bytes: &[u8]) -> u16 {
    !fold(add(0, bytes))
}

/// The checksum of TCP or UDP for a sum: never zero, which in UDP means none (RFC 768); elsewhere both forms of zero are equal.
pub fn of_transport(sum: u64) -> u16 {
    match !fold(sum) {
        0 => 0xffff,
        checksum => checksum,
    }
}

/// The sum over the pseudo-header of TCP or UDP (RFC 9293 section 3.1, RFC 768, RFC 8200 section
/// 8.1) for a transport packet of `length` bytes. A routing header is not followed.
pub fn pseudo_header(frame: &[u8], network: usize, ip: &Ip, length: usize) -> u64 {
    let (start, bytes) = if ip.v6 { (network + 8, 32) } else { (network + 12, 8) };
    let addresses = frame.get(start..start + bytes).unwrap_or(&[]);
    let length = u64::try_from(length).unwrap_or(0);
    add(0, addresses) + u64::from(ip.protocol) + (length >> 16) + (length & 0xffff)
}

/// Finishes the checksum if the header says it is unfinished: its field holds the sum over the
/// pseudo-header, to which everything from `csum_start` to the end of the frame is added. A frame with
/// a finished checksum is unchanged. The header is not changed: clear its `needs_csum` if both are
/// passed on. Only for single packets: a super-frame's checksum has a meaning only after cutting.
pub fn finish(header: &VnetHeader, frame: &mut [u8]) -> Result<()> {
    if !header.needs_csum {
        return Ok(());
    }
    let start = usize::from(header.csum_start);
    let place = start + usize::from(header.csum_offset);
    // The header comes from outside: its offsets may lie anywhere.
    if frame.len() < place + 2 {
        let (needs, has) = (place + 2, frame.len());
        return Err(Error::Short { object: "frame with an unfinished checksum", needs, has });
    }
    let sum = of_transport(add(0, frame.get(start..).unwrap_or(&[])));
    put(frame, place, sum.to_be_bytes());
    Ok(())
}

/// Whether the checksum of a TCP or UDP packet is right, or absent (UDP over IPv4).
pub fn verifies(frame: &[u8], network: usize, ip: &Ip) -> bool {
    let Some(segment) = frame.get(ip.transport..ip.end) else { return false };
    // 0 says that the sender computed none (RFC 768), which IPv6 does not allow.
    if ip.protocol == crate::headers::UDP && !ip.v6 && be16(segment, 6) == 0 {
        return true;
    }
    fold(add(pseudo_header(frame, network, ip, segment.len()), segment)) == 0xffff
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_example_of_rfc_1071() {
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(fold(add(0, &bytes)), 0xddf2);
        assert_eq!(fold(add(0, &bytes[..7])), 0xdcfb);
        assert_eq!(fold(u64::MAX), 0xffff);
        assert_eq!((checksum(&[0xff]), checksum(&[])), (!0xff00, 0xffff));
    }

    /// Computed by another program.
    #[test]
    fn whole_packets() {
        let mut frame = vec![0; 12];
        frame.extend([8, 0, 0x45, 0, 0, 43, 0, 1, 0x40, 0, 64, 6, 0xb7, 0x5d]);
        frame.extend([192, 168, 1, 10, 192, 168, 1, 20]);
        assert_eq!(checksum(&frame[14..34]), 0);
        frame.extend([0xc3, 0x50, 0x01, 0xbb, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88]);
        frame.extend([0x50, 0x18, 0x01, 0xf5, 0x8f, 0xa2, 0, 0]);
        frame.extend(b"abc");
        check(&mut frame, 34 + 16);

        let mut frame = vec![0; 12];
        frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 13, 17, 64]);
        frame.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        frame.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
        frame.extend([0x14, 0xe9, 0, 53, 0, 13, 0xac, 0xdf]);
        frame.extend(b"hello");
        check(&mut frame, 54 + 6);
    }

    /// The checksum at `at` is right, wrong after a change, and equal to what finishing gives.
    fn check(frame: &mut [u8], at: usize) {
        let view = crate::Headers::parse(frame).unwrap();
        let ip = view.ip.unwrap();
        assert!(verifies(frame, view.network, &ip));
        let right = be16(frame, at);
        let pseudo = pseudo_header(frame, view.network, &ip, ip.end - ip.transport);
        put(frame, at, fold(pseudo).to_be_bytes());
        assert!(!verifies(frame, view.network, &ip));
        let header = VnetHeader {
            needs_csum: true,
            csum_start: u16::try_from(ip.transport).unwrap(),
            csum_offset: u16::try_from(at - ip.transport).unwrap(),
            ..VnetHeader::default()
        };
        finish(&header, frame).unwrap();
        assert_eq!(be16(frame, at), right);
    }

    proptest! {
        #[test]
        fn as_the_plain_sum(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut plain = 0u32;
            for pair in bytes.chunks(2) {
                plain += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
                plain = (plain >> 16) + (plain & 0xffff);
            }
            prop_assert_eq!(u32::from(fold(add(0, &bytes))), plain);
        }

        #[test]
        fn finish_takes_any_frame(bytes in proptest::collection::vec(any::<u8>(), 0..100),
                                  csum_start: u16, csum_offset: u16) {
            for mask in [0xffff, 0x3f] {
                let header = VnetHeader { needs_csum: true, csum_start: csum_start & mask,
                                          csum_offset: csum_offset & mask, ..VnetHeader::default() };
                let mut frame = bytes.clone();
                let done = finish(&header, &mut frame);
                let end = usize::from(header.csum_start) + usize::from(header.csum_offset) + 2;
                prop_assert_eq!(done.is_ok(), end <= bytes.len());
            }
        }
    }
}
