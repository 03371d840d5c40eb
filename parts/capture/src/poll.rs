//! A capture thread: polls its engine for frames, round by round, until the capture ends.
//!
//! Between rounds it publishes counters and hands waiting frames to the writer. If its interface
//! disappears and a reopener is given, it waits for the interface; the file then records the gap.

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

/// Reopens an interface that is gone: given the number of the engine that ended, returns a
/// replacement, or nothing yet. It is called some times a second, in turn for each engine that
/// shared the interface.
pub type Reopen = Box<dyn FnMut(usize) -> Option<Box<dyn Engine>> + Send>;

/// Longest wait of a round, after which the thread checks whether to end.
const ROUND: Duration = Duration::from_millis(100);
/// The same while no interface has frames. What is due meanwhile calls the thread; its interface may go without a word.
const QUIET_ROUND: Duration = Duration::from_millis(250);
/// Interval of searches for an interface that is gone.
const SEARCH: Duration = Duration::from_millis(100);
/// Interval of counter blocks in a file, in nanoseconds.
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
    /// Whether the file has blocks with counters.
    pub(crate) tells: bool,
    /// The counts of earlier engines.
    pub(crate) before: Counts,
    pub(crate) shown: Counts,
    pub(crate) looked: u64,
    pub(crate) told: u64,
}

impl Catch {
    /// Captures until the end. `alive` counts the threads; the last one closes the queue.
    pub(crate) fn run(mut self, alive: &AtomicUsize) {
        let leave = Leave { shared: Arc::clone(&self.shared), alive };
        if let Err(error) = self.catch() {
            self.shared.fail(error);
            // Take whatever is left; the failure is reported already.
            drop(self.engine.finish(&mut self.filler));
            drop(self.refresh());
        }
        self.filler.seal();
        self.filler.show();
        self.filler.mark(u64::MAX);
        drop(leave);
    }

    fn catch(&mut self) -> Result<()> {
        while !self.shared.is_stopping() {
            let most = self.most();
            let wait = self.filler.until_due().map_or(most, |due| due.min(most));
            let began = self.now();
            let round = self.engine.round(&mut self.filler, wait)?;
            if matches!(round, Round::Some | Round::Part) {
                self.shared.note_frames();
            }
            match round {
                // Marks the start of the round: the time of its last poll is unknown, and the thread may have
                // stalled since.
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
        // Counts are published even if some are missing.
        self.refresh()?;
        finished
    }

    /// The longest wait of the next round.
    fn most(&mut self) -> Duration {
        if !self.shared.merges {
            return ROUND;
        }
        let has_call = self.engine.heeds_calls() && self.filler.slot().call().is_some();
        let is_quiet = |shared: &Shared| has_call && !shared.is_stopping() && shared.is_quiet();
        let mut sleeps = is_quiet(&self.shared);
        if sleeps {
            // In this order: a call that is forgotten here came after what the second look sees.
            self.filler.slot().hear();
            sleeps = is_quiet(&self.shared);
        }
        self.filler.set_called(sleeps);
        // Half a slice, so that none passes without a mark.
        if sleeps { QUIET_ROUND } else { SLICE / 2 }
    }

    /// Unix time minus the engine's lag; only if interfaces are merged.
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

    /// Reads the engine's counters.
    fn refresh(&mut self) -> Result<()> {
        let counts = self.before + self.engine.counts()?;
        self.filler.note_drops(counts.lost.saturating_sub(self.shown.lost));
        self.filler.slot().show(&counts);
        self.shown = counts;
        Ok(())
    }

    /// Writes the interface's counters into the file, if they have changed.
    fn tell(&mut self, now: u64) {
        // The counters are the interface's: one of its threads tells them.
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

    /// Waits for an interface that is gone; returns whether it is back.
    fn find_again(&mut self) -> Result<bool> {
        let since = clock::realtime();
        // What the old engine still holds comes before the gap.
        self.engine.finish(&mut self.filler)?;
        self.refresh()?;
        self.before = self.shown;
        self.filler.seal();
        self.filler.show();
        let Some(reopen) = self.reopen.clone() else { return Ok(false) };
        loop {
            // If it is back, only later frames will come.
            self.filler.mark(clock::realtime());
            let found = reopen.lock().unwrap_or_else(PoisonError::into_inner)(self.thread);
            if let Some(engine) = found {
                self.engine = engine;
                let (from, to) = (rotation::text(since), rotation::text(clock::realtime()));
                let name = &self.name;
                self.filler.note_comment(format!("{name} was gone from {from} to {to}"));
                return Ok(true);
            }
            if self.shared.wait_stop(SEARCH) {
                return Ok(false);
            }
        }
    }
}

/// A thread's exit, even by a panic.
struct Leave<'a> {
    shared: Arc<Shared>,
    alive: &'a AtomicUsize,
}

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        // Each thread counts itself down after its last chunk, so nothing comes after the last one.
        if self.alive.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.shared.end(End::InterfacesGone);
            self.shared.queue.close();
        }
    }
}
