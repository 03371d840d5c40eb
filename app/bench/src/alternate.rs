//! Statistics of rounds in which every candidate was measured once, in turn.

/// Mean and 95 % confidence interval of some rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Summary {
    pub(crate) mean: f64,
    pub(crate) ci95: [f64; 2],
    pub(crate) rounds: usize,
}

/// Two-sided 95 % quantiles of Student's t by degrees of freedom from 1 (any table of t).
const T95: &[f64] = &[
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];

impl Summary {
    /// Of the rounds themselves; `None` when there are none.
    pub(crate) fn of(rounds: &[f64]) -> Option<Summary> {
        let count = u32::try_from(rounds.len()).ok().filter(|count| *count > 0)?;
        let mean = rounds.iter().sum::<f64>() / f64::from(count);
        let squares: f64 = rounds.iter().map(|round| (round - mean).powi(2)).sum();
        let half = if count == 1 {
            0.0
        } else {
            let quantile = T95.get(rounds.len() - 2).copied().unwrap_or(1.96);
            quantile * (squares / f64::from(count - 1) / f64::from(count)).sqrt()
        };
        Some(Summary { mean, ci95: [mean - half, mean + half], rounds: rounds.len() })
    }

    /// Of ours by theirs, round by round: the geometric mean, so that noise favours neither side.
    pub(crate) fn of_ratios(ours: &[f64], theirs: &[f64]) -> Option<Summary> {
        let pairs = ours.iter().zip(theirs).filter(|(ours, theirs)| **ours > 0.0 && **theirs > 0.0);
        let logs = pairs.map(|(ours, theirs)| (ours / theirs).ln()).collect::<Vec<f64>>();
        let Summary { mean, ci95, rounds } = Summary::of(&logs)?;
        Some(Summary { mean: mean.exp(), ci95: ci95.map(f64::exp), rounds })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_students() {
        // Mean 3, standard deviation 1.5811, t(4) = 2.776: half width 1.963.
        let summary = Summary::of(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        assert!((summary.mean - 3.0).abs() < 1e-12);
        assert!((summary.ci95[1] - 4.963).abs() < 1e-3, "{summary:?}");
        assert_eq!(Summary::of(&[]), None);
    }

    #[test]
    fn ratios_are_taken_pair_by_pair() {
        let summary = Summary::of_ratios(&[1.0, 4.0], &[2.0, 2.0]).unwrap();
        assert!((summary.mean - 1.0).abs() < 1e-12, "twice and half make one: {summary:?}");
        assert!((summary.ci95[0] * summary.ci95[1] - 1.0).abs() < 1e-9, "{summary:?}");
    }
}
