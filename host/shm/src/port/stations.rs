//! Locations of stations, learned from received frames; published in the inbox for observers.
//!
//! The last source and the last destination are cached, so a stream of frames costs two comparisons
//! each. The cache is cleared every second, when entries may have aged out, and whenever the table
//! changes.

use netloom_bridge::{Learned, Mac, MacTable, Vid};

use crate::inbox::{Entry, Inbox};
use crate::layout;

/// Seconds after which a silent station is forgotten (IEEE 802.1Q-2022, table 8-6).
const AGEING: u32 = 300;

/// No key has this value.
const NONE: u64 = u64::MAX;

#[derive(Debug)]
pub(super) struct Stations {
    table: MacTable,
    now: u32,
    source: u64,
    source_port: u16,
    destination: u64,
    destination_port: Option<u16>,
    moved: bool,
}

impl Stations {
    pub(super) fn new(seed: u64) -> Self {
        Stations {
            table: MacTable::new(layout::inbox::ENTRIES, AGEING, seed),
            now: 0,
            source: NONE,
            source_port: 0,
            destination: NONE,
            destination_port: None,
            moved: false,
        }
    }

    /// Seconds of the coarse clock, as last set.
    pub(super) fn now(&self) -> u32 {
        self.now
    }

    pub(super) fn set_now(&mut self, now: u32) {
        if now != self.now {
            self.now = now;
            self.unsettle();
        }
    }

    /// Learns a station that sent from a port.
    #[inline]
    pub(super) fn learn(&mut self, inbox: &Inbox, vid: Option<Vid>, mac: Mac, port: u16) {
        let key = key(vid, mac);
        if key != self.source || port != self.source_port {
            self.learn_slowly(inbox, vid, mac, port);
            (self.source, self.source_port) = (key, port);
        }
    }

    fn learn_slowly(&mut self, inbox: &Inbox, vid: Option<Vid>, mac: Mac, port: u16) {
        let learned = self.table.learn(vid, mac, port, self.now);
        self.moved |= matches!(learned, Learned::Moved { .. });
        match learned {
            // A station seen again after it aged out is refreshed, too.
            Learned::New { index }
            | Learned::Moved { index, .. }
            | Learned::Refreshed { index } => {
                // The cached port may be this station's old one.
                self.destination = NONE;
                self.publish(inbox, index);
            }
            Learned::Same | Learned::Full | Learned::Refused => {}
        }
    }

    fn publish(&self, inbox: &Inbox, index: usize) {
        let entry = self.table.entry(index).map(|entry| Entry {
            mac: entry.mac.0,
            vid: entry.vid.map_or(0, Vid::number),
            port: entry.port,
            seen: entry.seen,
        });
        inbox.set_entry(index, entry);
    }

    /// Whether a station has moved to another port since this was asked last.
    #[inline]
    pub(super) fn take_moved(&mut self) -> bool {
        std::mem::take(&mut self.moved)
    }

    /// Says so again: nobody could be told.
    pub(super) fn keep_moved(&mut self) {
        self.moved = true;
    }

    /// The port of a station.
    #[inline]
    pub(super) fn find(&mut self, vid: Option<Vid>, mac: Mac) -> Option<u16> {
        let key = key(vid, mac);
        if key != self.destination {
            self.destination_port = self.table.lookup(vid, mac, self.now);
            self.destination = key;
        }
        self.destination_port
    }

    /// Forgets the stations of a port that is gone.
    pub(super) fn forget_port(&mut self, inbox: &Inbox, port: u16) {
        self.unsettle();
        self.table.forget_port(port, |index| inbox.set_entry(index, None));
    }

    /// Forgets all stations.
    pub(super) fn clear(&mut self, inbox: &Inbox) {
        self.unsettle();
        self.table.clear();
        for index in 0..self.table.capacity() {
            inbox.set_entry(index, None);
        }
    }

    fn unsettle(&mut self) {
        self.source = NONE;
        self.destination = NONE;
    }
}

#[inline]
fn key(vid: Option<Vid>, mac: Mac) -> u64 {
    u64::from(vid.map_or(0, Vid::number)) << 48 | mac.to_u64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caches_never_differ_from_the_table() {
        let inbox = Inbox::create().expect("inbox");
        let mut stations = Stations::new(7);
        let (a, b) = (Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2]));
        assert_eq!(stations.find(None, a), None);
        stations.learn(&inbox, None, a, 3);
        assert_eq!(stations.find(None, a), Some(3));
        assert!(!stations.take_moved());
        stations.learn(&inbox, None, a, 4);
        assert!(stations.take_moved() && !stations.take_moved());
        assert_eq!(stations.find(None, a), Some(4));
        assert_eq!(stations.find(Vid::new(7), a), None);
        stations.learn(&inbox, None, b, 4);
        assert_eq!(stations.find(None, b), Some(4));
        stations.set_now(AGEING + 1);
        assert_eq!(stations.find(None, b), None);
        stations.learn(&inbox, None, b, 4);
        assert_eq!(stations.find(None, b), Some(4));
        stations.forget_port(&inbox, 4);
        assert_eq!(stations.find(None, b), None);
        stations.learn(&inbox, None, b, 4);
        assert_eq!(stations.find(None, b), Some(4));
        stations.clear(&inbox);
        assert_eq!(stations.find(None, b), None);
    }

    #[test]
    fn what_is_learned_can_be_read_by_others() {
        let inbox = Inbox::create().expect("inbox");
        let mut stations = Stations::new(7);
        stations.set_now(9);
        stations.learn(&inbox, Vid::new(5), Mac([2, 0, 0, 0, 0, 1]), 3);
        let peer = crate::inbox::PeerInbox::open(inbox.fd()).expect("open");
        let entry = Entry { mac: [2, 0, 0, 0, 0, 1], vid: 5, port: 3, seen: 9 };
        assert_eq!(peer.table(), [entry]);
        stations.forget_port(&inbox, 3);
        assert!(peer.table().is_empty());
    }
}
