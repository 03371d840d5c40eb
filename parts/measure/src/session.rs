//! One measurement: points at interfaces, blocks read once closed.

use std::fmt;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use netloom_ebpf::measure::{ClockState, Counts};
use netloom_marking::Schedule;

use crate::lock::lock;
use crate::shared::Shared;
use crate::{ClosedBlock, Error, Interfaces, Join, Result, Setup, State, join, run, start};

/// One measurement. Dropping it stops it.
pub struct Session(Arc<Shared>);

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("state", &self.state()).finish_non_exhaustive()
    }
}

impl Session {
    /// Finds the interfaces and checks that the kernel accepts the programs; attaches nothing.
    ///
    /// # Errors
    /// A spot whose interface is missing, that marks at ingress, or that appears twice; [`Error::Period`];
    /// too much memory for flows and samples; missing features of the kernel or rights of the user.
    pub fn prepare(interfaces: Arc<dyn Interfaces>, setup: Setup) -> Result<Session> {
        let room = start::check(&*interfaces, &setup)?;
        Ok(Session(Arc::new(Shared::new(interfaces, setup, room))))
    }

    /// Attaches all points (markers last) and begins. Block 0 begins at an even multiple of the period on the
    /// clock, once all points count. So sessions of several hosts agree on block boundaries and colours,
    /// though not on numbers.
    ///
    /// # Errors
    /// [`Error::Order`] unless it is prepared; errors of the kernel: then nothing stays attached, and it can
    /// be started again.
    pub fn start(&self) -> Result<()> {
        let shared = &self.0;
        let _starting = shared.begin_start()?;
        let (schedule, points) = start::attach(shared)?;
        shared.set_running(schedule, points);
        // Without a reader nothing would ever be told, or end.
        run::spawn(Arc::clone(shared)).inspect_err(|_| shared.set_prepared())
    }

    /// Removes markers, then reads the current block, which is flagged as ended within. On return nothing is
    /// attached any more. A session that was never started ends too.
    pub fn stop(&self) {
        let mut inner = lock(&self.0.inner);
        // A start under way would set the state to running behind this one's back.
        while inner.starting {
            inner = self.0.changed.wait(inner).unwrap_or_else(PoisonError::into_inner);
        }
        if inner.state == State::Prepared {
            inner.state = State::Ended;
        }
        inner.stopping = true;
        self.0.changed.notify_all();
        while inner.state != State::Ended {
            inner = self.0.changed.wait(inner).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Adds flows while it runs, and returns the block from which on they count. Until then their packets are
    /// those of the flows in [`Join::before`]. There must be [room](Setup::flows).
    ///
    /// # Errors
    /// [`Error::Order`] unless it is running; no room; errors of the kernel: then some points have them.
    pub fn join(&self, joins: &[Join]) -> Result<u64> {
        join::join(&self.0, joins)
    }

    /// Its state.
    pub fn state(&self) -> State {
        lock(&self.0.inner).state
    }

    /// The last problem, as text: why it ended early, or why points are reported as incomplete.
    pub fn trouble(&self) -> Option<String> {
        lock(&self.0.inner).trouble.clone()
    }

    /// The request.
    pub fn setup(&self) -> &Setup {
        &self.0.setup
    }

    /// Its blocks, once started.
    pub fn schedule(&self) -> Option<Schedule> {
        self.0.schedule()
    }

    /// Closed blocks from this number on; waits up to `wait` for one while it runs.
    pub fn blocks(&self, from: u64, wait: Duration) -> Vec<Arc<ClosedBlock>> {
        let until = Instant::now().checked_add(wait);
        let mut inner = lock(&self.0.inner);
        loop {
            let found: Vec<_> =
                inner.told.iter().filter(|told| told.block >= from).cloned().collect();
            let left = until.map_or(wait, |until| until.saturating_duration_since(Instant::now()));
            if !found.is_empty() || inner.state != State::Running || left.is_zero() {
                return found;
            }
            let waited = self.0.changed.wait_timeout(inner, left);
            (inner, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// State of the clock in use.
    pub fn clock(&self) -> ClockState {
        lock(&self.0.watch).state()
    }

    /// The clock of a spot's host, and counts of frames that are in no record there, from the start to now or
    /// the end.
    ///
    /// # Errors
    /// Errors of the kernel; [`Error::Invalid`] for an index without a spot.
    pub fn spot(&self, index: usize) -> Result<(ClockState, Counts)> {
        let points = self.0.points();
        let counts = match points.get(index) {
            Some(point) => lock(point).counts()?,
            None if index < self.0.setup.spots.len() => Counts::default(),
            None => {
                let object = format!("spot {index}");
                let reason = format!("there are {}", self.0.setup.spots.len());
                return Err(Error::Invalid { object, reason });
            }
        };
        Ok((self.clock(), counts))
    }
}

#[cfg(test)]
impl From<Arc<Shared>> for Session {
    fn from(shared: Arc<Shared>) -> Session {
        Session(shared)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.stop();
    }
}
