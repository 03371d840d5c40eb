//! Addresses that forwarding without OpenFlow learned (OFPP_NORMAL): which port each was last seen at, by VLAN.
//!
//! Bounded; when full, new addresses wait until old ones are forgotten, and frames to them are flooded. What is known changes
//! only by [`Learning::learn`], [`Learning::age`] and [`Learning::forget`], so that a result may be kept meanwhile.

use std::collections::BTreeMap;

use netloom_openflow::PortNumber;

use crate::rule::Time;

/// How long an address is known without being seen, as in IEEE 802.1Q: 300 s.
const AGEING: Time = 300 * 1_000_000_000;

/// A VLAN (0 without a tag) and an address.
type Station = (u16, u64);

/// The addresses.
#[derive(Clone, Debug)]
pub(crate) struct Learning {
    capacity: usize,
    seen: BTreeMap<Station, (PortNumber, Time)>,
    /// No address is old before.
    sweep: Time,
}

/// How often old addresses are looked for, at most.
const SWEEP: Time = 1_000_000_000;

/// Whether the address is that of a group.
pub(crate) fn is_group(address: u64) -> bool {
    address >> 40 & 1 == 1
}

impl Learning {
    pub(crate) fn new(capacity: usize) -> Learning {
        Learning { capacity, seen: BTreeMap::new(), sweep: Time::MAX }
    }

    /// An address was seen at a port. Returns whether that was news.
    pub(crate) fn learn(&mut self, vlan: u16, address: u64, port: PortNumber, now: Time) -> bool {
        if is_group(address) || address == 0 {
            return false;
        }
        if let Some((at, seen)) = self.seen.get_mut(&(vlan, address)) {
            *seen = now.max(*seen);
            return std::mem::replace(at, port) != port;
        }
        if self.seen.len() >= self.capacity {
            return false;
        }
        self.seen.insert((vlan, address), (port, now));
        self.sweep = self.sweep.min(now.saturating_add(AGEING));
        true
    }

    /// An address was seen again, some time ago, where it is known.
    pub(crate) fn refresh(&mut self, vlan: u16, address: u64, port: PortNumber, then: Time) {
        if let Some((at, seen)) = self.seen.get_mut(&(vlan, address))
            && *at == port
        {
            *seen = then.max(*seen);
        }
    }

    /// The port of an address, if it is known.
    pub(crate) fn port(&self, vlan: u16, address: u64) -> Option<PortNumber> {
        self.seen.get(&(vlan, address)).map(|(port, _)| *port)
    }

    /// When [`Learning::age`] is to be called.
    pub(crate) fn deadline(&self) -> Option<Time> {
        (!self.seen.is_empty()).then_some(self.sweep)
    }

    /// Whether [`Learning::age`] would forget an address.
    pub(crate) fn has_old(&mut self, now: Time) -> bool {
        if now < self.sweep {
            return false;
        }
        let oldest = self.oldest();
        if oldest > now {
            // Packets refresh addresses without moving `sweep`, so it is put right here, at most once a
            // second: each time costs a look at all addresses.
            self.sweep = oldest.max(now.saturating_add(SWEEP));
        }
        oldest <= now
    }

    /// When the first address is old.
    fn oldest(&self) -> Time {
        let ends = self.seen.values().map(|(_, seen)| seen.saturating_add(AGEING));
        ends.min().unwrap_or(Time::MAX)
    }

    /// Forgets addresses that were not seen for long; returns whether there were any.
    pub(crate) fn age(&mut self, now: Time) -> bool {
        if !self.has_old(now) {
            return false;
        }
        self.seen.retain(|_, (_, seen)| now < seen.saturating_add(AGEING));
        self.sweep = self.oldest().max(now.saturating_add(SWEEP));
        true
    }

    /// Forgets what was learned at a port.
    pub(crate) fn forget(&mut self, port: PortNumber) {
        self.seen.retain(|_, (at, _)| *at != port);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_move_age_and_are_bounded() {
        let mut learning = Learning::new(2);
        assert!(learning.learn(0, 2, PortNumber(1), 0));
        assert!(!learning.learn(0, 2, PortNumber(1), 5));
        assert!(learning.learn(0, 2, PortNumber(2), 10));
        assert_eq!(learning.port(0, 2), Some(PortNumber(2)));
        assert_eq!(learning.port(5, 2), None);
        assert!(!learning.learn(0, 0x0100_0000_0000, PortNumber(1), 10));
        assert!(learning.learn(0, 4, PortNumber(1), 20));
        assert!(!learning.learn(0, 6, PortNumber(1), 20));
        assert_eq!(learning.port(0, 6), None);
        let end = learning.deadline().unwrap();
        assert!(end <= 10 + AGEING && !learning.age(end));
        // Seen meanwhile.
        assert!(!learning.learn(0, 4, PortNumber(1), AGEING));
        let end = learning.deadline().unwrap();
        assert!((10 + AGEING..=10 + AGEING + SWEEP).contains(&end));
        // Not where it is known: an old packet teaches nothing.
        learning.refresh(0, 2, PortNumber(1), AGEING);
        assert!(learning.age(end));
        assert_eq!((learning.port(0, 2), learning.port(0, 4)), (None, Some(PortNumber(1))));
        assert!(learning.learn(0, 6, PortNumber(1), end));
        learning.forget(PortNumber(1));
        assert_eq!((learning.port(0, 6), learning.deadline()), (None, None));
    }
}
