//! Load feedback: a budget that follows what a node keeps up with.
//!
//! While a node reads what it receives, nothing bounds it. When its stack drops for its programs what it has
//! received, the node has spent its share of the CPU for nothing; the budget then becomes a little less than what
//! it did read. From there it grows slowly, so that it follows when the share grows. Pure: readings are arguments.

use std::time::{Duration, Instant};

/// How often readings are taken.
pub(super) const LOOK: Duration = Duration::from_millis(250);
/// The smallest budget, in frames a second: senders that share it must have something left.
pub(super) const LEAST: f64 = 10_000.0;
/// A budget above this bounds nothing any more.
const MOST: f64 = 4_000_000.0;
/// The part of what was read that the next budget is.
const PART: f64 = 0.8;
/// Growth in a second.
const GROWTH: f64 = 1.05;
/// Growth in a second once nothing has been wasted for [`CALM`].
const FAST: f64 = 2.0;
const CALM: Duration = Duration::from_secs(10);
/// Waste below this part of what came, or this many a second, is none.
const NONE: (f64, f64) = (0.02, 50.0);

/// A budget that follows, and what is known of it.
#[derive(Debug, Default)]
pub(super) struct Followed {
    pub(super) follower: Follower,
    /// Frames that passed in all, when it was last looked at,
    pub(super) passed: u64,
    /// and when that was.
    pub(super) at: Option<Instant>,
    /// The last setting; none yet by this process.
    pub(super) set: Option<Option<u64>>,
}

impl Followed {
    /// Frames a second now; `None`: not bounded.
    pub(super) fn budget(&self) -> Option<u64> {
        self.follower.budget()
    }
}

/// Totals at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Reading {
    /// Frames that the budget let through.
    pub(super) passed: u64,
    /// Datagrams that were received for nothing.
    pub(super) wasted: u64,
}

/// A budget and what it was set by.
#[derive(Clone, Debug, Default)]
pub(super) struct Follower {
    last: Option<Reading>,
    /// Frames a second; `None`: nothing is bounded.
    budget: Option<f64>,
    calm: Duration,
}

impl Follower {
    /// The budget now, in frames a second.
    pub(super) fn budget(&self) -> Option<u64> {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "positive and below 2^53"
        )]
        self.budget.map(|frames| frames as u64)
    }

    /// So little came in a time that nothing can be said.
    pub(super) fn rest(&mut self, time: Duration) -> Option<u64> {
        // After a rest the next reading has nothing to compare with.
        self.last = None;
        self.grow(time);
        self.budget()
    }

    fn grow(&mut self, time: Duration) {
        let Some(budget) = self.budget else { return };
        self.calm += time;
        // Slowly at first: growth finds the limit again, and each time some frames are wasted.
        let growth = if self.calm < CALM { GROWTH } else { FAST };
        let grown = budget * f64::powf(growth, time.as_secs_f64());
        self.budget = (grown < MOST).then_some(grown);
    }

    /// Takes a reading, so long after the last. `most` is how many times what passed may have been wasted for it
    /// to be the cause: a super-frame is many datagrams.
    pub(super) fn look(&mut self, now: Reading, time: Duration, most: f64) -> Option<u64> {
        let before = self.last.replace(now);
        // A first reading gives no rate.
        let Some(before) = before.filter(|_| !time.is_zero()) else { return self.budget() };
        let rate = |now: u64, before: u64| {
            #[expect(clippy::cast_precision_loss, reason = "counts of seconds are below 2^53")]
            let count = now.saturating_sub(before) as f64;
            count / time.as_secs_f64()
        };
        let (came, wasted) = (rate(now.passed, before.passed), rate(now.wasted, before.wasted));
        // More wasted than can have come: something else filled the queues.
        let waste = wasted > NONE.1 && wasted > NONE.0 * came && wasted <= most * came;
        if waste {
            let kept = (PART * (came - wasted)).max(LEAST);
            // Waste never raises a budget that is lower already.
            self.budget = Some(self.budget.map_or(kept, |budget| budget.min(kept)));
            self.calm = Duration::ZERO;
        } else {
            self.grow(time);
        }
        self.budget()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A node that reads at most this many a second, and a flood: what the follower lets through in each second.
    fn flooded(reads: u64, flood: u64, seconds: u64) -> (Follower, Vec<u64>) {
        let (mut follower, mut total, mut passed) =
            (Follower::default(), Reading::default(), vec![]);
        follower.look(total, LOOK, 1.0);
        for _ in 0..seconds {
            let mut second = 0;
            for _ in 0..4 {
                let comes = follower.budget().map_or(flood, |budget| budget.min(flood)) / 4;
                total.passed += comes;
                total.wasted += comes.saturating_sub(reads / 4);
                second += comes;
                follower.look(total, LOOK, 1.0);
            }
            passed.push(second);
        }
        (follower, passed)
    }

    #[test]
    fn a_node_that_keeps_up_is_not_bounded() {
        assert_eq!(flooded(500_000, 300_000, 5).0.budget(), None);
    }

    #[test]
    fn the_budget_comes_near_to_what_is_read() {
        let (follower, passed) = flooded(60_000, 600_000, 30);
        let budget = follower.budget().unwrap();
        assert!((40_000..=64_000).contains(&budget), "{budget}");
        // Little is wasted once it is found.
        assert!(passed[1..].iter().all(|second| *second < 66_000), "{passed:?}");
    }

    #[test]
    fn a_node_that_reads_nothing_keeps_the_least() {
        let (follower, _) = flooded(0, 600_000, 3);
        let budget = follower.budget().unwrap();
        assert!((10_000..11_000).contains(&budget), "{budget}");
    }

    #[test]
    fn it_ends_when_nothing_is_wasted_any_more() {
        let (mut follower, _) = flooded(20_000, 600_000, 3);
        let mut reading = follower.last.unwrap();
        for _ in 0..120 {
            reading.passed += 10;
            follower.look(reading, LOOK, 1.0);
        }
        assert_eq!(follower.budget(), None);
    }

    #[test]
    fn what_others_caused_does_not_count() {
        let mut follower = Follower::default();
        follower.look(Reading::default(), LOOK, 1.0);
        follower.look(Reading { passed: 1000, wasted: 50_000 }, LOOK, 1.0);
        assert_eq!(follower.budget(), None);
        follower.look(Reading { passed: 2000, wasted: 80_000 }, LOOK, 64.0);
        assert_eq!(follower.budget(), Some(10_000));
        // Totals that restarted do not count as waste.
        follower.look(Reading::default(), LOOK, 64.0);
        assert!(follower.budget() > Some(10_000));
    }
}
