//! The bounds of buckets and of the shared budget, over random input.

use proptest::prelude::*;

use super::*;

/// The largest sum of `passed` (time, amount) in any `window`.
fn most_within(passed: &[(u64, u64)], window: u64) -> u64 {
    let (mut first, mut sum, mut most) = (0, 0, 0);
    for &(time, amount) in passed {
        sum += amount;
        while passed[first].0 + window <= time {
            sum -= passed[first].1;
            first += 1;
        }
        most = most.max(sum);
    }
    most
}

#[test]
fn a_bucket_gives_its_burst_and_then_its_rate() {
    let mut bucket = Bucket::new(3, 5);
    assert!(bucket.take(0, 5));
    assert!(!bucket.take(0, 1));
    // A third of a second is not a whole number of nanoseconds, but still exact.
    assert!(!bucket.take(333_333_333, 1));
    assert!(bucket.take(333_333_334, 1));
    assert!(!bucket.take(666_666_666, 1));
    assert!(bucket.take(666_666_667, 1));
    assert!(bucket.take(1_000_000_000, 1));
    assert!(bucket.take(3_000_000_000, 5));
    assert!(!bucket.take(u64::MAX, 6), "more than the burst");
    let mut closed = Bucket::new(0, 1);
    assert!(closed.take(7, 1) && !closed.take(u64::MAX, 1));
    assert!(Bucket::new(u64::MAX, u64::MAX).take(u64::MAX, u64::MAX));
}

#[test]
fn a_lone_sender_may_use_everything() {
    let budget = Budget { packets: 1000, bytes: 1_000_000, packet_burst: 64, byte_burst: 262_144 };
    let mut fair = FairBudget::new(budget, 0);
    for n in 0..100_000u64 {
        assert_ne!(fair.take(n * 1_000_000, 9, 1000), Verdict::Dropped, "{n}");
    }
    assert_eq!(fair.active(100_000_000_000), 1);
    assert_eq!(fair.active(200_000_000_000), 0);
    // And no more than that.
    let passed = (0..1_000_000u64)
        .filter(|n| fair.take(200_000_000_000 + n * 10_000, 9, 1000) != Verdict::Dropped)
        .count();
    assert!((10_000..=10_000 + 2 * 64).contains(&passed), "{passed}");
}

#[test]
fn a_burst_is_exact() {
    let budget = Budget { packets: 1000, bytes: 1_000_000, packet_burst: 64, byte_burst: 262_144 };
    let mut fair = FairBudget::new(budget, 0);
    let verdicts: Vec<Verdict> = (0..70).map(|_| fair.take(0, 1, 100)).collect();
    let of = |verdict| verdicts.iter().filter(|&&v| v == verdict).count();
    assert_eq!([of(Verdict::Share), of(Verdict::Room), of(Verdict::Dropped)], [4, 60, 6]);
    // Another sender still has its seat's burst.
    assert_eq!((0..9).filter(|_| fair.take(0, 2, 100) == Verdict::Share).count(), 4);
}

#[test]
fn frames_larger_than_a_seat_pass_at_their_share() {
    let budget = Budget { packets: 1000, bytes: 6_400_000, packet_burst: 64, byte_burst: 262_144 };
    let mut fair = FairBudget::new(budget, 0);
    let mut lost = 0;
    for n in 0..10_000u64 {
        let now = n * 100_000;
        fair.take(now, 2, 1500);
        // 49 frames of 64 KiB a second are half of the bytes.
        if n % 205 == 0 && fair.take(now, 1, 65_536) == Verdict::Dropped {
            lost += 1;
        }
    }
    assert_eq!(lost, 0);
}

#[test]
fn any_budget_is_judged_without_a_panic() {
    let most = u64::MAX;
    let budget = Budget { packets: most, bytes: most, packet_burst: most, byte_burst: most };
    let mut fair = FairBudget::new(budget, 0);
    assert_eq!(fair.take(most, 1, most), Verdict::Share);
    let nothing = Budget { packets: 0, bytes: 0, packet_burst: 0, byte_burst: 0 };
    let mut fair = FairBudget::new(nothing, most);
    fair.take(0, 1, most);
}

proptest! {
    #[test]
    fn a_bucket_never_gives_more(rate in 1u64..5000, burst in 0u64..200,
                                 gaps in prop::collection::vec((0u64..20_000_000, 0u64..40), 1..600)) {
        let mut bucket = Bucket::new(rate, burst);
        let mut now = 0;
        let mut passed = vec![];
        for (gap, n) in gaps {
            now += gap;
            if bucket.take(now, n) {
                passed.push((now, n));
            }
        }
        for window in [1, 1_000_000, 100_000_000, 1_000_000_000] {
            let bound = burst + (rate * window).div_ceil(1_000_000_000);
            prop_assert!(most_within(&passed, window) <= bound);
        }
    }

    #[test]
    fn a_budget_is_never_exceeded(
        packets in 1u64..1000, bytes in 1u64..500_000,
        input in prop::collection::vec((0u64..3_000_000, 0u64..40, 60u64..1514), 1..3000),
        stretch in prop::sample::select(vec![1u64, 1, 30, 400]),
    ) {
        let budget = Budget { packets, bytes, packet_burst: 64, byte_burst: 262_144 };
        let mut fair = FairBudget::new(budget, 0);
        let mut now = 0;
        let (mut count, mut sum) = (vec![], vec![]);
        for (gap, sender, size) in input {
            now += gap * if gap % 50 == 0 { stretch } else { 1 };
            if fair.take(now, sender, size) != Verdict::Dropped {
                count.push((now, 1));
                sum.push((now, size));
            }
        }
        for window in [1_000_000, 100_000_000, 1_000_000_000] {
            let most = packets * window / 1_000_000_000 + 3 * 64 + 1;
            prop_assert!(most_within(&count, window) <= most);
            let most = bytes * window / 1_000_000_000 + 3 * 262_144 + 1;
            prop_assert!(most_within(&sum, window) <= most);
        }
    }

    #[test]
    fn a_sender_within_its_share_loses_nothing(
        senders in 2u64..=16,
        flood in prop::collection::vec((1u64..200_000, 1u64..16, 60u64..1514), 500..3000),
    ) {
        // Sender 0 stays within its share among `senders`; the others send at any rate.
        let budget = Budget { packets: 4800, bytes: 4_800_000, packet_burst: 64, byte_burst: 262_144 };
        let mut fair = FairBudget::new(budget, 0);
        let gap = (1_000_000_000 * senders).div_ceil(4800);
        let (mut now, mut next) = (0, 0);
        for (step, other, size) in flood {
            now += step;
            while next <= now {
                prop_assert_ne!(fair.take(next, 0, 1000), Verdict::Dropped);
                next += gap;
            }
            fair.take(now, 1 + other % (senders - 1), size);
        }
    }
}
