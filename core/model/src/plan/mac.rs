//! MAC addresses: locally administered, from names, unique within the lab.

use std::collections::HashSet;

use super::hash::hash;

/// First byte: unicast, locally administered (IEEE 802, bits 0 and 1).
const LOCAL_UNICAST: u8 = 0x02;

/// The MACs assigned in one lab.
pub(crate) struct Macs<'a> {
    lab: &'a str,
    taken: HashSet<[u8; 6]>,
}

impl<'a> Macs<'a> {
    /// Those of a lab in which some are assigned already.
    pub(crate) fn with_taken(lab: &'a str, taken: impl Iterator<Item = [u8; 6]>) -> Self {
        Macs { lab, taken: taken.collect() }
    }

    /// The MAC of an object with this kind and names; on a clash the next free one.
    pub(crate) fn take(&mut self, kind: &str, owner: &str, name: &str) -> [u8; 6] {
        let mut number = hash(&["mac", self.lab, kind, owner, name]);
        loop {
            let [.., a, b, c, d, e] = number.to_be_bytes();
            let mac = [LOCAL_UNICAST, a, b, c, d, e];
            if self.taken.insert(mac) {
                return mac;
            }
            // The lowest byte changes, so a search ends after as many steps as there are clashes.
            number = number.wrapping_add(1);
        }
    }
}
