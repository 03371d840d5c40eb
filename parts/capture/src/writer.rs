//! The writer: the one thread that waits for the output, so that no other has to.
//!
//! It takes chunks from the queue in order. When the output takes nothing for want of space it waits,
//! if it is to, and memory fills meanwhile; when it fails, what comes is lost and counted.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::output::{Made, Output, Refused};
use crate::queue::{Chunk, Next};
use crate::shared::{End, Shared};
use crate::sort::{self, Place};

/// How often the output is asked whether it has something to do.
const PAUSE: Duration = Duration::from_millis(100);

/// The writer's thread.
pub(crate) struct Writer {
    shared: Arc<Shared>,
    output: Box<dyn Output>,
    wait_for_space: bool,
    /// Nothing can be written any more.
    broken: bool,
    /// Memory for sorting.
    places: Vec<Place>,
}

impl Writer {
    pub(crate) fn new(
        shared: Arc<Shared>,
        output: Box<dyn Output>,
        wait_for_space: bool,
    ) -> Writer {
        Writer { shared, output, wait_for_space, broken: false, places: Vec::new() }
    }

    /// Writes until the queue is closed.
    pub(crate) fn run(mut self) -> Made {
        loop {
            match self.shared.queue.next(self.pause()) {
                Next::Chunk(chunk) if self.broken => self.lose(&chunk),
                Next::Chunk(mut chunk) => {
                    sort::by_time(&mut chunk, &self.shared.pool, &mut self.places);
                    let result = self.output.write(chunk);
                    self.deal_with(result);
                }
                Next::Nothing if self.broken => {}
                Next::Nothing => {
                    let result = self.output.go_on();
                    self.deal_with(result);
                }
                Next::Closed => break,
            }
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

    /// How long there is nothing to do but for chunks.
    fn pause(&self) -> Duration {
        let next = self.shared.rotation.until_next(self.shared.started.elapsed());
        next.map_or(PAUSE, |next| next.clamp(Duration::from_millis(1), PAUSE))
    }

    fn lose(&self, chunk: &Chunk) {
        self.shared.accounts[chunk.source].settle(chunk.frames, false);
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
                    // Nothing tells of space that comes back.
                    self.shared.wait_stop(PAUSE);
                    result = self.output.go_on();
                }
                Err(refused) => return self.give_up(refused),
            }
        }
    }

    /// Ends the capture; what is not written is lost.
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
