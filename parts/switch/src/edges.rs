//! The switch's record of edges: which ports send directly to which.
//!
//! It serves to notify the right ports when one leaves, and for display. It plays no part in the traffic.

use std::collections::{BTreeMap, BTreeSet};

/// An edge, as the numbers of its sender and receiver.
pub(crate) type Ends = (u8, u8);

/// All edges between ports.
#[derive(Debug, Default)]
pub(crate) struct Edges {
    /// Bytes of each edge's ring; 0 for an edge from an earlier process of the switch.
    all: BTreeMap<Ends, u64>,
}

impl Edges {
    pub(crate) fn add(&mut self, ends: Ends, bytes: u64) {
        self.all.insert(ends, bytes);
    }

    /// [`Edges::add`] that keeps an existing entry.
    pub(crate) fn adopt(&mut self, ends: Ends) {
        self.all.entry(ends).or_default();
    }

    /// Whether the edge existed.
    pub(crate) fn remove(&mut self, ends: Ends) -> bool {
        self.all.remove(&ends).is_some()
    }

    /// Removes the edges for which this holds, and returns them.
    pub(crate) fn remove_if(&mut self, gone: impl Fn(Ends) -> bool) -> Vec<Ends> {
        let found: Vec<Ends> = self.all.keys().copied().filter(|ends| gone(*ends)).collect();
        self.all.retain(|ends, _| !found.contains(ends));
        found
    }

    /// Removes all edges of a port; returns the ports at their other ends.
    pub(crate) fn leave(&mut self, port: u8) -> BTreeSet<u8> {
        let mut others = BTreeSet::new();
        self.all.retain(|(from, to), _| {
            let other = if *from == port { *to } else { *from };
            let stays = *from != port && *to != port;
            if !stays {
                others.insert(other);
            }
            stays
        });
        others
    }

    pub(crate) fn count(&self) -> usize {
        self.all.len()
    }

    /// For one port: outgoing edges, incoming edges, bytes of the rings it made.
    pub(crate) fn of(&self, port: u8) -> (usize, usize, u64) {
        let (mut outgoing, mut incoming, mut bytes) = (0, 0, 0);
        for ((from, to), length) in &self.all {
            if *from == port {
                outgoing += 1;
                bytes += length;
            }
            incoming += usize::from(*to == port);
        }
        (outgoing, incoming, bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_leaves_is_missed_by_both_ends() {
        let mut edges = Edges::default();
        for ends in [(1, 2), (2, 1), (3, 1), (2, 3)] {
            edges.add(ends, 10);
        }
        edges.adopt((2, 3));
        edges.adopt((4, 1));
        assert_eq!(edges.of(2), (2, 1, 20));
        assert_eq!(edges.of(4), (1, 0, 0));
        assert_eq!(edges.leave(1), BTreeSet::from([2, 3, 4]));
        assert_eq!(edges.count(), 1);
        assert!(!edges.remove((1, 2)) && edges.remove((2, 3)));
        assert_eq!(edges.leave(2), BTreeSet::new());
        edges.add((5, 6), 1);
        edges.add((6, 5), 1);
        assert_eq!(edges.remove_if(|(from, _)| from == 5), [(5, 6)]);
        assert_eq!(edges.count(), 1);
    }
}
