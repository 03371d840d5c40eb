//! What engines count.

/// What an engine has counted since it was made, in frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Shown to it. Those that a filter refused are among them only where they are counted.
    pub offered: u64,
    /// Of these, not wanted. 0 where the kernel refuses frames without counting them.
    pub filtered: u64,
    /// Of these, lost before they could be taken.
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
