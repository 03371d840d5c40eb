//! Addresses that forwarding without OpenFlow learned (OFPP_NORMAL): which port each was last seen at, by VLAN.
//!
//! Bounded; when full, new addresses wait until old ones age, and frames to them are flooded.

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
    /// When old addresses are looked for again, if there is no room.
    sweep: Time,
}

/// How often old addresses are looked for while there is no room.
const SWEEP: Time = 1_000_000_000;

/// Whether the address is that of a group.
pub(crate) fn is_group(address: u64) -> bool {
    address >> 40 & 1 == 1
}

impl Learning {
    pub(crate) fn new(capacity: usize) -> Learning {
        Learning { capacity, seen: BTreeMap::new(), sweep: 0 }
    }

    /// An address was seen at a port.
    pub(crate) fn learn(&mut self, vlan: u16, address: u64, port: PortNumber, now: Time) {
        if is_group(address) || address == 0 {
            return;
        }
        if self.seen.len() >= self.capacity && !self.seen.contains_key(&(vlan, address)) {
            if now >= self.sweep {
                self.seen.retain(|_, (_, seen)| now < seen.saturating_add(AGEING));
                self.sweep = now.saturating_add(SWEEP);
            }
            if self.seen.len() >= self.capacity {
                return;
            }
        }
        self.seen.insert((vlan, address), (port, now));
    }

    /// The port of an address, if it is known.
    pub(crate) fn port(&self, vlan: u16, address: u64, now: Time) -> Option<PortNumber> {
        let (port, seen) = self.seen.get(&(vlan, address))?;
        (now < seen.saturating_add(AGEING)).then_some(*port)
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
        learning.learn(0, 2, PortNumber(1), 0);
        learning.learn(0, 2, PortNumber(2), 10);
        assert_eq!(learning.port(0, 2, 20), Some(PortNumber(2)));
        assert_eq!(learning.port(5, 2, 20), None);
        assert_eq!(learning.port(0, 2, 10 + AGEING), None);
        learning.learn(0, 0x0100_0000_0000, PortNumber(1), 10);
        learning.learn(0, 4, PortNumber(1), 20);
        learning.learn(0, 6, PortNumber(1), 20);
        assert_eq!(learning.port(0, 6, 20), None);
        learning.learn(0, 6, PortNumber(1), 15 + AGEING);
        assert_eq!(learning.port(0, 6, 15 + AGEING), Some(PortNumber(1)));
        learning.forget(PortNumber(1));
        assert_eq!(learning.port(0, 6, 15 + AGEING), None);
    }
}
