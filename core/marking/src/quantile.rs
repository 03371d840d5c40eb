//! Percentiles of delays, with bounds on their error.
//!
//! Two kinds of packets are unknown. Packets that were not sampled: the sample's order statistics bound
//! the true quantile at 95 % (binomial, for any distribution; H. A. David,
//! Order Statistics, 2.5). And packets that arrived with an unknown delay: all of them may
//! be below, or all above, and each bound takes the worse. Sampling by hash is assumed to be random,
//! which holds for BOB and CRC-32, but not for IPSX.

use serde::Serialize;

/// The packets that a percentile refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Population {
    /// Those that arrived. Lost packets have no delay.
    Delivered,
    /// All that were sent: a lost packet's delay counts as longer than any. "99 % of what is sent arrives
    /// within x" is this one.
    Sent,
}

/// A delay that a share of packets does not exceed, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Quantile {
    /// The sample's quantile; `None` if it falls on a lost packet.
    pub value: Option<i64>,
    /// The true quantile is at or above this with at least 97.5 % certainty; `None` if unknown.
    pub low: Option<i64>,
    /// The true quantile is at or below this with at least 97.5 % certainty; `None` if unknown.
    pub high: Option<i64>,
}

/// The probability on each side that the true value is beyond the bound.
const BEYOND: f64 = 0.025;

/// The quantile of sorted delays, `unknown` packets that may be anywhere, and `lost` ones that
/// are above all.
pub(crate) fn of(delays: &[i64], unknown: u64, lost: u64, share: f64) -> Option<Quantile> {
    let known = u64::try_from(delays.len()).ok()?;
    if known == 0 || !(0.0..=1.0).contains(&share) {
        return None;
    }
    // Rank 1 is the smallest.
    let at = |rank: u64| delays.get(usize::try_from(rank.checked_sub(1)?).ok()?).copied();
    let (low, high) = ranks(known + unknown + lost, share);
    Some(Quantile {
        value: at(rank(known + lost, share)),
        // All unknown packets may be below the known ones: the rank among these falls by their
        // number.
        low: low.and_then(|rank| at(rank.checked_sub(unknown)?.min(known))),
        high: high.and_then(at),
    })
}

/// The nearest rank: the least k with k >= n * share, and at least 1.
fn rank(n: u64, share: f64) -> u64 {
    let exact = (n as f64 * share).ceil();
    // From 0 to n, because the share is from 0 to 1.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to n")]
    let rank = exact as u64;
    rank.clamp(1, n.max(1))
}

/// Ranks l and h of n such that the true quantile is at or above the l-th with a chance of 97.5 % or
/// more, and at or below the h-th. With X binomial of n and the share: P(X < l) <= 2.5 % and
/// P(X >= h) <= 2.5 %.
fn ranks(n: u64, share: f64) -> (Option<u64>, Option<u64>) {
    let (mut low, mut high) = (None, None);
    let mut below = 0.0;
    for (rank, chance) in (0..=n).zip(binomial(n, share)) {
        // `below` is P(X < rank).
        if rank >= 1 && below <= BEYOND {
            low = Some(rank);
        }
        if rank >= 1 && high.is_none() && 1.0 - below <= BEYOND {
            high = Some(rank);
        }
        below += chance;
    }
    (low, high)
}

/// P(X = k) for k from 0, by sums of logarithms, which do not underflow.
fn binomial(n: u64, share: f64) -> impl Iterator<Item = f64> {
    let mut log = 0.0;
    (0..=n).map(move |k| {
        if k > 0 {
            log += ((n - k + 1) as f64 / k as f64).ln();
        }
        let power = |base: f64, exponent: u64| {
            // 0 to the power of 0 is 1, but 0 times the logarithm of 0 is not a number.
            if exponent == 0 { 0.0 } else { exponent as f64 * base.ln() }
        };
        (log + power(share, k) + power(1.0 - share, n - k)).exp()
    })
}

#[cfg(test)]
mod tests;
