//! A flow table: entries by slot, and a search over the masks they use (tuple space search).
//!
//! Entries of one mask are in a hash table by their masked key. Masks are tried in order of their highest
//! priority, until no other can win; so a lookup costs as many hashes as there are masks that could. Of entries with
//! equal priority that match the same packet, the one added first wins.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};

use hashbrown::HashTable;

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
        // A key's words come as bytes.
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().for_each(|word| self.write_u64(u64::from_ne_bytes(*word)));
        rest.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

/// Slots that a table keeps room for.
const LEAST: usize = 1024;

/// Masks that are passed in the time of a step.
const MASKS: usize = 8;

fn hash_of(value: &FlowKey) -> u64 {
    let mut hasher = WordHasher::default();
    value.hash(&mut hasher);
    hasher.finish()
}

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
    priorities: BTreeMap<u16, usize>,
    /// By masked key, which the entries have. So little is moved when it grows.
    chains: HashTable<Chain>,
}

/// Entries with one masked key, best first.
#[derive(Clone, Copy, Debug)]
struct Chain {
    hash: u64,
    first: u32,
}

/// An entry in its slot.
#[derive(Clone, Debug)]
struct Placed {
    rule: Rule,
    /// The slot of the next one of its chain.
    next: Option<u32>,
}

impl Tuple {
    fn best(&self) -> u16 {
        self.best_of_some().unwrap_or(0)
    }

    /// The best priority, if there is an entry.
    fn best_of_some(&self) -> Option<u16> {
        self.priorities.last_key_value().map(|(priority, _)| *priority)
    }
}

impl Chain {
    fn is_of(&self, hash: u64, value: &FlowKey, slots: &[Option<Placed>]) -> bool {
        self.hash == hash
            && placed_at(slots, self.first)
                .is_some_and(|placed| placed.rule.pattern.value == *value)
    }
}

fn placed_at(slots: &[Option<Placed>], slot: u32) -> Option<&Placed> {
    slots.get(usize::try_from(slot).ok()?)?.as_ref()
}

/// The best entry with a masked key.
fn first_of<'s>(tuple: &Tuple, slots: &'s [Option<Placed>], value: &FlowKey) -> Option<&'s Placed> {
    let hash = hash_of(value);
    let chain = tuple.chains.find(hash, |chain| chain.is_of(hash, value, slots))?;
    placed_at(slots, chain.first)
}

fn set_next(slots: &mut [Option<Placed>], slot: u32, next: Option<u32>) {
    let place = usize::try_from(slot).ok().and_then(|slot| slots.get_mut(slot)?.as_mut());
    if let Some(placed) = place {
        placed.next = next;
    }
}

/// A flow table.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    slots: Vec<Option<Placed>>,
    /// Which slots have an entry, a bit each: a table that once had many is not slow to look through.
    used: Vec<u64>,
    free: BTreeSet<u32>,
    tuples: Vec<Tuple>,
    /// Entries and masks that were passed on the way to one that was removed, since the start.
    passed: usize,
    /// Packets looked up.
    pub(crate) lookups: u64,
    /// Packets that matched.
    pub(crate) matched: u64,
}

impl Table {
    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Different masks of its entries: a packet is looked up by each.
    pub(crate) fn masks(&self) -> usize {
        self.tuples.len()
    }

    /// Entries in order of their slots.
    pub(crate) fn rules(&self) -> impl Iterator<Item = &Rule> {
        let words = self.used.iter().enumerate().filter(|(_, word)| **word != 0);
        let slots = words.flat_map(|(at, word)| {
            (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| at * 64 + bit)
        });
        slots.filter_map(|slot| self.slots.get(slot)?.as_ref().map(|placed| &placed.rule))
    }

    fn mark(&mut self, slot: u32, used: bool) {
        let (word, bit) = (usize::try_from(slot / 64).unwrap_or(0), slot % 64);
        if self.used.len() <= word {
            self.used.resize(word + 1, 0);
        }
        if let Some(word) = self.used.get_mut(word) {
            *word = *word & !(1 << bit) | u64::from(used) << bit;
        }
    }

    pub(crate) fn get(&self, id: RuleId) -> Option<&Rule> {
        let rule = self.at(id.slot)?;
        (rule.id == id).then_some(rule)
    }

    /// An entry to change; its pattern and priority stay.
    pub(crate) fn get_mut(&mut self, id: RuleId) -> Option<&mut Rule> {
        let rule = &mut self.slots.get_mut(usize::try_from(id.slot).ok()?)?.as_mut()?.rule;
        (rule.id == id).then_some(rule)
    }

    /// The entry with this pattern and priority.
    pub(crate) fn find(&self, pattern: &Pattern, priority: u16) -> Option<&Rule> {
        let tuple = self.tuples.iter().find(|tuple| tuple.mask == pattern.mask)?;
        let first = first_of(tuple, &self.slots, &pattern.value);
        let mut chain = std::iter::successors(first, |placed| placed_at(&self.slots, placed.next?))
            .map(|placed| &placed.rule);
        chain.find(|rule| rule.priority == priority)
    }

    fn at(&self, slot: u32) -> Option<&Rule> {
        placed_at(&self.slots, slot).map(|placed| &placed.rule)
    }

    /// Whether some other entry of this priority can match the same packet.
    pub(crate) fn overlaps(&self, pattern: &Pattern, priority: u16) -> bool {
        self.rules().any(|rule| rule.priority == priority && rule.pattern.overlaps(pattern))
    }

    /// Adds an entry under a number that no other has; returns its name.
    pub(crate) fn insert(&mut self, mut rule: Rule, table: u8, number: u64) -> RuleId {
        let next = u32::try_from(self.slots.len()).unwrap_or(u32::MAX);
        // The lowest one, so that slots at the end can be given up.
        let slot = self.free.pop_first().unwrap_or(next);
        rule.id = RuleId { table, slot, number };
        let (id, pattern, at) = (rule.id, rule.pattern, rank(&rule));
        let placed = Some(Placed { rule, next: None });
        match usize::try_from(slot).ok().and_then(|slot| self.slots.get_mut(slot)) {
            Some(place) => *place = placed,
            None => self.slots.push(placed),
        }
        self.mark(slot, true);
        let index = self.tuple(&pattern.mask);
        if let Some(tuple) = self.tuples.get_mut(index) {
            let before = tuple.best_of_some();
            // Tuples are sorted by their best priority; moving one is as dear as there are masks, so only
            // when it changed.
            *tuple.priorities.entry(at.0).or_default() += 1;
            let moves = tuple.best_of_some() != before;
            self.link(index, &pattern.value, at, slot);
            if moves {
                self.place(index);
            }
        }
        id
    }

    /// Puts an entry that is in its slot into its chain, behind all that are better.
    fn link(&mut self, tuple: usize, value: &FlowKey, at: Rank, slot: u32) {
        let Table { tuples, slots, .. } = self;
        let Some(tuple) = tuples.get_mut(tuple) else { return };
        let hash = hash_of(value);
        let Ok(found) = tuple.chains.find_entry(hash, |chain| chain.is_of(hash, value, slots))
        else {
            tuple.chains.insert_unique(hash, Chain { hash, first: slot }, |chain| chain.hash);
            return;
        };
        let chain = found.into_mut();
        let mut before = None;
        let mut next = Some(chain.first);
        while let Some(placed) = next.and_then(|next| placed_at(slots, next))
            && rank(&placed.rule) > at
        {
            (before, next) = (next, placed.next);
        }
        set_next(slots, slot, next);
        match before {
            Some(before) => set_next(slots, before, Some(slot)),
            None => chain.first = slot,
        }
    }

    /// Takes an entry that is in its slot out of its chain.
    fn unlink(&mut self, tuple: usize, value: &FlowKey, slot: u32) {
        let Table { tuples, slots, passed, .. } = self;
        let Some(tuple) = tuples.get_mut(tuple) else { return };
        let hash = hash_of(value);
        let next = placed_at(slots, slot).and_then(|placed| placed.next);
        let Ok(mut found) = tuple.chains.find_entry(hash, |chain| chain.is_of(hash, value, slots))
        else {
            return;
        };
        if found.get().first == slot {
            match next {
                Some(next) => found.get_mut().first = next,
                None => drop(found.remove()),
            }
            return;
        }
        let mut before = found.get().first;
        while let Some(after) = placed_at(slots, before).and_then(|placed| placed.next) {
            // Chains may be long, and what it took to find an entry is work of who deletes it.
            *passed += 1;
            if after == slot {
                set_next(slots, before, next);
                return;
            }
            before = after;
        }
    }

    /// The index of the tuple with this mask.
    fn tuple(&mut self, mask: &FlowKey) -> usize {
        if let Some(index) = self.tuples.iter().position(|tuple| tuple.mask == *mask) {
            return index;
        }
        let (priorities, chains) = (BTreeMap::new(), HashTable::new());
        self.tuples.push(Tuple { mask: *mask, priorities, chains });
        self.tuples.len() - 1
    }

    /// Puts a tuple whose best priority has changed where it belongs among the others, which are sorted.
    fn place(&mut self, index: usize) {
        let tuple = self.tuples.remove(index);
        let best = tuple.best();
        let at = self.tuples.partition_point(|other| other.best() >= best);
        self.tuples.insert(at, tuple);
    }

    /// Removes an entry.
    pub(crate) fn remove(&mut self, id: RuleId) -> Option<Rule> {
        let pattern = self.get(id)?.pattern;
        let index = self.tuples.iter().position(|tuple| tuple.mask == pattern.mask)?;
        self.passed += self.tuples.len() / MASKS;
        self.unlink(index, &pattern.value, id.slot);
        let Placed { rule, .. } = self.slots.get_mut(usize::try_from(id.slot).ok()?)?.take()?;
        self.mark(id.slot, false);
        self.free.insert(id.slot);
        let tuple = self.tuples.get_mut(index)?;
        let before = tuple.best_of_some();
        if let Some(count) = tuple.priorities.get_mut(&rule.priority) {
            *count -= 1;
            if *count == 0 {
                tuple.priorities.remove(&rule.priority);
            }
        }
        if tuple.chains.is_empty() {
            self.tuples.remove(index);
        } else if tuple.best_of_some() != before {
            self.place(index);
        }
        self.shrink();
        Some(rule)
    }

    /// Gives up slots behind the last entry, and memory that was taken for many more entries than there are.
    fn shrink(&mut self) {
        if self.len() == 0 {
            (self.slots, self.used) = (vec![], vec![]);
            self.free.clear();
        }
        while let Some(None) = self.slots.last() {
            self.slots.pop();
            let last = self.slots.len();
            self.free.remove(&u32::try_from(last).unwrap_or(u32::MAX));
        }
        // A quarter, and room for twice as many: a table that grows and shrinks does not copy itself each
        // time.
        if self.slots.capacity() > LEAST && self.slots.capacity() / 4 > self.slots.len() {
            self.slots.shrink_to(2 * self.slots.len());
            let words = self.slots.len().div_ceil(64);
            self.used.truncate(words);
            self.used.shrink_to(2 * words);
        }
    }

    /// What it took to find entries that were removed, in steps, since the start.
    pub(crate) fn passed(&self) -> usize {
        self.passed
    }

    /// The entry in this slot or in the next one after it that has one.
    pub(crate) fn at_or_after(&self, slot: u32) -> Option<&Rule> {
        let (mut word, bit) = (usize::try_from(slot / 64).ok()?, slot % 64);
        let mut bits = self.used.get(word)? & u64::MAX << bit;
        while bits == 0 {
            word += 1;
            bits = *self.used.get(word)?;
        }
        self.at(u32::try_from(word).ok()? * 64 + bits.trailing_zeros())
    }

    /// The entry for a packet; the bits that decided are added to `consulted`.
    pub(crate) fn lookup(&self, key: &FlowKey, consulted: &mut FlowKey) -> Option<RuleId> {
        let mut best: Option<&Rule> = None;
        for tuple in &self.tuples {
            // Tuples are sorted by their best priority: none behind has a better entry.
            if best.is_some_and(|rule| rule.priority > tuple.best()) {
                break;
            }
            // Also where nothing is found: with other bits something might be.
            consulted.unite(&tuple.mask);
            let found = first_of(tuple, &self.slots, &key.masked(&tuple.mask));
            let found = found.map(|placed| &placed.rule);
            // Masks with equal best priority may both match; the entry added first wins, not the first mask.
            if found.map(rank) > best.map(rank) {
                best = found;
            }
        }
        best.map(|rule| rule.id)
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
