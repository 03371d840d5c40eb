//! A window on a byte stream, which grows no faster than bytes arrive.
//!
//! A length that a file claims never allocates memory: the window at most doubles when it is full of
//! received bytes.

use std::io::{ErrorKind, Read};

use crate::{Error, Result};

/// Initial bytes of the window, and bytes per read.
const WINDOW: usize = 64 << 10;

/// A window on a stream of bytes.
pub(super) struct Source<R> {
    bytes: R,
    window: Vec<u8>,
    /// The part of the window that is filled and not yet consumed.
    start: usize,
    end: usize,
    /// Offset of `start` in the stream.
    offset: u64,
}

impl<R: Read> Source<R> {
    pub(super) fn new(bytes: R) -> Self {
        Source { bytes, window: Vec::new(), start: 0, end: 0, offset: 0 }
    }

    /// Bytes consumed so far.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// The bytes present and not yet consumed.
    pub(super) fn data(&self) -> &[u8] {
        self.window.get(self.start..self.end).unwrap_or_default()
    }

    /// Reads `len` bytes into the window; `false` if the stream has fewer.
    #[inline]
    pub(super) fn fill(&mut self, len: usize) -> Result<bool> {
        while self.end - self.start < len {
            if !self.more()? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Consumes and returns the next `len` bytes, which [`Source::fill`] has read.
    #[inline]
    pub(super) fn take(&mut self, len: usize) -> &[u8] {
        let from = self.start;
        self.advance(len);
        self.window.get(from..self.start).unwrap_or_default()
    }

    /// Skips `len` bytes. `false` if there are fewer.
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

    /// Reads once; `false` at the end of the stream.
    fn more(&mut self) -> Result<bool> {
        if self.start > 0 {
            // Consumed bytes make room first, so that the window grows only when it is full.
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
                    // A reader must not claim more bytes than the room it was given.
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
