//! A new process resumes where an earlier one ended, or with a switch that reconnects: what slices said is known, and
//! the switch tells what it has.
//!
//! What is remembered in a file is proved again, by the slices as they are now; what this process has proved itself,
//! of the same slices, is not. Entries that a rule still needs stay as they are, so that no packet is lost; what is
//! missing is made, what belongs to no rule is removed. A switch that has nothing of what is remembered has lost it:
//! then [`Error::Memory`] says so, and one starts over. All of it is done in parts: what slices said is proved here,
//! what the switch has is compared in `found`, and `carry` tells the switch.

mod carry;
mod found;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use netloom_openflow::flow::{FlowCommand, FlowMod};
use netloom_openflow::multipart::{FlowStats, GroupDesc, MeterConfig};
use netloom_openflow::switch::Features;
use netloom_openflow::{Action, GroupMod, Instruction, Match, MeterMod, Port, Version, action};
use netloom_pipeline::Pattern;

use super::groups;
use super::making::Making;
use super::member::Kept;
use super::pending::Pending;
use super::tasks::Grouping;
use super::{Out, VirtualSwitches};
use crate::memory::{Memory, RuleSaid};
use crate::{Error, SliceId, Slicing, Time, Work};

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

/// An entry of a rule: its slice, its number, which of its entries.
type Entry = (SliceId, u64, usize);

/// A switch with which it goes on, under way.
#[derive(Debug)]
pub struct Resuming {
    switches: VirtualSwitches,
    found: Found,
    stage: Stage,
    /// What an earlier process said of rules that are not proved yet.
    said: VecDeque<(u64, RuleSaid)>,
    lost: u64,
    /// Entries that no rule has by their cookies.
    strays: HashMap<Place, FlowStats>,
    plan: Plan,
}

/// The next work.
#[derive(Debug)]
enum Stage {
    /// The groups of slices, and one that is being proved.
    Groups(VecDeque<(SliceId, u32)>, Option<(SliceId, u32, Box<Grouping>)>),
    /// Rules that were said, and one that is being made.
    Rules(Option<(u64, SliceId, Box<Making>)>),
    /// Entries that the switch told.
    Found,
    /// Rules of a slice, from a number on: their entries that the switch did not tell.
    Missing(SliceId, u64),
    /// The switch is to be told.
    Ready(Carry),
}

/// What the switch is told next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Carry {
    Stale,
    Settings,
    Meters,
    Groups,
    Rules,
    Own,
    NoGroups,
    NoMeters,
    Done,
}

/// The work on the entries of a switch.
#[derive(Debug, Default)]
struct Plan {
    /// Whether it is begun, and anything was there that was expected.
    begun: bool,
    found: bool,
    stale: VecDeque<FlowMod>,
    meters: VecDeque<(SliceId, MeterMod)>,
    groups: VecDeque<(SliceId, u32)>,
    /// Entries of rules that are recreated or changed.
    rules: VecDeque<(Entry, FlowCommand)>,
    own: VecDeque<FlowMod>,
    no_groups: VecDeque<GroupMod>,
    no_meters: VecDeque<u32>,
    /// How long the rules have been there of which something is.
    ages: BTreeMap<(SliceId, u64), Time>,
    kept: u64,
    made: u64,
    removed: u64,
}

fn place(version: Version, table: u8, priority: u16, matching: &Match) -> Place {
    // Changes name none in 1.0: in which table an entry lies is the switch's own affair.
    let table = if version == Version::V10 { 0 } else { table };
    (table, priority, Pattern::of(matching))
}

/// Whether instructions do the same.
fn same(one: &[Instruction], other: &[Instruction]) -> bool {
    // Switches may leave out an empty list of actions.
    let does = |instruction: &&Instruction| match instruction {
        Instruction::ApplyActions(all) => !all.is_empty(),
        _ => true,
    };
    one.iter().filter(does).eq(other.iter().filter(does))
}

fn wide(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

impl VirtualSwitches {
    /// Goes on with a switch of which an earlier process remembered something, and which says what it has. Slices keep the
    /// numbers that they had ([`Memory::placed`]). All at once; see [`VirtualSwitches::resuming`].
    ///
    /// # Errors
    /// As [`VirtualSwitches::new`]; [`Error::Memory`] if nothing remembered is true of the switch.
    pub fn resume(
        slicing: Arc<Slicing>,
        version: Version,
        features: &Features,
        ports: &[Port],
        now: Time,
        memory: Memory,
        found: Found,
    ) -> Result<(VirtualSwitches, Vec<Out>, Resumed), Error> {
        let mut resuming =
            VirtualSwitches::resuming(slicing, version, features, ports, memory, found)?;
        while !resuming.goes_on(now, &mut Work::all())? {}
        let mut out = vec![];
        while !resuming.carry_out(now, &mut Work::all(), &mut out) {}
        let (switches, resumed) = resuming.finish();
        Ok((switches, out, resumed))
    }

    /// Begins to go on with such a switch. It is told nothing yet.
    ///
    /// # Errors
    /// As [`VirtualSwitches::resume`].
    pub fn resuming(
        slicing: Arc<Slicing>,
        version: Version,
        features: &Features,
        ports: &[Port],
        mut memory: Memory,
        found: Found,
    ) -> Result<Resuming, Error> {
        if memory.datapath != features.datapath_id {
            return Err(Error::Memory("it is of another switch"));
        }
        // What controllers said is remembered in messages of that version.
        if memory.version != version {
            return Err(Error::Memory("the switch spoke another version of OpenFlow"));
        }
        let mut switches = VirtualSwitches::bare(slicing, version, features, ports)?;
        let groups = switches.recall(&mut memory);
        let all = std::mem::take(&mut memory.rules);
        let count = all.len();
        let is_of = |(_, rule): &(u64, RuleSaid)| switches.is_of(rule.slice, &memory);
        let said: VecDeque<(u64, RuleSaid)> = all.into_iter().filter(is_of).collect();
        let lost = wide(count - said.len());
        Ok(Resuming::new(switches, found, Stage::Groups(groups, None), said, lost))
    }

    /// Begins to go on with the switch, which has connected again and says what it has. Nothing is proved again. It is told
    /// nothing yet.
    ///
    /// # Errors
    /// [`Error::Memory`] if it is not the switch that it was.
    pub fn again(
        mut self,
        version: Version,
        features: &Features,
        ports: &[Port],
        found: Found,
    ) -> Result<Resuming, Error> {
        if self.features.datapath_id != features.datapath_id || self.version != version {
            return Err(Error::Memory("it is of another switch"));
        }
        self.features = Features { ports: vec![], ..features.clone() };
        let ports = ports.iter().chain(&features.ports);
        self.ports = ports.map(|port| (port.number, *port)).collect();
        // Answers to what was asked on the old connection do not come any more.
        self.pending = Pending::default();
        self.jobs.clear();
        let numbers: Vec<_> = self.ports.keys().copied().collect();
        for slice in self.slicing.ids() {
            let Some(member) = self.member(slice) else { continue };
            member.connected = false;
            let before = member.all().len();
            numbers.iter().for_each(|port| member.appeared(*port));
            if member.all().len() != before {
                // It is done when slices have their turns.
                self.flood_again(&VirtualSwitches::own(slice, 0));
            }
        }
        let (none, said) = (VecDeque::new(), VecDeque::new());
        Ok(Resuming::new(self, found, Stage::Groups(none, None), said, 0))
    }

    /// What slices had beside rules; returns their groups, which are to be proved.
    fn recall(&mut self, memory: &mut Memory) -> VecDeque<(SliceId, u32)> {
        // New ones are numbered behind all of before, because the switch may still have entries of those that are
        // lost.
        let [rules, groups, meters] = memory.last;
        self.rules.last = rules;
        let number = |last: u64| u32::try_from(last).unwrap_or(u32::MAX);
        (self.groups, self.meters) = (number(groups), number(meters));
        let mut all = VecDeque::new();
        for id in self.slicing.ids() {
            let known = self.is_of(id, memory);
            let before = memory.slices.get_mut(&id).filter(|_| known);
            let (Some(before), Some(member)) = (before, self.member(id)) else { continue };
            member.recall(before);
            for (number, (real, said)) in std::mem::take(&mut before.groups) {
                // What it takes counts when it is proved.
                member.groups.put(number, Kept { real, said, buckets: 0, bytes: 0 });
                all.push_back((id, number));
            }
            for (number, (real, said)) in std::mem::take(&mut before.meters) {
                // A meter sends nothing: there is nothing to prove.
                member.meters.put(number, groups::kept_meter(real, said));
            }
        }
        for id in self.slicing.ids() {
            let rate = self.slicing.slice(id).and_then(|slice| slice.quota.kilobits);
            let known = self.of(id).ok().and_then(|member| member.rate);
            let meter = match (rate, known) {
                // The slice has got a rate since.
                (Some(_), None) => {
                    self.meters += 1;
                    Some(self.meters)
                }
                (Some(_), known) => known,
                // Its meter at the switch is nobody's then, and is deleted as such.
                (None, _) => None,
            };
            if let Some(member) = self.member(id) {
                member.rate = meter;
            }
        }
        all
    }

    /// Whether a slice of the memory is the one that has its number now.
    fn is_of(&self, id: SliceId, memory: &Memory) -> bool {
        let now = self.slicing.slice(id).map(|slice| slice.name.as_str());
        memory.slices.get(&id).is_some_and(|before| Some(before.name.as_str()) == now)
    }

    /// Groups that use one that is not there are forgotten, and those that use these.
    fn forget_users(&mut self) {
        for id in self.slicing.ids() {
            let Some(member) = self.member(id) else { continue };
            let mut users: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
            let mut gone: Vec<u32> = vec![];
            for (number, kept) in member.groups.all() {
                for used in uses(&kept.said) {
                    users.entry(used).or_default().push(number);
                    gone.extend(member.groups.get(used).is_none().then_some(number));
                }
            }
            while let Some(group) = gone.pop() {
                if member.groups.remove(group).is_some() {
                    gone.extend(users.get(&group).into_iter().flatten());
                }
            }
        }
    }
}

/// The groups that a group's buckets use.
fn uses(said: &GroupMod) -> impl Iterator<Item = u32> {
    said.buckets.iter().flat_map(|bucket| {
        let through = bucket.actions.iter().filter_map(|action| match action {
            Action::Group(group) => Some(*group),
            _ => None,
        });
        let watched = Some(bucket.watch_group).filter(|group| *group != action::GROUP_ANY);
        through.chain(watched)
    })
}

impl Resuming {
    fn new(
        switches: VirtualSwitches,
        found: Found,
        stage: Stage,
        said: VecDeque<(u64, RuleSaid)>,
        lost: u64,
    ) -> Resuming {
        let (strays, plan) = (HashMap::new(), Plan::default());
        Resuming { switches, found, stage, said, lost, strays, plan }
    }

    /// What it will go on with: to be remembered before the switch is told anything.
    pub fn switches(&mut self) -> &mut VirtualSwitches {
        &mut self.switches
    }

    /// Goes on, up to what the switch is to be told; returns whether it is known.
    ///
    /// # Errors
    /// [`Error::Memory`] if nothing is true of the switch.
    pub fn goes_on(&mut self, now: Time, work: &mut Work) -> Result<bool, Error> {
        loop {
            let next = match &mut self.stage {
                Stage::Groups(..) => self.prove_group(work),
                Stage::Rules(_) => self.make_rule(now, work),
                Stage::Found => self.look_at_found(work),
                Stage::Missing(..) => self.look_for_missing(now, work)?,
                Stage::Ready(_) => return Ok(true),
            };
            if let Some(next) = next {
                self.stage = next;
            }
            if !work.is_left() {
                return Ok(matches!(self.stage, Stage::Ready(_)));
            }
        }
    }

    /// Groups that are not possible any more are forgotten.
    fn prove_group(&mut self, work: &mut Work) -> Option<Stage> {
        let Stage::Groups(all, open) = &mut self.stage else { return None };
        let switches = &mut self.switches;
        if open.is_none() {
            let Some((slice, number)) = all.pop_front() else {
                // Only now it is known which are not there.
                switches.forget_users();
                return Some(Stage::Rules(None));
            };
            let kept = switches.of(slice).ok().and_then(|member| member.groups.get(number));
            let grouping = kept.map(|kept| Box::new(Grouping::new(kept.said.clone())));
            *open = grouping.map(|grouping| (slice, number, grouping));
        }
        let (slice, number, grouping) = open.as_mut()?;
        let (slice, number) = (*slice, *number);
        let made = match switches.make_group(slice, grouping, work) {
            Ok(false) => return None,
            Ok(true) => Some(grouping.kept()),
            Err(_) => None,
        };
        *open = None;
        let member = switches.member(slice)?;
        let gone = member.groups.remove(number)?;
        if let Some(kept) = made {
            member.groups.put(number, Kept { real: gone.real, ..kept.with(gone.said) });
        }
        None
    }

    /// A rule that is not possible any more is lost.
    fn make_rule(&mut self, now: Time, work: &mut Work) -> Option<Stage> {
        let Stage::Rules(open) = &mut self.stage else { return None };
        let switches = &mut self.switches;
        if open.is_none() {
            let Some((number, before)) = self.said.front() else {
                return Some(Stage::Found);
            };
            let slice = before.slice;
            match switches.making(slice, before.said.clone(), true) {
                Ok(making) => *open = Some((*number, slice, Box::new(making))),
                Err(_) => {
                    self.lost += 1;
                    self.said.pop_front();
                    return None;
                }
            }
        }
        let (number, slice, making) = open.as_mut()?;
        let (number, slice) = (*number, *slice);
        let made = match switches.make(slice, making, work) {
            Ok(false) => return None,
            Ok(true) => Some(making.rule(&VirtualSwitches::own(slice, now))),
            Err(_) => None,
        };
        *open = None;
        let (_, before) = self.said.pop_front()?;
        // Its quota may have become smaller.
        let fits = made.filter(|rule| {
            let replaced = switches.rules.same_as(rule);
            switches.has_room(rule, replaced).is_ok()
        });
        match fits {
            Some(mut rule) => {
                (rule.packets, rule.bytes) = (before.packets, before.bytes);
                switches.rules.put(number, rule);
            }
            None => self.lost += 1,
        }
        None
    }

    /// Goes on with the switch, which was told everything.
    pub fn finish(self) -> (VirtualSwitches, Resumed) {
        let Resuming { switches, plan, lost, .. } = self;
        let resumed = Resumed {
            rules: wide(switches.rules.living().count()),
            lost,
            kept: plan.kept,
            made: plan.made,
            removed: plan.removed,
        };
        (switches, resumed)
    }
}
