//! What a session measured, as it is written in JSON: for the API, for scripts, and for a collector that
//! puts records of several hosts together.
//!
//! Times are nanoseconds. Those of the clock are whole numbers of 64 bits, which some readers of JSON
//! take for less exact ones; sums, which may have more bits than those, are text. A record can be had
//! back ([`Block::record`]) and compared by `netloom_marking`. Blocks of sessions that were started at
//! different times have different numbers: they are the same where they `begin` at the same time.

use netloom_ebpf::Direction;
use netloom_ebpf::measure::{Clock, ClockState, Counts, FlowBlock, Marking, Sampled};
use netloom_marking::{Colour, Completeness, Record, Sample, Schedule, Totals};
use serde::{Deserialize, Serialize};

use crate::{Error, Result, Session, SessionId, State, Wanted};

mod words;

/// All that a session has to say.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measures {
    /// The session's number.
    pub session: SessionId,
    /// What it is doing.
    pub state: State,
    /// What went wrong, if something did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    /// By what its probe is known.
    pub probe: String,
    /// The clock of all times.
    pub clock: ClockView,
    /// The blocks; none before it was started.
    pub schedule: Option<ScheduleView>,
    /// Where it measures.
    pub spots: Vec<SpotView>,
    /// What it measured: of each spot, each flow.
    pub measures: Vec<Measure>,
}

/// What others must know to compare times.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockView {
    /// `tai` or `monotonic`.
    pub name: String,
    /// TAI less Unix time in seconds; 0 where nothing has set it.
    pub tai_offset_s: i64,
    /// What is to be added to a time for Unix time. Of the monotonic clock as of now.
    pub to_unix_ns: i64,
    /// When it was stepped the last time since the session was prepared.
    pub stepped_at: Option<u64>,
}

/// When blocks begin and end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScheduleView {
    /// When block 0 begins.
    pub start: u64,
    /// The length of a block.
    pub period: u64,
    /// How long after its end a block is still counted.
    pub guard: u64,
}

/// A spot, and what became of frames that are in no record there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpotView {
    /// The interface.
    pub netif: String,
    /// Frames of which direction.
    #[serde(with = "words::direction")]
    pub direction: Direction,
    /// Whether packets are marked: `off`, `single` or `double`.
    #[serde(with = "words::marking")]
    pub marking: Marking,
    /// Frames that are in no record.
    #[serde(with = "words::CountsWords")]
    pub counts: Counts,
}

/// A flow at a spot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measure {
    /// The interface.
    pub netif: String,
    /// Frames of which direction.
    #[serde(with = "words::direction")]
    pub direction: Direction,
    /// The filter's number.
    pub flow: u32,
    /// Closed blocks that are kept, by number.
    pub blocks: Vec<Block>,
}

/// A block of a flow at a spot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Block {
    /// Its number in this session.
    pub block: u64,
    /// `starter` or `next`.
    #[serde(with = "words::colour")]
    pub colour: Colour,
    /// When it began.
    pub begin: u64,
    /// From when sums are counted.
    pub origin: u64,
    /// Whether nothing stands against it.
    pub complete: bool,
    /// What stands against it, in words.
    pub reasons: Vec<String>,
    /// Bytes of all packets.
    pub bytes: u64,
    /// Packets that came after it was closed.
    pub late: u64,
    /// Packets that could not be hashed.
    pub unhashable: u64,
    /// All packets.
    pub all: Times,
    /// Those marked twice.
    pub double: Times,
    /// What was sampled, if the program does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampled: Option<SampledView>,
}

/// Packets and when they came.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Times {
    /// How many.
    pub packets: u64,
    /// The sum of their times from the block's origin, as text.
    #[serde(with = "words::text")]
    pub sum: u128,
    /// The mean of their times (ATS), to the nanosecond below. Nothing if the program keeps no times of
    /// these packets.
    pub mean: Option<u64>,
    /// The earliest.
    pub first: Option<u64>,
    /// The latest.
    pub last: Option<u64>,
}

/// Samples of a block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SampledView {
    /// How many low bits of the hash agree for certain.
    pub hash_length: u8,
    /// Below what the distance of all samples is, 0 to 2^32: lists are compared at the lower one.
    pub threshold: u64,
    /// Packets that were selected but for which there was no room.
    pub unkept: u64,
    /// Whether packets of one hash had to be left out.
    pub crowded: bool,
    /// In order of time.
    pub samples: Vec<SampleView>,
}

/// A packet whose time was kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SampleView {
    /// When it was seen.
    pub time: u64,
    /// The hash by which it was selected.
    pub hash: u32,
    /// By what it is known at other points.
    pub identity: u32,
}

impl Measures {
    /// What a session has measured, as far as it is kept.
    ///
    /// # Errors
    /// [`Error::NoSpot`], [`Error::NoFlow`]; what the kernel refuses.
    pub fn of(session: &Session, probe: &str, id: SessionId, wanted: &Wanted) -> Result<Measures> {
        let state = session.state();
        let setup = session.setup();
        let flow_ids = netloom_marking::session::flow_ids(&setup.configuration.filters);
        let flows: Vec<(usize, u32)> = flow_ids
            .into_iter()
            .enumerate()
            .filter(|(_, id)| wanted.flow.is_none_or(|flow| flow == *id))
            .collect();
        if let Some(flow) = wanted.flow.filter(|_| flows.is_empty()) {
            return Err(Error::NoFlow { id, flow });
        }
        let mut measures = Measures {
            session: id,
            state,
            trouble: session.trouble(),
            probe: probe.to_owned(),
            clock: ClockView::from(session.clock()),
            schedule: session.schedule().map(ScheduleView::from),
            spots: Vec::new(),
            measures: Vec::new(),
        };
        let told = session.blocks(wanted.from, std::time::Duration::ZERO);
        for (index, spot) in setup.spots.iter().enumerate() {
            if wanted.netif.as_ref().is_some_and(|netif| *netif != spot.netif) {
                continue;
            }
            measures.spots.push(SpotView {
                netif: spot.netif.clone(),
                direction: spot.direction,
                marking: spot.marking,
                counts: session.spot(index)?.1,
            });
            for (at, flow) in &flows {
                let found = told.iter().filter_map(|told| told.points.get(index)?.flows.get(*at));
                measures.measures.push(Measure {
                    netif: spot.netif.clone(),
                    direction: spot.direction,
                    flow: *flow,
                    blocks: found.map(Block::from).collect(),
                });
            }
        }
        match &wanted.netif {
            Some(netif) if measures.spots.is_empty() => {
                Err(Error::NoSpot { id, netif: netif.clone() })
            }
            _ => Ok(measures),
        }
    }
}

impl From<ClockState> for ClockView {
    fn from(state: ClockState) -> ClockView {
        let name = if state.clock == Clock::Tai { "tai" } else { "monotonic" };
        ClockView {
            name: name.to_owned(),
            tai_offset_s: state.tai_offset,
            to_unix_ns: state.to_unix,
            stepped_at: state.stepped_at,
        }
    }
}

impl From<Schedule> for ScheduleView {
    fn from(schedule: Schedule) -> ScheduleView {
        let (start, period, guard) = (schedule.start(), schedule.period(), schedule.guard());
        ScheduleView { start, period, guard }
    }
}

impl From<&FlowBlock> for Block {
    fn from(flow: &FlowBlock) -> Block {
        let record = &flow.record;
        let reasons = record.completeness.reasons();
        Block {
            block: record.block,
            colour: record.colour,
            begin: record.begin,
            origin: record.origin,
            complete: record.completeness.is_complete(),
            reasons: reasons.into_iter().map(str::to_owned).collect(),
            bytes: record.bytes,
            late: record.late,
            unhashable: record.unhashable,
            all: Times::of(&record.all, record.origin),
            double: Times::of(&record.double, record.origin),
            sampled: flow.sampled.as_ref().map(SampledView::from),
        }
    }
}

impl Times {
    fn of(totals: &Totals, origin: u64) -> Times {
        let absolute = |time: u64| origin.saturating_add(time);
        let mean = totals.sum.checked_div(u128::from(totals.packets));
        let mean =
            mean.filter(|_| totals.first.is_some()).and_then(|mean| u64::try_from(mean).ok());
        Times {
            packets: totals.packets,
            sum: totals.sum,
            mean: mean.map(absolute),
            first: totals.first.map(absolute),
            last: totals.last.map(absolute),
        }
    }

    fn totals(&self, origin: u64) -> Totals {
        let relative = |time: u64| time.saturating_sub(origin);
        Totals {
            packets: self.packets,
            sum: self.sum,
            first: self.first.map(relative),
            last: self.last.map(relative),
        }
    }
}

impl Block {
    /// The record that this was written from; nothing if something stands against it that is not known
    /// here.
    pub fn record(&self) -> Option<Record> {
        let mut completeness = Completeness::default();
        for reason in &self.reasons {
            completeness = completeness.or(words::flag(reason)?);
        }
        Some(Record {
            block: self.block,
            colour: self.colour,
            begin: self.begin,
            origin: self.origin,
            all: self.all.totals(self.origin),
            double: self.double.totals(self.origin),
            bytes: self.bytes,
            late: self.late,
            unhashable: self.unhashable,
            completeness,
        })
    }
}

impl From<&Sampled> for SampledView {
    fn from(sampled: &Sampled) -> SampledView {
        let threshold = sampled.selection.threshold();
        let view = |sample: &Sample| SampleView {
            time: sample.time,
            hash: sample.hash,
            identity: sample.identity,
        };
        SampledView {
            hash_length: threshold.hash_length(),
            threshold: threshold.value(),
            unkept: sampled.unkept,
            crowded: sampled.crowded,
            samples: sampled.samples.iter().map(view).collect(),
        }
    }
}

#[cfg(test)]
#[path = "view_tests.rs"]
mod tests;
