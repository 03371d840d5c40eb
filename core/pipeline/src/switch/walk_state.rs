//! A packet's path so far, and the cost that is left to it.

use std::collections::BTreeMap;

use netloom_openflow::packet::PacketInReason;
use netloom_openflow::{Action, Field};

use super::Outputs;
use super::notify::Notice;
use crate::group::{Asking, Groups};
use crate::packet::Packet;
use crate::rule::Time;
use crate::trace::{Drop, Effect, Trace};

/// Actions that one packet may cause, tables that it may go through, with one more for this many masks of their entries,
/// buckets that are looked at for it, copies of it and frames that it becomes; and bytes of these copies and frames.
const MOST_ACTIONS: usize = 16_384;
const MASKS: usize = 16;
const MOST_BYTES: usize = 16 << 20;

/// What a packet's way needs besides the packet.
pub(super) struct Walk<'o> {
    pub(super) trace: Trace,
    pub(super) out: &'o mut Outputs,
    pub(super) now: Time,
    /// Why a controller gets the packet, if it does.
    pub(super) notice: Notice,
    /// Whether the tables may be an output: in packet-outs.
    pub(super) tables: bool,
    pub(super) depth: usize,
    pub(super) left: usize,
    bytes_left: usize,
    /// A header was removed: what is behind it is not in the key.
    pub(super) opened: bool,
    /// Bytes of the packet as it came in.
    pub(super) length: usize,
}

impl<'o> Walk<'o> {
    pub(super) fn new(length: usize, now: Time, out: &'o mut Outputs) -> Walk<'o> {
        let reason = PacketInReason::Action;
        let notice = Notice { reason, table: 0, cookie: u64::MAX, max_len: None, only_10: false };
        Walk {
            trace: Trace::default(),
            out,
            now,
            notice,
            length,
            tables: false,
            depth: 0,
            left: MOST_ACTIONS,
            bytes_left: MOST_BYTES,
            opened: false,
        }
    }

    /// By how many bytes a packet has grown.
    pub(super) fn grown(&self, packet: &Packet) -> i64 {
        let bytes = |of: usize| i64::try_from(of).unwrap_or(i64::MAX);
        bytes(packet.bytes().len()) - bytes(self.length)
    }

    pub(super) fn drop(&mut self, why: Drop) {
        self.trace.drops.push(why);
    }

    /// Whether there may be another copy of this many bytes, which is then counted.
    pub(super) fn may_copy(&mut self, bytes: usize) -> bool {
        match (self.left.checked_sub(1), self.bytes_left.checked_sub(bytes)) {
            (Some(left), Some(bytes)) => {
                (self.left, self.bytes_left) = (left, bytes);
                true
            }
            _ => {
                self.limit();
                false
            }
        }
    }

    /// Whether it may be looked up in a table whose entries have this many masks, which is then counted.
    pub(super) fn may_look(&mut self, masks: usize) -> bool {
        match self.left.checked_sub(1 + masks / MASKS) {
            Some(left) => self.left = left,
            None => self.limit(),
        }
        self.left > 0
    }

    /// It makes more work than one packet may; how much depends on its length, too.
    pub(super) fn limit(&mut self) {
        self.left = 0;
        self.trace.only_this("it makes more work than one packet may");
        if self.trace.drops.last() != Some(&Drop::Limit) {
            self.drop(Drop::Limit);
        }
    }

    /// Asks which buckets are live.
    pub(super) fn asking<'a, U>(&'a mut self, groups: &'a Groups, up: U) -> Asking<'a, U> {
        let (asked, left) = (&mut self.trace.asked, &mut self.left);
        Asking { groups, up, asked, left, known: BTreeMap::new() }
    }

    /// An edit: what decides whether it does anything is consulted.
    pub(super) fn edit(&mut self, action: &Action) {
        let consulted = &mut self.trace.consulted;
        consulted.include(Field::EthType, Field::EthType.full());
        consulted.include(Field::IpProto, Field::IpProto.full());
        consulted.include(Field::VlanVid, netloom_openflow::matching::VID_PRESENT);
        match action {
            // The fields copied into the new header.
            Action::PushVlan(_) | Action::PushMpls(_) | Action::PushPbb(_) => {
                for field in [
                    Field::VlanVid,
                    Field::VlanPcp,
                    Field::MplsLabel,
                    Field::MplsTc,
                    Field::MplsBos,
                    Field::PbbIsid,
                ] {
                    consulted.include(field, field.full());
                }
            }
            Action::PopVlan | Action::StripVlan | Action::PopMpls(_) | Action::PopPbb => {
                self.opened = true;
            }
            Action::SetField(oxm) => match oxm.field {
                Field::EthType | Field::IpProto | Field::Icmpv6Type | Field::MplsBos => {
                    self.opened = true;
                }
                Field::Ipv6NdTarget | Field::Ipv6NdSll | Field::Ipv6NdTll => self.opened = true,
                _ => {}
            },
            _ => {}
        }
        self.trace.effects.push(Effect::Edit(action.clone()));
    }
}
