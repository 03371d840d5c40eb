//! Cut packets reassembled, and their headers checked one by one.

use proptest::prelude::*;

use super::*;
use crate::checksum::{finish, verifies};
use crate::frames::{Made, made};

/// A super-frame with its header.
fn super_frame(made: &Made, size: u16) -> (VnetHeader, Vec<u8>) {
    let (header, frame) = made.build();
    let gso = match (made.tcp, made.v6) {
        (true, false) => Gso::TcpV4,
        (true, true) => Gso::TcpV6,
        (false, _) => Gso::UdpL4,
    };
    (VnetHeader { gso, gso_size: size, hdr_len: 99, ..header }, frame)
}

fn cut(header: &VnetHeader, frame: &[u8]) -> Vec<(VnetHeader, Vec<u8>)> {
    let mut out = vec![];
    let count = segment(header, frame, &mut |h, packet| out.push((*h, packet.to_vec()))).unwrap();
    assert_eq!(out.len(), count as usize);
    assert_eq!(packets(header, frame), count);
    out
}

/// One in 65,536 datagrams: a checksum of zero is written as ones, since zero says that there is none.
#[test]
fn a_datagram_whose_checksum_is_zero_has_one() {
    let mut made = Made { payload: vec![0, 0], ..Made::default() };
    let place = |frame: &[u8]| Headers::parse(frame).unwrap().ip.unwrap().transport + 6;
    let (_, frame) = made.build();
    made.payload = frame[place(&frame)..][..2].to_vec();
    let (_, frame) = made.build();
    assert_eq!(frame[place(&frame)..][..2], [0xff, 0xff]);
    for unfinished in [false, true] {
        let (header, frame) = super_frame(&Made { unfinished, ..made.clone() }, 500);
        let (header, mut packet) = cut(&header, &frame).remove(0);
        finish(&header, &mut packet).unwrap();
        assert_eq!(packet[place(&packet)..][..2], [0xff, 0xff], "unfinished: {unfinished}");
    }
}

proptest! {
    #[test]
    fn packets_put_together_are_the_original(made in made(0..9000), size in 1u16..3000) {
        let size = size.max(u16::try_from(made.payload.len() / 60).unwrap() + 1);
        let (header, frame) = super_frame(&made, size);
        let out = cut(&header, &frame);
        let mut payload: Vec<u8> = vec![];
        for (index, (header, packet)) in out.iter().enumerate() {
            prop_assert_eq!(header.needs_csum, made.unfinished);
            prop_assert!(!header.is_super());
            let mut packet = packet.clone();
            finish(header, &mut packet).unwrap();
            let view = Headers::parse(&packet).unwrap();
            let ip = view.ip.unwrap();
            prop_assert_eq!(ip.end, packet.len());
            prop_assert!(verifies(&packet, view.network, &ip));
            if !made.v6 {
                let id = made.id.wrapping_add(u16::try_from(index).unwrap());
                prop_assert_eq!(be16(&packet, view.network + 4), id);
                prop_assert_eq!(checksum(&packet[view.network..ip.transport]), 0);
            }
            let start = ip.payload.unwrap();
            let last = index + 1 == out.len();
            prop_assert!(last || packet.len() - start == usize::from(size));
            if made.tcp {
                let past = u32::try_from(payload.len()).unwrap();
                prop_assert_eq!(be32(&packet, ip.transport + 4), made.sequence.wrapping_add(past));
                let absent = if last { 0 } else { FIN | PSH } | if index == 0 { 0 } else { CWR };
                prop_assert_eq!(packet[ip.transport + 13], made.flags & !absent);
            } else {
                let length = usize::from(be16(&packet, ip.transport + 4));
                prop_assert_eq!(length, packet.len() - ip.transport);
            }
            payload.extend(&packet[start..]);
        }
        prop_assert_eq!(payload, made.payload);
    }

    #[test]
    fn finishing_before_and_after_is_the_same(made in made(0..4000), size in 500u16..1500) {
        let (header, frame) = super_frame(&Made { unfinished: true, ..made.clone() }, size);
        let late: Vec<_> = cut(&header, &frame).into_iter().map(|(header, mut packet)| {
            finish(&header, &mut packet).unwrap();
            packet
        }).collect();
        let (header, frame) = super_frame(&Made { unfinished: false, padding: 0, ..made }, size);
        let early: Vec<_> = cut(&header, &frame).into_iter().map(|(_, packet)| packet).collect();
        prop_assert_eq!(late, early);
    }

    #[test]
    fn any_bytes_are_cut_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200),
                                    kind in 0u8..6, numbers: [u8; 8], needs: bool) {
        let mut header = [0; 10];
        header[0] = u8::from(needs);
        header[1] = kind;
        header[2..].copy_from_slice(&numbers);
        if let Ok(header) = VnetHeader::parse(&header) {
            let mut count = 0;
            let done = segment(&header, &bytes, &mut |_, _| count += 1);
            prop_assert_eq!(done.unwrap_or(0), count);
        }
    }

    #[test]
    fn damaged_frames_are_cut_or_refused(made in made(0..300), size: u16, at: u16, value: u8,
                                         length in 0usize..400) {
        let (header, mut frame) = super_frame(&made, size % 2000);
        let at = usize::from(at) % frame.len().min(100);
        frame[at] = value;
        frame.truncate(length);
        let mut count = 0;
        let done = segment(&header, &frame, &mut |_, _| count += 1);
        prop_assert_eq!(done.unwrap_or(0), count);
        prop_assert_eq!(packets(&header, &frame), count.max(1));
    }
}

fn sample(tcp: bool) -> Made {
    Made {
        v6: false,
        tcp,
        tags: 0,
        ip_options: 0,
        tcp_options: 3,
        flags: 0x10,
        sequence: u32::MAX - 100,
        id: 7,
        payload: (0..200).collect(),
        padding: 0,
        unfinished: true,
    }
}

#[test]
fn one_packet_goes_through_unchanged() {
    let header =
        VnetHeader { hdr_len: 3, csum_start: 9, needs_csum: true, ..VnetHeader::default() };
    let mut seen = vec![];
    let out = &mut |h: &VnetHeader, frame: &[u8]| seen.push((*h, frame.to_vec()));
    assert_eq!(segment(&header, b"anything", out), Ok(1));
    assert_eq!(seen, [(header, b"anything".to_vec())]);
}

#[test]
fn what_contradicts_itself_is_refused() {
    let (good, frame) = super_frame(&sample(true), 100);
    let refuse = |header: VnetHeader, frame: &[u8], words: &str| {
        let error = segment(&header, frame, &mut |_, _| panic!("given out")).unwrap_err();
        assert_eq!(error.to_string(), words);
    };
    assert_eq!(cut(&good, &frame).len(), 2);
    let kind = "super-frame: cut: it is of another protocol than its kind";
    refuse(VnetHeader { gso: Gso::TcpV6, ..good }, &frame, kind);
    refuse(VnetHeader { gso: Gso::UdpL4, ..good }, &frame, kind);
    let ufo = "super-frame: cut: IP fragments are not made";
    refuse(VnetHeader { gso: Gso::Udp, ..good }, &frame, ufo);
    let size = "super-frame: cut: its packets would be empty or longer than IP allows";
    refuse(VnetHeader { gso_size: 0, ..good }, &frame, size);
    refuse(VnetHeader { gso_size: u16::MAX, ..good }, &frame, size);
    let place = "super-frame: cut: its unfinished checksum is not that of its transport";
    refuse(VnetHeader { csum_start: 14, ..good }, &frame, place);
    refuse(VnetHeader { csum_offset: 6, ..good }, &frame, place);
    refuse(good, &frame[..40], "IPv4 packet: read: needs 252 bytes, has 26");
    refuse(good, &frame[..10], "Ethernet header: read: needs 14 bytes, has 10");
    let mut other = frame.clone();
    other[20] |= 0x20;
    refuse(good, &other, "super-frame: cut: it is a fragment");
    other[13] = 6;
    refuse(good, &other, "super-frame: cut: it is not an IP packet");
    let mut other = frame;
    other[14 + 20 + 12] = 0x40;
    refuse(good, &other, "super-frame: cut: its transport header is not whole");
}

#[test]
fn udp_without_a_checksum_stays_without() {
    let (_, mut frame) = super_frame(&Made { unfinished: false, ..sample(false) }, 0);
    frame[14 + 20 + 6..][..2].fill(0);
    let header = VnetHeader { gso: Gso::UdpL4, gso_size: 150, ..VnetHeader::default() };
    let out = cut(&header, &frame);
    assert_eq!(out.len(), 2);
    assert!(out.iter().all(|(_, packet)| packet[40..42] == [0, 0]));
}

#[test]
fn the_longest_frame() {
    let made = Made { payload: vec![5; 65_535 - 52], tcp_options: 3, ..sample(true) };
    let (header, frame) = super_frame(&made, 1448);
    assert_eq!(cut(&header, &frame).len(), 46);
}
