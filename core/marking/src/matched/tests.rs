//! Lost, duplicated and reordered samples, compared with the truth.

use proptest::prelude::*;

use super::*;
use crate::{HashFunction, Samples, bob};

/// A packet's number, when it left, and the delays of its copies.
type Sent = (u32, u64, Vec<u64>);

fn ways() -> impl Strategy<Value = Vec<Sent>> {
    let copies = prop_oneof![2 => 0usize..1, 7 => 1usize..2, 1 => 2usize..4];
    let way = (0u64..10_000, copies)
        .prop_flat_map(|(time, copies)| (Just(time), prop::collection::vec(0u64..500, copies)));
    prop::collection::vec(way, 0..300).prop_map(|ways| {
        (0..).zip(ways).map(|(number, (time, delays))| (number, time, delays)).collect()
    })
}

fn sample(number: u32, time: u64) -> Sample {
    let bytes = number.to_be_bytes();
    Sample { hash: bob(&bytes, 0), identity: bob(&bytes, 1), time }
}

fn selection(length: u8) -> Selection {
    Selection::new(HashFunction::Bob, 0x1234, length).unwrap()
}

fn points(ways: &[Sent]) -> [Vec<Sample>; 2] {
    let first = ways.iter().map(|(number, time, _)| sample(*number, *time)).collect();
    let mut second: Vec<Sample> = ways
        .iter()
        .flat_map(|(number, time, delays)| delays.iter().map(move |d| sample(*number, time + d)))
        .collect();
    second.sort_by_key(|sample| sample.time);
    [first, second]
}

proptest! {
    #[test]
    fn what_is_matched_is_what_happened(
        ways in ways(), lengths in (0u8..4, 0u8..4),
    ) {
        let [first, second] = points(&ways);
        let (a, b) = (selection(lengths.0), selection(lengths.1));
        let select = |selection: Selection, samples: &[Sample]| -> Vec<Sample> {
            samples.iter().copied().filter(|s| selection.selects(s.hash)).collect()
        };
        let (first, second) = (select(a, &first), select(b, &second));
        let matched = match_samples((a, &first), (b, &second));
        let both = selection(lengths.0.max(lengths.1));
        let chosen = || ways.iter().filter(|way| both.selects(sample(way.0, 0).hash));
        let mut delays: Vec<i64> = chosen()
            .filter(|way| way.2.len() == 1)
            .map(|way| i64::try_from(way.2[0]).unwrap())
            .collect();
        delays.sort_unstable();
        prop_assert_eq!(matched.threshold, both.threshold());
        prop_assert_eq!(&matched.delays, &delays);
        prop_assert_eq!(matched.lost, chosen().filter(|way| way.2.is_empty()).count() as u64);
        let more: usize = chosen().map(|way| way.2.len().saturating_sub(1)).sum();
        prop_assert_eq!(matched.gained, more as u64);
        prop_assert_eq!(matched.ambiguous, chosen().filter(|way| way.2.len() > 1).count() as u64);
        if let Some(mean) = matched.mean() {
            let naive = delays.iter().sum::<i64>() as f64 / delays.len() as f64;
            prop_assert!((mean - naive).abs() < 1e-6);
        }
    }

    /// Two points whose lengths grew differently are compared at the longer one, without loss.
    #[test]
    fn dynamic_lengths_are_compared_at_the_longer(ways in ways(), rooms in (2usize..60, 2usize..60)) {
        let [first, second] = points(&ways);
        let keep = |samples: &[Sample], room| {
            let mut kept = Samples::new(selection(0), room).unwrap();
            samples.iter().for_each(|sample| { kept.offer(*sample); });
            kept
        };
        let (a, b) = (keep(&first, rooms.0), keep(&second, rooms.1));
        prop_assume!(!a.crowded() && !b.crowded());
        let matched = match_samples((a.selection(), a.kept()), (b.selection(), b.kept()));
        let both = selection(0).at(a.selection().threshold().min(b.selection().threshold()));
        let lost = ways.iter().filter(|w| w.2.is_empty() && both.selects(sample(w.0, 0).hash));
        prop_assert_eq!(matched.lost, lost.count() as u64);
    }
}

#[test]
fn one_identity_several_times_gives_no_delay() {
    let all = selection(0);
    let times = |times: &[u64]| times.iter().map(|&t| sample(1, t)).collect::<Vec<_>>();
    let matched = match_samples((all, &times(&[10, 20])), (all, &times(&[15])));
    assert_eq!((matched.lost, matched.ambiguous, matched.gained), (1, 1, 0));
    assert_eq!((matched.delays.len(), matched.mean()), (0, None));
    assert_eq!(matched.quantile(0.5, Population::Delivered), None);
}

#[test]
fn clocks_that_differ_give_delays_below_0() {
    let all = selection(0);
    let matched = match_samples((all, &[sample(1, 100)]), (all, &[sample(1, 40)]));
    assert_eq!(matched.delays, [-60]);
    let far = match_samples((all, &[sample(1, u64::MAX)]), (all, &[sample(1, 0)]));
    assert_eq!(far.delays, [i64::MIN]);
}

#[test]
fn mistakes_to_expect() {
    // 1000 samples of IPSX at length 6 have 10 bits left.
    assert!((Matched::expected_mistakes(1_000, 10) - 488.28).abs() < 0.01);
    assert!(Matched::expected_mistakes(1_000, 58) < 1e-9);
}
