//! One series: mean, spread, interval, percentiles.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::student::t_quantile_975;

/// Why samples give no statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StatsError {
    /// There are no samples.
    NoSamples,
    /// The sample of this index is infinite or not a number.
    NotFinite(usize),
    /// Two paired series differ in length.
    NotPaired {
        /// Samples of the first.
        ours: usize,
        /// Samples of the second.
        theirs: usize,
    },
    /// A ratio to a series whose mean, or whose resampled mean, is not positive.
    NotPositive,
}

impl fmt::Display for StatsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StatsError::NoSamples => write!(f, "no samples"),
            StatsError::NotFinite(index) => write!(f, "sample {index}: not a finite number"),
            StatsError::NotPaired { ours, theirs } => {
                write!(f, "series of {ours} and {theirs} samples: not in pairs")
            }
            StatsError::NotPositive => write!(f, "ratio to a series with a sample not above 0"),
        }
    }
}

impl std::error::Error for StatsError {}

/// Statistics of a series of samples.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Number of samples.
    pub n: usize,
    /// Arithmetic mean.
    pub mean: f64,
    /// Standard deviation of the sample (n - 1); 0 for a single one.
    pub sd: f64,
    /// Smallest.
    pub min: f64,
    /// Largest.
    pub max: f64,
    /// Middle one, or the mean of the two in the middle.
    pub median: f64,
    /// 95 % confidence interval of the mean by Student's t: low and high. A single sample gives no
    /// interval: both are the sample.
    pub ci95: [f64; 2],
}

impl Summary {
    /// Summarises a series.
    ///
    /// # Errors
    /// No samples, or one that is not finite.
    pub fn of(samples: &[f64]) -> Result<Self, StatsError> {
        let sorted = sorted(samples)?;
        let n = sorted.len();
        let mean = mean(samples);
        // Not from the sum of squares: a difference of large sums loses digits.
        let squares: f64 = samples.iter().map(|x| (x - mean).powi(2)).sum();
        let sd = if n > 1 { (squares / (n - 1) as f64).sqrt() } else { 0.0 };
        let half = if n > 1 { t_quantile_975(n - 1) * sd / (n as f64).sqrt() } else { 0.0 };
        Ok(Summary {
            n,
            mean,
            sd,
            min: sorted[0],
            max: sorted[n - 1],
            median: percentile_of_sorted(&sorted, 50.0),
            ci95: [mean - half, mean + half],
        })
    }
}

/// The value below which `percent` of the samples lie, interpolated linearly between ranks: the one
/// of rank `(n - 1) percent / 100` (type 7 of Hyndman and Fan, 1996). `percent` is clamped to 0..=100.
///
/// # Errors
/// No samples, or one that is not finite.
pub fn percentile(samples: &[f64], percent: f64) -> Result<f64, StatsError> {
    Ok(percentile_of_sorted(&sorted(samples)?, percent))
}

/// The mean of a series that is not empty.
pub(crate) fn mean(samples: &[f64]) -> f64 {
    samples.iter().sum::<f64>() / samples.len() as f64
}

/// Refuses an empty series and values that are not finite.
pub(crate) fn check(samples: &[f64]) -> Result<(), StatsError> {
    match samples.iter().position(|x| !x.is_finite()) {
        Some(index) => Err(StatsError::NotFinite(index)),
        None if samples.is_empty() => Err(StatsError::NoSamples),
        None => Ok(()),
    }
}

/// The samples in ascending order; refuses what [`check`] refuses.
pub(crate) fn sorted(samples: &[f64]) -> Result<Vec<f64>, StatsError> {
    check(samples)?;
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    Ok(sorted)
}

/// [`percentile`] of a series that is sorted and not empty.
pub(crate) fn percentile_of_sorted(sorted: &[f64], percent: f64) -> f64 {
    let last = sorted.len() - 1;
    let rank = last as f64 * (percent / 100.0).clamp(0.0, 1.0);
    // Within the series, because of the clamp; a NaN becomes 0.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let below = (rank.floor() as usize).min(last);
    let above = (below + 1).min(last);
    sorted[below] + (sorted[above] - sorted[below]) * (rank - below as f64).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-4
    }

    #[test]
    fn summary_is_that_by_hand() {
        // Mean 5, squares 9+1+1+1+0+0+4+16 = 32, sd = sqrt(32/7) = 2.13809, t(7) = 2.3646,
        // half = 2.3646 * 2.13809 / sqrt(8) = 1.78747.
        let summary = Summary::of(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]).unwrap();
        assert_eq!((summary.n, summary.mean, summary.median), (8, 5.0, 4.5));
        assert_eq!((summary.min, summary.max), (2.0, 9.0));
        assert!(near(summary.sd, 2.13809));
        assert!(near(summary.ci95[0], 5.0 - 1.78747) && near(summary.ci95[1], 5.0 + 1.78747));
    }

    #[test]
    fn one_sample_has_no_spread() {
        let summary = Summary::of(&[3.0]).unwrap();
        assert_eq!((summary.sd, summary.ci95), (0.0, [3.0, 3.0]));
    }

    #[test]
    fn percentiles_lie_between_ranks() {
        let samples = [40.0, 10.0, 30.0, 20.0];
        let at = |percent| percentile(&samples, percent).unwrap();
        assert_eq!((at(0.0), at(100.0), at(50.0)), (10.0, 40.0, 25.0));
        assert!(near(at(95.0), 38.5) && near(at(25.0), 17.5));
        assert_eq!((at(-5.0), at(300.0)), (10.0, 40.0));
        assert_eq!(percentile(&[7.0], 99.0), Ok(7.0));
    }

    #[test]
    fn samples_that_say_nothing_are_errors() {
        assert_eq!(Summary::of(&[]), Err(StatsError::NoSamples));
        assert_eq!(percentile(&[1.0, f64::NAN], 50.0), Err(StatsError::NotFinite(1)));
    }
}
