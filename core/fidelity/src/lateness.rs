//! Lateness of frames: count, mean, maximum and a histogram.
//!
//! Buckets are a quarter of an octave wide, so a quantile is accurate to 25 %; bucket 0 is below
//! 128 ns. Constant memory; adding a value does not allocate.

use serde::{Deserialize, Serialize};

/// Buckets: four for each octave from 128 ns to about 9 s, and one below.
const BUCKETS: usize = 105;

/// Smallest value in ns outside bucket 0, as a power of two.
const FIRST: u32 = 7;

/// A distribution of times in ns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lateness {
    /// Number of values.
    pub count: u64,
    /// Their sum in ns.
    pub sum_ns: u64,
    /// The maximum in ns.
    pub max_ns: u64,
    buckets: Vec<u64>,
}

impl Default for Lateness {
    fn default() -> Self {
        Lateness { count: 0, sum_ns: 0, max_ns: 0, buckets: vec![0; BUCKETS] }
    }
}

impl Lateness {
    /// Adds a value.
    pub fn add(&mut self, ns: u64) {
        self.count += 1;
        self.sum_ns = self.sum_ns.saturating_add(ns);
        self.max_ns = self.max_ns.max(ns);
        if let Some(bucket) = self.buckets.get_mut(bucket_of(ns)) {
            *bucket += 1;
        }
    }

    /// The mean in ns; 0 without values.
    pub fn mean_ns(&self) -> u64 {
        self.sum_ns.checked_div(self.count).unwrap_or(0)
    }

    /// A value in ns that `numerator` out of `denominator` values do not exceed, at most 25 % too
    /// large; 0 without values.
    pub fn quantile_ns(&self, numerator: u64, denominator: u64) -> u64 {
        let wanted = u128::from(self.count) * u128::from(numerator);
        let mut seen = 0u128;
        for (index, count) in self.buckets.iter().enumerate() {
            seen += u128::from(*count);
            if *count > 0 && seen * u128::from(denominator) >= wanted {
                return upper(index).min(self.max_ns);
            }
        }
        self.max_ns
    }
}

impl Lateness {
    /// A distribution as it was told: by count of each bucket.
    pub fn of(sum_ns: u64, max_ns: u64, counts: &[u64]) -> Lateness {
        let mut buckets = vec![0; BUCKETS];
        for (index, count) in counts.iter().enumerate() {
            buckets[index.min(BUCKETS - 1)] += count;
        }
        let count = buckets.iter().sum();
        Lateness { count, sum_ns, max_ns, buckets }
    }

    /// The count of each bucket, without those behind the last that has any.
    pub fn counts(&self) -> &[u64] {
        let used = self.buckets.iter().rposition(|count| *count > 0).map_or(0, |last| last + 1);
        &self.buckets[..used]
    }

    /// Adds all values of another.
    pub fn merge(&mut self, other: &Lateness) {
        self.count += other.count;
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
        for (own, new) in self.buckets.iter_mut().zip(&other.buckets) {
            *own += new;
        }
    }

    /// The values that came after an earlier reading of the same; all of them if it was restarted since.
    ///
    /// The maximum is exact where it grew. Else it is that of the highest bucket with a new value, and at most 25 % too large.
    #[must_use]
    pub fn since(&self, earlier: &Lateness) -> Lateness {
        let restarted = earlier.count > self.count
            || self.buckets.iter().zip(&earlier.buckets).any(|(now, before)| now < before);
        if restarted {
            return self.clone();
        }
        let both = self.buckets.iter().zip(&earlier.buckets);
        let buckets: Vec<u64> = both.map(|(now, before)| now - before).collect();
        let max_ns = match buckets.iter().rposition(|count| *count > 0) {
            None => 0,
            Some(_) if self.max_ns > earlier.max_ns => self.max_ns,
            Some(highest) => upper(highest).min(self.max_ns),
        };
        let sum_ns = self.sum_ns.saturating_sub(earlier.sum_ns);
        Lateness { count: self.count - earlier.count, sum_ns, max_ns, buckets }
    }
}

fn bucket_of(ns: u64) -> usize {
    let octave = ns.max(1).ilog2();
    if octave < FIRST {
        return 0;
    }
    // The two bits below the highest one.
    let quarter = (ns >> (octave - 2)) & 3;
    let index = (octave - FIRST) * 4 + u32::try_from(quarter).unwrap_or(0) + 1;
    usize::try_from(index).unwrap_or(usize::MAX).min(BUCKETS - 1)
}

/// The largest value of a bucket.
fn upper(index: usize) -> u64 {
    let Some(above) = index.checked_sub(1) else { return (1 << FIRST) - 1 };
    let octave = u32::try_from(above / 4).unwrap_or(0) + FIRST;
    let quarter = u64::try_from(above % 4).unwrap_or(0);
    ((4 + quarter + 1) << (octave - 2)) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_in_the_bucket_whose_bounds_hold_it() {
        for ns in (0..2_000_000u64).step_by(37).chain((20..33).map(|b| (1u64 << b) - 1)) {
            let bucket = bucket_of(ns);
            assert!(ns <= upper(bucket), "{ns}");
            assert!(bucket == 0 || ns > upper(bucket - 1), "{ns}");
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles_are_within_a_quarter() {
        let mut lateness = Lateness::default();
        assert_eq!((lateness.quantile_ns(99, 100), lateness.mean_ns()), (0, 0));
        for us in 1..=1000u64 {
            lateness.add(us * 1000);
        }
        for percent in [1u64, 10, 50, 90, 99] {
            let exact = percent * 10_000;
            let told = lateness.quantile_ns(percent, 100);
            assert!(told >= exact && told <= exact + exact / 4, "{percent}: {told}");
        }
        assert_eq!(lateness.quantile_ns(1, 1), 1_000_000);
        assert_eq!(lateness.mean_ns(), 500_500);
    }

    #[test]
    fn what_is_told_is_read_again() {
        let mut lateness = Lateness::default();
        assert!(lateness.counts().is_empty());
        for ns in [3, 900, 70_000, 70_001, 12_000_000] {
            lateness.add(ns);
        }
        let read = Lateness::of(lateness.sum_ns, lateness.max_ns, lateness.counts());
        assert_eq!(read, lateness);
        // A version with more buckets: what is beyond ours is in our last.
        let longer = vec![1; BUCKETS + 7];
        assert_eq!(Lateness::of(0, 0, &longer).count, (BUCKETS + 7) as u64);
    }

    proptest::proptest! {
        #[test]
        fn a_difference_is_of_what_came_between(
            before in proptest::collection::vec(0u64..3_000_000_000, 0..40),
            after in proptest::collection::vec(0u64..3_000_000_000, 0..40),
        ) {
            let mut whole = Lateness::default();
            before.iter().for_each(|ns| whole.add(*ns));
            let earlier = whole.clone();
            after.iter().for_each(|ns| whole.add(*ns));
            let new = whole.since(&earlier);
            let (worst, sum) = (after.iter().max().copied().unwrap_or(0), after.iter().sum::<u64>());
            assert_eq!((new.count, new.sum_ns), (after.len() as u64, sum));
            assert!(new.max_ns >= worst, "{} {worst}", new.max_ns);
            assert!(new.max_ns <= worst + worst / 4 + 128, "{} {worst}", new.max_ns);
            let mut merged = earlier.clone();
            merged.merge(&new);
            assert_eq!(merged.counts(), whole.counts());
        }
    }

    #[test]
    fn one_that_restarted_is_all_new() {
        let mut old = Lateness::default();
        (0..5).for_each(|_| old.add(1000));
        let mut new = Lateness::default();
        (0..9).for_each(|_| new.add(50));
        assert_eq!(new.since(&old), new);
        assert_eq!(old.since(&old), Lateness::default());
    }
}
