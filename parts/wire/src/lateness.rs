//! Lateness of delivered frames: count, mean, maximum and a histogram.
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
}
