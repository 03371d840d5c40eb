//! Steps of the machine's clock: what was recorded stays in the order in which it was seen.

use std::sync::atomic::{AtomicI64, Ordering};

use netloom_record::{About, Asked, LEAST_KEEP, Link, Store};
use netloom_sys::clock;

use super::made::{BEGIN, blocks_from, everything, folder, found, number};

/// Realtime minus boot time, as this test's store is told.
static OFFSET: AtomicI64 = AtomicI64::new(0);

const HOUR: u64 = 3_600_000_000_000;

#[test]
fn frames_around_steps_of_the_clock_are_in_the_order_in_which_they_were_seen() {
    let root = tempfile::tempdir().unwrap();
    OFFSET.store(BEGIN.cast_signed(), Ordering::Relaxed);
    let offset = || OFFSET.load(Ordering::Relaxed);
    let mut store =
        Store::open_with(folder(root.path()), About::default(), LEAST_KEEP, offset).unwrap();
    let link = store.link(Link { name: "a--r".to_owned(), description: String::new() });
    // An hour back, then two hours forward, then 5 ms forward, as a clock that is slewed.
    let begins = [BEGIN, BEGIN - HOUR, BEGIN + HOUR, BEGIN + HOUR + 5_000_000];
    for (part, begin) in (0..4).zip(begins) {
        OFFSET.store(begin.cast_signed(), Ordering::Relaxed);
        store.append(&blocks_from(begin, part * 100..(part + 1) * 100, 1, 50), &[link]);
    }
    store.finish();
    // The small one begins no segment: its frames have the clock of the one before.
    assert_eq!(store.size().1, 3);
    let (all, _) = found(root.path(), &everything());
    let numbers: Vec<u32> = all.iter().map(|frame| number(&frame.data)).collect();
    assert_eq!(numbers, (0..400).collect::<Vec<_>>());
    assert!(all[99].time_ns > all[100].time_ns, "the clock was an hour back");
    // A time is that of the clock, so an hour that came again has what was seen in it.
    let again = Asked { since_ns: Some(BEGIN - HOUR), until_ns: Some(BEGIN), ..Asked::default() };
    let (all, _) = found(root.path(), &again);
    let numbers: Vec<u32> = all.iter().map(|frame| number(&frame.data)).collect();
    assert_eq!(numbers, (100..200).collect::<Vec<_>>());
}

/// As [`OFFSET`], of another store.
static SET: AtomicI64 = AtomicI64::new(0);

#[test]
fn the_last_minutes_are_those_that_passed_whatever_the_clock_showed() {
    let root = tempfile::tempdir().unwrap();
    let now = clock::boot_time();
    let true_offset = clock::realtime() - now;
    // The clock was two hours ahead until an hour ago, and has been two hours behind since.
    let parts = [
        (true_offset + 2 * HOUR, now.cast_signed() - HOUR.cast_signed()),
        (true_offset - 2 * HOUR, now.cast_signed()),
    ];
    SET.store(parts[0].0.cast_signed(), Ordering::Relaxed);
    let offset = || SET.load(Ordering::Relaxed);
    let mut store =
        Store::open_with(folder(root.path()), About::default(), LEAST_KEEP, offset).unwrap();
    let link = store.link(Link { name: "a--r".to_owned(), description: String::new() });
    for (part, (offset, order)) in (0..2).zip(parts) {
        SET.store(offset.cast_signed(), Ordering::Relaxed);
        let begin = offset.saturating_add_signed(order);
        store.append(&blocks_from(begin, part * 100..(part + 1) * 100, 1, 50), &[link]);
    }
    let last = |ns| {
        let (all, _) = found(root.path(), &Asked { last_ns: Some(ns), ..Asked::default() });
        all.iter().map(|frame| number(&frame.data)).collect::<Vec<_>>()
    };
    assert_eq!(last(HOUR / 2), (100..200).collect::<Vec<_>>());
    assert_eq!(last(2 * HOUR), (0..200).collect::<Vec<_>>());
    assert_eq!(last(u64::MAX), (0..200).collect::<Vec<_>>());
    // Boot time of another start of the machine says nothing about now.
    drop(store);
    let segment = root.path().join("lab/0000000002.pcapng");
    let mut content = std::fs::read(&segment).unwrap();
    let head = content.windows(4).position(|four| four == 0x8000_4e48_u32.to_le_bytes()).unwrap();
    content[head + 12] ^= 1;
    std::fs::write(&segment, content).unwrap();
    assert_eq!(last(2 * HOUR), (0..100).collect::<Vec<_>>());
}

#[test]
fn what_was_recorded_before_a_restart_comes_first() {
    let root = tempfile::tempdir().unwrap();
    let link = || Link { name: "a--r".to_owned(), description: String::new() };
    let open = |offset| Store::open_with(folder(root.path()), About::default(), LEAST_KEEP, offset);
    // The machine had run for an hour, and is found again two hours later just after its start.
    let mut store = open(|| BEGIN.cast_signed()).unwrap();
    let number_of_link = store.link(link());
    store.append(&blocks_from(BEGIN + HOUR, 0..100, 1, 50), &[number_of_link]);
    drop(store);
    let mut store = open(|| (BEGIN + 2 * HOUR).cast_signed()).unwrap();
    let number_of_link = store.link(link());
    store.append(&blocks_from(BEGIN + 2 * HOUR, 100..200, 1, 50), &[number_of_link]);
    let (all, _) = found(root.path(), &everything());
    let numbers: Vec<u32> = all.iter().map(|frame| number(&frame.data)).collect();
    assert_eq!(numbers, (0..200).collect::<Vec<_>>());
    // A visitor that has enough is asked no more.
    let mut left = 150;
    let folder = netloom_record::Folder::open(root.path(), "lab").unwrap();
    let question = netloom_record::Question::read(&everything(), &[].into()).unwrap();
    let looked = netloom_record::search::<netloom_record::Error>(&folder, &question, |_| {
        left -= 1;
        Ok(left > 0)
    });
    assert_eq!((left, looked.unwrap().found), (0, 150));
}
