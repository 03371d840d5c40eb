//! Groups (sections 5.6 and 7.3.4.2); 1.0 has none.

use crate::action::{self, Action};
use crate::error::Reason;
use crate::port::PortNumber;
use crate::wire::{Encoded, Reader, Result, Writer, fail};

numbers! {
    /// OFPGC_*.
    GroupCommand: u16 {
        /// Add a group.
        Add = 0,
        /// Change one.
        Modify = 1,
        /// Delete one, or all.
        Delete = 2,
    }
}

numbers! {
    /// OFPGT_*: what a group does with its buckets.
    GroupType: u8 {
        /// Every bucket gets a copy.
        All = 0,
        /// One bucket, chosen by the switch.
        Select = 1,
        /// The only bucket.
        Indirect = 2,
        /// The first live bucket.
        FastFailover = 3,
    }
}

/// A bucket of a group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Bucket {
    /// Its share, for groups that select.
    pub weight: u16,
    /// The port whose state decides whether it is live, or ANY.
    pub watch_port: PortNumber,
    /// The group whose state decides, or ANY.
    pub watch_group: u32,
    /// Its action set.
    pub actions: Vec<Action>,
}

impl Bucket {
    /// A bucket that watches nothing.
    pub const fn new(weight: u16, actions: Vec<Action>) -> Bucket {
        Bucket { weight, watch_port: PortNumber::ANY, watch_group: action::GROUP_ANY, actions }
    }

    pub(crate) fn read(r: &mut Reader<'_>) -> Result<Bucket> {
        let mut r = r.sized(0, 16)?;
        r.skip(2)?;
        let (weight, watch_port, watch_group) = (r.u16()?, PortNumber::read(&mut r)?, r.u32()?);
        r.skip(4)?;
        Ok(Bucket { weight, watch_port, watch_group, actions: action::read_all(&mut r)? })
    }

    pub(crate) fn write(&self, w: &mut Writer) -> Encoded {
        let start = w.len();
        w.zeros(2);
        w.u16(self.weight);
        self.watch_port.write(w)?;
        w.u32(self.watch_group);
        w.zeros(4);
        action::write_all(&self.actions, w)?;
        w.set_length(start, start, "bucket")
    }
}

/// OFPT_GROUP_MOD.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupMod {
    /// What to do.
    pub command: GroupCommand,
    /// What the group does with its buckets.
    pub kind: GroupType,
    /// The group.
    pub group: u32,
    /// Its buckets.
    pub buckets: Vec<Bucket>,
}

impl GroupMod {
    pub(crate) fn read(r: &mut Reader<'_>) -> Result<GroupMod> {
        let command = GroupCommand::from(r.u16()?);
        if let GroupCommand::Other(_) = command {
            return fail(Reason::GroupModFailedBadCommand, "group mod: unknown command");
        }
        let kind = GroupType::from(r.u8()?);
        // A deletion's type is ignored.
        if matches!(kind, GroupType::Other(_)) && command != GroupCommand::Delete {
            return fail(Reason::GroupModFailedBadType, "group mod: unknown type");
        }
        r.skip(1)?;
        let group = r.u32()?;
        let mut buckets = r.of("bucket", Reason::GroupModFailedBadBucket);
        let all = buckets.all(Bucket::read)?;
        // `of` copied the reader.
        r.rest();
        Ok(GroupMod { command, kind, group, buckets: all })
    }

    pub(crate) fn write(&self, w: &mut Writer) -> Encoded {
        w.u16(self.command.into());
        w.u8(self.kind.into());
        w.zeros(1);
        w.u32(self.group);
        self.buckets.iter().try_for_each(|bucket| bucket.write(w))
    }
}
