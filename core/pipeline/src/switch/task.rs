//! What messages about many entries, groups or meters ask for.

use std::collections::{BTreeMap, BTreeSet};

use netloom_openflow::action::GROUP_ANY;
use netloom_openflow::flow::{FlowCommand, FlowMod, RemovedReason, TABLE_ALL};
use netloom_openflow::multipart::Aggregate;
use netloom_openflow::{Action, PortNumber, Version, weight};

use crate::group::Group;
use crate::key::Pattern;
use crate::meter::Meter;
use crate::rule::Rule;

/// Steps for an entry that is told, and for one that is changed or removed, and written down; and bytes of it that take
/// another one.
pub(super) const TOLD: usize = 16;
pub(super) const CHANGED: usize = 64;
pub(super) const BYTES: usize = 64;

/// Which entries a request is about.
#[derive(Debug)]
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

/// The entries that a modification or deletion asks for.
pub(super) fn filter(change: &FlowMod, version: Version) -> Filter {
    let deletes = matches!(change.command, FlowCommand::Delete | FlowCommand::DeleteStrict);
    let v10 = version == Version::V10;
    Filter {
        // 1.0 knows no tables.
        table: if v10 { TABLE_ALL } else { change.table },
        pattern: Pattern::new(&change.matching.to_oxm()),
        cookie: change.cookie,
        // 1.0's field only sets the cookie; it selects nothing.
        cookie_mask: if v10 { 0 } else { change.cookie_mask },
        out_port: if deletes { change.out_port } else { PortNumber::ANY },
        out_group: if deletes && !v10 { change.out_group } else { GROUP_ANY },
    }
}

/// The report of all groups or meters.
#[derive(Clone, Copy, Debug)]
pub(super) enum Listed {
    GroupStats,
    GroupDescs,
    MeterStats,
    MeterConfigs,
}

/// What is done.
#[derive(Debug)]
pub(super) enum Task {
    /// Entries are told.
    Tell(Box<Filter>),
    /// Their counters are added up.
    Sum(Box<Filter>, Aggregate),
    /// Groups or meters are told, from a number on.
    List(Listed, u32),
    /// Entries change.
    Modify(Box<Modifying>),
    /// Deleted groups or meters are forgotten; then entries that use them go.
    Forget(Gone, Chosen, RemovedReason),
    /// Entries go.
    Delete(Chosen, RemovedReason),
}

/// Groups or meters that were deleted.
#[derive(Debug)]
pub(super) enum Gone {
    Groups(BTreeMap<u32, Group>),
    Meters(BTreeMap<u32, Meter>),
}

impl Gone {
    pub(super) fn len(&self) -> usize {
        match self {
            Gone::Groups(groups) => groups.len(),
            Gone::Meters(meters) => meters.len(),
        }
    }
}

/// Which entries go.
#[derive(Debug)]
pub(super) enum Chosen {
    /// Those that a message asks for.
    Filter(Box<Filter>),
    /// Those that use one of these groups.
    Groups(BTreeSet<u32>),
    /// Those that use one of these meters.
    Meters(BTreeSet<u32>),
}

impl Chosen {
    /// Whether no entry can be one of them.
    pub(super) fn is_empty(&self) -> bool {
        match self {
            Chosen::Filter(_) => false,
            Chosen::Groups(numbers) | Chosen::Meters(numbers) => numbers.is_empty(),
        }
    }
}

/// A modification.
#[derive(Debug)]
pub(super) struct Modifying {
    pub(super) change: FlowMod,
    pub(super) filter: Filter,
    /// Bytes of the entries that it concerns with what they do then, and without what they do now; what they take is
    /// known before the first changes.
    pub(super) grown: usize,
    pub(super) freed: usize,
    pub(super) measured: bool,
    /// Whether there are such entries.
    pub(super) any: bool,
}

impl Modifying {
    pub(super) fn new(change: FlowMod, filter: Filter) -> Modifying {
        Modifying { change, filter, grown: 0, freed: 0, measured: false, any: false }
    }
}

impl Task {
    /// Bytes that it takes, about.
    pub(super) fn bytes(&self) -> usize {
        let beside = match self {
            Task::Modify(modifying) => {
                let FlowMod { matching, instructions, .. } = &modifying.change;
                weight::matching(matching) + weight::instructions(instructions)
            }
            Task::Delete(Chosen::Groups(numbers) | Chosen::Meters(numbers), _)
            | Task::Forget(_, Chosen::Groups(numbers) | Chosen::Meters(numbers), _) => {
                numbers.len() * weight::PLACE
            }
            _ => 0,
        };
        weight::PLACE + size_of::<Task>() + size_of::<Modifying>() + beside
    }

    /// Whether nothing but an answer comes of it.
    pub(super) fn answers(&self) -> bool {
        matches!(self, Task::Tell(_) | Task::Sum(..) | Task::List(..))
    }

    /// Whether entries change or go now.
    pub(super) fn is_changing(&self) -> bool {
        match self {
            Task::Modify(modifying) => modifying.measured,
            Task::Forget(..) => false,
            task => !task.answers(),
        }
    }

    /// Whether an entry is to change or to go.
    pub(super) fn changes(&self, rule: &Rule) -> bool {
        match self {
            Task::Modify(modifying) => modifying.filter.accepts(rule),
            Task::Delete(Chosen::Filter(filter), _) => filter.accepts(rule),
            Task::Delete(Chosen::Groups(groups), _) => rule
                .actions()
                .any(|action| matches!(action, Action::Group(group) if groups.contains(group))),
            Task::Delete(Chosen::Meters(meters), _) => {
                rule.meter().is_some_and(|meter| meters.contains(&meter))
            }
            _ => false,
        }
    }
}
