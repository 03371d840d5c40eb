//! Actions (section 7.2.5; 1.0.0 section 5.2.4).
//!
//! One type has the actions of both versions; encoding refuses those that a version lacks. Table features
//! list actions without their arguments: [`ActionId`].

use crate::error::Reason;
use crate::matching::{Field, Oxm};
use crate::port::PortNumber;
use crate::wire::{Encoded, Fail, Reader, Result, Writer, fail};

/// The length limit that sends whole packets to the controller (OFPCML_NO_BUFFER, 1.3).
pub const NO_BUFFER: u16 = 0xffff;
/// The group that stands for all (OFPG_ALL).
pub const GROUP_ALL: u32 = 0xffff_fffc;
/// The group that stands for any (OFPG_ANY).
pub const GROUP_ANY: u32 = 0xffff_ffff;
/// No group has a greater number (OFPG_MAX).
pub const GROUP_MAX: u32 = 0xffff_ff00;

/// OFPAT_*.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Send by a port.
    Output {
        /// The port.
        port: PortNumber,
        /// How many bytes a controller gets.
        max_len: u16,
    },
    /// Set the VLAN id, adding a tag if there is none (1.0).
    SetVlanVid(u16),
    /// Set the VLAN priority, adding a tag if there is none (1.0).
    SetVlanPcp(u8),
    /// Remove the tag, if there is one (1.0).
    StripVlan,
    /// Set the source MAC address (1.0).
    SetDlSrc([u8; 6]),
    /// Set the destination MAC address (1.0).
    SetDlDst([u8; 6]),
    /// Set the IPv4 source address (1.0).
    SetNwSrc(u32),
    /// Set the IPv4 destination address (1.0).
    SetNwDst(u32),
    /// Set the DSCP in the upper six bits (1.0).
    SetNwTos(u8),
    /// Set the source port of TCP or UDP (1.0).
    SetTpSrc(u16),
    /// Set the destination port of TCP or UDP (1.0).
    SetTpDst(u16),
    /// Send by a queue of a port (1.0).
    Enqueue {
        /// The port.
        port: PortNumber,
        /// The queue.
        queue: u32,
    },
    /// Copy the TTL from the inner header to the outermost (1.3).
    CopyTtlOut,
    /// Copy the TTL from the outermost header to the inner (1.3).
    CopyTtlIn,
    /// Set the MPLS TTL (1.3).
    SetMplsTtl(u8),
    /// Decrement the MPLS TTL (1.3).
    DecMplsTtl,
    /// Add a VLAN tag with this ethertype (1.3).
    PushVlan(u16),
    /// Remove the outermost VLAN tag (1.3).
    PopVlan,
    /// Add an MPLS label with this ethertype (1.3).
    PushMpls(u16),
    /// Remove the outermost MPLS label; the packet then has this ethertype (1.3).
    PopMpls(u16),
    /// Use this queue for outputs that follow (1.3).
    SetQueue(u32),
    /// Go through a group (1.3).
    Group(u32),
    /// Set the IP TTL (1.3).
    SetNwTtl(u8),
    /// Decrement the IP TTL (1.3).
    DecNwTtl,
    /// Set a field; it has no mask (1.3).
    SetField(Oxm),
    /// Add a PBB service tag with this ethertype (1.3).
    PushPbb(u16),
    /// Remove the outermost PBB service tag (1.3).
    PopPbb,
    /// An experimenter's; in 1.0 a vendor's.
    Experimenter {
        /// Its number.
        experimenter: u32,
        /// The rest.
        data: Vec<u8>,
    },
}

impl Action {
    /// Send by a port, whole.
    pub const fn output(port: PortNumber) -> Action {
        Action::Output { port, max_len: NO_BUFFER }
    }

    fn read(r: &mut Reader<'_>) -> Result<Action> {
        let mut r = r.sized(2, 8)?;
        let whole = r.remaining();
        // Padding to 64 bits is part of the length (section 7.2.5).
        if !whole.is_multiple_of(8) {
            return r.too_short();
        }
        let kind = r.u16()?;
        r.skip(2)?;
        let action = match kind {
            // Both versions give experimenters this number, before any of their own.
            0xffff => Action::Experimenter { experimenter: r.u32()?, data: r.rest() },
            _ if r.is_10() => read_10(kind, &mut r)?,
            _ => read_13(kind, &mut r)?,
        };
        r.finish()?;
        Ok(action)
    }

    fn write(&self, w: &mut Writer) -> Encoded {
        let start = w.len();
        let Some(number) = ActionId::of(self).number(w.version) else {
            return w.lacks("action");
        };
        w.u16(number);
        w.zeros(2);
        self.write_body(w)?;
        w.set_length(start, start + 2, "action")
    }

    fn write_body(&self, w: &mut Writer) -> Encoded {
        match self {
            Action::Output { port, max_len } => {
                port.write(w)?;
                w.u16(*max_len);
                // Its port has 16 bits in 1.0, where the action has 8 bytes; 1.3 pads it to 16.
                w.zeros(if w.is_10() { 0 } else { 6 });
            }
            Action::SetVlanVid(value)
            | Action::SetTpSrc(value)
            | Action::SetTpDst(value)
            | Action::PushVlan(value)
            | Action::PushMpls(value)
            | Action::PopMpls(value)
            | Action::PushPbb(value) => {
                w.u16(*value);
                w.zeros(2);
            }
            Action::SetVlanPcp(value)
            | Action::SetNwTos(value)
            | Action::SetMplsTtl(value)
            | Action::SetNwTtl(value) => {
                w.u8(*value);
                w.zeros(3);
            }
            Action::SetDlSrc(address) | Action::SetDlDst(address) => {
                w.bytes(address);
                w.zeros(6);
            }
            Action::SetNwSrc(value)
            | Action::SetNwDst(value)
            | Action::SetQueue(value)
            | Action::Group(value) => w.u32(*value),
            Action::Enqueue { port, queue } => {
                port.write(w)?;
                w.zeros(6);
                w.u32(*queue);
            }
            Action::StripVlan
            | Action::CopyTtlOut
            | Action::CopyTtlIn
            | Action::DecMplsTtl
            | Action::PopVlan
            | Action::DecNwTtl
            | Action::PopPbb => w.zeros(4),
            Action::SetField(oxm) => {
                // The length to pad counts from the action's header.
                let start = w.len() - 4;
                oxm.write(w);
                w.pad8(start);
            }
            Action::Experimenter { experimenter, data } => {
                w.u32(*experimenter);
                w.bytes(data);
            }
        }
        Ok(())
    }
}

fn u16_padded(r: &mut Reader<'_>) -> Result<u16> {
    let value = r.u16()?;
    r.skip(2)?;
    Ok(value)
}

fn u8_padded(r: &mut Reader<'_>) -> Result<u8> {
    let value = r.u8()?;
    r.skip(3)?;
    Ok(value)
}

fn mac_padded(r: &mut Reader<'_>) -> Result<[u8; 6]> {
    let address = r.array()?;
    r.skip(6)?;
    Ok(address)
}

fn without_argument(r: &mut Reader<'_>, action: Action) -> Result<Action> {
    r.skip(4)?;
    Ok(action)
}

fn read_10(kind: u16, r: &mut Reader<'_>) -> Result<Action> {
    Ok(match kind {
        0 => Action::Output { port: PortNumber::read(r)?, max_len: r.u16()? },
        1 => Action::SetVlanVid(u16_padded(r)?),
        2 => Action::SetVlanPcp(u8_padded(r)?),
        3 => without_argument(r, Action::StripVlan)?,
        4 => Action::SetDlSrc(mac_padded(r)?),
        5 => Action::SetDlDst(mac_padded(r)?),
        6 => Action::SetNwSrc(r.u32()?),
        7 => Action::SetNwDst(r.u32()?),
        8 => Action::SetNwTos(u8_padded(r)?),
        9 => Action::SetTpSrc(u16_padded(r)?),
        10 => Action::SetTpDst(u16_padded(r)?),
        11 => {
            let port = PortNumber::read(r)?;
            r.skip(6)?;
            Action::Enqueue { port, queue: r.u32()? }
        }
        _ => return fail(Reason::BadActionBadType, "action: unknown type"),
    })
}

fn read_13(kind: u16, r: &mut Reader<'_>) -> Result<Action> {
    Ok(match kind {
        0 => {
            let (port, max_len) = (PortNumber::read(r)?, r.u16()?);
            r.skip(6)?;
            Action::Output { port, max_len }
        }
        11 => without_argument(r, Action::CopyTtlOut)?,
        12 => without_argument(r, Action::CopyTtlIn)?,
        15 => Action::SetMplsTtl(u8_padded(r)?),
        16 => without_argument(r, Action::DecMplsTtl)?,
        17 => Action::PushVlan(u16_padded(r)?),
        18 => without_argument(r, Action::PopVlan)?,
        19 => Action::PushMpls(u16_padded(r)?),
        20 => Action::PopMpls(u16_padded(r)?),
        21 => Action::SetQueue(r.u32()?),
        22 => Action::Group(r.u32()?),
        23 => Action::SetNwTtl(u8_padded(r)?),
        24 => without_argument(r, Action::DecNwTtl)?,
        25 => set_field(r)?,
        26 => Action::PushPbb(u16_padded(r)?),
        27 => without_argument(r, Action::PopPbb)?,
        _ => return fail(Reason::BadActionBadType, "action: unknown type"),
    })
}

/// Set-field has errors of its own (section 7.2.5, "Set-Field action structure").
fn set_field(r: &mut Reader<'_>) -> Result<Action> {
    let before = r.remaining();
    let oxm = Oxm::read(r).map_err(|refused| Fail {
        reason: match refused.reason {
            Reason::BadMatchBadField | Reason::BadMatchBadMask => Reason::BadActionBadSetType,
            Reason::BadMatchBadLen => Reason::BadActionBadSetLen,
            Reason::BadMatchBadValue | Reason::BadMatchBadWildcards => {
                Reason::BadActionBadSetArgument
            }
            other => other,
        },
        object: "set-field",
    })?;
    // Port and metadata are not header fields (section 7.2.5).
    if oxm.mask.is_some() || matches!(oxm.field, Field::InPort | Field::InPhyPort | Field::Metadata)
    {
        return fail(Reason::BadActionBadSetType, "set-field: a field or mask that cannot be set");
    }
    // The action's own header, 4 bytes, was read before.
    let length = 4 + before - r.remaining();
    r.pad8(length)?;
    Ok(Action::SetField(oxm))
}

/// Reads actions until nothing is left.
pub(crate) fn read_all(r: &mut Reader<'_>) -> Result<Vec<Action>> {
    let mut actions = r.of("action", Reason::BadActionBadLen);
    let all = actions.all(Action::read)?;
    // `of` copied the reader; what the copy has read is still left here.
    r.rest();
    Ok(all)
}

pub(crate) fn write_all(actions: &[Action], w: &mut Writer) -> Encoded {
    actions.iter().try_for_each(|action| action.write(w))
}

/// The kind of an action, without its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are those of the actions")]
pub enum ActionId {
    Output,
    SetVlanVid,
    SetVlanPcp,
    StripVlan,
    SetDlSrc,
    SetDlDst,
    SetNwSrc,
    SetNwDst,
    SetNwTos,
    SetTpSrc,
    SetTpDst,
    Enqueue,
    CopyTtlOut,
    CopyTtlIn,
    SetMplsTtl,
    DecMplsTtl,
    PushVlan,
    PopVlan,
    PushMpls,
    PopMpls,
    SetQueue,
    Group,
    SetNwTtl,
    DecNwTtl,
    SetField,
    PushPbb,
    PopPbb,
    Experimenter(u32),
}

impl ActionId {
    /// Every kind that 1.0 has, in the order of its numbers.
    pub const ALL_10: [ActionId; 12] = [
        ActionId::Output,
        ActionId::SetVlanVid,
        ActionId::SetVlanPcp,
        ActionId::StripVlan,
        ActionId::SetDlSrc,
        ActionId::SetDlDst,
        ActionId::SetNwSrc,
        ActionId::SetNwDst,
        ActionId::SetNwTos,
        ActionId::SetTpSrc,
        ActionId::SetTpDst,
        ActionId::Enqueue,
    ];

    /// Every kind that 1.3 has, with its number.
    pub const ALL_13: [(u16, ActionId); 16] = [
        (0, ActionId::Output),
        (11, ActionId::CopyTtlOut),
        (12, ActionId::CopyTtlIn),
        (15, ActionId::SetMplsTtl),
        (16, ActionId::DecMplsTtl),
        (17, ActionId::PushVlan),
        (18, ActionId::PopVlan),
        (19, ActionId::PushMpls),
        (20, ActionId::PopMpls),
        (21, ActionId::SetQueue),
        (22, ActionId::Group),
        (23, ActionId::SetNwTtl),
        (24, ActionId::DecNwTtl),
        (25, ActionId::SetField),
        (26, ActionId::PushPbb),
        (27, ActionId::PopPbb),
    ];

    /// The kind of an action.
    pub const fn of(action: &Action) -> ActionId {
        match action {
            Action::Output { .. } => ActionId::Output,
            Action::SetVlanVid(_) => ActionId::SetVlanVid,
            Action::SetVlanPcp(_) => ActionId::SetVlanPcp,
            Action::StripVlan => ActionId::StripVlan,
            Action::SetDlSrc(_) => ActionId::SetDlSrc,
            Action::SetDlDst(_) => ActionId::SetDlDst,
            Action::SetNwSrc(_) => ActionId::SetNwSrc,
            Action::SetNwDst(_) => ActionId::SetNwDst,
            Action::SetNwTos(_) => ActionId::SetNwTos,
            Action::SetTpSrc(_) => ActionId::SetTpSrc,
            Action::SetTpDst(_) => ActionId::SetTpDst,
            Action::Enqueue { .. } => ActionId::Enqueue,
            Action::CopyTtlOut => ActionId::CopyTtlOut,
            Action::CopyTtlIn => ActionId::CopyTtlIn,
            Action::SetMplsTtl(_) => ActionId::SetMplsTtl,
            Action::DecMplsTtl => ActionId::DecMplsTtl,
            Action::PushVlan(_) => ActionId::PushVlan,
            Action::PopVlan => ActionId::PopVlan,
            Action::PushMpls(_) => ActionId::PushMpls,
            Action::PopMpls(_) => ActionId::PopMpls,
            Action::SetQueue(_) => ActionId::SetQueue,
            Action::Group(_) => ActionId::Group,
            Action::SetNwTtl(_) => ActionId::SetNwTtl,
            Action::DecNwTtl => ActionId::DecNwTtl,
            Action::SetField(_) => ActionId::SetField,
            Action::PushPbb(_) => ActionId::PushPbb,
            Action::PopPbb => ActionId::PopPbb,
            Action::Experimenter { experimenter, .. } => ActionId::Experimenter(*experimenter),
        }
    }

    /// Its number in a version that has it.
    pub fn number(self, version: crate::Version) -> Option<u16> {
        if matches!(self, ActionId::Experimenter(_)) {
            return Some(0xffff);
        }
        match version {
            crate::Version::V10 => {
                // Its numbers have no gaps: the place in the list is the number.
                let index = ActionId::ALL_10.iter().position(|id| *id == self)?;
                u16::try_from(index).ok()
            }
            crate::Version::V13 => {
                ActionId::ALL_13.iter().find(|(_, id)| *id == self).map(|(number, _)| *number)
            }
        }
    }

    /// Reads one of table features: four bytes, and four more for an experimenter's.
    pub(crate) fn read(r: &mut Reader<'_>) -> Result<ActionId> {
        let mut r = r.sized(2, 4)?;
        let kind = r.u16()?;
        r.skip(2)?;
        let id = match kind {
            0xffff => ActionId::Experimenter(r.u32()?),
            _ => match ActionId::ALL_13.iter().find(|(number, _)| *number == kind) {
                Some((_, id)) => *id,
                None => return fail(Reason::BadActionBadType, "table features: unknown action"),
            },
        };
        r.finish()?;
        Ok(id)
    }

    pub(crate) fn write(self, w: &mut Writer) -> Encoded {
        let Some(number) = self.number(w.version) else { return w.lacks("action") };
        w.u16(number);
        match self {
            ActionId::Experimenter(experimenter) => {
                w.u16(8);
                w.u32(experimenter);
            }
            _ => w.u16(4),
        }
        Ok(())
    }
}
