//! A later process goes on where an earlier one was: what slices said is remembered, and the switch tells what it has.
//!
//! Rules are proved again, by the slices as they are now. Entries that a rule still needs stay as they are, so that no
//! packet is lost; what is missing is made, what belongs to no rule is removed. A switch that has nothing of
//! what is remembered has lost it: then [`Error::Memory`] says so, and one begins anew.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use netloom_openflow::flow::{FlowCommand, FlowMod};
use netloom_openflow::group::GroupCommand;
use netloom_openflow::meter::{MeterCommand, MeterFlags};
use netloom_openflow::multipart::{FlowStats, GroupDesc, MeterConfig};
use netloom_openflow::switch::Features;
use netloom_openflow::{GroupMod, Instruction, Match, Message, MeterMod, Port, Version};
use netloom_pipeline::Pattern;

use super::pending::Kind;
use super::rules::cookie;
use super::{Out, VirtualSwitches};
use crate::memory::{Memory, Note};
use crate::{Error, SliceId, Slicing, Time};

/// What a switch has.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    /// All its entries.
    pub flows: Vec<FlowStats>,
    /// Its groups.
    pub groups: Vec<GroupDesc>,
    /// Its meters.
    pub meters: Vec<MeterConfig>,
}

/// What became of what was remembered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resumed {
    /// Rules that slices have as before.
    pub rules: u64,
    /// Rules that they have no longer: expired, or not possible in their slices as they are now.
    pub lost: u64,
    /// Entries of the switch that were left as they were.
    pub kept: u64,
    /// Entries that were made, or changed.
    pub made: u64,
    /// Entries that were removed.
    pub removed: u64,
}

/// What makes an entry the same to a switch.
type Place = (u8, u16, Pattern);

/// Whose an entry is.
enum Wanted {
    /// The rule's with this number, and which of its entries.
    Rule(u64, usize),
    /// The slicer's own.
    Own(FlowMod),
}

/// What is to be done with the entries of a switch.
#[derive(Default)]
struct Plan {
    stale: Vec<FlowMod>,
    /// Entries of rules that are made anew or changed.
    rules: Vec<(u64, usize, FlowCommand)>,
    own: Vec<FlowMod>,
    /// How long each rule has been there.
    ages: BTreeMap<u64, Time>,
    kept: u64,
}

fn place(version: Version, table: u8, priority: u16, matching: &Match) -> Place {
    let table = if version == Version::V10 { 0 } else { table };
    (table, priority, Pattern::new(&matching.to_oxm()))
}

/// Whether instructions do the same.
fn same(one: &[Instruction], other: &[Instruction]) -> bool {
    let does = |instruction: &&Instruction| match instruction {
        Instruction::ApplyActions(all) => !all.is_empty(),
        _ => true,
    };
    one.iter().filter(does).eq(other.iter().filter(does))
}

impl VirtualSwitches {
    /// Goes on with a switch of which an earlier process remembered something, and which says what it has. Slices keep the
    /// numbers that they had ([`Memory::placed`]).
    ///
    /// # Errors
    /// As [`VirtualSwitches::new`]; [`Error::Memory`] if nothing remembered is true of the switch.
    pub fn resume(
        slicing: Arc<Slicing>,
        version: Version,
        features: &Features,
        ports: &[Port],
        now: Time,
        memory: &Memory,
        found: &Found,
    ) -> Result<(VirtualSwitches, Vec<Out>, Resumed), Error> {
        if memory.datapath != features.datapath_id {
            return Err(Error::Memory("it is of another switch"));
        }
        if memory.version != version {
            return Err(Error::Memory("the switch spoke another version of OpenFlow"));
        }
        let mut switches = VirtualSwitches::bare(slicing, version, features, ports)?;
        switches.recall(memory);
        switches.recall_groups();
        let mut lost = switches.recall_rules(now, memory);
        let plan = switches.compare(found).ok_or(Error::Memory("the switch lost its entries"))?;
        let (plan, expired) = switches.settle(now, plan);
        lost += expired;
        let resumed = Resumed {
            rules: switches.rules.living().count().try_into().unwrap_or(u64::MAX),
            lost,
            kept: plan.kept,
            made: u64::try_from(plan.rules.len() + plan.own.len()).unwrap_or(u64::MAX),
            removed: u64::try_from(plan.stale.len()).unwrap_or(u64::MAX),
        };
        let mut out = vec![];
        switches.carry_out(now, plan, found, &mut out);
        Ok((switches, out, resumed))
    }

    /// Begins to collect what a later process has to know; returns all of it so far.
    pub fn remember(&mut self) -> Vec<u8> {
        self.rules.notes.begin();
        self.remembered()
    }

    /// All that a later process has to know.
    pub fn remembered(&self) -> Vec<u8> {
        let mut bytes = vec![];
        let last = [self.rules.last, u64::from(self.groups), u64::from(self.meters)];
        Note::Begin { datapath: self.features.datapath_id, last }.write(self.version, &mut bytes);
        for id in self.slicing.ids() {
            let (Some(slice), Ok(member)) = (self.slicing.slice(id), self.of(id)) else { continue };
            member.write(id, &slice.name, self.version, &mut bytes);
        }
        self.rules.write(self.version, &mut bytes);
        bytes
    }

    /// What a later process has to know of what has changed since.
    pub fn take_notes(&mut self) -> Vec<u8> {
        self.rules.notes.take()
    }

    /// What slices had beside rules.
    fn recall(&mut self, memory: &Memory) {
        let [rules, groups, meters] = memory.last;
        self.rules.last = rules;
        let number = |last: u64| u32::try_from(last).unwrap_or(u32::MAX);
        (self.groups, self.meters) = (number(groups), number(meters));
        for (id, before) in &memory.slices {
            if self.is_of(*id, memory)
                && let Some(member) = self.member(*id)
            {
                member.recall(before);
            }
        }
        for id in self.slicing.ids() {
            let rate = self.slicing.slice(id).and_then(|slice| slice.quota.kilobits);
            let known = self.of(id).ok().and_then(|member| member.rate);
            let meter = match (rate, known) {
                (Some(_), None) => {
                    self.meters += 1;
                    Some(self.meters)
                }
                (Some(_), known) => known,
                (None, _) => None,
            };
            if let Some(member) = self.member(id) {
                member.rate = meter;
            }
        }
    }

    /// Whether a slice of the memory is the one that has its number now.
    fn is_of(&self, id: SliceId, memory: &Memory) -> bool {
        let now = self.slicing.slice(id).map(|slice| slice.name.as_str());
        memory.slices.get(&id).is_some_and(|before| Some(before.name.as_str()) == now)
    }

    /// Groups that are not possible any more are forgotten.
    fn recall_groups(&mut self) {
        loop {
            // Those that use one that goes go, too.
            let mut gone = vec![];
            for id in self.slicing.ids() {
                let Ok(member) = self.of(id) else { continue };
                let wrong =
                    member.groups.iter().filter(|(_, (_, said))| self.buckets(id, said).is_err());
                gone.extend(wrong.map(|(group, _)| (id, *group)));
            }
            if gone.is_empty() {
                return;
            }
            for (id, group) in gone {
                if let Some(member) = self.member(id) {
                    member.groups.remove(&group);
                }
            }
        }
    }

    /// Proves the rules again; returns how many are not possible any more.
    fn recall_rules(&mut self, now: Time, memory: &Memory) -> u64 {
        let mut lost = 0;
        for (number, before) in &memory.rules {
            let made = match self.is_of(before.slice, memory) {
                true => {
                    self.made(&VirtualSwitches::own(before.slice, now), before.said.clone()).ok()
                }
                false => None,
            };
            let fits =
                |rule: &super::rules::Rule| self.has_room(rule, self.rules.same(rule)).is_ok();
            match made.filter(fits) {
                Some(mut rule) => {
                    (rule.packets, rule.bytes) = (before.packets, before.bytes);
                    self.rules.put(*number, rule);
                }
                None => lost += 1,
            }
        }
        lost
    }

    /// Compares the switch with what it should have; `None` if it has nothing of that.
    fn compare(&self, found: &Found) -> Option<Plan> {
        let mut wanted = self.wanted();
        let expected = wanted.len();
        let mut plan = Plan::default();
        for flow in &found.flows {
            let at = place(self.version, flow.table, flow.priority, &flow.matching);
            match wanted.remove(&at) {
                Some(Wanted::Rule(number, piece)) => self.is_there(flow, number, piece, &mut plan),
                Some(Wanted::Own(entry))
                    if flow.cookie != 0 || !same(&flow.instructions, &entry.instructions) =>
                {
                    plan.own.push(entry);
                }
                Some(Wanted::Own(_)) => plan.kept += 1,
                None => plan.stale.push(FlowMod {
                    table: flow.table,
                    priority: flow.priority,
                    ..FlowMod::new(FlowCommand::DeleteStrict, flow.matching.clone())
                }),
            }
        }
        if expected > 0 && wanted.len() == expected {
            return None;
        }
        let mut missing: Vec<(u64, usize)> = vec![];
        for one in wanted.into_values() {
            match one {
                Wanted::Rule(number, piece) => missing.push((number, piece)),
                Wanted::Own(entry) => plan.own.push(entry),
            }
        }
        missing.sort_unstable();
        plan.rules
            .extend(missing.into_iter().map(|(number, piece)| (number, piece, FlowCommand::Add)));
        Some(plan)
    }

    /// The entries that the switch should have.
    fn wanted(&self) -> HashMap<Place, Wanted> {
        let mut wanted = HashMap::new();
        for (number, rule) in self.rules.living() {
            for (at, piece) in rule.pieces.iter().enumerate() {
                let place = place(self.version, rule.said.table, piece.priority, &piece.matching);
                // Of rules that come to the same entry the later one has it.
                wanted.insert(place, Wanted::Rule(number, at));
            }
        }
        for port in self.ports.keys() {
            for entry in self.discovery_entries(*port) {
                let place = place(self.version, entry.table, entry.priority, &entry.matching);
                wanted.insert(place, Wanted::Own(entry));
            }
        }
        wanted
    }

    /// An entry of a rule is there; whether as it should be.
    fn is_there(&self, flow: &FlowStats, number: u64, piece: usize, plan: &mut Plan) {
        let Some(rule) = self.rules.get(number) else { return };
        let age = plan.ages.entry(number).or_default();
        let seconds = u64::from(flow.duration.seconds).saturating_mul(1_000_000_000);
        *age = (*age).max(seconds.saturating_add(u64::from(flow.duration.nanoseconds)));
        if flow.cookie != cookie(rule.slice, number, piece) {
            plan.rules.push((number, piece, FlowCommand::Add));
        } else if !same(&flow.instructions, &rule.instructions) {
            plan.rules.push((number, piece, FlowCommand::ModifyStrict));
        } else {
            plan.kept += 1;
        }
    }

    /// Rules get their ages. Those of which nothing is there, and which end by themselves, have ended.
    fn settle(&mut self, now: Time, mut plan: Plan) -> (Plan, u64) {
        for (number, age) in &plan.ages {
            if let Some(rule) = self.rules.get_mut(*number) {
                rule.since = now.saturating_sub(*age);
            }
        }
        let ends = |number: &u64| {
            let rule = self.rules.get(*number);
            rule.is_some_and(|rule| rule.said.idle_timeout != 0 || rule.said.hard_timeout != 0)
        };
        let missing = plan.rules.iter().map(|(number, ..)| *number);
        let ended: BTreeSet<u64> =
            missing.filter(|number| !plan.ages.contains_key(number)).filter(ends).collect();
        plan.rules.retain(|(number, ..)| !ended.contains(number));
        for number in &ended {
            self.rules.remove(*number);
        }
        (plan, u64::try_from(ended.len()).unwrap_or(u64::MAX))
    }

    /// Stale entries go first, so that nothing is open meanwhile; groups and meters that nobody needs go last, because the
    /// switch removes with them what uses them.
    fn carry_out(&mut self, now: Time, plan: Plan, found: &Found, out: &mut Vec<Out>) {
        let own = VirtualSwitches::own(SliceId(0), now);
        for entry in plan.stale {
            self.order(&own, Kind::Own, Message::FlowMod(entry), out);
        }
        self.configure(now, out);
        let meters = self.meters_wanted();
        let groups = self.groups_wanted();
        for (real, (slice, order)) in &meters {
            let known = found.meters.iter().find(|known| known.meter == *real);
            let command = match known {
                Some(known) if known.bands == order.bands && known.flags == order.flags => continue,
                Some(_) => MeterCommand::Modify,
                None => MeterCommand::Add,
            };
            let order = MeterMod { command, ..order.clone() };
            self.order(
                &VirtualSwitches::own(*slice, now),
                Kind::Own,
                Message::MeterMod(order),
                out,
            );
        }
        for (real, (slice, order)) in &groups {
            let known = found.groups.iter().find(|known| known.group == *real);
            let command = match known {
                Some(known) if known.buckets == order.buckets && known.kind == order.kind => {
                    continue;
                }
                Some(_) => GroupCommand::Modify,
                None => GroupCommand::Add,
            };
            let order = GroupMod { command, ..order.clone() };
            self.order(
                &VirtualSwitches::own(*slice, now),
                Kind::Own,
                Message::GroupMod(order),
                out,
            );
        }
        for (number, piece, command) in plan.rules {
            let Some(slice) = self.rules.get(number).map(|rule| rule.slice) else { continue };
            self.install_piece(&VirtualSwitches::own(slice, now), number, piece, command, out);
        }
        for entry in plan.own {
            self.order(&own, Kind::Own, Message::FlowMod(entry), out);
        }
        for known in found.groups.iter().filter(|known| !groups.contains_key(&known.group)) {
            let (command, kind, group) = (GroupCommand::Delete, known.kind, known.group);
            let order = GroupMod { command, kind, group, buckets: vec![] };
            self.order(&own, Kind::Attempt, Message::GroupMod(order), out);
        }
        for known in found.meters.iter().filter(|known| !meters.contains_key(&known.meter)) {
            let (command, flags) = (MeterCommand::Delete, MeterFlags::default());
            let order = MeterMod { command, flags, meter: known.meter, bands: vec![] };
            self.order(&own, Kind::Attempt, Message::MeterMod(order), out);
        }
    }

    /// The meters that the switch should have, by real number.
    fn meters_wanted(&self) -> BTreeMap<u32, (SliceId, MeterMod)> {
        let mut all = BTreeMap::new();
        for id in self.slicing.ids() {
            let Ok(member) = self.of(id) else { continue };
            for (real, said) in member.meters.values() {
                all.insert(*real, (id, MeterMod { meter: *real, ..said.clone() }));
            }
            let rate = self.slicing.slice(id).and_then(|slice| slice.quota.kilobits);
            if let Some((meter, kilobits)) = member.rate.zip(rate) {
                all.insert(meter, (id, VirtualSwitches::rate_order(meter, kilobits)));
            }
        }
        all
    }

    /// The groups that the switch should have.
    fn groups_wanted(&self) -> BTreeMap<u32, (SliceId, GroupMod)> {
        let mut all = BTreeMap::new();
        for id in self.slicing.ids() {
            let Ok(member) = self.of(id) else { continue };
            for (real, said) in member.groups.values() {
                let Ok(buckets) = self.buckets(id, said) else { continue };
                all.insert(*real, (id, GroupMod { group: *real, buckets, ..said.clone() }));
            }
        }
        all
    }
}
