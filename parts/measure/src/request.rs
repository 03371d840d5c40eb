//! Requests to a measurement, and its results.

use netloom_ebpf::Direction;
use netloom_ebpf::measure::{Clock, FlowBlock, Marking};
use netloom_marking::session::{Configuration, NamedFilter};
use serde::{Deserialize, Serialize};

/// A session's number.
pub type SessionId = u64;

/// Selects measures.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Only this interface.
    pub netif: Option<String>,
    /// Only this filter.
    pub flow: Option<u32>,
    /// Blocks from this number on.
    pub from: u64,
}

/// Which two interfaces to compare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Between {
    /// The interface where packets leave, and the one where they arrive; back, the other way round.
    pub netifs: [String; 2],
    /// The filter of packets there; the first one if absent.
    pub flow: Option<u32>,
    /// The filter of packets back; that of packets there if absent.
    pub back: Option<u32>,
    /// Blocks from this number on.
    pub from: u64,
}

/// A point of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spot {
    /// The interface, by a name that the session's [`Interfaces`](crate::Interfaces) knows.
    pub netif: String,
    /// The direction of frames.
    pub direction: Direction,
    /// Whether packets are marked there; egress only.
    pub marking: Marking,
}

/// What a session does.
#[derive(Clone, Debug)]
pub struct Setup {
    /// What to measure, and how. `spots` replace its `netifs`. With a duration shorter than a period it
    /// measures until stopped.
    pub configuration: Configuration,
    /// Where to measure; the order is the caller's.
    pub spots: Vec<Spot>,
    /// The clock to use.
    pub clock: Clock,
    /// Number of blocks kept; the oldest are dropped. At least one.
    pub keep: usize,
    /// Flows per address family in a point's lookup cache; 0 chooses by the number of spots.
    pub cache: u32,
    /// Room for flows, those that [join](crate::Session::join) included; at least for those configured.
    pub flows: u32,
}

impl Setup {
    /// Flows for which there is room.
    pub(crate) fn room(&self) -> u64 {
        let configured = u64::try_from(self.configuration.flows()).unwrap_or(u64::MAX);
        configured.max(self.flows.into())
    }
}

/// A flow that joins a running measurement.
#[derive(Clone, Debug)]
pub struct Join {
    /// Its filters, all of one number. They come before those of other flows.
    pub filters: Vec<NamedFilter>,
    /// The number of the flow to which its packets belong so far.
    pub before: u32,
}

/// State of a session: ready to start, counting, or ended, so that its results can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = SessionState))]
pub enum State {
    /// Checked and ready to start.
    Prepared,
    /// Its points are counting.
    Running,
    /// Its last block is closed, or it was stopped; its results can be read.
    Ended,
}

impl State {
    pub(crate) fn word(self) -> &'static str {
        match self {
            State::Prepared => "prepared",
            State::Running => "running",
            State::Ended => "ended",
        }
    }
}

/// A point's result for a closed block.
#[derive(Clone, Debug, PartialEq)]
pub struct Closed {
    /// The index of the spot.
    pub spot: usize,
    /// The block of each filter, in filter order.
    pub flows: Vec<FlowBlock>,
}

/// A closed block at all points.
#[derive(Clone, Debug, PartialEq)]
pub struct ClosedBlock {
    /// Its number.
    pub block: u64,
    /// Each point's result, in spot order.
    pub points: Vec<Closed>,
}
