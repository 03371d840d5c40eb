//! Taps: frames that pass an interface, copied once into memory that this process has mapped.
//!
//! A program at the interface appends each frame as a whole pcapng block to a ring of its CPU, and
//! [`Tap::take`] hands out runs of such blocks where they lie. A frame for which there is no room is
//! counted and goes on like any other: a tap changes neither frames nor where they go, but that an
//! interface which runs XDP may turn offloads off (veth: its peer no longer sends super-frames).
//!
//! The books close when no frame is under way ([`TapCounts`]). Times are Unix nanoseconds of when the
//! program saw the frame. What a frame's driver keeps elsewhere is not seen by XDP: a VLAN tag that was
//! taken out of the bytes, and how its checksum stands. By traffic control tags are put back, the data
//! of super-frames is whole, and their checksums are known from Linux 6.2.
//!
//! Programs: `bpf/capture`; layout: `bpf/include/netloom/capture.h`; blocks: draft-ietf-opsawg-pcapng.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use netloom_filter::Program as Filter;

use crate::attach::Hook;
use crate::{Direction, Error, Result};

mod clock;
mod cpus;
mod link;
mod programs;
mod ring;
mod socket;

use clock::Clock;
use link::Attached;
use programs::Programs;
use ring::{Ring, Shape};

pub use socket::SocketFilter;

/// Bytes kept of a frame when all are asked for: 64 KiB of data with headers and a tag (`NL_TAP_MOST`).
pub const MOST: u32 = 65_664;

/// Where at an interface frames are seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Where {
    /// In the driver, before the kernel has made a packet of the frame: incoming frames only.
    Xdp,
    /// By tcx (clsact before Linux 6.6): first of what runs at ingress, last at egress.
    Tc,
}

/// What a tap sees and keeps.
#[derive(Clone, Debug)]
pub struct TapOptions {
    /// Where at the interface.
    pub at: Where,
    /// Incoming frames.
    pub ingress: bool,
    /// Outgoing frames; not with [`Where::Xdp`].
    pub egress: bool,
    /// Bytes kept of each frame; 0 and what is over [`MOST`] mean that.
    pub snaplen: u32,
    /// The interface as blocks name it.
    pub interface: u32,
    /// Bytes of memory for each CPU that is online; at least what holds two frames of `snaplen`.
    pub bytes_per_cpu: usize,
    /// Which frames are kept: those for which it returns other than 0. How much of them, `snaplen` says.
    pub filter: Option<Filter>,
    /// Whether each block says the frame's direction (12 bytes); else only blocks with another flag do.
    pub direction: bool,
    /// Whether frames end here instead of going on: for a port that nothing but mirrored traffic
    /// comes to, which is then spared the way through the kernel.
    pub sink: bool,
    /// At XDP: whether frames for other stations, which the kernel would only drop, end here at once.
    /// Each goes on all the same while a bridge, another interface above this one, a program, a filter or
    /// a socket of this interface would see it; sockets that see all interfaces do not see these frames.
    /// Linux 6.2; before, all go on.
    pub others: bool,
    /// Whether the interface is an end of a veth pair: the clock is then read once for up to four frames
    /// that end here in one poll of its driver, which follow within about a microsecond.
    pub veth: bool,
}

impl TapOptions {
    /// Whole frames of all directions at this place, 32 MiB for each CPU, no filter.
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

/// What a tap did with frames: `offered == filtered + captured + lost` when none is under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TapCounts {
    /// Frames that passed.
    pub offered: u64,
    /// Of these, those that the filter did not take.
    pub filtered: u64,
    /// Those that were put into a ring.
    pub captured: u64,
    /// Of the captured, those that were longer than what is kept.
    pub truncated: u64,
    /// Those for which there was no room.
    pub lost: u64,
}

/// A tap at an interface, detached when dropped or when this process ends, however it does.
///
/// With clsact alone, on kernels without tcx, a program stays when the process is killed: it goes with
/// the interface or with its queueing discipline.
#[derive(Debug)]
pub struct Tap {
    // First: no program may write when the rest goes.
    attached: Vec<Attached>,
    programs: Programs,
    ring: Ring,
    clock: Clock,
}

impl Tap {
    /// Attaches a tap to an interface of the calling thread's network namespace.
    ///
    /// # Errors
    /// [`Error::Unsupported`] where the kernel or the user lacks something; [`Error::Unknown`] for
    /// options that say nothing; [`Error::Call`] that names the interface, and what is there already.
    pub fn attach(ifindex: u32, options: &TapOptions) -> Result<Tap> {
        Self::attach_by(Hook::probe(), ifindex, options)
    }

    /// The same with a chosen way of [`Where::Tc`].
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
        let ring = Ring::map(programs.cpus(), programs.ring(), shape, &cpus)?;
        ring.set_offset(clock.to_unix());
        Ok(Tap { attached: Vec::new(), programs, ring, clock })
    }

    /// Hands out the blocks that came since, in runs of whole blocks of one CPU in order; those of
    /// several CPUs are not ordered among each other. The memory of a run is written to anew when `each`
    /// has returned. Gives the number of bytes.
    pub fn take(&mut self, each: &mut dyn FnMut(&[u8])) -> usize {
        self.ring.take(each)
    }

    /// Waits until there is something to take, at most this long; whether there is. A look every 20 µs
    /// at first and every millisecond after a while: programs do not wake anybody.
    pub fn wait(&self, most: Duration) -> bool {
        self.ring.wait(most)
    }

    /// What happened so far. While frames pass, one more or less may be in some of the counts.
    pub fn counts(&self) -> TapCounts {
        self.ring.counts()
    }

    /// Reads the clocks again: to be called now and then where the programs have the monotonic clock
    /// (before Linux 6.1), since Unix time may be set meanwhile. Harmless otherwise.
    pub fn refresh_clock(&self) {
        self.ring.set_offset(self.clock.to_unix());
    }

    /// Whether the interface is still there, and the tap at it; with clsact, whether one of its number is.
    pub fn is_attached(&self) -> bool {
        !self.attached.is_empty() && self.attached.iter().all(Attached::alive)
    }

    /// Takes the programs off, and waits until no frame is in one: then counts are final, and what is in
    /// the rings can still be taken.
    pub fn detach(&mut self) {
        self.attached.clear();
        self.ring.settle();
    }

    /// The program that an attached tap runs first, to be measured by `BPF_PROG_TEST_RUN`.
    #[doc(hidden)]
    pub fn program(&self) -> BorrowedFd<'_> {
        self.programs.first()
    }
}

/// Loads what a tap at this place needs, with a filter, and lets go of it.
pub(crate) fn probe(at: Where) -> Result<()> {
    let filter = Some(Filter::all());
    let options = TapOptions { bytes_per_cpu: 0, snaplen: 128, filter, ..TapOptions::at(at) };
    Tap::load(&options, "probe").map(drop)
}
