//! What entries, groups and meters take together: memory, and how often groups and meters are used.

use std::collections::BTreeMap;

use netloom_openflow::{Action, Bucket, Instruction, weight};

use crate::group::Group;
use crate::meter::Meter;
use crate::rule::Rule;

/// What a place among the slots, chains and deadlines of a table takes beside an entry, about.
const ENTRY: usize = 2 * weight::PLACE;

/// How often something of a number is used.
#[derive(Clone, Debug, Default)]
pub(crate) struct Count(BTreeMap<u32, u32>);

impl Count {
    pub(crate) fn of(&self, number: u32) -> u32 {
        self.0.get(&number).copied().unwrap_or(0)
    }

    /// What is used at all.
    pub(crate) fn used(&self) -> impl Iterator<Item = u32> {
        self.0.keys().copied()
    }

    fn add(&mut self, number: u32) {
        *self.0.entry(number).or_default() += 1;
    }

    fn take(&mut self, number: u32) {
        if let Some(count) = self.0.get_mut(&number) {
            *count -= 1;
            if *count == 0 {
                self.0.remove(&number);
            }
        }
    }
}

/// What all take together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Uses {
    /// Bytes of memory, about.
    pub(crate) bytes: usize,
    /// Groups by entries, and by buckets of groups.
    pub(crate) groups: Count,
    pub(crate) chained: Count,
    /// Groups that there are, by their kind's number.
    pub(crate) kinds: Count,
    /// Meters by entries.
    pub(crate) meters: Count,
}

impl Uses {
    pub(crate) fn rule_comes(&mut self, rule: &Rule) {
        self.bytes += of_rule(rule);
        for_each(rule, |group| self.groups.add(group), |meter| self.meters.add(meter));
    }

    pub(crate) fn rule_goes(&mut self, rule: &Rule) {
        self.bytes -= of_rule(rule);
        for_each(rule, |group| self.groups.take(group), |meter| self.meters.take(meter));
    }

    pub(crate) fn group_comes(&mut self, group: &Group) {
        self.bytes += of_buckets(&group.buckets);
        self.kinds.add(u8::from(group.kind).into());
        group.chained().for_each(|number| self.chained.add(number));
    }

    pub(crate) fn group_goes(&mut self, group: &Group) {
        self.group_leaves(group);
        self.group_is_forgotten(group);
    }

    /// A group is deleted; its memory is still in use.
    pub(crate) fn group_leaves(&mut self, group: &Group) {
        self.kinds.take(u8::from(group.kind).into());
        group.chained().for_each(|number| self.chained.take(number));
    }

    /// The same of all groups.
    pub(crate) fn all_groups_leave(&mut self) {
        (self.kinds, self.chained) = Default::default();
    }

    /// The memory of a deleted group is free.
    pub(crate) fn group_is_forgotten(&mut self, group: &Group) {
        self.bytes -= of_buckets(&group.buckets);
    }

    pub(crate) fn meter_comes(&mut self, meter: &Meter) {
        self.bytes += of_meter(meter);
    }

    pub(crate) fn meter_goes(&mut self, meter: &Meter) {
        self.bytes -= of_meter(meter);
    }
}

/// Each use of a group, and of a meter.
fn for_each(rule: &Rule, mut group: impl FnMut(u32), meter: impl FnMut(u32)) {
    for action in rule.actions() {
        if let Action::Group(number) = action {
            group(*number);
        }
    }
    rule.meter().into_iter().for_each(meter);
}

/// Bytes of an entry.
pub(crate) fn of_rule(rule: &Rule) -> usize {
    ENTRY + size_of::<Rule>() + weight::matching(&rule.matching) + of_instructions(&rule.said)
}

/// Bytes of what an entry does: as it was said, and in order.
pub(crate) fn of_instructions(said: &[Instruction]) -> usize {
    2 * weight::instructions(said)
}

/// Bytes of a group with these buckets.
pub(crate) fn of_buckets(buckets: &[Bucket]) -> usize {
    // A bucket has two counters.
    let counters = buckets.len() * size_of::<(u64, u64)>();
    weight::PLACE + size_of::<Group>() + weight::buckets(buckets) + counters
}

/// Bytes of a meter.
pub(crate) fn of_meter(meter: &Meter) -> usize {
    // Tokens, and two counters, of each band.
    let counted = weight::list(&meter.applied, |_| size_of::<u64>());
    weight::PLACE + size_of::<Meter>() + weight::bands(&meter.bands) + counted
}
