//! Combines the blocks of a path: exact sums hop by hop, and delays of all blocks in one distribution.
//!
//! A block counts for all hops of a path or for none: if it has a flaw at any point, it is reported
//! and not summed. So each hop's output is the next one's input, and the losses of hops minus their gains
//! equal the end-to-end loss, over any number of blocks.
//!
//! Delays of blocks sampled at different rates are reduced to the lowest of these rates, so that each
//! packet counts alike, and further when they would exceed the room. The hash chooses which packets
//! are dropped, independently of delays.

use crate::matched::{Times, together};
use crate::{
    Comparison, Completeness, Error, Estimate, Population, Quantile, Record, Result, Sample,
    Selection, Threshold, compare, quantile,
};

/// A block at one point.
#[derive(Clone, Copy, Debug)]
pub struct Side<'a> {
    /// Its counts.
    pub record: &'a Record,
    /// The final selection, and the selected packets; `None` if not all of them could be kept.
    pub samples: Option<(Selection, &'a [Sample])>,
}

/// A packet at both ends of a hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pair {
    distance: u32,
    sent: u64,
    delay: i64,
}

/// Packets without a known delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Without {
    distance: u32,
    lost: u64,
    ambiguous: u64,
}

/// Delays of selected packets over a hop, of any number of blocks, in bounded memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Delays {
    most: usize,
    threshold: Threshold,
    pairs: Vec<Pair>,
    without: Vec<Without>,
}

impl Delays {
    /// Empty, with room for this many packets, at least one.
    pub fn new(most: usize) -> Delays {
        Delays {
            most: most.max(1),
            threshold: Threshold::ALL,
            pairs: Vec::new(),
            without: Vec::new(),
        }
    }

    /// Adds the samples of one block at two points. All blocks must have the same hasher and
    /// `match_value`.
    pub fn add(&mut self, first: (Selection, &[Sample]), second: (Selection, &[Sample])) {
        let selection = first.0;
        let (threshold, packets) = together(first, second);
        self.lower(threshold);
        for ((_, hash), times) in packets {
            self.push(selection.distance(hash), times);
        }
        // At 1 only distances of 0 are left: half of that would select no packet.
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

    /// The share of all packets that these represent, if hashes are uniform.
    pub fn rate(&self) -> f64 {
        self.threshold.rate()
    }

    /// Selected packets that were lost.
    pub fn lost(&self) -> u64 {
        self.without.iter().map(|packet| packet.lost).sum()
    }

    /// Selected packets that arrived, but cannot be distinguished from each other.
    pub fn ambiguous(&self) -> u64 {
        self.without.iter().map(|packet| packet.ambiguous).sum()
    }

    /// The delays in nanoseconds that these shares (0 to 1) of packets do not exceed, with bounds.
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

    /// Jitter: the mean of the absolute differences between the delays of consecutive selected packets, in
    /// the order of sending, in nanoseconds. With all packets selected that
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
    /// The counts of its points.
    pub comparison: Comparison,
    /// Delays of selected packets, if both points kept everything they selected.
    pub delays: Option<Delays>,
}

impl HopBlock {
    /// Compares a block at two points, with room for this many delays.
    ///
    /// # Errors
    ///
    /// Records of different blocks.
    pub fn of(first: &Side<'_>, second: &Side<'_>, most: usize) -> Result<HopBlock> {
        let comparison = compare(first.record, second.record)?;
        let delays = first.samples.zip(second.samples).map(|(first, second)| {
            let mut delays = Delays::new(most);
            delays.add(first, second);
            delays
        });
        Ok(HopBlock { comparison, delays })
    }
}

/// All blocks of a hop.
#[derive(Clone, Debug)]
pub struct HopTotal {
    /// Packets at the first point.
    pub sent: u64,
    /// Packets at the second.
    pub received: u64,
    /// Packets fewer at the second, summed over blocks.
    pub lost: u64,
    /// Packets more at the second (duplicates), summed over blocks. Within a block they offset lost ones.
    pub gained: u64,
    /// Delays of selected packets.
    pub delays: Delays,
    /// Whether a block has counts but no delays, because a point could not keep everything it selected.
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
        // As many packets as the mean delay is of.
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

    /// The mean delay of all packets, where times of all were kept, in nanoseconds: the blocks' means
    /// weighted by their packets. Only blocks with lost packets make it uncertain.
    pub fn mean_of_all(&self) -> Option<Estimate> {
        let (sum, packets) = self.all.filter(|(_, packets)| *packets > 0)?;
        Some(sum.times(1.0 / packets as f64))
    }

    /// The mean one-way jitter as the source defines it ([`Comparison::owaj`]), weighted by packets.
    pub fn spacing(&self) -> Option<f64> {
        let (sum, packets) = self.spacing.filter(|(_, packets)| *packets > 0)?;
        Some(sum / packets as f64)
    }
}

/// One block on a path.
#[derive(Clone, Debug)]
pub struct WayBlock {
    /// Its number.
    pub block: u64,
    /// Its flaws at any point.
    pub completeness: Completeness,
    /// The hops, from point to point.
    pub hops: Vec<HopBlock>,
    /// The whole path, from the first point to the last.
    pub whole: HopBlock,
}

/// All blocks of a path.
#[derive(Clone, Debug)]
pub struct WayTotal {
    most: usize,
    /// Blocks in the sums.
    pub blocks: u64,
    /// Blocks left out because of flaws.
    pub incomplete: u64,
    /// The flaws of these.
    pub against: Completeness,
    /// The hops, from point to point.
    pub hops: Vec<HopTotal>,
    /// The whole path, from the first point to the last.
    pub whole: HopTotal,
}

impl WayTotal {
    /// A path of this many points, with room for this many delays of each hop.
    pub fn new(points: usize, most: usize) -> WayTotal {
        let hops = (1..points).map(|_| HopTotal::new(most)).collect();
        let (blocks, against) = (0, Completeness::default());
        WayTotal { most, blocks, incomplete: 0, against, hops, whole: HopTotal::new(most) }
    }

    /// Adds a block, with all points in order, and returns its own figures.
    ///
    /// # Errors
    ///
    /// Records of different blocks, or not one for each point of at least two.
    pub fn add(&mut self, points: &[Side<'_>]) -> Result<WayBlock> {
        self.add_with(points, Completeness::default())
    }

    /// The same for a block with these flaws, besides those of its records.
    ///
    /// # Errors
    ///
    /// As [`WayTotal::add`].
    pub fn add_with(&mut self, points: &[Side<'_>], flaws: Completeness) -> Result<WayBlock> {
        let [first, .., last] = points else { return Err(Error::Points(points.len())) };
        if points.len() != self.hops.len() + 1 {
            return Err(Error::Points(points.len()));
        }
        let pairs = || points.iter().zip(points.iter().skip(1));
        // Before any sum, so that a block with an error changes none.
        let hops = pairs().map(|(a, b)| HopBlock::of(a, b, self.most)).collect::<Result<_>>()?;
        let block = WayBlock {
            block: first.record.block,
            completeness: points.iter().fold(flaws, |all, side| all.or(side.record.completeness)),
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
mod tests;
