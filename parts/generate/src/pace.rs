//! Actual departure times: as scheduled, or after an interruption with the gaps of the schedule.
//!
//! An interrupted sender could send everything due at once. But nobody asked for such a burst, and queues
//! behind it would drop frames through the sender's fault. So the plan shifts by the lost time, and gaps
//! shrink to a tenth until it is recovered, which takes a ninth of the interruption: the error against the
//! schedule is little more than the interruption itself. Both are reported: each frame's distance from the
//! schedule and from the plan. Invariant: a frame is never planned before it is due, nor closer to its
//! predecessor than a tenth of their gap.

use netloom_traffic::Histogram;

/// A delay above this, in nanoseconds, is an interruption and shifts the plan.
pub(crate) const TOLERANCE: u64 = 1000;
/// Divisor of a gap: this fraction of it stays while lost time is recovered.
const KEPT: u64 = 10;

/// The plan.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// When the previous frame was due.
    due: u64,
    /// How far the plan lags the schedule.
    moved: u64,
    /// Lateness of each departure against the schedule.
    pub(crate) schedule: Histogram,
}

impl Pace {
    /// Planned departure of a frame due at this time.
    #[inline]
    pub(crate) fn plan(&mut self, due: u64) -> u64 {
        let gap = due.saturating_sub(self.due);
        self.due = due;
        self.moved -= self.moved.min(gap - gap / KEPT);
        due.saturating_add(self.moved)
    }

    /// Records how late the last planned frame departed.
    #[inline]
    pub(crate) fn went(&mut self, late: u64) {
        self.schedule.add(self.moved.saturating_add(late));
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
        // An interruption of four gaps.
        pace.went(4 * GAP);
        let plans: Vec<u64> = (2..=90)
            .map(|n| {
                let plan = pace.plan(n * GAP);
                pace.went(0);
                plan
            })
            .collect();
        assert_eq!(plans[0], 5 * GAP + GAP / 10);
        assert!(plans.windows(2).all(|pair| pair[1] - pair[0] >= GAP / 10));
        // Five gaps after it the lag is fully recovered.
        assert!(plans[3] > 5 * GAP && plans[4] == 6 * GAP && plans[88] == 90 * GAP);
        assert_eq!(pace.schedule.most(), 4 * GAP);
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
                    // A delay within the tolerance shifts nothing.
                    prop_assert!(plan + TOLERANCE >= went + gap / KEPT);
                }
                pace.went(late);
                went = Some(plan + late);
            }
        }
    }
}
