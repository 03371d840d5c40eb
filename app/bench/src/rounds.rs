//! Rounds of an experiment with many short cells: as many as fit into a time, but at least three.

use std::time::{Duration, Instant};

use anyhow::Result;

/// Smallest meaningful number of rounds.
const LEAST: usize = 3;

/// Runs `round` with its number, `most` times or while `time` lasts, whichever is less.
pub(crate) fn rounds(
    most: usize,
    time: Duration,
    mut round: impl FnMut(usize) -> Result<()>,
) -> Result<()> {
    let start = Instant::now();
    for number in 0..most {
        let each = start.elapsed().checked_div(u32::try_from(number)?).unwrap_or_default();
        if number >= LEAST && start.elapsed() + each > time {
            break;
        }
        round(number)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_rounds_at_least_and_not_more_than_fit() {
        let count = |most, time| {
            let mut count = 0;
            rounds(most, time, |number| {
                assert_eq!(number, count);
                count += 1;
                Ok(())
            })
            .unwrap();
            count
        };
        assert_eq!(count(10, Duration::ZERO), 3);
        assert_eq!(count(10, Duration::from_secs(60)), 10);
        assert!(rounds(5, Duration::ZERO, |_| anyhow::bail!("broken")).is_err());
    }
}
