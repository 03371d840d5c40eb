//! What a switch must know after its process has started again: entries, groups, meters, settings, with their counters; and
//! which of them have changed.
//!
//! Connections, buffered packets, learned addresses and ports are not part of it. Restored state is checked as far as
//! the pipeline relies on it, since it may come from a damaged file: no table is left backwards, no group goes round.

use netloom_openflow::flow::{FlowCommand, FlowMod};
use netloom_openflow::group::{GroupCommand, GroupMod};
use netloom_openflow::meter::{MeterCommand, MeterMod};
use netloom_openflow::multipart::{PortStats, TableFeatures};
use netloom_openflow::port::PortConfig;
use netloom_openflow::switch::Fragments;
use netloom_openflow::{PortNumber, Reason, Version};

use super::Switch;
use crate::check::{self, Known};
use crate::group::Group;
use crate::meter::Meter;
use crate::rule::{Rule, RuleId, Time};

/// A flow entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedRule {
    /// Its number, which no other entry has or will have.
    pub number: u64,
    /// The version that it was said in.
    pub version: Version,
    /// The modification that adds it.
    pub change: FlowMod,
    /// When it was added.
    pub created: Time,
    /// When it was used.
    pub used: Time,
    /// Packets that it matched.
    pub packets: u64,
    /// Bytes of them.
    pub bytes: u64,
}

/// A group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedGroup {
    /// The modification that adds it.
    pub change: GroupMod,
    /// When it was added.
    pub created: Time,
    /// Packets that went through it, and their bytes.
    pub counters: (u64, u64),
    /// The same of each bucket.
    pub buckets: Vec<(u64, u64)>,
}

/// A meter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedMeter {
    /// The modification that adds it.
    pub change: MeterMod,
    /// When it was added.
    pub created: Time,
    /// Packets that went through it, and their bytes.
    pub counters: (u64, u64),
    /// Those to which each band applied.
    pub bands: Vec<(u64, u64)>,
}

/// The rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedSettings {
    /// Numbers of entries given so far.
    pub numbers: u64,
    /// The treatment of fragments.
    pub fragments: Fragments,
    /// The greatest generation of an election of masters.
    pub election: Option<u64>,
    /// Features of tables that a controller set.
    pub features: Option<Vec<TableFeatures>>,
}

/// Something that is to be saved again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Change {
    /// An entry was added or changed.
    Rule(RuleId),
    /// An entry was removed, by its number.
    RuleGone(u64),
    /// A group was added, changed or removed.
    Group(u32),
    /// A meter was added, changed or removed.
    Meter(u32),
    /// A controller configured a port.
    Port(PortNumber),
    /// A setting was changed.
    Settings,
}

impl Rule {
    /// The modification that adds it.
    pub fn change(&self) -> FlowMod {
        FlowMod {
            cookie: self.cookie,
            table: self.id.table,
            idle_timeout: self.idle_timeout,
            hard_timeout: self.hard_timeout,
            priority: self.priority,
            flags: self.flags,
            instructions: self.said.clone(),
            ..FlowMod::new(FlowCommand::Add, self.matching.clone())
        }
    }

    /// As it is to be saved.
    pub fn saved(&self) -> SavedRule {
        SavedRule {
            number: self.id.number,
            version: self.version,
            change: self.change(),
            created: self.created,
            used: self.used,
            packets: self.packets,
            bytes: self.bytes,
        }
    }
}

fn saved_group(number: u32, group: &Group) -> SavedGroup {
    SavedGroup {
        change: GroupMod {
            command: GroupCommand::Add,
            kind: group.kind,
            group: number,
            buckets: group.buckets.clone(),
        },
        created: group.created,
        counters: (group.packets, group.bytes),
        buckets: group.counters.clone(),
    }
}

fn saved_meter(number: u32, meter: &Meter) -> SavedMeter {
    SavedMeter {
        change: MeterMod {
            command: MeterCommand::Add,
            flags: meter.flags,
            meter: number,
            bands: meter.bands.clone(),
        },
        created: meter.created,
        counters: (meter.packets, meter.bytes),
        bands: meter.applied.clone(),
    }
}

impl Switch {
    /// Notes from now on what changes, for [`Switch::take_changes`].
    pub fn note_changes(&mut self) {
        self.changes.get_or_insert_default();
    }

    /// The changes since it was last asked, in order.
    pub fn take_changes(&mut self) -> Vec<Change> {
        self.changes.as_mut().map(std::mem::take).unwrap_or_default()
    }

    pub(super) fn note(&mut self, change: Change) {
        if let Some(changes) = &mut self.changes {
            changes.push(change);
        }
    }

    /// How many groups and meters there are.
    pub fn group_and_meter_counts(&self) -> (usize, usize) {
        (self.groups.0.len(), self.meters.len())
    }

    /// The groups through which packets went.
    pub fn groups_used(&self) -> impl Iterator<Item = SavedGroup> {
        let used = self.groups.0.iter().filter(|(_, group)| group.packets > 0);
        used.map(|(number, group)| saved_group(*number, group))
    }

    /// The meters through which packets went.
    pub fn meters_used(&self) -> impl Iterator<Item = SavedMeter> {
        let used = self.meters.iter().filter(|(_, meter)| meter.packets > 0);
        used.map(|(number, meter)| saved_meter(*number, meter))
    }

    /// The groups.
    pub fn groups(&self) -> impl Iterator<Item = SavedGroup> {
        self.groups.0.iter().map(|(number, group)| saved_group(*number, group))
    }

    /// The groups from a number on.
    pub fn groups_from(&self, from: u32) -> impl Iterator<Item = SavedGroup> {
        self.groups.0.range(from..).map(|(number, group)| saved_group(*number, group))
    }

    /// A group.
    pub fn group_saved(&self, number: u32) -> Option<SavedGroup> {
        self.groups.0.get(&number).map(|group| saved_group(number, group))
    }

    /// The meters.
    pub fn meters(&self) -> impl Iterator<Item = SavedMeter> {
        self.meters.iter().map(|(number, meter)| saved_meter(*number, meter))
    }

    /// The meters from a number on.
    pub fn meters_from(&self, from: u32) -> impl Iterator<Item = SavedMeter> {
        self.meters.range(from..).map(|(number, meter)| saved_meter(*number, meter))
    }

    /// A meter.
    pub fn meter_saved(&self, number: u32) -> Option<SavedMeter> {
        self.meters.get(&number).map(|meter| saved_meter(number, meter))
    }

    /// The settings.
    pub fn settings(&self) -> SavedSettings {
        SavedSettings {
            numbers: self.numbers,
            fragments: self.fragments,
            election: self.election,
            features: self.features.clone(),
        }
    }

    /// How many entries a table has, and packets looked up in it and matched.
    pub fn table_counters(&self, table: u8) -> Option<(usize, u64, u64)> {
        let table = self.tables.get(usize::from(table))?;
        Some((table.len(), table.lookups, table.matched))
    }

    /// Counters of a port, and when it was added.
    pub fn port_counters(&self, number: PortNumber) -> Option<(PortStats, Time)> {
        self.ports.get(&number).map(|port| (port.stats, port.created))
    }

    /// Puts an entry back.
    ///
    /// # Errors
    /// Why no switch with these options can have it.
    pub fn restore_rule(&mut self, saved: SavedRule) -> Result<(), Reason> {
        let SavedRule { number, version, change, created, used, packets, bytes } = saved;
        if change.table >= self.options.tables {
            return Err(Reason::FlowModFailedBadTableId);
        }
        let fields = change.matching.to_oxm();
        if version == Version::V13 {
            netloom_openflow::matching::check(&fields)?;
        }
        // A group or meter that is missing does not cost the entry: `walk` drops the packets that need it.
        let any = |_| true;
        let known =
            Known { tables: self.options.tables, group: &any, meter: &any, tables_as_port: false };
        check::instructions(&change.instructions, &fields, version, change.table, &known)?;
        let rule = Rule { used, packets, bytes, ..Rule::new(&change, version, created) };
        // A number is never given twice: caches and the file know entries by it.
        self.numbers = self.numbers.max(number);
        self.put(rule, change.table, number);
        self.changed();
        Ok(())
    }

    /// Puts a group back.
    ///
    /// # Errors
    /// Why no switch can have it.
    pub fn restore_group(&mut self, saved: SavedGroup) -> Result<(), Reason> {
        let SavedGroup { change, created, counters, buckets } = saved;
        let mut group = Group::new(change.kind, &change.buckets, created);
        if change.group > netloom_openflow::action::GROUP_MAX {
            return Err(Reason::GroupModFailedInvalidGroup);
        }
        match self.check_loops(change.group, &group) {
            // It was checked when it was made; no packet goes round in it for ever in any case.
            Ok(()) | Err(Reason::GroupModFailedChainingUnsupported) => {}
            Err(reason) => return Err(reason),
        }
        (group.packets, group.bytes) = counters;
        // From a damaged file: counters of other buckets would be wrong.
        if buckets.len() == group.counters.len() {
            group.counters = buckets;
        }
        self.uses.group_comes(&group);
        if let Some(old) = self.groups.0.insert(change.group, group) {
            self.uses.group_goes(&old);
        }
        self.changed();
        Ok(())
    }

    /// Puts a meter back, with full bands.
    pub fn restore_meter(&mut self, saved: SavedMeter, now: Time) {
        let SavedMeter { change, created, counters, bands } = saved;
        // Its bands fill from now on, however old it is.
        let mut meter = Meter::new(change.flags, &change.bands, now);
        meter.created = created;
        (meter.packets, meter.bytes) = counters;
        // As with buckets.
        if bands.len() == meter.applied.len() {
            meter.applied = bands;
        }
        self.uses.meter_comes(&meter);
        if let Some(old) = self.meters.insert(change.meter, meter) {
            self.uses.meter_goes(&old);
        }
        self.changed();
    }

    /// Puts settings back.
    pub fn restore_settings(&mut self, saved: SavedSettings) {
        let SavedSettings { numbers, fragments, election, features } = saved;
        self.numbers = self.numbers.max(numbers);
        (self.fragments, self.election) = (fragments, election);
        self.features = features;
        self.changed();
    }

    /// Puts back what a controller configured of a port, and its counters.
    pub fn restore_port(
        &mut self,
        number: PortNumber,
        config: PortConfig,
        stats: PortStats,
        created: Time,
    ) {
        if let Some(port) = self.ports.get_mut(&number) {
            port.restore(config, stats, created);
            self.changed();
        }
    }
}
