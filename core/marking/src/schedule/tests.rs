//! Blocks compared with a search over all blocks, and refusals of invalid schedules.

use proptest::prelude::*;

use super::*;

fn schedule() -> impl Strategy<Value = Schedule> {
    (2u64..2_000, 0u64..1_000, 0u64..5_000)
        .prop_filter_map("fits", |(period, guard, start)| Schedule::new(start, period, guard).ok())
}

/// The block of a colour at this time or nearest to it; of two equally near ones the earlier.
fn nearest(schedule: &Schedule, time: u64, colour: Colour) -> Option<u64> {
    let distance = |block: i64| {
        let block = i128::from(block);
        let begin = i128::from(schedule.start) + block * i128::from(schedule.period);
        let (end, time) = (begin + i128::from(schedule.period), i128::from(time));
        if time < begin { 2 * (begin - time) } else { (2 * (time - end) + 1).max(0) }
    };
    let around = (i128::from(time) - i128::from(schedule.start)) / i128::from(schedule.period);
    let around = i64::try_from(around).unwrap();
    let block = (around - 4..around + 4)
        .filter(|block| (block.rem_euclid(2) == 0) == (colour == Colour::Starter))
        .min_by_key(|&block| distance(block))?;
    u64::try_from(block).ok()
}

proptest! {
    #[test]
    fn the_block_is_the_nearest_of_its_colour(
        schedule in schedule(), time in 0u64..20_000, odd: bool,
    ) {
        let colour = if odd { Colour::Next } else { Colour::Starter };
        // Nothing earlier than half a period before the first block belongs to it.
        let time = schedule.start.saturating_sub(schedule.period / 2) + time;
        let found = schedule.block_of(time, colour);
        prop_assert_eq!(found, nearest(&schedule, time, colour));
        if let Some(block) = found {
            prop_assert!(time >= schedule.origin(block));
            prop_assert!(time < schedule.reused(block));
        }
    }

    /// The rule of half a period: clock error and delay together must be less.
    #[test]
    fn a_packet_finds_its_block_while_less_than_half_a_period_off(
        schedule in schedule(), block in 0u64..1_000, place in 0.0..1.0, early: bool, off in 0.0..1.0,
    ) {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to of")]
        let part = |of: u64, share: f64| ((of as f64 * share) as u64).min(of - 1);
        let marked = schedule.begin(block) + part(schedule.period, place);
        let off = part(schedule.period.div_ceil(2), off);
        let seen = if early { marked - off } else { marked + off };
        prop_assert_eq!(schedule.block_of(seen, Colour::of(block)), Some(block));
    }

    #[test]
    fn times_of_a_block_fit_its_sum(schedule in schedule(), block in 0u64..1_000) {
        let longest = schedule.closed(block) - schedule.origin(block);
        prop_assert!(u128::from(longest) * u128::from(schedule.most_packets()) < 1 << 64);
        prop_assert!(schedule.closed(block) < schedule.reused(block));
        prop_assert!(schedule.reused(block) - schedule.closed(block) >= 2 * schedule.period);
    }
}

#[test]
fn a_guard_of_half_a_period_is_refused_with_what_would_do() {
    assert!(Schedule::new(1_000, 1_000, 499).is_ok());
    let error = Schedule::new(1_000, 1_000, 500).unwrap_err();
    assert_eq!(error, Error::Guard { period: 1_000, guard: 500, least: 1_000 });
    assert!(error.to_string().contains("take a period above 1000 ns"), "{error}");
    assert!(Schedule::new(u64::MAX, 1_000, u64::MAX).is_err());
}

#[test]
fn periods_and_starts_that_mean_nothing_are_refused() {
    for (start, period) in [(1_000, 0), (1_000, 1), (1_000, LONGEST + 1), (499, 1_000)] {
        assert!(Schedule::new(start, period, 0).is_err(), "{start} {period}");
    }
}

#[test]
fn blocks_change_with_time_and_mark() {
    let schedule = Schedule::new(30_000, 1_000, 100).unwrap();
    let of = |time, block| schedule.block_of(time, Colour::of(block));
    assert_eq!(of(31_001, 0), Some(0));
    assert_eq!(of(30_999, 1), Some(1));
    assert_eq!(of(29_500, 0), Some(0));
    assert_eq!(of(29_499, 0), None);
    assert_eq!(of(29_999, 1), None);
    // The mark of block -1, which does not exist.
    assert_eq!(of(30_001, 1), None);
    assert_eq!((schedule.block_at(29_999), schedule.block_at(31_000)), (None, Some(1)));
    assert_eq!(schedule.counting_interval(), 800);
    assert_eq!(guard_for(10, 20, 5), 45);
}

#[test]
fn the_bounds_of_sums_are_those_of_the_documents() {
    let most = |seconds: u64| {
        let period = seconds * 1_000_000_000;
        Schedule::new(period, period, period / 2 - 1).unwrap().most_packets()
    };
    assert!(most(1) > 9_200_000_000);
    assert!(most(60) > 150_000_000);
    assert!(most(3_600) > 2_500_000);
}

#[test]
fn the_end_of_time_is_no_overflow() {
    let schedule = Schedule::new(u64::MAX - 10, 1_000, 100).unwrap();
    assert_eq!(schedule.block_of(u64::MAX, Colour::Starter), Some(0));
    assert_eq!(schedule.closed(u64::MAX), u64::MAX);
    assert_eq!(schedule.origin(u64::MAX), u64::MAX - 500);
}
