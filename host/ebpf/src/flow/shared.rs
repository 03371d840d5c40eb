//! Memory that programs and this process share: table, results, operations, counters. It grows with the results.
//!
//! Who changes what: this process writes table, results and operations, programs only read these; programs of a CPU
//! alone write that CPU's counters, except that this process clears those of a slot without a result.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use netloom_pipeline::FlowKey;
use netloom_pipeline::key::WORDS;
use netloom_sys::Failure;
use rustix::mm::ProtFlags;

use super::chunks::{Chunks, Form};
use super::index::{self, BUCKETS, Index};
use super::list::OP_WORDS;
use super::masks::{COMPARED, Compared, MASKS, numbers};
use super::{Count, Entry, PROGRAM, Record, Stats};
use crate::map::{Map, pair, unpair};
use crate::memory::Mapping;
use crate::{Error, Result};

/// `struct nl_fl_table`: its size and offsets.
const TABLE: usize = 64 + MASKS * MASK_SIZE;
const MASK_COUNT: usize = 8;
const ORDER: usize = 16;
const PLACE: usize = 48;
const SEED: usize = 56;
const MASK: usize = 64;
const MASK_SIZE: usize = WORDS * 8 + 16;
/// Sizes of `struct nl_fl_op` and `nl_fl_cpu`.
const OP: usize = OP_WORDS * 8;
const CPU: usize = 64 + MASKS * 8;
/// Results of a chunk, and chunks: `NL_FL_CHUNK`, `NL_FL_CHUNKS`.
pub(super) const CHUNK: u32 = 4096;
const RESULTS_OF_CHUNK: usize = 4096;
pub(super) const CHUNKS: u32 = 64;
/// Chunks as an array's memory. A result's word 0 says that it is one, word 1 has the rest but for its key.
pub(super) const RESULTS: Form = Form {
    name: "nl_fl_results",
    more: "nl_fl_results_x",
    size: 16 + COMPARED * 8,
    elements: RESULTS_OF_CHUNK,
};
const REST: usize = 1;
const KEY: usize = 2;

/// Counters of that many CPUs, and behind them what this process puts down.
pub(super) fn counts(cpus: usize) -> Form {
    let elements = RESULTS_OF_CHUNK * (cpus + 1);
    Form { name: "nl_fl_counts", more: "nl_fl_counts_x", size: 32, elements }
}
/// Offsets in `struct nl_fl_cpu`.
const ENTERED: usize = 0;
const LEFT: usize = 8;
const STATS: [usize; 4] = [16, 24, 32, 40];
const HITS: usize = 64;
/// Polls of a CPU before others may run here: a program takes less.
const POLLS: u32 = 1000;

/// Maps of further chunks.
#[derive(Debug)]
struct More {
    results: Map,
    counts: Map,
    buckets: Map,
}

/// The memory.
#[derive(Debug)]
pub(super) struct Shared {
    table: Mapping,
    results: Chunks,
    operations: Mapping,
    counts: Chunks,
    index: Index,
    cpus: Mapping,
    more: More,
    /// Results, operations and CPUs.
    room: [usize; 3],
}

/// `struct nl_fl_result`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    pub(super) generation: u64,
    pub(super) first: u32,
    pub(super) mask: u8,
    words: [u64; COMPARED],
}

impl Found {
    /// Its key's words in a mask that has so many.
    pub(super) fn compared(&self, count: usize) -> Compared {
        Compared { words: self.words, count: count.min(COMPARED) }
    }
}

impl Shared {
    pub(super) fn map(map: &dyn Fn(&'static str) -> Result<Map>) -> Result<Shared> {
        let sized = |name: &'static str, size: usize| -> Result<(Mapping, usize)> {
            let map = map(name)?;
            if !map.is_of(4, size) {
                return Err(Error::Foreign { program: PROGRAM, map: name });
            }
            let entries = usize::try_from(map.entries()).unwrap_or(0);
            let access = ProtFlags::READ | ProtFlags::WRITE;
            Ok((Mapping::of(map.fd(), name, entries * size, access)?, entries))
        };
        let (table, _) = sized("nl_fl_table", TABLE)?;
        let (operations, cells) = sized("nl_fl_ops", OP)?;
        let (cpus, possible) = sized("nl_fl_cpus", CPU)?;
        let forms = [RESULTS, counts(possible), index::FORM];
        let [results, counts, buckets] = forms.map(|form| (form, map(form.name), map(form.more)));
        let found =
            |(form, first, more): (Form, Result<Map>, Result<Map>)| -> Result<(Chunks, Map)> {
                Ok((Chunks::first(form, &first?)?, more?))
            };
        let ((mut results, more_results), (mut counts, more_counts)) =
            (found(results)?, found(counts)?);
        // Additions come behind the first; if one of them is missing, both are made again.
        results.take(&more_results, 1, CHUNKS - 1)?;
        counts.take(&more_counts, 1, CHUNKS - 1)?;
        let both = results.len().min(counts.len());
        results.keep(both);
        counts.keep(both);
        let (chunks, more_buckets) = found(buckets)?;
        let place = table.word(PLACE).load(Ordering::Acquire);
        let (first, most) = unpair(place.to_ne_bytes());
        let index = match first.checked_sub(1) {
            None => Index::new(chunks),
            Some(first) => {
                let count = (most + 1) / u32::try_from(BUCKETS).unwrap_or(1);
                Index::new(Chunks::within(index::FORM, &more_buckets, first, count)?)
            }
        };
        let more = More { results: more_results, counts: more_counts, buckets: more_buckets };
        let most = unpair(table.word(MASK_COUNT).load(Ordering::Acquire).to_ne_bytes()).1;
        let room = [usize::try_from(most).unwrap_or(0), cells, possible];
        Ok(Shared { table, results, operations, counts, index, cpus, more, room })
    }

    /// The memory of programs that were loaded just now, for this many results.
    pub(super) fn begin(&mut self, room: u32) -> Result<()> {
        // By chance, so that no sender can choose flows that all fall into one bucket.
        let seed = netloom_sys::random::number()
            .map_err(|e| Failure::new("programs of a switch", "choose a seed", e))?;
        self.table.word(SEED).store(seed, Ordering::Relaxed);
        self.table.word(MASK_COUNT).store(u64::from_ne_bytes(pair(0, room)), Ordering::Release);
        self.room[0] = usize::try_from(room).unwrap_or(0);
        self.put_place(0);
        Ok(())
    }

    /// Says where programs find buckets.
    fn put_place(&self, first: u32) {
        let most = u32::try_from(self.index.buckets() - 1).unwrap_or(0);
        let place = u64::from_ne_bytes(pair(first, most));
        self.table.word(PLACE).store(place, Ordering::Release);
    }

    /// How many results there can be.
    pub(super) fn room(&self) -> u32 {
        u32::try_from(self.room[0]).unwrap_or(u32::MAX)
    }

    pub(super) fn room_for_operations(&self) -> u32 {
        u32::try_from(self.room[1]).unwrap_or(u32::MAX)
    }

    /// The entries.
    pub(super) fn index(&self) -> &Index {
        &self.index
    }

    /// The hash of a result's words.
    pub(super) fn hash(&self, number: u8, compared: &Compared) -> u64 {
        index::hash(self.table.word(SEED).load(Ordering::Relaxed), number, compared.words())
    }

    /// Whether there is memory for a slot.
    pub(super) fn has(&self, slot: u32) -> bool {
        self.slot(slot).is_some()
    }

    /// Makes memory for a slot, and as much again as there is; the results that there are, by slot, move to an index of
    /// that size.
    pub(super) fn grow(&mut self, slot: u32, kept: &HashMap<u32, Record>) -> Result<()> {
        let before = self.results.len();
        let wanted = usize::try_from(slot / CHUNK + 1).unwrap_or(usize::MAX);
        let after = wanted.next_power_of_two().max(2 * before).min(64);
        let first = u32::try_from(before).unwrap_or(CHUNKS);
        // Both or neither: a slot's result and its counts are in chunks of the same number.
        self.counts.add(&self.more.counts, first, after - before)?;
        if let Err(e) = self.results.add(&self.more.results, first, after - before) {
            self.counts.keep(before);
            return Err(e);
        }
        let old = unpair(self.table.word(PLACE).load(Ordering::Relaxed).to_ne_bytes()).0;
        // The other half of the chunks: programs still read the old one.
        let first = if old == 1 { CHUNKS } else { 0 };
        let mut chunks = Chunks::empty(index::FORM);
        chunks.add(&self.more.buckets, first, after.next_power_of_two())?;
        let index = Index::new(chunks);
        let of = |record: &Record| self.hash(record.mask, &record.compared);
        for (slot, record) in kept {
            // One that finds no place in spite of moves is never found, so its frames are upcalls.
            let _ = index.insert(of(record), *slot, |slot| kept.get(&slot).map(of));
        }
        let old = std::mem::replace(&mut self.index, index);
        self.put_place(first + 1);
        // The old index stays until all runs that may have read its place have ended.
        self.settle();
        drop(old);
        Ok(())
    }

    /// Waits until all programs have ended that may not see what was written before this call.
    ///
    /// A program raises `entered` with a full barrier before it reads anything else, and `left` after its last access.
    /// So if the barrier here comes first, the program reads what was written; else its `entered` is seen here.
    pub(super) fn settle(&self) {
        fence(Ordering::SeqCst);
        for cpu in 0..self.room[2] {
            let entered = self.cpus.word(cpu * CPU + ENTERED).load(Ordering::Acquire);
            let left = self.cpus.word(cpu * CPU + LEFT);
            let mut polls = 0;
            while left.load(Ordering::Acquire) < entered {
                polls += 1;
                if polls % POLLS == 0 {
                    std::thread::yield_now();
                } else {
                    std::hint::spin_loop();
                }
            }
        }
    }

    /// The generation in force.
    pub(super) fn generation(&self) -> &AtomicU64 {
        self.table.word(0)
    }

    /// The numbers of the masks that programs try.
    pub(super) fn masks_in_use(&self) -> Vec<u8> {
        let count = unpair(self.table.word(MASK_COUNT).load(Ordering::Acquire).to_ne_bytes()).0;
        let words = (0..MASKS / 8).map(|at| self.table.word(ORDER + at * 8));
        let bytes = words.flat_map(|word| word.load(Ordering::Relaxed).to_ne_bytes());
        let most = usize::try_from(count).unwrap_or(0).min(MASKS);
        bytes.take(most).filter(|number| usize::from(*number) < MASKS).collect()
    }

    pub(super) fn mask(&self, number: u8) -> FlowKey {
        let at = MASK + usize::from(number) * MASK_SIZE;
        FlowKey(std::array::from_fn(|word| self.table.word(at + word * 8).load(Ordering::Relaxed)))
    }

    /// Writes a mask, which no program uses.
    pub(super) fn put_mask(&self, number: u8, mask: &FlowKey) {
        let at = MASK + usize::from(number) * MASK_SIZE;
        for (index, word) in mask.0.iter().enumerate() {
            self.table.word(at + index * 8).store(*word, Ordering::Relaxed);
        }
        let mut last = [0; 16];
        let mut count = 0;
        for (place, number) in last.iter_mut().zip(numbers(mask)) {
            *place = u8::try_from(number).unwrap_or(0);
            count += 1;
        }
        last[COMPARED] = count;
        for (index, word) in last.as_chunks::<8>().0.iter().enumerate() {
            let place = self.table.word(at + (WORDS + index) * 8);
            place.store(u64::from_ne_bytes(*word), Ordering::Relaxed);
        }
    }

    /// Says in which order programs try masks. One that runs meanwhile may miss some.
    pub(super) fn put_order(&self, order: &[u8]) {
        let mut bytes = [0; MASKS];
        for (place, number) in bytes.iter_mut().zip(order) {
            *place = *number;
        }
        // Before the count, which must not cover places that are not filled yet.
        for (index, word) in bytes.as_chunks::<8>().0.iter().enumerate() {
            let place = self.table.word(ORDER + index * 8);
            place.store(u64::from_ne_bytes(*word), Ordering::Release);
        }
        let count = u32::try_from(order.len().min(MASKS)).unwrap_or(0);
        let count = u64::from_ne_bytes(pair(count, self.room()));
        self.table.word(MASK_COUNT).store(count, Ordering::Release);
    }

    /// The chunk of a slot, and its place there.
    fn slot(&self, slot: u32) -> Option<(usize, usize)> {
        let slot = usize::try_from(slot).ok()?;
        let chunk = slot / RESULTS_OF_CHUNK;
        (chunk < self.results.len()).then_some((chunk, slot % RESULTS_OF_CHUNK))
    }

    /// The slots that there is memory for.
    pub(super) fn slots(&self) -> u32 {
        u32::try_from(self.results.len()).unwrap_or(0) * CHUNK
    }

    /// A slot's result; `None` if it has none.
    pub(super) fn result(&self, slot: u32) -> Option<Found> {
        let (chunk, place) = self.slot(slot)?;
        let word = |index: usize| self.results.word(chunk, place, index).load(Ordering::Acquire);
        let generation = word(0).checked_sub(1)?;
        let (first, rest) = unpair(word(REST).to_ne_bytes());
        let [_, mask, ..] = rest.to_ne_bytes();
        Some(Found { generation, first, mask, words: std::array::from_fn(|at| word(KEY + at)) })
    }

    /// Writes a result to a slot without one, whose counters start over.
    pub(super) fn put_result(
        &self,
        entry: &Entry<'_>,
        number: u8,
        compared: &Compared,
        first: u32,
    ) {
        let Some((chunk, place)) = self.slot(entry.slot) else { return };
        // No program counts here: the slot's last result was waited for.
        // The last row has what was noted of the slots, not a CPU's counts.
        for cpu in 0..=self.room[2] {
            for word in 0..3 {
                self.count(cpu, (chunk, place), word).store(0, Ordering::Relaxed);
            }
        }
        let word = |index: usize| self.results.word(chunk, place, index);
        let [c, d] = entry.list.ttl.to_ne_bytes();
        let flags = u8::try_from(entry.list.flags).unwrap_or(0);
        let rest = pair(first, u32::from_ne_bytes([flags, number, c, d]));
        word(REST).store(u64::from_ne_bytes(rest), Ordering::Relaxed);
        for (index, bits) in compared.words().iter().enumerate() {
            word(KEY + index).store(*bits, Ordering::Relaxed);
        }
        // Last: a program reads the rest only if this word is of its generation (find.bpf.h).
        word(0).store(entry.generation.wrapping_add(1), Ordering::Release);
    }

    /// Puts down how much of a slot's counters is known elsewhere.
    pub(super) fn note(&self, slot: u32, noted: [u64; 2]) {
        let Some(at) = self.slot(slot) else { return };
        for (index, word) in noted.into_iter().enumerate() {
            self.count(self.room[2], at, index).store(word, Ordering::Relaxed);
        }
    }

    /// The stored result.
    pub(super) fn noted(&self, slot: u32) -> [u64; 2] {
        let Some(at) = self.slot(slot) else { return [0; 2] };
        [0, 1].map(|index| self.count(self.room[2], at, index).load(Ordering::Relaxed))
    }

    /// No frame is treated by a slot any more, except by programs that run now.
    pub(super) fn end_result(&self, slot: u32) {
        if let Some((chunk, place)) = self.slot(slot) {
            self.results.word(chunk, place, 0).store(0, Ordering::Release);
        }
    }

    pub(super) fn put_operation(&self, cell: u32, words: &[u64; OP_WORDS]) {
        let Ok(cell) = usize::try_from(cell) else { return };
        for (index, word) in words.iter().enumerate() {
            self.operations.word(cell * OP + index * 8).store(*word, Ordering::Relaxed);
        }
    }

    pub(super) fn operation(&self, cell: u32) -> [u64; OP_WORDS] {
        let at = usize::try_from(cell).unwrap_or(0) * OP;
        std::array::from_fn(|index| self.operations.word(at + index * 8).load(Ordering::Relaxed))
    }

    fn count(&self, cpu: usize, (chunk, place): (usize, usize), word: usize) -> &AtomicU64 {
        self.counts.word(chunk, cpu * RESULTS_OF_CHUNK + place, word)
    }

    /// A slot's counters, of all CPUs.
    pub(super) fn counts(&self, slot: u32) -> Count {
        let mut sum = Count::default();
        let Some(at) = self.slot(slot) else { return sum };
        for cpu in 0..self.room[2] {
            let word = |word| self.count(cpu, at, word).load(Ordering::Acquire);
            sum.packets += word(0);
            sum.bytes += word(1);
            sum.used = sum.used.max(word(2));
        }
        sum
    }

    fn sum(&self, at: usize) -> u64 {
        let word = |cpu| self.cpus.word(cpu * CPU + at).load(Ordering::Relaxed);
        (0..self.room[2]).map(word).fold(0, u64::wrapping_add)
    }

    pub(super) fn stats(&self) -> Stats {
        let [exact, masked, missed, failed] = STATS.map(|at| self.sum(at));
        Stats { exact, masked, missed, failed }
    }

    /// Hits by the number of a mask.
    pub(super) fn hits(&self) -> [u64; MASKS] {
        std::array::from_fn(|number| self.sum(HITS + number * 8))
    }
}
