//! The rings in user space: mappings of the programs' words and chunks.
//!
//! The programs write the first half of a CPU's words, user space the other (`struct nl_tap_cpu`).
//! Nobody writes a chunk's published bytes until the chunk is given back, so they may be viewed as
//! a slice; everything else is read word by word, atomically.

use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rustix::mm::ProtFlags;

use super::TapCounts;
use super::bell::Bell;
use super::cpus::Cpus;
use crate::Result;
use crate::memory::Mapping;

/// Overhead of a block beside its data: `NL_TAP_BESIDE`.
const BESIDE: u32 = 64;
/// The size of `struct nl_tap_cpu`, and the offsets of its words.
pub(super) const CPU: usize = 256;
const TAIL: usize = 0;
const COUNTS: [usize; 6] = [8, 16, 24, 32, 40, 48];
const BUSY: usize = 60;
const OFFSET: usize = 128;
const FREED: usize = 136;
const BASE: usize = 140;
const CHUNKS: usize = 144;
const WAITS: usize = 148;
/// Largest word-wise copy; the verifier assumes that all its steps run: `SHORT`.
const SHORT: u32 = 256;
/// Offset of a chunk's bytes, behind its length.
const BYTES: usize = 8;
/// Sizes of chunks: the bytes in which blocks begin.
const SMALLEST: u32 = 4 << 10;
const LARGEST: u32 = 1 << 20;
/// Pauses between looks of [`Ring::wait`]. Each costs two switches of tasks and a timer, which is much
/// where the same CPU receives frames; one that stays empty after the longest is waited for by its bell.
const SHORTEST_PAUSE: Duration = Duration::from_micros(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(1);
/// Pauses are as long as an eighth of a CPU's ring lasts at this many bytes per microsecond.
const BYTES_PER_MICROSECOND: u64 = 1000;
/// Longest wait for a program that is writing, which takes about 100 ns.
const SETTLE: Duration = Duration::from_secs(1);

/// Sizes of a CPU's ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    /// Bytes of a chunk in which blocks begin: a power of two.
    pub(super) chunk: u32,
    /// Bytes kept of a frame.
    pub(super) most: u32,
    /// Chunks of each CPU, at least two.
    pub(super) chunks: u32,
}

impl Shape {
    /// At least about eight chunks in that many bytes: each chunk's last bytes only hold the end of
    /// a block, so chunks are not made too small.
    pub(super) fn of(bytes: usize, most: u32) -> Self {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let chunk = (bytes / 16).next_power_of_two().clamp(SMALLEST, LARGEST);
        let shape = Self { chunk, most, chunks: 2 };
        Self { chunks: (bytes / shape.stride()).max(2), ..shape }
    }

    /// The pause before a poll: short for small rings.
    fn pause(&self) -> Duration {
        let bytes = u64::from(self.chunk) * u64::from(self.chunks);
        Duration::from_micros(bytes / 8 / BYTES_PER_MICROSECOND)
            .clamp(SHORTEST_PAUSE, LONGEST_PAUSE)
    }

    /// Bytes from one chunk to the next: the map's value size.
    pub(super) fn stride(&self) -> u32 {
        8 + self.chunk + self.most.max(SHORT).next_multiple_of(8) + BESIDE
    }
}

/// The read position in one CPU's ring.
#[derive(Debug)]
struct Reader {
    /// Offset of the CPU's words.
    cpu: usize,
    /// Index of its first chunk.
    base: usize,
    /// The current chunk: its number, its place among the CPU's, and the bytes taken.
    number: u32,
    slot: u32,
    taken: u32,
}

/// The words of all possible CPUs.
#[derive(Debug)]
pub(super) struct Words {
    memory: Mapping,
    possible: usize,
}

impl Words {
    pub(super) fn map(cpus: BorrowedFd<'_>, at: &Cpus) -> Result<Self> {
        let possible = usize::try_from(at.possible).unwrap_or(0);
        let access = ProtFlags::READ | ProtFlags::WRITE;
        Ok(Self { memory: Mapping::of(cpus, "nl_tap_cpus", possible * CPU, access)?, possible })
    }

    pub(super) fn counts(&self) -> TapCounts {
        let mut sum = TapCounts::default();
        for cpu in 0..self.possible {
            let [offered, filtered, captured, truncated, lost, nested] =
                COUNTS.map(|at| self.memory.word(cpu * CPU + at).load(Ordering::Relaxed));
            // Counted apart: a program that interrupts another must not touch what that one is
            // changing.
            sum.offered += offered + nested;
            sum.filtered += filtered;
            sum.captured += captured;
            sum.truncated += truncated;
            sum.lost += lost + nested;
        }
        sum
    }
}

/// The rings of a tap.
#[derive(Debug)]
pub(super) struct Ring {
    words: Words,
    chunks: Mapping,
    shape: Shape,
    readers: Vec<Reader>,
    bell: Bell,
    /// Whether programs were asked to ring.
    asks: bool,
}

impl Ring {
    /// Maps both maps, and assigns each online CPU its chunks.
    pub(super) fn map(
        cpus: BorrowedFd<'_>,
        ring: BorrowedFd<'_>,
        bell: Bell,
        shape: Shape,
        at: &Cpus,
    ) -> Result<Self> {
        let all = shape.chunks as usize * at.online.len() * shape.stride() as usize;
        let words = Words::map(cpus, at)?;
        let chunks = Mapping::of(ring, "nl_tap_ring", all, ProtFlags::READ)?;
        let mut readers = Vec::new();
        // A CPU that comes online later has no chunks: its frames count as lost.
        for (base, cpu) in (0u32..).step_by(shape.chunks as usize).zip(&at.online) {
            let cpu = *cpu as usize * CPU;
            words.memory.half(cpu + BASE).store(base, Ordering::Relaxed);
            // Last: with chunks the CPU has a ring, and the program then needs the base.
            words.memory.half(cpu + CHUNKS).store(shape.chunks, Ordering::Release);
            readers.push(Reader { cpu, base: base as usize, number: 0, slot: 0, taken: 0 });
        }
        Ok(Self { words, chunks, shape, readers, bell, asks: false })
    }

    /// Sets the offset that programs add to their clock.
    pub(super) fn set_offset(&self, offset: u64) {
        for cpu in 0..self.words.possible {
            self.words.memory.word(cpu * CPU + OFFSET).store(offset, Ordering::Relaxed);
        }
    }

    pub(super) fn take(&mut self, each: &mut dyn FnMut(&[u8])) -> usize {
        let Self { words, chunks, shape, readers, .. } = self;
        readers.iter_mut().map(|reader| reader.take(&words.memory, chunks, shape, each)).sum()
    }

    pub(super) fn wait(&mut self, most: Duration, call: Option<BorrowedFd<'_>>) -> bool {
        let until = Instant::now() + most;
        // Programs that were asked before still are, and nothing has come since.
        let mut pause = (!self.asks).then(|| self.shape.pause());
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let called = match pause {
                Some(pause) => {
                    std::thread::sleep(pause.min(left));
                    false
                }
                None => self.bell.wait(left, call),
            };
            if self.has_blocks() {
                self.ask(false);
                return true;
            }
            if called || Instant::now() >= until {
                return false;
            }
            pause = self.next_pause(pause);
        }
    }

    /// What to do after a look that found nothing: pause again, or (none) wait for the bell.
    fn next_pause(&mut self, pause: Option<Duration>) -> Option<Duration> {
        match pause {
            // A program may have missed the question while its block was on its way to this CPU. The pause since was
            // longer than that, and the look after it found nothing.
            Some(_) if self.asks => None,
            Some(pause) if pause < LONGEST_PAUSE => Some((pause * 2).min(LONGEST_PAUSE)),
            // Asked, or asked again: each rings once, and one may have rung for blocks that were taken meanwhile.
            Some(_) | None => {
                self.ask(true);
                Some(LONGEST_PAUSE)
            }
        }
    }

    fn has_blocks(&self) -> bool {
        self.readers.iter().any(|reader| reader.tail(&self.words.memory) != reader.head())
    }

    /// Asks programs to ring the bell at their next block, or not to.
    fn ask(&mut self, asks: bool) {
        if !asks && !self.asks {
            return;
        }
        // Before the question: what rings after it must be heard.
        self.bell.silence();
        for reader in &self.readers {
            self.words.memory.half(reader.cpu + WAITS).store(asks.into(), Ordering::SeqCst);
        }
        self.asks = asks;
    }

    pub(super) fn counts(&self) -> TapCounts {
        self.words.counts()
    }

    /// Waits until no detached program writes any more.
    pub(super) fn settle(&self) {
        const MEMBARRIER_CMD_GLOBAL: libc::c_int = 1;
        // Waits for an RCU grace period, which covers running programs. If the kernel refuses
        // (tickless CPUs), the words below tell nearly as much.
        // SAFETY: takes three numbers and touches no memory.
        let _ = unsafe { libc::syscall(libc::SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) };
        let until = Instant::now() + SETTLE;
        let busy =
            |cpu: usize| self.words.memory.half(cpu * CPU + BUSY).load(Ordering::Acquire) != 0;
        while (0..self.words.possible).any(busy) && Instant::now() < until {
            std::thread::yield_now();
        }
    }
}

impl Reader {
    fn tail(&self, cpus: &Mapping) -> u64 {
        // Pairs with publish() in capture.bpf.c: the blocks before `tail` are visible.
        cpus.word(self.cpu + TAIL).load(Ordering::Acquire)
    }

    fn head(&self) -> u64 {
        u64::from(self.number) << 32 | u64::from(self.taken)
    }

    fn take(
        &mut self,
        cpus: &Mapping,
        chunks: &Mapping,
        shape: &Shape,
        each: &mut dyn FnMut(&[u8]),
    ) -> usize {
        let tail = self.tail(cpus);
        let half = |word: u64| u32::try_from(word & 0xffff_ffff).unwrap_or(0);
        let [last, used] = [half(tail >> 32), half(tail)];
        let mut sum = 0;
        // Ends even if a program closes chunk after chunk: `last` was read once.
        while self.number != last {
            // Stored before the tail that names a later chunk, so the acquire of `tail` covers it.
            let length = chunks.word(self.chunk(shape)).load(Ordering::Relaxed);
            sum += self.hand_out(chunks, shape, u32::try_from(length).unwrap_or(u32::MAX), each);
            self.number = self.number.wrapping_add(1);
            // Not the number modulo the chunks: that can jump when the number wraps.
            self.slot = if self.slot + 1 < shape.chunks { self.slot + 1 } else { 0 };
            self.taken = 0;
            // Release: all reads of the chunk end before the program may write to it again.
            cpus.half(self.cpu + FREED).store(self.number, Ordering::Release);
        }
        sum + self.hand_out(chunks, shape, used, each)
    }

    /// Offset of the current chunk.
    fn chunk(&self, shape: &Shape) -> usize {
        (self.base + self.slot as usize) * shape.stride() as usize
    }

    fn hand_out(
        &mut self,
        chunks: &Mapping,
        shape: &Shape,
        published: u32,
        each: &mut dyn FnMut(&[u8]),
    ) -> usize {
        // Programs write this number: it is bounded before it becomes the length of a slice.
        let end = published.min(shape.stride() - 8);
        let length = end.saturating_sub(self.taken) as usize;
        if length > 0 {
            let at = self.chunk(shape) + BYTES + self.taken as usize;
            // SAFETY: these bytes are published, and the chunk has not been given back yet.
            each(unsafe { chunks.bytes(at, length) });
            self.taken = end;
        }
        length
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn pauses_are_short_for_small_rings_and_bounded() {
        let pause = |bytes| Shape::of(bytes, 96).pause();
        assert_eq!(pause(0), SHORTEST_PAUSE);
        assert!((100..300).contains(&pause(2 << 20).as_micros()), "{:?}", pause(2 << 20));
        assert_eq!(pause(64 << 20), LONGEST_PAUSE);
    }

    proptest! {
        #[test]
        fn shapes_hold_two_frames_and_about_what_is_asked(bytes: u32, most in 1u32..=65_664) {
            let shape = Shape::of(bytes as usize, most);
            prop_assert!(shape.chunk.is_power_of_two() && shape.chunks >= 2);
            prop_assert!(shape.stride().is_multiple_of(8));
            let sum = u64::from(shape.stride()) * u64::from(shape.chunks);
            let least = 2 * u64::from(shape.stride());
            prop_assert!(sum <= u64::from(bytes).max(least));
            prop_assert!(sum + u64::from(shape.stride()) > u64::from(bytes));
        }
    }
}
