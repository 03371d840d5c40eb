//! Bounds compared with fully known populations.

use proptest::prelude::*;

use super::*;

fn nearest(sorted: &[i64], share: f64) -> i64 {
    let rank = (0..sorted.len()).find(|&i| (i + 1) as f64 >= share * sorted.len() as f64);
    sorted[rank.unwrap_or(sorted.len() - 1)]
}

proptest! {
    #[test]
    fn it_is_the_nearest_rank_within_its_bounds(
        mut delays in prop::collection::vec(-1000i64..1000, 1..200), share in 0.0f64..=1.0,
        unknown in 0u64..20,
    ) {
        delays.sort_unstable();
        let found = of(&delays, unknown, 0, share).unwrap();
        let value = found.value.unwrap();
        prop_assert_eq!(value, nearest(&delays, share));
        prop_assert!(found.low.is_none_or(|low| low <= value));
        prop_assert!(found.high.is_none_or(|high| high >= value));
    }

    /// Whatever the unknown delays are, the bounds contain the sample's true quantile.
    #[test]
    fn unknown_delays_may_be_any(
        known in prop::collection::vec(-1000i64..1000, 1..100),
        unknown in prop::collection::vec(-2000i64..2000, 0..20), share in 0.0f64..=1.0,
    ) {
        let mut delays = known.clone();
        delays.sort_unstable();
        let mut all = [known, unknown.clone()].concat();
        all.sort_unstable();
        let found = of(&delays, unknown.len() as u64, 0, share).unwrap();
        let truth = nearest(&all, share);
        prop_assert!(found.low.is_none_or(|low| low <= truth), "{:?} {}", found, truth);
        prop_assert!(found.high.is_none_or(|high| high >= truth), "{:?} {}", found, truth);
    }

    /// Lost packets are above all that arrived.
    #[test]
    fn lost_packets_are_the_slowest(
        mut delays in prop::collection::vec(0i64..1000, 1..100), lost in 0u64..50,
        share in 0.0f64..=1.0,
    ) {
        delays.sort_unstable();
        let mut all = delays.clone();
        all.extend(vec![i64::MAX; usize::try_from(lost).unwrap()]);
        let truth = Some(nearest(&all, share)).filter(|delay| *delay < i64::MAX);
        prop_assert_eq!(of(&delays, 0, lost, share).unwrap().value, truth);
    }
}

/// A generator of numbers from 0 to 1 (SplitMix64).
fn random(seed: &mut u64) -> f64 {
    *seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *seed;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
}

/// The bounds hold as often as promised: in at least 95 % of 2000 samples, for each of three shares.
#[test]
fn bounds_hold_as_often_as_they_say() {
    let mut seed = 1;
    for (share, n) in [(0.5, 60), (0.9, 200), (0.99, 1_000)] {
        let truth = share * 1e9;
        let mut held = 0;
        for _ in 0..2_000 {
            #[expect(clippy::cast_possible_truncation, reason = "0 to 10^9")]
            let mut delays: Vec<i64> = (0..n).map(|_| (random(&mut seed) * 1e9) as i64).collect();
            delays.sort_unstable();
            let found = of(&delays, 0, 0, share).unwrap();
            let low = found.low.is_none_or(|low| low as f64 <= truth);
            held += i32::from(low && found.high.is_none_or(|high| high as f64 >= truth));
        }
        assert!(held >= 1_880, "{share}: {held} of 2000");
        assert!(held < 2_000, "{share}: bounds that always hold say nothing");
    }
}

#[test]
fn few_samples_bound_nothing_far_out() {
    let found = of(&[1, 2, 3, 4, 5], 0, 0, 0.99).unwrap();
    assert_eq!((found.value, found.high), (Some(5), None));
    assert_eq!(of(&[], 0, 0, 0.5), None);
    assert_eq!(of(&[1], 0, 0, f64::NAN), None);
    assert_eq!(of(&[1], 0, 0, 1.5), None);
    assert_eq!(of(&[1, 2], 0, 2, 0.75).unwrap().value, None);
}

#[test]
fn ranks_of_the_median_of_ten_are_the_tables() {
    // The known 95 % interval of the median of 10 (97.9 %): the 2nd to the 9th.
    assert_eq!(ranks(10, 0.5), (Some(2), Some(9)));
    // For 5 there is none.
    assert_eq!(ranks(5, 0.5), (None, None));
}
