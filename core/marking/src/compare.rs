//! Two records of one block: loss, one-way delay, jitter. [`TwoWay`](crate::TwoWay) takes both directions together.
//!
//! ATS is the mean time of a block's packets at a point. The source's formulas, in nanoseconds:
//! OWAD = ATS at the receiver - ATS at the sender; OWAJ = mean difference of consecutive times at
//! the receiver - that at the sender. Loss is exact: sent - received. A lost packet is in only one
//! of the means, so that the difference under loss is not the delay; [`Estimate`] bounds the error. With evenly
//! spread packets that is about lost L / (2 (n - lost)); the bounds here only assume
//! that lost packets lie between the first and the last. Both points must share a clock, or their
//! clocks agree within a bound that the caller adds by [`Estimate::widen`].

use serde::{Deserialize, Serialize};

use crate::{Completeness, Error, Record, Result, Totals};

/// A figure with bounds on its true value, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Estimate {
    /// The figure.
    pub value: f64,
    /// Lower bound of the true value.
    pub low: f64,
    /// Upper bound of the true value.
    pub high: f64,
}

impl Estimate {
    /// Zero, the start of a sum.
    pub(crate) const ZERO: Estimate = Estimate { value: 0.0, low: 0.0, high: 0.0 };

    /// An exact figure.
    fn exact(value: f64) -> Estimate {
        Estimate { value, low: value, high: value }
    }

    /// Whether only the clocks make it uncertain.
    pub fn is_exact(&self) -> bool {
        self.low >= self.high
    }

    /// Widens it for clocks that may differ by this, in nanoseconds.
    #[must_use]
    pub fn widen(self, clock_error: f64) -> Estimate {
        Estimate { low: self.low - clock_error, high: self.high + clock_error, ..self }
    }

    /// Multiplies it by a factor of at least 0.
    pub(crate) fn times(self, factor: f64) -> Estimate {
        Estimate { value: self.value * factor, low: self.low * factor, high: self.high * factor }
    }

    pub(crate) fn plus(self, other: Estimate) -> Estimate {
        Estimate {
            value: self.value + other.value,
            low: self.low + other.low,
            high: self.high + other.high,
        }
    }

    pub(crate) fn minus(self, other: Estimate) -> Estimate {
        Estimate {
            value: self.value - other.value,
            low: self.low - other.high,
            high: self.high - other.low,
        }
    }
}

/// Comparison of two points for one block.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// The block.
    pub block: u64,
    /// Packets at the first point.
    pub sent: u64,
    /// Packets at the second.
    pub received: u64,
    /// How many packets fewer at the second. Packets duplicated on the path offset lost ones;
    /// matched samples distinguish them.
    pub lost: u64,
    /// How many packets more at the second.
    pub gained: u64,
    /// Mean one-way delay.
    pub owad: Option<Estimate>,
    /// Mean one-way jitter as the source defines it; telescoped it is ((last - first) at the receiver -
    /// (last - first) at the sender) / (N - 1), and under loss each point has its own N.
    pub owaj: Option<f64>,
    /// Flaws of either record.
    pub completeness: Completeness,
}

impl Comparison {
    /// Whether the loss is exact: neither record has a flaw.
    pub fn is_complete(&self) -> bool {
        self.completeness.is_complete()
    }
}

/// Compares a block at two points, in the direction of its packets.
///
/// # Errors
///
/// Records of different blocks, or of schedules that begin differently.
pub fn compare(first: &Record, second: &Record) -> Result<Comparison> {
    same_block(first, second)?;
    let (sent, received) = (first.all.packets, second.all.packets);
    let spacing = second.all.mean_spacing().zip(first.all.mean_spacing());
    Ok(Comparison {
        block: first.block,
        sent,
        received,
        lost: sent.saturating_sub(received),
        gained: received.saturating_sub(sent),
        owad: mean_delay(first, second),
        owaj: spacing.map(|(received, sent)| received - sent),
        completeness: first.completeness.or(second.completeness),
    })
}

/// Mean delay of the double-marked packets (RFC 9341, section 3.2.2), if as many arrived as
/// were sent: a missing one would leave the others unpaired.
///
/// # Errors
///
/// Records of different blocks.
pub fn double_delay(first: &Record, second: &Record) -> Result<Option<f64>> {
    same_block(first, second)?;
    if first.double.packets != second.double.packets {
        return Ok(None);
    }
    let mean = |record: &Record| record.double.mean();
    Ok(mean(second).zip(mean(first)).map(|(to, from)| to - from + shift(first, second)))
}

/// The change of the mean delay from one block to the next. This is not the variation between packets
/// (RFC 3393), so it has a name of its own.
pub fn block_mean_variation(earlier: &Comparison, later: &Comparison) -> Option<f64> {
    Some(later.owad?.value - earlier.owad?.value)
}

fn same_block(first: &Record, second: &Record) -> Result<()> {
    if first.block == second.block {
        return Ok(());
    }
    Err(Error::Blocks { first: first.block, second: second.block })
}

/// The correction of a difference of times that count from different origins. Computed in integers
/// first, so that no nanosecond is lost.
fn shift(first: &Record, second: &Record) -> f64 {
    (i128::from(second.origin) - i128::from(first.origin)) as f64
}

fn mean_delay(first: &Record, second: &Record) -> Option<Estimate> {
    let value = second.all.mean()? - first.all.mean()?;
    // Of the point with more packets, it is unknown which ones the other point lacks.
    let common = first.all.packets.min(second.all.packets);
    let (from, to) = (subset_mean(&first.all, common)?, subset_mean(&second.all, common)?);
    let bounds = Estimate { value, ..to.minus(from) };
    Some(bounds.plus(Estimate::exact(shift(first, second))))
}

/// Bounds of the mean of some of these packets, if the others are unknown but lie between the
/// first and the last: of n packets with sum S and r left out, from (S - r last) / (n - r) to
/// (S - r first) / (n - r). Never outside first and last.
fn subset_mean(totals: &Totals, packets: u64) -> Option<Estimate> {
    let (first, last, mean) = (totals.first?, totals.last?, totals.mean()?);
    let left_out = totals.packets.checked_sub(packets)?;
    if left_out == 0 {
        return Some(Estimate::exact(mean));
    }
    // Not divided by 0: without packets one of the points has no mean, and no delay is given.
    let weight = left_out as f64 / packets as f64;
    let (first, last) = (first as f64, last as f64);
    Some(Estimate {
        value: mean,
        low: (mean + (mean - last) * weight).max(first),
        high: (mean + (mean - first) * weight).min(last),
    })
}

#[cfg(test)]
mod tests;
