//! Which packets are sampled: against a second reading of RFC 5475, and numbers of samples.

use super::truth_support;

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

use netloom_ebpf::measure::{Config, Sampled};
use netloom_kit::{needs, root_only};
use netloom_marking::session::{Program, Sampling};
use netloom_marking::{HashFunction, Hasher, PayloadPart, Profile, Selection};

use truth_support::net::{A, Line};
use truth_support::points::{Block, Points, bob, config, filter, short};
use truth_support::tap::{Noted, Tap};
use truth_support::{kinds, send};

const SEED: u32 = 0xdead_beef;
const MATCH: u32 = 0x0bad_cafe;

/// A packet's hash, and whether it is selected.
type Hashed = (u32, bool);

/// What the second reading says of frames, packet by packet.
fn second_reading(frames: &[&Noted], profile: &str, length: u8, part: PayloadPart) -> Vec<Hashed> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/truth_support/psamp.py");
    let numbers = [SEED, MATCH, length.into(), part.offset.into(), part.size.into()];
    let mut child = Command::new("python3")
        .args([script, profile])
        .args(numbers.map(|number| number.to_string()))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines: String = frames.iter().map(|noted| noted.line()).collect();
    let mut input = child.stdin.take().unwrap();
    std::thread::scope(|scope| {
        // Both pipes have an end.
        scope.spawn(move || input.write_all(lines.as_bytes()).unwrap());
        let out = child.wait_with_output().unwrap();
        assert!(out.status.success());
        let text = String::from_utf8(out.stdout).unwrap();
        let read = |line: &str| {
            let (hash, selected) = line.split_once(' ').unwrap();
            (u32::from_str_radix(hash, 16).unwrap(), selected == "1")
        };
        text.lines().map(read).collect()
    })
}

fn sorted(mut hashes: Vec<u32>) -> Vec<u32> {
    hashes.sort_unstable();
    hashes
}

/// The samples of a point's flow in all blocks.
fn samples(blocks: &[(u64, Block)], point: usize, flow: usize) -> Vec<u32> {
    let of = |block: &Block| {
        let flow = &block[point][flow];
        assert!(flow.record.completeness.is_complete());
        assert_eq!(flow.record.unhashable, 0);
        let sampled = flow.sampled.as_ref().unwrap();
        assert_eq!(sampled.unkept, 0);
        sampled.samples.iter().map(|sample| sample.hash).collect::<Vec<_>>()
    };
    sorted(blocks.iter().flat_map(|(_, block)| of(block)).collect())
}

/// Compares all points' samples of both families with what the second reading selects.
fn compare(profile: Profile, name: &str, protocol: &str, payload: PayloadPart, length: u64) {
    let line = Line::bridged();
    let function = HashFunction::Bob;
    let selection = Selection::new(function, MATCH, 2).unwrap();
    let hasher = Hasher { function, profile, seed: SEED, payload };
    let sampling = Some(Sampling { hasher, selection, npkts: None });
    let filters = kinds::flows(protocol);
    let config = Config { sampling, ..config(Program::Fixed, &filters, short()) };
    let tap = Tap::open(&line.a, A);
    let mut points = Points::attach(&line, &config);
    let first = points.begun();
    let end = points.schedule.start() + first * short() + length;
    std::thread::scope(|scope| {
        if protocol != "17" {
            scope.spawn(|| kinds::stream(&line, false, end));
            scope.spawn(|| kinds::stream(&line, true, end));
        }
        if protocol != "6" {
            kinds::datagrams(&line, None, &[16, 100, 1_400], end);
        }
    });
    let blocks = points.blocks(first);
    let seen = tap.all(true);
    for (flow, v6) in [false, true].into_iter().enumerate() {
        let ours = |noted: &&Noted| {
            let number = noted.read.protocol;
            let known = if protocol == "*" {
                [6, 17].contains(&number)
            } else {
                protocol == number.to_string()
            };
            known && noted.read.v6 == v6
        };
        let frames: Vec<&Noted> = seen.iter().filter(ours).collect();
        let all = second_reading(&frames, name, 2, payload);
        let selected = all.iter().filter(|(_, selected)| *selected);
        let truth = sorted(selected.map(|(hash, _)| *hash).collect());
        for point in 0..4 {
            assert_eq!(samples(&blocks, point, flow), truth, "{name} {protocol} {point}");
        }
        eprintln!("{name} {protocol} v6 {v6}: {} of {}", truth.len(), all.len());
        assert!(truth.len() > 2 && truth.len() < all.len() * 2 / 3);
    }
}

#[test]
fn datagrams_are_selected_as_rfc_5475_says() {
    root_only!("attaches BPF programs");
    needs!("python3");
    // Behind the checksum, which offload finishes later.
    let part = PayloadPart { offset: 8, size: 8 };
    compare(Profile::Rfc5475, "rfc5475", "17", part, short() * 9 / 8);
}

#[test]
fn segments_are_selected_as_rfc_5475_says() {
    root_only!("attaches BPF programs");
    needs!("python3");
    // The sequence number: nothing else that follows it is the same before and behind offload.
    compare(Profile::Rfc5475, "rfc5475", "6", PayloadPart { offset: 4, size: 4 }, short() / 4);
}

#[test]
fn what_all_points_see_alike_is_selected_as_its_description_says() {
    root_only!("attaches BPF programs");
    needs!("python3");
    compare(Profile::Portable, "portable", "*", PayloadPart::default(), short() / 4);
}

/// Whether what is kept is all that the selection has of these hashes.
fn is_whole(sampled: &Sampled, hashes: &[u32]) {
    let selected = hashes.iter().copied().filter(|hash| sampled.selection.selects(*hash));
    let kept = sampled.samples.iter().map(|sample| sample.hash).collect();
    assert_eq!(sorted(kept), sorted(selected.collect()));
}

#[test]
fn a_length_of_its_own_keeps_between_half_and_all_of_the_room() {
    root_only!("attaches BPF programs");
    let line = Line::bridged();
    let most = 50;
    let filters = [filter(1, ["10.9.0.1/32", "10.9.0.2/32", "17", "*", "5000"])];
    let config = Config {
        sampling: Some(bob(0, Some(most))),
        ..config(Program::Dynamic, &filters, short())
    };
    let tap = Tap::open(&line.a, A);
    let mut points = Points::attach(&line, &config);
    let first = points.begun();
    let _receiver = send::receiver(&line);
    let start = points.schedule.start();
    let end = start + first * short() + short() * 2;
    send::datagrams(&line, 5, Duration::from_millis(1), end);
    let blocks = points.blocks(first);
    let seen = tap.all(true);
    let hasher = bob(0, None).hasher;
    let mut full = 0;
    for (number, points) in &blocks {
        let in_block =
            |noted: &&Noted| noted.read.protocol == 17 && kinds::block_of(noted, start) == *number;
        let hash = |noted: &Noted| {
            let packet = netloom_marking::Packet::parse(noted.packet()).unwrap();
            hasher.hash(&packet, Default::default()).unwrap()
        };
        let hashes: Vec<u32> = seen.iter().filter(in_block).map(hash).collect();
        for flows in points {
            let (record, sampled) = (&flows[0].record, flows[0].sampled.as_ref().unwrap());
            assert!(record.completeness.is_complete() && !sampled.crowded);
            assert_eq!(record.all.packets, hashes.len() as u64);
            is_whole(sampled, &hashes);
            let (least, room) = (most.div_ceil(2) as usize, most as usize);
            if hashes.len() > room {
                assert!((least..=room).contains(&sampled.samples.len()));
                full += 1;
            } else {
                assert_eq!(sampled.samples.len(), hashes.len());
            }
        }
    }
    assert!(full >= 4, "{full}");
}
