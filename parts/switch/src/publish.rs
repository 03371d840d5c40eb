//! Writes the rules into the page that all ports read.

use netloom_bridge::{MirrorSession, Mirrors, PortRules, SwitchRules, VlanMode};
use netloom_shm::layout::page::{LOCKED, SESSIONS, SOME_CVLANS, TPID_SHIFT, TPIDS, UNLEARNED};
use netloom_shm::page::{Page, PortSet, RawRules, RawSession};

/// Writes all rules into the page, in one change.
pub(crate) fn publish(page: &mut Page, rules: &SwitchRules, mirrors: &Mirrors) {
    page.change(|edit| {
        edit.set_vlan_aware(rules.vlan_aware());
        for number in 1..=netloom_bridge::MOST_PORTS {
            let of = rules.port(number);
            let raw = (*of != PortRules::OPEN).then(|| raw(of));
            edit.set_port(number, raw.as_ref());
        }
        for slot in 0..SESSIONS {
            let session = mirrors.sessions().get(slot).map(session);
            edit.set_session(slot, session.as_ref());
        }
    });
}

fn raw(rules: &PortRules) -> RawRules {
    let mut raw = RawRules {
        generation: 0,
        mode: 0,
        flags: 0,
        native: 0,
        allowed: Box::new([0; 64]),
        macs: rules.macs.as_slice().iter().map(|mac| mac.0).collect(),
    };
    match &rules.vlan {
        VlanMode::Any => {}
        VlanMode::Access(vid) => {
            raw.mode = 1;
            raw.native = vid.number();
        }
        VlanMode::Trunk { native, allowed } => {
            raw.mode = 2;
            raw.native = native.map_or(0, netloom_bridge::Vid::number);
            *raw.allowed = *allowed.words();
        }
        VlanMode::Qinq { vid, cvlans, tpid } => {
            raw.mode = 3;
            raw.native = vid.number();
            let place = (0..).zip(TPIDS).find(|(_, number)| *number == tpid.number());
            raw.flags |= place.map_or(0, |(place, _)| place << TPID_SHIFT);
            if let Some(cvlans) = cvlans {
                raw.flags |= SOME_CVLANS;
                *raw.allowed = *cvlans.words();
            }
        }
    }
    raw.flags |= if rules.macs.is_empty() { 0 } else { LOCKED };
    raw.flags |= if rules.learn { 0 } else { UNLEARNED };
    raw
}

fn session(session: &MirrorSession) -> RawSession {
    let (mut from, mut toward): (PortSet, PortSet) = Default::default();
    for (port, direction) in &session.sources {
        let (word, bit) = (usize::from(port / 64), 1 << (port % 64));
        for (set, wanted) in [(&mut from, direction.has_in()), (&mut toward, direction.has_out())] {
            if let Some(word) = set.get_mut(word).filter(|_| wanted) {
                *word |= bit;
            }
        }
    }
    RawSession { to: session.to, from, toward, filter: session.filter.to_bytes() }
}
