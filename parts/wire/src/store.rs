//! Memory for a direction's held frames.
//!
//! Frames are read directly into the tail of a chunk and stay there until they are sent: nothing is
//! copied, cleared or allocated on the way, and small frames take little memory. A chunk is reused
//! when none of its frames is held; frames leave roughly in order, so few frames keep a chunk
//! occupied. As many spare chunks are kept as are in use, so a steady flow allocates none.

use netloom_port::MOST_FRAME;

/// Bytes of a chunk: a super-frame that does not fit its rest wastes at most a sixteenth.
const CHUNK: usize = 1 << 20;

/// Frames start at multiples of this.
const ALIGN: usize = 16;

/// The place of a held frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chunked {
    chunk: usize,
    start: usize,
    length: usize,
}

impl Chunked {
    /// Its length in bytes.
    pub(crate) fn length(self) -> usize {
        self.length
    }
}

#[derive(Debug)]
struct Chunk {
    bytes: Box<[u8]>,
    /// Frames held in it, including copies.
    frames: usize,
}

/// The memory. Invariant: `current` is a chunk with memory, or no chunk has any.
#[derive(Debug, Default)]
pub(crate) struct Store {
    chunks: Vec<Chunk>,
    /// Chunks without memory, for reuse.
    vacant: Vec<usize>,
    spare: Vec<Box<[u8]>>,
    current: usize,
    /// Offset of the tail in the current chunk.
    used: usize,
}

impl Store {
    /// Free memory for one frame of any length; its content is undefined.
    pub(crate) fn tail(&mut self) -> &mut [u8] {
        let size = self.chunks.get(self.current).map_or(0, |c| c.bytes.len());
        if size < self.used + MOST_FRAME {
            self.advance();
        }
        &mut self.chunks[self.current].bytes[self.used..self.used + MOST_FRAME]
    }

    /// Keeps the `length` bytes at `start` of the tail, `copies` times (at least once): each copy
    /// is released separately.
    pub(crate) fn keep(&mut self, start: usize, length: usize, copies: usize) -> Chunked {
        let place = Chunked { chunk: self.current, start: self.used + start, length };
        self.used = (place.start + length).next_multiple_of(ALIGN);
        self.chunks[self.current].frames += copies;
        place
    }

    /// A kept frame.
    pub(crate) fn frame(&self, place: Chunked) -> &[u8] {
        &self.chunks[place.chunk].bytes[place.start..place.start + place.length]
    }

    /// Releases one copy.
    pub(crate) fn release(&mut self, place: Chunked) {
        let chunk = &mut self.chunks[place.chunk];
        chunk.frames -= 1;
        if chunk.frames > 0 {
            return;
        }
        // The current chunk stays where the tail is, and is filled from its beginning.
        if place.chunk == self.current {
            self.used = 0;
        } else {
            let bytes = std::mem::take(&mut chunk.bytes);
            self.vacant.push(place.chunk);
            self.put_aside(bytes);
        }
    }

    /// Frees all memory in which no frame is kept.
    pub(crate) fn trim(&mut self) {
        self.spare = Vec::new();
        if self.chunks.get(self.current).is_none_or(|c| c.frames == 0) {
            // Even if nothing is kept in the current chunk, others may be in use.
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
        // None of its frames is held any more: it can be filled again.
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

    fn put(store: &mut Store, value: u8, length: usize) -> Chunked {
        store.tail()[3..3 + length].fill(value);
        store.keep(3, length, 1)
    }

    #[test]
    fn frames_stay_as_they_were_while_others_come_and_go() {
        let mut store = Store::default();
        let mut held: VecDeque<(u8, Chunked)> = VecDeque::new();
        let mut most = 0;
        for step in 0..20_000usize {
            let value = u8::try_from(step % 251).unwrap();
            let length = 1 + step * 7919 % (MOST_FRAME - 3);
            held.push_back((value, put(&mut store, value, length)));
            while held.len() > 64 {
                // Mostly in order, sometimes not.
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
        assert_eq!(store.used, 0, "the chunk starts over");
    }

    #[test]
    fn trimming_gives_back_what_nothing_is_kept_in() {
        let mut store = Store::default();
        let places: Vec<Chunked> = (0..100).map(|i| put(&mut store, i, 60_000)).collect();
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
