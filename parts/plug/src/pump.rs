//! Carries frames between an interface's port and a switch port, in both directions, in one thread.
//!
//! Frames pass whole and in order, in bursts. If one side takes nothing, the opposite direction continues.
//! The pump polls briefly before it sleeps where that has paid off ([`crate::spin`]). An interface that goes
//! down and comes back changes nothing; its removal ends the pump.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use netloom_port::{Port, Received};
use netloom_sys::{Failure, process::timespec};
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;

use crate::burst::End;
use crate::counters::{Counters, Reading};
use crate::inward::Inward;
use crate::outward::Outward;
use crate::spin::Spin;
use crate::{Member, Result};

/// Retry interval where nothing signals room.
const RETRY: Duration = Duration::from_micros(50);
/// Longest interval between checks of `go_on` and of the interface's state.
const LOOK: Duration = Duration::from_millis(500);
/// Rounds without checking for other events.
const ROUNDS: u32 = 1024;
/// How long to ignore a port whose descriptor signals an error that the port does not explain.
const AILING: Duration = Duration::from_millis(10);

/// Carries frames between an interface's port and a switch port.
pub struct Pump {
    port: Box<dyn Port>,
    member: Box<dyn Member>,
    inward: Inward,
    outward: Outward,
    ailing: bool,
    spin: Spin,
    counters: Counters,
    reading: Reading,
    /// Losses at the interface that the member knows of.
    noted: u64,
}

impl Pump {
    /// A pump between the two.
    pub fn new(port: Box<dyn Port>, member: Box<dyn Member>) -> Pump {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Pump {
            port,
            member,
            inward: Inward::new(),
            outward: Outward::new(),
            ailing: false,
            spin: Spin::new(processors),
            counters: Counters::default(),
            reading: Reading::default(),
            noted: 0,
        }
    }

    /// Merges TCP segments from the interface into super-frames from now on: for interfaces that deliver
    /// single packets, as cards without receive offload do.
    #[must_use]
    pub fn merging(mut self) -> Pump {
        self.inward.merge();
        self
    }

    /// Lets a frame for the interface wait so long for room, instead of 2 ms.
    #[must_use]
    pub fn patient(mut self, patience: Duration) -> Pump {
        self.outward.set_patience(patience);
        self
    }

    /// A handle to read its counters.
    pub fn reading(&self) -> Reading {
        self.reading.clone()
    }

    /// Returns the switch port, for another interface's pump.
    pub fn into_member(self) -> Box<dyn Member> {
        self.member
    }

    /// Carries frames until `stop` is readable, until `go_on`, called about twice a second, returns false, or
    /// until one of the sides is gone. It may run again after a stop.
    ///
    /// # Errors
    /// Waiting fails, or the switch port does.
    pub fn run(&mut self, stop: BorrowedFd<'_>, go_on: &mut dyn FnMut() -> bool) -> Result<End> {
        let result = self.carry(stop, go_on);
        self.look();
        result
    }

    fn carry(&mut self, stop: BorrowedFd<'_>, go_on: &mut dyn FnMut() -> bool) -> Result<End> {
        let mut rounds = 0;
        let mut idle: Option<Instant> = None;
        let mut looked = Instant::now();
        loop {
            let (port, member) = (self.port.as_mut(), self.member.as_mut());
            let inward = self.inward.carry(port, member, &mut self.counters)?;
            let outward = self.outward.carry(port, member, &mut self.counters)?;
            if let Some(end) = inward.end.or(outward.end) {
                return Ok(end);
            }
            let moved = inward.frames + outward.frames > 0;
            rounds += 1;
            // Even a busy pump waits now and then, without
            // sleep: that is where it hears of its end.
            if rounds < ROUNDS && (moved || self.is_worth_looking(&mut idle)) {
                if moved && let Some(since) = idle.take() {
                    self.spin.learn(since.elapsed());
                }
                continue;
            }
            rounds = 0;
            if self.wait(stop, !moved)? {
                return Ok(End::Stopped);
            }
            if looked.elapsed() >= LOOK {
                looked = Instant::now();
                if let Some(end) = self.look() {
                    return Ok(end);
                }
                if !go_on() {
                    return Ok(End::Stopped);
                }
            }
        }
    }

    /// Whether to poll again before sleeping; `idle` is since when there was nothing.
    fn is_worth_looking(&self, idle: &mut Option<Instant>) -> bool {
        let now = Instant::now();
        let budget = self.spin.budget();
        let worth = now.duration_since(*idle.get_or_insert(now)) < budget;
        if worth {
            std::hint::spin_loop();
        }
        worth
    }

    /// Work that is not done for each frame.
    fn look(&mut self) -> Option<End> {
        self.counters.lost.overrun = self.port.overruns();
        self.reading.publish(&self.counters);
        let lost = self.counters.lost.at_interface();
        self.member.note_lost(lost.saturating_sub(self.noted));
        // The member adds; it is told only what is new.
        self.noted = lost;
        (self.port.fault() == Received::Gone).then_some(End::InterfaceGone)
    }

    /// Sleeps until the next event, or only polls; returns whether to stop.
    fn wait(&mut self, stop: BorrowedFd<'_>, sleep: bool) -> Result<bool> {
        // While it polls, a card's guest need not kick;
        // before a sleep it is asked to, and looked at again.
        let sleep = sleep && !self.port.rest();
        let (port, member) = (self.port.as_fd(), self.member.as_fd());
        let mut wanted = PollFlags::empty();
        let mut timeout = if sleep { LOOK } else { Duration::ZERO };
        // Nothing is taken from the interface meanwhile: its frames would end each sleep at once.
        if self.inward.waits() {
            timeout = timeout.min(RETRY);
        } else {
            wanted |= PollFlags::IN;
        }
        let others = if self.outward.waits() {
            wanted |= PollFlags::OUT;
            PollFlags::empty()
        } else {
            PollFlags::IN
        };
        if self.outward.waits() || self.outward.is_unsent() {
            timeout = timeout.min(RETRY);
        }
        let mut fds = vec![PollFd::new(&stop, PollFlags::IN), PollFd::new(&member, others)];
        if self.ailing {
            timeout = timeout.min(AILING);
        } else {
            fds.push(PollFd::new(&port, wanted));
        }
        match rustix::event::poll(&mut fds, Some(&timespec(timeout))) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(e) => return Err(Failure::new("plug", "wait", e).into()),
        }
        let stopped = !fds[0].revents().is_empty();
        let troubled = PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL;
        let failing = fds.get(2).is_some_and(|fd| fd.revents().intersects(troubled));
        drop(fds);
        // A reported error is reported once; a port that does not explain it would keep the loop spinning.
        self.ailing = failing && self.port.fault() == Received::Empty;
        if sleep {
            self.counters.sleeps += 1;
            self.reading.publish(&self.counters);
        }
        Ok(stopped)
    }
}
