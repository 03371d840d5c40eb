//! Counters of engines.

/// An engine's counters since it was made, in frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Offered to it. Includes frames rejected by a filter only if those are counted.
    pub offered: u64,
    /// Of these, not wanted. 0 if the kernel rejects frames without counting them.
    pub filtered: u64,
    /// Of these, lost before they were taken.
    pub lost: u64,
}

impl std::ops::Add for Counts {
    type Output = Counts;

    fn add(self, other: Counts) -> Counts {
        Counts {
            offered: self.offered + other.offered,
            filtered: self.filtered + other.filtered,
            lost: self.lost + other.lost,
        }
    }
}
