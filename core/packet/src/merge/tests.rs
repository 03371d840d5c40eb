//! Merged frames are cut again, and compared byte for byte.

use proptest::prelude::*;

use super::*;
use crate::checksum::finish;
use crate::frames::{Made, made};
use crate::segment::segment;

fn whole(header: &VnetHeader, frame: &[u8]) -> Vec<u8> {
    [&header.encode()[..], frame].concat()
}

/// The packets that a super-frame stands for, finished, with headers.
fn packets(made: &Made, size: u16) -> Vec<Vec<u8>> {
    let (header, frame) = made.build();
    let gso = if made.v6 { Gso::TcpV6 } else { Gso::TcpV4 };
    cut(&whole(&VnetHeader { gso, gso_size: size, ..header }, &frame))
}

/// Cuts a frame and finishes its packets.
fn cut(whole: &[u8]) -> Vec<Vec<u8>> {
    let (header, frame) = whole.split_at(vnet::LEN);
    let header = VnetHeader::parse(header).unwrap();
    let mut out = vec![];
    segment(&header, frame, &mut |header, packet| {
        let mut packet = packet.to_vec();
        finish(header, &mut packet).unwrap();
        out.push(self::whole(&VnetHeader::default(), &packet));
    })
    .unwrap();
    out
}

/// What comes out of a merger for these frames, in order.
fn merge(frames: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let (mut merger, mut out) = (Merger::new(), vec![]);
    for frame in frames {
        let mut offered = merger.offer(frame);
        if offered == Offered::Apart {
            out.push(merger.held().unwrap().to_vec());
            merger.clear();
            offered = merger.offer(frame);
            assert_ne!(offered, Offered::Apart);
        }
        if offered == Offered::Alone {
            out.push(frame.clone());
        }
    }
    out.extend(merger.held().map(<[u8]>::to_vec));
    out
}

fn plain() -> Made {
    Made {
        v6: false,
        tcp: true,
        tags: 0,
        ip_options: 0,
        tcp_options: 3,
        flags: ACK | PSH,
        sequence: u32::MAX - 2000,
        id: u16::MAX - 1,
        payload: (0..10_000u32).map(|n| n.to_le_bytes()[0]).collect(),
        padding: 0,
        unfinished: false,
    }
}

#[test]
fn segments_in_a_row_become_one_super_frame() {
    for (v6, tags, unfinished) in
        [(false, 0, false), (true, 0, false), (false, 2, true), (true, 1, true)]
    {
        let made = Made { v6, tags, unfinished, ..plain() };
        let frames = packets(&made, 1448);
        assert_eq!(frames.len(), 7);
        let merged = merge(&frames);
        assert_eq!(merged.len(), 1, "IPv6 {v6}, {tags} tags");
        let header = VnetHeader::parse(&merged[0]).unwrap();
        assert!(header.is_super() && header.needs_csum && header.gso_size == 1448);
        assert_eq!(cut(&merged[0]), frames);
    }
}

#[test]
fn a_super_frame_is_no_longer_than_ip_allows() {
    let mut frames = vec![];
    for part in 0..20u32 {
        let sequence = plain().sequence.wrapping_add(part * 10_000);
        let id = plain().id.wrapping_add(u16::try_from(part).unwrap() * 10);
        let made = Made { sequence, id, flags: ACK, ..plain() };
        frames.extend(packets(&made, 1000));
    }
    let merged = merge(&frames);
    assert_eq!(merged.len(), 200_usize.div_ceil(65));
    assert!(merged.iter().all(|frame| frame.len() <= vnet::LEN + 14 + 65_535));
    assert_eq!(merged.iter().flat_map(|frame| cut(frame)).collect::<Vec<_>>(), frames);
}

/// Every difference between neighbours that cutting could not restore keeps them apart.
#[test]
fn what_differs_stays_apart() {
    let frames = packets(&Made { flags: ACK, ..plain() }, 1448);
    let tcp = vnet::LEN + 14 + 20;
    let ip = vnet::LEN + 14;
    let places = [
        ("station", vnet::LEN + 11),
        ("type of service", ip + 1),
        ("identification", ip + 5),
        ("time to live", ip + 8),
        ("address", ip + 15),
        ("port", tcp + 1),
        ("sequence", tcp + 7),
        ("acknowledged", tcp + 11),
        ("window", tcp + 15),
        ("urgent pointer", tcp + 19),
        ("option", tcp + 22),
        ("payload, so that the checksum is wrong", tcp + 100),
        ("flags", tcp + 13),
        ("reserved bits", tcp + 12),
    ];
    for (what, at) in places {
        let mut second = frames[1].clone();
        second[at] ^= if what == "flags" { 2 } else { 1 };
        if !what.starts_with("payload") {
            mend(&mut second);
        }
        let given = [frames[0].clone(), second];
        assert_eq!(merge(&given), given, "{what}");
    }
    // Out of order, twice the same, and behind a shorter one or one with PSH.
    let short = packets(&Made { payload: vec![1; 100], flags: ACK, ..plain() }, 1448);
    let push = packets(&Made { payload: vec![1; 1448], ..plain() }, 1448);
    for given in [
        [frames[1].clone(), frames[0].clone()],
        [frames[0].clone(), frames[0].clone()],
        [short[0].clone(), frames[1].clone()],
        [push[0].clone(), frames[1].clone()],
    ] {
        assert_eq!(merge(&given), given);
    }
}

/// Makes the checksums right.
fn mend(whole: &mut [u8]) {
    let frame = &mut whole[vnet::LEN..];
    let Ok(Headers { network, ip: Some(ip), .. }) = Headers::parse(frame) else { return };
    frame[network + 10..][..2].fill(0);
    let sum = checksum(&frame[network..ip.transport]);
    frame[network + 10..][..2].copy_from_slice(&sum.to_be_bytes());
    let place = ip.transport + SUM;
    let sum = fold(pseudo_header(frame, network, &ip, ip.end - ip.transport));
    frame[place..][..2].copy_from_slice(&sum.to_be_bytes());
    let header = VnetHeader {
        needs_csum: true,
        csum_start: short(ip.transport),
        csum_offset: short(SUM),
        ..VnetHeader::default()
    };
    finish(&header, frame).unwrap();
}

#[test]
fn what_is_alone_passes_unchanged() {
    let one = packets(&Made { payload: vec![1; 100], flags: ACK, ..plain() }, 1448);
    assert_eq!(merge(&one), one);
    for (tcp, flags, payload) in [(true, ACK, 0), (true, ACK | 1, 9), (true, 2, 0), (false, 0, 99)]
    {
        let made = Made { tcp, flags, payload: vec![7; payload], ..plain() };
        let (header, frame) = made.build();
        let mut merger = Merger::new();
        assert_eq!(merger.offer(&whole(&header, &frame)), Offered::Alone, "{made:?}");
        assert_eq!(merger.held(), None);
    }
    // A super-frame is not merged with anything.
    let (header, frame) = plain().build();
    let header = VnetHeader { gso: Gso::TcpV4, gso_size: 1448, ..header };
    assert_eq!(Merger::new().offer(&whole(&header, &frame)), Offered::Alone);
    assert_eq!(Merger::new().offer(b"short"), Offered::Alone);
}

proptest! {
    /// Whatever a flow looks like: cutting what was merged gives what was sent, in order.
    #[test]
    fn cutting_restores_all(made in made(1..9000), size in 200u16..3000, other in made(0..2000), at in 0usize..20) {
        let made = Made { tcp: true, ..made };
        let mut frames = packets(&made, size.max(u16::try_from(made.payload.len() / 60).unwrap() + 1));
        let (header, frame) = Made { padding: 0, ..other }.build();
        let mut frame = frame;
        finish(&header, &mut frame).unwrap();
        frames.insert(at.min(frames.len()), whole(&VnetHeader::default(), &frame));
        let merged = merge(&frames);
        let again: Vec<_> = merged.iter().flat_map(|frame| cut(frame)).collect();
        prop_assert_eq!(again, frames);
    }

    #[test]
    fn damaged_frames_are_merged_or_not(made in made(0..600), at: u16, value: u8, length in 0usize..700) {
        let mut merger = Merger::new();
        for damage in [false, true] {
            let (header, mut frame) = made.build();
            if damage {
                let at = usize::from(at) % frame.len();
                frame[at] = value;
                frame.truncate(length);
            }
            let frame = whole(&header, &frame);
            if merger.offer(&frame) == Offered::Apart {
                merger.clear();
                prop_assert_ne!(merger.offer(&frame), Offered::Apart);
            }
        }
        if let Some(held) = merger.held() {
            prop_assert!(VnetHeader::parse(held).is_ok());
        }
    }
}
