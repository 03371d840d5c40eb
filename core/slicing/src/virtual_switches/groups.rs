//! Groups and meters of slices: each slice has numbers of its own. A group is proved for all packets of its slice, bucket by
//! bucket; equal ones once.

use netloom_openflow::action::{GROUP_ALL, GROUP_ANY, GROUP_MAX};
use netloom_openflow::group::{GroupCommand, GroupType};
use netloom_openflow::meter::{Band, BandKind, METER_ALL, METER_MAX, MeterCommand, MeterFlags};
use netloom_openflow::{
    Action, Bucket, GroupMod, Message, MeterMod, PortNumber, Reason, Version, encode, weight,
};

use super::jobs::{Job, ORDER, Step};
use super::member::Kept;
use super::pending::Kind;
use super::tasks::Grouping;
use super::{Done, Out, Refusal, Sent, VirtualSwitches};
use crate::Work;
use crate::memory::Note;
use crate::proof::Proof;
use crate::walk::Walk;
use crate::{Quota, SliceId, Time, refusal};

/// Buckets of this many bytes in memory at most are within a message, whatever they are.
const SHORT: usize = 32 * 1024;

/// Bytes of a message that a group may take: the answer that describes it has some more.
const LONGEST: usize = u16::MAX as usize - 16;

impl Grouping {
    pub(super) fn new(change: GroupMod) -> Grouping {
        Grouping { change, buckets: vec![], actions: 0, next: 0, walk: None }
    }

    /// What it takes, when its buckets are made.
    pub(super) fn kept(&self) -> Kept<()> {
        kept(0, &self.change, &self.buckets)
    }
}

fn refuse(reason: Reason, words: impl Into<String>) -> Refusal {
    Refusal::new(reason, words)
}

fn wide(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

impl VirtualSwitches {
    pub(super) fn group_mod(
        &mut self,
        sent: &Sent,
        change: GroupMod,
        work: &mut Work,
        out: &mut Vec<Out>,
    ) -> Step {
        let member = self.of(sent.slice)?;
        let known = member.groups.get(change.group).is_some();
        match change.command {
            GroupCommand::Delete => {
                let chosen = match change.group {
                    GROUP_ALL => member.groups.all().map(|(number, _)| number).collect(),
                    one => vec![one],
                };
                return Ok(self.delete_groups(sent, chosen, work, out));
            }
            GroupCommand::Add if known => {
                return Err(refuse(Reason::GroupModFailedGroupExists, "the group exists"));
            }
            GroupCommand::Modify if !known => {
                return Err(refuse(Reason::GroupModFailedUnknownGroup, "there is no such group"));
            }
            _ if !known && change.group > GROUP_MAX => {
                return Err(refuse(Reason::GroupModFailedInvalidGroup, "the number is reserved"));
            }
            _ => {}
        }
        self.group(sent, Box::new(Grouping::new(change)), work, out)
    }

    /// Goes on with a group.
    pub(super) fn group(
        &mut self,
        sent: &Sent,
        mut grouping: Box<Grouping>,
        work: &mut Work,
        out: &mut Vec<Out>,
    ) -> Step {
        match self.make_group(sent.slice, &mut grouping, work) {
            Ok(true) => {}
            Ok(false) => return Ok(Some(Job::Group(grouping))),
            Err(refusal) => return Err(refusal.about("group", &refusal::group(&grouping.change))),
        }
        let Grouping { change, buckets, .. } = *grouping;
        let number = change.group;
        let known = self.of(sent.slice)?.groups.real(number);
        // Counted over all slices, and never back: no slice gets a group that another one had.
        let real = known.unwrap_or(self.groups + 1);
        self.groups = self.groups.max(real);
        self.rules.notes.put(&Note::Group { slice: sent.slice, real, said: &change });
        let kept = kept(real, &change, &buckets);
        let order = GroupMod { group: real, buckets, ..change.clone() };
        if let Some(member) = self.member(sent.slice) {
            member.groups.put(number, kept.with(change));
        }
        work.spend(ORDER + order.buckets.len());
        self.order(sent, Kind::Group(number), Message::GroupMod(order), out);
        Ok(None)
    }

    /// Goes on with a group's buckets: in real numbers, and proved. Returns whether they are.
    pub(super) fn make_group(
        &mut self,
        slice: SliceId,
        grouping: &mut Grouping,
        work: &mut Work,
    ) -> Result<bool, Refusal> {
        while let Some(bucket) = grouping.change.buckets.get(grouping.next) {
            if !work.is_left() {
                return Ok(false);
            }
            grouping.next += 1;
            let before = grouping.buckets.len() + grouping.actions;
            let kind = grouping.change.kind;
            let all = (&mut grouping.buckets, &mut grouping.actions);
            self.real_buckets(slice, kind, bucket, all)?;
            work.spend(2 + grouping.buckets.len() + grouping.actions - before);
            // Also while it is made: what goes beyond a quota ends early, not after all its
            // buckets.
            self.has_group_room(slice, grouping.change.group, &grouping.buckets)?;
        }
        let Grouping { change, buckets, walk, .. } = grouping;
        let VirtualSwitches { slicing, members, .. } = self;
        let Some(member) = members.get_mut(usize::from(slice.0)) else { return Ok(true) };
        let (known, ports) = member.proving();
        if walk.is_none() {
            is_sayable(change, buckets)?;
            let begun = Walk::buckets(buckets, known);
            work.spend(buckets.len());
            *walk = Some(begun);
        }
        let proof = Proof { slicing, slice, ports };
        let Some(walk) = walk else { return Ok(true) };
        match walk.goes_on(&proof, known, work) {
            None => return Ok(false),
            Some(done) => done?,
        };
        Walk::note(buckets, known);
        let (number, kept) = (change.group, grouping.kept());
        self.has_room_for_group(slice, number, &kept)?;
        Ok(true)
    }

    /// All buckets of a group in real numbers.
    pub(super) fn all_real_buckets(
        &self,
        slice: SliceId,
        change: &GroupMod,
    ) -> Result<Vec<Bucket>, Refusal> {
        let (mut all, mut actions) = (vec![], 0);
        for bucket in &change.buckets {
            self.real_buckets(slice, change.kind, bucket, (&mut all, &mut actions))?;
        }
        Ok(all)
    }

    /// A bucket in real numbers: of one that floods, a bucket for each port.
    fn real_buckets(
        &self,
        slice: SliceId,
        kind: GroupType,
        bucket: &Bucket,
        (all, count): (&mut Vec<Bucket>, &mut usize),
    ) -> Done {
        let member = self.of(slice)?;
        let watch_port = match bucket.watch_port {
            PortNumber::ANY => PortNumber::ANY,
            port => member.real(port).ok_or_else(|| {
                refuse(Reason::GroupModFailedBadWatch, format!("port {port} is not in the slice"))
            })?,
        };
        let watch_group = match bucket.watch_group {
            GROUP_ANY => GROUP_ANY,
            group => member.groups.real(group).ok_or_else(|| {
                refuse(Reason::GroupModFailedBadWatch, format!("there is no group {group}"))
            })?,
        };
        let mut actions = self.actions(slice, member);
        // Of several outputs a bucket does one: a flood needs a bucket for each port.
        let list = actions.list(&bucket.actions)?;
        if actions.flooded && kind != GroupType::All {
            let words = "a flood in a bucket can only be in a group of all its buckets";
            return Err(refuse(Reason::GroupModFailedBadBucket, words));
        }
        let floods: Vec<usize> = list
            .iter()
            .enumerate()
            .filter(|(_, action)| actions.flooded && matches!(action, Action::Output { .. }))
            .map(|(at, _)| at)
            .collect();
        let more = floods.len().max(1);
        *count += more * (list.len() - floods.len() + 1);
        if all.len() + more > MOST_BUCKETS || *count > MOST_ACTIONS {
            let words = "by the slice's ports it has more buckets than a message can have";
            return Err(refuse(Reason::GroupModFailedOutOfBuckets, words));
        }
        let with = |actions| Bucket { weight: bucket.weight, watch_port, watch_group, actions };
        if floods.is_empty() {
            all.push(with(list));
            return Ok(());
        }
        all.extend(floods.iter().map(|at| with(apart(&list, &floods, *at))));
        Ok(())
    }

    /// Whether the quota has room for a group with these buckets so far.
    fn has_group_room(&self, slice: SliceId, number: u32, buckets: &[Bucket]) -> Done {
        let quota = self.quota(slice);
        let groups = &self.of(slice)?.groups;
        let old = groups.get(number);
        if let Some(most) = quota.groups
            && old.is_none()
            && wide(groups.len()) >= u64::from(most)
        {
            let words = format!("more groups than the slice's {most} (groups)");
            return Err(refuse(Reason::GroupModFailedOutOfGroups, words));
        }
        let others = groups.buckets - old.map_or(0, |old| old.buckets);
        if let Some(most) = quota.buckets
            && others + wide(buckets.len()) > u64::from(most)
        {
            let words = format!("more buckets than the slice's {most} (buckets)");
            return Err(refuse(Reason::GroupModFailedOutOfBuckets, words));
        }
        Ok(())
    }

    fn has_room_for_group(&self, slice: SliceId, number: u32, kept: &Kept<()>) -> Done {
        // Its buckets were counted while they were made.
        self.has_group_room(slice, number, &[])?;
        let freed = self.of(slice)?.groups.get(number).map_or(0, |old| old.bytes);
        self.has_memory(slice, freed, kept.bytes, Reason::GroupModFailedOutOfBuckets)
    }

    fn quota(&self, slice: SliceId) -> Quota {
        self.slicing.slice(slice).map(|slice| slice.quota).unwrap_or_default()
    }

    /// Deletes groups, the last of these first; what is left, if the work is done before.
    pub(super) fn delete_groups(
        &mut self,
        sent: &Sent,
        mut groups: Vec<u32>,
        work: &mut Work,
        out: &mut Vec<Out>,
    ) -> Option<Job> {
        while work.is_left() {
            let group = groups.pop()?;
            let gone = self.member(sent.slice).and_then(|member| member.groups.remove(group));
            let Some(gone) = gone else { continue };
            self.rules.notes.put(&Note::NoGroup { slice: sent.slice, group });
            let order = GroupMod {
                command: GroupCommand::Delete,
                kind: gone.said.kind,
                group: gone.real,
                buckets: vec![],
            };
            self.order(sent, Kind::Order, Message::GroupMod(order), out);
            work.spend(ORDER);
        }
        Some(Job::NoGroups(groups))
    }

    /// The switch refused a group: it is not there, unless it was before.
    pub(super) fn group_failed(&mut self, slice: SliceId, number: u32) -> bool {
        if let Some(member) = self.member(slice)
            && member.groups.get(number).is_some_and(|kept| kept.said.command == GroupCommand::Add)
        {
            // It was never there at the switch; a refused change leaves the group as it was.
            member.groups.remove(number);
            self.rules.notes.put(&Note::NoGroup { slice, group: number });
        }
        true
    }

    pub(super) fn meter_mod(
        &mut self,
        sent: &Sent,
        change: MeterMod,
        work: &mut Work,
        out: &mut Vec<Out>,
    ) -> Step {
        let number = change.meter;
        let meters = &self.of(sent.slice)?.meters;
        if change.command == MeterCommand::Delete {
            let chosen = match number {
                METER_ALL => meters.all().map(|(number, _)| number).collect(),
                one => vec![one],
            };
            return Ok(self.delete_meters(sent, chosen, work, out));
        }
        let real = match (change.command, meters.real(number)) {
            (MeterCommand::Add, Some(_)) => {
                return Err(refuse(Reason::MeterModFailedMeterExists, "the meter exists"));
            }
            (MeterCommand::Modify, None) => {
                return Err(refuse(Reason::MeterModFailedUnknownMeter, "there is no such meter"));
            }
            (_, Some(real)) => real,
            (_, None) if number == 0 || number > METER_MAX => {
                return Err(refuse(Reason::MeterModFailedInvalidMeter, "the number is reserved"));
            }
            (_, None) => self.meters + 1,
        };
        let kept = kept_meter(real, change);
        self.has_meter_room(sent.slice, number, &kept)?;
        self.meters = self.meters.max(real);
        let order = MeterMod { meter: real, ..kept.said.clone() };
        self.rules.notes.put(&Note::Meter { slice: sent.slice, real, said: &kept.said });
        if let Some(member) = self.member(sent.slice) {
            member.meters.put(number, kept);
        }
        self.order(sent, Kind::Meter(number), Message::MeterMod(order), out);
        Ok(None)
    }

    fn has_meter_room(&self, slice: SliceId, number: u32, kept: &Kept<MeterMod>) -> Done {
        let meters = &self.of(slice)?.meters;
        let old = meters.get(number);
        if let Some(most) = self.quota(slice).meters
            && old.is_none()
            && wide(meters.len()) >= u64::from(most)
        {
            let words = format!("more meters than the slice's {most} (meters)");
            return Err(refuse(Reason::MeterModFailedOutOfMeters, words));
        }
        let freed = old.map_or(0, |old| old.bytes);
        self.has_memory(slice, freed, kept.bytes, Reason::MeterModFailedOutOfMeters)
    }

    /// Deletes meters, the last of these first; what is left, if the work is done before.
    pub(super) fn delete_meters(
        &mut self,
        sent: &Sent,
        mut meters: Vec<u32>,
        work: &mut Work,
        out: &mut Vec<Out>,
    ) -> Option<Job> {
        while work.is_left() {
            let number = meters.pop()?;
            let gone = self.member(sent.slice).and_then(|member| member.meters.remove(number));
            let Some(gone) = gone else { continue };
            self.rules.notes.put(&Note::NoMeter { slice: sent.slice, meter: number });
            let (command, flags) = (MeterCommand::Delete, MeterFlags::default());
            let order = MeterMod { command, flags, meter: gone.real, bands: vec![] };
            self.order(sent, Kind::Order, Message::MeterMod(order), out);
            work.spend(ORDER);
        }
        Some(Job::NoMeters(meters))
    }

    pub(super) fn meter_failed(&mut self, slice: SliceId, number: u32) -> bool {
        if let Some(member) = self.member(slice)
            && member.meters.get(number).is_some_and(|kept| kept.said.command == MeterCommand::Add)
        {
            member.meters.remove(number);
            self.rules.notes.put(&Note::NoMeter { slice, meter: number });
        }
        true
    }

    /// What makes the meter of a rate.
    pub(super) fn rate_order(meter: u32, kilobits: u32) -> MeterMod {
        // A twentieth of a second at once, and at least a few packets.
        let burst = (kilobits / 20).max(120);
        let bands = vec![Band { rate: kilobits, burst, kind: BandKind::Drop }];
        let flags = MeterFlags::KBPS | MeterFlags::BURST | MeterFlags::STATS;
        MeterMod { command: MeterCommand::Add, flags, meter, bands }
    }

    /// The meter that all packets of a slice pass.
    pub(super) fn rate_meter(
        &mut self,
        slice: SliceId,
        kilobits: u32,
        now: Time,
        out: &mut Vec<Out>,
    ) {
        self.meters += 1;
        let meter = self.meters;
        self.rules.notes.put(&Note::Rate { slice, meter });
        if let Some(member) = self.member(slice) {
            member.rate = Some(meter);
        }
        let order = VirtualSwitches::rate_order(meter, kilobits);
        let sent = VirtualSwitches::own(slice, now);
        self.order(&sent, Kind::Own, Message::MeterMod(order), out);
    }
}

/// Buckets of a group, and actions of them, at most: no message has more.
const MOST_BUCKETS: usize = (u16::MAX / 16) as usize;
const MOST_ACTIONS: usize = (u16::MAX / 8) as usize;

/// Whether messages have room for a group, and the answer that describes it.
fn is_sayable(change: &GroupMod, buckets: &[Bucket]) -> Done {
    if weight::buckets(buckets) <= SHORT && weight::buckets(&change.buckets) <= SHORT {
        return Ok(());
    }
    let fits = |change: GroupMod| {
        let bytes = encode(Version::V13, 0, &Message::GroupMod(change));
        bytes.is_ok_and(|bytes| bytes.len() <= LONGEST)
    };
    if fits(GroupMod { buckets: buckets.to_vec(), ..change.clone() }) && fits(change.clone()) {
        return Ok(());
    }
    let words = "in the switch's numbers it is longer than a message can be";
    Err(refuse(Reason::GroupModFailedOutOfBuckets, words))
}

/// What a group takes.
fn kept(real: u32, said: &GroupMod, buckets: &[Bucket]) -> Kept<()> {
    // Here it has the buckets that were said, in the switch those that these become.
    let all = weight::buckets(&said.buckets).max(weight::buckets(buckets));
    let bytes = weight::boxed::<Kept<GroupMod>>() + weight::PLACE + all;
    Kept { real, said: (), buckets: wide(buckets.len()), bytes: wide(bytes) }
}

pub(super) fn kept_meter(real: u32, said: MeterMod) -> Kept<MeterMod> {
    let bytes = weight::boxed::<Kept<MeterMod>>() + weight::PLACE + weight::bands(&said.bands);
    Kept { real, said, buckets: 0, bytes: wide(bytes) }
}

/// The actions of a bucket with one of the outputs of a flood.
fn apart(list: &[Action], floods: &[usize], output: usize) -> Vec<Action> {
    let mut floods = floods.iter().copied().peekable();
    let keeps = |(at, _): &(usize, &Action)| floods.next_if_eq(at).is_none() || *at == output;
    list.iter().enumerate().filter(keeps).map(|(_, action)| action.clone()).collect()
}
