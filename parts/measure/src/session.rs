//! One measurement: points at interfaces, blocks read when they are closed.

use std::sync::Arc;
use std::time::Duration;

use netloom_ebpf::Direction;
use netloom_ebpf::measure::{Clock, ClockState, Counts, FlowBlock, Marking};
use netloom_marking::Schedule;
use netloom_marking::session::Configuration;
use serde::Serialize;

use crate::{Interfaces, Result};

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
    /// What is measured, and how. Its `netifs` are not looked at: `spots` are.
    pub configuration: Configuration,
    /// Where, in an order of the caller's.
    pub spots: Vec<Spot>,
    /// By which clock.
    pub clock: Clock,
    /// How many blocks are kept; older ones go.
    pub keep: usize,
}

/// What a session is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It was checked and can be started.
    Prepared,
    /// Its points count.
    Running,
    /// Its last block is closed, or it was stopped; what it measured can be read.
    Ended,
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

/// One measurement.
#[derive(Debug)]
pub struct Session {}

impl Session {
    /// Finds the interfaces and checks that the kernel takes the programs; nothing is attached.
    ///
    /// # Errors
    /// A spot whose interface is not there; what the kernel lacks.
    pub fn prepare(_interfaces: Arc<dyn Interfaces>, _setup: Setup) -> Result<Session> {
        Ok(Session {})
    }

    /// Attaches all points (markers last) and begins: block 0 begins at a multiple of the period on the
    /// clock, so that sessions of several hosts agree on blocks.
    ///
    /// # Errors
    /// [`crate::Error::Order`] unless it is prepared; what the kernel refuses: nothing is attached then.
    pub fn start(&self) -> Result<()> {
        Ok(())
    }

    /// Takes markers off, waits for no more: the block that lasts is marked as ended within. Points go.
    pub fn stop(&self) {}

    /// What it is doing.
    pub fn state(&self) -> State {
        State::Prepared
    }

    /// What was asked for.
    pub fn setup(&self) -> &Setup {
        unreachable!()
    }

    /// Its blocks, once it was started.
    pub fn schedule(&self) -> Option<Schedule> {
        None
    }

    /// Blocks that are closed, from this number on, waiting up to `wait` for one while it runs.
    pub fn blocks(&self, _from: u64, _wait: Duration) -> Vec<Arc<Told>> {
        Vec::new()
    }

    /// The clock of a spot's host, and what became of frames that are in no record there.
    ///
    /// # Errors
    /// What the kernel refuses.
    pub fn spot(&self, _index: usize) -> Result<(ClockState, Counts)> {
        unreachable!()
    }
}
