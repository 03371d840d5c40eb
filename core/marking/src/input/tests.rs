//! Inputs of super-frames compared with those of their segments.

use netloom_packet::{Gso, VnetHeader, checksum, segment};
use proptest::prelude::*;

use super::*;

/// An IP packet, from its header on, without checksums.
#[derive(Clone, Debug)]
struct Made {
    v6: bool,
    tcp: bool,
    /// Eight bytes of extension headers each, or words of IPv4 options.
    options: u8,
    id: u16,
    sequence: u32,
    data: Vec<u8>,
}

fn made() -> impl Strategy<Value = Made> {
    let data = prop::collection::vec(any::<u8>(), 1..400);
    (any::<bool>(), any::<bool>(), 0u8..3, any::<u16>(), any::<u32>(), data).prop_map(
        |(v6, tcp, options, id, sequence, data)| Made { v6, tcp, options, id, sequence, data },
    )
}

impl Made {
    fn protocol(&self) -> u8 {
        if self.tcp { 6 } else { 17 }
    }

    fn transport(&self) -> Vec<u8> {
        let mut bytes = vec![0x12, 0x34, 0, 80];
        if self.tcp {
            bytes.extend(self.sequence.to_be_bytes());
            bytes.extend([9, 8, 7, 6, 0x80, 0x18, 1, 2, 0, 0, 0, 0]);
            bytes.extend([1, 1, 8, 10, 5, 5, 5, 5, 6, 6, 6, 6]);
        } else {
            bytes.extend(u16::try_from(8 + self.data.len()).unwrap().to_be_bytes());
            bytes.extend([0, 0]);
        }
        bytes.extend(&self.data);
        bytes
    }

    /// An Ethernet frame.
    fn frame(&self) -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
        let transport = self.transport();
        let length = u16::try_from(transport.len()).unwrap();
        if self.v6 {
            frame.extend([0x86, 0xdd, 0x60, 0x35, 1, 2]);
            frame.extend((u16::from(self.options) * 8 + length).to_be_bytes());
            frame.extend([if self.options > 0 { 60 } else { self.protocol() }, 64]);
            frame.extend((0..32).map(|n| n * 7));
            for n in 1..=self.options {
                let next = if n == self.options { self.protocol() } else { 60 };
                frame.extend([next, 0, 1, 4, 0, 0, 0, 0]);
            }
        } else {
            frame.extend([8, 0, 0x45 + self.options, 3]);
            frame.extend((20 + u16::from(self.options) * 4 + length).to_be_bytes());
            frame.extend(self.id.to_be_bytes());
            frame.extend([0x40, 0, 64, self.protocol(), 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
            frame.extend(vec![1; usize::from(self.options) * 4]);
        }
        frame.extend(transport);
        frame
    }

    fn header(&self, size: u16) -> VnetHeader {
        let gso = match (self.tcp, self.v6) {
            (true, false) => Gso::TcpV4,
            (true, true) => Gso::TcpV6,
            (false, _) => Gso::UdpL4,
        };
        let options = u16::from(self.options) * if self.v6 { 8 } else { 4 };
        VnetHeader {
            needs_csum: true,
            gso,
            gso_size: size,
            csum_start: 14 + options + if self.v6 { 40 } else { 20 },
            csum_offset: if self.tcp { 16 } else { 6 },
            ..VnetHeader::default()
        }
    }
}

/// The packets of a super-frame, finished.
fn cut(made: &Made, size: u16) -> Vec<Vec<u8>> {
    let mut packets = Vec::new();
    segment(&made.header(size), &made.frame(), &mut |header, frame| {
        let mut frame = frame.to_vec();
        checksum::finish(header, &mut frame).unwrap();
        packets.push(frame[14..].to_vec());
    })
    .unwrap();
    packets
}

fn hasher(profile: Profile, offset: u16, size: u8) -> Hasher {
    let payload = PayloadPart { offset, size };
    Hasher { function: HashFunction::Bob, profile, seed: 7, payload }
}

proptest! {
    /// The main property: whatever form a packet is seen in, it has one input or none.
    #[test]
    fn a_segment_has_the_input_of_its_packet(
        made in made(), size in 7u16..200, offset in 0u16..30, part in 0u8..33,
    ) {
        let frame = made.frame();
        let whole = Packet::parse(&frame[14..]).unwrap();
        for (index, wire) in (0..).zip(cut(&made, size)) {
            let wire = Packet::parse(&wire).unwrap();
            let segment = Some(Segment { index, size, fixed_id: false });
            let offload = Offload { partial_checksum: true, segment };
            for profile in [Profile::Rfc5475, Profile::Source, Profile::Portable] {
                let hasher = hasher(profile, offset, part);
                let on_wire = hasher.input(&wire, Offload::default());
                let rebuilt = hasher.input(&whole, offload);
                if profile == Profile::Portable || rebuilt.is_ok() {
                    prop_assert_eq!(rebuilt, on_wire, "{:?} {}", profile, index);
                }
                let ipsx = Hasher { function: HashFunction::Ipsx, ..hasher };
                if let Ok(hash) = ipsx.hash(&whole, offload) {
                    prop_assert_eq!(ipsx.hash(&wire, Offload::default()), Ok(hash));
                }
            }
        }
    }

    /// An unfinished checksum changes nothing or is reported.
    #[test]
    fn an_unfinished_checksum_is_never_hashed(
        made in made(), garbage: u16, offset in 0u16..30, part in 0u8..33,
    ) {
        let frame = made.frame();
        let mut other = frame.clone();
        let header = made.header(0);
        let at = usize::from(header.csum_start + header.csum_offset);
        other[at..at + 2].copy_from_slice(&garbage.to_be_bytes());
        let packets = [&frame[14..], &other[14..]].map(|bytes| Packet::parse(bytes).unwrap());
        let partial = Offload { partial_checksum: true, segment: None };
        for profile in [Profile::Rfc5475, Profile::Source, Profile::Portable] {
            let hasher = hasher(profile, offset, part);
            let inputs = packets.map(|packet| hasher.input(&packet, partial));
            prop_assert_eq!(inputs[0], inputs[1]);
            if inputs[0].is_ok() {
                prop_assert_eq!(inputs[0], hasher.input(&packets[0], Offload::default()));
            }
        }
    }

    /// Fields that hops and marks change are in no input.
    #[test]
    fn marks_and_hops_change_no_hash(made in made(), class: u8, ttl: u8, sum: u16) {
        let frame = made.frame();
        let mut other = frame.clone();
        if made.v6 {
            other[14] = 0x60 | class >> 4;
            other[15] = class << 4 | (other[15] & 15);
            other[21] = ttl;
        } else {
            (other[15], other[22]) = (class, ttl);
            other[24..26].copy_from_slice(&sum.to_be_bytes());
        }
        let packets = [&frame[14..], &other[14..]].map(|bytes| Packet::parse(bytes).unwrap());
        for profile in [Profile::Rfc5475, Profile::Source, Profile::Portable] {
            let hasher = hasher(profile, 0, 8);
            let [a, b] = packets.map(|packet| hasher.input(&packet, Offload::default()));
            prop_assert_eq!(a, b);
        }
    }

    #[test]
    fn any_bytes_are_hashed_or_not(
        bytes: Vec<u8>, v6: bool, offset: u16, part: u8, index: u16, size: u16,
    ) {
        let mut bytes = bytes;
        if let Some(first) = bytes.first_mut() {
            *first = if v6 { 0x60 } else { 0x45 };
        }
        let Some(packet) = Packet::parse(&bytes) else { return Ok(()) };
        for segment in [None, Some(Segment { index, size, fixed_id: true })] {
            let offload = Offload { partial_checksum: false, segment };
            for profile in [Profile::Rfc5475, Profile::Source, Profile::Portable] {
                let hasher = hasher(profile, offset, part);
                if let Ok(input) = hasher.input(&packet, offload) {
                    prop_assert!(input.bytes().len() <= MOST);
                    prop_assert!(hasher.hash(&packet, offload).is_ok());
                }
            }
        }
    }
}

fn udp(data: &[u8]) -> Made {
    Made { v6: false, tcp: false, options: 0, id: 1, sequence: 0, data: data.to_vec() }
}

#[test]
fn the_portable_list_by_hand() {
    let frame = udp(b"abc").frame();
    let packet = Packet::parse(&frame[14..]).unwrap();
    let input = hasher(Profile::Portable, 0, 4).input(&packet, Offload::default()).unwrap();
    let expected = [
        0, 1, 0x40, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0x12, 0x34, 0, 80, 0, 17, 0, 11, b'a', b'b', b'c',
        0,
    ];
    assert_eq!(input.bytes(), expected);
}

#[test]
fn what_has_no_hash_says_why() {
    let frame = udp(b"abc").frame();
    let packet = Packet::parse(&frame[14..]).unwrap();
    let partial = Offload { partial_checksum: true, segment: None };
    assert_eq!(hasher(Profile::Source, 0, 0).hash(&packet, partial), Err(Unhashable::Unfinished));
    let long = hasher(Profile::Rfc5475, 8, 4);
    assert_eq!(long.hash(&packet, Offload::default()), Err(Unhashable::Short));
    let six = Made { v6: true, ..udp(b"abc") }.frame();
    let packet = Packet::parse(&six[14..]).unwrap();
    let source = hasher(Profile::Source, 0, 0);
    assert_eq!(source.hash(&packet, Offload::default()), Err(Unhashable::NotIpv4));
    let ipsx = Hasher { function: HashFunction::Ipsx, ..hasher(Profile::Portable, 0, 8) };
    assert_eq!(ipsx.hash(&packet, Offload::default()), Err(Unhashable::NotIpv4));
}

#[test]
fn fragments_are_told_apart() {
    let fragment = |bits: u16| {
        let mut frame = udp(&[7; 64]).frame();
        frame[20..22].copy_from_slice(&bits.to_be_bytes());
        frame
    };
    let input = |bits: u16| {
        let frame = fragment(bits);
        let packet = Packet::parse(&frame[14..]).unwrap();
        hasher(Profile::Portable, 0, 8).input(&packet, Offload::default()).unwrap()
    };
    // Later fragments have no ports: the bytes there are data.
    assert_eq!(&input(0x2001).bytes()[12..16], &[0; 4]);
    assert_eq!(&input(0x2000).bytes()[12..16], &[0x12, 0x34, 0, 80]);
    assert_ne!(input(0x2001), input(0x2002));
}

#[test]
fn one_identification_for_all_segments_is_kept() {
    let frame = Made { tcp: true, ..udp(&[7; 64]) }.frame();
    let packet = Packet::parse(&frame[14..]).unwrap();
    let id = |fixed_id| {
        let segment = Some(Segment { index: 3, size: 10, fixed_id });
        let offload = Offload { partial_checksum: true, segment };
        hasher(Profile::Portable, 0, 8).input(&packet, offload).unwrap().bytes()[1]
    };
    assert_eq!((id(true), id(false)), (1, 4));
}

#[test]
fn crc32_takes_its_seed_as_a_private_string() {
    let frame = udp(b"abc").frame();
    let packet = Packet::parse(&frame[14..]).unwrap();
    let hasher = Hasher { function: HashFunction::Crc32, ..hasher(Profile::Portable, 0, 8) };
    let input = hasher.input(&packet, Offload::default()).unwrap();
    let hash = |seed| Hasher { seed, ..hasher }.hash(&packet, Offload::default()).unwrap();
    assert_eq!(hash(0), crc32(input.bytes(), &[]));
    assert_eq!(hash(7), crc32(input.bytes(), &[0, 0, 0, 7]));
}

/// The portable list contains no byte of a checksum that a card may finish, whatever the protocol.
#[test]
fn no_checksum_is_in_the_portable_list() {
    for (protocol, at) in
        [(17, 6..8), (136, 6..8), (132, 8..12), (1, 2..4), (58, 2..4), (6, 16..18)]
    {
        let mut frame = udp(&[7; 64]).frame();
        frame[23] = protocol;
        let input = |frame: &[u8]| {
            let packet = Packet::parse(&frame[14..]).unwrap();
            hasher(Profile::Portable, 0, 32).input(&packet, Offload::default()).unwrap()
        };
        let before = input(&frame);
        frame[34..][at].fill(0xee);
        assert_eq!(input(&frame), before, "{protocol}");
        frame[34 + 4] ^= 1;
        frame[34 + 12] ^= 1;
        frame[34 + 8] ^= if protocol == 132 { 0 } else { 1 };
        assert_ne!(input(&frame), before, "{protocol}");
    }
}

/// Found by the test of segments: data that ends before the part begins is all zeros.
#[test]
fn a_part_behind_the_end_is_filled_up() {
    let frame = udp(b"abc").frame();
    let packet = Packet::parse(&frame[14..]).unwrap();
    let input = hasher(Profile::Portable, 20, 4).input(&packet, Offload::default()).unwrap();
    assert_eq!(&input.bytes()[20..], &[0; 4]);
}
