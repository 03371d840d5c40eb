//! A session's thread: waits for blocks, reads them, and ends.
//!
//! It waits on the session's clock for the next block to become final, and for nothing else: separate threads
//! reattach points, and only the end waits for them. After the end of the last block no packet is marked;
//! packets marked until then are counted until that block is closed.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;

use netloom_marking::Schedule;
use netloom_sys::{Failure, describe};

use crate::Result;
use crate::lock::lock;
use crate::shared::{Shared, Waited};
use crate::{Closed, ClosedBlock};

/// Lag in blocks above which reading skips to blocks that are still readable: a clock was stepped ahead, or
/// the machine stood still.
const BEHIND: u64 = netloom_marking::BANKS;

/// Starts the thread of a session whose points are attached.
///
/// # Errors
/// The thread cannot be started.
pub(crate) fn spawn(shared: Arc<Shared>) -> Result<()> {
    let body = move || {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| run(&shared))) {
            shared.complain(format!("reading of blocks failed: {}", said(&*panic)));
        }
        let _ = catch_unwind(AssertUnwindSafe(|| end(&shared)));
        // Also after a panic: `Session::stop` waits for this state.
        shared.set_ended();
    };
    let thread = thread::Builder::new().name("netloom-measure".to_owned()).spawn(body);
    thread.map(drop).map_err(|e| Failure::new("thread \"netloom-measure\"", "start", e).into())
}

fn said(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("a panic")
}

/// Detaches all points, markers first, including reattachments in progress.
fn end(shared: &Shared) {
    let points = shared.points();
    // An observer that went first would miss packets that are still being marked.
    for marks in [true, false] {
        let mut endings = Vec::new();
        for mut point in points.iter().map(lock) {
            if point.is_marker() == marks {
                endings.push(point.end());
            }
        }
        // Blocks, so no lock is held: counts can be queried meanwhile.
        drop(endings);
    }
}

/// State of the thread.
struct Reader<'a> {
    shared: &'a Shared,
    schedule: Schedule,
    /// The last block; `None` if it runs until stopped.
    last: Option<u64>,
    next: u64,
    /// Packets are not marked any more.
    unmarked: bool,
    /// Longest possible wait for a block, unless the clock was stepped back.
    farthest: u64,
}

fn run(shared: &Shared) {
    let Some(schedule) = shared.schedule() else { return };
    let now = shared.setup.clock.now();
    let before = schedule.start().saturating_sub(now);
    let mut reader = Reader {
        shared,
        schedule,
        last: shared.setup.configuration.blocks().checked_sub(1),
        next: 0,
        unmarked: !shared.points().iter().any(|point| lock(point).is_marker()),
        farthest: before.saturating_add(schedule.period().saturating_mul(4)),
    };
    while reader.step() {}
}

impl Reader<'_> {
    /// Waits for the next event and handles it; returns whether to continue.
    fn step(&mut self) -> bool {
        match self.shared.wait_until(self.due(), self.farthest) {
            Waited::Due => {}
            Waited::Far => return self.give_up(),
            Waited::Stopped => {
                self.stop();
                return false;
            }
        }
        if !self.unmarked && self.is_last() {
            // Marks of a next block would be in packets that no point counts.
            self.unmark();
            return true;
        }
        self.tell(self.next, false);
        if self.is_last() {
            return false;
        }
        self.tend();
        self.next += 1;
        self.catch_up();
        true
    }

    fn now(&self) -> u64 {
        self.shared.setup.clock.now()
    }

    fn is_last(&self) -> bool {
        self.last.is_some_and(|last| self.next >= last)
    }

    /// Time of the next event.
    fn due(&self) -> u64 {
        if !self.unmarked && self.is_last() {
            return self.schedule.end(self.next);
        }
        let points = self.shared.points();
        // The slowest point decides: a block is told of all at once.
        let at = points.iter().map(|point| lock(point).readable_at(self.next)).max();
        at.unwrap_or_else(|| self.schedule.closed(self.next))
    }

    fn unmark(&mut self) {
        for mut point in self.shared.points().iter().map(lock) {
            if point.is_marker() {
                point.detach(&*self.shared.interfaces);
            }
        }
        self.unmarked = true;
    }

    /// Reads a block at all points and publishes it. `early`: the block is not final.
    fn tell(&self, block: u64, early: bool) {
        // Before the block is judged: a step during it makes its times worthless.
        lock(&self.shared.watch).look();
        let stepped = lock(&self.shared.watch).stepped_since(self.schedule.begin(block));
        let disturbed = lock(&self.shared.inner).disturbed;
        let disturbed = disturbed.is_some_and(|(first, last)| (first..=last).contains(&block));
        let points = self.shared.points();
        let mut told = ClosedBlock { block, points: Vec::with_capacity(points.len()) };
        for (spot, point) in points.iter().enumerate() {
            let mut point = lock(point);
            if let Err(error) = point.arrive() {
                self.shared.complain(describe(&error));
            }
            let read = point.read(&*self.shared.interfaces, block);
            let mut flows = read.unwrap_or_else(|error| {
                self.shared.complain(describe(&error));
                point.unread(block)
            });
            drop(point);
            for flow in &mut flows {
                flow.record.completeness.clock_stepped |= stepped;
                flow.record.completeness.ended_within |= early;
                flow.record.completeness.started_within |= disturbed;
            }
            told.points.push(Closed { spot, flows });
        }
        self.shared.tell(told);
    }

    /// Starts reattaching points whose interfaces disappeared, observers first; empties full caches.
    fn tend(&self) {
        for marks in [false, true] {
            for mut point in self.shared.points().iter().map(lock) {
                if point.is_marker() != marks {
                    continue;
                }
                let tended = point.return_to(&self.shared.interfaces).and_then(|()| point.tidy());
                if let Err(error) = tended {
                    self.shared.complain(describe(&error));
                }
            }
        }
    }

    /// Skips blocks whose banks have been reused.
    fn catch_up(&mut self) {
        let now = self.now();
        let lasting = self.schedule.block_at(now).unwrap_or(0);
        if lasting.saturating_sub(self.next) > BEHIND {
            // Older banks may be reused at any moment (`Schedule::reused`).
            let to = self.last.map_or(lasting, |last| last.min(lasting)).saturating_sub(2);
            let (from, last) = (self.next, to.saturating_sub(1));
            self.shared.complain(format!(
                "blocks {from} to {last} were not read in time: the clock was stepped ahead, or \
                 the machine stood still"
            ));
            self.next = to.max(self.next);
        }
    }

    /// The clock was stepped back so far that block numbers would repeat.
    fn give_up(&self) -> bool {
        let trouble = "the clock was stepped back by more than blocks can tell: measuring ended";
        self.shared.complain(trouble.to_owned());
        false
    }

    /// Ends early: publishes what can be read.
    fn stop(&mut self) {
        self.unmark();
        self.catch_up();
        let Some(lasting) = self.schedule.block_at(self.now()) else { return };
        let until = self.last.map_or(lasting, |last| last.min(lasting));
        while self.next <= until {
            let points = self.shared.points();
            let final_at = points.iter().map(|point| lock(point).readable_at(self.next)).max();
            self.tell(self.next, final_at.is_none_or(|at| self.now() < at));
            self.next += 1;
        }
    }
}

#[cfg(test)]
mod tests;
