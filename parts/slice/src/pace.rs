//! How much work a slice's part of a turn is: as many steps as take a fraction of a millisecond here and now.
//!
//! A step takes 50 ns on a fast machine, and twenty times as long in a build for tests. What one slice asks for is not to be
//! longer for that.

use netloom_slicing::Work;

/// Processor time that a part takes, in nanoseconds, about.
const PART: u64 = 500_000;

/// Steps of a part at least and at most.
const LEAST: u64 = 100;
const MOST: u64 = 8000;

/// The number of steps, as it was measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    steps: u64,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace { steps: 1000 }
    }
}

impl Pace {
    /// The work of a part.
    pub(crate) fn work(self) -> Work {
        Work::steps(self.steps)
    }

    /// An amount of work took this many nanoseconds. A small amount says nothing.
    pub(crate) fn took(&mut self, work: &Work, nanoseconds: u64) {
        let done = work.done();
        if 2 * done < self.steps || nanoseconds == 0 {
            return;
        }
        let fits = u128::from(done) * u128::from(PART) / u128::from(nanoseconds);
        let fits = u64::try_from(fits).unwrap_or(MOST).clamp(LEAST, MOST);
        // Steps are not all alike: it follows in some turns.
        self.steps = (3 * self.steps + fits) / 4;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After this many parts of steps of this duration.
    fn after(mut pace: Pace, parts: usize, nanoseconds: u64) -> Pace {
        for _ in 0..parts {
            let mut work = pace.work();
            work.spend(usize::try_from(pace.steps).unwrap());
            pace.took(&work, pace.steps * nanoseconds);
        }
        pace
    }

    #[test]
    fn a_part_takes_as_long_on_any_machine() {
        let slow = after(Pace::default(), 30, 1000);
        assert!((450..=550).contains(&slow.steps), "{slow:?}");
        assert!((7000..=MOST).contains(&after(slow, 30, 50).steps));
        assert!((LEAST..LEAST + 10).contains(&after(slow, 60, 1_000_000).steps));
        let mut pace = slow;
        pace.took(&Work::steps(5), 1_000_000);
        assert_eq!(pace.steps, slow.steps, "a little says nothing");
    }
}
