//! Points: measure flows where they pass an interface, by alternate marking (RFC 9341).
//!
//! A program at one direction of an interface finds each packet's flow, reads (or at egress writes) its
//! mark, and counts it in its block's bank; [`Measure::read_bank`] returns the records of a closed block.
//! Counts and samples equal those of `netloom_marking`, whose types are returned. Frames always continue.
//!
//! Filters are looked up through a cache of whole keys: one access for a packet of a known flow. A full
//! cache ([`Counts::overflow`]) slows other packets but falsifies no count. Programs that keep few times
//! read the clock once a tick to find the block: their blocks are final a tick later ([`Measure::slack`]).
//!
//! By tcx or clsact super-frames count as their packets; by XDP ([`Measure::attach_xdp`]) a card's
//! frames count as received. Frames that bypass traffic control (`PACKET_QDISC_BYPASS`, AF_XDP) pass no
//! egress point. Needs Linux 5.17 (`bpf_loop`), 5.18 for XDP, 6.1 for TAI, 6.2 to hash bytes that
//! offload may leave unfinished. Programs: `bpf/measure`; layout: `bpf/include/netloom/measure.h`.

use std::os::fd::BorrowedFd;

use netloom_marking::session::{Configuration, NamedFilter, Program, Sampling, flow_ids};
use netloom_marking::{Marks, Precedence, Record, Sample, Schedule, Selection};

use crate::attach::Hook;
use crate::{Direction, Error, Result};

mod clock;
mod filters;
mod link;
mod programs;
mod read;
mod trial;

pub use clock::{Clock, ClockState, Watch};
use filters::Flows;
pub use filters::Joined;
use link::{Attached, LinkHeader, Side};
use netloom_sys::Failure;
use programs::Maps;
pub use trial::{Passed, Segments, Trial};

/// Most bytes of all sample tables together.
pub const MOST_SAMPLE_BYTES: u64 = 1 << 30;

/// Whether packets are marked on leaving.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Marking {
    /// Marks are only read.
    #[default]
    Off,
    /// Packets of a flow get the current block's mark; only at egress.
    Single,
    /// As `Single`, and one packet of each flow and block is marked twice; of a super-frame, all its packets.
    Double,
}

/// The configuration of a point.
#[derive(Clone, Debug)]
pub struct Config {
    /// The counted packets, and the timed ones.
    pub program: Program,
    /// The blocks, in time of [`Config::clock`].
    pub schedule: Schedule,
    /// The encoding of marks.
    pub marks: Marks,
    /// The measured packets: filters with one id form one flow.
    pub filters: Vec<NamedFilter>,
    /// Flows that count from a later block on.
    pub joined: Vec<Joined>,
    /// Which filter wins if several match a packet.
    pub precedence: Precedence,
    /// How packets are sampled; ignored by programs that do not sample.
    pub sampling: Option<Sampling>,
    /// Whether packets are marked.
    pub marking: Marking,
    /// The clock of the programs.
    pub clock: Clock,
    /// Room for flows, and for as many filters; at least for those configured.
    pub flows: u32,
    /// Flows of each family found by one access.
    pub cache: u32,
    /// Samples of a flow and block, on each CPU, for a fixed hash length.
    pub samples: u32,
    /// Whether the program stays attached when this process ends; else a link removes it.
    pub stay: bool,
}

impl Config {
    /// A session's configuration, with TAI, room for its filters, 65,536 flows in each cache, and
    /// 4,096 samples.
    pub fn of(session: &Configuration, schedule: Schedule) -> Config {
        Config {
            program: session.program,
            schedule,
            marks: session.marks,
            filters: session.filters.clone(),
            joined: Vec::new(),
            precedence: session.precedence,
            sampling: session.sampling,
            marking: Marking::Off,
            clock: Clock::Tai,
            flows: 0,
            cache: 65_536,
            samples: 4_096,
            stay: false,
        }
    }

    /// The sampling, if the program samples.
    fn sampling(&self) -> Option<Sampling> {
        match self.program {
            Program::Empty | Program::All => None,
            Program::Fixed | Program::Dynamic | Program::Combined => self.sampling,
        }
    }

    /// Room for flows.
    fn room(&self) -> u32 {
        let flows = u32::try_from(flow_ids(&self.filters).len()).unwrap_or(u32::MAX);
        self.flows.max(flows).max(1)
    }

    /// Room for filters: flows for which there is room have as many as the others.
    fn filter_room(&self) -> u32 {
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let flows = number(flow_ids(&self.filters).len()).max(1);
        let filters = number(self.filters.len());
        let more = self.room().saturating_sub(flows);
        filters.max(1).saturating_add(more.saturating_mul(filters.div_ceil(flows).max(1)))
    }
}

/// Counters of frames that are in no record, summed over CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Frames that are not IP or whose headers are incomplete.
    pub other: u64,
    /// Frames matched by no filter.
    pub unmatched: u64,
    /// Packets of a flow without either mark.
    pub unmarked: u64,
    /// Packets whose mark belongs to no block that can be counted any more or yet.
    pub outside: u64,
    /// Frames whose flow was not in the cache.
    pub searched: u64,
    /// Of these, flows for which the cache had no room. Their counts are still right.
    pub overflow: u64,
    /// Packets that could not be marked.
    pub unwritten: u64,
    /// Packets matched by filters with the id [`NamedFilter::ASIDE`].
    pub aside: u64,
}

/// Samples of a flow and block, of all CPUs.
#[derive(Clone, Debug, PartialEq)]
pub struct Sampled {
    /// The final selection.
    pub selection: Selection,
    /// In time order; times are the point's clock.
    pub samples: Vec<Sample>,
    /// For a fixed length, selected packets for which there was no room: these samples then tell
    /// nothing about loss.
    pub unkept: u64,
    /// Whether packets of one hash beyond half the room had to be left out.
    pub crowded: bool,
}

/// A flow's block at this point.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowBlock {
    /// The filter's id.
    pub id: u32,
    /// The counters. Only [`Program::All`] times all packets: the others' records have no first or
    /// last time, and no meaningful mean.
    pub record: Record,
    /// The samples, if the program samples.
    pub sampled: Option<Sampled>,
}

/// A point at one direction of an interface; detached on drop, unless it stays.
#[derive(Debug)]
pub struct Measure {
    // Dropped first: no program may count while the rest is dropped.
    attached: Option<Attached>,
    program: crate::program::Program,
    maps: Maps,
    flows: Flows,
    config: Config,
    watch: Watch,
}

impl Measure {
    /// Attaches a point to an interface of the calling thread's network namespace, behind all
    /// existing programs.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the kernel, the interface or the user lacks something; [`Error::Unknown`]
    /// for a configuration that measures nothing; [`Error::Failed`] names the interface.
    pub fn attach(ifindex: u32, direction: Direction, config: &Config) -> Result<Measure> {
        Self::attach_by(Hook::probe(), ifindex, direction, config)
    }

    /// The same with a chosen hook. By clsact a point stays if this process is killed, until the interface goes
    /// or another point takes its place.
    ///
    /// # Errors
    /// As [`Measure::attach`].
    pub fn attach_by(
        hook: Hook,
        ifindex: u32,
        direction: Direction,
        config: &Config,
    ) -> Result<Measure> {
        let header = link::header(ifindex)?;
        let mut measure = Self::load_with(Side::Tc(direction), config, header)?;
        measure.attach_loaded(hook, ifindex, direction)?;
        Ok(measure)
    }

    /// Attaches a point that was [loaded](Measure::load) or [detached](Measure::detach).
    ///
    /// # Errors
    /// The kernel's error.
    #[doc(hidden)]
    pub fn attach_loaded(&mut self, hook: Hook, ifindex: u32, direction: Direction) -> Result<()> {
        let stay = self.config.stay;
        self.attached = Some(link::attach(hook, &self.program, ifindex, direction, stay)?);
        // Blocks that began before this instant are counted in part.
        self.watch.restart();
        Ok(())
    }

    /// Attaches a point to a card's receive path, before the kernel makes a socket buffer (XDP): in the
    /// card's driver if it can, else right behind it. Only on explicit request: it counts the same as
    /// [`Measure::attach`] at ingress, at less cost, but an interface has one XDP program, drivers may refuse
    /// it or reinitialise the card for it, and a veth sends no super-frames to an end that has one.
    ///
    /// Frames are seen as on the wire. A tag that the card strips is not seen, and its four bytes are
    /// not counted. Behind drivers without XDP, a virtual interface's super-frame counts as one packet.
    ///
    /// # Errors
    /// As [`Measure::attach`]; [`Error::Exists`] if an XDP program is attached already;
    /// [`Error::Unknown`] for a point that is to mark or to stay.
    pub fn attach_xdp(ifindex: u32, config: &Config) -> Result<Measure> {
        if config.stay {
            return Err(wrong("a point by XDP goes with its process"));
        }
        let header = link::header(ifindex)?;
        if header != LinkHeader::Ethernet {
            return Err(wrong("XDP is for interfaces with Ethernet frames"));
        }
        let mut measure = Self::load_with(Side::Xdp, config, header)?;
        measure.attached = Some(link::attach_xdp(&measure.program, ifindex)?);
        measure.watch.restart();
        Ok(measure)
    }

    /// Loads the programs of a point at an Ethernet interface without attaching them, for test runs.
    ///
    /// # Errors
    /// As [`Measure::attach`].
    #[doc(hidden)]
    pub fn load(direction: Direction, config: &Config) -> Result<Measure> {
        Self::load_with(Side::Tc(direction), config, LinkHeader::Ethernet)
    }

    fn load_with(place: Side, config: &Config, header: LinkHeader) -> Result<Measure> {
        if config.marking != Marking::Off && place != Side::Tc(Direction::Egress) {
            return Err(wrong("packets are marked at egress only"));
        }
        let (program, maps) = programs::load(place, config, header)?;
        maps.start.put(&0u32.to_ne_bytes(), &[config.schedule.start()])?;
        let watch = Watch::new(config.clock);
        let mut flows = Flows::new(config.room());
        let since = (config.precedence, watch.began());
        flows.set(&maps, &config.filters, &config.joined, since)?;
        Ok(Measure { attached: None, program, maps, flows, config: config.clone(), watch })
    }

    /// Moves the start of block 0; period and guard stay as they were loaded. Packets already counted keep
    /// their blocks, so call it before block 0 begins.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn begin_at(&mut self, start: u64) -> Result<()> {
        let (period, guard) = (self.config.schedule.period(), self.config.schedule.guard());
        let schedule = Schedule::new(start, period, guard)
            .map_err(|e| Failure::new("measurement", "begin", std::io::Error::other(e)))?;
        self.maps.start.put(&0u32.to_ne_bytes(), &[start])?;
        self.config.schedule = schedule;
        Ok(())
    }

    /// Replaces the filters atomically, while packets pass. An id with unchanged filters continues
    /// counting; new ones' blocks begin now; the counts of others are lost.
    ///
    /// # Errors
    /// A filter given twice, more filters than there is room for, more different masks than
    /// [`netloom_marking::tables::MOST_MASKS`]: then nothing has changed.
    pub fn set_filters(&mut self, filters: &[NamedFilter], precedence: Precedence) -> Result<()> {
        self.set_flows(filters, &[], precedence)
    }

    /// The same with flows that count from a later block on: points that get them before that block, a guard
    /// ahead, switch with the same packet.
    ///
    /// # Errors
    /// As [`Measure::set_filters`].
    pub fn set_flows(
        &mut self,
        filters: &[NamedFilter],
        joined: &[Joined],
        precedence: Precedence,
    ) -> Result<()> {
        self.flows.set(&self.maps, filters, joined, (precedence, self.watch.now()))
    }

    /// Empties the flow cache: useful when it is full ([`Counts::overflow`] grows) and its flows
    /// are old.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn forget_flows(&self) -> Result<()> {
        self.maps.forget()
    }

    /// The records of a block, one per flow in flow order. They are final from
    /// [`Measure::readable_at`] until [`Schedule::reused`]; at other times they state what is wrong
    /// with them.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn read_bank(&mut self, block: u64) -> Result<Vec<FlowBlock>> {
        // First, so that a step since the last look is stated in this block's records.
        self.watch.look();
        let gone = !self.is_attached();
        let context = read::Context {
            maps: &self.maps,
            config: &self.config,
            watch: &self.watch,
            flows: self.flows.room(),
            gone,
        };
        self.flows.all().map(|flow| read::block(&context, flow, block)).collect()
    }

    /// Counters of frames that are in no record.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn counts(&self) -> Result<Counts> {
        self.maps.counts()
    }

    /// Time from [`Schedule::closed`] until a block is final, in nanoseconds: a tick if the clock
    /// is read once a tick, plus a millisecond for running programs.
    pub fn slack(&self) -> u64 {
        let tick = if self.config.program == Program::All { 0 } else { clock::tick() };
        tick + 1_000_000
    }

    /// The time at which a block is final, on the point's clock.
    pub fn readable_at(&self, block: u64) -> u64 {
        self.config.schedule.closed(block).saturating_add(self.slack())
    }

    /// The point's clock now, in nanoseconds.
    pub fn now(&self) -> u64 {
        self.watch.now()
    }

    /// What others need to compare this point's times with theirs.
    pub fn clock(&self) -> ClockState {
        self.watch.state()
    }

    /// Whether the interface exists with the point on it. Without links (clsact, or a point that
    /// stays), only whether it was attached and its interface number still exists.
    pub fn is_attached(&self) -> bool {
        self.attached.as_ref().is_some_and(Attached::alive)
    }

    /// Detaches the program; records can still be read.
    pub fn detach(&mut self) {
        self.attached = None;
    }

    /// The program, for `BPF_PROG_TEST_RUN`.
    #[doc(hidden)]
    pub fn program(&self) -> BorrowedFd<'_> {
        self.program.fd()
    }
}

/// How many points are at an interface of the calling thread's network namespace.
///
/// # Errors
/// The kernel's error.
#[doc(hidden)]
pub fn points_at(ifindex: u32) -> Result<usize> {
    link::count(ifindex)
}

fn wrong(reason: &'static str) -> Error {
    Error::Unknown { object: "measurement".to_owned(), reason }
}

/// Loads the counting and marking programs with this clock, and unloads them.
pub(crate) fn probe(clock: Clock) -> Result<()> {
    let wrong = |e| Error::from(Failure::new("measurement", "probe", std::io::Error::other(e)));
    let config = Config {
        program: Program::All,
        schedule: Schedule::new(1_000_000_000, 1_000_000_000, 0).map_err(wrong)?,
        marks: Marks::new(1, 2, 3, 0).map_err(wrong)?,
        filters: Vec::new(),
        joined: Vec::new(),
        precedence: Precedence::First,
        sampling: None,
        marking: Marking::Single,
        clock,
        flows: 1,
        cache: 1,
        samples: 1,
        stay: false,
    };
    programs::load(Side::Tc(Direction::Egress), &config, LinkHeader::Ethernet).map(drop)
}
