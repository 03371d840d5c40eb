//! One measurement: points at interfaces, blocks read when they are closed.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use netloom_ebpf::Direction;
use netloom_ebpf::measure::{Clock, ClockState, Counts, FlowBlock, Marking};
use netloom_marking::Schedule;
use netloom_marking::session::Configuration;
use serde::{Deserialize, Serialize};

use crate::limits::Room;
use crate::point::Point;
use crate::{Error, Interfaces, Result, run, start};
use netloom_ebpf::measure::Watch;

/// A point of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spot {
    /// The interface, by a name that the session's [`Interfaces`] knows.
    pub netif: String,
    /// Frames of which direction.
    pub direction: Direction,
    /// Whether packets are marked there; only at egress.
    pub marking: Marking,
}

/// What a session does.
#[derive(Clone, Debug)]
pub struct Setup {
    /// What is measured, and how. Its `netifs` are not looked at: `spots` are. With a duration of less
    /// than a period it measures until it is stopped.
    pub configuration: Configuration,
    /// Where, in an order of the caller's.
    pub spots: Vec<Spot>,
    /// By which clock.
    pub clock: Clock,
    /// How many blocks are kept; older ones go. At least one.
    pub keep: usize,
    /// Flows of each family that a point finds by one access; 0 for what suits the number of spots.
    pub cache: u32,
}

/// What a session is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It was checked and can be started.
    Prepared,
    /// Its points count.
    Running,
    /// Its last block is closed, or it was stopped; what it measured can be read.
    Ended,
}

impl State {
    fn word(self) -> &'static str {
        match self {
            State::Prepared => "prepared",
            State::Running => "running",
            State::Ended => "ended",
        }
    }
}

/// What one point says about a block that is closed.
#[derive(Clone, Debug, PartialEq)]
pub struct Closed {
    /// The index of the spot.
    pub spot: usize,
    /// The block of each filter, in their order.
    pub flows: Vec<FlowBlock>,
}

/// A block that is closed, at all points.
#[derive(Clone, Debug, PartialEq)]
pub struct Told {
    /// Its number.
    pub block: u64,
    /// Each point, in the order of the spots.
    pub points: Vec<Closed>,
}

/// What a session and its thread share.
pub(crate) struct Shared {
    pub(crate) interfaces: Arc<dyn Interfaces>,
    pub(crate) setup: Setup,
    /// What attaching a point takes, in nanoseconds, as it was seen when it was prepared.
    pub(crate) attaching: u64,
    pub(crate) room: Room,
    /// In the order of the spots; none until it is started.
    points: Mutex<Arc<[Mutex<Point>]>>,
    pub(crate) watch: Mutex<Watch>,
    inner: Mutex<Inner>,
    /// What is in `inner` has changed.
    changed: Condvar,
}

/// What changes.
struct Inner {
    state: State,
    /// Somebody attaches points.
    starting: bool,
    stopping: bool,
    schedule: Option<Schedule>,
    told: VecDeque<Arc<Told>>,
    trouble: Option<String>,
}

/// Why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waited {
    /// It is time.
    Due,
    /// It is further away than it can be.
    Far,
    /// The session is to end now.
    Stopped,
}

/// Whoever panicked meanwhile: what is behind our locks is whole between any two statements.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One measurement. Dropped, it is stopped.
pub struct Session(Arc<Shared>);

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("state", &self.state()).finish_non_exhaustive()
    }
}

impl Session {
    /// Finds the interfaces and checks that the kernel takes the programs; nothing is attached.
    ///
    /// # Errors
    /// A spot whose interface is not there, or where packets are to be marked as they come in; a spot
    /// that is there twice; [`Error::Period`]; more flows and samples than memory is for; what the
    /// kernel or the user lacks.
    pub fn prepare(interfaces: Arc<dyn Interfaces>, setup: Setup) -> Result<Session> {
        let (room, attaching) = start::check(&*interfaces, &setup)?;
        Ok(Session(Arc::new(Shared::new(interfaces, setup, room, attaching))))
    }

    /// Attaches all points (markers last) and begins. Block 0 begins at an even multiple of the period on
    /// the clock, when all points count: so sessions of several hosts agree on where blocks begin and on
    /// their colours, though not on their numbers.
    ///
    /// # Errors
    /// [`Error::Order`] unless it is prepared; what the kernel refuses: nothing is attached then, and it
    /// can be started again.
    pub fn start(&self) -> Result<()> {
        let shared = &self.0;
        let _starting = shared.begin_start()?;
        let (schedule, points) = start::attach(shared)?;
        shared.set_running(schedule, points);
        run::spawn(Arc::clone(shared)).inspect_err(|_| shared.set_prepared())
    }

    /// Takes markers off and then reads the block that lasts, which is marked as ended within. When this
    /// returns nothing is attached any more. A session that was not started ends, too.
    pub fn stop(&self) {
        let mut inner = lock(&self.0.inner);
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

    /// What it is doing.
    pub fn state(&self) -> State {
        lock(&self.0.inner).state
    }

    /// What went wrong the last time, in words: why it ended before its time, or what stands against
    /// points that are told as not complete.
    pub fn trouble(&self) -> Option<String> {
        lock(&self.0.inner).trouble.clone()
    }

    /// What was asked for.
    pub fn setup(&self) -> &Setup {
        &self.0.setup
    }

    /// Its blocks, once it was started.
    pub fn schedule(&self) -> Option<Schedule> {
        self.0.schedule()
    }

    /// Blocks that are closed, from this number on, waiting up to `wait` for one while it runs.
    pub fn blocks(&self, from: u64, wait: Duration) -> Vec<Arc<Told>> {
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

    /// The clock by which it measures.
    pub fn clock(&self) -> ClockState {
        lock(&self.0.watch).state()
    }

    /// The clock of a spot's host, and what became of frames that are in no record there, from the start
    /// to now or the end.
    ///
    /// # Errors
    /// What the kernel refuses; [`Error::Invalid`] for an index that no spot has.
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

/// That a session is being started, however that ends.
struct Starting<'a>(&'a Shared);

impl Drop for Starting<'_> {
    fn drop(&mut self) {
        lock(&self.0.inner).starting = false;
        self.0.changed.notify_all();
    }
}

impl Shared {
    pub(crate) fn new(
        interfaces: Arc<dyn Interfaces>,
        setup: Setup,
        room: Room,
        attaching: u64,
    ) -> Shared {
        let inner = Inner {
            state: State::Prepared,
            starting: false,
            stopping: false,
            schedule: None,
            told: VecDeque::new(),
            trouble: None,
        };
        Shared {
            watch: Mutex::new(Watch::new(setup.clock)),
            interfaces,
            setup,
            attaching,
            room,
            points: Mutex::new(Arc::new([])),
            inner: Mutex::new(inner),
            changed: Condvar::new(),
        }
    }

    fn begin_start(&self) -> Result<Starting<'_>> {
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
        *lock(&self.points) = points.into_iter().map(Mutex::new).collect();
        let mut inner = lock(&self.inner);
        (inner.state, inner.schedule) = (State::Running, Some(schedule));
    }

    fn set_prepared(&self) {
        *lock(&self.points) = Arc::new([]);
        let mut inner = lock(&self.inner);
        (inner.state, inner.schedule) = (State::Prepared, None);
    }

    pub(crate) fn schedule(&self) -> Option<Schedule> {
        lock(&self.inner).schedule
    }

    /// The points, in the order of the spots.
    pub(crate) fn points(&self) -> Arc<[Mutex<Point>]> {
        Arc::clone(&lock(&self.points))
    }

    /// Waits until this time of the session's clock, if it is no further away than `farthest`, in
    /// nanoseconds: a clock that was stepped back is looked at after what was left at first.
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

    /// Keeps a block and wakes those who wait for one.
    pub(crate) fn tell(&self, told: Told) {
        let mut inner = lock(&self.inner);
        while inner.told.len() >= self.setup.keep.max(1) {
            inner.told.pop_front();
        }
        inner.told.push_back(Arc::new(told));
        self.changed.notify_all();
    }

    pub(crate) fn complain(&self, trouble: String) {
        lock(&self.inner).trouble = Some(trouble);
    }

    pub(crate) fn set_ended(&self) {
        lock(&self.inner).state = State::Ended;
        self.changed.notify_all();
    }
}
