//! Messages that bring a switch to its wanted state.

use netloom_openflow::group::GroupCommand;
use netloom_openflow::meter::{MeterCommand, MeterFlags};
use netloom_openflow::{GroupMod, Message, MeterMod};

use super::{Carry, Resuming, Stage};
use crate::virtual_switches::jobs::ORDER;
use crate::virtual_switches::pending::Kind;
use crate::virtual_switches::{Out, VirtualSwitches};
use crate::{SliceId, Time, Work};

impl Resuming {
    /// Tells the switch some of what it is to be told; returns whether it was told all. Stale entries go first, so that
    /// nothing is open meanwhile; groups and meters that nobody needs go last, because the switch removes with them what uses
    /// them.
    pub fn carry_out(&mut self, now: Time, work: &mut Work, out: &mut Vec<Out>) -> bool {
        while let Stage::Ready(carry) = self.stage {
            if carry == Carry::Done {
                return true;
            }
            if let Some(next) = self.carry(carry, now, work, out) {
                self.stage = Stage::Ready(next);
            }
            work.spend(ORDER);
            if !work.is_left() {
                return false;
            }
        }
        true
    }

    /// Tells the switch one thing; what is next, if nothing of that kind is left.
    fn carry(
        &mut self,
        carry: Carry,
        now: Time,
        work: &mut Work,
        out: &mut Vec<Out>,
    ) -> Option<Carry> {
        let Resuming { switches, plan, .. } = self;
        let own = VirtualSwitches::own(SliceId(0), now);
        let (sent, kind, message) = match carry {
            Carry::Stale => {
                let Some(entry) = plan.stale.pop_front() else { return Some(Carry::Settings) };
                (own, Kind::Own, Message::FlowMod(entry))
            }
            Carry::Settings => {
                switches.configure(now, out);
                return Some(Carry::Meters);
            }
            Carry::Meters => {
                let Some((slice, order)) = plan.meters.pop_front() else {
                    return Some(Carry::Groups);
                };
                (VirtualSwitches::own(slice, now), Kind::Own, Message::MeterMod(order))
            }
            Carry::Groups => {
                let Some((slice, number)) = plan.groups.pop_front() else {
                    self.found.groups = vec![];
                    return Some(Carry::Rules);
                };
                let order = self.group_order(slice, number, work)?;
                (VirtualSwitches::own(slice, now), Kind::Own, Message::GroupMod(order))
            }
            Carry::Rules => {
                let Some(((slice, number, piece), command)) = plan.rules.pop_front() else {
                    return Some(Carry::Own);
                };
                let sent = VirtualSwitches::own(slice, now);
                switches.install_piece(&sent, number, piece, command, out);
                self.is_there((slice, number, piece));
                return None;
            }
            Carry::Own => {
                let Some(entry) = plan.own.pop_front() else { return Some(Carry::NoGroups) };
                (own, Kind::Own, Message::FlowMod(entry))
            }
            Carry::NoGroups => {
                let Some(order) = plan.no_groups.pop_front() else { return Some(Carry::NoMeters) };
                (own, Kind::Attempt, Message::GroupMod(order))
            }
            Carry::NoMeters => {
                let Some(meter) = plan.no_meters.pop_front() else { return Some(Carry::Done) };
                let (command, flags) = (MeterCommand::Delete, MeterFlags::default());
                let order = MeterMod { command, flags, meter, bands: vec![] };
                (own, Kind::Attempt, Message::MeterMod(order))
            }
            Carry::Done => return Some(Carry::Done),
        };
        self.switches.order(&sent, kind, message, out);
        None
    }

    /// What makes a group that the switch lacks, or has in another way.
    fn group_order(&self, slice: SliceId, number: u32, work: &mut Work) -> Option<GroupMod> {
        let kept = self.switches.of(slice).ok()?.groups.get(number)?;
        let buckets = self.switches.all_real_buckets(slice, &kept.said).ok()?;
        work.spend(buckets.len());
        let all = &self.found.groups;
        let known = all.binary_search_by_key(&kept.real, |known| known.group).ok();
        let command = match known.and_then(|at| all.get(at)) {
            Some(known) if known.buckets == buckets && known.kind == kept.said.kind => return None,
            Some(_) => GroupCommand::Modify,
            None => GroupCommand::Add,
        };
        Some(GroupMod { command, kind: kept.said.kind, group: kept.real, buckets })
    }
}
