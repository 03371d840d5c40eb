//! Values as text: which are accepted, which are refused and with which message.

use proptest::prelude::*;

use super::*;

fn one(key: &str, text: &str) -> Result<Impairments, String> {
    let mut impairments = Impairments::default();
    set(&mut impairments, key, text)?;
    Ok(impairments)
}

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

#[test]
fn every_key_is_set_and_taken_away() {
    let mut all = Impairments::default();
    for (key, text) in [
        ("delay", "10ms"),
        ("jitter", "1ms"),
        ("loss", "0.1%"),
        ("duplicate", "1%"),
        ("reorder", "2%"),
        ("corrupt", "3%"),
        ("rate", "100mbit"),
        ("queue", "50ms"),
        ("limit", "1000"),
        ("drop", " icmp or udp port 53"),
        ("mtu", "1400"),
        ("seed", "18446744073709551615"),
    ] {
        set(&mut all, key, text).unwrap();
    }
    let jitter =
        Jitter { spread: ms(1), distribution: Distribution::Normal, correlation: Share::NONE };
    let loss = RandomLoss { share: Share(1_000_000), correlation: Share::NONE };
    let expected = Impairments {
        delay: ms(10),
        jitter: Some(jitter),
        loss: Some(Loss::Random(loss)),
        duplicate: Share(10_000_000),
        reorder: Share(20_000_000),
        corrupt: Share(30_000_000),
        rate: Some(100_000_000),
        queue: Some(Queue::Time(ms(50))),
        limit: Some(1000),
        drop: Some("icmp or udp port 53".into()),
        mtu: Some(1400),
        seed: Some(u64::MAX),
    };
    assert_eq!(all, expected);
    for key in KEYS {
        set(&mut all, key, "none").unwrap();
    }
    assert_eq!(all, Impairments::default());
}

#[test]
fn loss_and_jitter_have_compact_forms() {
    let random = |share, correlation| {
        Loss::Random(RandomLoss { share: Share(share), correlation: Share(correlation) })
    };
    let bursts = |enter, leave, bad, good| {
        let [enter, leave, bad, good] = [enter, leave, bad, good].map(Share);
        Loss::Bursts(Bursts { enter, leave, bad, good })
    };
    const P: u32 = 10_000_000;
    for (text, loss) in [
        ("1%", random(P, 0)),
        ("1% 25%", random(P, 25 * P)),
        ("random=1%,correlation=25%", random(P, 25 * P)),
        ("bursts enter=1% leave=25%", bursts(P, 25 * P, 100 * P, 0)),
        ("bursts good=2%,bad=50%,enter=1%,leave=25%", bursts(P, 25 * P, 50 * P, 2 * P)),
        ("pattern ..x", Loss::Pattern(vec![false, false, true])),
    ] {
        assert_eq!(parse_loss(text), Ok(loss), "{text}");
    }
    for (text, distribution, correlation) in [
        ("2ms", Distribution::Normal, 0),
        ("2ms uniform", Distribution::Uniform, 0),
        ("2ms,pareto,25%", Distribution::Pareto, 25 * P),
        ("2ms 25%", Distribution::Normal, 25 * P),
        ("correlation=25% spread=2ms distribution=pareto", Distribution::Pareto, 25 * P),
    ] {
        let jitter = Jitter { spread: ms(2), distribution, correlation: Share(correlation) };
        assert_eq!(parse_jitter(text), Ok(jitter), "{text}");
    }
}

#[test]
fn what_is_refused_names_the_key_and_what_may_stand_there() {
    for (key, text, reason) in [
        ("delay", "10", "delay: expected a duration with its unit like 10ms, found 10; write 10ms"),
        (
            "jitter",
            "5 pareto",
            "jitter: expected a duration with its unit like 10ms, found 5; write 5ms",
        ),
        ("delay", "-1ms", "delay: expected a duration with its unit like 10ms, found \"-1ms\""),
        ("loss", "1", "loss: expected a percentage from 0% to 100% like 0.1%, found 1; write 1%"),
        ("loss", "-1%", "loss: expected a percentage from 0% to 100% like 0.1%, found \"-1%\""),
        ("loss", "", "loss: expected a percentage like 0.1% or a map of loss keys, found nothing"),
        (
            "loss",
            "bursts enter=1%",
            "loss: bursts need leave=SHARE, like bursts enter=1% leave=25%",
        ),
        (
            "loss",
            "bursts enter=2 leave=25%",
            "loss: enter: expected a percentage from 0% to 100% like 0.1%, found 2; write 2%",
        ),
        ("loss", "bursts entre=1%", "loss: unknown key \"entre\"; did you mean \"enter\"?"),
        ("loss", "1% 2% 3%", "loss: correlation is given twice"),
        (
            "loss",
            "pattern ..y",
            "loss: expected a pattern of x (lost) and . (passed) like ..x, found \"..y\"",
        ),
        (
            "loss",
            "pattern",
            "loss: expected a pattern of x (lost) and . (passed) like ..x, found \"\"",
        ),
        (
            "jitter",
            "1ms poisson",
            "jitter: expected one of normal, pareto, uniform, found \"poisson\"",
        ),
        ("jitter", "1ms normal pareto", "jitter: distribution is given twice"),
        (
            "jitter",
            "distribution=pareto",
            "jitter: expected a duration like 1ms, found \"distribution=pareto\"",
        ),
        (
            "rate",
            "1gbps",
            "rate: expected a rate like 100mbit or 1.5Gb/s, found \"1gbps\"; write 1gbit",
        ),
        (
            "queue",
            "50msec",
            "queue: expected a number of packets, or a duration like 50ms, found \"50msec\"; write 50ms",
        ),
        ("queue", "-5", "queue: expected a number of packets, or a duration like 50ms, found -5"),
        (
            "limit",
            "50ms",
            "limit: expected a number of packets from 1 to 4294967295, found \"50ms\"",
        ),
        (
            "drop",
            "1%",
            "drop: expected an expression as for tcpdump, like icmp or tcp port 80, found \"1%\"; write loss: 1%",
        ),
        ("mtu", "20", "mtu: expected a whole number from 68 to 65535, found 20"),
        ("seed", "x", "seed: expected a whole number from 0 to 18446744073709551615, found \"x\""),
        ("los", "1%", "unknown key \"los\"; did you mean \"loss\"?"),
    ] {
        assert_eq!(one(key, text).unwrap_err(), reason);
    }
    let refused = check(&one("reorder", "1%").unwrap()).unwrap_err();
    assert!(refused.starts_with("reorder: "), "{refused}");
}

proptest! {
    #[test]
    fn no_text_makes_them_panic(key in 0..KEYS.len(), text in "[0-9a-z%=. ,]{0,20}|bursts .*|\\PC{0,12}") {
        if let Ok(found) = one(KEYS[key], &text) {
            let _ = check(&found);
        }
    }
}
