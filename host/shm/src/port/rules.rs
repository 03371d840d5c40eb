//! The switch's rules as this port applies them: copies from the switch's page.
//!
//! The page's sequence number is compared for each frame, which is one load; the rest is read only
//! when it has changed. A half-written page (its switch was killed) changes nothing.

use netloom_bridge::{
    Direction, Mac, MacLock, MirrorFilter, MirrorSession, Mirrors, PortRules, SwitchRules, Tpid,
    Vid, VidSet, VlanMode,
};

use crate::layout::page::{LOCKED, SOME_CVLANS, TPID_SHIFT, TPIDS, UNLEARNED};
use crate::page::{PeerPage, PortSet, RawRules, RawSession, Snapshot};

#[derive(Debug)]
pub(super) struct Rules {
    page: PeerPage,
    /// The sequence number last read, or last tried in vain.
    sequence: u64,
    pub(super) switch: SwitchRules,
    pub(super) mirrors: Mirrors,
    /// There are no rules: every frame passes unchanged, and there are no copies.
    pub(super) plain: bool,
}

impl Rules {
    pub(super) fn new(page: PeerPage) -> Rules {
        let mut rules = Rules {
            sequence: page.sequence().wrapping_add(1),
            page,
            switch: SwitchRules::new(),
            mirrors: Mirrors::default(),
            plain: true,
        };
        rules.read();
        rules
    }

    /// Whether the page is unchanged since it was read.
    #[inline]
    pub(super) fn is_current(&self) -> bool {
        self.page.sequence() == self.sequence
    }

    /// Reads the page; returns whether the separation of VLANs was switched on or off.
    #[cold]
    pub(super) fn read(&mut self) -> bool {
        let sequence = self.page.sequence();
        let Some(found) = self.page.snapshot() else {
            // Not tried again before the number changes: a killed switch leaves it odd for good.
            self.sequence = sequence;
            return false;
        };
        let before = self.switch.vlan_aware();
        self.sequence = found.sequence;
        self.switch = switch_rules(&found);
        self.mirrors = mirrors(&found.sessions);
        self.plain = found.ports.is_empty() && self.mirrors.is_empty();
        before != self.switch.vlan_aware()
    }
}

/// A page that the switch cannot have written gives no rules: only the switch is trusted.
fn switch_rules(found: &Snapshot) -> SwitchRules {
    SwitchRules::of(found.ports.iter().map(|(number, raw)| (*number, port_rules(raw))))
        .unwrap_or_default()
}

fn port_rules(raw: &RawRules) -> PortRules {
    let vlan = match (raw.mode, Vid::new(raw.native)) {
        (1, Some(vid)) => VlanMode::Access(vid),
        (2, native) => VlanMode::Trunk { native, allowed: VidSet::from_words(*raw.allowed) },
        (3, Some(vid)) => VlanMode::Qinq {
            vid,
            cvlans: (raw.flags & SOME_CVLANS != 0).then(|| VidSet::from_words(*raw.allowed)),
            tpid: tpid(raw.flags),
        },
        _ => VlanMode::Any,
    };
    let macs: Vec<Mac> = raw.macs.iter().copied().map(Mac).collect();
    let locked = raw.flags & LOCKED != 0;
    let macs = MacLock::new(if locked { &macs } else { &[] }).unwrap_or(MacLock::NONE);
    PortRules { vlan, macs, learn: raw.flags & UNLEARNED == 0 }
}

fn tpid(flags: u8) -> Tpid {
    let number = TPIDS.get(usize::from(flags >> TPID_SHIFT & 3)).copied();
    number.and_then(Tpid::new).unwrap_or_default()
}

fn mirrors(found: &[RawSession]) -> Mirrors {
    let sessions = found.iter().map(|raw| MirrorSession {
        to: raw.to,
        sources: members(&raw.from)
            .map(|port| (port, Direction::In))
            .chain(members(&raw.toward).map(|port| (port, Direction::Out)))
            .collect(),
        filter: MirrorFilter::from_bytes(&raw.filter).unwrap_or_default(),
    });
    Mirrors::new(sessions.collect()).unwrap_or_default()
}

fn members(set: &PortSet) -> impl Iterator<Item = u16> + '_ {
    (1..=netloom_bridge::MOST_PORTS)
        .filter(|port| set[usize::from(port / 64)] >> (port % 64) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::Page;

    fn raw(mode: u8, native: u16, flags: u8, macs: Vec<[u8; 6]>) -> RawRules {
        let allowed = Box::new([u64::MAX; 64]);
        RawRules { generation: 0, mode, flags, native, allowed, macs }
    }

    #[test]
    fn what_stands_in_the_page_is_obeyed() {
        let mut page = Page::create().expect("page");
        let mut rules = Rules::new(PeerPage::open(page.fd()).expect("open"));
        assert!(rules.plain && rules.is_current() && !rules.switch.vlan_aware());
        let mac = [2, 0, 0, 0, 0, 1];
        page.change(|edit| {
            edit.set_vlan_aware(true);
            edit.set_port(1, Some(&raw(1, 7, LOCKED, vec![mac])));
            edit.set_port(2, Some(&raw(2, 0, UNLEARNED, vec![mac])));
            edit.set_port(3, Some(&raw(3, 7, 0, vec![])));
            edit.set_port(4, Some(&raw(3, 8, SOME_CVLANS | 2 << TPID_SHIFT | UNLEARNED, vec![])));
            let mut from = PortSet::default();
            from[0] = 2;
            let filter = MirrorFilter { vid: Vid::new(7), ..MirrorFilter::default() }.to_bytes();
            let session = RawSession { to: 9, from, toward: from, filter };
            edit.set_session(3, Some(&session));
        });
        assert!(!rules.is_current());
        assert!(rules.read());
        assert!(!rules.plain && rules.is_current() && rules.switch.vlan_aware());
        let one = rules.switch.port(1);
        assert_eq!(one.vlan, VlanMode::Access(Vid::new(7).expect("VLAN")));
        assert_eq!((one.macs.as_slice(), one.learn), (&[Mac(mac)][..], true));
        let two = rules.switch.port(2);
        assert_eq!(two.vlan, VlanMode::Trunk { native: None, allowed: VidSet::ALL });
        assert_eq!((two.macs.is_empty(), two.learn), (true, false));
        let qinq = |number, cvlans, tpid| {
            let (vid, tpid) = (Vid::new(number).expect("VLAN"), Tpid::new(tpid).expect("type"));
            VlanMode::Qinq { vid, cvlans, tpid }
        };
        assert_eq!(rules.switch.port(3).vlan, qinq(7, None, 0x8100));
        assert_eq!(rules.switch.port(4).vlan, qinq(8, Some(VidSet::ALL), 0x9100));
        assert!(!rules.switch.port(4).learn);
        assert_eq!((rules.mirrors.entering(1), rules.mirrors.leaving(1)), (1, 1));
        assert_eq!((rules.mirrors.entering(2), rules.mirrors.leaving(9)), (0, 0));
        assert!(!rules.read());
    }
}
