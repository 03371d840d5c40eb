//! Many points: loss hop by hop along a path, and over a cluster of points.
//!
//! The losses of hops, minus their gains, add up to the end-to-end loss: each loss has
//! one named place. See RFC 9342 (clusters) for points that are not in a line.

use serde::Serialize;

use crate::{Comparison, Record, Result, compare};

/// Two neighbouring points of a path.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Hop {
    /// The index of the point before it.
    pub from: usize,
    /// The comparison of the two points.
    pub comparison: Comparison,
}

/// The hops of a path, from one block's records in the order of its points.
///
/// # Errors
///
/// Records of different blocks.
pub fn hops(records: &[Record]) -> Result<Vec<Hop>> {
    let pairs = records.iter().zip(records.iter().skip(1)).enumerate();
    pairs.map(|(from, (a, b))| Ok(Hop { from, comparison: compare(a, b)? })).collect()
}

/// The loss in a cluster: packets at all its inputs minus packets at all its outputs (RFC 9342).
/// Negative if more came out than went in.
pub fn cluster_loss<'a>(
    inputs: impl IntoIterator<Item = &'a Record>,
    outputs: impl IntoIterator<Item = &'a Record>,
) -> i128 {
    let sum = |records: &mut dyn Iterator<Item = &'a Record>| -> i128 {
        records.map(|record| i128::from(record.all.packets)).sum()
    };
    sum(&mut inputs.into_iter()) - sum(&mut outputs.into_iter())
}
