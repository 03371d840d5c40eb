//! What changes an identity and what does not.

use proptest::prelude::*;

use super::*;
use crate::checksum::finish;
use crate::frames::{Made, made};
use crate::segment::segment;
use crate::vnet::{Gso, VnetHeader};

#[test]
fn test_vectors() {
    assert_eq!(hash(b""), 0);
    let expected = [0xb400_fd3b_330f_a9e3, 0xded5_f3ed_985a_10b6, 0x1e51_cd88_2bd2_04b6];
    let texts: [&[u8]; 3] = [b"a", b"12345678", b"netloom names packets"];
    assert_eq!(texts.map(hash), expected);
    let made = Made { payload: b"hello".to_vec(), ..plain() };
    // UDP from 10.0.0.1:4660 to 10.0.0.2:80, identification 7.
    let bytes = [4, 17, 10, 0, 0, 1, 10, 0, 0, 2, 0, 7, 0x12, 0x34, 0, 80];
    assert_eq!(identity(&made.build().1), hash(&[&bytes[..], b"hello"].concat()));
    assert_eq!(identity(&made.build().1), 0x04a2_4600_907e_0199);
    // 16 zeros and 17 zeros differ, though both end in zeros.
    assert_ne!(hash(&[0; 16]), hash(&[0; 17]));
}

/// A UDP packet over IPv4.
fn plain() -> Made {
    Made {
        v6: false,
        tcp: false,
        tags: 0,
        ip_options: 0,
        tcp_options: 0,
        flags: 0,
        sequence: 0,
        id: 7,
        payload: vec![0; 64],
        padding: 0,
        unfinished: false,
    }
}

/// What a hop changes: Ethernet header, TTL, DSCP and ECN, and with them the header's checksum.
fn forward(frame: &[u8], tags: usize, v6: bool, value: u8) -> Vec<u8> {
    let network = 14 + 4 * tags;
    let mut other = vec![value; 12];
    other.extend(if v6 { [0x86, 0xdd] } else { [8, 0] });
    other.extend(&frame[network..]);
    if v6 {
        other[14] = 0x60 | value >> 4;
        other[15] = (other[15] & 0x0f) | (value << 4);
        other[14 + 7] = value;
    } else {
        other[14 + 1] = value;
        other[14 + 8] = value;
        other[14 + 10] = value;
    }
    other
}

proptest! {
    #[test]
    fn hops_and_offload_change_nothing(made in made(0..200), value: u8) {
        let (header, frame) = Made { unfinished: true, ..made.clone() }.build();
        let name = identity(&frame);
        let mut finished = frame.clone();
        finish(&header, &mut finished).unwrap();
        prop_assert_eq!(identity(&finished), name);
        let (_, padded) = Made { unfinished: false, ..made.clone() }.build();
        prop_assert_eq!(identity(&padded), name);
        prop_assert_eq!(identity(&forward(&frame, made.tags, made.v6, value)), name);
    }

    #[test]
    fn everything_else_counts(made in made(70..200), bit in 0usize..64 * 8, port in 0usize..32) {
        let (_, frame) = made.build();
        let name = identity(&frame);
        let start = frame.len() - made.payload.len() - if made.unfinished { 0 } else { made.padding };
        let mut other = frame.clone();
        other[start + bit / 8] ^= 1 << (bit % 8);
        prop_assert_ne!(identity(&other), name);
        let mut other = frame.clone();
        other[start + 64] ^= 1;
        prop_assert_eq!(identity(&other), name, "behind the first 64 bytes");
        let transport = start - if made.tcp { 20 + 4 * made.tcp_options } else { 8 };
        let mut other = frame.clone();
        other[transport + port / 8] ^= 1 << (port % 8);
        prop_assert_ne!(identity(&other), name);
        let other = Made { id: made.id ^ 1, ..made.clone() }.build().1;
        prop_assert_ne!(identity(&other), name);
        let other = Made { sequence: made.sequence ^ 1, ..made.clone() }.build().1;
        prop_assert_eq!(identity(&other) != name, made.tcp);
    }

    #[test]
    fn any_bytes_have_one(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert_eq!(identity(&bytes), identity(&bytes.clone()));
    }

    #[test]
    fn broken_frames_have_one(made in made(0..100), at: u16, value: u8, length in 0usize..300) {
        let mut frame = made.build().1;
        let at = usize::from(at) % frame.len();
        frame[at] = value;
        frame.truncate(length);
        identity(&frame);
    }

    #[test]
    fn cut_packets_have_the_same_whether_finished_or_not(made in made(1000..3000)) {
        let gso = match (made.tcp, made.v6) {
            (true, false) => Gso::TcpV4,
            (true, true) => Gso::TcpV6,
            (false, _) => Gso::UdpL4,
        };
        let names = |made: &Made| {
            let (header, frame) = made.build();
            let header = VnetHeader { gso, gso_size: 700, ..header };
            let mut names = vec![];
            segment(&header, &frame, &mut |_, packet| names.push(identity(packet))).unwrap();
            names
        };
        let unfinished = names(&Made { unfinished: true, ..made.clone() });
        prop_assert_eq!(unfinished, names(&Made { unfinished: false, ..made }));
    }
}

#[test]
fn fragments_differ_and_other_frames_count_as_a_whole() {
    let (_, mut frame) = plain().build();
    let names = [[0u8, 0], [0x20, 0], [0x20, 1], [0, 1], [0, 2]].map(|bits| {
        frame[20..22].copy_from_slice(&bits);
        identity(&frame)
    });
    assert!((1..5).all(|n| !names[..n].contains(&names[n])), "{names:?}");
    let mut arp = [0u8; 60];
    arp[12..14].copy_from_slice(&[8, 6]);
    let name = identity(&arp);
    arp[59] = 1;
    assert_ne!(identity(&arp), name);
}
