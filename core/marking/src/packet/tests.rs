//! Packets compared with the frame views that other parts use.

use netloom_packet::Headers;
use proptest::prelude::*;

use super::*;

/// An IP frame with any content.
fn frame() -> impl Strategy<Value = Vec<u8>> {
    let rest = prop::collection::vec(any::<u8>(), 20..120);
    (any::<bool>(), rest, 0u8..12, prop::sample::select(vec![0u8, 6, 17, 1, 43, 44, 60, 51]))
        .prop_map(|(v6, rest, words, protocol)| {
            let mut frame = vec![0; 12];
            frame.extend(if v6 { [0x86, 0xdd] } else { [8, 0] });
            let start = frame.len();
            frame.extend(&rest);
            frame[start] = if v6 { 0x60 } else { 0x40 | words };
            let length = u8::try_from(rest.len()).unwrap();
            if v6 {
                frame[start + 4..start + 7].copy_from_slice(&[
                    0,
                    length.saturating_sub(40),
                    protocol,
                ]);
                if let Some(byte) = frame.get_mut(start + 41) {
                    *byte %= 4;
                }
            } else {
                frame[start + 2..start + 4].copy_from_slice(&[0, length]);
            }
            frame
        })
}

proptest! {
    #[test]
    fn it_is_what_views_of_frames_say(frame in frame()) {
        let Ok(Headers { network, ip: Some(ip), .. }) = Headers::parse(&frame) else {
            return Ok(());
        };
        let packet = Packet::parse(&frame[network..]).unwrap();
        prop_assert_eq!(packet.is_v6(), ip.v6);
        prop_assert_eq!(packet.protocol(), ip.protocol);
        prop_assert_eq!(packet.header_length(), ip.transport - network);
        prop_assert_eq!(packet.payload_length(), ip.end - ip.transport);
        prop_assert_eq!(packet.is_fragment(), ip.fragment.is_some());
        prop_assert_eq!(packet.is_later_fragment(), ip.fragment.is_some_and(|f| f.offset > 0));
    }

    #[test]
    fn any_bytes_give_a_packet_or_nothing(bytes: Vec<u8>, version in 4u8..7) {
        let mut bytes = bytes;
        if let Some(first) = bytes.first_mut() {
            *first = version << 4 | (*first & 15);
        }
        if let Some(packet) = Packet::parse(&bytes) {
            let (src, dst) = packet.addresses();
            prop_assert_eq!(src.len(), if packet.is_v6() { 16 } else { 4 });
            prop_assert_eq!(src.len(), dst.len());
            packet.ports();
            packet.payload(usize::MAX, 1);
        }
    }
}

#[test]
fn the_traffic_class_of_both_families() {
    let mut v4 = [0; 20];
    (v4[0], v4[1]) = (0x45, 0xab);
    assert_eq!(Packet::parse(&v4).unwrap().traffic_class(), 0xab);
    let mut v6 = [0; 40];
    (v6[0], v6[1], v6[6]) = (0x6a, 0xb0, 59);
    assert_eq!(Packet::parse(&v6).unwrap().traffic_class(), 0xab);
}

/// RFC 6946: a fragment header on a whole packet does not make it a fragment.
#[test]
fn a_packet_in_one_fragment_is_whole() {
    let mut bytes = [0; 56];
    (bytes[0], bytes[5], bytes[6]) = (0x60, 16, 44);
    (bytes[40], bytes[49], bytes[51]) = (17, 9, 53);
    let whole = Packet::parse(&bytes).unwrap();
    assert!(!whole.is_fragment());
    assert_eq!((whole.protocol(), whole.ports()), (17, Some((9, 53))));
    bytes[43] = 1;
    assert!(Packet::parse(&bytes).unwrap().is_fragment());
    bytes[42] = 8;
    let later = Packet::parse(&bytes).unwrap();
    assert!(later.is_later_fragment());
    assert_eq!((later.protocol(), later.ports()), (17, None));
}
