//! Taps: copy the frames that pass an interface once, into memory mapped by this process.
//!
//! A program at the interface appends each frame as a whole pcapng block to its CPU's ring, and
//! [`Tap::take`] lends runs of such blocks in place. A frame without room is counted and continues
//! like any other: a tap changes neither frames nor their path, except that an interface running
//! XDP may turn offloads off (veth: its peer stops sending super-frames).
//!
//! The counts balance when no frame is in flight ([`TapCounts`]). Times are Unix nanoseconds of the
//! moment the program saw the frame. XDP does not see what the driver keeps beside the frame: a
//! stripped VLAN tag, and the checksum state. Traffic control restores tags, sees super-frames'
//! data whole, and knows their checksum state from Linux 6.2.
//!
//! Programs: `bpf/capture`; layout: `bpf/include/netloom/capture.h`; blocks: draft-ietf-opsawg-pcapng.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use netloom_filter::Program as Filter;

use crate::attach::Hook;
use crate::{Direction, Error, Result};

mod bell;
mod clock;
mod cpus;
mod link;
mod programs;
mod ring;
mod socket;

use bell::Bell;
use clock::Clock;
use link::Attached;
use programs::Programs;
use ring::{Ring, Shape};

pub use socket::SocketFilter;

/// Most bytes kept of a frame: 64 KiB of data with headers and a tag (`NL_TAP_MOST`).
pub const MOST: u32 = 65_664;

/// The place at an interface where a tap sees frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Where {
    /// In the driver, before the kernel makes a packet of the frame: incoming frames only.
    Xdp,
    /// By tcx (clsact before Linux 6.6): first at ingress, last at egress.
    Tc,
}

/// What a tap sees and keeps.
#[derive(Clone, Debug)]
pub struct TapOptions {
    /// The tap's place at the interface.
    pub at: Where,
    /// Incoming frames.
    pub ingress: bool,
    /// Outgoing frames; not with [`Where::Xdp`].
    pub egress: bool,
    /// Bytes kept of each frame; 0, or more than [`MOST`], means [`MOST`].
    pub snaplen: u32,
    /// The interface's number in blocks.
    pub interface: u32,
    /// Bytes of memory for each online CPU; at least enough for two frames of `snaplen`.
    pub bytes_per_cpu: usize,
    /// The filter: it keeps frames for which it returns a non-zero value. `snaplen` sets how much.
    pub filter: Option<Filter>,
    /// Whether each block states the frame's direction (12 bytes); else only blocks with another flag do.
    pub direction: bool,
    /// Whether frames end here instead of continuing: for a port that receives only mirrored
    /// traffic, which is then spared the way through the kernel.
    pub sink: bool,
    /// At XDP: whether frames for other stations, which the kernel would only drop, end here at
    /// once. Each still continues while a bridge, an upper interface, a program, a filter or a
    /// socket of this interface would see it; sockets bound to no interface do not see these
    /// frames. Linux 6.2; before, all continue.
    pub others: bool,
    /// Whether the interface is an end of a veth pair: the clock is then read once for up to four
    /// frames that end here in one driver poll, within about a microsecond.
    pub veth: bool,
}

impl TapOptions {
    /// Whole frames in all directions at this place, 32 MiB per CPU, no filter.
    pub fn at(at: Where) -> Self {
        Self {
            at,
            ingress: true,
            egress: at == Where::Tc,
            snaplen: 0,
            interface: 0,
            bytes_per_cpu: 32 << 20,
            filter: None,
            direction: at == Where::Tc,
            sink: false,
            others: false,
            veth: false,
        }
    }

    fn most(&self) -> u32 {
        if self.snaplen == 0 { MOST } else { self.snaplen.min(MOST) }
    }

    fn directions(&self) -> Vec<Direction> {
        let asked = [(self.ingress, Direction::Ingress), (self.egress, Direction::Egress)];
        asked.into_iter().filter_map(|(asked, direction)| asked.then_some(direction)).collect()
    }

    fn check(&self, object: &str) -> Result<()> {
        let wrong = |reason| Error::Unknown { object: object.to_owned(), reason };
        match self.at {
            _ if !self.ingress && !self.egress => Err(wrong("a tap of no direction")),
            Where::Xdp if self.egress => Err(wrong("XDP does not see outgoing frames")),
            _ => Ok(()),
        }
    }
}

/// A tap's counters: `offered == filtered + captured + lost` when no frame is in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TapCounts {
    /// Frames that arrived at the tap.
    pub offered: u64,
    /// Of these, frames that the filter rejected.
    pub filtered: u64,
    /// Frames put into a ring.
    pub captured: u64,
    /// Of the captured, frames longer than the bytes kept.
    pub truncated: u64,
    /// Frames for which there was no room.
    pub lost: u64,
}

/// A tap at an interface, detached on drop and when this process ends, however it ends.
///
/// With clsact alone, on kernels without tcx, the program stays if the process is killed: until another tap
/// takes its place, or the interface or its queueing discipline goes.
#[derive(Debug)]
pub struct Tap {
    // Dropped first: no program may write while the rest is dropped.
    attached: Vec<Attached>,
    programs: Programs,
    ring: Ring,
    clock: Clock,
}

impl Tap {
    /// Attaches a tap to an interface of the calling thread's network namespace.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the kernel or the user lacks something; [`Error::Unknown`] for
    /// options that capture nothing; [`Error::Failed`] names the interface, and what occupies it.
    pub fn attach(ifindex: u32, options: &TapOptions) -> Result<Tap> {
        Self::attach_by(Hook::probe(), ifindex, options)
    }

    /// The same with a chosen hook for [`Where::Tc`].
    ///
    /// # Errors
    /// As [`Tap::attach`].
    pub fn attach_by(hook: Hook, ifindex: u32, options: &TapOptions) -> Result<Tap> {
        let mut tap = Self::load(options, &link::object(ifindex))?;
        for (direction, program) in tap.programs.entries() {
            tap.attached.push(match options.at {
                Where::Xdp => link::xdp(program, ifindex)?,
                Where::Tc => link::tc(hook, program, ifindex, direction)?,
            });
        }
        Ok(tap)
    }

    fn load(options: &TapOptions, object: &str) -> Result<Tap> {
        options.check(object)?;
        let cpus = cpus::online()?;
        let shape = Shape::of(options.bytes_per_cpu, options.most());
        let clock = Clock::of(options.at);
        let programs = Programs::load(options, &shape, clock, &cpus)?;
        let bell = Bell::of(programs.bell())?;
        let ring = Ring::map(programs.cpus(), programs.ring(), bell, shape, &cpus)?;
        // Before any program runs: its frames' times would lack the offset.
        ring.set_offset(clock.to_unix());
        Ok(Tap { attached: Vec::new(), programs, ring, clock })
    }

    /// Passes the new blocks to `each`, in runs of whole blocks of one CPU in order; the CPUs' runs
    /// are not ordered among each other. A run's memory is reused after `each` returns. Returns the
    /// number of bytes.
    pub fn take(&mut self, each: &mut dyn FnMut(&[u8])) -> usize {
        self.ring.take(each)
    }

    /// Waits up to `most` for blocks; returns whether there are any. It pauses before each look, at first as
    /// long as the rings surely have room, a millisecond at most. Where none come it sleeps until a program wakes
    /// it, or until `call` is readable.
    pub fn wait(&mut self, most: Duration, call: Option<BorrowedFd<'_>>) -> bool {
        self.ring.wait(most, call)
    }

    /// The counters so far. While frames pass, some may be off by one.
    pub fn counts(&self) -> TapCounts {
        self.ring.counts()
    }

    /// Reads the clocks again. Call it now and then if the programs use the monotonic clock (before
    /// Linux 6.1), since Unix time may be set meanwhile. Harmless otherwise.
    pub fn refresh_clock(&self) {
        self.ring.set_offset(self.clock.to_unix());
    }

    /// Whether the interface still exists with the tap on it; by clsact, whether its number still exists.
    pub fn is_attached(&self) -> bool {
        !self.attached.is_empty() && self.attached.iter().all(Attached::alive)
    }

    /// Detaches the programs and waits until none is running: the counts are then final, and the
    /// rings can still be read.
    pub fn detach(&mut self) {
        self.attached.clear();
        self.ring.settle();
    }

    /// The program that an attached tap runs first, to measure it by `BPF_PROG_TEST_RUN`.
    #[doc(hidden)]
    pub fn program(&self) -> BorrowedFd<'_> {
        self.programs.first()
    }
}

/// Loads what a tap at this place needs, with a filter, and unloads it.
pub(crate) fn probe(at: Where) -> Result<()> {
    let filter = Some(Filter::all());
    let options = TapOptions { bytes_per_cpu: 0, snaplen: 128, filter, ..TapOptions::at(at) };
    Tap::load(&options, "probe").map(drop)
}
