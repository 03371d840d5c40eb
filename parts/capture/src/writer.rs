//! The writer: the only thread that waits for the output.
//!
//! It takes chunks from the queue in order, through a [`Merger`] if there are several interfaces.
//! If the output lacks space and the options say so, it waits, and memory fills meanwhile; if the
//! output fails, later frames are lost and counted.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::merge::{Merger, TICK};
use crate::output::{Made, Output, Refused};
use crate::queue::{Chunk, Next};
use crate::shared::{End, Shared};
use crate::sort::{self, BlockAt};

/// Interval at which the output may do pending work.
const PAUSE: Duration = Duration::from_millis(100);

/// The writer's thread.
pub(crate) struct Writer {
    shared: Arc<Shared>,
    output: Box<dyn Output>,
    wait_for_space: bool,
    /// Nothing more can be written.
    broken: bool,
    /// Memory for sorting.
    places: Vec<BlockAt>,
    merger: Option<Merger>,
}

impl Writer {
    pub(crate) fn new(
        shared: Arc<Shared>,
        output: Box<dyn Output>,
        wait_for_space: bool,
        merger: Option<Merger>,
    ) -> Writer {
        Writer { shared, output, wait_for_space, broken: false, places: Vec::new(), merger }
    }

    /// Writes until the queue is closed.
    pub(crate) fn run(mut self) -> Made {
        match self.merger.take() {
            Some(mut merger) => self.write_merged(&mut merger),
            None => self.write_all(),
        }
        if !self.broken {
            let result = self.output.finish();
            if let Err(refused) = result {
                self.give_up(refused);
            }
        }
        self.shared.finish();
        self.output.made()
    }

    /// Writes chunks as they come.
    fn write_all(&mut self) {
        loop {
            match self.shared.queue.next(self.pause()) {
                Next::Chunk(mut chunk) => {
                    // What is lost anyway needs no order.
                    if !self.broken {
                        sort::by_time(&mut chunk, &self.shared.pool, &mut self.places);
                    }
                    self.write(chunk);
                }
                Next::Nothing => self.go_on(),
                Next::Closed => return,
            }
        }
    }

    /// Writes chunks as they are merged.
    fn write_merged(&mut self, merger: &mut Merger) {
        let mut closed = false;
        while !closed {
            closed = self.gather(merger);
            // In this order: everything covered by the mark is taken from the queue now.
            let mark = self.shared.mark();
            // As many as there are now: with busy threads it might never be empty.
            for _ in 0..self.shared.queue.len() {
                self.add(merger, Duration::ZERO);
            }
            self.write_until(merger, if closed { u64::MAX } else { merger.horizon(mark) });
            self.go_on();
        }
        while !merger.is_empty() {
            // There was no memory until something was written.
            self.shared.wait_over(TICK);
            self.go_on();
            self.write_until(merger, u64::MAX);
        }
    }

    /// Takes chunks until it is time to write; returns whether no more will come.
    fn gather(&mut self, merger: &mut Merger) -> bool {
        let begun = Instant::now();
        loop {
            let most = if merger.is_empty() { self.pause() } else { TICK };
            let left = most.saturating_sub(begun.elapsed());
            match self.add(merger, left) {
                Some(closed) => return closed,
                None if begun.elapsed() >= TICK => return false,
                None => {}
            }
        }
    }

    /// Takes one chunk; if there is none within `most`, returns whether the queue is closed.
    fn add(&mut self, merger: &mut Merger, most: Duration) -> Option<bool> {
        match self.shared.queue.next(most) {
            Next::Chunk(chunk) => {
                let slot = &self.shared.accounts[chunk.source()].slots[chunk.thread];
                // The chunk itself comes through the queue's
                // lock; the count only says whether one waits.
                slot.queued.fetch_sub(1, Ordering::Relaxed);
                if self.broken {
                    self.lose(&chunk);
                } else {
                    merger.add(chunk);
                }
                None
            }
            Next::Nothing => Some(false),
            Next::Closed => Some(true),
        }
    }

    fn write_until(&mut self, merger: &mut Merger, until: u64) {
        while let Some(chunk) = merger.next(until) {
            self.write(chunk);
        }
        if let Some(chunk) = merger.rest() {
            self.write(chunk);
        }
        if self.broken {
            merger.lose();
        }
    }

    fn write(&mut self, chunk: Chunk) {
        if self.broken {
            return self.lose(&chunk);
        }
        let result = self.output.write(chunk);
        self.deal_with(result);
    }

    fn go_on(&mut self) {
        if !self.broken {
            let result = self.output.go_on();
            self.deal_with(result);
        }
    }

    /// Time without anything to do except for chunks.
    fn pause(&self) -> Duration {
        let next = self.shared.rotation.until_next(self.shared.started.elapsed());
        next.map_or(PAUSE, |next| next.clamp(Duration::from_millis(1), PAUSE))
    }

    fn lose(&self, chunk: &Chunk) {
        self.shared.settle(&chunk.shares, false);
    }

    fn deal_with(&mut self, mut result: Result<(), Refused>) {
        loop {
            match result {
                Ok(()) => {
                    self.shared.full.store(false, Ordering::Relaxed);
                    return;
                }
                Err(Refused::Full) if self.wait_for_space && !self.shared.is_stopping() => {
                    self.shared.full.store(true, Ordering::Relaxed);
                    // Nothing announces that space is back.
                    self.shared.wait_stop(PAUSE);
                    result = self.output.go_on();
                }
                Err(refused) => return self.give_up(refused),
            }
        }
    }

    /// Ends the capture; unwritten frames are lost.
    fn give_up(&mut self, refused: Refused) {
        match refused {
            Refused::Full => self.shared.end(End::DiskFull),
            Refused::ReaderGone => self.shared.end(End::ReaderGone),
            Refused::Failed(error) => self.shared.fail(error),
        }
        self.broken = true;
        self.output.abandon();
    }
}
