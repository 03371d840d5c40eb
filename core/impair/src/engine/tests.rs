//! The engine's fates, measured with fixed seeds against the configured impairments.

use std::time::Duration;

use super::*;
use crate::{Bursts, Distribution, Jitter, Loss, RandomLoss};

const N: usize = 200_000;
/// One percent.
const PERCENT: u32 = 10_000_000;

fn packet(bytes: u32) -> Packet {
    Packet { bytes, network_bytes: bytes - 14, packets: 1, dropped: false }
}

/// The fates of packets that arrive every `gap` ns.
fn fates(asked: &Impairments, seed: u64, count: usize, gap: u64) -> Vec<Fate> {
    let mut direction = Direction::new(asked, seed);
    assert_eq!(asked.check(), Ok(()));
    let fates = (0..count as u64).map(|n| direction.offer(n * gap, &packet(1000))).collect();
    assert!(direction.ledger().closes());
    fates
}

fn is_lost(fate: &Fate) -> bool {
    matches!(fate, Fate::Lost(_))
}

fn losses(asked: &Impairments, seed: u64) -> Vec<bool> {
    fates(asked, seed, N, 1_000_000_000).iter().map(is_lost).collect()
}

fn share_of(values: &[bool]) -> f64 {
    values.iter().filter(|&&lost| lost).count() as f64 / values.len() as f64
}

/// Lengths of the runs of `true`.
fn runs(values: &[bool]) -> Vec<usize> {
    values.split(|&lost| !lost).map(<[bool]>::len).filter(|&length| length > 0).collect()
}

fn random(share: u32, correlation: u32) -> Impairments {
    let loss = RandomLoss { share: Share(share), correlation: Share(correlation) };
    Impairments { loss: Some(Loss::Random(loss)), ..Impairments::default() }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn deviation(values: &[f64]) -> f64 {
    let mean = mean(values);
    (values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / values.len() as f64).sqrt()
}

/// First-order autocorrelation.
fn correlation(values: &[f64]) -> f64 {
    let mean = mean(values);
    let both: f64 = values.windows(2).map(|w| (w[0] - mean) * (w[1] - mean)).sum();
    both / values.iter().map(|x| (x - mean).powi(2)).sum::<f64>()
}

#[test]
fn random_loss_has_its_share() {
    for (seed, share) in [(1, PERCENT / 10), (2, PERCENT), (3, 30 * PERCENT), (4, 99 * PERCENT)] {
        let p = f64::from(share) / 1e9;
        let sigma = (p * (1.0 - p) / N as f64).sqrt();
        let lost = losses(&random(share, 0), seed);
        assert!((share_of(&lost) - p).abs() < 3.0 * sigma, "{p}: {}", share_of(&lost));
    }
    assert!(losses(&random(100 * PERCENT, 0), 5).iter().all(|&lost| lost));
}

#[test]
fn correlated_loss_keeps_its_share_and_has_its_correlation() {
    for (seed, share, rho) in [(1, 5, 25), (2, 20, 50), (3, 40, 80)] {
        let lost = losses(&random(share * PERCENT, rho * PERCENT), seed);
        let (p, r) = (f64::from(share) / 100.0, f64::from(rho) / 100.0);
        // The variance of the mean of a chain with autocorrelation r^k.
        let sigma = (p * (1.0 - p) / N as f64 * (1.0 + r) / (1.0 - r)).sqrt();
        assert!((share_of(&lost) - p).abs() < 3.0 * sigma, "{p} {}", share_of(&lost));
        let values: Vec<f64> = lost.iter().map(|&lost| f64::from(u8::from(lost))).collect();
        assert!((correlation(&values) - r).abs() < 0.01, "{r} {}", correlation(&values));
        let lengths: Vec<f64> = runs(&lost).iter().map(|&length| length as f64).collect();
        let expected = 1.0 / ((1.0 - r) * (1.0 - p));
        assert!((mean(&lengths) / expected - 1.0).abs() < 0.02, "{expected} {}", mean(&lengths));
    }
}

#[test]
fn bursts_have_their_mean_and_their_lengths() {
    let bursts = Bursts {
        enter: Share(PERCENT),
        leave: Share(25 * PERCENT),
        bad: Share::ALL,
        good: Share::NONE,
    };
    let asked = |bursts| Impairments { loss: Some(Loss::Bursts(bursts)), ..Impairments::default() };
    let lost = losses(&asked(bursts), 11);
    // A chain with autocorrelation 1 - enter - leave.
    let (p, r) = (bursts.mean_loss(), 1.0 - 0.01 - 0.25);
    assert!((p - 0.01 / 0.26).abs() < 1e-12);
    let sigma = (p * (1.0 - p) / N as f64 * (1.0 + r) / (1.0f64 - r)).sqrt();
    assert!((share_of(&lost) - p).abs() < 3.0 * sigma, "{p} {}", share_of(&lost));
    let lengths: Vec<f64> = runs(&lost).iter().map(|&length| length as f64).collect();
    // Geometric: mean 1/leave, deviation sqrt(1 - leave) / leave.
    let sigma = (0.75f64).sqrt() / 0.25 / (lengths.len() as f64).sqrt();
    assert!((mean(&lengths) - 4.0).abs() < 3.0 * sigma, "{}", mean(&lengths));

    let mixed = Bursts { bad: Share(50 * PERCENT), good: Share(PERCENT), ..bursts };
    let lost = losses(&asked(mixed), 12);
    let expected = (0.01 * 0.5 + 0.25 * 0.01) / 0.26;
    assert!((mixed.mean_loss() - expected).abs() < 1e-12);
    assert!((share_of(&lost) - expected).abs() < 0.002, "{expected} {}", share_of(&lost));
}

#[test]
fn a_pattern_is_exact_and_goes_on_over_a_change() {
    let pattern = vec![false, true, true, false, false];
    let asked =
        Impairments { loss: Some(Loss::Pattern(pattern.clone())), ..Impairments::default() };
    let lost = losses(&asked, 1);
    assert!(lost.iter().enumerate().all(|(n, &lost)| lost == pattern[n % 5]));
    let mut direction = Direction::new(&asked, 1);
    let next = |direction: &mut Direction| is_lost(&direction.offer(0, &packet(100)));
    assert!(!next(&mut direction) && next(&mut direction));
    direction.set(&Impairments { duplicate: Share::ALL, ..asked });
    assert!(next(&mut direction) && !next(&mut direction));
    let other =
        Impairments { loss: Some(Loss::Pattern(vec![true, false])), ..Impairments::default() };
    direction.set(&other);
    assert!(next(&mut direction) && !next(&mut direction), "a new one starts at its start");
}

fn delays(distribution: Distribution, rho: u32, seed: u64) -> Vec<f64> {
    delays_around(Duration::from_millis(100), distribution, rho, seed)
}

fn delays_around(delay: Duration, distribution: Distribution, rho: u32, seed: u64) -> Vec<f64> {
    let spread = Duration::from_millis(2);
    let jitter = Jitter { spread, distribution, correlation: Share(rho * PERCENT) };
    let asked = Impairments { delay, jitter: Some(jitter), ..Impairments::default() };
    let gap = 3_600_000_000_000;
    let fates = fates(&asked, seed, N, gap);
    let delay = |(n, fate): (usize, &Fate)| match fate {
        Fate::Sent { at_ns, .. } => (at_ns - n as u64 * gap) as f64 / 1e6,
        Fate::Lost(cause) => panic!("{cause:?}"),
    };
    fates.iter().enumerate().map(delay).collect()
}

#[test]
fn jitter_has_its_mean_deviation_and_correlation() {
    let root3 = 3f64.sqrt();
    for (distribution, centre, sigma) in [
        (Distribution::Normal, 100.0, 2.0),
        (Distribution::Uniform, 100.0, 2.0 / root3),
        (Distribution::Pareto, 102.0, 2.0 * root3),
    ] {
        for (seed, rho) in [(1, 0), (2, 50)] {
            let values = delays(distribution, rho, seed);
            let r = f64::from(rho) / 100.0;
            let error = sigma / (N as f64).sqrt() * ((1.0 + r) / (1.0f64 - r)).sqrt();
            let what = format!("{distribution:?} {rho}");
            assert!((mean(&values) - centre).abs() < 3.0 * error, "{what}: {}", mean(&values));
            // The fourth moment of the Pareto distribution is infinite: its deviation shows slowly.
            let heavy = distribution == Distribution::Pareto;
            let (wide, far) = if heavy { (0.15, 0.1) } else { (0.01, 0.01) };
            assert!(
                (deviation(&values) / sigma - 1.0).abs() < wide,
                "{what}: {}",
                deviation(&values)
            );
            assert!((correlation(&values) - r).abs() < far, "{what}: {}", correlation(&values));
        }
    }
    let uniform = delays(Distribution::Uniform, 0, 3);
    assert!(uniform.iter().all(|d| (98.0..=102.0).contains(d)));
    // Around no delay, as netem with `delay 0ms 2ms`.
    let none = delays_around(Duration::ZERO, Distribution::Uniform, 0, 6);
    let share = none.iter().filter(|d| **d == 0.0).count() as f64 / N as f64;
    assert!((share - 0.5).abs() < 3.0 * 0.5 / (N as f64).sqrt(), "{share}");
    assert!(none.iter().all(|d| (0.0..=2.0).contains(d)));
    let mut pareto = delays(Distribution::Pareto, 0, 4);
    pareto.sort_by(f64::total_cmp);
    assert!(pareto[0] >= 100.0);
    // 4 ms x (2^(1/3) - 1) is the median of what is added to 100 ms.
    assert!((pareto[N / 2] - 100.0 - 4.0 * (2f64.cbrt() - 1.0)).abs() < 0.02);
    let normal = delays(Distribution::Normal, 0, 5);
    let near = normal.iter().filter(|d| (98.0..102.0).contains(*d)).count() as f64 / N as f64;
    assert!((near - 0.682_689).abs() < 0.004, "{near}");
}

#[test]
fn order_is_kept_but_for_those_picked() {
    let jitter = Jitter {
        spread: Duration::from_millis(5),
        distribution: Distribution::Normal,
        correlation: Share::NONE,
    };
    let asked = Impairments {
        delay: Duration::from_millis(10),
        jitter: Some(jitter),
        reorder: Share(5 * PERCENT),
        ..Impairments::default()
    };
    let mut direction = Direction::new(&asked, 3);
    let (mut last, mut picked) = (0, 0u64);
    for n in 0..N as u64 {
        let now = n * 10_000;
        let Fate::Sent { at_ns, .. } = direction.offer(now, &packet(100)) else { panic!() };
        assert!(at_ns >= now);
        if direction.ledger().reordered.packets > picked {
            picked += 1;
            assert_eq!(at_ns, now, "not delayed at all");
        } else {
            assert!(at_ns >= last, "others keep their order");
            last = at_ns;
        }
    }
    let sigma = (0.05 * 0.95 * N as f64).sqrt();
    assert!((picked as f64 - 0.05 * N as f64).abs() < 3.0 * sigma, "{picked}");
}

#[test]
fn duplicates_and_wrong_bits_have_their_share_and_place() {
    let asked = Impairments {
        duplicate: Share(3 * PERCENT),
        corrupt: Share(2 * PERCENT),
        ..Impairments::default()
    };
    let (mut copies, mut wrong) = (0, vec![]);
    for fate in fates(&asked, 8, N, 1000) {
        let Fate::Sent { at_ns, corrupt_bit, again_ns } = fate else { panic!() };
        assert!(again_ns.is_none_or(|again| again >= at_ns));
        copies += u32::from(again_ns.is_some());
        wrong.extend(corrupt_bit);
    }
    let near =
        |count: f64, p: f64| (count - p * N as f64).abs() < 3.0 * (p * (1.0 - p) * N as f64).sqrt();
    assert!(near(f64::from(copies), 0.03), "{copies}");
    assert!(near(wrong.len() as f64, 0.02), "{}", wrong.len());
    assert!(wrong.iter().all(|bit| (14 * 8..8000).contains(bit)));
    let bits: Vec<f64> = wrong.iter().map(|&bit| f64::from(bit)).collect();
    // Even over 7,888 bits: deviation 2277, of the mean of 4,000 of them 36.
    assert!((mean(&bits) - 4055.5).abs() < 110.0, "{}", mean(&bits));
}

#[test]
fn the_rate_is_exact() {
    for rate in [1_000_003, 99_999_989, 1_000_000_000, 25_000_000_000] {
        let queue = Some(Queue::Packets(u32::MAX));
        let asked = Impairments { rate: Some(rate), queue, ..Impairments::default() };
        let mut direction = Direction::new(&asked, 1);
        let (mut bits, mut last) = (0, 0);
        for n in 0..1_000_000u32 {
            let bytes = 60 + n % 1451;
            bits += u64::from(bytes) * 8;
            let Fate::Sent { at_ns, .. } = direction.offer(0, &packet(bytes)) else { panic!() };
            last = at_ns;
        }
        let measured = bits as f64 / (last as f64 / 1e9);
        assert!((measured / rate as f64 - 1.0).abs() < 1e-6, "{rate} {measured}");
    }
}

#[test]
fn a_queue_of_packets_holds_so_many() {
    // A packet of 1000 bytes takes 1 ms.
    let asked = Impairments {
        rate: Some(8_000_000),
        queue: Some(Queue::Packets(3)),
        delay: Duration::from_millis(5),
        ..Impairments::default()
    };
    let mut direction = Direction::new(&asked, 1);
    let mut offer = |ms: u64, packets: u32| {
        let packet = Packet { packets, ..packet(1000) };
        match direction.offer(ms * 1_000_000, &packet) {
            Fate::Sent { at_ns, .. } => Some(at_ns / 1_000_000),
            Fate::Lost(Cause::Queue) => None,
            Fate::Lost(cause) => panic!("{cause:?}"),
        }
    };
    assert_eq!(offer(0, 1), Some(6));
    assert_eq!([offer(0, 1), offer(0, 1), offer(0, 1)], [Some(7), Some(8), Some(9)]);
    assert_eq!(offer(0, 1), None, "one is transmitted, three wait");
    assert_eq!(offer(1, 1), Some(10), "the second one is transmitted now");
    assert_eq!(offer(1, 1), None);
    assert_eq!(offer(100, 7), Some(106), "an idle transmitter takes anything");
    assert_eq!(offer(100, 2), Some(107));
    assert_eq!(offer(100, 2), None, "counted in packets");
    assert_eq!(offer(100, 1), Some(108));
}

/// As sch_netem(8)'s `limit` (Linux, `netem_enqueue`): what is delayed is bounded, and a copy takes room, too.
#[test]
fn a_limit_bounds_what_is_held_with_and_without_a_rate() {
    let asked = Impairments {
        delay: Duration::from_millis(5),
        limit: Some(3),
        duplicate: Share::ALL,
        ..Impairments::default()
    };
    for rate in [None, Some(8_000_000)] {
        let mut direction = Direction::new(&Impairments { rate, ..asked.clone() }, 1);
        let copies = |fate| match fate {
            Fate::Sent { again_ns, .. } => 1 + u32::from(again_ns.is_some()),
            Fate::Lost(Cause::Limit) => 0,
            Fate::Lost(cause) => panic!("{cause:?}"),
        };
        let offer = |direction: &mut Direction| copies(direction.offer(0, &packet(1000)));
        assert_eq!([0; 3].map(|_| offer(&mut direction)), [2, 1, 0]);
        direction.delivered(1, 1000);
        assert_eq!([0; 2].map(|_| offer(&mut direction)), [1, 0]);
        // What is lost in transit takes no room, and needs none.
        direction.set(&Impairments { rate, ..random(100 * PERCENT, 0) });
        assert_eq!(direction.offer(0, &packet(1000)), Fate::Lost(Cause::Loss));
        let ledger = direction.ledger();
        assert!(ledger.closes());
        assert_eq!((ledger.held.packets, ledger.lost.limit.packets), (3, 2));
    }
    let alone = Impairments { limit: Some(1), ..Impairments::default() };
    let mut direction = Direction::new(&alone, 1);
    assert!(!is_lost(&direction.offer(0, &packet(60))));
}

/// What an expression drops changes nobody else's fate.
#[test]
fn what_is_dropped_is_in_the_books_alone() {
    let asked = Impairments { drop: Some("icmp".into()), ..everything() };
    let mut direction = Direction::new(&asked, 77);
    let without = fates(&everything(), 77, N, 1000);
    for (number, expected) in without.iter().enumerate() {
        let dropped = number % 3 == 0;
        let packet = Packet { dropped, ..packet(1000) };
        let fate = direction.offer(number as u64 * 1_000_000, &packet);
        match dropped {
            true => assert_eq!(fate, Fate::Lost(Cause::Drop)),
            false => assert_eq!(timeless(&fate), timeless(expected)),
        }
    }
    let lost = direction.ledger().lost;
    assert_eq!(lost.drop.packets, (N as u64).div_ceil(3));
    assert!(direction.ledger().closes());
}

#[test]
fn a_queue_of_time_holds_so_long() {
    let queue = Some(Queue::Time(Duration::from_millis(2)));
    let asked = Impairments { rate: Some(8_000_000), queue, ..Impairments::default() };
    let mut direction = Direction::new(&asked, 1);
    let mut lost = |us: u64| is_lost(&direction.offer(us * 1000, &packet(1000)));
    assert_eq!([lost(0), lost(0), lost(0), lost(0)], [false, false, false, true]);
    assert_eq!([lost(999), lost(1000), lost(1000)], [true, false, true]);
}

#[test]
fn longer_than_the_mtu_is_lost() {
    let asked = Impairments { mtu: Some(1400), ..Impairments::default() };
    let mut direction = Direction::new(&asked, 1);
    assert!(!is_lost(&direction.offer(0, &packet(1414))));
    assert_eq!(direction.offer(0, &packet(1415)), Fate::Lost(Cause::Mtu));
    assert_eq!(direction.ledger().lost.mtu, Count::new(1, 1415));
}

/// All impairments that do not depend on time.
fn everything() -> Impairments {
    let jitter = Jitter {
        spread: Duration::from_millis(1),
        distribution: Distribution::Normal,
        correlation: Share(25 * PERCENT),
    };
    Impairments {
        delay: Duration::from_millis(5),
        jitter: Some(jitter),
        duplicate: Share(2 * PERCENT),
        reorder: Share(2 * PERCENT),
        corrupt: Share(2 * PERCENT),
        ..random(10 * PERCENT, 30 * PERCENT)
    }
}

/// A fate without its times.
fn timeless(fate: &Fate) -> (bool, Option<u32>, bool) {
    match fate {
        Fate::Lost(_) => (true, None, false),
        Fate::Sent { corrupt_bit, again_ns, .. } => (false, *corrupt_bit, again_ns.is_some()),
    }
}

#[test]
fn the_same_seed_deals_out_the_same_fates() {
    let asked = everything();
    let first = fates(&asked, 77, N, 1000);
    assert_eq!(first, fates(&asked, 77, N, 1000));
    let at_other_times = fates(&asked, 77, N, 77_777);
    assert!(first.iter().map(timeless).eq(at_other_times.iter().map(timeless)));
    assert!(!first.iter().map(timeless).eq(fates(&asked, 78, N, 1000).iter().map(timeless)));
}

#[test]
fn one_kind_does_not_change_what_another_deals_out() {
    let all = everything();
    let first: Vec<_> = fates(&all, 9, N, 1000).iter().map(timeless).collect();
    let other_delay = Impairments {
        delay: Duration::from_millis(50),
        jitter: None,
        reorder: Share::NONE,
        mtu: Some(1500),
        ..all.clone()
    };
    assert!(fates(&other_delay, 9, N, 1000).iter().map(timeless).eq(first.iter().copied()));
    let only_loss = Impairments { loss: all.loss.clone(), ..Impairments::default() };
    assert!(losses(&only_loss, 9).into_iter().eq(first.iter().map(|fate| fate.0)));
    let no_loss = fates(&Impairments { loss: None, ..all }, 9, N, 1000);
    assert!(no_loss.iter().zip(&first).all(|(a, b)| b.0 || timeless(a) == *b));
}

#[test]
fn a_live_change_keeps_count_order_and_transmitter() {
    let slow = Impairments {
        rate: Some(8_000_000),
        delay: Duration::from_millis(50),
        ..random(10 * PERCENT, 0)
    };
    let fast = Impairments { delay: Duration::from_millis(1), ..slow.clone() };
    let whole: Vec<bool> = fates(&slow, 4, 1000, 2_000_000).iter().map(is_lost).collect();
    let mut direction = Direction::new(&slow, 4);
    let mut last = 0;
    for (n, lost) in (0..1000u64).zip(whole) {
        if n == 500 {
            direction.set(&fast);
        }
        let fate = direction.offer(n * 2_000_000, &packet(1000));
        assert_eq!(is_lost(&fate), lost);
        if let Fate::Sent { at_ns, .. } = fate {
            assert!(at_ns >= last);
            last = at_ns;
        }
    }
    assert_eq!(direction.offered(), 1000);
    assert_eq!(direction.ledger().offered.packets, 1000);
    assert_eq!(last, 999 * 2_000_000 + 2_000_000, "the new delay, once the old packets are there");

    let mut direction = Direction::new(&Impairments { loss: None, ..slow.clone() }, 4);
    for _ in 0..10 {
        direction.offer(0, &packet(1000));
    }
    direction.set(&Impairments { rate: Some(16_000_000), loss: None, ..fast });
    let Fate::Sent { at_ns, .. } = direction.offer(0, &packet(1000)) else { panic!() };
    assert_eq!(at_ns, 60_000_000, "never before the one before it");
    let Fate::Sent { at_ns, .. } = direction.offer(60_000_000, &packet(1000)) else { panic!() };
    assert_eq!(at_ns, 61_500_000);
}

#[test]
fn super_frames_are_cut_only_where_it_matters() {
    let needs = |asked: Impairments| Direction::new(&asked, 1).needs_packets(65_000);
    let none = Impairments::default;
    let rate = |rate| Impairments { rate: Some(rate), ..none() };
    assert!(!needs(none()));
    assert!(!needs(Impairments { delay: Duration::from_secs(1), ..none() }));
    assert!(!needs(random(0, 0)));
    assert!(!needs(Impairments { loss: Some(Loss::Pattern(vec![false])), ..none() }));
    assert!(!needs(rate(1_040_000_000)) && needs(rate(1_039_000_000)));
    assert!(needs(random(1, 0)));
    assert!(needs(Impairments { loss: Some(Loss::Pattern(vec![false, true])), ..none() }));
    assert!(needs(Impairments { duplicate: Share(1), ..none() }));
    assert!(needs(Impairments { reorder: Share(1), ..none() }));
    assert!(needs(Impairments { corrupt: Share(1), ..none() }));
    assert!(needs(Impairments { mtu: Some(1500), ..none() }));
    assert!(needs(Impairments { limit: Some(1000), ..none() }));
    assert!(needs(Impairments { drop: Some("icmp".into()), ..none() }));
    let mut direction = Direction::new(&none(), 1);
    direction.offer(0, &Packet { packets: 44, ..packet(65_000) });
    assert_eq!(direction.ledger().offered, Count::new(44, 65_000));
    assert_eq!(direction.offered(), 44);
}

mod books {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whatever is offered when, and whatever the carrier does with it, the ledger balances, and
        /// the engine's fates equal its counts.
        #[test]
        fn always_close(
            seed: u64,
            rate in prop::option::of(1000u64..10_000_000_000),
            queue in 1u32..50,
            offers in prop::collection::vec((0u64..1_000_000, 14u32..2000, 1u32..3, 0u8..4), 1..400),
        ) {
            let queue = Some(Queue::Packets(queue));
            let limit = Some(100);
            let asked = Impairments { rate, queue, limit, mtu: Some(1500), ..everything() };
            let mut direction = Direction::new(&asked, seed);
            let (mut now, mut held, mut sent) = (0, 0u64, 0u64);
            for (gap, bytes, packets, end) in offers {
                now += gap;
                let packet = Packet { bytes, network_bytes: bytes - 14, packets, dropped: end == 2 };
                if let Fate::Sent { at_ns, corrupt_bit, again_ns } = direction.offer(now, &packet) {
                    prop_assert!(at_ns >= now);
                    prop_assert!(corrupt_bit.is_none_or(|bit| (112..bytes * 8).contains(&bit)));
                    for _ in 0..1 + u8::from(again_ns.is_some()) {
                        match end {
                            0 => held += u64::from(packets),
                            1 => direction.count_lost(Cause::Memory, packets, bytes.into()),
                            _ => {
                                sent += u64::from(packets);
                                direction.delivered(packets, bytes.into());
                            }
                        }
                    }
                }
                if end == 3 {
                    direction.count_refused(Cause::Overrun, 2, 0);
                }
                prop_assert!(direction.ledger().closes());
            }
            prop_assert_eq!(direction.ledger().held.packets, held);
            prop_assert_eq!(direction.ledger().sent.packets, sent);
        }
    }
}
