//! The book of a measurement: the spot and filter of each point on each path, and all blocks so far.

use netloom_ebpf::measure::FlowBlock;
use netloom_marking::Completeness;
use netloom_marking::total::{WayBlock, WayTotal};
use netloom_measure::ClosedBlock;

use super::flows::{Flow, flow_number};
use super::paths::{Paths, point_name};
use crate::{Error, Result};

/// Maximum number of delays kept per hop, over all flows.
const MOST_DELAYS: usize = 1 << 16;
/// Minimum number kept per flow.
const LEAST_DELAYS: usize = 1 << 10;

/// A flow on a path.
pub struct Entry {
    /// Index of the flow.
    pub flow: usize,
    /// Index of the path.
    pub way: usize,
    /// Its first block.
    pub from: u64,
    /// All its blocks together.
    pub total: WayTotal,
}

/// All data of a measurement.
pub struct Book {
    /// For each path, the spot of each point.
    spots: Vec<Vec<usize>>,
    ways: usize,
    /// Delays kept for each hop and flow.
    most: usize,
    /// Flow by flow, each path; those with a later first block come later.
    pub entries: Vec<Entry>,
}

/// A block of each entry that has begun, by the entry's index.
pub type Blocks = Vec<WayBlock>;

impl Book {
    /// Finds a spot for each point of each path: by its name, its direction, and whether frames leave their
    /// node there.
    pub(super) fn new(
        ways: &Paths,
        flows: &[Flow],
        mut spot: impl FnMut(&str, bool, bool) -> usize,
    ) -> Book {
        let mut spots = Vec::new();
        for way in &ways.all {
            let points = way.way.points.iter().enumerate();
            spots.push(points.map(|(n, p)| spot(&point_name(p), p.out, n == 0)).collect());
        }
        let most = (MOST_DELAYS / flows.len().max(1)).max(LEAST_DELAYS);
        let mut book = Book { spots, ways: ways.all.len(), most, entries: vec![] };
        (0..flows.len()).for_each(|flow| book.join(flow, 0));
        book
    }

    /// Adds a flow on all paths, from this block on; not before that of an earlier call.
    pub(super) fn join(&mut self, flow: usize, from: u64) {
        for (way, spots) in self.spots.iter().enumerate() {
            let total = WayTotal::new(spots.len(), self.most);
            self.entries.push(Entry { flow, way, from, total });
        }
    }

    /// The spots where packets leave their nodes, without duplicates.
    pub(super) fn senders(&self) -> Vec<usize> {
        let mut all: Vec<usize> =
            self.spots.iter().filter_map(|way| way.first().copied()).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// The records of a block at the points of an entry's path, in their order.
    pub fn records<'t>(
        &self,
        entry: &Entry,
        told: &'t ClosedBlock,
    ) -> impl Iterator<Item = Option<&'t FlowBlock>> {
        let number = number(entry, self.ways);
        let spots = self.spots.get(entry.way).map(Vec::as_slice).unwrap_or_default();
        spots.iter().map(move |spot| record(told, *spot, number))
    }

    /// Adds a block of all points; `rerouted` tells whether packets of a path may have missed points in it.
    ///
    /// # Errors
    /// The block lacks a point or a flow.
    pub(super) fn add(
        &mut self,
        told: &ClosedBlock,
        rerouted: impl Fn(usize) -> bool,
    ) -> Result<Blocks> {
        let mut blocks = Vec::with_capacity(self.entries.len());
        let begun = self.entries.iter_mut().take_while(|entry| entry.from <= told.block);
        for entry in begun {
            let number = number(entry, self.ways);
            let mut sides = Vec::new();
            for spot in &self.spots[entry.way] {
                let Some(flow) = record(told, *spot, number) else {
                    let reason = format!("it lacks flow {number} of spot {spot}");
                    return Err(Error::unfit(format!("block {}", told.block), reason));
                };
                sides.push(netloom_measure::view::side(flow));
            }
            let flaws = Completeness { rerouted: rerouted(entry.way), ..Completeness::default() };
            blocks.push(entry.total.add_with(&sides, flaws)?);
        }
        Ok(blocks)
    }
}

/// The number of an entry's flow at points.
fn number(entry: &Entry, ways: usize) -> u32 {
    flow_number(entry.flow, ways, entry.way)
}

/// The record of a flow at a spot.
fn record(told: &ClosedBlock, spot: usize, number: u32) -> Option<&FlowBlock> {
    let point = told.points.iter().find(|point| point.spot == spot)?;
    point.flows.iter().find(|flow| flow.id == number)
}
