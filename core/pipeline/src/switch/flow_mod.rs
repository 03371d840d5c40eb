//! Changes of flow tables (sections 6.4 and 7.3.4.1; 1.0.0 section 4.6).

use netloom_openflow::action::GROUP_ANY;
use netloom_openflow::flow::{
    FlowCommand, FlowFlags, FlowMod, NO_BUFFER, RemovedReason, TABLE_ALL,
};
use netloom_openflow::matching::check as check_fields;
use netloom_openflow::{Action, Match, PortNumber, Reason, Version};

use super::{Change, Outputs, Switch};
use crate::check::{self, Known};
use crate::key::Pattern;
use crate::rule::{Rule, RuleId, Time, in_order};

/// Which entries a request is about.
pub(super) struct Filter {
    /// The table, or all.
    pub(super) table: u8,
    pub(super) pattern: Pattern,
    pub(super) cookie: u64,
    pub(super) cookie_mask: u64,
    pub(super) out_port: PortNumber,
    pub(super) out_group: u32,
}

impl Filter {
    pub(super) fn accepts(&self, rule: &Rule) -> bool {
        (self.table == TABLE_ALL || self.table == rule.id.table)
            && rule.cookie & self.cookie_mask == self.cookie & self.cookie_mask
            && self.pattern.is_wider(&rule.pattern)
            && rule.outputs_to(self.out_port)
            && rule.uses_group(self.out_group)
    }
}

impl Switch {
    pub(super) fn flow_mod(
        &mut self,
        change: &FlowMod,
        version: Version,
        now: Time,
        out: &mut Outputs,
    ) -> Result<(), Reason> {
        let deletes = matches!(change.command, FlowCommand::Delete | FlowCommand::DeleteStrict);
        let all = change.table == TABLE_ALL && deletes;
        if !all && change.table >= self.options.tables {
            return Err(Reason::FlowModFailedBadTableId);
        }
        if !deletes {
            self.check_rule(change, version)?;
        }
        match change.command {
            FlowCommand::Add => self.add(change, version, now)?,
            FlowCommand::Modify | FlowCommand::ModifyStrict => self.modify(change, version, now)?,
            FlowCommand::Delete | FlowCommand::DeleteStrict => {
                self.delete(change, version, now, out);
            }
            FlowCommand::Other(_) => return Err(Reason::FlowModFailedBadCommand),
        }
        self.changed();
        if change.buffer != NO_BUFFER && !deletes {
            let (in_port, bytes) = self.buffers.take(change.buffer)?;
            self.resume(&bytes, in_port, now, out);
        }
        Ok(())
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

    fn add(&mut self, change: &FlowMod, version: Version, now: Time) -> Result<(), Reason> {
        let most = self.max_entries(change.table);
        let mut rule = Rule::new(change, version, now);
        let index = usize::from(change.table);
        let table = self.tables.get_mut(index).ok_or(Reason::FlowModFailedBadTableId)?;
        if change.flags.has(FlowFlags::CHECK_OVERLAP)
            && table.overlaps(&rule.pattern, rule.priority)
        {
            return Err(Reason::FlowModFailedOverlap);
        }
        let same = table.find(&rule.pattern, rule.priority).map(|rule| rule.id);
        if same.is_none() && table.len() >= usize::try_from(most).unwrap_or(usize::MAX) {
            return Err(Reason::FlowModFailedTableFull);
        }
        if let Some(old) = same.and_then(|id| table.remove(id)) {
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
        let fields = change.matching.to_oxm();
        let deletes = matches!(change.command, FlowCommand::Delete | FlowCommand::DeleteStrict);
        let strict =
            matches!(change.command, FlowCommand::ModifyStrict | FlowCommand::DeleteStrict);
        let v10 = version == Version::V10;
        let filter = Filter {
            // 1.0 knows no tables.
            table: if v10 { TABLE_ALL } else { change.table },
            pattern: Pattern::new(&fields),
            cookie: change.cookie,
            cookie_mask: if v10 { 0 } else { change.cookie_mask },
            out_port: if deletes { change.out_port } else { PortNumber::ANY },
            out_group: if deletes && !v10 { change.out_group } else { GROUP_ANY },
        };
        if strict {
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
        for id in chosen {
            let table = self.tables.get_mut(usize::from(id.table));
            let Some(rule) = table.and_then(|table| table.get_mut(id)) else { continue };
            rule.instructions = in_order(&change.instructions);
            rule.said.clone_from(&change.instructions);
            if rule.version != version {
                rule.matching = match version {
                    Version::V10 => Match::V10(rule.matching.to_10().0),
                    Version::V13 => Match::Oxm(rule.matching.to_oxm()),
                };
                rule.version = version;
            }
            if version == Version::V10 {
                rule.cookie = change.cookie;
            } else if change.flags.has(FlowFlags::RESET_COUNTS) {
                (rule.packets, rule.bytes) = (0, 0);
            }
            self.note(Change::Rule(id));
        }
        Ok(())
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
        self.forget_deadline(&rule);
        self.note(Change::RuleGone(rule.id.number));
        self.tell_removed(&rule, reason, now, out);
    }
}
