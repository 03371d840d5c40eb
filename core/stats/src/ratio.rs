//! The ratio of a series to another that alternated with it.
//!
//! The interval is the expanded percentile bootstrap (Efron and Tibshirani, An Introduction to the
//! Bootstrap, 1993, chapter 13; Hesterberg, What Teachers Should Know About the Bootstrap, 2015, 5.3):
//! rounds are drawn with replacement, both series of a round together, so that disturbances common
//! to both cancel out. The plain percentile interval is too narrow for few rounds; the expanded one takes
//! percentiles further out, so that a mean of n rounds has the width of Student's t with n - 1 degrees.

use netloom_digest::splitmix::SplitMix64;
use serde::{Deserialize, Serialize};

use crate::student::{normal_cdf, t_quantile_975};
use crate::summary::{StatsError, check, mean, percentile_of_sorted};

/// Resamplings; the ends of the interval differ by less than their third digit between seeds.
const RESAMPLINGS: usize = 10_000;

/// Constant, so that equal samples give equal intervals.
const SEED: u64 = 0x6e65_746c_6f6f_6d21;

/// A ratio of means.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// Rounds.
    pub n: usize,
    /// Mean of ours divided by mean of theirs.
    pub ratio: f64,
    /// 95 % confidence interval: low and high.
    pub ci95: [f64; 2],
}

/// The ratio of the means of two series that alternated: `ours[i]` and `theirs[i]` are one round.
///
/// # Errors
/// No samples, one that is not finite, series of different lengths, or a sample of theirs that is
/// not above 0.
pub fn ratio_ci(ours: &[f64], theirs: &[f64]) -> Result<Ratio, StatsError> {
    check(ours)?;
    check(theirs)?;
    let n = ours.len();
    if n != theirs.len() {
        return Err(StatsError::NotPaired { ours: n, theirs: theirs.len() });
    }
    if theirs.iter().any(|x| *x <= 0.0) {
        return Err(StatsError::NotPositive);
    }
    let mut random = SplitMix64::new(SEED);
    let mut ratios: Vec<f64> =
        (0..RESAMPLINGS).map(|_| resampled(ours, theirs, &mut random)).collect();
    ratios.sort_by(f64::total_cmp);
    let outside = outside_percent(n);
    let ci95 = [outside, 100.0 - outside].map(|percent| percentile_of_sorted(&ratios, percent));
    Ok(Ratio { n, ratio: mean(ours) / mean(theirs), ci95 })
}

/// The percentage of resamplings on each side of the interval of `n` rounds; 2.5 for very many.
fn outside_percent(n: usize) -> f64 {
    match n.checked_sub(1) {
        None | Some(0) => 0.0,
        Some(degrees) => {
            let wider = (n as f64 / degrees as f64).sqrt();
            100.0 * normal_cdf(-wider * t_quantile_975(degrees))
        }
    }
}

/// The ratio over one resampling: as many rounds as there are, drawn with replacement.
fn resampled(ours: &[f64], theirs: &[f64], random: &mut SplitMix64) -> f64 {
    let mut sums = [0.0, 0.0];
    for _ in 0..ours.len() {
        let round = random.index(ours.len());
        sums[0] += ours[round];
        sums[1] += theirs[round];
    }
    // Above 0: each sample of theirs is.
    sums[0] / sums[1]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_disturbs_both_cancels_out() {
        let theirs = [1.0, 5.0, 2.0, 9.0, 3.0];
        let ours = theirs.map(|x| 2.0 * x);
        let ratio = ratio_ci(&ours, &theirs).unwrap();
        assert_eq!((ratio.n, ratio.ratio, ratio.ci95), (5, 2.0, [2.0, 2.0]));
    }

    #[test]
    fn interval_is_that_by_hand() {
        // Two rounds: means are 1, 1.5 or 2 with probability 1/4, 1/2, 1/4.
        let ratio = ratio_ci(&[1.0, 2.0], &[1.0, 1.0]).unwrap();
        assert_eq!((ratio.ratio, ratio.ci95), (1.5, [1.0, 2.0]));
    }

    #[test]
    fn interval_has_the_width_of_theory() {
        // 400 rounds of 1..=100 over 1: the mean's standard error is 28.866 / 20 = 1.4433.
        let ours: Vec<f64> = (0..400_u32).map(|i| f64::from(i % 100 + 1)).collect();
        let ratio = ratio_ci(&ours, &vec![1.0; 400]).unwrap();
        let half = 1.959_96 * 28.866 / 20.0;
        assert!((ratio.ci95[0] - (50.5 - half)).abs() < 0.15, "{ratio:?}");
        assert!((ratio.ci95[1] - (50.5 + half)).abs() < 0.15, "{ratio:?}");
        assert_eq!(ratio, ratio_ci(&ours, &vec![1.0; 400]).unwrap(), "same samples, same interval");
    }

    #[test]
    fn few_rounds_have_an_interval_as_wide_as_students() {
        // Five rounds of 1, 2, 3, 4, 5: mean 3, standard error sqrt(1 / 2), t(4) = 2.7764.
        let ratio = ratio_ci(&[1.0, 2.0, 3.0, 4.0, 5.0], &[1.0; 5]).unwrap();
        let half = 2.7764 * 0.5_f64.sqrt();
        assert!((ratio.ci95[0] - (3.0 - half)).abs() < 0.25, "{ratio:?}");
        assert!((ratio.ci95[1] - (3.0 + half)).abs() < 0.25, "{ratio:?}");
        assert!((outside_percent(5) - 0.0956).abs() < 1e-3, "{}", outside_percent(5));
        assert!((outside_percent(100_000) - 2.5).abs() < 1e-3);
    }

    #[test]
    fn series_that_do_not_belong_together_are_errors() {
        let unpaired = StatsError::NotPaired { ours: 2, theirs: 1 };
        assert_eq!(ratio_ci(&[1.0, 2.0], &[1.0]), Err(unpaired));
        assert_eq!(ratio_ci(&[1.0], &[0.0]), Err(StatsError::NotPositive));
        assert_eq!(ratio_ci(&[], &[]), Err(StatsError::NoSamples));
    }
}
