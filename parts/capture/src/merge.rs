//! Merges frames of several interfaces into time order, between queue and output.
//!
//! Chunks are held until every thread has declared that nothing earlier will come ([`Shared::mark`]),
//! then merged: blocks between two frames of other interfaces are copied at once, and a chunk without
//! frames of others before or within it is passed on unchanged. No thread is waited for longer than
//! [`Merger::new`] sets, and none when memory is short: a frame that comes after later ones are written
//! is written behind them, and counted as late. No frame is lost here.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use netloom_disk::{Buffer, Pool};
use netloom_pcap::ng;

use crate::queue::{Chunk, Share};
use crate::shared::Shared;
use crate::sort::{self, BlockAt};

/// Interval at which threads hand over chunks in progress and declare their progress.
pub(crate) const SLICE: Duration = Duration::from_millis(40);
/// Interval at which held chunks are checked and written.
pub(crate) const TICK: Duration = Duration::from_millis(20);
/// Chunks for merged frames, in addition to those that threads fill.
const SPARE: u64 = 4;

/// The blocks of a run: a whole chunk, or a copy of one that was mostly empty.
#[derive(Debug)]
enum Bytes {
    Chunk(Buffer),
    Copy(Vec<u8>),
}

impl Bytes {
    fn all(&self) -> &[u8] {
        match self {
            Bytes::Chunk(buffer) => buffer,
            Bytes::Copy(bytes) => bytes,
        }
    }
}

/// Blocks of one thread that are not merged yet.
#[derive(Debug)]
struct Run {
    /// The time of the first block and the number of earlier runs, which order runs.
    head: u64,
    number: u64,
    bytes: Bytes,
    /// Start and end of the remaining blocks.
    at: usize,
    len: usize,
    source: usize,
    /// Frames in these blocks.
    frames: u64,
    epoch: u64,
    last: u64,
    sorted: bool,
    came: Instant,
}

impl Run {
    fn blocks(&self) -> &[u8] {
        self.bytes.all().get(self.at..self.len).unwrap_or_default()
    }

    /// Sets the time that orders the run. A block without a time takes that of its predecessor.
    fn look(&mut self, before: u64) {
        self.head = sort::first(self.blocks()).and_then(|block| block.time).unwrap_or(before);
    }
}

impl PartialEq for Run {
    fn eq(&self, other: &Run) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Run {}

impl PartialOrd for Run {
    fn partial_cmp(&self, other: &Run) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Run {
    fn cmp(&self, other: &Run) -> std::cmp::Ordering {
        (self.head, self.number).cmp(&(other.head, other.number))
    }
}

/// Merges chunks.
#[derive(Debug)]
pub(crate) struct Merger {
    shared: Arc<Shared>,
    /// Longest wait for a thread, and the extra holding time in nanoseconds.
    patience: Duration,
    slack: u64,
    runs: BinaryHeap<Reverse<Run>>,
    number: u64,
    /// The chunk being filled, and its source when there is no other memory.
    out: Option<Chunk>,
    spare: Pool,
    /// The latest time written, and the latest file.
    last: u64,
    epoch: u64,
    /// Memory for sorting.
    places: Vec<BlockAt>,
}

impl Merger {
    /// Waits for no thread longer than `patience`; holds frames `slack` longer than all threads
    /// require, so that a stalled machine makes none late.
    pub(crate) fn new(shared: Arc<Shared>, patience: Duration, slack: Duration) -> Merger {
        let slack = u64::try_from(slack.as_nanos()).unwrap_or(u64::MAX);
        let spare = Pool::new(shared.chunk, SPARE * shared.chunk as u64);
        let (runs, places) = (BinaryHeap::new(), Vec::new());
        let (out, number, last, epoch) = (None, 0, 0, 0);
        Merger { shared, patience, slack, runs, number, out, spare, last, epoch, places }
    }

    /// Whether nothing is held.
    pub(crate) fn is_empty(&self) -> bool {
        self.runs.is_empty() && self.out.is_none()
    }

    /// Adds a chunk of one thread.
    pub(crate) fn add(&mut self, mut chunk: Chunk) {
        sort::by_time(&mut chunk, &self.shared.pool, &mut self.places);
        let source = chunk.source();
        let Chunk { buffer, len, shares, epoch, last, sorted, .. } = chunk;
        let frames = shares.iter().map(|share| share.frames).sum();
        // A chunk handed over early is mostly empty, and others need its memory.
        let bytes = match buffer.get(..len) {
            Some(bytes) if len <= self.shared.chunk / 4 => Bytes::Copy(bytes.to_vec()),
            _ => Bytes::Chunk(buffer),
        };
        let (number, came) = (self.number, Instant::now());
        self.number += 1;
        let mut run =
            Run { head: 0, number, bytes, at: 0, len, source, frames, epoch, last, sorted, came };
        run.look(0);
        self.runs.push(Reverse(run));
    }

    /// The time up to which everything may be written, given the threads' common mark.
    pub(crate) fn horizon(&self, mark: u64) -> u64 {
        let pool = &self.shared.pool;
        // More than three quarters of the memory are held:
        // order gives way, so that no frame is lost.
        if pool.in_use_bytes() / 3 > pool.room_bytes() {
            return u64::MAX;
        }
        let overdue = self.runs.iter().filter(|run| run.0.came.elapsed() >= self.patience);
        overdue.map(|run| run.0.last).fold(mark.saturating_sub(self.slack), u64::max)
    }

    /// The next full chunk up to this time. A partial chunk stays for [`Merger::rest`]; without
    /// memory everything stays.
    pub(crate) fn next(&mut self, until: u64) -> Option<Chunk> {
        loop {
            let first = &self.runs.peek().filter(|run| run.0.head <= until)?.0;
            // Frames of the next file must not follow those of this one in a chunk.
            if self.out.as_ref().is_some_and(|out| first.epoch.max(self.epoch) > out.epoch) {
                return self.out.take();
            }
            let mut run = self.runs.pop()?.0;
            let limit = self.runs.peek().map_or(until, |next| next.0.head.min(until));
            if self.is_whole(&run, limit) {
                // Earlier frames are still in the chunk in progress: that one goes first.
                if let Some(out) = self.out.take() {
                    self.runs.push(Reverse(run));
                    return Some(out);
                }
                return Some(self.pass(run));
            }
            self.epoch = self.epoch.max(run.epoch);
            let room = self.open();
            if room {
                self.copy(&mut run, limit);
            }
            let more = run.at < run.len;
            let full = more && run.head <= limit;
            if more {
                self.runs.push(Reverse(run));
            }
            if full {
                return self.out.take();
            }
        }
    }

    /// The partial chunk of merged frames.
    pub(crate) fn rest(&mut self) -> Option<Chunk> {
        self.out.take()
    }

    /// Drops everything held: all of it is lost.
    pub(crate) fn lose(&mut self) {
        for run in self.runs.drain() {
            let share = Share { source: run.0.source, frames: run.0.frames };
            self.shared.settle(&[share], false);
        }
        if let Some(out) = self.out.take() {
            self.shared.settle(&out.shares, false);
        }
    }

    /// Whether a run is a chunk that can be passed on unchanged.
    fn is_whole(&self, run: &Run, limit: u64) -> bool {
        let large = matches!(run.bytes, Bytes::Chunk(_)) && run.len >= self.shared.chunk / 2;
        large && run.at == 0 && run.sorted && run.last <= limit
    }

    fn pass(&mut self, run: Run) -> Chunk {
        let Run { bytes, len, source, frames, last, sorted, .. } = run;
        self.epoch = self.epoch.max(run.epoch);
        if run.head < self.last {
            // A part of it is late; how much is counted only in this case.
            self.count(bytes.all().get(..len).unwrap_or_default());
        }
        self.last = self.last.max(last);
        let buffer = match bytes {
            Bytes::Chunk(buffer) => buffer,
            Bytes::Copy(_) => unreachable!("only chunks are whole"),
        };
        let shares = vec![Share { source, frames }];
        Chunk { buffer, len, shares, thread: 0, epoch: self.epoch, last, sorted }
    }

    /// Counts frames earlier than those already written.
    fn count(&mut self, mut blocks: &[u8]) {
        let mut late = 0;
        while let Some(block) = sort::first(blocks) {
            late += u64::from(block.time.is_some_and(|time| time < self.last));
            blocks = blocks.get(block.len..).unwrap_or_default();
        }
        self.shared.late.fetch_add(late, Ordering::Relaxed);
    }

    /// Provides a chunk for merged frames, if there is memory.
    fn open(&mut self) -> bool {
        if self.out.is_none() {
            let Some(buffer) = self.shared.pool.take().or_else(|| self.spare.take()) else {
                return false;
            };
            let (shares, epoch) = (Vec::new(), self.epoch);
            self.out =
                Some(Chunk { buffer, len: 0, shares, thread: 0, epoch, last: 0, sorted: true });
        }
        true
    }

    /// Copies blocks up to this time, as many as there is room for.
    fn copy(&mut self, run: &mut Run, limit: u64) {
        let Some(out) = &mut self.out else { return };
        let blocks = run.bytes.all().get(run.at..run.len).unwrap_or_default();
        let room = (self.shared.chunk - ng::PADDING_LEAST).saturating_sub(out.len);
        let (mut end, mut frames, mut late, mut head) = (0, 0, 0, run.head);
        if sort::first(blocks).is_none() && blocks.len() <= room {
            // Not made of blocks: passed on unchanged.
            end = blocks.len();
        }
        while let Some(block) = blocks.get(end..).and_then(sort::first) {
            head = block.time.unwrap_or(head);
            if head > limit || end + block.len > room {
                break;
            }
            end += block.len;
            if let Some(time) = block.time {
                frames += 1;
                late += u64::from(time < self.last);
                self.last = self.last.max(time);
            }
        }
        if let (Some(to), Some(from)) =
            (out.buffer.get_mut(out.len..out.len + end), blocks.get(..end))
        {
            to.copy_from_slice(from);
        }
        out.len += end;
        run.at += end;
        run.head = head;
        if run.at == run.len {
            // All its remaining frames, whatever was counted.
            frames = run.frames;
        }
        run.frames -= frames;
        add(&mut out.shares, run.source, frames);
        self.shared.late.fetch_add(late, Ordering::Relaxed);
    }
}

fn add(shares: &mut Vec<Share>, source: usize, frames: u64) {
    match shares.iter_mut().find(|share| share.source == source) {
        Some(share) => share.frames += frames,
        None => shares.push(Share { source, frames }),
    }
}

#[cfg(test)]
mod tests;
