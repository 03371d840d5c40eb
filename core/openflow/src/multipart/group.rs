//! Groups: counters, descriptions, features (sections 7.3.5.9 to 7.3.5.11).

use crate::flow::Duration;
use crate::group::{Bucket, GroupType};
use crate::wire::{Encoded, Reader, Result, Writer};

/// Counters of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupStats {
    /// The group.
    pub group: u32,
    /// How many flow entries and groups refer to it.
    pub references: u32,
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
    /// How long it exists.
    pub duration: Duration,
    /// Packets and bytes of each bucket.
    pub buckets: Vec<(u64, u64)>,
}

impl GroupStats {
    pub(super) fn read(r: &mut Reader<'_>) -> Result<GroupStats> {
        let mut r = r.sized(0, 40)?;
        let r = &mut r;
        r.skip(4)?;
        let (group, references) = (r.u32()?, r.u32()?);
        r.skip(4)?;
        Ok(GroupStats {
            group,
            references,
            packets: r.u64()?,
            bytes: r.u64()?,
            duration: Duration::read(r)?,
            buckets: r.all(|r| Ok((r.u64()?, r.u64()?)))?,
        })
    }

    pub(super) fn write(&self, w: &mut Writer) -> Encoded {
        let start = w.len();
        w.zeros(4);
        w.u32(self.group);
        w.u32(self.references);
        w.zeros(4);
        w.u64(self.packets);
        w.u64(self.bytes);
        self.duration.write(w);
        for (packets, bytes) in &self.buckets {
            w.u64(*packets);
            w.u64(*bytes);
        }
        w.set_length(start, start, "statistics of a group")
    }
}

/// A group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupDesc {
    /// What it does with its buckets.
    pub kind: GroupType,
    /// Its number.
    pub group: u32,
    /// Its buckets.
    pub buckets: Vec<Bucket>,
}

impl GroupDesc {
    pub(super) fn read(r: &mut Reader<'_>) -> Result<GroupDesc> {
        let mut r = r.sized(0, 8)?;
        r.skip(2)?;
        let kind = r.u8()?.into();
        r.skip(1)?;
        Ok(GroupDesc { kind, group: r.u32()?, buckets: r.all(Bucket::read)? })
    }

    pub(super) fn write(&self, w: &mut Writer) -> Encoded {
        let start = w.len();
        w.zeros(2);
        w.u8(self.kind.into());
        w.zeros(1);
        w.u32(self.group);
        self.buckets.iter().try_for_each(|bucket| bucket.write(w))?;
        w.set_length(start, start, "description of a group")
    }
}

flags! {
    /// OFPGFC_*.
    GroupCapabilities: u32 {
        /// Weights of buckets count.
        SELECT_WEIGHT = 1,
        /// Groups that select take live buckets.
        SELECT_LIVENESS = 1 << 1,
        /// Groups may refer to groups.
        CHAINING = 1 << 2,
        /// Loops of groups are refused.
        CHAINING_CHECKS = 1 << 3,
    }
}

/// What groups can be; arrays by the number of the type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupFeatures {
    /// A bit for each type.
    pub types: u32,
    /// What they can do.
    pub capabilities: GroupCapabilities,
    /// How many groups of each type there can be.
    pub max_groups: [u32; 4],
    /// A bit for each action by number.
    pub actions: [u32; 4],
}

impl GroupFeatures {
    pub(super) fn read(r: &mut Reader<'_>) -> Result<GroupFeatures> {
        let (types, capabilities) = (r.u32()?, GroupCapabilities(r.u32()?));
        let mut four = || Ok([r.u32()?, r.u32()?, r.u32()?, r.u32()?]);
        Ok(GroupFeatures { types, capabilities, max_groups: four()?, actions: four()? })
    }

    pub(super) fn write(&self, w: &mut Writer) {
        w.u32(self.types);
        w.u32(self.capabilities.0);
        for number in [self.max_groups, self.actions].as_flattened() {
            w.u32(*number);
        }
    }
}
