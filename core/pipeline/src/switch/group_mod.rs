//! Changes of groups and meters (sections 6.5 and 6.6, 7.3.4.2, 7.3.4.4).

use netloom_openflow::action::{GROUP_ALL, GROUP_ANY, GROUP_MAX};
use netloom_openflow::flow::RemovedReason;
use netloom_openflow::group::{GroupCommand, GroupMod, GroupType};
use netloom_openflow::meter::{
    BandKind, METER_ALL, METER_CONTROLLER, METER_MAX, METER_SLOWPATH, MeterCommand, MeterFlags,
    MeterMod,
};
use netloom_openflow::{Bucket, PortNumber, Reason, Version};

use super::task::{Chosen, Gone, Task};
use super::{Change, ConnectionId, Outputs, Switch};
use crate::check;
use crate::group::Group;
use crate::meter::Meter;
use crate::rule::Time;
use crate::uses;

/// Buckets that a group may have.
const MOST_BUCKETS: usize = 2048;
/// Bands that a meter may have.
pub(super) const MOST_BANDS: u8 = 16;

impl Switch {
    pub(super) fn group_mod(
        &mut self,
        id: ConnectionId,
        xid: u32,
        change: GroupMod,
        now: Time,
        out: &mut Outputs,
    ) -> Result<(), Reason> {
        let number = change.group;
        match change.command {
            GroupCommand::Delete => {
                let (gone, users) = self.delete_groups(number)?;
                let gone = Task::Forget(gone, users, RemovedReason::GroupDelete);
                self.forget_with_users((id, xid), gone, now, out);
            }
            GroupCommand::Add if self.groups.0.contains_key(&number) => {
                return Err(Reason::GroupModFailedGroupExists);
            }
            GroupCommand::Modify if !self.groups.0.contains_key(&number) => {
                return Err(Reason::GroupModFailedUnknownGroup);
            }
            GroupCommand::Add | GroupCommand::Modify => {
                let old = self.groups.0.get(&number);
                let created = old.map_or(now, |group| group.created);
                // A modification keeps the group's own counters and resets those of its buckets (section 6.5).
                let counters = old.map_or((0, 0), |group| (group.packets, group.bytes));
                // Everything is checked before the old group goes: a refused modification leaves it as it
                // was.
                let mut group = self.checked_group(change, created)?;
                (group.packets, group.bytes) = counters;
                self.uses.group_comes(&group);
                if let Some(old) = self.groups.0.insert(number, group) {
                    self.uses.group_goes(&old);
                }
                self.note(Change::Group(number));
            }
            GroupCommand::Other(_) => return Err(Reason::GroupModFailedBadCommand),
        }
        self.changed();
        Ok(())
    }

    fn checked_group(&self, change: GroupMod, created: Time) -> Result<Group, Reason> {
        let GroupMod { kind, group: number, buckets, .. } = change;
        if number > GROUP_MAX {
            return Err(Reason::GroupModFailedInvalidGroup);
        }
        let is_another = self.groups.0.get(&number).is_none_or(|old| old.kind != kind);
        let alike = self.uses.kinds.of(u8::from(kind).into());
        if is_another && alike >= self.options.max_groups {
            return Err(Reason::GroupModFailedOutOfGroups);
        }
        if buckets.len() > MOST_BUCKETS {
            return Err(Reason::GroupModFailedOutOfBuckets);
        }
        let old = self.groups.0.get(&number).map(|group| uses::of_buckets(&group.buckets));
        if !self.has_memory(old.unwrap_or(0), uses::of_buckets(&buckets)) {
            return Err(match old {
                Some(_) => Reason::GroupModFailedOutOfBuckets,
                None => Reason::GroupModFailedOutOfGroups,
            });
        }
        if kind == GroupType::Indirect && buckets.len() != 1 {
            return Err(Reason::GroupModFailedInvalidGroup);
        }
        for bucket in &buckets {
            check_bucket(kind, bucket)?;
            self.check_watched(number, bucket)?;
        }
        let group = Group::new(kind, &buckets, created);
        // A loop is told before a group that does not exist yet: it may be itself.
        self.check_loops(number, &group)?;
        for bucket in &group.buckets {
            check::refuse_experimenters(&bucket.actions)?;
            self.check_actions(&bucket.actions, Version::V13, false)?;
        }
        Ok(group)
    }

    /// Whether a group with these buckets would go through itself.
    pub(super) fn check_loops(&self, number: u32, group: &Group) -> Result<(), Reason> {
        let loops = match self.uses.chained.of(number) {
            // No other leads to it.
            0 => Some(group.chained().any(|other| other == number)),
            _ => self.groups.would_loop(number, group),
        };
        match loops {
            Some(false) => Ok(()),
            Some(true) => Err(Reason::GroupModFailedLoop),
            None => Err(Reason::GroupModFailedChainingUnsupported),
        }
    }

    fn check_watched(&self, number: u32, bucket: &Bucket) -> Result<(), Reason> {
        let group = bucket.watch_group;
        let known = group == GROUP_ANY || group == number || self.groups.0.contains_key(&group);
        let port = bucket.watch_port;
        let usable = port == PortNumber::ANY || port == PortNumber::LOCAL || !port.is_reserved();
        if known && usable { Ok(()) } else { Err(Reason::GroupModFailedBadWatch) }
    }

    /// Removes a group, or all; returns them, and which entries use them. Deleting what does not exist is not an error.
    fn delete_groups(&mut self, number: u32) -> Result<(Gone, Chosen), Reason> {
        let (gone, used) = match number {
            GROUP_ALL => {
                self.uses.all_groups_leave();
                (std::mem::take(&mut self.groups.0), self.uses.groups.used().collect())
            }
            _ if number > GROUP_MAX => return Err(Reason::GroupModFailedInvalidGroup),
            _ if self.uses.chained.of(number) > 0 && self.groups.0.contains_key(&number) => {
                return Err(Reason::GroupModFailedChainedGroup);
            }
            _ => {
                let gone = self.groups.0.remove(&number);
                gone.iter().for_each(|group| self.uses.group_leaves(group));
                let is_used = gone.is_some() && self.uses.groups.of(number) > 0;
                let used = is_used.then_some(number).into_iter().collect();
                (gone.map(|group| (number, group)).into_iter().collect(), used)
            }
        };
        Ok((Gone::Groups(gone), Chosen::Groups(used)))
    }

    /// Forgets what is gone, and removes the entries that use it: at once, or some at a time.
    fn forget_with_users(
        &mut self,
        (id, xid): (ConnectionId, u32),
        task: Task,
        now: Time,
        out: &mut Outputs,
    ) {
        let at_once = matches!(&task, Task::Forget(gone, ..) if self.are_few(gone));
        // Only 1.3 has groups and meters.
        self.begin_job(id, Version::V13, xid, task);
        if at_once {
            self.finish(id, now, out);
        }
    }

    pub(super) fn meter_mod(
        &mut self,
        id: ConnectionId,
        xid: u32,
        change: MeterMod,
        now: Time,
        out: &mut Outputs,
    ) -> Result<(), Reason> {
        let number = change.meter;
        match change.command {
            MeterCommand::Delete => {
                let (gone, users) = self.delete_meters(number);
                let gone = Task::Forget(gone, users, RemovedReason::Delete);
                self.forget_with_users((id, xid), gone, now, out);
            }
            MeterCommand::Add if self.meters.contains_key(&number) => {
                return Err(Reason::MeterModFailedMeterExists);
            }
            MeterCommand::Modify if !self.meters.contains_key(&number) => {
                return Err(Reason::MeterModFailedUnknownMeter);
            }
            MeterCommand::Add | MeterCommand::Modify => {
                self.check_meter(&change)?;
                let mut meter = Meter::new(change.flags, &change.bands, now);
                let freed = self.meters.get(&number).map_or(0, uses::of_meter);
                if !self.has_memory(freed, uses::of_meter(&meter)) {
                    return Err(Reason::MeterModFailedOutOfMeters);
                }
                if let Some(old) = self.meters.get(&number) {
                    self.uses.meter_goes(old);
                    (meter.created, meter.packets, meter.bytes) =
                        (old.created, old.packets, old.bytes);
                }
                self.uses.meter_comes(&meter);
                self.meters.insert(number, meter);
                self.note(Change::Meter(number));
            }
            MeterCommand::Other(_) => return Err(Reason::MeterModFailedBadCommand),
        }
        self.changed();
        Ok(())
    }

    /// Removes a meter, or all; returns them, and which entries use them. Deleting what does not exist is not an error.
    fn delete_meters(&mut self, number: u32) -> (Gone, Chosen) {
        let (gone, used) = match number {
            METER_ALL => (std::mem::take(&mut self.meters), self.uses.meters.used().collect()),
            _ => {
                let gone = self.meters.remove(&number);
                let is_used = gone.is_some() && self.uses.meters.of(number) > 0;
                let used = is_used.then_some(number).into_iter().collect();
                (gone.map(|meter| (number, meter)).into_iter().collect(), used)
            }
        };
        (Gone::Meters(gone), Chosen::Meters(used))
    }

    fn check_meter(&self, change: &MeterMod) -> Result<(), Reason> {
        let reserved = matches!(change.meter, METER_CONTROLLER | METER_SLOWPATH);
        if change.meter == 0 || change.meter > METER_MAX && !reserved {
            return Err(Reason::MeterModFailedInvalidMeter);
        }
        let full = self.meters.len() >= usize::try_from(self.options.max_meters).unwrap_or(0);
        if full && !self.meters.contains_key(&change.meter) {
            return Err(Reason::MeterModFailedOutOfMeters);
        }
        let (kilobits, packets) =
            (change.flags.has(MeterFlags::KBPS), change.flags.has(MeterFlags::PKTPS));
        if kilobits && packets {
            return Err(Reason::MeterModFailedBadFlags);
        }
        if change.bands.len() > usize::from(MOST_BANDS) {
            return Err(Reason::MeterModFailedOutOfBands);
        }
        for band in &change.bands {
            match band.kind {
                BandKind::Experimenter { .. } => return Err(Reason::MeterModFailedBadBand),
                BandKind::DscpRemark(0) => return Err(Reason::MeterModFailedBadBandValue),
                _ if band.rate == 0 => return Err(Reason::MeterModFailedBadRate),
                _ => {}
            }
        }
        Ok(())
    }
}

fn check_bucket(kind: GroupType, bucket: &Bucket) -> Result<(), Reason> {
    let watches = bucket.watch_port != PortNumber::ANY || bucket.watch_group != GROUP_ANY;
    match kind {
        GroupType::FastFailover if !watches => Err(Reason::GroupModFailedBadWatch),
        GroupType::Select => Ok(()),
        // A weight is for groups that select; Open vSwitch's tools send 1.
        _ if bucket.weight > 1 => Err(Reason::GroupModFailedInvalidGroup),
        _ => Ok(()),
    }
}
