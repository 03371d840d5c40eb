//! Frames that one port sends and another gets, and of which nobody else has anything: what a data plane that knows of no
//! copies may forward by itself.

use crate::PortNumber;
use crate::address::{Destination, Mac, decide};
use crate::classify::{Retag, classify, egress};
use crate::mirror::Mirrors;
use crate::rules::SwitchRules;
use crate::vlan::Vid;

/// How such a frame passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Direct {
    /// The VLAN in which its source is learned and its destination was looked up.
    pub vid: Option<Vid>,
    /// In which form the other port gets it.
    pub how: Retag,
}

/// How a frame of one port passes to another, which its destination is at. `None` if it is dropped, copied for a mirror
/// session, or not for one station.
///
/// It depends on the ports, the addresses and the tags alone; `frame` may end behind these.
pub fn direct(
    rules: &SwitchRules,
    mirrors: &Mirrors,
    sender: PortNumber,
    receiver: PortNumber,
    frame: &[u8],
) -> Option<Direct> {
    let class = classify(rules, sender, frame).ok()?;
    let destination = Mac::destination(frame)?;
    let copied = mirrors.entering(sender) | mirrors.leaving(receiver) != 0;
    if sender == receiver || copied || decide(destination) != Destination::Unicast {
        return None;
    }
    let how = egress(rules, receiver, class).ok()?;
    Some(Direct { vid: class.vid, how })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Direction, MacLock, MirrorSession, PortRules, VlanMode};

    fn frame(to: u8, from: u8) -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, from, 8, 0];
        frame.resize(60, 0);
        frame
    }

    #[test]
    fn what_nobody_else_has_passes() {
        let vid = Vid::new(7).unwrap();
        let lock = MacLock::new(&[Mac([2, 0, 0, 0, 0, 1])]).unwrap();
        let access = PortRules { vlan: VlanMode::Access(vid), ..PortRules::OPEN };
        let rules = SwitchRules::of([
            (1, PortRules { macs: lock, ..access.clone() }),
            (2, access),
            (3, PortRules::OPEN),
        ])
        .unwrap();
        let session =
            MirrorSession { to: 3, sources: vec![(2, Direction::Out)], ..MirrorSession::default() };
        let (none, copies) = (Mirrors::default(), Mirrors::new(vec![session]).unwrap());
        let of = |mirrors, from, to, frame: &[u8]| direct(&rules, mirrors, from, to, frame);
        let passes = Some(Direct { vid: Some(vid), how: Retag::Keep });
        assert_eq!(of(&none, 1, 2, &frame(2, 1)), passes);
        assert_eq!(of(&none, 1, 2, &frame(2, 1)[..26]), passes, "by its beginning");
        assert_eq!(of(&none, 1, 2, &frame(2, 9)), None, "a locked port");
        assert_eq!(of(&none, 1, 3, &frame(2, 1)), None, "another VLAN");
        assert_eq!(of(&none, 1, 1, &frame(2, 1)), None, "back");
        assert_eq!(of(&copies, 1, 2, &frame(2, 1)), None, "a copy");
        assert_eq!(of(&copies, 2, 1, &frame(1, 2)), passes, "no copy of what it sends");
        let mut group = frame(2, 1);
        group[0] |= 1;
        assert_eq!(of(&none, 1, 2, &group), None, "a group");
        assert_eq!(of(&none, 1, 2, &group[..9]), None, "cut");
    }
}
