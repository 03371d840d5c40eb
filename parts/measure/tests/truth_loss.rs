//! Loss, duplicates and overtaking between known points: every count against the ledger of a relay.

use super::truth_support;

use std::collections::BTreeMap;
use std::time::Duration;

use netloom_ebpf::measure::Config;
use netloom_kit::root_only;
use netloom_marking::session::{Program, Sampling};
use netloom_marking::{Completeness, Matched, Record, compare, hops, match_samples};

use truth_support::net::Line;
use truth_support::points::{Block, Points, bob, config, filter, long, slower};
use truth_support::relay::{Fates, Relay};
use truth_support::send;
use truth_support::truth::{self, Passed};

/// The measured and the true values.
struct Run {
    blocks: Vec<(u64, Block)>,
    truth: BTreeMap<u64, Passed>,
}

/// Sends for some nanoseconds through a relay with these fates.
fn run(fates: Fates, program: Program, sampling: Option<Sampling>, length: u64) -> Run {
    let line = Line::open();
    let (_receiver, relay) = (send::receiver(&line), Relay::start(&line, fates));
    let filters = [filter(1, ["10.9.0.1/32", "10.9.0.2/32", "17", "*", "5000"])];
    let mut points =
        Points::attach(&line, &Config { sampling, ..config(program, &filters, long()) });
    let first = points.begun();
    let start = points.schedule.start();
    let end = start + first * long() + length;
    let log = send::datagrams(&line, 4, Duration::from_micros(800), end);
    let ledger = relay.ledger(log.len() as u64);
    assert_eq!(ledger.len(), log.len(), "something was lost before the relay");
    let blocks = points.blocks(first);
    let truth = truth::passed(&log, &ledger, [start, long()], program == Program::All);
    assert!(truth.keys().all(|block| *block >= first));
    Run { blocks, truth }
}

/// Every block's packets and bytes at every point, late ones among them, and what hops say.
fn check(run: &Run) -> Passed {
    let mut total = Passed::default();
    for (number, points) in &run.blocks {
        let passed = run.truth.get(number).copied().unwrap_or_default();
        let records: Vec<Record> = points.iter().map(|flows| flows[0].record).collect();
        for (point, record) in records.iter().enumerate() {
            let [packets, bytes] = if point < 2 { passed.came } else { passed.left };
            assert_eq!(record.all.packets + record.late, packets, "block {number} point {point}");
            assert!(record.late > 0 || record.bytes == bytes, "{} {bytes}", record.bytes);
            let allowed = Completeness { late: record.late > 0, ..Default::default() };
            assert_eq!(record.completeness, allowed, "{:?}", record.completeness.reasons());
        }
        let whole = compare(&records[0], &records[3]).unwrap();
        let net = i128::from(passed.dropped) - i128::from(passed.doubled);
        if whole.is_complete() {
            assert_eq!(i128::from(whole.lost) - i128::from(whole.gained), net);
            for hop in hops(&records).unwrap() {
                let here = i128::from(hop.comparison.lost) - i128::from(hop.comparison.gained);
                assert_eq!(here, if hop.from == 1 { net } else { 0 }, "hop {}", hop.from);
            }
        }
        total.came[0] += passed.came[0];
        total.left[0] += passed.left[0];
        total.dropped += passed.dropped;
        total.doubled += passed.doubled;
        total.crossed += passed.crossed;
    }
    let truth: u64 = run.truth.values().map(|passed| passed.came[0]).sum();
    assert_eq!(total.came[0], truth, "all datagrams are of blocks that were read");
    eprintln!("{total:?}");
    total
}

#[test]
fn nothing_is_lost_where_nothing_is() {
    root_only!("attaches BPF programs");
    let total = check(&run(Fates::default(), Program::All, None, long() * 5 / 4));
    assert!(total.came[0] > 100, "{total:?}");
    assert_eq!((total.dropped, total.came), (0, total.left));
}

#[test]
fn every_fifth_packet_is_missed_at_its_hop() {
    root_only!("attaches BPF programs");
    let fates = Fates { seed: 1, drops: 200, ..Fates::default() };
    let total = check(&run(fates, Program::All, None, long() * 5 / 4));
    let share = total.dropped as f64 / total.came[0] as f64;
    assert!((0.1..0.3).contains(&share), "{total:?}");
}

#[test]
fn packets_over_the_edge_of_a_block_stay_in_theirs() {
    root_only!("attaches BPF programs");
    // Held for more than half of what may be, and so for less than half a block on a busy machine, too.
    let fates =
        Fates { seed: 2, drops: 50, holds: 300, hold: slower(110_000_000), ..Fates::default() };
    let total = check(&run(fates, Program::All, None, long() * 9 / 8));
    assert!(total.crossed > 5, "{total:?}");
}

/// What the samples of all packets say, first point and last.
fn matched(points: &Block) -> Matched {
    let lists = [0, 3].map(|at| {
        let sampled = points[at][0].sampled.as_ref().unwrap();
        assert_eq!((sampled.unkept, points[at][0].record.unhashable), (0, 0));
        (sampled.selection, &sampled.samples[..])
    });
    match_samples(lists[0], lists[1])
}

#[test]
fn samples_tell_lost_packets_from_duplicates() {
    root_only!("attaches BPF programs");
    let fates = Fates {
        seed: 3,
        drops: 100,
        duplicates: 100,
        holds: 200,
        hold: slower(60_000_000),
        ..Fates::default()
    };
    let run = run(fates, Program::Fixed, Some(bob(0, None)), long() * 5 / 4);
    let total = check(&run);
    assert!(total.dropped > 5 && total.doubled > 5, "{total:?}");
    for (number, points) in &run.blocks {
        let (passed, matched) =
            (run.truth.get(number).copied().unwrap_or_default(), matched(points));
        let late: u64 = points.iter().map(|flows| flows[0].record.late).sum();
        if late == 0 {
            // Of a packet that came twice, one arrival is the packet's own.
            let twice = (matched.lost, matched.gained, matched.ambiguous);
            assert_eq!(twice, (passed.dropped, passed.doubled, passed.doubled), "{number}");
            let once = passed.came[0] - passed.dropped - passed.doubled;
            assert_eq!(matched.delays.len() as u64, once, "{number}");
        }
    }
}
