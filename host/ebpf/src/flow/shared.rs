//! Memory that programs and this process share: table, slots, operations, counters.
//!
//! Who changes what: this process writes table, slots and operations, programs only read these; programs of a CPU alone
//! write that CPU's counters, except that this process clears those of a slot without a result.

use std::sync::atomic::{AtomicU64, Ordering, fence};

use netloom_pipeline::FlowKey;
use netloom_pipeline::key::WORDS;
use rustix::mm::ProtFlags;

use super::list::OP_WORDS;
use super::masks::MASKS;
use super::{Count, Entry, PROGRAM, Stats};
use crate::map::{Map, pair, unpair};
use crate::memory::Mapping;
use crate::{Error, Result};

/// `struct nl_fl_table`: its size and offsets.
const TABLE: usize = 48 + MASKS * WORDS * 8;
const MASK_COUNT: usize = 8;
const ORDER: usize = 16;
const MASK: usize = 48;
/// Sizes of `struct nl_fl_slot`, `nl_fl_op`, `nl_fl_count` and `nl_fl_cpu`.
const SLOT: usize = 40;
const OP: usize = OP_WORDS * 8;
const COUNT: usize = 32;
const CPU: usize = 64 + MASKS * 8;
/// Offsets in `struct nl_fl_cpu`.
const ENTERED: usize = 0;
const LEFT: usize = 8;
const STATS: [usize; 4] = [16, 24, 32, 40];
const HITS: usize = 64;
/// Polls of a CPU before others may run here: a program takes less.
const POLLS: u32 = 1000;

/// The memory.
#[derive(Debug)]
pub(super) struct Shared {
    table: Mapping,
    slots: Mapping,
    operations: Mapping,
    counts: Mapping,
    cpus: Mapping,
    /// Slots, operations and CPUs.
    room: [usize; 3],
}

/// `struct nl_fl_slot`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    pub(super) serial: u64,
    pub(super) generation: u64,
    pub(super) noted: [u64; 2],
    pub(super) first: u32,
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
        let (slots, results) = sized("nl_fl_slots", SLOT)?;
        let (operations, cells) = sized("nl_fl_ops", OP)?;
        let (counts, _) = sized("nl_fl_counts", COUNT)?;
        let (cpus, possible) = sized("nl_fl_cpus", CPU)?;
        Ok(Shared { table, slots, operations, counts, cpus, room: [results, cells, possible] })
    }

    /// How many slots there are.
    pub(super) fn room(&self) -> u32 {
        u32::try_from(self.room[0]).unwrap_or(u32::MAX)
    }

    pub(super) fn room_for_operations(&self) -> u32 {
        u32::try_from(self.room[1]).unwrap_or(u32::MAX)
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
        let at = MASK + usize::from(number) * WORDS * 8;
        FlowKey(std::array::from_fn(|word| self.table.word(at + word * 8).load(Ordering::Relaxed)))
    }

    /// Writes a mask, which no program uses.
    pub(super) fn put_mask(&self, number: u8, mask: &FlowKey) {
        let at = MASK + usize::from(number) * WORDS * 8;
        for (index, word) in mask.0.iter().enumerate() {
            self.table.word(at + index * 8).store(*word, Ordering::Relaxed);
        }
    }

    /// Says in which order programs try masks. One that runs meanwhile may miss some.
    pub(super) fn put_order(&self, order: &[u8]) {
        let mut bytes = [0; MASKS];
        for (place, number) in bytes.iter_mut().zip(order) {
            *place = *number;
        }
        for (index, word) in bytes.as_chunks::<8>().0.iter().enumerate() {
            let place = self.table.word(ORDER + index * 8);
            place.store(u64::from_ne_bytes(*word), Ordering::Release);
        }
        let count = u32::try_from(order.len().min(MASKS)).unwrap_or(0);
        let count = u64::from_ne_bytes(pair(count, 0));
        self.table.word(MASK_COUNT).store(count, Ordering::Release);
    }

    fn slot(&self, slot: u32) -> Option<usize> {
        usize::try_from(slot).ok().filter(|slot| *slot < self.room[0]).map(|slot| slot * SLOT)
    }

    /// A slot's result; `None` if it has none.
    pub(super) fn result(&self, slot: u32) -> Option<Found> {
        let at = self.slot(slot)?;
        let word = |index: usize| self.slots.word(at + index * 8).load(Ordering::Acquire);
        let found = Found {
            serial: word(0),
            generation: word(1),
            noted: [word(2), word(3)],
            first: unpair(word(4).to_ne_bytes()).0,
        };
        (found.serial != 0).then_some(found)
    }

    /// Writes a result to a slot without one, whose counters begin anew.
    pub(super) fn put_result(&self, slot: u32, serial: u64, entry: &Entry<'_>, first: u32) {
        let Some(at) = self.slot(slot) else { return };
        for cpu in 0..self.room[2] {
            for word in 0..COUNT / 8 {
                self.count(cpu, slot, word).store(0, Ordering::Relaxed);
            }
        }
        let [a, b] = entry.list.flags.to_ne_bytes();
        let [c, d] = entry.list.ttl.to_ne_bytes();
        let rest = u64::from_ne_bytes(pair(first, u32::from_ne_bytes([a, b, c, d])));
        for (index, word) in [entry.generation, 0, 0, rest].into_iter().enumerate() {
            self.slots.word(at + 8 + index * 8).store(word, Ordering::Relaxed);
        }
        self.slots.word(at).store(serial, Ordering::Release);
    }

    /// Puts down how much of a slot's counters is known elsewhere.
    pub(super) fn note(&self, slot: u32, noted: [u64; 2]) {
        let Some(at) = self.slot(slot) else { return };
        for (index, word) in noted.into_iter().enumerate() {
            self.slots.word(at + 16 + index * 8).store(word, Ordering::Relaxed);
        }
    }

    /// No frame is treated by a slot any more, except by programs that run now.
    pub(super) fn end_result(&self, slot: u32) {
        if let Some(at) = self.slot(slot) {
            self.slots.word(at).store(0, Ordering::Release);
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

    fn count(&self, cpu: usize, slot: u32, word: usize) -> &AtomicU64 {
        let slot = usize::try_from(slot).unwrap_or(0);
        self.counts.word((cpu * self.room[0] + slot) * COUNT + word * 8)
    }

    /// A slot's counters, of all CPUs.
    pub(super) fn counts(&self, slot: u32) -> Count {
        let mut sum = Count::default();
        if self.slot(slot).is_none() {
            return sum;
        }
        for cpu in 0..self.room[2] {
            let word = |word| self.count(cpu, slot, word).load(Ordering::Acquire);
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
