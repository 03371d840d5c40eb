//! Student's t distribution, as far as 95 % intervals need it.
//!
//! A table covers few degrees of freedom, as for the mean of a handful of rounds. Beyond it, the
//! Cornish-Fisher expansion about the normal quantile (Abramowitz and Stegun, 26.7.5) has an
//! error below 1e-6.

/// Quantiles at 0.975 for 1 to 30 degrees of freedom (Abramowitz and Stegun, table 26.10; NIST/
/// SEMATECH e-Handbook of Statistical Methods, 1.3.6.7.2).
const TABLE: [f64; 30] = [
    12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281, 2.2010,
    2.1788, 2.1604, 2.1448, 2.1314, 2.1199, 2.1098, 2.1009, 2.0930, 2.0860, 2.0796, 2.0739, 2.0687,
    2.0639, 2.0595, 2.0555, 2.0518, 2.0484, 2.0452, 2.0423,
];

/// The normal distribution's quantile at 0.975.
const NORMAL_975: f64 = 1.959_963_984_540_054;

/// The value that Student's t stays below with probability 0.975, so that ± it covers 95 %.
/// Infinite for no degree of freedom.
pub fn t_quantile_975(degrees_of_freedom: usize) -> f64 {
    match degrees_of_freedom.checked_sub(1) {
        None => f64::INFINITY,
        Some(row) => TABLE.get(row).copied().unwrap_or_else(|| expansion(degrees_of_freedom)),
    }
}

/// The first four terms of A&S 26.7.5.
fn expansion(degrees_of_freedom: usize) -> f64 {
    // Exact below 2^53.
    let n = degrees_of_freedom as f64;
    let x = NORMAL_975;
    let odd =
        |coefficients: &[f64]| coefficients.iter().rev().fold(0.0, |sum, c| sum * x * x + c) * x;
    let g1 = odd(&[1.0, 1.0]) / 4.0;
    let g2 = odd(&[3.0, 16.0, 5.0]) / 96.0;
    let g3 = odd(&[-15.0, 17.0, 19.0, 3.0]) / 384.0;
    let g4 = odd(&[-945.0, -1920.0, 1482.0, 776.0, 79.0]) / 92_160.0;
    x + g1 / n + g2 / n.powi(2) + g3 / n.powi(3) + g4 / n.powi(4)
}

/// The probability that a normal variable is below `x` (Abramowitz and Stegun, 7.1.26; error below 1e-7).
pub(crate) fn normal_cdf(x: f64) -> f64 {
    let coefficients =
        [0.254_829_592, -0.284_496_736, 1.421_413_741, -1.453_152_027, 1.061_405_429];
    let size = x.abs() / std::f64::consts::SQRT_2;
    let t = 1.0 / (1.0 + 0.327_591_1 * size);
    let sum = coefficients.iter().rev().fold(0.0, |sum, c| sum * t + c) * t;
    let above = sum * (-size * size).exp() / 2.0;
    if x < 0.0 { above } else { 1.0 - above }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_the_published_ones() {
        for (n, t) in [(1, 12.706), (2, 4.303), (4, 2.776), (9, 2.262), (29, 2.045)] {
            assert!((t_quantile_975(n) - t).abs() < 6e-4, "{n}");
        }
        for (n, t) in [(40, 2.0211), (60, 2.0003), (100, 1.9840), (120, 1.9799), (1_000_000, 1.96)]
        {
            assert!((t_quantile_975(n) - t).abs() < 6e-5, "{n}: {}", t_quantile_975(n));
        }
        assert_eq!(t_quantile_975(0), f64::INFINITY);
    }

    #[test]
    fn table_and_expansion_meet() {
        for n in 10..=30 {
            assert!((expansion(n) - t_quantile_975(n)).abs() < 1e-4, "{n}");
        }
        assert!((2..200).all(|n| t_quantile_975(n) < t_quantile_975(n - 1)));
    }

    #[test]
    fn the_normal_distribution_is_the_published_one() {
        for (x, below) in [(0.0, 0.5), (1.0, 0.841_345), (-1.959_964, 0.025), (-3.0, 0.001_350)] {
            assert!((normal_cdf(x) - below).abs() < 1e-6, "{x}: {}", normal_cdf(x));
        }
        assert!(normal_cdf(-18.0) < 1e-30);
    }
}
