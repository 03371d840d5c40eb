//! Bytes that come in parts, as a window that grows no faster than they come.
//!
//! A length that a file claims never makes memory: the window at most doubles when it is full of
//! bytes that are there.

use std::io::{ErrorKind, Read};

use crate::{Error, Result};

/// Bytes of the window at first, and read at once.
const WINDOW: usize = 64 << 10;

/// A window on a stream of bytes.
pub(super) struct Source<R> {
    bytes: R,
    window: Vec<u8>,
    /// What of the window is filled and not yet taken.
    start: usize,
    end: usize,
    /// Place in the stream of `start`.
    offset: u64,
}

impl<R: Read> Source<R> {
    pub(super) fn new(bytes: R) -> Self {
        Source { bytes, window: Vec::new(), start: 0, end: 0, offset: 0 }
    }

    /// Bytes taken so far.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// What is there and not yet taken.
    pub(super) fn data(&self) -> &[u8] {
        self.window.get(self.start..self.end).unwrap_or_default()
    }

    /// Gets `len` bytes into the window, or all there are: then the answer is `false`.
    #[inline]
    pub(super) fn fill(&mut self, len: usize) -> Result<bool> {
        while self.end - self.start < len {
            if !self.more()? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The next `len` bytes, which [`Source::fill`] has got, as taken.
    #[inline]
    pub(super) fn take(&mut self, len: usize) -> &[u8] {
        let from = self.start;
        self.advance(len);
        self.window.get(from..self.start).unwrap_or_default()
    }

    /// Takes `len` bytes and forgets them. `false` when there are less.
    pub(super) fn skip(&mut self, mut len: usize) -> Result<bool> {
        loop {
            let now = len.min(self.end - self.start);
            self.advance(now);
            len -= now;
            if len == 0 {
                return Ok(true);
            }
            if !self.more()? {
                return Ok(false);
            }
        }
    }

    #[inline]
    fn advance(&mut self, len: usize) {
        let len = len.min(self.end - self.start);
        self.start += len;
        self.offset = self.offset.saturating_add(u64::try_from(len).unwrap_or(u64::MAX));
    }

    /// Reads once. `false` at the end of the stream.
    fn more(&mut self) -> Result<bool> {
        if self.start > 0 {
            self.window.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        if self.end == self.window.len() {
            self.window.resize((self.window.len() * 2).max(WINDOW), 0);
        }
        loop {
            match self.bytes.read(&mut self.window[self.end..]) {
                Ok(got) => {
                    // A reader may not claim more than it was given room for.
                    self.end = self.window.len().min(self.end.saturating_add(got));
                    return Ok(got > 0);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(source) => {
                    let there = u64::try_from(self.end).unwrap_or(u64::MAX);
                    return Err(Error::Read { at: self.offset.saturating_add(there), source });
                }
            }
        }
    }
}
