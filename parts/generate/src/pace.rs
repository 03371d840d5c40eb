//! When frames that are made really go: as scheduled, or after an interruption with the schedule's gaps.
//!
//! A sender that was interrupted could send all that was due meanwhile at once. That is a burst that
//! nobody asked for, and queues behind it lose frames for the sender's fault. So the plan is moved by what
//! was lost, and gaps are shorter by a twentieth until that is made up: the rate holds over time, the gaps
//! hold at any time. Both are told: how far frames were from the plan, and how far behind the schedule.
//! Invariant: a frame is never planned before it is due, and never closer to the one before than 19/20 of
//! their gap.

use netloom_traffic::Histogram;

/// More than this, in nanoseconds, is an interruption: the plan moves.
pub(crate) const TOLERANCE: u64 = 1000;
/// Which part of a gap is given up to make up for what was lost.
const PART: u64 = 20;

/// The plan.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// When the frame before was due.
    due: u64,
    /// By how much the plan is behind the schedule.
    moved: u64,
    /// How far behind the schedule each frame left.
    pub(crate) behind: Histogram,
}

impl Pace {
    /// When a frame that is due at a time is to go.
    #[inline]
    pub(crate) fn plan(&mut self, due: u64) -> u64 {
        let gap = due.saturating_sub(self.due);
        self.due = due;
        self.moved -= self.moved.min(gap / PART);
        due.saturating_add(self.moved)
    }

    /// The frame last planned went so much later than planned.
    #[inline]
    pub(crate) fn went(&mut self, late: u64) {
        self.behind.add(self.moved.saturating_add(late));
        if late > TOLERANCE {
            self.moved = self.moved.saturating_add(late);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GAP: u64 = 10_000;

    #[test]
    fn what_was_lost_is_made_up_without_a_burst() {
        let mut pace = Pace::default();
        assert_eq!([0, GAP].map(|due| pace.plan(due)), [0, GAP]);
        // Four gaps are lost.
        pace.went(4 * GAP);
        let plans: Vec<u64> = (2..=90)
            .map(|n| {
                let plan = pace.plan(n * GAP);
                pace.went(0);
                plan
            })
            .collect();
        assert_eq!(plans[0], 2 * GAP + 4 * GAP - GAP / 20);
        assert!(plans.windows(2).all(|pair| pair[1] - pair[0] >= GAP - GAP / 20));
        // 80 gaps later it is as if nothing had been.
        assert!(plans[78] > 80 * GAP && plans[79] == 81 * GAP && plans[88] == 90 * GAP);
        assert_eq!(pace.behind.most(), 4 * GAP);
    }

    #[test]
    fn a_little_late_moves_nothing() {
        let mut pace = Pace::default();
        pace.plan(0);
        pace.went(TOLERANCE);
        assert_eq!(pace.plan(GAP), GAP);
    }

    proptest! {
        #[test]
        fn never_early_and_never_closer(
            frames in proptest::collection::vec((0_u64..1 << 30, 0_u64..1 << 24), 1..200)
        ) {
            let mut pace = Pace::default();
            let (mut due, mut went) = (0, None);
            for (gap, late) in frames {
                due += gap;
                let plan = pace.plan(due);
                prop_assert!(plan >= due);
                if let Some(went) = went {
                    // What is within the tolerance moves nothing.
                    prop_assert!(plan + TOLERANCE >= went + gap - gap / PART);
                }
                pace.went(late);
                went = Some(plan + late);
            }
        }
    }
}
