//! Rounds of an experiment with many short cells: at least five, then until every figure's interval is within
//! 10 % of the figure, or the time is up.

use std::time::{Duration, Instant};

use anyhow::Result;

use crate::Report;
use crate::report::FEWEST;

/// A median needs one round more than a mean; no figure needs more than this for an interval.
const FEWEST_OF_MEDIANS: usize = FEWEST + 1;

/// Runs `round` with its number on `results`, until `figures` gives only narrow intervals or `time` would be
/// exceeded. The fewest rounds that have an interval are run in any case.
pub(crate) fn rounds<R>(
    time: Duration,
    results: &mut R,
    mut round: impl FnMut(usize, &mut R) -> Result<()>,
    figures: impl Fn(&R, &mut Report),
) -> Result<()> {
    let start = Instant::now();
    for number in 0.. {
        if number >= FEWEST {
            let mut report = Report::default();
            figures(results, &mut report);
            let needed = number < FEWEST_OF_MEDIANS && report.lacks_intervals();
            let each = start.elapsed().checked_div(u32::try_from(number)?).unwrap_or_default();
            if report.is_settled() || !needed && start.elapsed() + each > time {
                break;
            }
        }
        round(number, results)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(time: Duration, sample: fn(usize) -> f64, median: bool) -> usize {
        let mut all = vec![];
        let round = |number: usize, all: &mut Vec<f64>| {
            assert_eq!(number, all.len());
            all.push(sample(number));
            Ok(())
        };
        let figures = |all: &Vec<f64>, report: &mut Report| match median {
            true => report.median("figure", all),
            false => report.value("figure", all),
        };
        rounds(time, &mut all, round, figures).unwrap();
        all.len()
    }

    #[test]
    fn five_rounds_are_enough_where_they_agree() {
        assert_eq!(count(Duration::from_secs(60), |_| 1.0, false), 5);
        assert_eq!(count(Duration::ZERO, |number| number as f64, false), 5);
    }

    #[test]
    fn a_median_gets_the_rounds_of_its_interval() {
        assert_eq!(count(Duration::ZERO, |number| number as f64, true), 6);
        assert_eq!(count(Duration::from_secs(60), |_| 1.0, true), 6);
    }

    #[test]
    fn rounds_go_on_until_the_interval_is_narrow() {
        // From 10 on samples are 1: the spread of the first shrinks with the number of rounds.
        let sample = |number: usize| if number < 10 { (number % 2) as f64 + 0.5 } else { 1.0 };
        let count = count(Duration::from_secs(60), sample, false);
        assert!((11..60).contains(&count), "{count}");
    }

    #[test]
    fn a_failed_round_ends_them() {
        let failed = rounds(Duration::ZERO, &mut (), |_, ()| anyhow::bail!("broken"), |(), _| ());
        assert!(failed.is_err());
    }
}
