//! What a measurement is asked to do, and what it tells.

use netloom_ebpf::Direction;
use netloom_ebpf::measure::{Clock, FlowBlock, Marking};
use netloom_marking::session::Configuration;
use serde::{Deserialize, Serialize};

/// A session's number.
pub type SessionId = u64;

/// Which measures are asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Of this interface only.
    pub netif: Option<String>,
    /// Of this filter only.
    pub flow: Option<u32>,
    /// Blocks from this number on.
    pub from: u64,
}

/// A point of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spot {
    /// The interface, by a name that the session's [`Interfaces`] knows.
    pub netif: String,
    /// Frames of which direction.
    pub direction: Direction,
    /// Whether packets are marked there; only at egress.
    pub marking: Marking,
}

/// What a session does.
#[derive(Clone, Debug)]
pub struct Setup {
    /// What is measured, and how. Its `netifs` are not looked at: `spots` are. With a duration of less
    /// than a period it measures until it is stopped.
    pub configuration: Configuration,
    /// Where, in an order of the caller's.
    pub spots: Vec<Spot>,
    /// By which clock.
    pub clock: Clock,
    /// How many blocks are kept; older ones go. At least one.
    pub keep: usize,
    /// Flows of each family that a point finds by one access; 0 for what suits the number of spots.
    pub cache: u32,
}

/// What a session is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It was checked and can be started.
    Prepared,
    /// Its points count.
    Running,
    /// Its last block is closed, or it was stopped; what it measured can be read.
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

/// What one point says about a block that is closed.
#[derive(Clone, Debug, PartialEq)]
pub struct Closed {
    /// The index of the spot.
    pub spot: usize,
    /// The block of each filter, in their order.
    pub flows: Vec<FlowBlock>,
}

/// A block that is closed, at all points.
#[derive(Clone, Debug, PartialEq)]
pub struct Told {
    /// Its number.
    pub block: u64,
    /// Each point, in the order of the spots.
    pub points: Vec<Closed>,
}
