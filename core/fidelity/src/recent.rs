//! Lateness of a direction over the last seconds, and since when it is behind.
//!
//! Two distributions of [`HALF_NS`] each, so that a frame costs one comparison more than without a window. Times are
//! monotonic, in ns, and given by the caller.

use serde::{Deserialize, Serialize};

use crate::{LATE_NS, Lateness};

/// Half of the window.
pub const HALF_NS: u64 = 5_000_000_000;

/// The window: figures are of the last 5 to 10 s.
pub const WINDOW_NS: u64 = 2 * HALF_NS;

/// A quantile that is told beside the maximum: of a hundred frames, 99 were at most this late.
pub const QUANTILE: (u64, u64) = (99, 100);

/// The lateness of frames, all together and over the last seconds.
#[derive(Clone, Debug, Default)]
pub struct Recent {
    /// What is older than the window.
    older: Lateness,
    /// The half before this one, and this one.
    halves: [Lateness; 2],
    /// When this half began.
    begun: u64,
    /// When the first and the last frame of a time with late frames left.
    spell: Option<(u64, u64)>,
}

/// What a window shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shown {
    /// Frames that left within the window.
    pub frames: u64,
    /// The largest lateness of them in ns, or that of a frame that is due and still held.
    pub max_ns: u64,
    /// How late the frame is that should leave first and has not, in ns.
    pub overdue_ns: u64,
    /// See [`QUANTILE`]; at most 25 % too large.
    pub p99_ns: u64,
    /// For how long frames have been at least [`LATE_NS`] late again and again, in ns, without a pause of [`WINDOW_NS`].
    pub behind_for_ns: Option<u64>,
}

impl Recent {
    /// A frame left at `now`, this much too late.
    pub fn add(&mut self, now: u64, late: u64) {
        if now.saturating_sub(self.begun) >= HALF_NS {
            self.turn(now);
        }
        self.halves[1].add(late);
        if late >= LATE_NS {
            self.late_at(now);
        }
    }

    /// All frames together.
    pub fn all(&self) -> Lateness {
        let mut all = self.older.clone();
        self.halves.iter().for_each(|half| all.merge(half));
        all
    }

    /// What the window shows at `now`; `due` is the time at which the first held frame should leave.
    pub fn show(&mut self, now: u64, due: Option<u64>) -> Shown {
        if now.saturating_sub(self.begun) >= HALF_NS {
            self.turn(now);
        }
        let overdue = due.map_or(0, |due| now.saturating_sub(due));
        if overdue >= LATE_NS {
            self.late_at(now);
        }
        let mut window = self.halves[0].clone();
        window.merge(&self.halves[1]);
        let spell = self.spell.filter(|(_, last)| now.saturating_sub(*last) < WINDOW_NS);
        Shown {
            frames: window.count,
            max_ns: window.max_ns.max(overdue),
            overdue_ns: overdue,
            p99_ns: window.quantile_ns(QUANTILE.0, QUANTILE.1),
            behind_for_ns: spell.map(|(first, _)| now.saturating_sub(first)),
        }
    }

    fn late_at(&mut self, now: u64) {
        self.spell = Some(match self.spell {
            Some((first, last)) if now.saturating_sub(last) < WINDOW_NS => (first, now),
            _ => (now, now),
        });
    }

    /// Begins another half.
    fn turn(&mut self, now: u64) {
        let [before, this] = std::mem::take(&mut self.halves);
        self.older.merge(&before);
        if now.saturating_sub(self.begun) >= WINDOW_NS {
            // Both are older than half of the window.
            self.older.merge(&this);
        } else {
            self.halves[0] = this;
        }
        self.begun = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn the_window_forgets_and_the_whole_does_not() {
        let mut recent = Recent::default();
        let start = 100 * SECOND;
        recent.add(start, 40_000_000);
        recent.add(start + SECOND, 1000);
        let shown = recent.show(start + 2 * SECOND, None);
        assert_eq!((shown.frames, shown.max_ns), (2, 40_000_000));
        assert_eq!(shown.behind_for_ns, Some(2 * SECOND));
        // Within the window whatever half it fell into.
        assert_eq!(recent.show(start + 5 * SECOND, None).max_ns, 40_000_000);
        let shown = recent.show(start + 10 * SECOND, None);
        assert_eq!(shown, Shown::default());
        assert_eq!((recent.all().count, recent.all().max_ns), (2, 40_000_000));
    }

    #[test]
    fn a_spell_goes_on_over_short_pauses_and_ends_after_a_window() {
        let mut recent = Recent::default();
        let start = 50 * SECOND;
        for second in [0, 4, 13] {
            recent.add(start + second * SECOND, LATE_NS);
        }
        let for_how_long = |recent: &mut Recent, second| {
            recent.show(start + second * SECOND, None).behind_for_ns.map(|ns| ns / SECOND)
        };
        assert_eq!(for_how_long(&mut recent, 14), Some(14));
        assert_eq!(for_how_long(&mut recent, 23), None);
        recent.add(start + 24 * SECOND, LATE_NS - 1);
        assert_eq!(for_how_long(&mut recent, 24), None, "not late enough");
        recent.add(start + 25 * SECOND, LATE_NS);
        assert_eq!(for_how_long(&mut recent, 27), Some(2), "another spell");
    }

    #[test]
    fn a_frame_that_does_not_leave_is_late_too() {
        let mut recent = Recent::default();
        let (now, due) = (9 * SECOND, 7 * SECOND);
        let shown = recent.show(now, Some(due));
        assert_eq!((shown.frames, shown.max_ns), (0, 2 * SECOND));
        assert_eq!(shown.behind_for_ns, Some(0));
        assert_eq!(recent.show(now, Some(now + 5)).max_ns, 0, "it is not due yet");
    }

    #[test]
    fn the_quantile_is_of_the_window() {
        let mut recent = Recent::default();
        let start = 70 * SECOND;
        (0..99).for_each(|_| recent.add(start, 1000));
        recent.add(start, 50_000_000);
        let shown = recent.show(start, None);
        assert!((1000..=1250).contains(&shown.p99_ns), "{}", shown.p99_ns);
        assert_eq!(shown.max_ns, 50_000_000);
    }
}
