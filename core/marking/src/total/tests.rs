//! Sums and delays of many blocks compared with individually known packets.

use proptest::prelude::*;

use super::*;
use crate::{Counters, HashFunction, Samples, Schedule, bob};

const POINTS: usize = 4;
const PERIOD: u64 = 1_000_000;

/// A packet: its departure, and the delay of each hop, or its loss there.
type Packet = (u64, [Option<u64>; POINTS - 1]);

fn blocks() -> impl Strategy<Value = Vec<Vec<Packet>>> {
    let hop = prop::option::weighted(0.9, 1u64..20_000);
    let packet = (0..PERIOD, [hop.clone(), hop.clone(), hop]);
    prop::collection::vec(prop::collection::vec(packet, 0..80), 1..6)
}

/// What one point sees of a block.
struct Seen {
    record: Record,
    samples: Samples,
}

fn schedule() -> Schedule {
    Schedule::new(PERIOD, PERIOD, PERIOD / 5).unwrap()
}

/// A block at all points; `room` for samples at each.
fn seen(block: u64, packets: &[Packet], room: [usize; POINTS]) -> Vec<Seen> {
    let (schedule, selection) = (schedule(), Selection::new(HashFunction::Bob, 5, 0).unwrap());
    let mut points = Vec::new();
    for (point, room) in room.into_iter().enumerate() {
        let mut counters = Counters::default();
        let mut samples = Samples::new(selection, room).unwrap();
        for (number, (left, ways)) in (0u64..).zip(packets) {
            let Some(time) = arrival(schedule.begin(block) + left, &ways[..point]) else {
                continue;
            };
            counters.all.add(time - schedule.origin(block), 1);
            let bytes = (block << 32 | number).to_be_bytes();
            samples.offer(Sample { hash: bob(&bytes, 0), identity: bob(&bytes, 1), time });
        }
        let record = Record::new(&schedule, block, &[counters], 0, schedule.closed(block));
        points.push(Seen { record, samples });
    }
    points
}

fn arrival(left: u64, hops: &[Option<u64>]) -> Option<u64> {
    hops.iter().try_fold(left, |time, hop| Some(time + (*hop)?))
}

fn sides(seen: &[Seen]) -> Vec<Side<'_>> {
    let side = |s: &'_ Seen| s.samples.selection();
    seen.iter()
        .map(|s| Side { record: &s.record, samples: Some((side(s), s.samples.kept())) })
        .collect()
}

/// Delays of all packets of these blocks over the whole path, sorted.
fn truth(blocks: &[Vec<Packet>]) -> Vec<i64> {
    let whole = |(_, ways): &Packet| arrival(0, ways).map(|delay| i64::try_from(delay).unwrap());
    let mut all: Vec<i64> = blocks.iter().flatten().filter_map(whole).collect();
    all.sort_unstable();
    all
}

proptest! {
    /// Sums are exact, hops fit together, and losses of hops add up to those of the path.
    #[test]
    fn sums_are_exact(blocks in blocks()) {
        let mut total = WayTotal::new(POINTS, 10_000);
        for (number, packets) in (0u64..).zip(&blocks) {
            let seen = seen(number, packets, [100; POINTS]);
            let block = total.add(&sides(&seen)).unwrap();
            prop_assert_eq!(block.block, number);
            prop_assert!(block.completeness.is_complete());
        }
        prop_assert_eq!((total.blocks, total.incomplete), (blocks.len() as u64, 0));
        let reached = |point: usize| {
            blocks.iter().flatten().filter(|p| arrival(0, &p.1[..point]).is_some()).count() as u64
        };
        for (point, hop) in total.hops.iter().enumerate() {
            prop_assert_eq!((hop.sent, hop.received), (reached(point), reached(point + 1)));
            prop_assert_eq!((hop.lost, hop.gained), (hop.sent - hop.received, 0));
        }
        let lost: u64 = total.hops.iter().map(|hop| hop.lost).sum();
        prop_assert_eq!(total.whole.lost, lost);
    }

    /// With room for all, every figure of delays is exact, including jitter.
    #[test]
    fn with_room_delays_are_the_truth(blocks in blocks()) {
        let mut total = WayTotal::new(POINTS, 10_000);
        for (number, packets) in (0u64..).zip(&blocks) {
            total.add(&sides(&seen(number, packets, [100; POINTS]))).unwrap();
        }
        let (delays, all) = (&total.whole.delays, truth(&blocks));
        prop_assert_eq!((delays.known(), delays.rate()), (all.len(), 1.0));
        prop_assert_eq!(delays.lost(), total.whole.lost);
        prop_assert_eq!(delays.extremes(), all.first().copied().zip(all.last().copied()));
        let [median] = delays.quantiles([0.5], Population::Delivered);
        let nearest = all.len().div_ceil(2).checked_sub(1).map(|at| all[at]);
        prop_assert_eq!(median.and_then(|q| q.value), nearest);
        if let Some(mean) = delays.mean() {
            let exact = all.iter().sum::<i64>() as f64 / all.len() as f64;
            prop_assert!((mean - exact).abs() < 1e-6);
            // Times of all packets agree; with losses, within their bounds.
            let counted = total.whole.mean_of_all().unwrap();
            prop_assert!(counted.low - 1e-3 <= exact && exact <= counted.high + 1e-3);
        }
        let mut ordered: Vec<(u64, i64)> = (0u64..)
            .zip(&blocks)
            .flat_map(|(n, packets)| packets.iter().map(move |p| (schedule().begin(n) + p.0, p)))
            .filter_map(|(left, p)| Some((left, i64::try_from(arrival(0, &p.1)?).unwrap())))
            .collect();
        ordered.sort_unstable();
        let gaps: Vec<f64> =
            ordered.windows(2).map(|w| w[0].1.abs_diff(w[1].1) as f64).collect();
        let mean = (!gaps.is_empty()).then(|| gaps.iter().sum::<f64>() / gaps.len() as f64);
        prop_assert_eq!(delays.jitter().is_some(), mean.is_some());
        let off = delays.jitter().zip(mean).map_or(0.0, |(a, b)| (a - b).abs());
        prop_assert!(off < 1e-6, "{}", off);
    }

    /// However little room there is, exactly the packets below one threshold remain, in all
    /// blocks alike.
    #[test]
    fn with_little_room_all_blocks_are_thinned_alike(
        blocks in blocks(), room in 2usize..60, most in 1usize..100,
    ) {
        let mut total = WayTotal::new(POINTS, most);
        let mut all = Vec::new();
        for (number, packets) in (0u64..).zip(&blocks) {
            // Points differ in their room.
            let seen = seen(number, packets, [room, 100, 100, room + 5]);
            total.add(&sides(&seen)).unwrap();
            all.extend((0u64..).zip(packets).map(|(n, packet)| {
                (bob(&(number << 32 | n).to_be_bytes(), 0), *packet)
            }));
        }
        let delays = &total.whole.delays;
        let selection = Selection::new(HashFunction::Bob, 5, 0).unwrap().at(delays.threshold);
        let chosen: Vec<Packet> =
            all.iter().filter(|(hash, _)| selection.selects(*hash)).map(|(_, p)| *p).collect();
        let mut left: Vec<i64> = delays.pairs.iter().map(|pair| pair.delay).collect();
        left.sort_unstable();
        prop_assert_eq!(left, truth(std::slice::from_ref(&chosen)));
        prop_assert!(delays.pairs.len() + delays.without.len() <= most);
        prop_assert_eq!(delays.lost(), (chosen.len() - delays.known()) as u64);
    }

    /// A block with a flaw at any point is in no sum, and reported.
    #[test]
    fn incomplete_blocks_are_told_and_not_summed(
        blocks in blocks(), bad in prop::collection::vec(prop::option::of(0..POINTS), 6),
    ) {
        let (mut with, mut without) = (WayTotal::new(POINTS, 999), WayTotal::new(POINTS, 999));
        let mut told = 0;
        for ((number, packets), bad) in (0u64..).zip(&blocks).zip(bad) {
            let mut seen = seen(number, packets, [100; POINTS]);
            if let Some(point) = bad {
                seen[point].record.completeness.late = true;
                told += 1;
            } else {
                without.add(&sides(&seen)).unwrap();
            }
            let block = with.add(&sides(&seen)).unwrap();
            prop_assert_eq!(block.completeness.late, bad.is_some());
        }
        prop_assert_eq!((with.blocks, with.incomplete), (without.blocks, told));
        prop_assert_eq!(with.against.late, told > 0);
        prop_assert_eq!(with.whole.sent, without.whole.sent);
        prop_assert_eq!(&with.whole.delays, &without.whole.delays);
    }
}

#[test]
fn a_way_has_the_points_that_it_was_made_for() {
    let seen = seen(0, &[], [2; POINTS]);
    let sides = sides(&seen);
    let mut total = WayTotal::new(POINTS, 10);
    for wrong in [&sides[..0], &sides[..1], &sides[..3]] {
        assert_eq!(total.add(wrong).unwrap_err(), Error::Points(wrong.len()));
    }
    let mut other = sides.clone();
    let record = super::Record { block: 7, ..*sides[1].record };
    other[1].record = &record;
    assert!(matches!(total.add(&other), Err(Error::Blocks { .. })));
    assert_eq!((total.blocks, total.incomplete), (0, 0));
    assert!(total.add(&sides).is_ok() && total.whole.delays.mean().is_none());
}

#[test]
fn a_block_with_flaws_of_the_path_is_told_and_not_summed() {
    let seen = seen(0, &[(10, [Some(5); 3])], [9; POINTS]);
    let sides = sides(&seen);
    let mut total = WayTotal::new(POINTS, 10);
    let rerouted = Completeness { rerouted: true, ..Completeness::default() };
    let block = total.add_with(&sides, rerouted).unwrap();
    assert_eq!(block.completeness.reasons(), ["the route changed"]);
    assert_eq!((total.blocks, total.incomplete, total.against), (0, 1, rerouted));
    assert_eq!(block.whole.comparison.sent, 1);
}

#[test]
fn packets_that_come_twice_are_gained_and_have_no_delay() {
    let points = seen(0, &[(10, [Some(5); 3]), (20, [Some(5); 3])], [9; POINTS]);
    let doubled: Vec<Sample> = points[3].samples.kept().repeat(2);
    let selection = points[0].samples.selection();
    let mut delays = Delays::new(9);
    delays.add((selection, points[0].samples.kept()), (selection, &doubled));
    assert_eq!((delays.known(), delays.ambiguous(), delays.lost()), (0, 2, 0));
    delays.add((selection, points[0].samples.kept()), (selection, &[]));
    assert_eq!((delays.known(), delays.ambiguous(), delays.lost()), (0, 2, 2));
}
