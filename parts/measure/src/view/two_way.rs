//! Two interfaces of a session compared, in both directions: what alternate marking is for, without a collector.

use std::time::Duration;

use netloom_ebpf::Direction;
use netloom_ebpf::measure::FlowBlock;
use netloom_marking::total::{Delays, HopBlock, Side};
use netloom_marking::{Completeness, Estimate, TwoWay};
use serde::{Deserialize, Serialize};

use super::{ClockView, ScheduleView};
use crate::{Between, ClosedBlock, Error, Result, Session, SessionId, State};

/// The maximum number of delays that are looked at per block and direction.
const MOST_DELAYS: usize = 1 << 16;

/// Two interfaces compared, block by block. Times are nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TwoWays {
    /// The session's number.
    #[cfg_attr(feature = "schema", schema(value_type = u64))]
    pub session: SessionId,
    /// Its state.
    pub state: State,
    /// The name of its probe.
    pub probe: String,
    /// The clock of all times.
    pub clock: ClockView,
    /// The block schedule; none before the start.
    pub schedule: Option<ScheduleView>,
    /// Closed blocks that are kept, by number.
    pub blocks: Vec<TwoWayBlock>,
}

/// A block between two interfaces.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TwoWayBlock {
    /// Its number in this session.
    pub block: u64,
    /// When it began.
    #[serde(with = "netloom_form::exact")]
    #[cfg_attr(feature = "schema", schema(value_type = netloom_form::schema::Exact))]
    pub begin: u64,
    /// Whether the block is complete at both interfaces.
    pub complete: bool,
    /// Why it is not complete, in words.
    pub reasons: Vec<String>,
    /// Packets that left by the first interface and arrived by the second.
    pub there: OneWay,
    /// Packets that left by the second interface and arrived by the first.
    pub back: OneWay,
    /// ARTT = OWAD there + OWAD back; TWAJ = OWAD there - OWAD back.
    pub both: TwoWay,
}

/// A block in one direction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct OneWay {
    /// Packets that left.
    pub sent: u64,
    /// Packets that arrived.
    pub received: u64,
    /// How many packets fewer arrived.
    pub lost: u64,
    /// How many packets more arrived.
    pub gained: u64,
    /// Mean delay of all packets (OWAD); absent unless times of all are kept at both interfaces.
    pub owad_all_ns: Option<Estimate>,
    /// One-way jitter of all packets (OWAJ), likewise.
    pub owaj_ns: Option<f64>,
    /// Mean delay of the selected packets.
    pub sampled_mean_ns: Option<f64>,
}

/// A block of a flow at a point, as comparisons take it.
pub fn side(flow: &FlowBlock) -> Side<'_> {
    // With samples left out the lists of two points cannot be compared.
    let whole = flow.sampled.as_ref().filter(|sampled| sampled.unkept == 0);
    let samples = whole.map(|sampled| (sampled.selection, sampled.samples.as_slice()));
    Side { record: &flow.record, samples }
}

impl TwoWays {
    /// Compares two interfaces of a session, as far as its blocks are kept.
    ///
    /// # Errors
    /// [`Error::NoSpot`], [`Error::NoFlow`].
    pub fn of(session: &Session, probe: &str, id: SessionId, between: &Between) -> Result<TwoWays> {
        let ways = ways(session, id, between)?;
        let told = session.blocks(between.from, Duration::ZERO);
        let schedule = session.schedule();
        let blocks = told.iter().filter_map(|told| TwoWayBlock::of(told, &ways));
        Ok(TwoWays {
            session: id,
            state: session.state(),
            probe: probe.to_owned(),
            clock: ClockView::from(session.clock()),
            schedule: schedule.map(ScheduleView::from),
            blocks: blocks.collect(),
        })
    }
}

/// Where packets of a direction leave and arrive: indices of the spots; and of their flow.
struct DirectionSpots {
    ends: [usize; 2],
    flow: usize,
}

/// The way there and the way back.
fn ways(session: &Session, id: SessionId, between: &Between) -> Result<[DirectionSpots; 2]> {
    let setup = session.setup();
    let spot = |netif: &String, direction: Direction| {
        let is = |spot: &crate::Spot| spot.netif == *netif && spot.direction == direction;
        let none = || Error::NoSpot { id, netif: netif.clone() };
        setup.spots.iter().position(is).ok_or_else(none)
    };
    let ids = netloom_marking::session::flow_ids(&setup.configuration.filters);
    let flow = |wanted: Option<u32>| match wanted {
        None => Ok(0),
        Some(flow) => ids.iter().position(|known| *known == flow).ok_or(Error::NoFlow { id, flow }),
    };
    let way = |from: &String, to: &String, wanted| -> Result<DirectionSpots> {
        let ends = [spot(from, Direction::Egress)?, spot(to, Direction::Ingress)?];
        Ok(DirectionSpots { ends, flow: flow(wanted)? })
    };
    let [near, far] = &between.netifs;
    Ok([way(near, far, between.flow)?, way(far, near, between.back.or(between.flow))?])
}

impl TwoWayBlock {
    /// A block, if it has the points of these ways.
    fn of(told: &ClosedBlock, ways: &[DirectionSpots; 2]) -> Option<TwoWayBlock> {
        let [there, back] = ways.each_ref().map(|way| {
            let [from, to] = way.ends.map(|spot| told.points.get(spot)?.flows.get(way.flow));
            Some((from?, to?))
        });
        let (there, back) = (there?, back?);
        let compared = |(from, to): (&FlowBlock, &FlowBlock)| {
            HopBlock::of(&side(from), &side(to), MOST_DELAYS).ok()
        };
        let (one, other) = (compared(there)?, compared(back)?);
        let flaws = [there.0, there.1, back.0, back.1].map(|flow| flow.record.completeness);
        let flaws = flaws.into_iter().fold(Completeness::default(), Completeness::or);
        Some(TwoWayBlock {
            block: told.block,
            begin: there.0.record.begin,
            complete: flaws.is_complete(),
            reasons: flaws.reasons().into_iter().map(str::to_owned).collect(),
            there: OneWay::from(&one),
            back: OneWay::from(&other),
            both: TwoWay::of_block(&one, &other),
        })
    }
}

impl From<&HopBlock> for OneWay {
    fn from(hop: &HopBlock) -> OneWay {
        let compared = &hop.comparison;
        OneWay {
            sent: compared.sent,
            received: compared.received,
            lost: compared.lost,
            gained: compared.gained,
            owad_all_ns: compared.owad,
            owaj_ns: compared.owaj,
            sampled_mean_ns: hop.delays.as_ref().and_then(Delays::mean),
        }
    }
}
