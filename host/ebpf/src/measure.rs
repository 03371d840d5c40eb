//! Points: flows measured where they pass an interface, by alternate marking (RFC 9341).
//!
//! A program at one direction of an interface finds each packet's flow, reads (or at egress writes) its
//! mark, and counts it in the bank of its block; [`Measure::read_bank`] gives the records when a block is
//! closed. What is counted and sampled equals `netloom_marking`, whose types come out. Frames always go on.
//!
//! Filters are found through a cache of whole keys, one access for a packet of a known flow. A cache that
//! is full ([`Counts::overflow`]) makes other packets slower and no count wrong. Programs that keep few
//! times read the clock once a tick for the block: their blocks are final a tick later ([`Measure::slack`]).
//!
//! By tcx or clsact super-frames count as their packets; by XDP ([`Measure::attach_xdp`]) a card's frames.
//! Frames that their sender leads past traffic control (`PACKET_QDISC_BYPASS`, AF_XDP) pass no egress point.
//! Needs Linux 5.17 (`bpf_loop`), 5.18 for XDP, 6.1 for TAI, 6.2 to hash what offload may leave unfinished.
//! Programs: `bpf/measure`; layout: `bpf/include/netloom/measure.h`.

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
use link::{Attached, LinkHeader, Place};
use programs::Maps;
pub use trial::{Passed, Segments, Trial};

/// Bytes that tables of samples may take together.
pub const MOST_SAMPLE_BYTES: u64 = 1 << 30;

/// Whether packets are marked where they leave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Marking {
    /// Marks are read only.
    #[default]
    Off,
    /// Packets of a flow get the mark of the block that lasts; only at egress.
    Single,
    /// And one of each flow and block is marked twice: of a super-frame all its packets.
    Double,
}

/// What a point does.
#[derive(Clone, Debug)]
pub struct Config {
    /// What is counted, and of which packets the time.
    pub program: Program,
    /// The blocks, in time of [`Config::clock`].
    pub schedule: Schedule,
    /// How marks look.
    pub marks: Marks,
    /// Which packets are measured: filters of one id are one flow.
    pub filters: Vec<NamedFilter>,
    /// Which filter has a packet that several match.
    pub precedence: Precedence,
    /// How packets are sampled; not looked at by programs that do not.
    pub sampling: Option<Sampling>,
    /// Whether packets are marked.
    pub marking: Marking,
    /// The clock of the programs.
    pub clock: Clock,
    /// Flows that there will be room for, and as many filters; at least those of now have.
    pub flows: u32,
    /// Flows of each family that are found by one access.
    pub cache: u32,
    /// Samples of a flow and block, on each CPU, for a hash length that is fixed.
    pub samples: u32,
    /// Whether the program stays at the interface when this process ends; else a link takes it along.
    pub stay: bool,
}

impl Config {
    /// What a session asks for, with TAI, room for its filters, 65,536 flows in each cache, and 4,096
    /// samples.
    pub fn of(session: &Configuration, schedule: Schedule) -> Config {
        Config {
            program: session.program,
            schedule,
            marks: session.marks,
            filters: session.filters.clone(),
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

    /// How packets are sampled, if the program does.
    fn sampling(&self) -> Option<Sampling> {
        match self.program {
            Program::Empty | Program::All => None,
            Program::Fixed | Program::Dynamic | Program::Combined => self.sampling,
        }
    }

    /// How many flows there is room for.
    fn room(&self) -> u32 {
        let flows = u32::try_from(flow_ids(&self.filters).len()).unwrap_or(u32::MAX);
        self.flows.max(flows).max(1)
    }

    /// How many filters there is room for.
    fn filter_room(&self) -> u32 {
        let filters = u32::try_from(self.filters.len()).unwrap_or(u32::MAX);
        self.room().max(filters)
    }
}

/// What became of frames that are in no record, all CPUs together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Frames that are not IP or lack headers.
    pub other: u64,
    /// Frames that no filter matches.
    pub unmatched: u64,
    /// Packets of a flow with neither mark.
    pub unmarked: u64,
    /// Packets with a mark of no block that can be counted any more or yet.
    pub outside: u64,
    /// Frames whose flow was not in the cache and was searched for.
    pub searched: u64,
    /// Of these, those for which the cache had no room. Their counts are right all the same.
    pub overflow: u64,
    /// Packets that could not be marked.
    pub unwritten: u64,
    /// Packets that filters of the number [`NamedFilter::ASIDE`] match.
    pub aside: u64,
}

/// Samples of a flow and block, all CPUs together.
#[derive(Clone, Debug, PartialEq)]
pub struct Sampled {
    /// How they were selected in the end.
    pub selection: Selection,
    /// In order of time; times are the clock's.
    pub samples: Vec<Sample>,
    /// Packets that were selected but for which there was no room, of a length that is fixed: no loss can
    /// be told from these samples then.
    pub unkept: u64,
    /// Whether more packets of one hash than half the room had to be left out.
    pub crowded: bool,
}

/// A block of a flow at this point.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowBlock {
    /// The filter's number.
    pub id: u32,
    /// What was counted. Only [`Program::All`] has times of all packets: others' have neither first nor
    /// last, and no mean that says anything.
    pub record: Record,
    /// The samples, if the program has any.
    pub sampled: Option<Sampled>,
}

/// A point at one direction of an interface; taken off when dropped, unless it is to stay.
#[derive(Debug)]
pub struct Measure {
    // First: no program may count when the rest goes.
    attached: Option<Attached>,
    program: crate::program::Program,
    maps: Maps,
    flows: Flows,
    config: Config,
    watch: Watch,
}

impl Measure {
    /// Attaches a point to an interface of the calling thread's network namespace, behind all programs
    /// that are there.
    ///
    /// # Errors
    /// [`Error::Unsupported`] where the kernel, the interface or the user lacks something;
    /// [`Error::Unknown`] for a configuration that says nothing; [`Error::Call`] that names the interface.
    pub fn attach(ifindex: u32, direction: Direction, config: &Config) -> Result<Measure> {
        Self::attach_by(Hook::probe(), ifindex, direction, config)
    }

    /// The same with a chosen way. By clsact one point a direction, which stays when this process is
    /// killed.
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
        let mut measure = Self::load_with(Place::Tc(direction), config, header)?;
        let program = &measure.program;
        measure.attached = Some(link::attach(hook, program, ifindex, direction, config.stay)?);
        measure.watch.restart();
        Ok(measure)
    }

    /// Attaches a point to what a card receives, before the kernel makes a socket buffer of it (XDP): in the
    /// card's driver where that can, else right behind it. Never done unasked: what it counts is what
    /// [`Measure::attach`] counts at ingress, for less, but an interface has one XDP program, drivers may
    /// refuse it or set the card up anew for it, and a veth sends no more super-frames to an end that has one.
    ///
    /// Frames are seen as they were on the wire. A tag that the card takes off is not seen, nor are its four
    /// bytes counted. Behind drivers without XDP a virtual interface's super-frame is one packet.
    ///
    /// # Errors
    /// As [`Measure::attach`]; [`Error::Exists`] where an XDP program is already; [`Error::Unknown`] for a
    /// point that is to mark or to stay.
    pub fn attach_xdp(ifindex: u32, config: &Config) -> Result<Measure> {
        if config.stay {
            return Err(wrong("a point by XDP goes with its process"));
        }
        let header = link::header(ifindex)?;
        if header != LinkHeader::Ethernet {
            return Err(wrong("XDP is for interfaces with Ethernet frames"));
        }
        let mut measure = Self::load_with(Place::Xdp, config, header)?;
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
        Self::load_with(Place::Tc(direction), config, LinkHeader::Ethernet)
    }

    fn load_with(place: Place, config: &Config, header: LinkHeader) -> Result<Measure> {
        if config.marking != Marking::Off && place != Place::Tc(Direction::Egress) {
            return Err(wrong("packets are marked at egress only"));
        }
        let (program, maps) = programs::load(place, config, header)?;
        let watch = Watch::new(config.clock);
        let mut flows = Flows::new(config.room());
        flows.set(&maps, &config.filters, config.precedence, watch.began())?;
        Ok(Measure { attached: None, program, maps, flows, config: config.clone(), watch })
    }

    /// Replaces the filters at once, while packets pass. Those of an id whose filter is the same go on
    /// counting; blocks of new ones begin with now; what the others have counted is gone.
    ///
    /// # Errors
    /// The same filter twice, more than there is room for, more different masks than
    /// [`netloom_marking::tables::MOST_MASKS`]: then nothing has changed.
    pub fn set_filters(&mut self, filters: &[NamedFilter], precedence: Precedence) -> Result<()> {
        self.flows.set(&self.maps, filters, precedence, self.watch.now())
    }

    /// Empties the cache of flows: worth it when it is full ([`Counts::overflow`] grows) and the flows in
    /// it are old.
    ///
    /// # Errors
    /// What the kernel refuses.
    pub fn forget_flows(&self) -> Result<()> {
        self.maps.forget()
    }

    /// The records of a block, one for each flow in their order. They are final from
    /// [`Measure::readable_at`] until [`Schedule::reused`]; at other times they say what stands against
    /// them.
    ///
    /// # Errors
    /// What the kernel refuses.
    pub fn read_bank(&mut self, block: u64) -> Result<Vec<FlowBlock>> {
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

    /// What happened to frames that are in no record.
    ///
    /// # Errors
    /// What the kernel refuses.
    pub fn counts(&self) -> Result<Counts> {
        self.maps.counts()
    }

    /// How much later than [`Schedule::closed`] a block is final, in nanoseconds: a tick where the
    /// clock is read once a tick, and a millisecond for programs that are running.
    pub fn slack(&self) -> u64 {
        let tick = if self.config.program == Program::All { 0 } else { clock::tick() };
        tick + 1_000_000
    }

    /// When a block is final, on the point's clock.
    pub fn readable_at(&self, block: u64) -> u64 {
        self.config.schedule.closed(block).saturating_add(self.slack())
    }

    /// The point's clock now, in nanoseconds.
    pub fn now(&self) -> u64 {
        self.watch.now()
    }

    /// What others must know to compare times of this point with theirs.
    pub fn clock(&self) -> ClockState {
        self.watch.state()
    }

    /// Whether the interface is there and the point at it. Without links (clsact, or a point that stays)
    /// only that it was attached, and that an interface of its number is there.
    pub fn is_attached(&self) -> bool {
        self.attached.as_ref().is_some_and(Attached::alive)
    }

    /// Takes the program off; records can still be read.
    pub fn detach(&mut self) {
        self.attached = None;
    }

    /// The program, to be run by `BPF_PROG_TEST_RUN`.
    #[doc(hidden)]
    pub fn program(&self) -> BorrowedFd<'_> {
        self.program.fd()
    }
}

fn wrong(reason: &'static str) -> Error {
    Error::Unknown { object: "measurement".to_owned(), reason }
}

/// Loads what counts and marks, with this clock, and lets go of it.
pub(crate) fn probe(clock: Clock) -> Result<()> {
    let wrong = |e| Error::call("measurement", "probe", std::io::Error::other(e));
    let config = Config {
        program: Program::All,
        schedule: Schedule::new(1_000_000_000, 1_000_000_000, 0).map_err(wrong)?,
        marks: Marks::new(1, 2, 3, 0).map_err(wrong)?,
        filters: Vec::new(),
        precedence: Precedence::First,
        sampling: None,
        marking: Marking::Single,
        clock,
        flows: 1,
        cache: 1,
        samples: 1,
        stay: false,
    };
    programs::load(Place::Tc(Direction::Egress), &config, LinkHeader::Ethernet).map(drop)
}
