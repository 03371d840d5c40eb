//! The queue of chunks from the capture threads to the writer.
//!
//! The queue needs no bound of its own: chunks come from a bounded pool. Invariant: chunks of one
//! thread leave in the order in which they entered.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use netloom_disk::Buffer;

/// Whole blocks of a file in one buffer.
#[derive(Debug)]
pub(crate) struct Chunk {
    pub(crate) buffer: Buffer,
    /// Bytes of blocks in it, followed by room to pad to the next edge of direct I/O.
    pub(crate) len: usize,
    /// Number of frames by source: one source, or several that were merged.
    pub(crate) shares: Vec<Share>,
    /// The thread of the (first) source that filled it.
    pub(crate) thread: usize,
    /// The number of rotation periods before it was begun.
    pub(crate) epoch: u64,
    /// The time of the last frame.
    pub(crate) last: u64,
    /// Whether the blocks are in time order.
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

/// The outcome of [`Queue::next`].
#[derive(Debug)]
pub(crate) enum Next {
    Chunk(Chunk),
    /// Nothing within the wait.
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

    /// Closes the queue: nothing more will come.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.come.notify_one();
    }

    /// Number of waiting chunks.
    pub(crate) fn len(&self) -> usize {
        self.lock().chunks.len()
    }

    /// Whether the writer is idle: then it is worth handing over a chunk in progress.
    pub(crate) fn is_idle(&self) -> bool {
        let state = self.lock();
        // Both under the lock: the writer sets `waits` where it looks for chunks.
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
