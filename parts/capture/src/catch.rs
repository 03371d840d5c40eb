//! A capture thread: asks its engine for frames, round by round, until the capture ends.
//!
//! Between rounds it shows counters and gives the writer what waits. An interface that goes is waited
//! for where somebody can find it again; then the file says so.

use netloom_sys::clock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::engine::{Counts, Engine, Round};
use crate::filler::{Filler, LIVE};
use crate::head::statistics;
use crate::merge::SLICE;
use crate::shared::{Account, End, Shared};
use crate::{Result, rotation};

/// Finds an interface again that is no more: given the number of the engine that ended, a new one in
/// its place, or nothing yet. It is asked some times a second, for each engine of those that shared the
/// interface in turn.
pub type Reopen = Box<dyn FnMut(usize) -> Option<Box<dyn Engine>> + Send>;

/// Longest wait of a round, after which it is looked whether to end.
const ROUND: Duration = Duration::from_millis(100);
/// How often an interface that is no more is looked for.
const SEARCH: Duration = Duration::from_millis(100);
/// How often a file is told of the counters, in nanoseconds.
const TELL: u64 = 1_000_000_000;

/// A capture thread.
pub(crate) struct Catch {
    pub(crate) shared: Arc<Shared>,
    pub(crate) filler: Filler,
    pub(crate) engine: Box<dyn Engine>,
    pub(crate) name: String,
    pub(crate) source: usize,
    pub(crate) thread: usize,
    pub(crate) reopen: Option<Arc<Mutex<Reopen>>>,
    /// Whether the file has blocks that tell counters.
    pub(crate) tells: bool,
    /// What engines before this one have counted.
    pub(crate) before: Counts,
    pub(crate) shown: Counts,
    pub(crate) looked: u64,
    pub(crate) told: u64,
}

impl Catch {
    /// Catches until the end. `alive` counts the threads; the last one closes the queue.
    pub(crate) fn run(mut self, alive: &AtomicUsize) {
        let leave = Leave { shared: Arc::clone(&self.shared), alive };
        if let Err(error) = self.catch() {
            self.shared.fail(error);
            // Whatever is still to be had; why it failed is told already.
            drop(self.engine.finish(&mut self.filler));
            drop(self.refresh());
        }
        self.filler.seal();
        self.filler.show();
        self.filler.mark(u64::MAX);
        drop(leave);
    }

    fn catch(&mut self) -> Result<()> {
        let most = if self.shared.merges { SLICE / 2 } else { ROUND };
        while !self.shared.is_stopping() {
            let wait = self.filler.until_due().map_or(most, |due| due.min(most));
            let began = self.now();
            match self.engine.round(&mut self.filler, wait)? {
                // Until when it looked it does not tell: a thread may stand still behind its last look.
                Round::Some | Round::Nothing => self.settle(began)?,
                Round::Part => self.settle(None)?,
                Round::Gone => {
                    if !self.find_again()? {
                        return Ok(());
                    }
                }
            }
        }
        let finished = self.engine.finish(&mut self.filler);
        // What is counted is shown also when something is missing.
        self.refresh()?;
        finished
    }

    /// Unix time, where somebody wants to know, less what a frame may take until it is found.
    fn now(&self) -> Option<u64> {
        let lag = || u64::try_from(self.engine.lag().as_nanos()).unwrap_or(u64::MAX);
        self.shared.merges.then(|| clock::realtime().saturating_sub(lag()))
    }

    fn settle(&mut self, taken: Option<u64>) -> Result<()> {
        let now = clock::monotonic();
        if u128::from(now - self.looked) >= LIVE.as_nanos() {
            self.looked = now;
            self.refresh()?;
            self.filler.show();
            self.tell(now);
        }
        self.filler.settle(taken);
        Ok(())
    }

    /// Looks what the engine has counted.
    fn refresh(&mut self) -> Result<()> {
        let counts = self.before + self.engine.counts()?;
        self.filler.note_drops(counts.lost.saturating_sub(self.shown.lost));
        self.filler.slot().show(&counts);
        self.shown = counts;
        Ok(())
    }

    /// Puts the interface's counters into the file, if there is news.
    fn tell(&mut self, now: u64) {
        if !self.tells || self.thread != 0 || now - self.told < TELL {
            return;
        }
        let account: &Account = &self.shared.accounts[self.source];
        if account.ledger().offered != account.told.load(Ordering::Relaxed) {
            let interface = u32::try_from(self.source).unwrap_or(u32::MAX);
            let mut block = Vec::new();
            statistics(&mut block, interface, account, &self.shared);
            self.filler.block(&block);
        }
        self.told = now;
    }

    /// Waits for an interface that is no more; whether it is back.
    fn find_again(&mut self) -> Result<bool> {
        let since = clock::realtime();
        self.engine.finish(&mut self.filler)?;
        self.refresh()?;
        self.before = self.shown;
        self.filler.seal();
        self.filler.show();
        let Some(reopen) = self.reopen.clone() else { return Ok(false) };
        loop {
            // What comes from now on, if it is back.
            self.filler.mark(clock::realtime());
            let found = reopen.lock().unwrap_or_else(PoisonError::into_inner)(self.thread);
            if let Some(engine) = found {
                self.engine = engine;
                let (from, to) = (rotation::text(since), rotation::text(clock::realtime()));
                let name = &self.name;
                self.filler.note_comment(format!("{name} was no more from {from} to {to}"));
                return Ok(true);
            }
            if self.shared.wait_stop(SEARCH) {
                return Ok(false);
            }
        }
    }
}

/// A thread's leaving, also by a panic.
struct Leave<'a> {
    shared: Arc<Shared>,
    alive: &'a AtomicUsize,
}

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        if self.alive.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.shared.end(End::InterfacesGone);
            self.shared.queue.close();
        }
    }
}
