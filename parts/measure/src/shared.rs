//! State shared by a session, its thread and its readers, including the closed blocks.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use netloom_ebpf::measure::Watch;
use netloom_marking::Schedule;

use crate::limits::Room;
use crate::lock::lock;
use crate::point::Point;
use crate::{ClosedBlock, Error, Interfaces, Result, Setup, State};

/// State shared by a session and its thread.
pub(crate) struct Shared {
    pub(crate) interfaces: Arc<dyn Interfaces>,
    pub(crate) setup: Setup,
    pub(crate) room: Room,
    /// In spot order; empty until started.
    points: Mutex<Arc<[Mutex<Point>]>>,
    pub(crate) watch: Mutex<Watch>,
    pub(crate) inner: Mutex<Inner>,
    /// Signals changes of `inner`.
    pub(crate) changed: Condvar,
}

/// The mutable part.
pub(crate) struct Inner {
    pub(crate) state: State,
    /// Points are being attached.
    pub(crate) starting: bool,
    pub(crate) stopping: bool,
    pub(crate) schedule: Option<Schedule>,
    pub(crate) told: VecDeque<Arc<ClosedBlock>>,
    pub(crate) trouble: Option<String>,
    /// The blocks, from the first to the last, in which points had different flows.
    pub(crate) disturbed: Option<(u64, u64)>,
}

/// Why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waited {
    /// It is time.
    Due,
    /// It is further away than possible.
    Far,
    /// The session must end now.
    Stopped,
}

/// Marks a session as starting until dropped, whatever the outcome.
pub(crate) struct Starting<'a>(&'a Shared);

impl Drop for Starting<'_> {
    fn drop(&mut self) {
        lock(&self.0.inner).starting = false;
        self.0.changed.notify_all();
    }
}

impl Shared {
    pub(crate) fn new(interfaces: Arc<dyn Interfaces>, setup: Setup, room: Room) -> Shared {
        let inner = Inner {
            state: State::Prepared,
            starting: false,
            stopping: false,
            schedule: None,
            told: VecDeque::new(),
            trouble: None,
            disturbed: None,
        };
        Shared {
            watch: Mutex::new(Watch::new(setup.clock)),
            interfaces,
            setup,
            room,
            points: Mutex::new(Arc::new([])),
            inner: Mutex::new(inner),
            changed: Condvar::new(),
        }
    }

    pub(crate) fn begin_start(&self) -> Result<Starting<'_>> {
        let mut inner = lock(&self.inner);
        let state = match (inner.state, inner.starting) {
            (State::Prepared, false) => {
                inner.starting = true;
                return Ok(Starting(self));
            }
            (State::Prepared, true) => "being started",
            (state, _) => state.word(),
        };
        Err(Error::Order { operation: "start", state })
    }

    pub(crate) fn set_running(&self, schedule: Schedule, points: Vec<Point>) {
        // Before the state: a reader that finds the session running must find its points.
        *lock(&self.points) = points.into_iter().map(Mutex::new).collect();
        let mut inner = lock(&self.inner);
        (inner.state, inner.schedule) = (State::Running, Some(schedule));
    }

    pub(crate) fn set_prepared(&self) {
        *lock(&self.points) = Arc::new([]);
        let mut inner = lock(&self.inner);
        (inner.state, inner.schedule) = (State::Prepared, None);
    }

    pub(crate) fn schedule(&self) -> Option<Schedule> {
        lock(&self.inner).schedule
    }

    /// The points, in spot order.
    pub(crate) fn points(&self) -> Arc<[Mutex<Point>]> {
        Arc::clone(&lock(&self.points))
    }

    /// Waits until this time on the session's clock, if it is at most `farthest` nanoseconds away. The clock
    /// is read again only after the initial wait, so a step back shows then.
    pub(crate) fn wait_until(&self, due: u64, farthest: u64) -> Waited {
        let mut inner = lock(&self.inner);
        loop {
            if inner.stopping {
                return Waited::Stopped;
            }
            let left = due.saturating_sub(self.setup.clock.now());
            if left == 0 {
                return Waited::Due;
            }
            if left > farthest {
                return Waited::Far;
            }
            let waited = self.changed.wait_timeout(inner, Duration::from_nanos(left));
            (inner, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Keeps a block and wakes waiting readers.
    pub(crate) fn tell(&self, told: ClosedBlock) {
        let mut inner = lock(&self.inner);
        // At least one: the newest is always kept.
        while inner.told.len() >= self.setup.keep.max(1) {
            inner.told.pop_front();
        }
        inner.told.push_back(Arc::new(told));
        self.changed.notify_all();
    }

    pub(crate) fn complain(&self, trouble: String) {
        lock(&self.inner).trouble = Some(trouble);
    }

    /// Notes that points got flows during these blocks.
    pub(crate) fn disturb(&self, from: u64, to: u64) {
        let mut inner = lock(&self.inner);
        let (first, last) = inner.disturbed.unwrap_or((from, to));
        inner.disturbed = Some((first.min(from), last.max(to)));
    }

    pub(crate) fn set_ended(&self) {
        lock(&self.inner).state = State::Ended;
        self.changed.notify_all();
    }
}
