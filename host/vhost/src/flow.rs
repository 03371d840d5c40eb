//! Which queue a frame to the guest goes to: by its flow, so that a flow's frames stay in order.

use netloom_port::HEADER;

/// A number that all frames of a flow share: from addresses and ports where there are any, without options or
/// extension headers.
pub(crate) fn number(frame: &[u8]) -> u64 {
    let frame = frame.get(HEADER..).unwrap_or(&[]);
    let kind = frame.get(12..14).unwrap_or(&[]);
    let (addresses, ports) = match kind {
        [0x08, 0x00] => (26..34, 34..38),
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
}
