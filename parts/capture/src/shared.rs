//! State shared by a capture's threads: when to stop and why, and the counters.
//!
//! One thread writes each counter; others read it at any time. Threads wait here only for the end.

use netloom_sys::clock;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use netloom_disk::Pool;
use rustix::event::{EventfdFlags, eventfd};
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::counts::Counts;
use crate::ledger::{Ledger, Lost};
use crate::queue::{Queue, Share};
use crate::rotation::Rotation;

/// Why a capture ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum End {
    /// It was stopped.
    Stopped,
    /// Its duration is over.
    Duration,
    /// It has the requested number of frames.
    Packets,
    /// Nothing is left to capture from.
    InterfacesGone,
    /// The output's reader has gone.
    ReaderGone,
    /// The disk is full.
    DiskFull,
    /// Something failed, see [`crate::Report::failure`].
    Failed,
}

/// After how long without a frame anywhere threads wait long, in nanoseconds.
const QUIET: u64 = 500_000_000;

/// The counters of a capture thread.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    pub(crate) offered: AtomicU64,
    pub(crate) filtered: AtomicU64,
    pub(crate) ring: AtomicU64,
    pub(crate) captured: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) truncated: AtomicU64,
    pub(crate) memory: AtomicU64,
    /// Lost for lack of memory while the disk was full.
    pub(crate) disk: AtomicU64,
    /// Beyond the requested number of frames.
    pub(crate) beyond: AtomicU64,
    /// Bytes put into memory, in written form.
    pub(crate) filled: AtomicU64,
    /// If interfaces are merged: all frames with an earlier time are in the queue (Unix, nanoseconds).
    pub(crate) mark: AtomicU64,
    /// If interfaces are merged: chunks of this thread in the queue.
    pub(crate) queued: AtomicU64,
    /// If interfaces are merged: calls the thread back from its wait.
    call: Option<OwnedFd>,
}

impl Slot {
    /// Publishes an engine's counts.
    pub(crate) fn show(&self, counts: &Counts) {
        self.offered.store(counts.offered, Ordering::Relaxed);
        self.filtered.store(counts.filtered, Ordering::Relaxed);
        self.ring.store(counts.lost, Ordering::Relaxed);
    }

    pub(crate) fn call(&self) -> Option<BorrowedFd<'_>> {
        self.call.as_ref().map(AsFd::as_fd)
    }

    /// Forgets calls so far.
    pub(crate) fn hear(&self) {
        if let Some(call) = &self.call {
            // It fails if there is none.
            let _ = rustix::io::read(call, &mut [0; 8]);
        }
    }

    fn call_back(&self) {
        if let Some(call) = &self.call {
            // It fails if the counter is full, and that is a call as well.
            let _ = rustix::io::write(call, &1_u64.to_ne_bytes());
        }
    }
}

/// The parts of an interface's ledger.
#[derive(Debug)]
pub(crate) struct Account {
    pub(crate) slots: Vec<Slot>,
    pub(crate) written: AtomicU64,
    pub(crate) lost_disk: AtomicU64,
    /// Offered frames when counters were last written to the file.
    pub(crate) told: AtomicU64,
}

impl Account {
    pub(crate) fn new(threads: usize) -> Account {
        let slots = std::iter::repeat_with(Slot::default).take(threads).collect();
        Account {
            slots,
            written: AtomicU64::new(0),
            lost_disk: AtomicU64::new(0),
            told: AtomicU64::new(0),
        }
    }

    pub(crate) fn ledger(&self) -> Ledger {
        // Each counter stands for itself. While threads count the sum is off
        // by some frames; at the end, after they are joined, it balances.
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let slot = |slot: &Slot| Ledger {
            offered: load(&slot.offered),
            filtered: load(&slot.filtered) + load(&slot.beyond),
            captured: load(&slot.captured),
            written: 0,
            lost: Lost {
                ring: load(&slot.ring),
                memory: load(&slot.memory),
                disk: load(&slot.disk),
            },
            truncated: load(&slot.truncated),
            bytes: load(&slot.bytes),
        };
        let mut ledger: Ledger = self.slots.iter().map(slot).sum();
        ledger.written = load(&self.written);
        ledger.lost.disk += load(&self.lost_disk);
        ledger
    }

    /// Accounts for frames that are in the output, or that never will be.
    pub(crate) fn settle(&self, frames: u64, written: bool) {
        let counter = if written { &self.written } else { &self.lost_disk };
        counter.fetch_add(frames, Ordering::Relaxed);
    }
}

/// State shared by all threads.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) pool: Pool,
    pub(crate) queue: Queue,
    pub(crate) accounts: Vec<Account>,
    pub(crate) rotation: Rotation,
    /// The buffers' size in bytes.
    pub(crate) chunk: usize,
    pub(crate) started: Instant,
    pub(crate) started_ns: u64,
    /// Whether frames of several interfaces are merged into time order.
    pub(crate) merges: bool,
    /// When frames were last taken, by the monotonic clock, to a sixteenth of [`QUIET`].
    busy: AtomicU64,
    /// Frames that came too late for that.
    pub(crate) late: AtomicU64,
    /// Frames still to take, if there is a limit.
    pub(crate) wanted: Option<AtomicI64>,
    /// Whether the disk is full and the capture waits for space.
    pub(crate) full: AtomicBool,
    stopping: AtomicBool,
    ended: Mutex<Ended>,
    told: Condvar,
}

#[derive(Debug, Default)]
struct Ended {
    why: Option<End>,
    failure: Option<Error>,
    at: Option<Instant>,
    /// Everything is done; supervision ends.
    over: bool,
}

impl Shared {
    pub(crate) fn new(
        pool: Pool,
        chunk: usize,
        mut accounts: Vec<Account>,
        rotation: Rotation,
        wanted: Option<u64>,
    ) -> Shared {
        let merges = accounts.len() > 1;
        if merges {
            for slot in accounts.iter_mut().flat_map(|account| &mut account.slots) {
                // Without one the thread never waits long.
                slot.call = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).ok();
            }
        }
        Shared {
            pool,
            queue: Queue::default(),
            merges,
            busy: AtomicU64::new(clock::monotonic()),
            late: AtomicU64::new(0),
            accounts,
            rotation,
            chunk,
            started: Instant::now(),
            started_ns: clock::realtime(),
            wanted: wanted.map(|n| AtomicI64::new(i64::try_from(n).unwrap_or(i64::MAX))),
            full: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            ended: Mutex::default(),
            told: Condvar::new(),
        }
    }

    /// Accounts for frames that are in the output, or that never will be.
    pub(crate) fn settle(&self, shares: &[Share], written: bool) {
        for share in shares {
            self.accounts[share.source].settle(share.frames, written);
        }
    }

    /// Notes that frames were taken. After a time without any, other threads are called: their marks are needed.
    pub(crate) fn note_frames(&self) {
        if !self.merges {
            return;
        }
        let now = clock::monotonic();
        let quiet = now.saturating_sub(self.busy.load(Ordering::Relaxed));
        // Not each time: threads share this word's cache line.
        if quiet < QUIET / 16 {
            return;
        }
        self.busy.store(now, Ordering::SeqCst);
        // Half the time, since another may have looked a little later than this one.
        if quiet >= QUIET / 2 {
            self.call_all();
        }
    }

    /// Whether nothing came for so long that nobody needs this thread's mark soon.
    pub(crate) fn is_quiet(&self) -> bool {
        clock::monotonic().saturating_sub(self.busy.load(Ordering::SeqCst)) >= QUIET
    }

    fn call_all(&self) {
        self.accounts.iter().flat_map(|account| &account.slots).for_each(Slot::call_back);
    }

    /// All frames with an earlier time are in the queue, or were.
    pub(crate) fn mark(&self) -> u64 {
        let slots = self.accounts.iter().flat_map(|account| &account.slots);
        // Pairs with the store in `Filler::settle_merged`:
        // chunks pushed before the mark are in the queue.
        slots.map(|slot| slot.mark.load(Ordering::Acquire)).min().unwrap_or(u64::MAX)
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Ends the capture; the first reason counts.
    pub(crate) fn end(&self, why: End) {
        let mut ended = self.lock();
        ended.why.get_or_insert(why);
        ended.at.get_or_insert_with(Instant::now);
        self.stopping.store(true, Ordering::Release);
        self.call_all();
        self.told.notify_all();
    }

    /// Ends the capture because of a failure; the first failure is kept, and outranks other reasons.
    pub(crate) fn fail(&self, failure: Error) {
        let mut ended = self.lock();
        if ended.failure.is_none() {
            ended.failure = Some(failure);
            // Another reason may be there already: the failure
            // explains more than a limit that was reached beside it.
            ended.why = Some(End::Failed);
        }
        drop(ended);
        self.end(End::Failed);
    }

    /// Ends supervision, when everything is written.
    pub(crate) fn finish(&self) {
        self.lock().over = true;
        self.told.notify_all();
    }

    /// Why it ended, and the failure.
    pub(crate) fn take_end(&self) -> (End, Option<Error>) {
        let mut ended = self.lock();
        (ended.why.unwrap_or(End::Stopped), ended.failure.take())
    }

    /// Since when the capture has been ending.
    pub(crate) fn ending_since(&self) -> Option<Instant> {
        self.lock().at
    }

    /// Waits at most `most` for the end; returns whether the capture is to end.
    pub(crate) fn wait_stop(&self, most: Duration) -> bool {
        let waiting = |ended: &mut Ended| ended.why.is_none();
        let waited = self.told.wait_timeout_while(self.lock(), most, waiting);
        waited.unwrap_or_else(PoisonError::into_inner).0.why.is_some()
    }

    /// Waits at most `most` until everything is written; returns whether it is.
    pub(crate) fn wait_over(&self, most: Duration) -> bool {
        let waited = self.told.wait_timeout_while(self.lock(), most, |ended| !ended.over);
        waited.unwrap_or_else(PoisonError::into_inner).0.over
    }

    /// The number of rotation periods so far.
    pub(crate) fn epoch(&self) -> u64 {
        if self.rotation.time.is_none() { 0 } else { self.rotation.epoch(self.started.elapsed()) }
    }

    fn lock(&self) -> MutexGuard<'_, Ended> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
