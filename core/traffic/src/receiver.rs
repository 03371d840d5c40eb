//! The fates of stamped frames: lost, duplicated, reordered, and their latencies.
//!
//! Reordered is as in RFC 4737 (3.3): a frame whose number is below the one expected next, which
//! is one above the highest received. Of copies the first counts; the others are duplicates, never
//! reordered. Lost are the missing numbers below the expected one. The 48-bit numbers are extended
//! beyond their wrap. A window remembers which of the latest frames arrived; a frame from before it
//! is *stale*: either late or a copy, and it stays counted as lost.

use std::collections::BTreeMap;

use crate::window::Window;
use crate::{Histogram, SEQUENCES, Stamp};

/// Maximum number of streams distinguished; the others are counted together, without their numbers.
const STREAMS: usize = 256;
/// Default number of frames remembered of each stream: 26 ms at 10 million a second.
const WINDOW: usize = 1 << 18;
/// The internal start of numbers, so that frames from before the start can be represented.
const ORIGIN: u64 = 1 << 62;

/// The first frame of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// Number 0: numbers before the first received one are lost.
    Zero,
    /// The first one received: the receiver joined a running stream.
    FirstSeen,
}

/// The classification of a received frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The expected one, or a later one: those between are lost until they arrive.
    InOrder,
    /// Arrived after one with a higher number.
    Reordered,
    /// A copy of a received one.
    Duplicate,
    /// From before the window: it is unknown whether it was received.
    Stale,
    /// Of a stream beyond the maximum.
    Untold,
}

/// Lost frames of a stream, and their total.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Loss {
    /// Frames sent, as far as known.
    pub sent: u64,
    /// Of these, those not received.
    pub lost: u64,
}

/// One stream.
#[derive(Clone, Debug)]
pub struct Stream {
    /// Frames received for the first time.
    pub received: u64,
    /// Their bytes, with check sequence.
    pub bytes: u64,
    /// Copies.
    pub duplicates: u64,
    /// Frames that arrived after one with a higher number.
    pub reordered: u64,
    /// The largest distance of these from the expected number, in frames.
    pub farthest: u64,
    /// Frames from before the window.
    pub stale: u64,
    /// Frames that arrived before they left, by their clocks: not among the latencies.
    pub early: u64,
    /// Time from stamp to arrival, in nanoseconds.
    pub latency_ns: Histogram,
    start: u64,
    next: u64,
    window: Window,
}

impl Stream {
    fn new(start: Start, first: u64, frames: usize) -> Stream {
        let start = match start {
            Start::Zero => ORIGIN,
            // Frames before the first one may still come, out of order.
            Start::FirstSeen => ORIGIN + first,
        };
        Stream {
            received: 0,
            bytes: 0,
            duplicates: 0,
            reordered: 0,
            farthest: 0,
            stale: 0,
            early: 0,
            latency_ns: Histogram::default(),
            start,
            next: start,
            window: Window::new(frames, start),
        }
    }

    /// The unwrapped number that is nearest to the expected one.
    fn whole(&self, sequence: u64) -> u64 {
        // ORIGIN and 2^64 are multiples of SEQUENCES: the difference keeps its rest.
        let ahead = sequence.wrapping_sub(self.next) % SEQUENCES;
        if ahead < SEQUENCES / 2 { self.next + ahead } else { self.next - (SEQUENCES - ahead) }
    }

    fn take(&mut self, stamp: &Stamp, size: u32, arrived_ns: u64, joined: bool) -> Verdict {
        let number = self.whole(stamp.sequence);
        let verdict = if number >= self.next {
            self.next = number + 1;
            self.window.advance(self.next);
            self.window.note(number);
            Verdict::InOrder
        } else if !self.window.knows(number) || (number < self.start && !joined) {
            // Before the start only a stream that was joined while it ran has frames.
            self.stale += 1;
            return Verdict::Stale;
        } else if self.window.note(number) {
            self.duplicates += 1;
            return Verdict::Duplicate;
        } else {
            self.start = self.start.min(number);
            self.reordered += 1;
            self.farthest = self.farthest.max(self.next - number);
            Verdict::Reordered
        };
        self.received += 1;
        self.bytes += u64::from(size);
        match arrived_ns.checked_sub(stamp.time_ns) {
            // Clocks of two machines may differ: a negative latency says nothing.
            Some(took) => self.latency_ns.add(took),
            None => self.early += 1,
        }
        verdict
    }

    /// Its loss. `sent` is how many frames the sender sent; without it, loss after the
    /// last received frame is unknown.
    pub fn loss(&self, sent: Option<u64>) -> Loss {
        let known = self.next - self.start;
        // Never below what is known: the loss below cannot underflow.
        let sent = sent.map_or(known, |sent| sent.max(known));
        Loss { sent, lost: sent - self.received }
    }
}

/// The receiver of one interface.
#[derive(Clone, Debug)]
pub struct Receiver {
    start: Start,
    window: usize,
    streams: BTreeMap<u16, Stream>,
    /// Frames without a stamp.
    pub foreign: u64,
    /// Frames with a stamp of streams beyond the maximum.
    pub untold: u64,
}

impl Receiver {
    /// A receiver that has seen nothing.
    pub fn new(start: Start) -> Receiver {
        Receiver::with_window(start, WINDOW)
    }

    /// A receiver that remembers at least this many frames of each stream.
    pub fn with_window(start: Start, frames: usize) -> Receiver {
        let window = frames.clamp(64, 1 << 30);
        Receiver { start, window, streams: BTreeMap::new(), foreign: 0, untold: 0 }
    }

    /// Counts a frame as received from an interface, without check sequence, with its arrival in nanoseconds
    /// of Unix time. `None` when it has no stamp.
    pub fn frame(&mut self, frame: &[u8], arrived_ns: u64) -> Option<Verdict> {
        let Some(stamp) = Stamp::read(frame) else {
            self.foreign += 1;
            return None;
        };
        let size = u32::try_from(frame.len()).unwrap_or(u32::MAX).saturating_add(crate::FCS);
        Some(self.take(&stamp, size, arrived_ns))
    }

    /// Counts a stamp, of a frame of `size` bytes with check sequence.
    pub fn take(&mut self, stamp: &Stamp, size: u32, arrived_ns: u64) -> Verdict {
        // Streams are numbered by senders: anybody could make up as many as there are numbers.
        let room = self.streams.len() < STREAMS;
        let (start, window) = (self.start, self.window);
        let joined = start == Start::FirstSeen;
        let stream = match self.streams.entry(stamp.stream) {
            std::collections::btree_map::Entry::Occupied(there) => there.into_mut(),
            std::collections::btree_map::Entry::Vacant(free) if room => {
                free.insert(Stream::new(start, stamp.sequence, window))
            }
            std::collections::btree_map::Entry::Vacant(_) => {
                self.untold += 1;
                return Verdict::Untold;
            }
        };
        stream.take(stamp, size, arrived_ns, joined)
    }

    /// The streams seen, by number.
    pub fn streams(&self) -> &BTreeMap<u16, Stream> {
        &self.streams
    }

    /// Stamped frames received for the first time, of all streams.
    pub fn received(&self) -> u64 {
        self.streams.values().map(|stream| stream.received).sum()
    }
}

#[cfg(test)]
mod tests;
