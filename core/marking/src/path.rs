//! Many points: loss hop by hop along a way, and over a cluster of points.
//!
//! The losses of hops, with their gains taken off, add up to that from end to end: what is lost is
//! at one named place. See RFC 9342 (clusters) for points that are not in a line.

use serde::Serialize;

use crate::{Comparison, Record, Result, compare};

/// Two neighbouring points of a way.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Hop {
    /// The index of the point before it.
    pub from: usize,
    /// What the points before and after say.
    pub comparison: Comparison,
}

/// The hops of a way, from one block's records in the order of its points.
///
/// # Errors
///
/// Records of different blocks.
pub fn hops(records: &[Record]) -> Result<Vec<Hop>> {
    let pairs = records.iter().zip(records.iter().skip(1)).enumerate();
    pairs.map(|(from, (a, b))| Ok(Hop { from, comparison: compare(a, b)? })).collect()
}

/// What was lost in a cluster: packets at all its inputs less packets at all its outputs (RFC 9342).
/// Below 0 if more came out than went in.
pub fn cluster_loss<'a>(
    inputs: impl IntoIterator<Item = &'a Record>,
    outputs: impl IntoIterator<Item = &'a Record>,
) -> i128 {
    let sum = |records: &mut dyn Iterator<Item = &'a Record>| -> i128 {
        records.map(|record| i128::from(record.all.packets)).sum()
    };
    sum(&mut inputs.into_iter()) - sum(&mut outputs.into_iter())
}
