//! Flows that appear while a measurement runs: connections and connected sockets between its nodes.
//!
//! The nodes' sockets are listed several times a second, so a connection that ends sooner stays part of the
//! rest. A flow joins with a later block: until then its packets belong to the rest, at all points alike.

use std::collections::BTreeSet;

use super::flows::{FlowPorts, connected};
use super::note::Note;
use super::paths::Paths;
use crate::Spaces;

/// Time between two lists of sockets, in nanoseconds.
const BETWEEN: u64 = 100_000_000;

/// Looks for flows.
pub(super) struct Seeker {
    /// Those that are measured, or were found when there was no room.
    known: BTreeSet<FlowPorts>,
    /// Those for which there still is room.
    room: usize,
    /// Those for which there was none.
    beyond: usize,
    /// When sockets are listed next.
    next: u64,
}

impl Seeker {
    /// Looks for others than these, and for at most so many.
    pub(super) fn new(known: BTreeSet<FlowPorts>, room: usize) -> Seeker {
        Seeker { known, room, beyond: 0, next: 0 }
    }

    /// The flows that are new at this time, and whether there was no room for some, once.
    pub(super) fn look(
        &mut self,
        spaces: &Spaces,
        ways: &Paths,
        now: u64,
    ) -> (Vec<FlowPorts>, Option<Note>) {
        if now < self.next {
            return (vec![], None);
        }
        self.next = now.saturating_add(BETWEEN);
        // Nodes that ended have no sockets.
        self.sift(connected(spaces, ways).unwrap_or_default())
    }

    /// Keeps what is new, as far as there is room.
    fn sift(&mut self, found: BTreeSet<FlowPorts>) -> (Vec<FlowPorts>, Option<Note>) {
        let mut new: Vec<FlowPorts> =
            found.into_iter().filter(|flow| !self.known.contains(flow)).collect();
        // Also those without room: else each look would find them again.
        self.known.extend(new.iter().cloned());
        let beyond = new.split_off(new.len().min(self.room)).len();
        self.room -= new.len();
        let first = self.beyond == 0 && beyond > 0;
        self.beyond += beyond;
        let most = self.known.len() - self.beyond;
        (new, first.then_some(Note::NoRoom { most }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flows(texts: &[&str]) -> BTreeSet<FlowPorts> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn each_flow_is_found_once_and_no_more_than_there_is_room_for() {
        let mut seeker = Seeker::new(flows(&["1->80/tcp"]), 2);
        let (new, note) = seeker.sift(flows(&["1->80/tcp", "2->80/tcp"]));
        assert_eq!((new, note.is_none()), (vec!["2->80/tcp".parse().unwrap()], true));
        assert!(seeker.sift(flows(&["2->80/tcp"])).0.is_empty());
        let (new, note) = seeker.sift(flows(&["3->80/tcp", "4->80/tcp", "5->80/tcp"]));
        assert_eq!(new, ["3->80/tcp".parse().unwrap()]);
        assert!(matches!(note, Some(Note::NoRoom { most: 3 })));
        let (new, note) = seeker.sift(flows(&["6->80/tcp"]));
        assert!(new.is_empty() && note.is_none());
    }
}
