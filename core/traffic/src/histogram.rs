//! Times counted in buckets whose width is 1/128 of their value: percentiles of any number of samples in
//! constant memory.
//!
//! Values below 256 have a bucket each. A percentile is the upper end of its bucket, so it is never below
//! the sample and at most 1/128 above; minimum, maximum and mean are exact.

/// Log2 of the buckets for each power of two.
const BITS: u32 = 7;
const PER_POWER: usize = 1 << BITS;
/// Buckets for 64-bit values: those below `PER_POWER`, then the powers.
const BUCKETS: usize = (64 - BITS as usize + 1) * PER_POWER;

/// Samples, in buckets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    /// Allocated with the first sample.
    buckets: Vec<u64>,
    count: u64,
    sum: u128,
    least: u64,
    most: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram { buckets: Vec::new(), count: 0, sum: 0, least: u64::MAX, most: 0 }
    }
}

/// The bucket of a value.
fn bucket(value: u64) -> usize {
    // Zero has no logarithm.
    let power = (value | 1).ilog2().saturating_sub(BITS);
    let within = usize::try_from(value >> power).unwrap_or(0);
    power as usize * PER_POWER + within
}

/// The highest value of a bucket.
fn upper(bucket: usize) -> u64 {
    let power = (bucket / PER_POWER).saturating_sub(1);
    let within = u128::try_from(bucket - power * PER_POWER).unwrap_or(0);
    // The end of the last bucket needs 2^64 on the way.
    u64::try_from(((within + 1) << power) - 1).unwrap_or(u64::MAX)
}

impl Histogram {
    /// Counts a sample.
    #[inline]
    pub fn add(&mut self, value: u64) {
        // A histogram of nothing takes no memory.
        if self.buckets.is_empty() {
            self.buckets = vec![0; BUCKETS];
        }
        if let Some(count) = self.buckets.get_mut(bucket(value)) {
            *count += 1;
        }
        self.count += 1;
        self.sum += u128::from(value);
        self.least = self.least.min(value);
        self.most = self.most.max(value);
    }

    /// Adds all samples of another histogram.
    pub fn merge(&mut self, other: &Histogram) {
        if other.count == 0 {
            return;
        }
        if self.buckets.is_empty() {
            self.buckets = vec![0; BUCKETS];
        }
        for (own, more) in self.buckets.iter_mut().zip(&other.buckets) {
            *own += more;
        }
        self.count += other.count;
        self.sum += other.sum;
        self.least = self.least.min(other.least);
        self.most = self.most.max(other.most);
    }

    /// Number of samples.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The smallest; 0 without samples.
    pub fn least(&self) -> u64 {
        if self.count == 0 { 0 } else { self.least }
    }

    /// The largest; 0 without samples.
    pub fn most(&self) -> u64 {
        self.most
    }

    /// The mean, rounded down; 0 without samples.
    pub fn mean(&self) -> u64 {
        let mean = self.sum.checked_div(u128::from(self.count)).unwrap_or(0);
        u64::try_from(mean).unwrap_or(u64::MAX)
    }

    /// The value that a share of samples, in parts per million, does not exceed (nearest rank);
    /// 0 without samples.
    pub fn percentile(&self, millionths: u32) -> u64 {
        // In 128 bits: count and millionths may be large together.
        let rank = u128::from(self.count) * u128::from(millionths.min(1_000_000));
        let rank = u64::try_from(rank.div_ceil(1_000_000)).unwrap_or(u64::MAX).max(1);
        let mut seen = 0;
        for (index, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= rank {
                // The end of a bucket may lie beyond the largest sample.
                return upper(index).clamp(self.least, self.most);
            }
        }
        self.most
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn percentiles_are_at_most_a_bucket_above(
            values in proptest::collection::vec(prop_oneof![any::<u64>(), 0_u64..100_000], 1..200),
            millionths in 0_u32..=1_000_000,
        ) {
            let mut histogram = Histogram::default();
            values.iter().for_each(|value| histogram.add(*value));
            let mut sorted = values.clone();
            sorted.sort_unstable();
            let rank = (sorted.len() * millionths as usize).div_ceil(1_000_000).max(1);
            let exact = sorted[rank - 1];
            let told = histogram.percentile(millionths);
            prop_assert!(exact <= told && told - exact <= exact / 128, "{exact} {told}");
            prop_assert_eq!(histogram.least(), sorted[0]);
            prop_assert_eq!(histogram.most(), sorted[sorted.len() - 1]);
            let sum: u128 = values.iter().map(|value| u128::from(*value)).sum();
            prop_assert_eq!(u128::from(histogram.mean()), sum / values.len() as u128);
        }

        #[test]
        fn merging_is_adding(a in proptest::collection::vec(any::<u64>(), 0..50),
                             b in proptest::collection::vec(any::<u64>(), 0..50)) {
            let of = |values: &[u64]| {
                let mut histogram = Histogram::default();
                values.iter().for_each(|value| histogram.add(*value));
                histogram
            };
            let mut merged = of(&a);
            merged.merge(&of(&b));
            prop_assert_eq!(merged, of(&[a, b].concat()));
        }
    }

    #[test]
    fn buckets_follow_on_one_another() {
        assert_eq!(
            (bucket(0), bucket(255), bucket(256), bucket(257), bucket(258)),
            (0, 255, 256, 256, 257)
        );
        assert_eq!(upper(256), 257);
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
        assert_eq!(upper(BUCKETS - 1), u64::MAX);
        assert_eq!(Histogram::default().percentile(500_000), 0);
    }
}
