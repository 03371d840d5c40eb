//! A running session: its blocks one by one, until it ends or is interrupted.
//!
//! The first interrupt ends it after the current block is closed, so that the results are exact; the second ends
//! it at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use netloom_ebpf::measure::Clock;
use netloom_marking::Schedule;
use netloom_measure::{ClosedBlock, Session, State};
use netloom_sys::clock;

use crate::{Error, Result};

/// Interval between checks for interrupts, and for changes of what is measured.
const LOOK: Duration = Duration::from_millis(50);

/// What happens while a session runs.
pub(super) enum Event<'t> {
    /// Time to look after what changes meanwhile: comes before each block, and between blocks.
    Look,
    /// A block is closed.
    Closed(&'t ClosedBlock),
}

/// A running session.
pub struct Watch {
    /// The session.
    pub session: Session,
    /// When its blocks begin and end.
    pub schedule: Schedule,
    /// Number of interrupts.
    interrupts: Arc<AtomicU32>,
}

impl Watch {
    /// Starts it; `interrupts` counts the requests to end it.
    pub(super) fn start(session: Session, interrupts: Arc<AtomicU32>) -> Result<Watch> {
        session.start()?;
        let schedule = session.schedule();
        let schedule = schedule.ok_or_else(|| Error::unfit("the session", "has no schedule"))?;
        Ok(Watch { session, schedule, interrupts })
    }

    /// Now on the session's clock.
    pub(super) fn now(&self) -> u64 {
        match self.session.setup().clock {
            Clock::Tai => clock::tai(),
            _ => clock::monotonic(),
        }
    }

    fn interrupts(&self) -> u32 {
        self.interrupts.load(Ordering::Relaxed)
    }

    /// Waits until block 0 begins or an interrupt arrives.
    pub(super) fn begun(&self) {
        loop {
            let left = self.schedule.start().saturating_sub(self.now());
            if left == 0 || self.interrupts() > 0 || self.session.state() != State::Running {
                return;
            }
            std::thread::sleep(Duration::from_nanos(left).min(LOOK));
        }
    }

    /// Passes each closed block to `work`, and returns when there are no more: with the reason, if the session
    /// ended early. It also ends when all nodes `are_gone`.
    ///
    /// # Errors
    /// An error of `work`, which ends it; [`Error::Ended`] without any block.
    pub(super) fn each<E: From<Error>>(
        &self,
        are_gone: impl Fn() -> bool,
        mut work: impl FnMut(Event<'_>) -> Result<(), E>,
    ) -> Result<Option<String>, E> {
        let mut next = 0;
        // The last block to wait for, once an end was requested.
        let mut last = None;
        loop {
            // Read before the blocks: else those that close in between would be missed.
            let ended = self.session.state() == State::Ended;
            let closed = self.session.blocks(next, LOOK);
            // First: whether routes have flawed a block is asked when it is handed on.
            work(Event::Look)?;
            for told in closed {
                if last.is_some_and(|last| told.block > last) {
                    break;
                }
                next = told.block + 1;
                work(Event::Closed(&told))?;
            }
            if ended {
                break;
            }
            if last.is_none() && self.interrupts() > 0 {
                // Packets sent before the interrupt are in this block or an earlier one.
                match self.schedule.block_at(self.now()) {
                    Some(block) => last = Some(block),
                    None => break,
                }
            }
            if last.is_some_and(|last| next > last) || self.interrupts() > 1 || are_gone() {
                break;
            }
        }
        self.session.stop();
        match self.session.trouble() {
            Some(trouble) if next == 0 && last.is_none() => Err(Error::Ended(trouble).into()),
            trouble => Ok(trouble),
        }
    }
}
