//! Sends synthetic frames: how many, how fast, by which engine.
//!
//! The schedule fixes the time of each frame; after an interruption the sender returns to it with short gaps.
//! A frame is stamped with the time at which it is handed over.

use std::sync::atomic::{AtomicBool, Ordering};

use netloom_traffic::{FCS, Frame, Rate, Schedule};

use crate::clock::Clock;
use crate::far::{FarEnd, Reached, reach};
use crate::live::Live;
use crate::outlet::{BURST, Outlet, SwitchPort, most_of};
use crate::pace::Pace;
use crate::priority::Priority;
use crate::report::{Pacing, SendReport, a_second};
use crate::spec::Spec;
use crate::{Error, Result};

/// How frames are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Engine {
    /// For a port of a switch, shared memory. For an interface above 400,000 frames a second, live frames
    /// where possible; otherwise the ring.
    #[default]
    Auto,
    /// Generated in the kernel (`BPF_PROG_TEST_RUN`): the fastest engine. With a pace, each call sends in one
    /// burst what is due within 50 µs, or more if calls take longer.
    LiveFrames,
    /// A packet socket's ring: each frame at its own time.
    Ring,
    /// A shared-memory switch.
    Shm,
}

/// Destination of the frames.
#[derive(Debug)]
pub enum Target {
    /// An interface of the calling thread's network namespace.
    Interface {
        /// Its index.
        index: u32,
        /// Its peer, if it belongs to a pair whose other end is in another namespace.
        far: Option<FarEnd>,
    },
    /// A port of a switch, already joined.
    Switch(Box<SwitchPort>),
}

/// Sends the specified frames on each run; numbering continues from one run to the next.
#[derive(Debug)]
pub struct Generator {
    spec: Spec,
    frame: Frame,
    driver: Driver,
    /// The number of the next frame.
    next: u64,
}

#[derive(Debug)]
enum Driver {
    Live(Box<Live>),
    Outlet(Outlet),
}

impl Generator {
    /// Prepares to send.
    ///
    /// # Errors
    /// [`Error::Traffic`] for impossible traffic, [`Error::TooLong`] for frames beyond the interface's limit,
    /// [`Error::Engine`] for an engine that cannot send there, and errors of the kernel.
    pub fn open(target: Target, engine: Engine, spec: Spec) -> Result<Generator> {
        let frame = spec.check()?;
        let driver = match (target, engine) {
            (Target::Switch(port), Engine::Auto | Engine::Shm) => {
                Driver::Outlet(Outlet::switch(port))
            }
            (Target::Switch(_), _) => return Err(unusable("ring", "a switch is joined by shm")),
            (Target::Interface { .. }, Engine::Shm) => {
                return Err(unusable("shm", "an interface is none of a switch's ports"));
            }
            (Target::Interface { index, far }, _) => interface(index, far, engine, &spec, &frame)?,
        };
        Ok(Generator { spec, frame, driver, next: 0 })
    }

    /// Sends until all frames are sent, the duration is over, or `stop` is set (checked between frames).
    ///
    /// # Errors
    /// [`Error::Down`], [`Error::Gone`], [`Error::FarEnd`], and errors of the kernel.
    pub fn run(&mut self, stop: &AtomicBool) -> Result<SendReport> {
        match &mut self.driver {
            Driver::Live(live) => live.run(&self.spec, stop),
            Driver::Outlet(_) => self.one_by_one(stop),
        }
    }

    fn one_by_one(&mut self, stop: &AtomicBool) -> Result<SendReport> {
        let Driver::Outlet(outlet) = &mut self.driver else {
            return Err(unusable("ring", "frames are made in the kernel"));
        };
        let (offered, refused) = (outlet.offered, outlet.refused);
        let (mut clock, mut bytes) = (Clock::new(), 0);
        let mut schedule = Schedule::new(self.spec.rate);
        let paced = self.spec.rate != Rate::Max;
        let (first, end) = (self.next, self.spec.end());
        let (mut pace, eager) = (Pace::default(), paced.then(Priority::new));
        let start = Clock::now();
        let mut now = start;
        while self.next - first < self.spec.left(0) && !stop.load(Ordering::Relaxed) {
            let size = self.spec.sizes.at(self.next);
            let due = schedule.next(size);
            if paced {
                if due >= end {
                    break;
                }
                let planned = start + pace.plan(due);
                let Some(at) = clock.wait(planned, stop) else { break };
                pace.went(at - planned);
                if self.spec.is_over(at - start) {
                    break;
                }
                now = at;
            } else if (self.next - first).is_multiple_of(BURST) {
                // One reading of the clock serves a burst: its frames bear the time of the first.
                outlet.flush()?;
                now = Clock::now();
                if now - start >= end {
                    break;
                }
            }
            let length = usize::try_from(size - FCS).unwrap_or(0);
            let stamp = clock.unix(now);
            let flow = self.spec.flows.at(self.next);
            outlet.offer(self.frame.make(length, flow, self.next, stamp))?;
            // At once, so that none waits for the time of the next.
            if paced {
                outlet.flush()?;
            }
            self.next += 1;
            bytes += u64::from(size);
        }
        outlet.finish()?;
        let elapsed_ns = Clock::now() - start;
        let frames_refused = outlet.refused - refused;
        let frames_sent = outlet.offered - offered - frames_refused;
        Ok(SendReport {
            engine: outlet.engine(),
            stream: self.spec.stream,
            frames_sent,
            frames_refused,
            bytes_offered: bytes,
            elapsed_ns,
            packets_per_second: a_second(frames_sent, elapsed_ns),
            bits_per_second: a_second(bytes.saturating_mul(8), elapsed_ns),
            pacing: Pacing::of(&clock, Some(&pace.schedule)).map(|pacing| Pacing {
                preferred: eager.is_some_and(|eager| eager.is_raised()),
                ..pacing
            }),
        })
    }
}

fn unusable(engine: &'static str, reason: &str) -> Error {
    Error::Engine { engine, reason: reason.to_owned() }
}

/// Opens an engine for an interface.
fn interface(
    index: u32,
    far: Option<FarEnd>,
    engine: Engine,
    spec: &Spec,
    frame: &Frame,
) -> Result<Driver> {
    let (most, length) = (most_of(index)?, spec.longest());
    if length > most {
        return Err(Error::TooLong { index, length, most });
    }
    let ring = || Outlet::ring(index, length).map(Driver::Outlet);
    match engine {
        Engine::LiveFrames => {
            let reached = reach(index, far.as_ref())?;
            Ok(Driver::Live(Box::new(Live::open(index, spec, frame, reached)?)))
        }
        Engine::Auto if spec.is_many() && Live::can(spec) => {
            match reach(index, far.as_ref()).and_then(|reached| match reached {
                Reached::Elsewhere => Err(Error::FarEnd { index }),
                fine => Live::open(index, spec, frame, fine),
            }) {
                Ok(live) => Ok(Driver::Live(Box::new(live))),
                // Nobody asked for live frames by name: whatever
                // forbids them, the ring sends as well.
                Err(_) => ring(),
            }
        }
        _ => ring(),
    }
}
