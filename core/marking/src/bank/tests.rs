//! Two points with late, early, lost, duplicated and reordered packets between them: the
//! counts compared with the truth.

use proptest::prelude::*;

use super::*;
use crate::{Totals, compare};

const PERIOD: u64 = 1_000;
const GUARD: u64 = 400;
const START: u64 = 10_000;

fn schedule() -> Schedule {
    Schedule::new(START, PERIOD, GUARD).unwrap()
}

/// A packet as it was sent, and when each copy of it arrives.
#[derive(Clone, Debug)]
struct Sent {
    time: u64,
    bytes: u64,
    arrives: Vec<u64>,
}

/// Packets of ten blocks; 20 % lost, some duplicated, each copy up to `most` late and so out of order.
fn traffic(most: u64) -> impl Strategy<Value = Vec<Sent>> {
    let copies = prop_oneof![2 => Just(0usize), 7 => Just(1), 1 => Just(2)];
    let packet = (START..START + 10 * PERIOD, 60u64..1500, copies).prop_flat_map(
        move |(time, bytes, copies)| {
            prop::collection::vec(0..=most, copies).prop_map(move |delays| Sent {
                time,
                bytes,
                arrives: delays.iter().map(|delay| time + delay).collect(),
            })
        },
    );
    prop::collection::vec(packet, 0..400)
}

/// What a point reports of ten blocks, given packets with their time and the block of their
/// mark. Blocks are read as they close.
fn point(mut seen: Vec<(u64, u64, u64)>, began: u64) -> (Vec<Record>, Banks) {
    seen.sort_unstable();
    let schedule = schedule();
    let mut banks = Banks::new(schedule, began);
    let mut records = Vec::new();
    let mut next = 0;
    for (time, block, bytes) in seen {
        while next < 10 && time > schedule.closed(next) {
            records.push(banks.read(next, schedule.closed(next)));
            next += 1;
        }
        let mark = Colour::of(block).into();
        banks.see(&Seen { time, mark, packets: 1, bytes, unhashable: false });
    }
    for block in next..10 {
        records.push(banks.read(block, schedule.closed(block)));
    }
    (records, banks)
}

fn block_of(sent: &Sent) -> u64 {
    (sent.time - START) / PERIOD
}

fn both(traffic: &[Sent]) -> (Vec<Record>, Vec<Record>) {
    let first = traffic.iter().map(|s| (s.time, block_of(s), s.bytes)).collect();
    let arrive = |s: &Sent| {
        let (block, bytes) = (block_of(s), s.bytes);
        s.arrives.iter().map(move |&time| (time, block, bytes)).collect::<Vec<_>>()
    };
    let second = traffic.iter().flat_map(arrive).collect();
    (point(first, 0).0, point(second, 0).0)
}

proptest! {
    #[test]
    fn loss_is_exact_in_every_block(traffic in traffic(GUARD)) {
        let (first, second) = both(&traffic);
        for block in 0..10u64 {
            let at = usize::try_from(block).unwrap();
            let of_block = || traffic.iter().filter(|sent| block_of(sent) == block);
            let sent = of_block().count() as u64;
            let arrived: u64 = of_block().map(|sent| sent.arrives.len() as u64).sum();
            let bytes: u64 = of_block().map(|s| s.bytes * s.arrives.len() as u64).sum();
            let comparison = compare(&first[at], &second[at]).unwrap();
            prop_assert!(comparison.is_complete());
            prop_assert_eq!((comparison.sent, comparison.received), (sent, arrived));
            let net = i128::from(comparison.lost) - i128::from(comparison.gained);
            prop_assert_eq!(net, i128::from(sent) - i128::from(arrived));
            prop_assert_eq!(second[at].bytes, bytes);
        }
    }

    /// No packet is ever in a wrong block: those after the guard are counted as late.
    #[test]
    fn what_is_too_late_is_counted_as_that(traffic in traffic(PERIOD / 2 - 1)) {
        let (_, second) = both(&traffic);
        for (block, record) in (0u64..).zip(&second) {
            let close = schedule().closed(block);
            let arrivals = || {
                let of_block = traffic.iter().filter(move |sent| block_of(sent) == block);
                of_block.flat_map(|sent| &sent.arrives).copied()
            };
            let on_time: Vec<u64> = arrivals().filter(|&time| time <= close).collect();
            prop_assert_eq!(record.all.packets, on_time.len() as u64);
            let origin = schedule().origin(block);
            let naive = Totals {
                packets: on_time.len() as u64,
                sum: on_time.iter().map(|time| u128::from(time - origin)).sum(),
                first: on_time.iter().map(|time| time - origin).min(),
                last: on_time.iter().map(|time| time - origin).max(),
            };
            prop_assert_eq!(record.all, naive);
        }
    }

    #[test]
    fn every_packet_is_in_one_count(times in prop::collection::vec((0u64..30_000, any::<bool>()), 0..200)) {
        let mut banks = Banks::new(schedule(), 0);
        let mut sorted = times.clone();
        sorted.sort_unstable();
        let (mut counted, mut late) = (0, 0);
        for (time, odd) in sorted {
            let colour = if odd { Colour::Next } else { Colour::Starter };
            let seen = Seen { time, mark: colour.into(), packets: 3, bytes: 9, unhashable: true };
            match banks.see(&seen) {
                Outcome::Counted(block) => {
                    prop_assert_eq!(banks.read(block, time).unhashable % 3, 0);
                    counted += 3;
                }
                Outcome::Late(_) => late += 3,
                Outcome::Outside => {}
            }
        }
        prop_assert_eq!(counted + late + banks.outside_packets(), 3 * times.len() as u64);
    }
}

fn seen(time: u64, block: u64) -> Seen {
    Seen { time, mark: Colour::of(block).into(), packets: 1, bytes: 60, unhashable: false }
}

#[test]
fn a_late_packet_takes_the_proof_from_its_block() {
    let mut banks = Banks::new(schedule(), 0);
    let close = schedule().closed(0);
    assert_eq!(banks.see(&seen(START + 5, 0)), Outcome::Counted(0));
    assert_eq!(banks.see(&seen(close, 0)), Outcome::Counted(0));
    assert!(banks.read(0, close).completeness.is_complete());
    assert_eq!(banks.see(&seen(close + 1, 0)), Outcome::Late(0));
    let record = banks.read(0, close + 2);
    assert_eq!((record.all.packets, record.late), (2, 1));
    assert_eq!(record.completeness.reasons(), ["packets came after the block was closed"]);
}

#[test]
fn a_bank_that_is_taken_before_it_was_read_is_told() {
    let mut banks = Banks::new(schedule(), 0);
    banks.see(&seen(START, 0));
    banks.see(&seen(START + PERIOD, 1));
    banks.read(1, schedule().closed(1));
    banks.see(&seen(START + 4 * PERIOD, 4));
    banks.see(&seen(START + 5 * PERIOD, 5));
    assert_eq!(banks.unread_blocks(), 1);
    let record = banks.read(0, START + 5 * PERIOD);
    assert!(record.completeness.overwritten && record.all.packets == 0);
}

#[test]
fn a_probe_that_restarts_marks_one_block_and_no_other() {
    let times: Vec<(u64, u64, u64)> = (0..100).map(|n| (START + n * 100, n / 10, 60)).collect();
    let restart = START + 3 * PERIOD + 250;
    let after = times.into_iter().filter(|(time, ..)| *time >= restart).collect();
    let (records, _) = point(after, restart);
    let complete: Vec<bool> = records.iter().map(|r| r.completeness.is_complete()).collect();
    assert_eq!(complete, [false, false, false, false, true, true, true, true, true, true]);
    assert!(records[4..].iter().all(|record| record.all.packets == 10));
}

#[test]
fn a_super_frame_counts_as_its_packets() {
    let mut banks = Banks::new(schedule(), 0);
    let mark = Mark { colour: Colour::Starter, double: true };
    banks.see(&Seen { time: START + 7, mark, packets: 10, bytes: 15_000, unhashable: false });
    let record = banks.read(0, START + 8);
    assert_eq!((record.all.packets, record.double.packets, record.bytes), (10, 10, 15_000));
    assert_eq!(record.all.mean(), Some((PERIOD / 2 + 7) as f64));
    assert!(record.completeness.ended_within);
}
