//! Views of valid and broken frames.

use proptest::prelude::*;

use super::*;
use crate::frames::made;

proptest! {
    #[test]
    fn views_are_what_was_built(made in made(0..100)) {
        let (_, frame) = made.build();
        let view = Headers::parse(&frame).unwrap();
        let ip = view.ip.unwrap();
        prop_assert_eq!(view.network, 14 + 4 * made.tags);
        prop_assert_eq!((ip.v6, ip.protocol), (made.v6, if made.tcp { TCP } else { UDP }));
        prop_assert_eq!(&frame[ip.payload.unwrap()..ip.end], &made.payload[..]);
        prop_assert!(ip.fragment.is_none() && !ip.lengthless);
    }

    #[test]
    fn offsets_stay_inside_any_frame(made in made(0..50), changes in prop::collection::vec((0usize..90, any::<u8>()), 0..4),
                                     length in 0usize..200) {
        let mut frame = made.build().1;
        for (at, value) in changes {
            let at = at % frame.len();
            frame[at] = value;
        }
        frame.truncate(length);
        if let Ok(view) = Headers::parse(&frame) {
            prop_assert!(view.network <= frame.len());
            if let Some(ip) = view.ip {
                prop_assert!(view.network < ip.transport && ip.transport <= ip.end);
                prop_assert!(ip.end <= frame.len());
                prop_assert!(ip.payload.is_none_or(|at| ip.transport < at && at <= ip.end));
            }
        }
    }
}

/// An IPv6 packet without payload whose first next header is `next`, then these bytes.
fn ipv6(next: u8, rest: &[u8]) -> Vec<u8> {
    let length = u8::try_from(rest.len()).unwrap();
    let mut frame = vec![0; 12];
    frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, length, next, 64]);
    frame.extend([0; 32]);
    frame.extend(rest);
    frame
}

#[test]
fn extension_headers() {
    // Hop-by-hop, authentication of 12 bytes, then an unknown protocol.
    let mut rest = vec![51, 0, 0, 0, 0, 0, 0, 0];
    rest.extend([253, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7]);
    let ip = Headers::parse(&ipv6(0, &rest)).unwrap().ip.unwrap();
    assert_eq!((ip.protocol, ip.transport), (253, 54 + 20));
    // A later fragment: no header follows.
    let later = [60, 0, 0, 9, 0, 0, 0, 5, 1, 2, 3, 4, 5, 6, 7, 8];
    let ip = Headers::parse(&ipv6(44, &later)).unwrap().ip.unwrap();
    assert_eq!((ip.protocol, ip.transport), (60, 62));
    assert_eq!(ip.fragment, Some(Fragment { offset: 8, more: true, id: 5 }));
    // A fragment that is the whole packet.
    let whole = [UDP, 0, 0, 0, 0, 0, 0, 5, 0, 1, 0, 2, 0, 8, 0, 0];
    let ip = Headers::parse(&ipv6(44, &whole)).unwrap().ip.unwrap();
    assert_eq!((ip.fragment, ip.payload), (None, Some(70)));
    // An extension header that exceeds the packet.
    assert!(Headers::parse(&ipv6(0, &[6, 9, 0, 0, 0, 0, 0, 0])).is_err());
    assert!(Headers::parse(&ipv6(0, &[6, 0])).is_err());
}

#[test]
fn fragments_and_odd_lengths_of_ipv4() {
    let mut frame = vec![0; 12];
    frame.extend([8, 0, 0x45, 0, 0, 28, 0, 9, 0x20, 2, 64, UDP, 0, 0]);
    frame.extend([0; 16]);
    let ip = Headers::parse(&frame).unwrap().ip.unwrap();
    assert_eq!(ip.fragment, Some(Fragment { offset: 16, more: true, id: 9 }));
    assert_eq!(ip.payload, None);
    frame[16..18].fill(0);
    let ip = Headers::parse(&frame).unwrap().ip.unwrap();
    assert_eq!((ip.lengthless, ip.end), (true, frame.len()));
    frame[17] = 19;
    let words = Headers::parse(&frame).unwrap_err().to_string();
    assert_eq!(words, "IPv4 header: read: total length is 19");
    frame[14] = 0x44;
    let words = Headers::parse(&frame).unwrap_err().to_string();
    assert_eq!(words, "IPv4 header: read: header length is 4");
    frame[14] = 0x65;
    let words = Headers::parse(&frame).unwrap_err().to_string();
    assert_eq!(words, "IPv4 header: read: version is 6");
}

#[test]
fn tags() {
    let tagged = [0; 12].into_iter().chain([0x88, 0xa8, 0, 1, 0x81, 0, 0, 2, 8, 6]);
    let frame: Vec<u8> = tagged.collect();
    let view = Headers::parse(&frame).unwrap();
    assert_eq!((view.ethertype, view.network, view.ip), (0x0806, 22, None));
    assert!(Headers::parse(&frame[..21]).is_err());
    assert!(network(&frame[..13]).is_err());
}
