//! What a switch has, beside what it should have: entries that stay, are missing or are nobody's; groups and meters.

use std::collections::{BTreeMap, BTreeSet};

use netloom_openflow::flow::{FlowCommand, FlowMod};
use netloom_openflow::group::GroupCommand;
use netloom_openflow::meter::MeterCommand;
use netloom_openflow::multipart::{FlowStats, GroupDesc, MeterConfig};
use netloom_openflow::{GroupMod, Match, MeterMod};

use super::{Carry, Entry, Place, Resuming, Stage, place, same, wide};
use crate::virtual_switches::VirtualSwitches;
use crate::{Error, SliceId, Time, Work};

impl Resuming {
    /// Looks at entries that the switch has: whether they are a rule's, and as they should be.
    pub(super) fn look_at_found(&mut self, work: &mut Work) -> Option<Stage> {
        if !self.plan.begun {
            self.expect();
        }
        while let Some(flow) = self.found.flows.pop() {
            work.spend(6);
            if !self.is_of_rule(&flow) {
                let at = self.place(flow.table, flow.priority, &flow.matching);
                self.strays.insert(at, flow);
            }
            if !work.is_left() {
                return None;
            }
        }
        self.found.flows = vec![];
        Some(Stage::Missing(SliceId(0), 0))
    }

    /// Nothing is known of entries before the switch tells them; those that are on their way out are gone.
    fn expect(&mut self) {
        let rules = &mut self.switches.rules;
        // Their controller has asked for the end; what is
        // left of them at the switch belongs to no rule.
        rules.forget_dying();
        rules.each_living(|rule| {
            rule.pieces.iter_mut().for_each(|piece| piece.alive = false);
            rule.alive = 0;
        });
        self.plan.begun = true;
    }

    fn place(&self, table: u8, priority: u16, matching: &Match) -> Place {
        place(self.switches.version, table, priority, matching)
    }

    /// Whether an entry is of a rule, by its cookie and its place.
    fn is_of_rule(&mut self, flow: &FlowStats) -> bool {
        let version = self.switches.version;
        let rules = &mut self.switches.rules;
        let Some((number, at, rule)) = rules.of_cookie(flow.cookie) else { return false };
        let slice = rule.slice;
        let Some(piece) = rule.pieces.get(at) else { return false };
        // The cookie alone is not enough: which entries a rule needs depends on the slice's spaces, which may be
        // others now.
        let here = place(version, rule.said.table, piece.priority, &piece.matching);
        if piece.alive || here != place(version, flow.table, flow.priority, &flow.matching) {
            return false;
        }
        let is_right = same(&flow.instructions, &rule.instructions);
        self.note_age((slice, number), flow);
        self.is_there((slice, number, at));
        if is_right {
            self.plan.kept += 1;
        } else {
            self.plan.rules.push_back(((slice, number, at), FlowCommand::ModifyStrict));
        }
        true
    }

    pub(super) fn is_there(&mut self, (slice, number, at): Entry) {
        if let Some(rule) = self.switches.rules.get_mut(slice, number)
            && let Some(piece) = rule.pieces.get_mut(at)
        {
            rule.alive += usize::from(!std::mem::replace(&mut piece.alive, true));
        }
    }

    fn note_age(&mut self, rule: (SliceId, u64), flow: &FlowStats) {
        self.plan.found = true;
        let seconds = u64::from(flow.duration.seconds).saturating_mul(1_000_000_000);
        let age = self.plan.ages.entry(rule).or_default();
        *age = (*age).max(seconds.saturating_add(u64::from(flow.duration.nanoseconds)));
    }

    /// Looks for entries of rules that the switch did not tell as theirs.
    pub(super) fn look_for_missing(
        &mut self,
        now: Time,
        work: &mut Work,
    ) -> Result<Option<Stage>, Error> {
        let Stage::Missing(slice, next) = self.stage else { return Ok(None) };
        if usize::from(slice.0) >= self.switches.members.len() {
            self.look_for_own();
            let nothing = self.switches.rules.living().next().is_none();
            let expected = !nothing || !self.plan.own.is_empty();
            // The caller empties the switch and starts over (ADR 0065).
            if expected && !self.plan.found {
                return Err(Error::Memory("the switch lost its entries"));
            }
            self.settle();
            return Ok(Some(Stage::Ready(Carry::Stale)));
        }
        let found = self.switches.rules.range(slice, next..=u64::MAX).next();
        let Some((number, rule)) = found else {
            return Ok(Some(Stage::Missing(SliceId(slice.0 + 1), 0)));
        };
        work.spend(2 + rule.pieces.len());
        let table = rule.said.table;
        let missing: Vec<(usize, Place)> = rule
            .pieces
            .iter()
            .enumerate()
            .filter(|(_, piece)| !piece.alive)
            .map(|(at, piece)| (at, self.place(table, piece.priority, &piece.matching)))
            .collect();
        for (at, place) in missing {
            // An entry that stood for a rule before takes the new one's place.
            if let Some(stray) = self.strays.remove(&place) {
                self.note_age((slice, number), &stray);
            }
            self.plan.rules.push_back(((slice, number, at), FlowCommand::Add));
        }
        self.end_or_age(now, slice, number);
        Ok(Some(Stage::Missing(slice, number + 1)))
    }

    /// A rule gets its age. One of which nothing is there, and which ends by itself, has ended.
    fn end_or_age(&mut self, now: Time, slice: SliceId, number: u64) {
        let age = self.plan.ages.get(&(slice, number)).copied();
        let rules = &mut self.switches.rules;
        let Some(rule) = rules.get_mut(slice, number) else { return };
        if let Some(age) = age {
            rule.since = now.saturating_sub(age);
            return;
        }
        if rule.said.idle_timeout != 0 || rule.said.hard_timeout != 0 {
            rules.remove(slice, number);
            self.lost += 1;
            // They were put there last.
            while self
                .plan
                .rules
                .back()
                .is_some_and(|((of, at, _), _)| (*of, *at) == (slice, number))
            {
                self.plan.rules.pop_back();
            }
        }
    }

    /// Looks for the slicer's own entries.
    fn look_for_own(&mut self) {
        let ports: Vec<_> = self.switches.ports.keys().copied().collect();
        for entry in ports.into_iter().flat_map(|port| self.switches.discovery_entries(port)) {
            let at = self.place(entry.table, entry.priority, &entry.matching);
            let stray = self.strays.remove(&at);
            self.plan.found |= stray.is_some();
            let is_right = stray.is_some_and(|stray| {
                stray.cookie == 0 && same(&stray.instructions, &entry.instructions)
            });
            if is_right {
                self.plan.kept += 1;
            } else {
                self.plan.own.push_back(entry);
            }
        }
    }

    /// What the switch is to be told beside rules.
    fn settle(&mut self) {
        let plan = &mut self.plan;
        let stale = self.strays.drain().map(|(_, flow)| FlowMod {
            table: flow.table,
            priority: flow.priority,
            ..FlowMod::new(FlowCommand::DeleteStrict, flow.matching)
        });
        plan.stale = stale.collect();
        let (meters, groups) = (self.switches.meters_wanted(), self.switches.groups_had());
        let known: BTreeMap<u32, &MeterConfig> =
            self.found.meters.iter().map(|known| (known.meter, known)).collect();
        for (real, (slice, order)) in &meters {
            let command = match known.get(real) {
                Some(known) if known.bands == order.bands && known.flags == order.flags => continue,
                Some(_) => MeterCommand::Modify,
                None => MeterCommand::Add,
            };
            plan.meters.push_back((*slice, MeterMod { command, ..order.clone() }));
        }
        plan.no_meters =
            known.keys().copied().filter(|meter| !meters.contains_key(meter)).collect();
        let had: BTreeSet<u32> = groups.iter().map(|(_, _, real)| *real).collect();
        plan.groups = groups.iter().map(|(slice, number, _)| (*slice, *number)).collect();
        let gone = self.found.groups.iter().filter(|known| !had.contains(&known.group));
        let delete = |known: &GroupDesc| GroupMod {
            command: GroupCommand::Delete,
            kind: known.kind,
            group: known.group,
            buckets: vec![],
        };
        plan.no_groups = gone.map(delete).collect();
        // So that each is soon found.
        self.found.groups.sort_unstable_by_key(|known| known.group);
        plan.made = wide(plan.rules.len() + plan.own.len());
        plan.removed = wide(plan.stale.len());
    }
}

impl VirtualSwitches {
    /// The meters that the switch should have, by real number.
    fn meters_wanted(&self) -> BTreeMap<u32, (SliceId, MeterMod)> {
        let mut all = BTreeMap::new();
        for id in self.slicing.ids() {
            let Ok(member) = self.of(id) else { continue };
            for (_, kept) in member.meters.all() {
                all.insert(kept.real, (id, MeterMod { meter: kept.real, ..kept.said.clone() }));
            }
            let rate = self.slicing.slice(id).and_then(|slice| slice.quota.kilobits);
            if let Some((meter, kilobits)) = member.rate.zip(rate) {
                all.insert(meter, (id, VirtualSwitches::rate_order(meter, kilobits)));
            }
        }
        all
    }

    /// The groups of slices, with their numbers there and at the switch.
    fn groups_had(&self) -> Vec<(SliceId, u32, u32)> {
        let members = self.slicing.ids().filter_map(|id| Some((id, self.of(id).ok()?)));
        let groups = members.flat_map(|(id, member)| {
            member.groups.all().map(move |(number, kept)| (id, number, kept.real))
        });
        groups.collect()
    }
}
