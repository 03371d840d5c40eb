//! VLANs as `vde_switch` has them, in terms of this switch's rules. Pure.
//!
//! A port of VDE has one VLAN for untagged frames, 0 by default, and a set of VLANs with tagged ones. Here a port
//! without a rule has none as long as no port has one, which is VDE's 0, and is of VLAN 1 afterwards.

use netloom_bridge::{Vid, VidSet};
use netloom_vde::console::NO_VLAN;

use crate::rules::Vlan;

/// The VLAN of ports without a rule.
const DEFAULT: Vid = Vid::ONE;

/// The VLAN of a port's untagged frames; `separated`: whether any port has a rule.
pub(super) fn untagged(rule: Option<&Vlan>, separated: bool) -> u16 {
    match rule {
        None => u16::from(separated),
        Some(Vlan::Access(vid)) => vid.number(),
        Some(Vlan::Trunk { native, .. }) => native.map_or(NO_VLAN, Vid::number),
        // Without a tag of the switch's VLANs, if not without any.
        Some(Vlan::Qinq { vlan, .. }) => vlan.number(),
    }
}

/// The VLANs of its tagged frames.
pub(super) fn tagged(rule: Option<&Vlan>) -> VidSet {
    let Some(Vlan::Trunk { native, allowed }) = rule else { return VidSet::EMPTY };
    let mut tagged = allowed.clone();
    if let Some(native) = native {
        tagged.remove(*native);
    }
    tagged
}

/// The VLAN of untagged frames as a rule has it.
fn native(rule: Option<&Vlan>) -> Option<Vid> {
    match rule {
        None => Some(DEFAULT),
        Some(Vlan::Access(vid)) => Some(*vid),
        Some(Vlan::Trunk { native, .. }) => *native,
        Some(Vlan::Qinq { vlan, .. }) => Some(*vlan),
    }
}

fn rule(native: Option<Vid>, tagged: VidSet) -> Option<Vlan> {
    match native {
        // The same without a rule: such a port is of this VLAN as soon as another has one.
        Some(DEFAULT) if tagged.is_empty() => None,
        Some(vid) if tagged.is_empty() => Some(Vlan::Access(vid)),
        native => Some(Vlan::Trunk { native, allowed: tagged }),
    }
}

/// The rule with another VLAN for untagged frames: 0 is the default, [`NO_VLAN`] none.
pub(super) fn with_untagged(of: Option<&Vlan>, vlan: u16) -> Option<Vlan> {
    let native = match vlan {
        0 => Some(DEFAULT),
        vlan => Vid::new(vlan),
    };
    let mut tagged = tagged(of);
    if let Some(vid) = native {
        tagged.remove(vid);
    }
    rule(native, tagged)
}

/// The rule with one more VLAN for tagged frames. That of untagged ones stays that.
pub(super) fn with_tagged(of: Option<&Vlan>, vid: Vid) -> Option<Vlan> {
    let mut tagged = tagged(of);
    if native(of) != Some(vid) {
        tagged.insert(vid);
    }
    rule(native(of), tagged)
}

/// The rule with one VLAN less for tagged frames.
pub(super) fn without_tagged(of: Option<&Vlan>, vid: Vid) -> Option<Vlan> {
    let mut tagged = tagged(of);
    tagged.remove(vid);
    rule(native(of), tagged)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vid(number: u16) -> Vid {
        Vid::new(number).unwrap()
    }

    fn trunk(native: Option<u16>, allowed: &str) -> Option<Vlan> {
        Some(Vlan::Trunk { native: native.map(vid), allowed: allowed.parse().unwrap() })
    }

    #[test]
    fn a_port_without_a_rule_is_of_the_default() {
        assert_eq!((untagged(None, false), untagged(None, true)), (0, 1));
        let seven = with_untagged(None, 7);
        assert_eq!(seven, Some(Vlan::Access(vid(7))));
        assert_eq!(untagged(seven.as_ref(), true), 7);
        for default in [0, 1] {
            assert_eq!(with_untagged(seven.as_ref(), default), None);
        }
    }

    #[test]
    fn tagged_frames_make_a_trunk() {
        let nine = with_tagged(None, vid(9));
        assert_eq!(nine, trunk(Some(1), "9"));
        let both = with_tagged(with_untagged(nine.as_ref(), 7).as_ref(), vid(8));
        assert_eq!(both, trunk(Some(7), "8-9"));
        // As vde_switch: what is untagged is not tagged.
        assert_eq!(with_tagged(both.as_ref(), vid(7)), both);
        let eight = with_untagged(both.as_ref(), 8);
        assert_eq!((eight.clone(), tagged(eight.as_ref()).len()), (trunk(Some(8), "9"), 1));
        assert_eq!(without_tagged(eight.as_ref(), vid(9)), Some(Vlan::Access(vid(8))));
        assert_eq!(without_tagged(nine.as_ref(), vid(9)), None);
    }

    #[test]
    fn a_port_may_take_no_untagged_frames() {
        let none = with_untagged(with_tagged(None, vid(9)).as_ref(), NO_VLAN);
        assert_eq!(none, trunk(None, "9"));
        assert_eq!(untagged(none.as_ref(), true), NO_VLAN);
        assert_eq!(without_tagged(none.as_ref(), vid(9)), trunk(None, "none"));
        assert_eq!(with_untagged(none.as_ref(), 0), trunk(Some(1), "9"));
    }
}
