//! The receiver compared with a model that keeps every number.

use std::collections::HashSet;

use proptest::prelude::*;

use super::*;

const LAST: u64 = SEQUENCES - 1;

fn stamp(sequence: u64) -> Stamp {
    Stamp { stream: 1, sequence: sequence % SEQUENCES, time_ns: 1000 }
}

/// A literal implementation of the definitions.
#[derive(Debug, Default, PartialEq)]
struct Model {
    received: u64,
    lost: u64,
    duplicates: u64,
    reordered: u64,
}

fn model(arrivals: &[u64], start: u64) -> Model {
    let mut seen = HashSet::new();
    let mut model = Model::default();
    let mut expected = start;
    for number in arrivals {
        if !seen.insert(*number) {
            model.duplicates += 1;
            continue;
        }
        model.received += 1;
        model.reordered += u64::from(*number < expected);
        expected = expected.max(number + 1);
    }
    let first = seen.iter().min().map_or(start, |least| start.min(*least));
    model.lost = (first..expected).filter(|number| !seen.contains(number)).count() as u64;
    model
}

fn told(receiver: &Receiver) -> Model {
    let Some(stream) = receiver.streams().get(&1) else { return Model::default() };
    assert_eq!(stream.stale, 0);
    Model {
        received: stream.received,
        lost: stream.loss(None).lost,
        duplicates: stream.duplicates,
        reordered: stream.reordered,
    }
}

/// Numbers in order of arrival: some lost, some duplicated, each delayed by up to `spread` positions.
fn arrivals(spread: u64) -> impl Strategy<Value = Vec<u64>> {
    let one = (0_u32..100, 0..spread, 0..spread);
    proptest::collection::vec(one, 0..400).prop_map(|frames| {
        let mut all = Vec::new();
        for (number, (chance, late, later)) in (0_u64..).zip(frames) {
            if chance >= 15 {
                all.push((number + late, number));
            }
            if chance >= 85 {
                all.push((number + later, number));
            }
        }
        all.sort_by_key(|(when, _)| *when);
        all.into_iter().map(|(_, number)| number).collect()
    })
}

proptest! {
    #[test]
    fn as_the_model(numbers in prop_oneof![arrivals(1), arrivals(4), arrivals(150)]) {
        let mut receiver = Receiver::new(Start::Zero);
        for number in &numbers {
            receiver.take(&stamp(*number), 64, 5000);
        }
        prop_assert_eq!(told(&receiver), model(&numbers, 0));
        if let Some(stream) = receiver.streams().get(&1) {
            prop_assert_eq!(stream.latency_ns.count(), stream.received);
            prop_assert_eq!(stream.bytes, stream.received * 64);
            let all = stream.loss(Some(1000));
            prop_assert_eq!(all, Loss { sent: 1000, lost: 1000 - stream.received });
        }
    }

    #[test]
    fn as_the_model_over_the_last_number(numbers in arrivals(50), before in 0_u64..400) {
        let base = SEQUENCES - before;
        let numbers: Vec<u64> = numbers.iter().map(|number| base + number).collect();
        let mut receiver = Receiver::new(Start::FirstSeen);
        for number in &numbers {
            receiver.take(&stamp(*number), 64, 5000);
        }
        prop_assert_eq!(told(&receiver), model(&numbers, numbers.first().copied().unwrap_or(0)));
    }

    #[test]
    fn any_stamps_are_accounted_for(numbers in proptest::collection::vec(any::<u64>(), 0..100)) {
        let mut receiver = Receiver::with_window(Start::Zero, 64);
        for number in &numbers {
            receiver.take(&stamp(*number), 64, 5000);
        }
        let total: u64 = receiver
            .streams()
            .values()
            .map(|stream| stream.received + stream.duplicates + stream.stale)
            .sum();
        prop_assert_eq!(total, numbers.len() as u64);
    }
}

/// The late frame is reordered, not those that overtook it.
#[test]
fn one_frame_that_comes_late_is_one_reordered() {
    let mut receiver = Receiver::new(Start::Zero);
    let order = [0, 2, 3, 4, 5, 6, 1, 7, 8];
    let verdicts: Vec<Verdict> =
        order.iter().map(|number| receiver.take(&stamp(*number), 64, 0)).collect();
    let reordered = verdicts.iter().filter(|v| **v == Verdict::Reordered).count();
    assert_eq!((reordered, verdicts[6]), (1, Verdict::Reordered));
    let stream = &receiver.streams()[&1];
    assert_eq!((stream.reordered, stream.farthest, stream.loss(None).lost), (1, 6, 0));
    assert_eq!(stream.early, 9, "all came at 0 and left at 1000");
    assert_eq!(stream.latency_ns.count(), 0);
}

#[test]
fn what_is_too_far_back_is_stale_and_stays_lost() {
    let mut receiver = Receiver::with_window(Start::Zero, 64);
    assert_eq!(receiver.take(&stamp(100), 64, 0), Verdict::InOrder);
    assert_eq!(receiver.take(&stamp(37), 64, 0), Verdict::Reordered);
    assert_eq!(receiver.take(&stamp(36), 64, 0), Verdict::Stale);
    assert_eq!(receiver.take(&stamp(LAST), 64, 0), Verdict::Stale, "before the first");
    assert_eq!(receiver.streams()[&1].loss(None), Loss { sent: 101, lost: 99 });
}

#[test]
fn streams_are_told_apart_up_to_a_number() {
    let mut receiver = Receiver::with_window(Start::Zero, 64);
    for stream in 0..300 {
        let verdict = receiver.take(&Stamp { stream, ..stamp(0) }, 64, 0);
        assert_eq!(verdict == Verdict::Untold, stream >= 256);
    }
    assert_eq!((receiver.streams().len(), receiver.untold, receiver.received()), (256, 44, 256));
    assert_eq!(receiver.frame(&[0; 60], 0), None);
    assert_eq!(receiver.foreign, 1);
}
