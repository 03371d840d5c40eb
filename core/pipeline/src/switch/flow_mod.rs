//! Changes of flow tables (sections 6.4 and 7.3.4.1; 1.0.0 section 4.6).

use netloom_openflow::flow::{
    FlowCommand, FlowFlags, FlowMod, NO_BUFFER, RemovedReason, TABLE_ALL,
};
use netloom_openflow::matching::check as check_fields;
use netloom_openflow::{Action, Match, Reason, Version};

use super::task::{Chosen, Modifying, Task, filter};
use super::{Change, ConnectionId, Outputs, Switch};
use crate::check::{self, Known};
use crate::rule::{Rule, RuleId, Time, in_order};
use crate::uses;

impl Switch {
    pub(super) fn flow_mod(
        &mut self,
        id: ConnectionId,
        xid: u32,
        change: FlowMod,
        version: Version,
        now: Time,
        out: &mut Outputs,
    ) -> Result<(), Reason> {
        let deletes = matches!(change.command, FlowCommand::Delete | FlowCommand::DeleteStrict);
        // Only deletions may name all tables (section 6.4).
        let all = change.table == TABLE_ALL && deletes;
        if !all && change.table >= self.options.tables {
            return Err(Reason::FlowModFailedBadTableId);
        }
        if !deletes {
            self.check_rule(&change, version)?;
        }
        if !self.is_at_once(&change) {
            let filter = filter(&change, version);
            let task = match deletes {
                true => Task::Delete(Chosen::Filter(Box::new(filter)), RemovedReason::Delete),
                false => Task::Modify(Box::new(Modifying::new(change, filter))),
            };
            self.begin_job(id, version, xid, task);
            return Ok(());
        }
        match change.command {
            FlowCommand::Add => self.add(&change, version, now)?,
            FlowCommand::Modify | FlowCommand::ModifyStrict => {
                self.modify(&change, version, now)?
            }
            FlowCommand::Delete | FlowCommand::DeleteStrict => {
                self.delete(&change, version, now, out);
            }
            FlowCommand::Other(_) => return Err(Reason::FlowModFailedBadCommand),
        }
        self.changed();
        if change.buffer != NO_BUFFER && !deletes {
            // After the change: the packet is to meet the new entry. If the buffer is gone the entry stays
            // all the same.
            let (in_port, bytes) = self.buffers.take(change.buffer)?;
            self.resume(&bytes, in_port, now, out);
        }
        Ok(())
    }

    /// Whether a change is made at once: it concerns an entry or two, or there are few.
    pub(super) fn is_at_once(&self, change: &FlowMod) -> bool {
        self.has_few() || !matches!(change.command, FlowCommand::Modify | FlowCommand::Delete)
    }

    fn check_rule(&self, change: &FlowMod, version: Version) -> Result<(), Reason> {
        let fields = change.matching.to_oxm();
        if version == Version::V13 {
            check_fields(&fields)?;
        } else if change.flags.has(FlowFlags::EMERGENCY) {
            // The cache for emergencies has no room.
            return Err(Reason::FlowModFailedTableFull);
        }
        let (group, meter) = self.known();
        let tables = self.options.tables;
        let known = Known { tables, group: &group, meter: &meter, tables_as_port: false };
        check::instructions(&change.instructions, &fields, version, change.table, &known)
    }

    fn known(&self) -> (impl Fn(u32) -> bool, impl Fn(u32) -> bool) {
        let group = |group| self.groups.0.contains_key(&group);
        let meter = |meter| self.meters.contains_key(&meter);
        (group, meter)
    }

    /// Checks a list of actions outside of a flow entry.
    pub(super) fn check_actions(
        &self,
        actions: &[Action],
        version: Version,
        tables_as_port: bool,
    ) -> Result<(), Reason> {
        let (group, meter) = self.known();
        let tables = self.options.tables;
        let known = Known { tables, group: &group, meter: &meter, tables_as_port };
        // Of the packet nothing is known before it is read.
        check::list(actions, &[], version, false, &known)
    }

    pub(super) fn add(
        &mut self,
        change: &FlowMod,
        version: Version,
        now: Time,
    ) -> Result<(), Reason> {
        let most = self.max_entries(change.table);
        let mut rule = Rule::new(change, version, now);
        let index = usize::from(change.table);
        let table = self.tables.get(index).ok_or(Reason::FlowModFailedBadTableId)?;
        if change.flags.has(FlowFlags::CHECK_OVERLAP)
            && table.overlaps(&rule.pattern, rule.priority)
        {
            return Err(Reason::FlowModFailedOverlap);
        }
        let same = table.find(&rule.pattern, rule.priority);
        let freed = same.map_or(0, uses::of_rule);
        let same = same.map(|rule| rule.id);
        // An entry that replaces another takes its place, so a full table accepts it.
        let is_full = same.is_none() && table.len() >= usize::try_from(most).unwrap_or(usize::MAX);
        if is_full || !self.has_memory(freed, uses::of_rule(&rule)) {
            return Err(Reason::FlowModFailedTableFull);
        }
        let table = self.tables.get_mut(index).ok_or(Reason::FlowModFailedBadTableId)?;
        if let Some(old) = same.and_then(|id| table.remove(id)) {
            self.uses.rule_goes(&old);
            // 1.0 always begins at zero (4.6 of 1.0.0); 1.3 only with this flag.
            if version == Version::V13 && !change.flags.has(FlowFlags::RESET_COUNTS) {
                (rule.packets, rule.bytes) = (old.packets, old.bytes);
            }
            self.forget_deadline(&old);
            self.note(Change::RuleGone(old.id.number));
        }
        self.insert(rule, change.table);
        Ok(())
    }

    fn insert(&mut self, rule: Rule, table: u8) {
        self.numbers += 1;
        if let Some(id) = self.put(rule, table, self.numbers) {
            self.note(Change::Rule(id));
        }
    }

    /// Puts an entry into its table under a number of its own.
    pub(super) fn put(&mut self, rule: Rule, table: u8, number: u64) -> Option<RuleId> {
        let scheduled = rule.expires();
        let rule = Rule { scheduled, ..rule };
        self.uses.rule_comes(&rule);
        let id = self.tables.get_mut(usize::from(table))?.insert(rule, table, number);
        if let Some(at) = scheduled {
            self.deadlines.insert((at, id));
        }
        Some(id)
    }

    fn forget_deadline(&mut self, rule: &Rule) {
        if let Some(at) = rule.scheduled {
            self.deadlines.remove(&(at, rule.id));
        }
    }

    /// The entries that a modification or deletion is about.
    pub(super) fn chosen(&self, change: &FlowMod, version: Version) -> Vec<RuleId> {
        let filter = filter(change, version);
        if matches!(change.command, FlowCommand::ModifyStrict | FlowCommand::DeleteStrict) {
            let found = self.tables.iter().filter_map(|t| t.find(&filter.pattern, change.priority));
            return found.filter(|rule| filter.accepts(rule)).map(|rule| rule.id).collect();
        }
        let accepts = |rule: &Rule| filter.accepts(rule);
        self.tables.iter().flat_map(|table| table.select(accepts)).collect()
    }

    fn modify(&mut self, change: &FlowMod, version: Version, now: Time) -> Result<(), Reason> {
        let chosen = self.chosen(change, version);
        if chosen.is_empty() {
            // 1.0 adds what it cannot modify; later versions do nothing.
            return if version == Version::V10 { self.add(change, version, now) } else { Ok(()) };
        }
        let said = chosen.iter().filter_map(|id| self.rule(*id)).map(|rule| &rule.said);
        let freed = said.map(|said| uses::of_instructions(said)).sum();
        let taken = chosen.len() * uses::of_instructions(&change.instructions);
        // All or none: no entry changes unless there is room for each.
        if !self.has_memory(freed, taken) {
            return Err(Reason::FlowModFailedTableFull);
        }
        chosen.into_iter().for_each(|id| self.modify_one(id, change, version));
        Ok(())
    }

    /// Modifies an entry, if it still exists.
    pub(super) fn modify_one(&mut self, id: RuleId, change: &FlowMod, version: Version) {
        let table = self.tables.get_mut(usize::from(id.table));
        let Some(rule) = table.and_then(|table| table.get_mut(id)) else { return };
        self.uses.rule_goes(rule);
        rule.instructions = in_order(&change.instructions);
        rule.said = change.instructions.clone();
        // An entry is told and saved in the words of one version: the match follows its instructions.
        if rule.version != version {
            rule.matching = match version {
                Version::V10 => Match::V10(rule.matching.to_10().0),
                Version::V13 => Match::Oxm(rule.matching.to_oxm()),
            };
            rule.version = version;
        }
        // 1.0 sets the cookie by a modification; 1.3 leaves it as it is (section 6.4).
        if version == Version::V10 {
            rule.cookie = change.cookie;
        } else if change.flags.has(FlowFlags::RESET_COUNTS) {
            (rule.packets, rule.bytes) = (0, 0);
        }
        self.uses.rule_comes(rule);
        self.note(Change::Rule(id));
    }

    fn delete(&mut self, change: &FlowMod, version: Version, now: Time, out: &mut Outputs) {
        for id in self.chosen(change, version) {
            self.remove(id, RemovedReason::Delete, now, out);
        }
    }

    /// Removes an entry and tells those who want to know.
    pub(super) fn remove(
        &mut self,
        id: RuleId,
        reason: RemovedReason,
        now: Time,
        out: &mut Outputs,
    ) {
        let table = self.tables.get_mut(usize::from(id.table));
        let Some(rule) = table.and_then(|table| table.remove(id)) else { return };
        self.uses.rule_goes(&rule);
        self.forget_deadline(&rule);
        self.note(Change::RuleGone(rule.id.number));
        self.tell_removed(&rule, reason, now, out);
    }
}
