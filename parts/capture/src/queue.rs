//! Chunks on their way from the capture threads to the writer.
//!
//! The queue has no bound of its own: chunks are of a pool, which has one. Invariant: chunks of one
//! thread come out in the order in which they went in.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use netloom_disk::Buffer;

/// Whole blocks of a file in one buffer.
#[derive(Debug)]
pub(crate) struct Chunk {
    pub(crate) buffer: Buffer,
    /// Bytes of blocks in it; there is room to pad it to the next edge of direct I/O.
    pub(crate) len: usize,
    /// Whose frames they are, and how many: of one source, or of several that were merged.
    pub(crate) shares: Vec<Share>,
    /// Which thread of the (first) source has filled it.
    pub(crate) thread: usize,
    /// How often the time of rotation had come when it was begun.
    pub(crate) epoch: u64,
    /// The time of the last frame.
    pub(crate) last: u64,
    /// Whether the blocks are in the order of their times.
    pub(crate) sorted: bool,
}

/// Frames of one source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    /// The number of the source.
    pub(crate) source: usize,
    pub(crate) frames: u64,
}

impl Chunk {
    /// The number of the (first) source.
    pub(crate) fn source(&self) -> usize {
        self.shares.first().map_or(0, |share| share.source)
    }
}

/// What [`Queue::next`] found.
#[derive(Debug)]
pub(crate) enum Next {
    Chunk(Chunk),
    /// Nothing for so long.
    Nothing,
    /// Nothing, and nothing will come.
    Closed,
}

#[derive(Debug, Default)]
struct State {
    chunks: VecDeque<Chunk>,
    closed: bool,
    /// Whether the writer waits here.
    waits: bool,
}

/// A queue with one reader.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    state: Mutex<State>,
    come: Condvar,
}

impl Queue {
    pub(crate) fn push(&self, chunk: Chunk) {
        self.lock().chunks.push_back(chunk);
        self.come.notify_one();
    }

    /// Nothing will come any more.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.come.notify_one();
    }

    /// How many chunks wait.
    pub(crate) fn len(&self) -> usize {
        self.lock().chunks.len()
    }

    /// Whether the writer has written all and waits: then what is begun is worth giving to it.
    pub(crate) fn is_idle(&self) -> bool {
        let state = self.lock();
        state.waits && state.chunks.is_empty()
    }

    pub(crate) fn next(&self, most: Duration) -> Next {
        let mut state = self.lock();
        state.waits = true;
        let empty = |state: &mut State| state.chunks.is_empty() && !state.closed;
        let waited = self.come.wait_timeout_while(state, most, empty);
        (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.waits = false;
        match state.chunks.pop_front() {
            Some(chunk) => Next::Chunk(chunk),
            None if state.closed => Next::Closed,
            None => Next::Nothing,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
