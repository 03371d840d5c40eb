//! A bounded queue of frames in order: held for an edge that is being opened, taken out of a ring
//! early, or cut from a super-frame.
//!
//! The memory is reused; it starts over whenever the last frame is gone.

use std::collections::VecDeque;

/// A queue of frames with their headers, each with its slot's past or future origin.
#[derive(Debug)]
pub(super) struct Frames {
    bytes: Vec<u8>,
    parts: VecDeque<Part>,
    most: usize,
}

#[derive(Debug)]
struct Part {
    origin: u16,
    start: usize,
    end: usize,
}

impl Frames {
    /// A queue of at most `most` bytes.
    pub(super) fn new(most: usize) -> Self {
        Frames { bytes: Vec::new(), parts: VecDeque::new(), most }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.parts.len()
    }

    /// Bytes that still fit.
    pub(super) fn room(&self) -> usize {
        self.most.saturating_sub(self.bytes.len())
    }

    /// Adds a frame, if there is room; returns its stored bytes.
    pub(super) fn push(&mut self, origin: u16, header: &[u8], frame: &[u8]) -> Option<&mut [u8]> {
        if header.len() + frame.len() > self.room() {
            return None;
        }
        let start = self.bytes.len();
        self.bytes.extend_from_slice(header);
        self.bytes.extend_from_slice(frame);
        self.parts.push_back(Part { origin, start, end: self.bytes.len() });
        self.bytes.get_mut(start..)
    }

    /// The oldest frame, and its origin.
    pub(super) fn first(&self) -> Option<(u16, &[u8])> {
        let part = self.parts.front()?;
        Some((part.origin, self.bytes.get(part.start..part.end)?))
    }

    /// Removes the oldest frame.
    pub(super) fn pop(&mut self) {
        self.parts.pop_front();
        if self.parts.is_empty() {
            self.bytes.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_in_comes_out_in_order_within_the_bound() {
        let mut frames = Frames::new(8);
        assert!(frames.push(1, &[1, 2], &[3]).is_some());
        assert!(frames.push(2, &[], &[4, 5, 6, 7]).is_some());
        assert!(frames.push(3, &[8], &[9]).is_none());
        assert_eq!((frames.len(), frames.room()), (2, 1));
        assert_eq!(frames.first(), Some((1, &[1, 2, 3][..])));
        frames.pop();
        assert_eq!(frames.first(), Some((2, &[4, 5, 6, 7][..])));
        frames.pop();
        assert_eq!((frames.first(), frames.room()), (None, 8));
        frames.pop();
        assert!(frames.is_empty());
    }
}
