//! What became of frames with stamps: lost, duplicated, reordered, and how long they took.
//!
//! Reordered is what RFC 4737 calls it (3.3): a frame whose number is below the one expected next, which
//! is one above the highest that has come. Of copies the first counts and the others are duplicates, never
//! reordered. Lost is what has not come of the numbers below the one expected. Numbers of 48 bits go on
//! beyond the last one. Which frames have come is known of the latest ones (the window); a frame from
//! farther back is *stale*: late or a copy, nobody can tell, and it stays lost.

use std::collections::BTreeMap;

use crate::window::Window;
use crate::{Histogram, SEQUENCES, Stamp};

/// Streams that are told apart; more are counted together, without their numbers.
const STREAMS: usize = 256;
/// Frames that are remembered of each, unless said otherwise: 26 ms at 10 million a second.
const WINDOW: usize = 1 << 18;
/// Where numbers begin inside, so that some may come from before the start.
const ORIGIN: u64 = 1 << 62;

/// With which frame a stream begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// With number 0: what does not come before the first one that does is lost.
    Zero,
    /// With the first one that comes: the receiver joined a stream that was running.
    FirstSeen,
}

/// What a frame was found to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// As expected, or beyond: what lies between is lost until it comes.
    InOrder,
    /// Later than one with a higher number.
    Reordered,
    /// A copy of one that had come.
    Duplicate,
    /// From so far back that it is not known whether it had come.
    Stale,
    /// Of a stream too many.
    Untold,
}

/// How many frames of a stream are lost, and of how many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Loss {
    /// Frames that were sent, as far as is known.
    pub sent: u64,
    /// Of these, those that have not come.
    pub lost: u64,
}

/// One stream.
#[derive(Clone, Debug)]
pub struct Stream {
    /// Frames that came for the first time.
    pub received: u64,
    /// Bytes of these, with check sequence.
    pub bytes: u64,
    /// Copies.
    pub duplicates: u64,
    /// Frames that came later than one with a higher number.
    pub reordered: u64,
    /// The farthest that one of those was behind the number expected, in frames.
    pub farthest: u64,
    /// Frames from too far back to tell.
    pub stale: u64,
    /// Frames that came before they left, by their clocks: not among the latencies.
    pub early: u64,
    /// From the stamp to the arrival, in nanoseconds.
    pub latency_ns: Histogram,
    start: u64,
    next: u64,
    window: Window,
}

impl Stream {
    fn new(start: Start, first: u64, frames: usize) -> Stream {
        let start = match start {
            Start::Zero => ORIGIN,
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

    /// The number without end that is nearest to what is expected.
    fn whole(&self, sequence: u64) -> u64 {
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
            Some(took) => self.latency_ns.add(took),
            None => self.early += 1,
        }
        verdict
    }

    /// What is lost of it. `sent` is how many frames its sender sent; without it what was lost behind the
    /// last one that came is not known.
    pub fn loss(&self, sent: Option<u64>) -> Loss {
        let known = self.next - self.start;
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
    /// Frames with a stamp of more streams than are told apart.
    pub untold: u64,
}

impl Receiver {
    /// That has seen nothing.
    pub fn new(start: Start) -> Receiver {
        Receiver::with_window(start, WINDOW)
    }

    /// That remembers at least so many frames of each stream.
    pub fn with_window(start: Start, frames: usize) -> Receiver {
        let window = frames.clamp(64, 1 << 30);
        Receiver { start, window, streams: BTreeMap::new(), foreign: 0, untold: 0 }
    }

    /// A frame as an interface gave it, without check sequence, and when it came, in nanoseconds of Unix
    /// time. `None` when it has no stamp.
    pub fn frame(&mut self, frame: &[u8], arrived_ns: u64) -> Option<Verdict> {
        let Some(stamp) = Stamp::read(frame) else {
            self.foreign += 1;
            return None;
        };
        let size = u32::try_from(frame.len()).unwrap_or(u32::MAX).saturating_add(crate::FCS);
        Some(self.take(&stamp, size, arrived_ns))
    }

    /// A stamp, of a frame of `size` bytes with check sequence.
    pub fn take(&mut self, stamp: &Stamp, size: u32, arrived_ns: u64) -> Verdict {
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

    /// The streams that were seen, by number.
    pub fn streams(&self) -> &BTreeMap<u16, Stream> {
        &self.streams
    }

    /// Frames with stamps that came for the first time, of all streams.
    pub fn received(&self) -> u64 {
        self.streams.values().map(|stream| stream.received).sum()
    }
}

#[cfg(test)]
#[path = "receiver_tests.rs"]
mod tests;
