//! Classifies a frame at its sender's port, and decides in which form a receiver's port gets it.
//!
//! Ingress: an access port accepts only untagged and priority-tagged frames ("admit only
//! VLAN-untagged and priority-tagged frames"), a trunk tagged ones of its VLANs and, with a native
//! VLAN, untagged ones. Egress: untagged in the access or native VLAN, otherwise tagged; the priority
//! is kept as long as there is a tag. A QinQ port takes its customer's frames as they are, tags included: on trunks
//! the VLAN's tag comes around them, also in the native VLAN, and other QinQ ports of the VLAN get them without it.
//! Invariant: but for QinQ ports, no port gets a frame without its VLAN's tag that has another one, because the
//! receiver would read that as the frame's VLAN (double tagging). Such a frame is dropped.
//! See IEEE 802.1Q-2022, 6.9, 8.6.2, 8.6.4, 9.6, and 15.3 (a port's service), 15.4 (that of customers' VLANs).

use crate::PortNumber;
use crate::address::Mac;
use crate::drops::Drop;
use crate::rules::{SwitchRules, VlanMode};
use crate::tpid::Tpid;
use crate::vlan::{Vid, VidSet};

/// Bytes of the shortest frame accepted: an Ethernet header. There is no padding to 60.
pub const SHORTEST_FRAME: usize = 14;

/// Bytes of the longest frame accepted: a packet of 64 KiB less one, an Ethernet header and
/// two tags.
pub const LONGEST_FRAME: usize = 65_535 + 14 + 8;

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
    /// Its tag of the switch's VLANs. Always `None` on a switch that knows no VLANs.
    pub tag: Tag,
    /// The VLAN of the tag after that one, if there is one: a customer's.
    pub inner: Option<u16>,
    /// Of a frame from a QinQ port: the type of the tag that it gets around it.
    pub service: Option<Tpid>,
}

impl Class {
    /// The class of every frame on a switch that knows no VLANs.
    pub const PLAIN: Class = Class { vid: None, tag: Tag::None, inner: None, service: None };
}

/// How to change a frame's tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retag {
    /// Nothing.
    Keep,
    /// Insert a tag of this type with these 16 bits.
    Push(Tpid, u16),
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
    let (tag, inner) = tags(frame)?;
    let vid = match (mode, tag) {
        (VlanMode::Any, Tag::None | Tag::Priority(_)) => Some(Vid::ONE),
        (VlanMode::Access(vid), Tag::None | Tag::Priority(_)) => Some(*vid),
        (VlanMode::Trunk { native, .. }, Tag::None | Tag::Priority(_)) => *native,
        (VlanMode::Trunk { native, allowed }, Tag::Vlan(tci)) => {
            Vid::new(tci & VID).filter(|vid| *native == Some(*vid) || allowed.contains(*vid))
        }
        // A tag of the port's own VLAN makes no difference: such a port admits only frames without one.
        (VlanMode::Any | VlanMode::Access(_), Tag::Vlan(_)) => None,
        (VlanMode::Qinq { vid, cvlans, tpid }, _) => {
            // All its tags are the customer's.
            let inner = match tag {
                Tag::Vlan(tci) | Tag::Priority(tci) => Some(tci & VID),
                Tag::None => None,
            };
            return match takes(cvlans.as_ref(), inner) {
                true => Ok(Class { vid: Some(*vid), tag: Tag::None, inner, service: Some(*tpid) }),
                false => Err(Drop::Vlan),
            };
        }
    };
    let vid = vid.ok_or(Drop::Vlan)?;
    Ok(Class { vid: Some(vid), tag, inner, service: None })
}

/// Whether a QinQ port takes and gets frames of a customer's VLAN.
fn takes(cvlans: Option<&VidSet>, inner: Option<u16>) -> bool {
    cvlans.is_none_or(|of| inner.and_then(Vid::new).is_some_and(|vid| of.contains(vid)))
}

/// The outermost tag, and the VLAN of the one that follows it.
fn tags(frame: &[u8]) -> std::result::Result<(Tag, Option<u16>), Drop> {
    let Some(tci) = tag_at(frame, 12)? else { return Ok((Tag::None, None)) };
    let tag = if tci & VID == 0 { Tag::Priority(tci) } else { Tag::Vlan(tci) };
    // Of a tag that the frame ends in, the VLAN is of no port.
    let inner = tag_at(frame, 16).unwrap_or(Some(VID));
    Ok((tag, inner.map(|tci| tci & VID)))
}

/// The 16 bits of the tag whose type is at this place, if it is one.
fn tag_at(frame: &[u8], at: usize) -> std::result::Result<Option<u16>, Drop> {
    let word = |at: usize| Some(u16::from_be_bytes(*frame.get(at..)?.first_chunk()?));
    if word(at).and_then(Tpid::new).is_none() {
        return Ok(None);
    }
    // What is tagged has a type of its own.
    word(at + 4).and(word(at + 2)).ok_or(Drop::Runt).map(Some)
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
        VlanMode::Trunk { native, allowed } => match class.service {
            None => (*native, Some(allowed)),
            // Without the tag around it, its own would be read as one of the switch's VLANs.
            Some(tpid) if *native == Some(vid) || allowed.contains(vid) => {
                return Ok(Retag::Push(tpid, vid.number()));
            }
            Some(_) => return Err(Drop::Vlan),
        },
        VlanMode::Qinq { vid: of, cvlans, .. } => {
            let gets = *of == vid && takes(cvlans.as_ref(), class.inner);
            let how = if class.tag == Tag::None { Retag::Keep } else { Retag::Pop };
            return if gets { Ok(how) } else { Err(Drop::Vlan) };
        }
    };
    if untagged == Some(vid) {
        return match class.tag {
            // The receiver would take the inner tag for the frame's VLAN.
            _ if class.inner.is_some() => Err(Drop::Vlan),
            Tag::None => Ok(Retag::Keep),
            _ => Ok(Retag::Pop),
        };
    }
    if !allowed.is_some_and(|set| set.contains(vid)) {
        return Err(Drop::Vlan);
    }
    Ok(match class.tag {
        // A frame that comes without a tag has priority 0.
        Tag::None => Retag::Push(Tpid::CUSTOMER, vid.number()),
        // Only the VLAN is missing in such a tag: the sender's priority stays.
        Tag::Priority(tci) => Retag::Replace(tci & !VID | vid.number()),
        Tag::Vlan(_) => Retag::Keep,
    })
}

#[cfg(test)]
mod tests;
