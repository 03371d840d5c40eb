//! Classifies a frame at its sender's port, and decides in which form a receiver's port gets it.
//!
//! Ingress: an access port accepts only untagged and priority-tagged frames ("admit only
//! VLAN-untagged and priority-tagged frames"), a trunk tagged ones of its VLANs and, with a native
//! VLAN, untagged ones. Egress: untagged in the access or native VLAN, otherwise tagged; the priority
//! is kept as long as there is a tag.
//! Invariant: a tag is never removed from a frame that has another 0x8100 tag below, because the
//! receiver would read that as the frame's VLAN (double tagging). Such a frame is dropped.
//! See IEEE 802.1Q-2022, 6.9, 8.6.2, 8.6.4, 9.6.

use crate::PortNumber;
use crate::address::Mac;
use crate::drops::Drop;
use crate::rules::{SwitchRules, VlanMode};
use crate::vlan::Vid;

/// Bytes of the shortest frame accepted: an Ethernet header. There is no padding to 60.
pub const SHORTEST_FRAME: usize = 14;

/// Bytes of the longest frame accepted: a packet of 64 KiB less one, an Ethernet header and
/// two tags.
pub const LONGEST_FRAME: usize = 65_535 + 14 + 8;

const TAGGED: [u8; 2] = [0x81, 0x00];
const VID: u16 = 0x0fff;

/// The outermost tag of a frame, with its 16 bits of priority, DEI and VLAN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tag {
    /// None.
    None,
    /// One of VLAN 0: only a priority.
    Priority(u16),
    /// One of a VLAN.
    Vlan(u16),
}

/// How a frame was classified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Class {
    /// Its VLAN; `None` on a switch that knows no VLANs.
    pub vid: Option<Vid>,
    /// Its tag. Always `None` on a switch that knows no VLANs.
    pub tag: Tag,
    /// Whether another tag of 0x8100 follows.
    pub stacked: bool,
}

impl Class {
    /// The class of every frame on a switch that knows no VLANs.
    pub const PLAIN: Class = Class { vid: None, tag: Tag::None, stacked: false };
}

/// How to change a frame's tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retag {
    /// Nothing.
    Keep,
    /// Insert a tag with these 16 bits.
    Push(u16),
    /// Remove the tag.
    Pop,
    /// Replace the tag's 16 bits with these.
    Replace(u16),
}

/// Classifies a frame by the rules of the port that sent it; or says why it is dropped.
#[inline]
pub fn classify(
    rules: &SwitchRules,
    sender: PortNumber,
    frame: &[u8],
) -> std::result::Result<Class, Drop> {
    if frame.len() < SHORTEST_FRAME {
        return Err(Drop::Runt);
    }
    if frame.len() > LONGEST_FRAME {
        return Err(Drop::Oversize);
    }
    let source = Mac::source(frame).ok_or(Drop::Runt)?;
    // A lock is of a port, whatever VLANs it has, and holds on a switch without VLANs, too.
    if rules.spoofed(sender, source) {
        return Err(Drop::Spoofed);
    }
    if !rules.vlan_aware() {
        return Ok(Class::PLAIN);
    }
    by_tag(&rules.port(sender).vlan, frame)
}

fn by_tag(mode: &VlanMode, frame: &[u8]) -> std::result::Result<Class, Drop> {
    let (tag, stacked) = tag(frame)?;
    let vid = match (mode, tag) {
        (VlanMode::Any, Tag::None | Tag::Priority(_)) => Some(Vid::ONE),
        (VlanMode::Access(vid), Tag::None | Tag::Priority(_)) => Some(*vid),
        (VlanMode::Trunk { native, .. }, Tag::None | Tag::Priority(_)) => *native,
        (VlanMode::Trunk { native, allowed }, Tag::Vlan(tci)) => {
            Vid::new(tci & VID).filter(|vid| *native == Some(*vid) || allowed.contains(*vid))
        }
        // A tag of the port's own VLAN makes no difference: such a port admits only frames without one.
        (VlanMode::Any | VlanMode::Access(_), Tag::Vlan(_)) => None,
    };
    let vid = vid.ok_or(Drop::Vlan)?;
    Ok(Class { vid: Some(vid), tag, stacked })
}

/// The outermost tag, and whether another one follows it.
fn tag(frame: &[u8]) -> std::result::Result<(Tag, bool), Drop> {
    if frame.get(12..14) != Some(&TAGGED) {
        return Ok((Tag::None, false));
    }
    let Some([high, low, inner @ ..]) = frame.get(14..18) else { return Err(Drop::Runt) };
    let tci = u16::from_be_bytes([*high, *low]);
    let tag = if tci & VID == 0 { Tag::Priority(tci) } else { Tag::Vlan(tci) };
    Ok((tag, inner == TAGGED))
}

/// In which form a port gets a frame; or why it does not get it.
#[inline]
pub fn egress(
    rules: &SwitchRules,
    receiver: PortNumber,
    class: Class,
) -> std::result::Result<Retag, Drop> {
    let Some(vid) = class.vid else { return Ok(Retag::Keep) };
    let (untagged, allowed) = match &rules.port(receiver).vlan {
        VlanMode::Any => (Some(Vid::ONE), None),
        VlanMode::Access(of) => (Some(*of), None),
        VlanMode::Trunk { native, allowed } => (*native, Some(allowed)),
    };
    if untagged == Some(vid) {
        return match class.tag {
            Tag::None => Ok(Retag::Keep),
            // The receiver would take the inner tag for the frame's VLAN.
            _ if class.stacked => Err(Drop::Vlan),
            _ => Ok(Retag::Pop),
        };
    }
    if !allowed.is_some_and(|set| set.contains(vid)) {
        return Err(Drop::Vlan);
    }
    Ok(match class.tag {
        // A frame that comes without a tag has priority 0.
        Tag::None => Retag::Push(vid.number()),
        // Only the VLAN is missing in such a tag: the sender's priority stays.
        Tag::Priority(tci) => Retag::Replace(tci & !VID | vid.number()),
        Tag::Vlan(_) => Retag::Keep,
    })
}

#[cfg(test)]
mod tests;
