//! Held items, ordered by departure time.
//!
//! Times mostly rise, so most items go into a queue; those due before the queue's end go into a
//! heap. Items with equal times leave in order of arrival.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, VecDeque};

/// A held item.
#[derive(Clone, Copy, Debug)]
struct Entry<T> {
    at: u64,
    number: u64,
    item: T,
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<T> Eq for Entry<T> {}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Entry<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

/// A queue by time.
#[derive(Debug)]
pub(crate) struct Departures<T> {
    queue: VecDeque<Entry<T>>,
    early: BinaryHeap<Reverse<Entry<T>>>,
    next: u64,
}

impl<T> Default for Departures<T> {
    fn default() -> Self {
        Departures { queue: VecDeque::new(), early: BinaryHeap::new(), next: 0 }
    }
}

impl<T: Copy> Departures<T> {
    /// Adds an item that leaves at `at`.
    pub(crate) fn push(&mut self, at: u64, item: T) {
        let entry = Entry { at, number: self.next, item };
        self.next += 1;
        // Equal times may follow in the queue: arrival there is the order of numbers.
        if self.queue.back().is_none_or(|last| last.at <= at) {
            self.queue.push_back(entry);
        } else {
            self.early.push(Reverse(entry));
        }
    }

    /// The first item to leave, and its time.
    pub(crate) fn first(&self) -> Option<(u64, T)> {
        let early = self.early.peek().map(|Reverse(e)| e);
        let entry = match (self.queue.front(), early) {
            (Some(a), Some(b)) => a.min(b),
            (a, b) => a.or(b)?,
        };
        Some((entry.at, entry.item))
    }

    /// Removes the first item to leave.
    pub(crate) fn pop(&mut self) -> Option<T> {
        let early = self.early.peek().map(|Reverse(e)| e);
        let from_queue = match (self.queue.front(), early) {
            (Some(a), Some(b)) => a < b,
            (a, _) => a.is_some(),
        };
        if from_queue {
            self.queue.pop_front().map(|e| e.item)
        } else {
            self.early.pop().map(|Reverse(e)| e.item)
        }
    }

    /// Number of held items.
    pub(crate) fn len(&self) -> usize {
        self.queue.len() + self.early.len()
    }

    /// Whether nothing is held.
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.early.is_empty()
    }

    /// Frees memory if nothing is held.
    pub(crate) fn trim(&mut self) {
        if self.is_empty() {
            self.queue = VecDeque::new();
            self.early = BinaryHeap::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leave_by_time_then_by_order_of_coming() {
        let times = [5, 9, 9, 3, 9, 1, 12, 3, 5, 40, 12];
        let mut departures = Departures::default();
        for (index, at) in times.iter().enumerate() {
            departures.push(*at, index);
        }
        assert_eq!(departures.len(), times.len());
        let mut wanted: Vec<usize> = (0..times.len()).collect();
        wanted.sort_by_key(|i| times[*i]);
        let mut got = Vec::new();
        while let Some((at, index)) = departures.first() {
            assert_eq!(times[index], at);
            assert_eq!(departures.pop(), Some(index));
            got.push(index);
        }
        assert_eq!(got, wanted);
        assert!(departures.is_empty());
    }
}
