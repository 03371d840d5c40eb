//! The book of a measurement: the spot and filter of each point on each path, and all blocks so far.

use netloom_ebpf::measure::FlowBlock;
use netloom_marking::total::{Side, WayBlock, WayTotal};
use netloom_measure::Told;

use super::flows::Flow;
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
    /// All its blocks together.
    pub total: WayTotal,
}

/// All data of a measurement.
pub struct Book {
    /// For each path, the spot of each point.
    spots: Vec<Vec<usize>>,
    ways: usize,
    /// Flow by flow, each path.
    pub entries: Vec<Entry>,
}

/// A block of an entry, by the entry's index.
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
        let pairs =
            (0..flows.len()).flat_map(|flow| (0..ways.all.len()).map(move |way| (flow, way)));
        let entry = |(flow, way): (usize, usize)| {
            let points = ways.all[way].way.points.len();
            Entry { flow, way, total: WayTotal::new(points, most) }
        };
        Book { spots, ways: ways.all.len(), entries: pairs.map(entry).collect() }
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
        told: &'t Told,
    ) -> impl Iterator<Item = Option<&'t FlowBlock>> {
        let filter = entry.flow * self.ways + entry.way;
        let spots = self.spots.get(entry.way).map(Vec::as_slice).unwrap_or_default();
        spots.iter().map(move |spot| {
            let point = told.points.iter().find(|point| point.spot == *spot);
            point.and_then(|point| point.flows.get(filter))
        })
    }

    /// Adds a block of all points.
    ///
    /// # Errors
    /// The block lacks a point or a flow.
    pub(super) fn add(&mut self, told: &Told) -> Result<Blocks> {
        let mut blocks = Vec::with_capacity(self.entries.len());
        for entry in &mut self.entries {
            let filter = entry.flow * self.ways + entry.way;
            let mut sides = Vec::new();
            for spot in &self.spots[entry.way] {
                let point = told.points.iter().find(|point| point.spot == *spot);
                let Some(flow) = point.and_then(|point| point.flows.get(filter)) else {
                    let reason = format!("it lacks filter {filter} of spot {spot}");
                    return Err(Error::unfit(format!("block {}", told.block), reason));
                };
                let whole = flow.sampled.as_ref().filter(|sampled| sampled.unkept == 0);
                let samples = whole.map(|s| (s.selection, s.samples.as_slice()));
                sides.push(Side { record: &flow.record, samples });
            }
            blocks.push(entry.total.add(&sides)?);
        }
        Ok(blocks)
    }
}
