//! Whether to poll before sleeping, and for how long.
//!
//! Decides by the gaps between recent frames. Pure: time is an argument. Invariant: at most [`MOST`] per gap,
//! and not at all while the average gap is longer than that.

use std::time::Duration;

/// Longest poll for frames: about the cost of sleeping and waking.
pub(crate) const MOST: Duration = Duration::from_micros(20);

/// Cap for a measured gap, so that a pause is soon forgotten.
const LONG: Duration = Duration::from_micros(500);

/// The poll budget.
#[derive(Debug)]
pub(crate) struct Spin {
    /// Whether another CPU is available for others meanwhile.
    pays: bool,
    /// Average gap in ns; the latest gap weighs an eighth.
    average: u64,
}

impl Spin {
    pub(crate) fn new(processors: usize) -> Spin {
        Spin { pays: processors > 1, average: nanoseconds(LONG) }
    }

    /// Records the gap before frames came again.
    pub(crate) fn learn(&mut self, gap: Duration) {
        self.average = (self.average * 7 + nanoseconds(gap.min(LONG))) / 8;
    }

    /// How long to poll.
    pub(crate) fn budget(&self) -> Duration {
        if !self.pays || self.average > nanoseconds(MOST) {
            return Duration::ZERO;
        }
        Duration::from_nanos(self.average * 2).min(MOST)
    }
}

fn nanoseconds(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_looks_only_where_gaps_are_short() {
        let mut spin = Spin::new(2);
        assert_eq!(spin.budget(), Duration::ZERO);
        for _ in 0..64 {
            spin.learn(Duration::from_micros(4));
        }
        let budget = spin.budget();
        assert!(budget >= Duration::from_micros(8) && budget < Duration::from_micros(9));
        for _ in 0..64 {
            spin.learn(Duration::from_micros(15));
        }
        assert_eq!(spin.budget(), MOST);
        spin.learn(Duration::from_secs(100));
        assert_eq!(spin.budget(), Duration::ZERO);
        for _ in 0..32 {
            spin.learn(Duration::from_micros(4));
        }
        assert!(spin.budget() > Duration::ZERO, "a pause is forgotten");
    }

    #[test]
    fn it_never_looks_with_one_processor() {
        let mut spin = Spin::new(1);
        for _ in 0..64 {
            spin.learn(Duration::from_micros(1));
        }
        assert_eq!(spin.budget(), Duration::ZERO);
    }
}
