//! Memory for the frames that a direction holds.
//!
//! Frames are read straight into the tail of a chunk and stay there until they are sent: nothing is
//! copied, cleared or allocated on the way, and small frames take little. A chunk is used again
//! when none of its frames is held; frames leave about in the order they came, so a chunk is held
//! up by few. As many chunks are kept spare as are in use, so that a steady flow makes none.

use netloom_port::MOST_FRAME;

/// Bytes of a chunk: a super-frame that does not fit in its rest wastes a sixteenth at most.
const CHUNK: usize = 1 << 20;

/// Frames start at multiples of this.
const ALIGN: usize = 16;

/// Where a held frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    chunk: usize,
    start: usize,
    length: usize,
}

impl Place {
    /// Its length in bytes.
    pub(crate) fn length(self) -> usize {
        self.length
    }
}

#[derive(Debug)]
struct Chunk {
    bytes: Box<[u8]>,
    /// Frames held in it, copies counted.
    frames: usize,
}

/// The memory. Invariant: `current` is a chunk with bytes, or there is none with bytes.
#[derive(Debug, Default)]
pub(crate) struct Store {
    chunks: Vec<Chunk>,
    /// Chunks without bytes, to be used again.
    vacant: Vec<usize>,
    spare: Vec<Box<[u8]>>,
    current: usize,
    /// Where the tail begins in the current chunk.
    used: usize,
}

impl Store {
    /// Free memory for one frame of any length; its content is of no meaning.
    pub(crate) fn tail(&mut self) -> &mut [u8] {
        let size = self.chunks.get(self.current).map_or(0, |c| c.bytes.len());
        if size < self.used + MOST_FRAME {
            self.advance();
        }
        &mut self.chunks[self.current].bytes[self.used..self.used + MOST_FRAME]
    }

    /// Keeps what stands in the tail at `start`, `length` bytes long, as often as `copies` (at
    /// least once) says: each copy is released on its own.
    pub(crate) fn keep(&mut self, start: usize, length: usize, copies: usize) -> Place {
        let place = Place { chunk: self.current, start: self.used + start, length };
        self.used = (place.start + length).next_multiple_of(ALIGN);
        self.chunks[self.current].frames += copies;
        place
    }

    /// A kept frame.
    pub(crate) fn frame(&self, place: Place) -> &[u8] {
        &self.chunks[place.chunk].bytes[place.start..place.start + place.length]
    }

    /// Ends keeping one copy.
    pub(crate) fn release(&mut self, place: Place) {
        let chunk = &mut self.chunks[place.chunk];
        chunk.frames -= 1;
        if chunk.frames > 0 {
            return;
        }
        if place.chunk == self.current {
            self.used = 0;
        } else {
            let bytes = std::mem::take(&mut chunk.bytes);
            self.vacant.push(place.chunk);
            self.put_aside(bytes);
        }
    }

    /// Gives back all memory in which no frame is kept.
    pub(crate) fn trim(&mut self) {
        self.spare = Vec::new();
        if self.chunks.get(self.current).is_none_or(|c| c.frames == 0) {
            // With nothing kept in the current chunk others may still be in use.
            if self.in_use() <= 1 {
                *self = Store::default();
            }
        }
    }

    fn in_use(&self) -> usize {
        self.chunks.len() - self.vacant.len()
    }

    fn put_aside(&mut self, bytes: Box<[u8]>) {
        if self.spare.len() < self.in_use() {
            self.spare.push(bytes);
        } else {
            self.spare.truncate(self.in_use());
        }
    }

    fn advance(&mut self) {
        self.used = 0;
        if self.chunks.get(self.current).is_some_and(|c| c.frames == 0 && !c.bytes.is_empty()) {
            return;
        }
        let bytes = self.spare.pop().unwrap_or_else(|| vec![0; CHUNK].into_boxed_slice());
        let chunk = Chunk { bytes, frames: 0 };
        if let Some(index) = self.vacant.pop() {
            self.chunks[index] = chunk;
            self.current = index;
        } else {
            self.current = self.chunks.len();
            self.chunks.push(chunk);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    fn put(store: &mut Store, value: u8, length: usize) -> Place {
        store.tail()[3..3 + length].fill(value);
        store.keep(3, length, 1)
    }

    #[test]
    fn frames_stay_as_they_were_while_others_come_and_go() {
        let mut store = Store::default();
        let mut held: VecDeque<(u8, Place)> = VecDeque::new();
        let mut most = 0;
        for step in 0..20_000usize {
            let value = u8::try_from(step % 251).unwrap();
            let length = 1 + step * 7919 % (MOST_FRAME - 3);
            held.push_back((value, put(&mut store, value, length)));
            while held.len() > 64 {
                // Mostly in order, now and then not.
                let index = if step % 11 == 0 { held.len() / 2 } else { 0 };
                let (value, place) = held.remove(index).unwrap();
                assert!(store.frame(place).iter().all(|b| *b == value), "step {step}");
                store.release(place);
            }
            most = most.max(store.chunks.len());
        }
        assert!(most < 20, "{most} chunks for 64 frames");
    }

    #[test]
    fn a_copy_keeps_the_frame() {
        let mut store = Store::default();
        store.tail()[..4].copy_from_slice(b"abcd");
        let place = store.keep(0, 4, 2);
        store.release(place);
        store.tail().fill(0);
        assert_eq!(store.frame(place), b"abcd");
        store.release(place);
        assert_eq!(store.used, 0, "the chunk starts anew");
    }

    #[test]
    fn trimming_gives_back_what_nothing_is_kept_in() {
        let mut store = Store::default();
        let places: Vec<Place> = (0..100).map(|i| put(&mut store, i, 60_000)).collect();
        for place in &places[1..] {
            store.release(*place);
        }
        store.trim();
        assert!(store.spare.is_empty());
        assert!(store.frame(places[0]).iter().all(|b| *b == 0));
        store.release(places[0]);
        store.trim();
        assert!(store.chunks.is_empty());
        put(&mut store, 9, 10);
    }
}
