//! The rules of a switch's ports.
//!
//! The *sender's* rules apply, whichever port enforces them. As soon as one port has a VLAN mode, the
//! switch is VLAN-aware and ports without one are access ports of VLAN 1.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::address::Mac;
use crate::error::{Error, Result};
use crate::tpid::Tpid;
use crate::vlan::{Vid, VidSet};
use crate::{MOST_PORTS, PortNumber};

/// Which VLANs a port is in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum VlanMode {
    /// Frames pass unchanged; an access port of VLAN 1 when the switch is VLAN-aware.
    #[default]
    Any,
    /// Untagged frames of one VLAN. Frames with a VLAN tag are dropped, whatever the VLAN.
    Access(Vid),
    /// Tagged frames of several VLANs.
    Trunk {
        /// The VLAN of untagged frames, in both directions; it need not be among the
        /// allowed ones. Without one, untagged frames are dropped.
        native: Option<Vid>,
        /// VLANs that may pass with a tag.
        allowed: VidSet,
    },
    /// A customer's frames, with the tags that they have, in one VLAN: on trunks they get its tag around them.
    Qinq {
        /// The VLAN.
        vid: Vid,
        /// The only VLANs of the customer; without it all, and frames that have no tag.
        cvlans: Option<VidSet>,
        /// The type of the tag around them.
        tpid: Tpid,
    },
}

impl VlanMode {
    /// In a VLAN-aware switch: the VLAN of frames without a tag of the switch's VLANs, and those of tagged ones.
    fn vlans(&self) -> (Option<Vid>, &VidSet) {
        match self {
            VlanMode::Any => (Some(Vid::ONE), &VidSet::EMPTY),
            VlanMode::Access(vid) | VlanMode::Qinq { vid, .. } => (Some(*vid), &VidSet::EMPTY),
            VlanMode::Trunk { native, allowed } => (*native, allowed),
        }
    }

    fn has(&self, vid: Vid) -> bool {
        let (untagged, tagged) = self.vlans();
        untagged == Some(vid) || tagged.contains(vid)
    }
}

/// How many addresses a port may be locked to.
pub const MOST_LOCKED: usize = 8;

/// The only source addresses that a port may use; an empty lock allows all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MacLock {
    macs: [Mac; MOST_LOCKED],
    length: u8,
}

impl MacLock {
    /// No lock.
    pub const NONE: MacLock = MacLock { macs: [Mac([0; 6]); MOST_LOCKED], length: 0 };

    /// A lock to these, at most [`MOST_LOCKED`].
    pub fn new(macs: &[Mac]) -> Result<MacLock> {
        let mut lock = MacLock::NONE;
        for mac in macs {
            if !mac.is_station() {
                let reason = "no station's address";
                return Err(Error::text("MAC address", &mac.to_string(), reason));
            }
            // Places are few: an address that is given twice takes one.
            if lock.as_slice().contains(mac) {
                continue;
            }
            let has = macs.len();
            let Some(place) = lock.macs.get_mut(usize::from(lock.length)) else {
                return Err(Error::TooMany { object: "locked addresses", has, most: MOST_LOCKED });
            };
            *place = *mac;
            lock.length += 1;
        }
        Ok(lock)
    }

    /// The addresses.
    #[inline]
    pub fn as_slice(&self) -> &[Mac] {
        self.macs.get(..usize::from(self.length)).unwrap_or(&[])
    }

    /// Whether there is no lock.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }
}

/// The rules of one port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortRules {
    /// Its VLANs.
    pub vlan: VlanMode,
    /// The source addresses it may use.
    pub macs: MacLock,
    /// Whether others learn addresses from its frames.
    pub learn: bool,
}

impl PortRules {
    /// The rules of a port without settings.
    pub const OPEN: PortRules = PortRules { vlan: VlanMode::Any, macs: MacLock::NONE, learn: true };
}

impl Default for PortRules {
    fn default() -> PortRules {
        PortRules::OPEN
    }
}

/// The rules of all ports. Changing them is slow, querying is fast.
#[derive(Clone, Debug, Default)]
pub struct SwitchRules {
    /// By port number; ports beyond its end are open.
    ports: Vec<PortRules>,
    aware: bool,
    locked: HashMap<u64, PortNumber, BuildHasherDefault<Mix>>,
}

static OPEN: PortRules = PortRules::OPEN;

impl SwitchRules {
    /// Rules that allow everything.
    pub fn new() -> SwitchRules {
        SwitchRules::default()
    }

    /// Rules of some ports; the others are open.
    pub fn of(ports: impl IntoIterator<Item = (PortNumber, PortRules)>) -> Result<SwitchRules> {
        let mut rules = SwitchRules::default();
        for (port, of) in ports {
            rules.put(port, of)?;
        }
        rules.settle();
        Ok(rules)
    }

    /// Changes the rules of one port. Port 0, the switch itself, may also have rules.
    pub fn set(&mut self, port: PortNumber, rules: PortRules) -> Result<()> {
        self.put(port, rules)?;
        self.settle();
        Ok(())
    }

    fn put(&mut self, port: PortNumber, rules: PortRules) -> Result<()> {
        if port > MOST_PORTS {
            return Err(Error::Port { number: port });
        }
        let place = usize::from(port);
        if place >= self.ports.len() {
            self.ports.resize(place + 1, PortRules::OPEN);
        }
        if let Some(at) = self.ports.get_mut(place) {
            *at = rules;
        }
        Ok(())
    }

    /// Recomputes what follows from all ports together.
    fn settle(&mut self) {
        self.aware = self.ports.iter().any(|port| port.vlan != VlanMode::Any);
        self.locked.clear();
        for (number, port) in (0..).zip(&self.ports) {
            for mac in port.macs.as_slice() {
                // Ports come in order: the first that has the lock is the lowest.
                self.locked.entry(mac.to_u64()).or_insert(number);
            }
        }
    }

    /// The rules of a port.
    #[inline]
    pub fn port(&self, port: PortNumber) -> &PortRules {
        self.ports.get(usize::from(port)).unwrap_or(&OPEN)
    }

    /// Whether some port has a VLAN mode.
    #[inline]
    pub fn vlan_aware(&self) -> bool {
        self.aware
    }

    /// Whether frames of some VLAN may pass between two ports.
    pub fn share_vlan(&self, one: PortNumber, other: PortNumber) -> bool {
        let (one, other) = (&self.port(one).vlan, &self.port(other).vlan);
        let (ours, theirs) = (one.vlans(), other.vlans());
        !self.aware
            // What one port has without a tag the other may have with one.
            || ours.0.is_some_and(|vid| other.has(vid))
            || theirs.0.is_some_and(|vid| one.has(vid))
            || ours.1.words().iter().zip(theirs.1.words()).any(|(a, b)| a & b != 0)
    }

    /// The port that an address is locked to; the lowest of several.
    #[inline]
    pub fn locked_to(&self, mac: Mac) -> Option<PortNumber> {
        // A switch without locks needs no hash for each frame.
        if self.locked.is_empty() {
            return None;
        }
        self.locked.get(&mac.to_u64()).copied()
    }

    /// Whether a port may not use a source address: it is locked to others, or the address is
    /// locked to another port and not to this one.
    #[inline]
    pub fn spoofed(&self, port: PortNumber, source: Mac) -> bool {
        let lock = &self.port(port).macs;
        if lock.is_empty() {
            return self.locked_to(source).is_some();
        }
        !lock.as_slice().contains(&source)
    }
}

/// One multiplication suffices: the switch's owner chooses the locked addresses, not the senders.
#[derive(Default)]
struct Mix(u64);

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, value: u64) {
        let mixed = (self.0 ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mac(last: u8) -> Mac {
        Mac([2, 0, 0, 0, 0, last])
    }

    fn locked(macs: &[Mac]) -> PortRules {
        PortRules { macs: MacLock::new(macs).unwrap(), ..PortRules::OPEN }
    }

    #[test]
    fn locks() {
        let mut rules =
            SwitchRules::of([(1, locked(&[mac(1), mac(2)])), (2, locked(&[mac(2)]))]).unwrap();
        assert!(!rules.vlan_aware());
        assert_eq!(rules.locked_to(mac(1)), Some(1));
        assert_eq!(rules.locked_to(mac(2)), Some(1));
        assert_eq!(rules.locked_to(mac(3)), None);
        for (port, source, spoofed) in [
            (1, mac(1), false),
            (1, mac(2), false),
            (1, mac(3), true),
            (2, mac(1), true),
            (2, mac(2), false),
            (3, mac(1), true),
            (3, mac(3), false),
            (200, mac(2), true),
        ] {
            assert_eq!(rules.spoofed(port, source), spoofed, "port {port}, {source}");
        }
        rules.set(1, PortRules::OPEN).unwrap();
        assert_eq!(rules.locked_to(mac(1)), None);
        assert_eq!(rules.locked_to(mac(2)), Some(2));
    }

    /// As [`crate::classify`] and [`crate::egress`] decide for single frames.
    #[test]
    fn ports_share_a_vlan_if_a_frame_of_some_vlan_may_pass() {
        let vid = |number| Vid::new(number).unwrap();
        let trunk = |native: Option<u16>, numbers: &[u16]| {
            let mut allowed = VidSet::EMPTY;
            for number in numbers {
                allowed.insert(vid(*number));
            }
            VlanMode::Trunk { native: native.map(vid), allowed }
        };
        let qinq = |number, cvlans: Option<&[u16]>| VlanMode::Qinq {
            vid: vid(number),
            cvlans: cvlans.map(|all| all.iter().copied().map(vid).collect()),
            tpid: Tpid::SERVICE,
        };
        let modes = [
            VlanMode::Any,
            VlanMode::Access(vid(1)),
            VlanMode::Access(vid(7)),
            trunk(None, &[7, 8]),
            trunk(Some(1), &[9, 4094]),
            trunk(Some(8), &[]),
            trunk(None, &[]),
            qinq(7, None),
            qinq(7, Some(&[3, 4094])),
            qinq(4094, Some(&[1])),
        ];
        let ports = (1..).zip(modes.clone());
        let rules = |(port, vlan)| (port, PortRules { vlan, ..PortRules::OPEN });
        let rules = SwitchRules::of(ports.map(rules)).unwrap();
        let passes = |from, to| {
            // Of one number, or that within a tag of priority alone or of one of the VLANs here.
            let outer = [None, Some(0), Some(7), Some(4094)];
            let all = outer.iter().flat_map(|outer| (0..=4094_u16).map(move |n| (*outer, n)));
            all.into_iter().any(|(outer, number)| {
                let mut frame = vec![2; 64];
                let tags = outer.into_iter().chain((number > 0).then_some(number));
                for (at, number) in (12..).step_by(4).zip(tags) {
                    frame[at..at + 2].copy_from_slice(&[0x81, 0]);
                    frame[at + 2..at + 4].copy_from_slice(&number.to_be_bytes());
                }
                let class = crate::classify(&rules, from, &frame);
                class.is_ok_and(|class| crate::egress(&rules, to, class).is_ok())
            })
        };
        for one in 1..=11 {
            for other in 1..=11 {
                let expected = passes(one, other) || passes(other, one);
                assert_eq!(rules.share_vlan(one, other), expected, "{one} and {other}");
            }
        }
        assert!(SwitchRules::new().share_vlan(1, 200));
    }

    #[test]
    fn one_mode_makes_all_aware() {
        let mut rules = SwitchRules::new();
        rules.set(9, PortRules { vlan: VlanMode::Access(Vid::ONE), ..PortRules::OPEN }).unwrap();
        assert!(rules.vlan_aware());
        rules.set(9, PortRules::OPEN).unwrap();
        assert!(!rules.vlan_aware());
    }

    #[test]
    fn what_has_no_place_is_refused() {
        assert_eq!(SwitchRules::new().set(256, PortRules::OPEN), Err(Error::Port { number: 256 }));
        let many: Vec<_> = (0..9).map(mac).collect();
        assert!(matches!(MacLock::new(&many), Err(Error::TooMany { has: 9, most: 8, .. })));
        assert_eq!(MacLock::new(&[mac(1); 20]).unwrap().as_slice(), [mac(1)]);
        assert!(MacLock::new(&[Mac::BROADCAST]).is_err());
        assert!(MacLock::new(&[Mac::default()]).is_err());
    }
}
