//! A flow table: entries by slot, and a search over the masks they use (tuple space search).
//!
//! Entries of one mask are in a hash table by their masked key. Masks are tried in order of their highest
//! priority, until no other can win; so a lookup costs as many hashes as there are masks that could. Of entries with
//! equal priority that match the same packet, the one added first wins.

use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasherDefault, Hasher};

use crate::key::{FlowKey, Pattern};
use crate::rule::{Rule, RuleId, Time};

/// Hashes words by multiplication; keys come from rules, which only controllers add.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WordHasher(u64);

impl Hasher for WordHasher {
    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

type Hashed<V> = HashMap<FlowKey, V, BuildHasherDefault<WordHasher>>;

/// Priority and age of an entry, greatest first to match.
type Rank = (u16, std::cmp::Reverse<u64>);

fn rank(rule: &Rule) -> Rank {
    (rule.priority, std::cmp::Reverse(rule.id.number))
}

/// All entries with one mask.
#[derive(Clone, Debug)]
struct Tuple {
    mask: FlowKey,
    /// Priorities with how many entries have them.
    priorities: std::collections::BTreeMap<u16, usize>,
    /// By masked key: ranks and slots, best first.
    entries: Hashed<Vec<(Rank, u32)>>,
}

impl Tuple {
    fn best(&self) -> u16 {
        self.priorities.last_key_value().map_or(0, |(priority, _)| *priority)
    }
}

/// A flow table.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    slots: Vec<Option<Rule>>,
    free: BTreeSet<u32>,
    tuples: Vec<Tuple>,
    /// Packets looked up.
    pub(crate) lookups: u64,
    /// Packets that matched.
    pub(crate) matched: u64,
}

impl Table {
    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Entries in order of their slots.
    pub(crate) fn rules(&self) -> impl Iterator<Item = &Rule> {
        self.slots.iter().flatten()
    }

    pub(crate) fn get(&self, id: RuleId) -> Option<&Rule> {
        let rule = self.slots.get(usize::try_from(id.slot).ok()?)?.as_ref()?;
        (rule.id == id).then_some(rule)
    }

    /// An entry to change; its pattern and priority stay.
    pub(crate) fn get_mut(&mut self, id: RuleId) -> Option<&mut Rule> {
        let rule = self.slots.get_mut(usize::try_from(id.slot).ok()?)?.as_mut()?;
        (rule.id == id).then_some(rule)
    }

    /// The entry with this pattern and priority.
    pub(crate) fn find(&self, pattern: &Pattern, priority: u16) -> Option<&Rule> {
        let tuple = self.tuples.iter().find(|tuple| tuple.mask == pattern.mask)?;
        let entries = tuple.entries.get(&pattern.value)?;
        let (_, slot) = entries.iter().find(|((at, _), _)| *at == priority)?;
        self.at(*slot)
    }

    fn at(&self, slot: u32) -> Option<&Rule> {
        self.slots.get(usize::try_from(slot).ok()?)?.as_ref()
    }

    /// Whether some other entry of this priority can match the same packet.
    pub(crate) fn overlaps(&self, pattern: &Pattern, priority: u16) -> bool {
        self.rules().any(|rule| rule.priority == priority && rule.pattern.overlaps(pattern))
    }

    /// Adds an entry under a number that no other has; returns its name.
    pub(crate) fn insert(&mut self, mut rule: Rule, table: u8, number: u64) -> RuleId {
        let next = u32::try_from(self.slots.len()).unwrap_or(u32::MAX);
        let slot = self.free.pop_first().unwrap_or(next);
        rule.id = RuleId { table, slot, number };
        let (id, pattern, at) = (rule.id, rule.pattern, rank(&rule));
        match usize::try_from(slot).ok().and_then(|slot| self.slots.get_mut(slot)) {
            Some(place) => *place = Some(rule),
            None => self.slots.push(Some(rule)),
        }
        let index = self.tuple(&pattern.mask);
        if let Some(tuple) = self.tuples.get_mut(index) {
            *tuple.priorities.entry(at.0).or_default() += 1;
            let entries = tuple.entries.entry(pattern.value).or_default();
            let place = entries.partition_point(|(other, _)| *other > at);
            entries.insert(place, (at, slot));
        }
        self.sort();
        id
    }

    /// The index of the tuple with this mask.
    fn tuple(&mut self, mask: &FlowKey) -> usize {
        if let Some(index) = self.tuples.iter().position(|tuple| tuple.mask == *mask) {
            return index;
        }
        let priorities = std::collections::BTreeMap::new();
        self.tuples.push(Tuple { mask: *mask, priorities, entries: Hashed::default() });
        self.tuples.len() - 1
    }

    /// Tuples by their best priority; mostly sorted already.
    fn sort(&mut self) {
        self.tuples.sort_by_key(|tuple| std::cmp::Reverse(tuple.best()));
    }

    /// Removes an entry.
    pub(crate) fn remove(&mut self, id: RuleId) -> Option<Rule> {
        self.get(id)?;
        let rule = self.slots.get_mut(usize::try_from(id.slot).ok()?)?.take()?;
        self.free.insert(id.slot);
        let index = self.tuples.iter().position(|tuple| tuple.mask == rule.pattern.mask)?;
        let tuple = self.tuples.get_mut(index)?;
        if let Some(entries) = tuple.entries.get_mut(&rule.pattern.value) {
            entries.retain(|(_, slot)| *slot != id.slot);
            if entries.is_empty() {
                tuple.entries.remove(&rule.pattern.value);
            }
        }
        if let Some(count) = tuple.priorities.get_mut(&rule.priority) {
            *count -= 1;
            if *count == 0 {
                tuple.priorities.remove(&rule.priority);
            }
        }
        if tuple.entries.is_empty() {
            self.tuples.remove(index);
        }
        self.sort();
        Some(rule)
    }

    /// The entry for a packet; the bits that decided are added to `consulted`.
    pub(crate) fn lookup(&self, key: &FlowKey, consulted: &mut FlowKey) -> Option<RuleId> {
        let mut best: Option<(Rank, u32)> = None;
        for tuple in &self.tuples {
            if best.is_some_and(|((priority, _), _)| priority > tuple.best()) {
                break;
            }
            consulted.unite(&tuple.mask);
            let found = tuple.entries.get(&key.masked(&tuple.mask)).and_then(|all| all.first());
            if let Some(found) = found {
                best = best.max(Some(*found));
            }
        }
        self.at(best?.1).map(|rule| rule.id)
    }

    /// Counts a lookup, and its match.
    pub(crate) fn count(&mut self, packets: u64, matched: bool) {
        self.lookups += packets;
        self.matched += if matched { packets } else { 0 };
    }

    /// Names of entries that fulfil a condition.
    pub(crate) fn select(&self, condition: impl Fn(&Rule) -> bool) -> Vec<RuleId> {
        self.rules().filter(|rule| condition(rule)).map(|rule| rule.id).collect()
    }
}

/// When an entry expires, and its name.
pub(crate) type Deadline = (Time, RuleId);
