//! Which queue a frame to the guest goes to: by its flow, so that a flow's frames stay in order.

use netloom_port::HEADER;

/// A number that all frames of a flow share: from addresses and ports where there are any, without options or
/// extension headers. Only the first fragment of a packet has ports: fragments go by their addresses.
pub(crate) fn number(frame: &[u8]) -> u64 {
    let frame = frame.get(HEADER..).unwrap_or(&[]);
    let kind = frame.get(12..14).unwrap_or(&[]);
    let (addresses, ports) = match kind {
        [0x08, 0x00] if is_fragment(frame) => (26..34, 0..0),
        [0x08, 0x00] => (26..34, 34..38),
        // What is behind a fragment header is one, and so is the first (RFC 8200 section 4.5).
        [0x86, 0xdd] if frame.get(20) == Some(&44) => (22..54, 0..0),
        [0x86, 0xdd] => (22..54, 54..58),
        _ => (0..12, 0..0),
    };
    let bytes = |range: std::ops::Range<usize>| frame.get(range).unwrap_or(&[]).iter();
    // FNV-1a; its low bits are folded with the high ones, since they choose the queue.
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in bytes(addresses).chain(bytes(ports)) {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    }
    hash ^ (hash >> 32)
}

/// Whether an IPv4 packet has more fragments, or is not the first (RFC 791 section 3.1).
fn is_fragment(frame: &[u8]) -> bool {
    const MORE_OR_OFFSET: u16 = 0x3fff;
    let field = frame.get(20..).and_then(<[u8]>::first_chunk);
    field.is_some_and(|field| u16::from_be_bytes(*field) & MORE_OR_OFFSET != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_keep_their_number_and_differ() {
        let frame = |port: u8, text: u8| {
            let mut frame = vec![0; HEADER + 60];
            frame[HEADER + 12..HEADER + 15].copy_from_slice(&[8, 0, 0x45]);
            frame[HEADER + 35] = port;
            frame[HEADER + 50] = text;
            frame
        };
        assert_eq!(number(&frame(1, 1)), number(&frame(1, 2)));
        assert_ne!(number(&frame(1, 1)), number(&frame(2, 1)));
        assert_eq!(number(&[]), number(&[0; 5]));
    }

    #[test]
    fn fragments_of_a_packet_share_their_number() {
        let frame = |kind: [u8; 2], at: &[(usize, u8)]| {
            let mut frame = vec![0; HEADER + 80];
            frame[HEADER + 12..HEADER + 14].copy_from_slice(&kind);
            at.iter().for_each(|(at, byte)| frame[HEADER + at] = *byte);
            number(&frame)
        };
        // More fragments and ports; the last one and its payload.
        let v4 = |at| frame([0x08, 0x00], at);
        assert_eq!(v4(&[(20, 0x20), (35, 7)]), v4(&[(21, 9), (35, 8)]));
        assert_ne!(v4(&[(20, 0x20), (26, 1)]), v4(&[(20, 0x20), (26, 2)]));
        // That it must not be fragmented makes no fragment of it.
        assert_ne!(v4(&[(20, 0x40), (35, 7)]), v4(&[(20, 0x40), (35, 8)]));
        let v6 = |at| frame([0x86, 0xdd], at);
        assert_eq!(v6(&[(20, 44), (57, 1)]), v6(&[(20, 44), (57, 9)]));
        assert_ne!(v6(&[(20, 6), (57, 1)]), v6(&[(20, 6), (57, 9)]));
    }
}
