//! A session's results as JSON: for the API, for scripts, and for a collector that combines records of
//! several hosts.
//!
//! Times are nanoseconds. Clock times are 64-bit integers, which some JSON readers round to floating point;
//! sums may need more bits and are text. [`Block::record`] restores a record, which `netloom_marking` can
//! compare. Sessions started at different times number the same block differently: blocks with equal `begin`
//! are the same.

use netloom_ebpf::Direction;
use netloom_ebpf::measure::{Clock, ClockState, Counts, FlowBlock, Marking, Sampled};
use netloom_marking::{Colour, Completeness, Record, Sample, Schedule, Totals};
use serde::{Deserialize, Serialize};

use crate::{Error, Result, Session, SessionId, State, Wanted};

mod json;
mod two_way;

pub use two_way::{OneWay, TwoWayBlock, TwoWays, side};

/// All results of a session. Times are nanoseconds of its clock.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Measures {
    /// The session's number.
    #[cfg_attr(feature = "schema", schema(value_type = u64))]
    pub session: SessionId,
    /// Its state.
    pub state: State,
    /// The last problem, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    /// The name of its probe.
    pub probe: String,
    /// The clock of all times.
    pub clock: ClockView,
    /// The block schedule; none before the start.
    pub schedule: Option<ScheduleView>,
    /// Where it measures.
    pub spots: Vec<SpotView>,
    /// The results for each flow at each spot.
    pub measures: Vec<Measure>,
}

/// Data that others need to compare times.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = SessionClock))]
pub struct ClockView {
    /// `tai` or `monotonic`.
    pub name: String,
    /// TAI minus Unix time in seconds; 0 if nothing has set it.
    pub tai_offset_s: i64,
    /// Offset to add to a time for Unix time; for the monotonic clock, as of now.
    #[serde(with = "netloom_form::exact")]
    #[cfg_attr(feature = "schema", schema(value_type = netloom_form::schema::Exact))]
    pub to_unix_ns: i64,
    /// Time of the last clock step since the session was prepared.
    #[serde(default, with = "netloom_form::exact")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<netloom_form::schema::Exact>))]
    pub stepped_at: Option<u64>,
}

/// When blocks begin and end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = Schedule))]
pub struct ScheduleView {
    /// When block 0 begins.
    #[serde(with = "netloom_form::exact")]
    #[cfg_attr(feature = "schema", schema(value_type = netloom_form::schema::Exact))]
    pub start: u64,
    /// The length of a block.
    pub period: u64,
    /// How long after its end a block is still counted.
    pub guard: u64,
}

/// A spot, a direction of an interface, and counts of frames that are in no block there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = Spot))]
pub struct SpotView {
    /// The interface.
    pub netif: String,
    /// `ingress` or `egress`, as the interface sees it.
    #[serde(with = "json::direction")]
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub direction: Direction,
    /// Whether packets are marked: `off`, `single` or `double`.
    #[serde(with = "json::marking")]
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub marking: Marking,
    /// Frames that are in no block.
    #[serde(with = "json::CountsWords")]
    #[cfg_attr(feature = "schema", schema(value_type = json::CountsWords))]
    pub counts: Counts,
}

/// A flow at a spot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Measure {
    /// The interface.
    pub netif: String,
    /// `ingress` or `egress`, as the interface sees it.
    #[serde(with = "json::direction")]
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub direction: Direction,
    /// The filter's number.
    pub flow: u32,
    /// Closed blocks that are kept, by number.
    pub blocks: Vec<Block>,
}

/// A block of a flow at a spot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Block {
    /// Its number in this session.
    pub block: u64,
    /// `starter` or `next`.
    #[serde(with = "json::colour")]
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub colour: Colour,
    /// When it began.
    #[serde(with = "netloom_form::exact")]
    #[cfg_attr(feature = "schema", schema(value_type = netloom_form::schema::Exact))]
    pub begin: u64,
    /// Time that sums are relative to.
    #[serde(with = "netloom_form::exact")]
    #[cfg_attr(feature = "schema", schema(value_type = netloom_form::schema::Exact))]
    pub origin: u64,
    /// Whether the block is complete.
    pub complete: bool,
    /// Why it is not complete, in words.
    pub reasons: Vec<String>,
    /// Bytes of all packets.
    pub bytes: u64,
    /// Packets that arrived after it was closed.
    pub late: u64,
    /// Packets that could not be hashed.
    pub unhashable: u64,
    /// All packets.
    pub all: Times,
    /// Double-marked packets.
    pub double: Times,
    /// Samples, if the program samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampled: Option<SampledView>,
}

/// Packet count and times.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Times {
    /// Number of packets.
    pub packets: u64,
    /// Sum of their times since the block's origin, as text: it may have more bits than numbers of JSON.
    #[serde(with = "json::text")]
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub sum: u128,
    /// Mean of their times (ATS), rounded down to a nanosecond. Absent if the program keeps no times of these
    /// packets.
    #[serde(default, with = "netloom_form::exact")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<netloom_form::schema::Exact>))]
    pub mean: Option<u64>,
    /// The earliest.
    #[serde(default, with = "netloom_form::exact")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<netloom_form::schema::Exact>))]
    pub first: Option<u64>,
    /// The latest.
    #[serde(default, with = "netloom_form::exact")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<netloom_form::schema::Exact>))]
    pub last: Option<u64>,
}

/// Samples of a block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = SampledPackets))]
pub struct SampledView {
    /// Number of low hash bits guaranteed equal.
    pub hash_length: u8,
    /// Exclusive upper bound of all samples' distances, 0 to 2^32: lists are compared at the lower one.
    pub threshold: u64,
    /// Selected packets without room to be kept.
    pub unkept: u64,
    /// Whether packets with equal hashes had to be dropped.
    pub crowded: bool,
    /// In time order.
    pub samples: Vec<SampleView>,
}

/// A packet whose time was kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = SampledPacket))]
pub struct SampleView {
    /// When it was seen.
    #[serde(with = "netloom_form::exact")]
    #[cfg_attr(feature = "schema", schema(value_type = netloom_form::schema::Exact))]
    pub time: u64,
    /// The hash that selected it.
    pub hash: u32,
    /// Its identity at other points.
    pub identity: u32,
}

impl Measures {
    /// The results of a session, as far as they are kept.
    ///
    /// # Errors
    /// [`Error::NoSpot`], [`Error::NoFlow`]; errors of the kernel.
    pub fn of(session: &Session, probe: &str, id: SessionId, wanted: &Wanted) -> Result<Measures> {
        // Read before the blocks: if it has ended here, no block is missing below.
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
            // A program that keeps no times has a sum of 0, which is not a mean.
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
    /// The record that this was written from; `None` if a reason is unknown to this version.
    pub fn record(&self) -> Option<Record> {
        let mut completeness = Completeness::default();
        for reason in &self.reasons {
            completeness = completeness.or(json::flag(reason)?);
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
mod tests;
