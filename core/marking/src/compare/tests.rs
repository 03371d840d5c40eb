//! Figures of two points compared with individually known packets.

use proptest::prelude::*;

use super::*;
use crate::{Counters, Schedule, TwoWay, cluster_loss, hops};

fn schedule() -> Schedule {
    Schedule::new(1_000_000, 1_000_000, 100_000).unwrap()
}

/// A record of block 0 with packets at these times after its beginning.
fn record(times: &[u64], double: &[u64]) -> Record {
    let schedule = schedule();
    let early = schedule.begin(0) - schedule.origin(0);
    let mut counters = Counters::default();
    times.iter().for_each(|time| counters.all.add(early + time, 1));
    double.iter().for_each(|time| counters.double.add(early + time, 1));
    Record::new(&schedule, 0, &[counters], 0, schedule.closed(0))
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// When packets leave, and their delays, or that they are lost.
fn ways() -> impl Strategy<Value = Vec<(u64, Option<u64>)>> {
    let way = (0u64..1_000_000, prop::option::weighted(0.8, 0u64..90_000));
    prop::collection::vec(way, 1..200)
}

fn sent(ways: &[(u64, Option<u64>)]) -> Record {
    record(&ways.iter().map(|way| way.0).collect::<Vec<_>>(), &[])
}

fn received(ways: &[(u64, Option<u64>)]) -> Record {
    record(&ways.iter().filter_map(|way| Some(way.0 + way.1?)).collect::<Vec<_>>(), &[])
}

proptest! {
    /// The mean delay of what arrived lies within the bounds, whatever was lost.
    #[test]
    fn the_bounds_of_a_mean_delay_hold_under_loss(ways in ways()) {
        let comparison = compare(&sent(&ways), &received(&ways)).unwrap();
        let delays: Vec<f64> = ways.iter().filter_map(|way| Some(way.1? as f64)).collect();
        prop_assert_eq!(comparison.lost, (ways.len() - delays.len()) as u64);
        let Some(owad) = comparison.owad else {
            prop_assert!(delays.is_empty());
            return Ok(());
        };
        let truth = mean(&delays);
        prop_assert!(owad.low - 1e-3 <= truth && truth <= owad.high + 1e-3, "{:?} {}", owad, truth);
        prop_assert!(owad.low <= owad.value + 1e-3 && owad.value <= owad.high + 1e-3);
        prop_assert_eq!(owad.is_exact(), comparison.lost == 0);
        if comparison.lost == 0 {
            prop_assert!((owad.value - truth).abs() < 1e-3);
        }
    }

    /// The same with duplicated packets.
    #[test]
    fn the_bounds_hold_under_duplication(ways in ways(), again in prop::collection::vec(0u64..90_000, 0..50)) {
        let ways: Vec<_> = ways.into_iter().map(|(time, d)| (time, Some(d.unwrap_or(0)))).collect();
        let delays: Vec<f64> = ways.iter().filter_map(|way| Some(way.1? as f64)).collect();
        let mut times: Vec<u64> = ways.iter().filter_map(|way| Some(way.0 + way.1?)).collect();
        times.extend(ways.iter().zip(&again).map(|(way, delay)| way.0 + delay));
        let comparison = compare(&sent(&ways), &record(&times, &[])).unwrap();
        prop_assert_eq!(comparison.gained, again.len().min(ways.len()) as u64);
        let (owad, truth) = (comparison.owad.unwrap(), mean(&delays));
        prop_assert!(owad.low - 1e-3 <= truth && truth <= owad.high + 1e-3);
    }

    /// The source's jitter is the mean difference of consecutive times, telescoped.
    #[test]
    fn jitter_is_the_sources(ways in ways()) {
        let ways: Vec<_> = ways.into_iter().map(|(time, d)| (time, Some(d.unwrap_or(0)))).collect();
        let comparison = compare(&sent(&ways), &received(&ways)).unwrap();
        let gaps = |mut times: Vec<u64>| {
            times.sort_unstable();
            mean(&times.windows(2).map(|two| (two[1] - two[0]) as f64).collect::<Vec<_>>())
        };
        let there = gaps(ways.iter().map(|way| way.0).collect());
        let here = gaps(ways.iter().filter_map(|way| Some(way.0 + way.1?)).collect());
        match comparison.owaj {
            None => prop_assert!(ways.len() < 2),
            Some(owaj) => prop_assert!((owaj - (here - there)).abs() < 1e-3),
        }
    }

    /// Each loss is at one hop: the losses of hops add up to that of the path.
    #[test]
    fn losses_of_hops_are_the_loss_of_the_way(counts in prop::collection::vec(0usize..50, 2..6)) {
        let records: Vec<Record> =
            counts.iter().map(|&count| record(&vec![5; count], &[])).collect();
        let net = |c: &Comparison| i128::from(c.lost) - i128::from(c.gained);
        let hops = hops(&records).unwrap();
        let sum: i128 = hops.iter().map(|hop| net(&hop.comparison)).sum();
        let (first, last) = (records.first().unwrap(), records.last().unwrap());
        prop_assert_eq!(sum, net(&compare(first, last).unwrap()));
        prop_assert_eq!(sum, cluster_loss([first], [last]));
        prop_assert_eq!(hops.len(), counts.len() - 1);
    }
}

#[test]
fn the_sources_formulas_by_hand() {
    // There: 100 and 300 leave, 150 and 390 arrive. Back: 200, 400 leave, 230, 430 arrive.
    let there = compare(&record(&[100, 300], &[]), &record(&[150, 390], &[])).unwrap();
    let back = compare(&record(&[200, 400], &[]), &record(&[230, 430], &[])).unwrap();
    assert_eq!(there.owad, Some(Estimate::exact(70.0)));
    assert_eq!(back.owad, Some(Estimate::exact(30.0)));
    let both = TwoWay::of([there.owad, back.owad], [None; 2]);
    assert_eq!(both.artt_all_ns, Some(Estimate::exact(100.0)));
    assert_eq!(both.twaj_all_ns, Some(Estimate::exact(40.0)));
    assert_eq!((both.artt(), both.twaj(), both.sampled), (Some(100.0), Some(40.0), None));
    assert_eq!(there.owaj, Some(40.0));
    assert_eq!(block_mean_variation(&back, &there), Some(40.0));
}

#[test]
fn one_lost_packet_moves_a_mean_as_far_as_the_bounds_say() {
    // 11 packets, 10 ms apart, all without delay, the last one lost: the mean is early by 5 ms.
    let times: Vec<u64> = (0..11).map(|n| n * 10_000).collect();
    let owad = compare(&record(&times, &[]), &record(&times[..10], &[])).unwrap().owad.unwrap();
    assert_eq!((owad.value, owad.low, owad.high), (-5_000.0, -10_000.0, 0.0));
    let widened = owad.widen(7.0);
    assert_eq!((widened.low, widened.high), (-10_007.0, 7.0));
}

#[test]
fn points_whose_blocks_begin_differently_are_brought_together() {
    let other = Schedule::new(1_000_500, 1_000_000, 100_000).unwrap();
    let mut counters = Counters::default();
    counters.all.add(500_000, 1);
    counters.double.add(500_000, 1);
    let second = Record::new(&other, 0, &[counters], 0, other.closed(0));
    let first = record(&[0], &[0]);
    assert_eq!(compare(&first, &second).unwrap().owad, Some(Estimate::exact(500.0)));
    assert_eq!(double_delay(&first, &second), Ok(Some(500.0)));
}

#[test]
fn packets_marked_twice_give_a_delay_when_all_came() {
    let (first, second) = (record(&[], &[10, 20]), record(&[], &[110, 140]));
    assert_eq!(double_delay(&first, &second), Ok(Some(110.0)));
    assert_eq!(double_delay(&first, &record(&[], &[110])), Ok(None));
    assert_eq!(double_delay(&record(&[], &[]), &record(&[], &[])), Ok(None));
}

#[test]
fn different_blocks_are_not_compared() {
    let first = record(&[1], &[]);
    let second = Record { block: 1, ..first };
    assert_eq!(compare(&first, &second), Err(Error::Blocks { first: 0, second: 1 }));
    assert!(hops(&[first, second]).is_err() && double_delay(&first, &second).is_err());
}

#[test]
fn nothing_received_has_no_delay_and_all_is_lost() {
    let comparison = compare(&record(&[1, 2], &[]), &record(&[], &[])).unwrap();
    assert_eq!((comparison.lost, comparison.owad, comparison.owaj), (2, None, None));
}

#[test]
fn what_stands_against_one_point_stands_against_both() {
    let first = record(&[1], &[]);
    let mut second = first;
    second.completeness.late = true;
    assert!(compare(&first, &first).unwrap().is_complete());
    assert!(!compare(&first, &second).unwrap().is_complete());
    assert!(!compare(&second, &first).unwrap().is_complete());
}
