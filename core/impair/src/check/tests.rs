//! Every refusal with its text, and values that are just allowed.

use std::time::Duration;

use super::*;
use crate::{Distribution, Jitter, RandomLoss};

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

fn none() -> Impairments {
    Impairments::default()
}

fn jitter(spread: Duration, distribution: Distribution) -> Option<Jitter> {
    Some(Jitter { spread, distribution, correlation: Share::NONE })
}

fn refusal(asked: &Impairments) -> String {
    let problem = asked.check().expect_err("is refused");
    format!("{}: {}", problem.key, problem.reason)
}

fn random(share: u32, correlation: u32) -> Impairments {
    let loss = RandomLoss { share: Share(share), correlation: Share(correlation) };
    Impairments { loss: Some(Loss::Random(loss)), ..none() }
}

fn pattern(length: usize) -> Impairments {
    Impairments { loss: Some(Loss::Pattern(vec![true; length])), ..none() }
}

fn rate(rate: u64) -> Impairments {
    Impairments { rate: Some(rate), ..none() }
}

#[test]
fn what_is_just_allowed() {
    assert_eq!(none().check(), Ok(()));
    assert_eq!(random(1_000_000_000, 999_999_999).check(), Ok(()));
    assert_eq!(pattern(65_536).check(), Ok(()));
    assert_eq!(rate(1000).check(), Ok(()));
    for distribution in [Distribution::Pareto, Distribution::Normal] {
        let alone = Impairments { jitter: jitter(ms(1), distribution), ..none() };
        assert_eq!(alone.check(), Ok(()));
    }
}

#[test]
fn nonsense_is_refused() {
    let bursts = |enter, leave| {
        let bursts =
            Bursts { enter: Share(enter), leave: Share(leave), bad: Share::ALL, good: Share(0) };
        Impairments { loss: Some(Loss::Bursts(bursts)), ..none() }
    };
    let queue = |queue| Impairments { queue: Some(queue), ..none() };
    let dropping = |words: &str| Impairments { drop: Some(words.into()), ..none() };
    for (asked, words) in [
        (random(1_500_000_000, 0), "loss: 150 % is more than all; at most 100 %"),
        (
            random(1, 1_000_000_001),
            "loss: correlation 100.0000001 % is more than all; at most 100 %",
        ),
        (
            random(1, 1_000_000_000),
            "loss: a correlation of 100 % would give all packets the first one's value",
        ),
        (bursts(2_000_000_000, 1), "loss: `enter` 200 % is more than all; at most 100 %"),
        (bursts(0, 1), "loss: `enter` is 0, so no burst would ever begin"),
        (bursts(1, 0), "loss: `leave` is 0, so the first burst would never end"),
        (pattern(0), "loss: the pattern is empty"),
        (pattern(65_537), "loss: a pattern of 65537 packets is too long; at most 65536"),
        (
            Impairments { duplicate: Share(u32::MAX), ..none() },
            "duplicate: 429.4967295 % is more than all; at most 100 %",
        ),
        (
            Impairments { reorder: Share(1), ..none() },
            "reorder: needs a `delay`: packets overtake by not being delayed",
        ),
        (
            Impairments { corrupt: Share(1_000_000_001), ..none() },
            "corrupt: 100.0000001 % is more than all; at most 100 %",
        ),
        (Impairments { mtu: Some(67), ..none() }, "mtu: 67 is less than IPv4 needs; at least 68"),
        (rate(0), "rate: 0 bit/s is too low; at least 1000 bit/s"),
        (rate(999), "rate: 999 bit/s is too low; at least 1000 bit/s"),
        (
            queue(Queue::Packets(0)),
            "queue: has room for no packet, so all but single ones would be lost",
        ),
        (
            queue(Queue::Time(ms(0))),
            "queue: has room for no time, so all but single packets would be lost",
        ),
        (
            Impairments { limit: Some(0), ..none() },
            "limit: lets no packet through: write loss: 100%",
        ),
        (dropping(" "), "drop: is empty, and would match every packet: write loss: 100%"),
        (dropping("icmp\nor tcp"), "drop: is not one line of at most 4096 bytes"),
        (dropping(&"not ".repeat(1025)), "drop: is not one line of at most 4096 bytes"),
    ] {
        assert_eq!(refusal(&asked), words);
    }
}

#[test]
fn memory_is_bounded_and_says_so() {
    let delayed = |delay, rate| Impairments { delay, rate, ..none() };
    assert_eq!(
        refusal(&delayed(Duration::from_secs(3601), Some(1000))),
        "delay: 3601s is too long; at most 3600s"
    );
    assert_eq!(
        refusal(&delayed(Duration::from_secs(20), None)),
        "delay: on a link without `rate`, 20s would have to hold 23.3 GiB at 10 Gb/s; at most 10s"
    );
    let nearly = Impairments {
        jitter: jitter(ms(1), Distribution::Normal),
        ..delayed(Duration::from_secs(10), None)
    };
    assert_eq!(
        refusal(&nearly),
        "delay: on a link without `rate`, 10.001s with its jitter would have to hold 11.6 GiB at \
         10 Gb/s; at most 10s"
    );
    assert_eq!(delayed(Duration::from_secs(10), None).check(), Ok(()));
    // A limit bounds what is held.
    let limited =
        |limit| Impairments { limit: Some(limit), ..delayed(Duration::from_secs(20), None) };
    assert_eq!(limited(177_302).check(), Ok(()));
    assert!(refusal(&limited(177_303)).starts_with("delay: on a link without `rate`"));
    assert_eq!(
        refusal(&delayed(ms(500), Some(10_000_000_000))),
        "delay: 500ms at 10000000000 bit/s would have to hold 596 MiB, and 1.4 MiB in the queue; \
         at most 256 MiB together"
    );
    assert_eq!(delayed(ms(200), Some(10_000_000_000)).check(), Ok(()));
    let jittery = Impairments {
        jitter: jitter(ms(5), Distribution::Uniform),
        ..delayed(ms(200), Some(10_000_000_000))
    };
    assert!(refusal(&jittery).starts_with("delay: 205ms with its jitter at"));
    let queued = |queue| Impairments { queue: Some(queue), rate: Some(1_000_000_000), ..none() };
    assert_eq!(
        refusal(&queued(Queue::Packets(200_000))),
        "queue: would have to hold 288.8 MiB of packets of 1514 bytes; at most 256 MiB"
    );
    assert_eq!(
        refusal(&queued(Queue::Time(Duration::from_secs(3)))),
        "queue: would have to hold 357.6 MiB of time; at most 256 MiB"
    );
    assert_eq!(queued(Queue::Time(Duration::from_secs(2))).check(), Ok(()));
}

#[test]
fn any_figures_are_judged_without_a_panic() {
    let most = Duration::MAX;
    for rate in [None, Some(0), Some(u64::MAX)] {
        let asked = Impairments {
            delay: most,
            jitter: jitter(most, Distribution::Pareto),
            rate,
            queue: Some(Queue::Time(most)),
            ..none()
        };
        assert!(asked.check().is_err());
        let asked = Impairments { delay: ms(1), jitter: None, ..asked };
        assert_eq!(asked.check().is_err(), rate.is_some());
    }
}
