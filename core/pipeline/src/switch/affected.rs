//! Which results a change is about: known before it is made, so that a cache gives up these alone.
//!
//! A kept result stands for all packets that agree in what was consulted. A new entry makes it wrong only if one of
//! them can match the entry in a table that they go through, and the entry wins there. All of them have the same key in
//! the bits that were consulted, also after edits: these write constants or what was consulted, and a table behind a
//! removed header is not looked at for a cacheable result. So a new entry that asks for another value of one of
//! these bits matches none of them. Entries that change or go concern the results that went through them; a group
//! those that asked for its buckets, or whether one of them is live; a port those that came in or were sent by it, found a
//! closed port, were sent by all ports, or asked a group that watches it.

use netloom_openflow::action::GROUP_ALL;
use netloom_openflow::flow::{FlowCommand, FlowMod};
use netloom_openflow::group::GroupCommand;
use netloom_openflow::{Field, GroupMod, Message, PortNumber, Version};

use super::expire::MOST_DUE;
use super::{ConnectionId, ReadMessage, Switch};
use crate::key::{FlowKey, Pattern};
use crate::rule::{RuleId, Time};
use crate::trace::{Drop, Effect, Trace};

/// What a change is about.
#[derive(Clone, Debug, Default)]
pub struct Affected {
    /// Entries that may change or go, in order.
    rules: Vec<RuleId>,
    /// An entry that may come.
    added: Option<Added>,
    /// Groups that may come, change or go, or whose buckets may become live or cease to be.
    groups: Vec<u32>,
    /// A port that may come, change or go.
    port: Option<PortNumber>,
    /// By how much the generation grows, at most.
    steps: u64,
}

/// An entry that comes.
#[derive(Clone, Debug)]
struct Added {
    table: u8,
    priority: u16,
    pattern: Pattern,
}

impl Added {
    /// Whether a packet can match whose key is this one in some bits.
    fn can_match(&self, key: &FlowKey, fixed: &FlowKey) -> bool {
        let words = self.pattern.value.0.iter().zip(&self.pattern.mask.0);
        let mut words = words.zip(key.0.iter().zip(&fixed.0));
        words.all(|((value, mask), (word, fixed))| (value ^ word) & mask & fixed == 0)
    }
}

impl Affected {
    /// Whether a result may be another one after the change, or has packets to count that the change asks for.
    /// The trace is cacheable and holds before the change.
    pub fn reaches(&self, trace: &Trace, switch: &Switch) -> bool {
        let group = trace.asked.iter().any(|asked| self.groups.contains(asked));
        let port = self.port.is_some_and(|port| passes(trace, port));
        let step = trace.steps.iter().any(|step| {
            let changed = step.rule.is_some_and(|id| self.rules.binary_search(&id).is_ok());
            changed
                || self.added.as_ref().is_some_and(|added| {
                    added.table == step.table
                        && added.can_match(&step.key, &trace.consulted)
                        && !step.rule.is_some_and(|id| switch.withstands(id, added))
                })
        });
        group || port || step
    }

    /// By how much [`Switch::generation`] grows if nothing else changes: at most.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    pub(super) fn of_rules(mut rules: Vec<RuleId>, steps: u64) -> Affected {
        rules.sort_unstable();
        Affected { rules, steps, ..Affected::default() }
    }
}

impl Switch {
    /// What a message of a connection may change; `None`: anything. A message that leaves what happens to packets as it
    /// is, or is refused, may be said to change something.
    pub fn affected_by(&self, id: ConnectionId, message: &ReadMessage<'_>) -> Option<Affected> {
        let version = self.version(id)?;
        let Some(message) = message.said() else { return Some(Affected::default()) };
        match message {
            Message::FlowMod(change) => Some(self.affected_by_flow_mod(change, version)),
            Message::GroupMod(change) => self.affected_by_group_mod(change),
            Message::PortMod(change) => Some(self.affected_by_port(change.port)),
            // No result that goes through a meter is cacheable.
            Message::MeterMod(_) => Some(Affected { steps: 1, ..Affected::default() }),
            _ => None,
        }
    }

    /// Deleting a group deletes the entries that use it; one that buckets use is not deleted.
    fn affected_by_group_mod(&self, change: &GroupMod) -> Option<Affected> {
        let group = change.group;
        let deletes = change.command == GroupCommand::Delete;
        // Every entry with a group goes; which these are is not looked for, the whole cache is emptied.
        if deletes && group == GROUP_ALL {
            return None;
        }
        if deletes && !self.groups.0.contains_key(&group) {
            return Some(Affected { steps: 1, ..Affected::default() });
        }
        // Of many entries, those that use it go later.
        let used = deletes && self.uses.groups.of(group) > 0 && self.has_few();
        let users = self.rules().filter(|rule| used && rule.uses_group(group));
        let users: Vec<RuleId> = users.map(|rule| rule.id).collect();
        let steps = u64::try_from(users.len()).unwrap_or(u64::MAX).saturating_add(1);
        Some(Affected { groups: vec![group], ..Affected::of_rules(users, steps) })
    }

    /// What [`Switch::set_port`] and [`Switch::remove_port`] of a port, or a controller's change of it, may change.
    pub fn affected_by_port(&self, port: PortNumber) -> Affected {
        let watching = self.groups.0.iter().filter(|(_, group)| group.watches(port));
        let groups = watching.map(|(number, _)| *number).collect();
        Affected { groups, port: Some(port), steps: 1, ..Affected::default() }
    }

    fn affected_by_flow_mod(&self, change: &FlowMod, version: Version) -> Affected {
        let added = || {
            let pattern = Pattern::new(&change.matching.to_oxm());
            let added = Added { table: change.table, priority: change.priority, pattern };
            Affected { added: Some(added), steps: 1, ..Affected::default() }
        };
        if change.command == FlowCommand::Add {
            return added();
        }
        if !self.is_at_once(change) {
            // What changes later is known then.
            return Affected::default();
        }
        let chosen = self.chosen(change, version);
        let modifies = matches!(change.command, FlowCommand::Modify | FlowCommand::ModifyStrict);
        // 1.0 adds what it cannot modify.
        if chosen.is_empty() && modifies && version == Version::V10 {
            return added();
        }
        Affected::of_rules(chosen, 1)
    }

    /// What [`Switch::tick`] may change; `None`: anything.
    pub fn affected_by_time(&mut self, now: Time) -> Option<Affected> {
        if self.learning.has_old(now) {
            return None;
        }
        let due = self.deadlines.iter().take_while(|(at, _)| *at <= now).take(MOST_DUE);
        let rules: Vec<RuleId> = due.map(|(_, id)| *id).collect();
        let steps = u64::try_from(rules.len()).unwrap_or(u64::MAX);
        Some(Affected::of_rules(rules, steps))
    }

    /// Whether an entry is matched before one that comes, and is not replaced by it.
    fn withstands(&self, id: RuleId, added: &Added) -> bool {
        self.rule(id).is_some_and(|rule| {
            rule.priority > added.priority
                || rule.priority == added.priority && rule.pattern != added.pattern
        })
    }
}

/// Whether a port decides what happens to the packets of a result.
fn passes(trace: &Trace, port: PortNumber) -> bool {
    let sent = |effect: &Effect| matches!(effect, Effect::Send { port: by, .. } if *by == port);
    let closed = |drop: &Drop| matches!(drop, Drop::Send | Drop::Receive);
    trace.key.get(Field::InPort) == u128::from(port.0)
        || trace.everywhere
        || trace.drops.iter().any(closed)
        || trace.effects.iter().any(sent)
}
