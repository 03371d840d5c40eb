//! Carries frames between an interface's port and a switch port, both ways, in one thread.
//!
//! Frames pass whole and in order, in bursts. Where one side takes nothing, the opposite direction goes
//! on. It looks for frames a little before it sleeps where that has paid ([`crate::spin`]). An interface
//! that is down and comes back changes nothing; its end ends the pump.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use netloom_port::{Port, Received};
use netloom_sys::process::timespec;
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;

use crate::burst::End;
use crate::counters::{Counters, Reading};
use crate::inward::Inward;
use crate::outward::Outward;
use crate::spin::Spin;
use crate::{Error, Member, Result};

/// Where nothing tells of room, it is looked for this often.
const RETRY: Duration = Duration::from_micros(50);
/// How often, at least, it is asked whether to go on, and how the interface is.
const LOOK: Duration = Duration::from_millis(500);
/// Rounds without a look at what else there is.
const ROUNDS: u32 = 1024;
/// A port whose descriptor shows an error that it does not explain is left alone for this long.
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
        }
    }

    /// Where its counters are read.
    pub fn reading(&self) -> Reading {
        self.reading.clone()
    }

    /// The switch port, for another interface's pump.
    pub fn into_member(self) -> Box<dyn Member> {
        self.member
    }

    /// Carries frames until `stop` is readable, `go_on`, asked about twice a second, says no, or one of
    /// the sides is gone. It may be run again after a stop.
    ///
    /// # Errors
    /// When waiting fails, or the switch port does.
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

    /// Whether to look again before sleeping; `idle` is since when there has been nothing.
    fn is_worth_looking(&self, idle: &mut Option<Instant>) -> bool {
        let now = Instant::now();
        let budget = self.spin.budget();
        let worth = now.duration_since(*idle.get_or_insert(now)) < budget;
        if worth {
            std::hint::spin_loop();
        }
        worth
    }

    /// What is not done for each frame.
    fn look(&mut self) -> Option<End> {
        self.counters.lost.overrun = self.port.overruns();
        self.reading.publish(&self.counters);
        (self.port.fault() == Received::Gone).then_some(End::InterfaceGone)
    }

    /// Waits until there may be something to do, or only looks; whether to stop.
    fn wait(&mut self, stop: BorrowedFd<'_>, sleep: bool) -> Result<bool> {
        let (port, member) = (self.port.as_fd(), self.member.as_fd());
        let mut wanted = PollFlags::empty();
        let mut timeout = if sleep { LOOK } else { Duration::ZERO };
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
            Err(e) => return Err(Error::looping("wait", e)),
        }
        let stopped = !fds[0].revents().is_empty();
        let troubled = PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL;
        let failing = fds.get(2).is_some_and(|fd| fd.revents().intersects(troubled));
        drop(fds);
        // An error that is told is told once; a port that does not tell would keep us busy.
        self.ailing = failing && self.port.fault() == Received::Empty;
        if sleep {
            self.counters.sleeps += 1;
            self.reading.publish(&self.counters);
        }
        Ok(stopped)
    }
}
