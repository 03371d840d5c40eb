//! The merger alone: what it holds, what it passes on, and in which order.

use netloom_pcap::run;
use proptest::prelude::*;

use super::*;
use crate::rotation::Rotation;
use crate::shared::Account;

const CHUNK: usize = 16 << 10;

fn shared(sources: usize, memory: u64) -> Arc<Shared> {
    let accounts = std::iter::repeat_with(|| Account::new(1)).take(sources).collect();
    let pool = Pool::new(CHUNK, memory);
    Arc::new(Shared::new(pool, CHUNK, accounts, Rotation::default(), None))
}

/// A merger of this many sources that practically never runs out of patience.
fn merger(sources: usize) -> Merger {
    Merger::new(shared(sources, 1 << 30), Duration::from_secs(600), Duration::ZERO)
}

/// A chunk of frames with these times, each with `bytes` bytes of data; the first byte is the source.
fn chunk(shared: &Shared, source: usize, epoch: u64, times: &[u64], bytes: usize) -> Chunk {
    let mut all = Vec::new();
    let mut data = vec![0; bytes];
    data[0] = u8::try_from(source).unwrap();
    let interface = u32::try_from(source).unwrap();
    for time_ns in times {
        let data = &data[..];
        let packet = ng::Packet { interface, time_ns: *time_ns, data, ..ng::Packet::default() };
        ng::packet(&mut all, &packet);
    }
    let mut buffer = shared.pool.take().unwrap();
    buffer[..all.len()].copy_from_slice(&all);
    let shares = vec![Share { source, frames: times.len() as u64 }];
    let (last, sorted) = (times.last().copied().unwrap_or(0), times.is_sorted());
    Chunk { buffer, len: all.len(), shares, thread: 0, epoch, last, sorted }
}

/// Time and source of all frames of a chunk, whose shares must be right.
fn frames(chunk: &Chunk) -> Vec<(u64, usize)> {
    let all: Vec<_> = run::records(&chunk.buffer[..chunk.len])
        .map(|block| (block.time_ns, usize::try_from(block.interface).unwrap()))
        .collect();
    let shares: u64 = chunk.shares.iter().map(|share| share.frames).sum();
    assert_eq!(shares, all.len() as u64);
    for share in &chunk.shares {
        let own = all.iter().filter(|(_, source)| *source == share.source).count() as u64;
        assert_eq!(own, share.frames);
    }
    all
}

/// Everything passed on up to a time.
fn until(merger: &mut Merger, time: u64) -> Vec<(u64, usize)> {
    let mut all = Vec::new();
    while let Some(chunk) = merger.next(time) {
        all.extend(frames(&chunk));
    }
    all.extend(merger.rest().iter().flat_map(frames));
    all
}

fn late(merger: &Merger) -> u64 {
    merger.shared.late.load(Ordering::Relaxed)
}

#[test]
fn frames_of_all_stand_by_time_and_wait_for_who_is_behind() {
    let mut merger = merger(3);
    let shared = Arc::clone(&merger.shared);
    merger.add(chunk(&shared, 0, 0, &[10, 30, 50], 60));
    merger.add(chunk(&shared, 2, 0, &[20, 40, 60], 60));
    assert!(until(&mut merger, 9).is_empty());
    assert_eq!(until(&mut merger, 30), [(10, 0), (20, 2), (30, 0)]);
    // Earlier than frames held, but not than frames written.
    merger.add(chunk(&shared, 1, 0, &[35, 45], 60));
    assert_eq!(until(&mut merger, 100), [(35, 1), (40, 2), (45, 1), (50, 0), (60, 2)]);
    assert!(merger.is_empty() && late(&merger) == 0);
    assert_eq!(shared.pool.in_use_bytes(), 0);
}

#[test]
fn what_comes_too_late_is_written_and_counted() {
    let mut merger = merger(2);
    let shared = Arc::clone(&merger.shared);
    merger.add(chunk(&shared, 0, 0, &[10, 30], 60));
    assert_eq!(until(&mut merger, 30), [(10, 0), (30, 0)]);
    merger.add(chunk(&shared, 1, 0, &[20, 25, 40], 60));
    assert_eq!(until(&mut merger, 50), [(20, 1), (25, 1), (40, 1)]);
    assert_eq!(late(&merger), 2);
}

#[test]
fn nobody_is_waited_for_longer_than_the_patience() {
    let mut merger = Merger::new(shared(2, 1 << 30), Duration::ZERO, Duration::from_nanos(5));
    let shared = Arc::clone(&merger.shared);
    assert_eq!(merger.horizon(7), 2);
    merger.add(chunk(&shared, 0, 0, &[10, 30], 60));
    assert_eq!(merger.horizon(7), 30);
}

#[test]
fn without_memory_nothing_is_held() {
    let mut merger =
        Merger::new(shared(2, 4 * CHUNK as u64), Duration::from_secs(600), Duration::ZERO);
    let shared = Arc::clone(&merger.shared);
    let large: Vec<u64> = (0..11).collect();
    merger.add(chunk(&shared, 0, 0, &large, 1000));
    merger.add(chunk(&shared, 1, 0, &large, 1000));
    assert_eq!(merger.horizon(0), 0);
    merger.add(chunk(&shared, 0, 0, &large, 1000));
    let rest = shared.pool.take().unwrap();
    assert_eq!(merger.horizon(0), u64::MAX);
    // Nor is there memory for merging, except its own.
    let all = until(&mut merger, u64::MAX);
    assert_eq!(all.len(), 33);
    assert!(merger.is_empty());
    drop(rest);
    assert_eq!(shared.pool.in_use_bytes(), 0);
}

#[test]
fn a_chunk_with_nothing_in_between_goes_on_as_it_is() {
    let mut merger = merger(2);
    let shared = Arc::clone(&merger.shared);
    merger.add(chunk(&shared, 1, 0, &[5, 100], 60));
    let whole = chunk(&shared, 0, 0, &[10, 20, 30, 40, 50, 60, 70, 80, 90], 1500);
    let at = whole.buffer.as_ptr();
    merger.add(whole);
    let first = merger.next(200).unwrap();
    assert_eq!(frames(&first), [(5, 1)]);
    let second = merger.next(200).unwrap();
    assert_eq!(second.buffer.as_ptr(), at);
    assert_eq!(frames(&second).len(), 9);
    assert_eq!(until(&mut merger, 200), [(100, 1)]);
}

#[test]
fn frames_of_a_later_file_begin_a_chunk() {
    let mut merger = merger(2);
    let shared = Arc::clone(&merger.shared);
    merger.add(chunk(&shared, 0, 0, &[10, 30], 60));
    merger.add(chunk(&shared, 1, 1, &[20, 40], 60));
    let mut found = Vec::new();
    while let Some(chunk) = merger.next(100).or_else(|| merger.rest()) {
        found.push((chunk.epoch, frames(&chunk)));
    }
    // Once a file has begun, nothing goes back into the one before.
    assert_eq!(found, [(0, vec![(10, 0)]), (1, vec![(20, 1), (30, 0), (40, 1)])]);
}

#[test]
fn what_is_given_up_is_lost_and_counted() {
    let mut merger = merger(2);
    let shared = Arc::clone(&merger.shared);
    merger.add(chunk(&shared, 0, 0, &[10, 30], 60));
    merger.add(chunk(&shared, 1, 0, &[20], 60));
    assert!(merger.next(10).is_none());
    merger.lose();
    assert!(merger.is_empty());
    let lost = |source: usize| shared.accounts[source].ledger().lost.disk;
    assert_eq!([lost(0), lost(1)], [2, 1]);
}

proptest! {
    /// However frames are split into chunks, and whichever comes first: all of them, in order, once.
    #[test]
    fn all_frames_come_once_and_in_order(
        steps in prop::collection::vec((0usize..4, 1u64..1000, 60usize..1400, any::<bool>()), 1..400),
        turn in 1usize..6,
    ) {
        let mut merger = merger(4);
        let shared = Arc::clone(&merger.shared);
        let (mut now, mut seen, mut given) = (0, Vec::new(), Vec::new());
        let mut begun: [Vec<u64>; 4] = Default::default();
        for (n, (source, step, bytes, seal)) in steps.into_iter().enumerate() {
            now += step;
            begun[source].push(now);
            given.push((now, source));
            if seal || begun[source].len() >= 10 {
                let times = std::mem::take(&mut begun[source]);
                merger.add(chunk(&shared, source, 0, &times, bytes));
            }
            if n % turn == 0 {
                let mark = begun.iter().filter_map(|times| times.first()).min();
                let mark = mark.map_or(now, |first| first - 1);
                seen.extend(until(&mut merger, mark));
            }
        }
        for (source, times) in begun.iter().enumerate().filter(|(_, times)| !times.is_empty()) {
            merger.add(chunk(&shared, source, 0, times, 60));
        }
        seen.extend(until(&mut merger, u64::MAX));
        prop_assert_eq!(seen, given);
        prop_assert_eq!((late(&merger), merger.is_empty()), (0, true));
        prop_assert_eq!(shared.pool.in_use_bytes(), 0);
    }
}
