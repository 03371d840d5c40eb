//! Impairments in the words of the lab file: `delay` -> `10ms`.
//!
//! Text written here reads back to the same impairments (a property test checks that).

use std::collections::BTreeMap;
use std::time::Duration;

use netloom_impair::{Distribution, Impairments, Loss, Queue, Share};

/// By key and value, as for `netloom link set`. Keys without effect are left out.
pub fn impairments(of: &Impairments) -> BTreeMap<String, String> {
    let one = |setting: &super::Setting| Some((setting.flag.key.to_owned(), (setting.text)(of)?));
    super::SETTINGS.iter().filter_map(one).collect()
}

pub(super) fn delay(delay: &Duration) -> Option<String> {
    (!delay.is_zero()).then(|| duration(*delay))
}

pub(super) fn some_share(share: &Share) -> Option<String> {
    (*share != Share::NONE).then(|| self::share(*share))
}

pub(super) fn number<N: ToString>(number: &Option<N>) -> Option<String> {
    number.as_ref().map(N::to_string)
}

/// Exact percent: 10^9 parts are 100 %, so there are at most seven digits after the point.
pub(crate) fn share(share: Share) -> String {
    let (whole, rest) = (share.0 / 10_000_000, share.0 % 10_000_000);
    if rest == 0 {
        return format!("{whole}%");
    }
    let digits = format!("{rest:07}");
    format!("{whole}.{}%", digits.trim_end_matches('0'))
}

/// In the largest unit that gives a short decimal number.
pub(crate) fn duration(span: Duration) -> String {
    let ns = span.as_nanos();
    let units = [("s", 1_000_000_000_u128), ("ms", 1_000_000), ("us", 1000)];
    let (unit, size) = units.into_iter().find(|(_, size)| ns >= *size).unwrap_or(("us", 1000));
    decimal(ns, size, unit)
}

/// `number / size` as an exact decimal with its unit; `size` is a power of ten.
fn decimal(number: u128, size: u128, unit: &str) -> String {
    let (whole, rest) = (number / size, number % size);
    if rest == 0 {
        return format!("{whole}{unit}");
    }
    let places = usize::try_from(size.ilog10()).unwrap_or(0);
    let digits = format!("{rest:0places$}");
    format!("{whole}.{}{unit}", digits.trim_end_matches('0'))
}

pub(super) fn rate(bits: &Option<u64>) -> Option<String> {
    bits.map(bits_per_second)
}

pub(crate) fn bits_per_second(bits: u64) -> String {
    let units = [("gbit", 1_000_000_000_u128), ("mbit", 1_000_000), ("kbit", 1000), ("bit", 1)];
    let bits = u128::from(bits);
    let (unit, size) = units.into_iter().find(|(_, size)| bits >= *size).unwrap_or(("bit", 1));
    decimal(bits, size, unit)
}

pub(super) fn queue(queue: &Option<Queue>) -> Option<String> {
    Some(match (*queue)? {
        Queue::Packets(n) => n.to_string(),
        Queue::Time(span) => duration(span),
    })
}

pub(super) fn jitter(of: &Option<netloom_impair::Jitter>) -> Option<String> {
    let of = (*of)?;
    let mut text = duration(of.spread);
    let form = match of.distribution {
        Distribution::Normal => "normal",
        Distribution::Pareto => "pareto",
        Distribution::Uniform => "uniform",
    };
    text.push_str(&format!(" {form}"));
    if of.correlation != Share::NONE {
        text.push_str(&format!(" {}", share(of.correlation)));
    }
    Some(text)
}

pub(super) fn loss(of: &Option<Loss>) -> Option<String> {
    Some(match of.as_ref()? {
        Loss::Random(random) if random.correlation == Share::NONE => share(random.share),
        Loss::Random(random) => {
            format!("{} {}", share(random.share), share(random.correlation))
        }
        Loss::Bursts(b) => format!(
            "bursts enter={} leave={} bad={} good={}",
            share(b.enter),
            share(b.leave),
            share(b.bad),
            share(b.good)
        ),
        Loss::Pattern(lost) => {
            let marks: String = lost.iter().map(|l| if *l { 'x' } else { '.' }).collect();
            format!("pattern {marks}")
        }
    })
}

#[cfg(test)]
mod tests {
    use netloom_impair::{Bursts, Jitter, RandomLoss};
    use proptest::prelude::*;

    use super::*;
    use crate::impairment;

    fn some_share() -> impl Strategy<Value = Share> {
        (0..=1_000_000_000_u32).prop_map(Share)
    }

    fn some_loss() -> impl Strategy<Value = Loss> {
        let chance = (1..=1_000_000_000_u32, 0..1_000_000_000_u32)
            .prop_map(|(s, c)| Loss::Random(RandomLoss { share: Share(s), correlation: Share(c) }));
        let bursts = (some_share(), some_share(), some_share(), some_share());
        let bursts = bursts
            .prop_map(|(enter, leave, bad, good)| Loss::Bursts(Bursts { enter, leave, bad, good }));
        let pattern = proptest::collection::vec(any::<bool>(), 1..40).prop_map(Loss::Pattern);
        prop_oneof![chance, bursts, pattern]
    }

    fn some_jitter() -> impl Strategy<Value = Jitter> {
        let forms = prop_oneof![
            Just(Distribution::Normal),
            Just(Distribution::Pareto),
            Just(Distribution::Uniform)
        ];
        (1..10_000_000_u64, forms, 0..1_000_000_000_u32).prop_map(|(us, distribution, c)| Jitter {
            spread: Duration::from_micros(us),
            distribution,
            correlation: Share(c),
        })
    }

    fn some_queue() -> impl Strategy<Value = Queue> {
        prop_oneof![
            (1..100_000_u32).prop_map(Queue::Packets),
            (1..10_000_000_u64).prop_map(|us| Queue::Time(Duration::from_micros(us)))
        ]
    }

    proptest! {
        #[test]
        fn words_read_back_to_the_same(
            delay in 0..100_000_000_u64,
            jitter in proptest::option::of(some_jitter()),
            loss in proptest::option::of(some_loss()),
            (duplicate, reorder, corrupt) in (some_share(), some_share(), some_share()),
            rate in proptest::option::of(1000..400_000_000_000_u64),
            (queue, limit) in (proptest::option::of(some_queue()), proptest::option::of(1..u32::MAX)),
            drop in proptest::option::of("(icmp|tcp port [1-9]|not \\(udp or arp\\))"),
            mtu in proptest::option::of(68..65_536_u32),
            seed in proptest::option::of(any::<u64>()),
        ) {
            let delay = Duration::from_micros(delay);
            let asked = Impairments {
                delay, jitter, loss, duplicate, reorder, corrupt, rate, queue, limit, drop, mtu,
                seed,
            };
            let mut read = Impairments::default();
            for (key, value) in impairments(&asked) {
                let set = impairment::set(&mut read, &key, &value);
                prop_assert!(set.is_ok(), "{key}={value}: {set:?}");
            }
            prop_assert_eq!(read, asked);
        }
    }
}
