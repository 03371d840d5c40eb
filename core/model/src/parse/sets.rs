//! Disjoint sets of numbers (union-find): which switches form one segment.

/// Joins numbers into sets.
pub(crate) struct Sets(Vec<usize>);

impl Sets {
    pub(crate) fn new(count: usize) -> Sets {
        Sets((0..count).collect())
    }

    /// The representative of the set of `x`.
    pub(crate) fn find(&mut self, mut x: usize) -> usize {
        while self.0[x] != x {
            self.0[x] = self.0[self.0[x]];
            x = self.0[x];
        }
        x
    }

    /// False if both were already in one set.
    pub(crate) fn join(&mut self, x: usize, y: usize) -> bool {
        let (x, y) = (self.find(x), self.find(y));
        self.0[x.max(y)] = x.min(y);
        x != y
    }
}
