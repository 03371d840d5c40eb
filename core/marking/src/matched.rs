//! Matches the samples of two points, packet by packet.
//!
//! Both lists are first reduced to the lower of their thresholds; then identity and hash together
//! recognise packets. Several packets of the same identity at a point cannot be
//! distinguished: they are counted exactly, but give no delay. No order is assumed, so packets may
//! overtake. The lists must belong to one block and be complete for it.

use std::collections::BTreeMap;

use crate::{Population, Quantile, Sample, Selection, Threshold, quantile};

/// The matched samples of two points.
#[derive(Clone, Debug, PartialEq)]
pub struct Matched {
    /// The threshold at which the lists were compared.
    pub threshold: Threshold,
    /// Delays of packets seen once at both points, in nanoseconds, sorted. They are negative if
    /// the clocks differ by more than the delay.
    pub delays: Vec<i64>,
    /// Packets seen at the first point more often than at the second.
    pub lost: u64,
    /// Packets seen at the second point more often than at the first.
    pub gained: u64,
    /// Packets that arrived, but without a known delay, because their identity occurred several times.
    pub ambiguous: u64,
}

/// Compares samples of one block. Both points must have the same hasher and `match_value`;
/// `first` and `second` are their final selections.
pub fn match_samples(first: (Selection, &[Sample]), second: (Selection, &[Sample])) -> Matched {
    let (threshold, packets) = together(first, second);
    let mut matched = Matched { threshold, delays: Vec::new(), lost: 0, gained: 0, ambiguous: 0 };
    for [sent, received] in packets.into_values() {
        matched.add(sent, received);
    }
    matched.delays.sort_unstable();
    matched
}

/// Packets by identity and hash at both points.
pub(crate) type Packets = BTreeMap<(u32, u32), [Times; 2]>;

/// The packets that both points selected, at the lower of their thresholds.
pub(crate) fn together(
    first: (Selection, &[Sample]),
    second: (Selection, &[Sample]),
) -> (Threshold, Packets) {
    // Thresholds nest: at the lower one both points selected the same packets.
    let threshold = first.0.threshold().min(second.0.threshold());
    let mut packets = Packets::new();
    for (point, (selection, samples)) in [first, second].into_iter().enumerate() {
        let selection = selection.at(threshold);
        for sample in samples.iter().filter(|sample| selection.selects(sample.hash)) {
            packets.entry((sample.identity, sample.hash)).or_default()[point].add(sample.time);
        }
    }
    (threshold, packets)
}

/// How often a packet was seen at a point, and its last time.
#[derive(Clone, Copy, Default)]
pub(crate) struct Times {
    pub(crate) count: u64,
    pub(crate) last: u64,
}

impl Times {
    fn add(&mut self, time: u64) {
        self.count += 1;
        self.last = time;
    }

    /// The delay of a packet seen exactly once at each point. Clocks with different epochs may be far
    /// apart.
    pub(crate) fn until(&self, received: &Times) -> Option<i64> {
        if (self.count, received.count) != (1, 1) {
            return None;
        }
        let delay = i128::from(received.last) - i128::from(self.last);
        let extreme = if delay < 0 { i64::MIN } else { i64::MAX };
        Some(i64::try_from(delay).unwrap_or(extreme))
    }
}

impl Matched {
    fn add(&mut self, sent: Times, received: Times) {
        self.lost += sent.count.saturating_sub(received.count);
        self.gained += received.count.saturating_sub(sent.count);
        match sent.until(&received) {
            Some(delay) => self.delays.push(delay),
            None => self.ambiguous += sent.count.min(received.count),
        }
    }

    /// The delay in nanoseconds that this share (0 to 1) of packets does not exceed, with its
    /// bounds. `None` if no delay is known or the share is not a number.
    pub fn quantile(&self, share: f64, population: Population) -> Option<Quantile> {
        let lost = if population == Population::Sent { self.lost } else { 0 };
        quantile::of(&self.delays, self.ambiguous, lost, share)
    }

    /// The mean of the known delays, in nanoseconds.
    pub fn mean(&self) -> Option<f64> {
        let sum: i128 = self.delays.iter().copied().map(i128::from).sum();
        (!self.delays.is_empty()).then(|| sum as f64 / self.delays.len() as f64)
    }

    /// The expected number of pairs of different packets with equal identities, among
    /// `packets` selected ones: n^2 / 2 / 2^bits, where `bits` of hash and identity are free.
    pub fn expected_mistakes(packets: u64, bits: u32) -> f64 {
        let packets = packets as f64;
        packets * packets / 2.0 / 2f64.powi(i32::try_from(bits).unwrap_or(i32::MAX))
    }
}

#[cfg(test)]
mod tests;
