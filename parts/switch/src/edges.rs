//! Which ports send to which by a ring of their own: what the switch remembers of edges.
//!
//! It needs it to say who is gone to those who have to know, and to show it. It has no part in what
//! goes over them.

use std::collections::{BTreeMap, BTreeSet};

/// An edge, by the numbers of its sender and its receiver.
pub(crate) type Ends = (u8, u8);

/// All edges between ports.
#[derive(Debug, Default)]
pub(crate) struct Edges {
    /// With the bytes of their rings; 0 for one that an earlier process of the switch knew.
    all: BTreeMap<Ends, u64>,
}

impl Edges {
    pub(crate) fn add(&mut self, ends: Ends, bytes: u64) {
        self.all.insert(ends, bytes);
    }

    /// As [`Edges::add`], keeping what is known of one that is there.
    pub(crate) fn adopt(&mut self, ends: Ends) {
        self.all.entry(ends).or_default();
    }

    /// Whether there was one.
    pub(crate) fn remove(&mut self, ends: Ends) -> bool {
        self.all.remove(&ends).is_some()
    }

    /// Takes away all of a port; who was at their other ends.
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

    /// Of a port: how many go out, how many come in, bytes of rings that it made.
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
    }
}
