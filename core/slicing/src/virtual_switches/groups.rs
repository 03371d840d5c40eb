//! Groups and meters of slices: each slice has numbers of its own. A group is proved for all packets of its slice.

use netloom_openflow::action::{GROUP_ALL, GROUP_ANY, GROUP_MAX};
use netloom_openflow::group::{GroupCommand, GroupType};
use netloom_openflow::meter::{Band, BandKind, METER_ALL, METER_MAX, MeterCommand, MeterFlags};
use netloom_openflow::{Bucket, GroupMod, Message, MeterMod, PortNumber, Reason, text};

use super::pending::Kind;
use super::{Done, Out, Refusal, Sent, VirtualSwitches};
use crate::memory::Note;
use crate::{SliceId, Time};

fn refuse(reason: Reason, words: impl Into<String>) -> Refusal {
    Refusal::new(reason, words)
}

impl VirtualSwitches {
    pub(super) fn group_mod(&mut self, sent: &Sent, change: GroupMod, out: &mut Vec<Out>) -> Done {
        let known = self.of(sent.slice)?.groups.get(&change.group).map(|(real, _)| *real);
        let real = match (change.command, known) {
            (GroupCommand::Delete, _) => {
                self.delete_groups(sent, change.group, out);
                return Ok(());
            }
            (GroupCommand::Add, Some(_)) => {
                return Err(refuse(Reason::GroupModFailedGroupExists, "the group exists"));
            }
            (GroupCommand::Modify, None) => {
                return Err(refuse(Reason::GroupModFailedUnknownGroup, "there is no such group"));
            }
            (_, Some(real)) => real,
            (_, None) if change.group > GROUP_MAX => {
                return Err(refuse(Reason::GroupModFailedInvalidGroup, "the number is reserved"));
            }
            (_, None) => self.groups + 1,
        };
        let buckets = self
            .buckets(sent.slice, &change)
            .map_err(|refusal| refusal.about("group", &text::print_group(&change)))?;
        self.groups = self.groups.max(real);
        let order = GroupMod { group: real, buckets, ..change.clone() };
        let number = change.group;
        self.rules.notes.put(&Note::Group { slice: sent.slice, real, said: &change });
        if let Some(member) = self.member(sent.slice) {
            member.groups.insert(number, (real, change));
        }
        self.order(sent, Kind::Group(number), Message::GroupMod(order), out);
        Ok(())
    }

    /// The buckets in real numbers, proved.
    pub(super) fn buckets(
        &self,
        slice: SliceId,
        change: &GroupMod,
    ) -> Result<Vec<Bucket>, Refusal> {
        let member = self.of(slice)?;
        let mut buckets = vec![];
        for bucket in &change.buckets {
            let watch_port = match bucket.watch_port {
                PortNumber::ANY => PortNumber::ANY,
                port => member.real(port).ok_or_else(|| {
                    refuse(
                        Reason::GroupModFailedBadWatch,
                        format!("port {port} is not in the slice"),
                    )
                })?,
            };
            let watch_group = match bucket.watch_group {
                GROUP_ANY => GROUP_ANY,
                group => member.groups.get(&group).map(|(real, _)| *real).ok_or_else(|| {
                    refuse(Reason::GroupModFailedBadWatch, format!("there is no group {group}"))
                })?,
            };
            let mut actions = self.actions(slice, member);
            // Of several outputs a bucket does one: a flood needs a bucket for each port.
            let list = actions.list(&bucket.actions)?;
            if actions.flooded && change.kind != GroupType::All {
                let words = "a flood in a bucket can only be in a group of all its buckets";
                return Err(refuse(Reason::GroupModFailedBadBucket, words));
            }
            buckets.extend(apart(bucket, &list, actions.flooded).map(|actions| Bucket {
                weight: bucket.weight,
                watch_port,
                watch_group,
                actions,
            }));
        }
        let ports = member.all();
        self.proof(slice, &ports).buckets(&buckets)?;
        Ok(buckets)
    }

    fn delete_groups(&mut self, sent: &Sent, group: u32, out: &mut Vec<Out>) {
        let Some(member) = self.member(sent.slice) else { return };
        let chosen: Vec<u32> = match group {
            GROUP_ALL => member.groups.keys().copied().collect(),
            one => vec![one],
        };
        let (mut orders, mut gone) = (vec![], vec![]);
        for number in chosen {
            if let Some((real, said)) = member.groups.remove(&number) {
                gone.push(number);
                let delete = GroupCommand::Delete;
                orders.push(GroupMod {
                    command: delete,
                    kind: said.kind,
                    group: real,
                    buckets: vec![],
                });
            }
        }
        for group in gone {
            self.rules.notes.put(&Note::NoGroup { slice: sent.slice, group });
        }
        for order in orders {
            self.order(sent, Kind::Order, Message::GroupMod(order), out);
        }
    }

    /// The switch refused a group: it is not there, unless it was before.
    pub(super) fn group_failed(&mut self, slice: SliceId, number: u32) -> bool {
        if let Some(member) = self.member(slice)
            && member.groups.get(&number).is_some_and(|(_, said)| said.command == GroupCommand::Add)
        {
            member.groups.remove(&number);
            self.rules.notes.put(&Note::NoGroup { slice, group: number });
        }
        true
    }

    pub(super) fn meter_mod(&mut self, sent: &Sent, change: MeterMod, out: &mut Vec<Out>) -> Done {
        if change.command == MeterCommand::Delete {
            self.delete_meters(sent, change.meter, out);
            return Ok(());
        }
        let number = change.meter;
        let known = self.of(sent.slice)?.meters.get(&number).map(|(real, _)| *real);
        let real = match (change.command, known) {
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
        self.meters = self.meters.max(real);
        let order = MeterMod { meter: real, ..change.clone() };
        self.rules.notes.put(&Note::Meter { slice: sent.slice, real, said: &change });
        if let Some(member) = self.member(sent.slice) {
            member.meters.insert(number, (real, change));
        }
        self.order(sent, Kind::Meter(number), Message::MeterMod(order), out);
        Ok(())
    }

    fn delete_meters(&mut self, sent: &Sent, meter: u32, out: &mut Vec<Out>) {
        let Some(member) = self.member(sent.slice) else { return };
        let chosen: Vec<u32> = match meter {
            METER_ALL => member.meters.keys().copied().collect(),
            one => vec![one],
        };
        let known = |number: u32| Some((number, member.meters.remove(&number)?.0));
        let gone: Vec<(u32, u32)> = chosen.into_iter().filter_map(known).collect();
        for (number, meter) in gone {
            self.rules.notes.put(&Note::NoMeter { slice: sent.slice, meter: number });
            let (command, flags) = (MeterCommand::Delete, MeterFlags::default());
            let order = MeterMod { command, flags, meter, bands: vec![] };
            self.order(sent, Kind::Order, Message::MeterMod(order), out);
        }
    }

    pub(super) fn meter_failed(&mut self, slice: SliceId, number: u32) -> bool {
        if let Some(member) = self.member(slice)
            && member.meters.get(&number).is_some_and(|(_, said)| said.command == MeterCommand::Add)
        {
            member.meters.remove(&number);
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

/// A bucket's actions; with a flood, a bucket for each of its outputs.
fn apart<'a>(
    bucket: &Bucket,
    list: &'a [netloom_openflow::Action],
    flooded: bool,
) -> impl Iterator<Item = Vec<netloom_openflow::Action>> + use<'a> {
    use netloom_openflow::Action;
    let _ = bucket;
    let outputs = move |action: &Action| flooded && matches!(action, Action::Output { .. });
    let count = list.iter().filter(|action| outputs(action)).count().max(1);
    (0..count).map(move |which| {
        let mut seen = 0;
        let keep = |action: &&Action| {
            if !outputs(action) {
                return true;
            }
            seen += 1;
            seen - 1 == which
        };
        list.iter().filter(keep).cloned().collect()
    })
}
