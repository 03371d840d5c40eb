//! Work, in steps: how much may be done before others have their turn.
//!
//! A step takes some 50 ns. Long work asks between its parts whether there is budget left, and continues from there
//! at its next turn.

/// Work that may be done, and that was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    most: u64,
    done: u64,
}

impl Work {
    /// This many steps, and what the last part takes beyond them.
    pub const fn steps(most: u64) -> Work {
        Work { most, done: 0 }
    }

    /// As much as there is.
    pub const fn all() -> Work {
        Work::steps(u64::MAX)
    }

    /// Something took this many steps.
    pub fn spend(&mut self, steps: usize) {
        self.done = self.done.saturating_add(u64::try_from(steps).unwrap_or(u64::MAX));
    }

    /// Whether more may be done.
    pub fn is_left(&self) -> bool {
        self.done < self.most
    }

    /// How many steps were done.
    pub fn done(&self) -> u64 {
        self.done
    }
}
