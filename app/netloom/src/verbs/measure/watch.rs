//! A running session: its blocks one by one, until it ends or is interrupted.
//!
//! The first signal ends it after the current block is closed, so that the results are exact; the second ends
//! it at once.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use netloom_ebpf::measure::Clock;
use netloom_marking::Schedule;
use netloom_measure::{Session, State, Told};
use netloom_sys::{clock, process};
use rustix::event::{PollFd, PollFlags};

use crate::spaces::Spaces;

/// Interval between checks for signals.
const LOOK: Duration = Duration::from_millis(50);

/// A running session.
pub(super) struct Watch {
    pub(super) session: Session,
    pub(super) schedule: Schedule,
    /// Number of signals received.
    signals: Arc<AtomicU32>,
}

impl Watch {
    /// Starts it; the thread that waits for signals ends with the process.
    pub(super) fn start(session: Session, signals: OwnedFd) -> Result<Watch> {
        let count = Arc::new(AtomicU32::new(0));
        let counts = Arc::clone(&count);
        std::thread::spawn(move || {
            let mut told = [0; 128];
            loop {
                let mut ready = [PollFd::new(&signals, PollFlags::IN)];
                let waited = rustix::event::poll(&mut ready, None);
                if waited.is_ok() && rustix::io::read(&signals, &mut told).is_ok_and(|n| n > 0) {
                    counts.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        session.start()?;
        let schedule = session.schedule().context("the session has no schedule")?;
        Ok(Watch { session, schedule, signals: count })
    }

    /// Now on the session's clock.
    fn now(&self) -> u64 {
        match self.session.setup().clock {
            Clock::Tai => clock::tai(),
            _ => clock::monotonic(),
        }
    }

    fn signals(&self) -> u32 {
        self.signals.load(Ordering::Relaxed)
    }

    /// Waits until block 0 begins or a signal arrives.
    pub(super) fn begun(&self) {
        loop {
            let left = self.schedule.start().saturating_sub(self.now());
            if left == 0 || self.signals() > 0 || self.session.state() != State::Running {
                return;
            }
            std::thread::sleep(Duration::from_nanos(left).min(LOOK));
        }
    }

    /// Passes each closed block to `work`, and returns when there are no more.
    ///
    /// # Errors
    /// An error of `work`, which stops the session; the reason why the session ended early.
    pub(super) fn each(
        &self,
        spaces: &Spaces,
        mut work: impl FnMut(&Told) -> Result<()>,
    ) -> Result<()> {
        let mut next = 0;
        // The last block to wait for, once an end was requested.
        let mut last = None;
        loop {
            let ended = self.session.state() == State::Ended;
            for told in self.session.blocks(next, LOOK) {
                if last.is_some_and(|last| told.block > last) {
                    break;
                }
                next = told.block + 1;
                work(&told)?;
            }
            if ended {
                break;
            }
            let gone =
                || spaces.only_nodes() && spaces.inits().all(|i| process::has_ended(i.as_fd()));
            if last.is_none() && self.signals() > 0 {
                match self.schedule.block_at(self.now()) {
                    Some(block) => last = Some(block),
                    None => break,
                }
            }
            if last.is_some_and(|last| next > last) || self.signals() > 1 || gone() {
                break;
            }
        }
        self.session.stop();
        match self.session.trouble() {
            Some(trouble) if next == 0 && last.is_none() => bail!("{trouble}"),
            Some(trouble) => {
                eprintln!("note: {trouble}");
                Ok(())
            }
            None => Ok(()),
        }
    }
}
