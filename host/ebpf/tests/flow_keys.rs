//! The programs' flow key equals the pipeline's, for every frame that they parse.

use std::path::Path;

use netloom_ebpf::flow::{Options, Trial};
use netloom_kit::root_only;
use netloom_openflow::Field;
use netloom_pipeline::{FlowKey, headers};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::flow_frames as frames;

pub const SMALL: Options =
    Options { ports: 8, results: 64, operations: 512, ring: 1 << 18, beside: false };

/// The key that programs find in a frame; `None` if they leave it to the pipeline.
fn key_of(trial: &mut Trial, frame: &[u8]) -> Option<FlowKey> {
    let ran = trial.run(frame, 1).expect("a frame that the kernel takes");
    assert!(!ran.sent);
    let mut key = None;
    let heard = trial.flow.upcalls().receive(2, &mut |upcall| {
        assert_eq!((upcall.port, upcall.frame), (1, frame));
        key = upcall.key;
    });
    assert_eq!(heard, 1);
    key
}

fn expected(frame: &[u8]) -> FlowKey {
    let (_, mut key) = headers::parse(frame);
    key.set(Field::InPort, 1);
    key.set(Field::InPhyPort, 1);
    key
}

/// Whether it is of a kind that programs leave to the pipeline: a fragment, or with headers behind what they look at.
fn may_be_left(frame: &[u8]) -> bool {
    let (found, _) = headers::parse(frame);
    let fragment = found.ip.is_some_and(|ip| ip.fragment);
    let deep = found.ip.is_some_and(|ip| ip.transport.is_none_or(|at| at > 160));
    fragment || deep || found.tags > 8 || found.network > 160
}

fn check(trial: &mut Trial, frame: &[u8]) -> Result<(), TestCaseError> {
    // The kernel's test takes no frame without a whole first header.
    if frame.len() < 14 + 40 {
        return Ok(());
    }
    match key_of(trial, frame) {
        Some(key) => prop_assert_eq!(key, expected(frame), "{:02x?}", frame),
        None => prop_assert!(may_be_left(frame), "{:02x?}", frame),
    }
    Ok(())
}

/// IPv6 with extension headers: their numbers, and how many units of 8 bytes each is longer.
fn extended(chain: &[(u8, u8)], last: u8, payload: &[u8]) -> Vec<u8> {
    let next = |index: usize| chain.get(index).map_or(last, |(number, _)| *number);
    let mut all = vec![];
    for (index, (number, units)) in chain.iter().enumerate() {
        let mut header = vec![next(index + 1), *units, 0, 0];
        let length = match number {
            44 => 8,
            51 => (usize::from(*units) + 2) * 4,
            _ => (usize::from(*units) + 1) * 8,
        };
        header.resize(length.max(8), 0);
        all.extend(header);
    }
    all.extend(payload);
    frames::ethernet(0x86dd, &frames::ipv6(next(0), &all))
}

fn neighbour(kind: u8, options: &[(u8, u8)]) -> Vec<u8> {
    let mut body = vec![kind, 0, 0, 0, 0, 0, 0, 0];
    body.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9]);
    for (number, units) in options {
        let mut option = vec![*number, *units, 2, 0, 0, 0, *number, *units];
        option.resize(usize::from(*units).max(1) * 8, 0);
        body.extend(option);
    }
    frames::summed(frames::ethernet(0x86dd, &frames::ipv6(58, &body)))
}

fn snap(ethertype: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = frames::ethernet(u16::try_from(payload.len() + 8).unwrap(), &[]);
    frame.extend([0xaa, 0xaa, 3, 0, 0, 0]);
    frame.extend(ethertype.to_be_bytes());
    frame.extend(payload);
    frame
}

/// Frames of all kinds.
pub fn kinds() -> Vec<Vec<u8>> {
    let udp = frames::udp(1, 2);
    let mut all = vec![
        frames::arp(),
        frames::tcp4(1, 2),
        frames::udp4(3, 4),
        frames::tcp6(5, 6),
        frames::summed(frames::ethernet(0x800, &frames::ipv4(1, 9, &[8, 0, 0, 0, 1, 2, 3, 4]))),
        frames::ethernet(0x800, &frames::ipv4(132, 64, &[0; 20])),
        frames::ethernet(0x800, &frames::ipv4(47, 64, &[7; 20])),
        frames::ethernet(0x88e7, &[1; 44]),
        frames::ethernet(0x8847, &[0xab; 44]),
        frames::ethernet(0x88b5, &[5; 46]),
        frames::ethernet(40, &[0x42; 40]),
        snap(0x800, &frames::ipv4(17, 64, &udp)),
        neighbour(135, &[(1, 1)]),
        neighbour(136, &[(3, 2), (2, 1), (2, 1)]),
        neighbour(135, &[(2, 1), (1, 0)]),
        extended(&[(0, 0)], 17, &udp),
        extended(&[(60, 0), (43, 0), (60, 1)], 6, &frames::tcp(1, 2)),
        extended(&[(44, 0)], 17, &udp),
        extended(&[(43, 0), (0, 0), (0, 0)], 17, &udp),
        extended(&[(51, 4), (60, 0), (60, 0), (60, 0)], 58, &[128, 0, 0, 0, 0, 0, 0, 0]),
        extended(&[(50, 0)], 17, &udp),
        extended(&[(0, 200)], 17, &udp),
        extended(&[(60, 0); 20], 17, &udp),
        extended(&[], 59, &[0; 8]),
    ];
    for index in 0..5 {
        all.push(frames::tagged(&all[index], 7, 3));
        all.push(frames::tagged(&frames::tagged(&all[index], 9, 1), 8, 2));
    }
    let mut deep = frames::udp4(1, 2);
    for vid in 1..12 {
        deep = frames::tagged(&deep, vid, 0);
        all.push(deep.clone());
    }
    all
}

#[test]
fn keys_of_all_kinds() {
    root_only!("runs BPF programs");
    let mut trial = Trial::load(&SMALL).unwrap();
    let mut left = 0;
    for frame in kinds() {
        check(&mut trial, &frame).unwrap();
        left += usize::from(frame.len() >= 54 && key_of(&mut trial, &frame).is_none());
    }
    // Four with more than eight tags, and those with long extension headers.
    assert!(left <= 6, "{left}");
}

#[test]
fn keys_of_the_fuzzers_seeds() {
    root_only!("runs BPF programs");
    let mut trial = Trial::load(&SMALL).unwrap();
    for folder in ["frame", "packet", "pipeline", "stamp"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(folder);
        let mut seeds: Vec<_> =
            std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect();
        seeds.sort();
        assert!(!seeds.is_empty());
        for seed in seeds {
            let bytes = std::fs::read(&seed).unwrap();
            // Some begin with a header that tells of offloads, some with the IP header.
            for skip in [0, 10] {
                check(&mut trial, bytes.get(skip..).unwrap_or(&[])).unwrap();
            }
            for ethertype in [0x800, 0x86dd] {
                let mut frame = frames::ethernet(ethertype, &bytes);
                check(&mut trial, &frame).unwrap();
                frame.resize(frame.len().max(60), 0);
                check(&mut trial, &frame).unwrap();
            }
        }
    }
}

/// A frame of some kind with changed bytes, cut or padded.
pub fn frame() -> impl Strategy<Value = Vec<u8>> {
    let all = kinds();
    let changes = proptest::collection::vec((0..120usize, any::<u8>()), 0..4);
    let few =
        proptest::sample::select(vec![0u8, 1, 2, 6, 17, 43, 44, 51, 58, 59, 60, 132, 135, 136]);
    let named = proptest::collection::vec((12..120usize, few), 0..3);
    (proptest::sample::select(all), changes, named, 0..3u8, any::<prop::sample::Index>()).prop_map(
        |(mut frame, changes, named, length, index)| {
            for (at, byte) in changes.into_iter().chain(named) {
                if let Some(place) = frame.get_mut(at) {
                    *place = byte;
                }
            }
            match length {
                1 => frame.truncate(14 + index.index(frame.len() - 14)),
                2 => frame.resize(frame.len() + index.index(40), 0),
                _ => {}
            }
            frame
        },
    )
}

#[test]
fn keys_of_changed_frames() {
    root_only!("runs BPF programs");
    let trial = Trial::load(&SMALL).unwrap();
    let trial = std::cell::RefCell::new(trial);
    let mut runner =
        TestRunner::new(Config { cases: 6000, failure_persistence: None, ..Config::default() });
    runner.run(&frame(), |frame| check(&mut trial.borrow_mut(), &frame)).unwrap();
}
