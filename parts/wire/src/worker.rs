//! A thread that carries frames for several directions.
//!
//! It sleeps in epoll(7) until a frame arrives, the next one is due, or a command comes. For
//! departures less than [`SPIN`] away it polls instead of sleeping, because waking up takes about
//! as long; it checks inputs meanwhile. The timer is set earlier by the recent wake-up latency, at
//! most [`MOST_LEAD`]. When nothing is held and nothing arrives it uses no CPU time and, after
//! [`QUIET`], no memory for frames.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};

use crate::carrier::{Carrier, Tools};
use crate::control::DirectionState;
use crate::error::WIRES;
use crate::{Error, Result};
use netloom_sys::{Failure, clock};

/// Longest time to a departure, in ns, that is polled for instead of slept.
const SPIN: u64 = 20_000;

/// Most time by which the timer expires before a departure, in ns. In virtual machines an idle CPU
/// needs about this long to wake up.
const MOST_LEAD: u64 = 60_000;

/// Memory is freed after this time without a frame.
const QUIET: Duration = Duration::from_secs(1);

/// Most events of one system call.
const EVENTS: usize = 64;

/// Epoll data: a direction's key times two, plus one for its output; or one of these.
const WAKE: u64 = u64::MAX;
const TIMER: u64 = u64::MAX - 1;

/// Called when a direction has ended, with its final state.
pub(crate) type Removed = Box<dyn FnOnce(DirectionState) + Send>;

/// A function to run on a direction, if the key exists.
type Work = Box<dyn FnOnce(&mut Carrier) + Send>;

enum Command {
    Add(u64, Box<Carrier>),
    With(u64, Work),
    Remove { key: u64, drain: bool, done: Option<Removed> },
    Stop,
}

/// The controller's handle of a running worker. Dropping it ends the worker.
pub(crate) struct Worker {
    commands: Sender<Command>,
    wake: Arc<OwnedFd>,
    thread: Option<std::thread::JoinHandle<()>>,
    /// Number of its directions, maintained by the controller.
    pub(crate) load: usize,
}

impl Worker {
    /// Starts a worker named `wire-NUMBER`.
    pub(crate) fn start(number: usize) -> Result<Worker> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|e| Failure::new(WIRES, "make an eventfd", e))?;
        let wake = Arc::new(wake);
        let (commands, received) = mpsc::channel();
        let mut state = Loop::new(wake.clone(), received)?;
        let thread = std::thread::Builder::new()
            .name(format!("wire-{number}"))
            .spawn(move || state.run())
            .map_err(|e| Failure::new(WIRES, "start a thread", e))?;
        Ok(Worker { commands, wake, thread: Some(thread), load: 0 })
    }

    /// Adds a direction.
    pub(crate) fn add(&self, key: u64, carrier: Carrier) -> Result<()> {
        self.send(Command::Add(key, Box::new(carrier)))
    }

    /// Runs a function on a direction and returns its result.
    pub(crate) fn with<T: Send + 'static>(
        &self,
        key: u64,
        work: impl FnOnce(&mut Carrier) -> T + Send + 'static,
    ) -> Result<T> {
        let (give, take) = mpsc::sync_channel(1);
        let work = move |carrier: &mut Carrier| {
            // The caller waits for it.
            let _ = give.send(work(carrier));
        };
        self.send(Command::With(key, Box::new(work)))?;
        take.recv().map_err(|_| Error::Refused("the direction is gone".into()))
    }

    /// Ends a direction, then calls `done`. A further call without `drain` ends it at once.
    pub(crate) fn remove(&self, key: u64, drain: bool, done: Option<Removed>) -> Result<()> {
        self.send(Command::Remove { key, drain, done })
    }

    fn send(&self, command: Command) -> Result<()> {
        let gone = |_| Error::Refused("the thread that carries it has ended".into());
        // The command first: the thread looks for one when it is woken.
        self.commands.send(command).map_err(gone)?;
        wake(&self.wake);
        Ok(())
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // If the thread has ended already there is nobody to tell.
        let _ = self.send(Command::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Makes an eventfd readable.
pub(crate) fn wake(eventfd: &OwnedFd) {
    // Fails only if the counter is at its maximum: it is readable then.
    let _ = rustix::io::write(eventfd, &1u64.to_ne_bytes());
}

/// Makes an eventfd unreadable.
pub(crate) fn unwake(eventfd: &OwnedFd) {
    // Fails only if it is unreadable already.
    let _ = rustix::io::read(eventfd, &mut [0; 8]);
}

/// A carrier and the loop's state for it.
struct Slot {
    carrier: Carrier,
    /// Whether epoll watches its input, and its output.
    watched: (bool, bool),
    /// The earliest of its entries in `due`.
    due: Option<u64>,
    /// Whether it ends when nothing is held.
    draining: bool,
    done: Vec<Removed>,
}

struct Loop {
    epoll: OwnedFd,
    timer: OwnedFd,
    wake: Arc<OwnedFd>,
    commands: Receiver<Command>,
    slots: HashMap<u64, Slot>,
    due: BinaryHeap<Reverse<(u64, u64)>>,
    tools: Tools,
    /// The time to which the timer is set.
    timer_at: Option<u64>,
    /// Wake-up latency of the timer, averaged over about 16 times, in ns.
    lead: u64,
    /// Whether frames were carried since memory was last freed.
    used: bool,
    stop: bool,
}

impl Loop {
    fn new(wake: Arc<OwnedFd>, commands: Receiver<Command>) -> Result<Loop> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)
            .map_err(|e| Failure::new(WIRES, "make an epoll", e))?;
        let timer = rustix::time::timerfd_create(
            TimerfdClockId::Monotonic,
            TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK,
        )
        .map_err(|e| Failure::new(WIRES, "make a timer", e))?;
        let watch = |fd: &OwnedFd, data, flags| {
            epoll::add(&epoll, fd, epoll::EventData::new_u64(data), flags)
                .map_err(Failure::of(WIRES, "watch a descriptor"))
        };
        watch(&wake, WAKE, epoll::EventFlags::IN)?;
        // Edge-triggered, so it need not be read.
        watch(&timer, TIMER, epoll::EventFlags::IN | epoll::EventFlags::ET)?;
        Ok(Loop {
            epoll,
            timer,
            wake,
            commands,
            slots: HashMap::new(),
            due: BinaryHeap::new(),
            tools: Tools::default(),
            timer_at: None,
            lead: 0,
            used: false,
            stop: false,
        })
    }

    fn run(&mut self) {
        // If refused, frames are only later on a busy machine.
        let _ = netloom_sys::process::prefer_short_slices();
        let mut events = Vec::with_capacity(EVENTS);
        while !self.stop {
            let timeout = self.timeout();
            events.clear();
            let buffer = rustix::buffer::spare_capacity(&mut events);
            match epoll::wait(&self.epoll, buffer, timeout.as_ref()) {
                // A debugger or a signal; a timeout is no reason to give up either.
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(_) => return,
            }
            // Nothing within the whole second, and nothing held: `timeout` gives none where something is due.
            if events.is_empty() && timeout.is_some_and(|t| t.tv_sec > 0) {
                self.trim();
            }
            for event in &events {
                self.handle(event.data.u64());
            }
            self.send_due();
        }
    }

    /// The longest wait; sets the timer for nanosecond precision.
    fn timeout(&mut self) -> Option<Timespec> {
        let quiet = netloom_sys::process::timespec(QUIET);
        let Some(&Reverse((at, _))) = self.due.peek() else {
            return self.used.then_some(quiet);
        };
        // The timer would be set into the past by its lead, or wake the thread later than polling does.
        if at <= clock::monotonic().saturating_add(SPIN.max(self.lead)) {
            return Some(Timespec { tv_sec: 0, tv_nsec: 0 });
        }
        let at = at - self.lead;
        if self.timer_at != Some(at) {
            let value = netloom_sys::process::timespec(Duration::from_nanos(clock::for_timers(at)));
            let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
            let time = Itimerspec { it_interval: zero, it_value: value };
            // Fails only for invalid times.
            let _ = rustix::time::timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &time);
            self.timer_at = Some(at);
        }
        None
    }

    /// The timer expired: learns its latency.
    fn woken(&mut self) {
        let Some(at) = self.timer_at.take() else { return };
        let late = clock::monotonic().saturating_sub(at).min(MOST_LEAD);
        self.lead = (self.lead * 15 + late) / 16;
    }

    fn handle(&mut self, data: u64) {
        match data {
            WAKE => {
                unwake(&self.wake);
                while let Ok(command) = self.commands.try_recv() {
                    self.obey(command);
                }
            }
            TIMER => self.woken(),
            _ => {
                let key = data / 2;
                let Some(slot) = self.slots.get_mut(&key) else { return };
                self.used = true;
                if data.is_multiple_of(2) {
                    slot.carrier.read(&mut self.tools);
                } else {
                    // It can be written, so what is held goes first.
                    slot.carrier.unblock();
                    slot.carrier.send_due();
                }
                self.settle(key);
            }
        }
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Add(key, carrier) => {
                let slot = Slot {
                    carrier: *carrier,
                    watched: (false, false),
                    due: None,
                    draining: false,
                    done: Vec::new(),
                };
                self.slots.insert(key, slot);
                self.settle(key);
            }
            Command::With(key, work) => {
                let Some(slot) = self.slots.get_mut(&key) else { return };
                work(&mut slot.carrier);
                self.settle(key);
            }
            Command::Remove { key, drain, done } => self.remove(key, drain, done),
            Command::Stop => self.stop = true,
        }
    }

    /// Pending frames are still read; later ones are not the wire's.
    fn remove(&mut self, key: u64, drain: bool, done: Option<Removed>) {
        let Some(slot) = self.slots.get_mut(&key) else { return };
        slot.done.extend(done);
        if drain && !slot.draining {
            // Bounded, because a sender need not stop: more than any interface's queue.
            let mut rounds = 0;
            while rounds < 64 && slot.carrier.read(&mut self.tools) {
                rounds += 1;
            }
        }
        slot.draining = true;
        if !drain {
            slot.carrier.lose_held();
        }
        self.settle(key);
    }

    fn send_due(&mut self) {
        let now = clock::monotonic();
        // Bounded: inputs have their turn, too.
        for _ in 0..EVENTS {
            let Some(&Reverse((at, key))) = self.due.peek() else { return };
            if at > now {
                return;
            }
            self.due.pop();
            let Some(slot) = self.slots.get_mut(&key) else { continue };
            // An entry that an earlier one has replaced stays in the heap until its time comes.
            if slot.due == Some(at) {
                slot.due = None;
                slot.carrier.send_due();
                self.settle(key);
            }
        }
    }

    /// Updates what is watched and remembered for a direction after any change to it.
    fn settle(&mut self, key: u64) {
        let Some(slot) = self.slots.get_mut(&key) else { return };
        let reads = slot.carrier.is_reading() && !slot.draining;
        if reads != slot.watched.0 {
            let input = slot.carrier.input().as_fd();
            if reads {
                let data = epoll::EventData::new_u64(key * 2);
                // Level-triggered: a round may end before the input is empty.
                let _ = epoll::add(&self.epoll, input, data, epoll::EventFlags::IN);
            } else {
                let _ = epoll::delete(&self.epoll, input);
            }
            slot.watched.0 = reads;
        }
        if slot.draining && slot.carrier.is_empty() {
            if slot.watched.1 {
                let _ = epoll::delete(&self.epoll, slot.carrier.output().as_fd());
            }
            return self.finish(key);
        }
        // Watched only while it is full: at other times it can be written and would end each sleep at once.
        let blocked = slot.carrier.is_blocked();
        if blocked != slot.watched.1 {
            let output = slot.carrier.output().as_fd();
            if blocked {
                let data = epoll::EventData::new_u64(key * 2 + 1);
                let _ = epoll::add(&self.epoll, output, data, epoll::EventFlags::OUT);
            } else {
                let _ = epoll::delete(&self.epoll, output);
            }
            slot.watched.1 = blocked;
        }
        if let Some(at) = slot.carrier.next()
            && slot.due.is_none_or(|due| at < due)
        {
            slot.due = Some(at);
            self.due.push(Reverse((at, key)));
        }
    }

    fn finish(&mut self, key: u64) {
        let Some(mut slot) = self.slots.remove(&key) else { return };
        let state = slot.carrier.state();
        // The ports are closed before anybody is told.
        drop(slot.carrier);
        for done in slot.done {
            done(state.clone());
        }
    }

    fn trim(&mut self) {
        self.used = false;
        self.due.shrink_to_fit();
        self.tools = Tools::default();
        for slot in self.slots.values_mut() {
            slot.carrier.trim();
        }
    }
}
