//! The confidence interval of a median, from ranks alone.
//!
//! The ends are order statistics, whose coverage follows from the binomial distribution whatever the samples'
//! distribution is, interpolated between neighbouring ranks to 95 % (Hettmansperger and Sheather, Confidence
//! Intervals Based on Interpolated Order Statistics, 1986). Five samples or fewer have no such interval: even
//! the smallest and the largest enclose the median with less than 95 %.

use crate::summary::{StatsError, sorted};

/// Confidence of the intervals.
const CONFIDENCE: f64 = 0.95;

/// The 95 % confidence interval of the median: low and high; `None` for five samples or fewer.
///
/// ```
/// use netloom_stats::median_ci;
///
/// assert_eq!(median_ci(&[1.0, 2.0, 3.0, 4.0, 5.0]), Ok(None));
/// let [low, high] = median_ci(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap().unwrap();
/// assert!(1.0 < low && low < 2.0 && 5.0 < high && high < 6.0);
/// ```
///
/// # Errors
/// No samples, or one that is not finite.
pub fn median_ci(samples: &[f64]) -> Result<Option<[f64; 2]>, StatsError> {
    let sorted = sorted(samples)?;
    let Some((depth, inward)) = depth(sorted.len()) else { return Ok(None) };
    let between = |outer: f64, inner: f64| outer + (inner - outer) * inward;
    let (first, last) = (depth - 1, sorted.len() - depth);
    Ok(Some([between(sorted[first], sorted[first + 1]), between(sorted[last], sorted[last - 1])]))
}

/// The rank of the interval's ends, counted from the outside, and how far to go towards the next rank.
fn depth(n: usize) -> Option<(usize, f64)> {
    let count = n as f64;
    // The logarithm of the probability that exactly `rank` of `n` samples are below the median.
    let mut exactly = -count * std::f64::consts::LN_2;
    let mut covered = 1.0 - 2.0 * exactly.exp();
    if covered < CONFIDENCE {
        return None;
    }
    for rank in 1..n / 2 + 1 {
        let at = rank as f64;
        // From the binomial coefficient before. In logarithms: 2^-n is 0 beyond 1,074 samples.
        exactly += ((count - at + 1.0) / at).ln();
        let next = covered - 2.0 * exactly.exp();
        if next < CONFIDENCE {
            let part = (covered - CONFIDENCE) / (covered - next);
            let inward = (count - at) * part / (at + (count - 2.0 * at) * part);
            return Some((rank, inward));
        }
        covered = next;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use netloom_digest::splitmix::SplitMix64;

    #[test]
    fn ranks_are_the_published_ones() {
        // Conover, Practical Nonparametric Statistics, table A3: the outermost ranks that cover 95 %.
        for (n, rank) in [(6, 1), (8, 1), (9, 2), (11, 2), (12, 3), (20, 6), (30, 10), (100, 40)] {
            assert_eq!(depth(n).map(|(depth, _)| depth), Some(rank), "{n}");
        }
        assert!((0..6).all(|n| depth(n).is_none()));
        assert!(
            (6..3000).all(|n| depth(n).is_some_and(|(_, inward)| (0.0..1.0).contains(&inward)))
        );
    }

    #[test]
    fn nineteen_of_twenty_intervals_hold_the_median() {
        let mut random = SplitMix64::new(7);
        for n in [6, 7, 10, 25] {
            let mut hits = 0_u32;
            for _ in 0..4000 {
                let samples: Vec<f64> = (0..n).map(|_| random.index(1_000_001) as f64).collect();
                let [low, high] = median_ci(&samples).unwrap().unwrap();
                hits += u32::from(low <= 500_000.0 && 500_000.0 <= high);
            }
            // The standard deviation of the share is 0.0034.
            assert!((f64::from(hits) / 4000.0 - 0.95).abs() < 0.015, "{n}: {hits}");
        }
    }

    #[test]
    fn one_wild_sample_moves_nothing() {
        let mut samples: Vec<f64> = (1..=12).map(f64::from).collect();
        let calm = median_ci(&samples).unwrap();
        samples[11] = 1e9;
        assert_eq!(median_ci(&samples).unwrap(), calm);
        assert_eq!(median_ci(&[]), Err(StatsError::NoSamples));
    }
}
