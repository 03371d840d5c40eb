//! Blocks of a way put together: exact sums hop by hop, and delays of all blocks in one distribution.
//!
//! A block counts for all hops of a way or for none: if anything stands against it at any point, it is told
//! and not summed. So what one hop gives out the next takes in, and losses of hops less their gains are
//! those from end to end, over any number of blocks.
//!
//! Delays of blocks that were sampled at different rates are brought to the lowest of these, so that each
//! packet counts alike; and to a lower one yet when they would be more than there is room for. Which
//! packets go is chosen by their hash, which knows nothing of delays.

use crate::matched::{Times, together};
use crate::{
    Comparison, Completeness, Error, Estimate, Population, Quantile, Record, Result, Sample,
    Selection, Threshold, compare, quantile,
};

/// A block at one point.
#[derive(Clone, Copy, Debug)]
pub struct Side<'a> {
    /// What was counted.
    pub record: &'a Record,
    /// How packets were selected in the end, and those that were; none if not all of them could be kept.
    pub samples: Option<(Selection, &'a [Sample])>,
}

/// A packet at both ends of a hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pair {
    distance: u32,
    sent: u64,
    delay: i64,
}

/// Packets of which no delay is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Without {
    distance: u32,
    lost: u64,
    ambiguous: u64,
}

/// Delays of selected packets over a hop, of any number of blocks; of bounded size.
#[derive(Clone, Debug, PartialEq)]
pub struct Delays {
    most: usize,
    threshold: Threshold,
    pairs: Vec<Pair>,
    without: Vec<Without>,
}

impl Delays {
    /// Nothing yet, with room for so many packets; for one at least.
    pub fn new(most: usize) -> Delays {
        Delays {
            most: most.max(1),
            threshold: Threshold::ALL,
            pairs: Vec::new(),
            without: Vec::new(),
        }
    }

    /// Adds the samples of one block at two points. Those of all blocks must have the same hasher and
    /// `match_value`.
    pub fn add(&mut self, first: (Selection, &[Sample]), second: (Selection, &[Sample])) {
        let selection = first.0;
        let (threshold, packets) = together(first, second);
        self.lower(threshold);
        for ((_, hash), times) in packets {
            self.push(selection.distance(hash), times);
        }
        while self.pairs.len() + self.without.len() > self.most && self.threshold.value() > 1 {
            self.lower(self.threshold.half());
        }
    }

    fn push(&mut self, distance: u32, [sent, received]: [Times; 2]) {
        if u64::from(distance) >= self.threshold.value() {
            return;
        }
        if let Some(delay) = sent.until(&received) {
            self.pairs.push(Pair { distance, sent: sent.last, delay });
            return;
        }
        let lost = sent.count.saturating_sub(received.count);
        let ambiguous = sent.count.min(received.count);
        if lost + ambiguous > 0 {
            self.without.push(Without { distance, lost, ambiguous });
        }
    }

    fn lower(&mut self, threshold: Threshold) {
        if threshold < self.threshold {
            self.threshold = threshold;
            self.pairs.retain(|pair| u64::from(pair.distance) < threshold.value());
            self.without.retain(|packet| u64::from(packet.distance) < threshold.value());
        }
    }

    /// How many delays are known.
    pub fn known(&self) -> usize {
        self.pairs.len()
    }

    /// The share of all packets that these are of, if hashes are spread evenly.
    pub fn rate(&self) -> f64 {
        self.threshold.rate()
    }

    /// Selected packets that were lost.
    pub fn lost(&self) -> u64 {
        self.without.iter().map(|packet| packet.lost).sum()
    }

    /// Selected packets that arrived, but of which one cannot be told from another.
    pub fn ambiguous(&self) -> u64 {
        self.without.iter().map(|packet| packet.ambiguous).sum()
    }

    /// The delays in nanoseconds below or at which these shares (0 to 1) of packets lie, with bounds.
    pub fn quantiles<const N: usize>(
        &self,
        shares: [f64; N],
        population: Population,
    ) -> [Option<Quantile>; N] {
        let mut delays: Vec<i64> = self.pairs.iter().map(|pair| pair.delay).collect();
        delays.sort_unstable();
        let lost = if population == Population::Sent { self.lost() } else { 0 };
        shares.map(|share| quantile::of(&delays, self.ambiguous(), lost, share))
    }

    /// The mean of the known delays, in nanoseconds.
    pub fn mean(&self) -> Option<f64> {
        let sum: i128 = self.pairs.iter().map(|pair| i128::from(pair.delay)).sum();
        (!self.pairs.is_empty()).then(|| sum as f64 / self.pairs.len() as f64)
    }

    /// The shortest and the longest known delay.
    pub fn extremes(&self) -> Option<(i64, i64)> {
        let delays = || self.pairs.iter().map(|pair| pair.delay);
        delays().min().zip(delays().max())
    }

    /// Jitter: the mean of the absolute differences between the delays of packets that follow each other
    /// among the selected ones, in the order of sending, in nanoseconds. With all packets selected that
    /// is the mean of |ipdv| of RFC 3393.
    pub fn jitter(&self) -> Option<f64> {
        let gaps = self.pairs.len().checked_sub(1).filter(|&gaps| gaps > 0)?;
        let mut ordered: Vec<(u64, i64)> = self.pairs.iter().map(|p| (p.sent, p.delay)).collect();
        ordered.sort_unstable();
        let differences = ordered.iter().zip(ordered.iter().skip(1));
        let sum: u128 = differences.map(|(a, b)| u128::from(a.1.abs_diff(b.1))).sum();
        Some(sum as f64 / gaps as f64)
    }
}

/// One block at a hop.
#[derive(Clone, Debug)]
pub struct HopBlock {
    /// What its points counted.
    pub comparison: Comparison,
    /// Delays of selected packets, if both points kept all that they selected.
    pub delays: Option<Delays>,
}

impl HopBlock {
    fn of(first: &Side<'_>, second: &Side<'_>, most: usize) -> Result<HopBlock> {
        let comparison = compare(first.record, second.record)?;
        let delays = first.samples.zip(second.samples).map(|(first, second)| {
            let mut delays = Delays::new(most);
            delays.add(first, second);
            delays
        });
        Ok(HopBlock { comparison, delays })
    }
}

/// Blocks of a hop together.
#[derive(Clone, Debug)]
pub struct HopTotal {
    /// Packets at the first point.
    pub sent: u64,
    /// Packets at the second.
    pub received: u64,
    /// Packets fewer at the second, block by block.
    pub lost: u64,
    /// Packets more at the second, block by block: duplicates. In a block they make up for lost ones.
    pub gained: u64,
    /// Delays of selected packets.
    pub delays: Delays,
    /// Whether a block has counts but no delays, because a point could not keep all that it selected.
    pub without_delays: bool,
    /// Sums of mean delay times packets, and of packets.
    all: Option<(Estimate, u64)>,
    spacing: Option<(f64, u64)>,
}

impl HopTotal {
    fn new(most: usize) -> HopTotal {
        HopTotal {
            sent: 0,
            received: 0,
            lost: 0,
            gained: 0,
            delays: Delays::new(most),
            without_delays: false,
            all: None,
            spacing: None,
        }
    }

    fn add(&mut self, block: &HopBlock, first: &Side<'_>, second: &Side<'_>) {
        let comparison = &block.comparison;
        self.sent += comparison.sent;
        self.received += comparison.received;
        self.lost += comparison.lost;
        self.gained += comparison.gained;
        match first.samples.zip(second.samples) {
            Some((first, second)) => self.delays.add(first, second),
            None => self.without_delays = true,
        }
        let packets = comparison.sent.min(comparison.received);
        if let Some(mean) = comparison.owad {
            let (sum, before) = self.all.unwrap_or((Estimate::ZERO, 0));
            self.all = Some((sum.plus(mean.times(packets as f64)), before + packets));
        }
        if let Some(difference) = comparison.owaj {
            let (sum, before) = self.spacing.unwrap_or_default();
            self.spacing = Some((sum + difference * packets as f64, before + packets));
        }
    }

    /// The mean delay of all packets, where times of all were kept, in nanoseconds: that of each block by
    /// its packets. Blocks in which packets were lost make it uncertain, and no others.
    pub fn mean_of_all(&self) -> Option<Estimate> {
        let (sum, packets) = self.all.filter(|(_, packets)| *packets > 0)?;
        Some(sum.times(1.0 / packets as f64))
    }

    /// The mean one-way jitter as the source has it ([`Comparison::owaj`]), each block by its packets.
    pub fn spacing(&self) -> Option<f64> {
        let (sum, packets) = self.spacing.filter(|(_, packets)| *packets > 0)?;
        Some(sum / packets as f64)
    }
}

/// One block on a way.
#[derive(Clone, Debug)]
pub struct WayBlock {
    /// Its number.
    pub block: u64,
    /// What stands against it at any point.
    pub completeness: Completeness,
    /// From point to point.
    pub hops: Vec<HopBlock>,
    /// From the first point to the last.
    pub whole: HopBlock,
}

/// Blocks of a way together.
#[derive(Clone, Debug)]
pub struct WayTotal {
    most: usize,
    /// Blocks that are in the sums.
    pub blocks: u64,
    /// Blocks that are not, because something stands against them.
    pub incomplete: u64,
    /// What stands against any of these.
    pub against: Completeness,
    /// From point to point.
    pub hops: Vec<HopTotal>,
    /// From the first point to the last.
    pub whole: HopTotal,
}

impl WayTotal {
    /// A way of so many points, with room for so many delays of each hop.
    pub fn new(points: usize, most: usize) -> WayTotal {
        let hops = (1..points).map(|_| HopTotal::new(most)).collect();
        let (blocks, against) = (0, Completeness::default());
        WayTotal { most, blocks, incomplete: 0, against, hops, whole: HopTotal::new(most) }
    }

    /// Adds a block, of all points in their order, and tells what it says alone.
    ///
    /// # Errors
    ///
    /// Records of different blocks, or not one for each point of at least two.
    pub fn add(&mut self, points: &[Side<'_>]) -> Result<WayBlock> {
        let [first, .., last] = points else { return Err(Error::Points(points.len())) };
        if points.len() != self.hops.len() + 1 {
            return Err(Error::Points(points.len()));
        }
        let pairs = || points.iter().zip(points.iter().skip(1));
        let hops = pairs().map(|(a, b)| HopBlock::of(a, b, self.most)).collect::<Result<_>>()?;
        let block = WayBlock {
            block: first.record.block,
            completeness: points
                .iter()
                .fold(Completeness::default(), |all, side| all.or(side.record.completeness)),
            hops,
            whole: HopBlock::of(first, last, self.most)?,
        };
        if !block.completeness.is_complete() {
            self.incomplete += 1;
            self.against = self.against.or(block.completeness);
            return Ok(block);
        }
        self.blocks += 1;
        for ((total, hop), (a, b)) in self.hops.iter_mut().zip(&block.hops).zip(pairs()) {
            total.add(hop, a, b);
        }
        self.whole.add(&block.whole, first, last);
        Ok(block)
    }
}

#[cfg(test)]
#[path = "total_tests.rs"]
mod tests;
