//! Slots in a row, taken by hash: the first taker gets the slot it hashes to, a later one that
//! finds it taken gets the next free one.
//!
//! Invariant: a taker's slot depends only on the takers before it, so one more at
//! the end changes no slot.

use std::collections::{BTreeMap, HashSet};

/// A row of `count` slots, some taken, some barred for all.
pub(crate) struct Slots {
    count: u64,
    taken: HashSet<u64>,
    /// Barred ranges: the last slot by the first one. They are never adjacent.
    barred: BTreeMap<u64, u64>,
    /// No slot is left.
    full: bool,
}

impl Slots {
    pub(crate) fn new(count: u64) -> Self {
        Slots { count, taken: HashSet::new(), barred: BTreeMap::new(), full: count == 0 }
    }

    /// Bars the slots from `first` to `last`.
    pub(crate) fn bar(&mut self, mut first: u64, mut last: u64) {
        // Merged with adjacent ranges, which are the last ones up to its end.
        while let Some((other, end)) = self.barred.range(..=last.saturating_add(1)).next_back()
            && *end >= first.saturating_sub(1)
        {
            (first, last) = (first.min(*other), last.max(*end));
            let other = *other;
            self.barred.remove(&other);
        }
        self.barred.insert(first, last);
    }

    /// Takes the first free slot from that of the hash on; `None` when all are taken.
    pub(crate) fn take(&mut self, hash: u64) -> Option<u64> {
        if self.full {
            return None;
        }
        let mut at = hash.checked_rem(self.count)?;
        // One round meets each taken slot once, each barred range at most twice.
        for _ in 0..=self.taken.len() + 2 * self.barred.len() {
            match self.obstacle(at) {
                None => {
                    self.taken.insert(at);
                    return Some(at);
                }
                // The row is a circle: slots before the wish are as good as those after it.
                Some(last) if last.saturating_add(1) >= self.count => at = 0,
                Some(last) => at = last + 1,
            }
        }
        self.full = true;
        None
    }

    /// The last slot of the obstacle at this one.
    fn obstacle(&self, at: u64) -> Option<u64> {
        let before = self.barred.range(..=at).next_back().map(|(_, last)| *last);
        let barred = before.filter(|last| *last >= at);
        barred.or_else(|| self.taken.contains(&at).then_some(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_later_goes_to_the_next_free_place() {
        let mut slots = Slots::new(4);
        assert_eq!(slots.take(6), Some(2));
        assert_eq!(slots.take(2), Some(3));
        assert_eq!(slots.take(2), Some(0));
        assert_eq!(slots.take(0), Some(1));
        assert_eq!(slots.take(0), None);
    }

    #[test]
    fn barred_ranges_are_stepped_over_at_once() {
        let mut slots = Slots::new(1 << 40);
        slots.bar(5, (1 << 40) - 1);
        assert_eq!(slots.take(7), Some(0));
        assert_eq!(slots.take(1 << 39), Some(1));
        let mut full = Slots::new(8);
        full.bar(3, 7);
        full.bar(0, 4);
        assert_eq!(full.take(4), None);
        assert!(full.full);
        assert_eq!(Slots::new(0).take(1), None);
    }

    #[test]
    fn barred_ranges_are_joined() {
        let mut slots = Slots::new(100);
        for (first, last) in [(10, 20), (40, 50), (21, 22), (30, 35), (45, 60), (18, 40), (0, 0)] {
            slots.bar(first, last);
        }
        assert_eq!(slots.barred.into_iter().collect::<Vec<_>>(), [(0, 0), (10, 60)]);
    }
}
