//! The rules of all slices: what each controller said, and the entries of the real switch that stand for it.
//!
//! The cookie of an entry is the slice's tag, the rule's number and the number of the entry in it, so that whatever the
//! switch says of an entry is known to be of its rule. Numbers are not used again. Rules of a slice are apart from those of
//! others: what is asked of them takes no longer for what others have.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::ops::RangeInclusive;
use std::sync::Arc;

use hashbrown::HashTable;
use netloom_openflow::action::GROUP_ANY;
use netloom_openflow::flow::{FlowMod, RemovedReason, TABLE_ALL};
use netloom_openflow::{Action, Instruction, Match, PortNumber, Version, weight};
use netloom_pipeline::Pattern;

use super::rewrite::{TAG, tag, tagged};
use crate::memory::{Note, Notes};
use crate::proof::Findings;
use crate::{SliceId, Time};

const PIECE_BITS: u32 = 12;

/// An entry of the real switch.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    pub(super) matching: Match,
    pub(super) priority: u16,
    pub(super) alive: bool,
    /// From when to when it is known to have had no packet.
    pub(super) quiet: Option<(Time, Time)>,
}

/// A rule of a slice.
#[derive(Clone, Debug)]
pub(super) struct Rule {
    pub(super) slice: SliceId,
    /// As its controller said it.
    pub(super) said: FlowMod,
    /// What its entries do.
    pub(super) instructions: Arc<[Instruction]>,
    pub(super) findings: Findings,
    /// Whether it lists the slice's ports.
    pub(super) floods: bool,
    pub(super) pieces: Vec<Piece>,
    /// How many of these the switch has.
    pub(super) alive: usize,
    pub(super) since: Time,
    /// Of entries that are gone.
    pub(super) packets: u64,
    pub(super) bytes: u64,
    /// Why it is being removed.
    pub(super) dying: Option<RemovedReason>,
}

impl Rule {
    fn acts(&self, is: impl Fn(&Action) -> bool) -> bool {
        // What was said, not what it became: filters are in the slice's numbers.
        self.said.instructions.iter().any(|instruction| match instruction {
            Instruction::ApplyActions(all) | Instruction::WriteActions(all) => all.iter().any(&is),
            _ => false,
        })
    }

    fn outputs_to(&self, to: PortNumber) -> bool {
        let is = |action: &Action| matches!(action, Action::Output { port, .. } | Action::Enqueue { port, .. } if *port == to);
        to == PortNumber::ANY || self.acts(is)
    }

    fn uses_group(&self, group: u32) -> bool {
        let is = |action: &Action| matches!(action, Action::Group(used) if *used == group);
        group == GROUP_ANY || self.acts(is)
    }

    /// Whether it is what its table does with packets that nothing else matches: in 1.3 an entry without a match, of the
    /// lowest priority.
    pub(super) fn is_table_miss(&self) -> bool {
        matches!(self.said.matching, Match::Oxm(_))
            && self.said.priority == 0
            && self.pattern() == Pattern::default()
    }

    /// What its packets are like, in the numbers of its slice.
    pub(super) fn pattern(&self) -> Pattern {
        Pattern::of(&self.said.matching)
    }

    /// Bytes that it takes.
    pub(super) fn weight(&self) -> u64 {
        let pieces = weight::list(&self.pieces, |piece| weight::matching(&piece.matching));
        let bytes = weight::boxed::<Rule>()
            + 2 * weight::PLACE
            + weight::matching(&self.said.matching)
            + pieces;
        u64::try_from(bytes).unwrap_or(u64::MAX)
            + does(&self.said.instructions, &self.instructions, self.pieces.len())
    }
}

/// Bytes of what a rule does: as it was said and in real numbers, which each entry of the switch has for itself.
pub(super) fn does(said: &[Instruction], real: &[Instruction], pieces: usize) -> u64 {
    let bytes = weight::instructions(said) + pieces.max(1) * weight::instructions(real);
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

/// Which rules of a slice a request is about.
#[derive(Debug)]
pub(super) struct Filter {
    pub(super) table: u8,
    pub(super) pattern: Pattern,
    /// Exactly this match and this priority.
    pub(super) strict: Option<u16>,
    pub(super) cookie: u64,
    pub(super) cookie_mask: u64,
    pub(super) out_port: PortNumber,
    pub(super) out_group: u32,
}

impl Filter {
    pub(super) fn accepts(&self, rule: &Rule) -> bool {
        rule.dying.is_none()
            && (self.table == TABLE_ALL || self.table == rule.said.table)
            && (rule.said.cookie ^ self.cookie) & self.cookie_mask == 0
            && self.fits(rule)
            && rule.outputs_to(self.out_port)
            && rule.uses_group(self.out_group)
    }

    fn fits(&self, rule: &Rule) -> bool {
        match self.strict {
            Some(priority) => rule.said.priority == priority && rule.pattern() == self.pattern,
            // Mostly all rules are meant: then no match has to be read.
            None => self.pattern.mask.is_zero() || self.pattern.is_wider(&rule.pattern()),
        }
    }

    /// Whether it is about all of the slice's rules in its tables.
    pub(super) fn is_all(&self) -> bool {
        self.strict.is_none()
            && self.pattern == Pattern::default()
            && self.cookie_mask == 0
            && self.out_port == PortNumber::ANY
            && self.out_group == GROUP_ANY
    }
}

/// What living rules of a slice come to.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) rules: u64,
    /// Entries that idle are put back at once, and count.
    pub(super) entries: u64,
    /// Rules with [`Findings::shares_set`].
    pub(super) sharing: u64,
    /// Rules with [`Findings::ends_outside`].
    pub(super) outside: u64,
    /// Bytes that they take.
    pub(super) bytes: u64,
}

impl Counts {
    fn change(&mut self, rule: &Rule, by: impl Fn(u64, u64) -> u64) {
        let entries = u64::try_from(rule.pieces.len()).unwrap_or(0);
        self.rules = by(self.rules, 1);
        self.entries = by(self.entries, entries);
        self.sharing = by(self.sharing, u64::from(rule.findings.shares_set));
        self.outside = by(self.outside, u64::from(rule.findings.ends_outside));
        self.bytes = by(self.bytes, rule.weight());
    }
}

/// The rules of a slice.
#[derive(Debug, Default)]
struct Own {
    /// By number.
    all: BTreeMap<u64, Box<Rule>>,
    counts: Counts,
    /// How many are living in each table.
    tables: BTreeMap<u8, u32>,
    /// Living rules by table, priority and match: the hash of these, and the number.
    same: HashTable<(u64, u64)>,
}

impl Own {
    fn uncount(&mut self, number: u64, hash: u64, rule: &Rule) {
        self.counts.change(rule, u64::saturating_sub);
        if let Some(count) = self.tables.get_mut(&rule.said.table) {
            *count -= 1;
        }
        if let Ok(found) = self.same.find_entry(hash, |(_, other)| *other == number) {
            found.remove();
        }
        // The memory taken for many is given back.
        if self.same.capacity() > 4 * self.same.len() + 64 {
            self.same.shrink_to(2 * self.same.len(), |(hash, _)| *hash);
        }
    }
}

/// All rules.
#[derive(Debug)]
pub(super) struct Rules {
    /// By slice.
    slices: Vec<Own>,
    hashes: RandomState,
    /// The last number that was given.
    pub(super) last: u64,
    /// What a later process is to know of these, and of whatever else slices have.
    pub(super) notes: Notes,
}

/// The cookie of a rule's entry.
pub(super) fn cookie(slice: SliceId, number: u64, piece: usize) -> u64 {
    // Entries of a rule are at most 4096, and numbers do not reach 2^42.
    let piece = u64::try_from(piece).unwrap_or(0) & ((1 << PIECE_BITS) - 1);
    tag(slice) | (number << PIECE_BITS & !TAG) | piece
}

/// Cookie and mask of the entries of a slice's rules with these numbers, all of a block: 2^bits of them from a multiple on.
pub(super) fn cookies(slice: SliceId, from: u64, bits: u32) -> (u64, u64) {
    // Of a block with all numbers the mask is the tag alone.
    let below = (1u64.checked_shl(bits + PIECE_BITS).unwrap_or(0)).wrapping_sub(1);
    (cookie(slice, from, 0), !below | TAG)
}

/// Numbers of the slice, the rule and its entry.
fn numbers(cookie: u64) -> (Option<SliceId>, u64, usize) {
    let piece = usize::try_from(cookie & ((1 << PIECE_BITS) - 1)).unwrap_or(0);
    (tagged(cookie), (cookie & !TAG) >> PIECE_BITS, piece)
}

/// The record of a rule.
fn note(number: u64, rule: &Rule) -> Note<'_> {
    let Rule { slice, said, packets, bytes, .. } = rule;
    Note::Rule { number, slice: *slice, said, packets: *packets, bytes: *bytes }
}

impl Rules {
    /// Of this many slices, none yet.
    pub(super) fn new(version: Version, slices: usize) -> Rules {
        let slices = std::iter::repeat_with(Own::default).take(slices).collect();
        // Controllers choose the matches: by a known hash they could make all of them meet.
        Rules { slices, hashes: RandomState::new(), last: 0, notes: Notes::new(version) }
    }

    fn own(&self, slice: SliceId) -> Option<&Own> {
        self.slices.get(usize::from(slice.0))
    }

    fn own_mut(&mut self, slice: SliceId) -> Option<&mut Own> {
        self.slices.get_mut(usize::from(slice.0))
    }

    fn hash(&self, rule: &Rule) -> u64 {
        self.hash_of(rule.said.table, rule.said.priority, &rule.pattern())
    }

    fn hash_of(&self, table: u8, priority: u16, pattern: &Pattern) -> u64 {
        self.hashes.hash_one((table, priority, pattern))
    }

    /// Keeps a rule; returns its number.
    pub(super) fn add(&mut self, rule: Rule) -> u64 {
        self.last += 1;
        self.put(self.last, rule);
        self.last
    }

    /// Keeps a rule that has a number.
    pub(super) fn put(&mut self, number: u64, rule: Rule) {
        self.notes.put(&note(number, &rule));
        let hash = self.hash(&rule);
        let Some(own) = self.own_mut(rule.slice) else { return };
        own.counts.change(&rule, u64::saturating_add);
        *own.tables.entry(rule.said.table).or_default() += 1;
        own.same.insert_unique(hash, (hash, number), |(hash, _)| *hash);
        own.all.insert(number, Box::new(rule));
    }

    /// What a living rule has counted is to be known later.
    pub(super) fn note(&mut self, slice: SliceId, number: u64) {
        let Rules { slices, notes, .. } = self;
        let rule = slices.get(usize::from(slice.0)).and_then(|own| own.all.get(&number));
        if let Some(rule) = rule.filter(|rule| rule.dying.is_none()) {
            notes.put(&note(number, rule));
        }
    }

    /// Writes the record of a rule.
    pub(super) fn write(number: u64, rule: &Rule, version: Version, to: &mut Vec<u8>) {
        note(number, rule).write(version, to);
    }

    pub(super) fn get(&self, slice: SliceId, number: u64) -> Option<&Rule> {
        self.own(slice)?.all.get(&number).map(Box::as_ref)
    }

    pub(super) fn get_mut(&mut self, slice: SliceId, number: u64) -> Option<&mut Rule> {
        self.own_mut(slice)?.all.get_mut(&number).map(Box::as_mut)
    }

    /// The rule and its entry with this cookie.
    pub(super) fn of_cookie(&self, cookie: u64) -> Option<(u64, usize, &Rule)> {
        let (slice, number, piece) = numbers(cookie);
        Some((number, piece, self.get(slice?, number)?))
    }

    /// The living rule of a slice with this table, priority and match.
    pub(super) fn same(
        &self,
        slice: SliceId,
        table: u8,
        priority: u16,
        pattern: &Pattern,
    ) -> Option<u64> {
        let own = self.own(slice)?;
        let is = |(_, number): &(u64, u64)| {
            own.all.get(number).is_some_and(|rule| {
                (rule.said.table, rule.said.priority) == (table, priority)
                    && rule.pattern() == *pattern
            })
        };
        let hash = self.hash_of(table, priority, pattern);
        own.same.find(hash, is).map(|(_, number)| *number)
    }

    /// The living rule that a rule takes the place of.
    pub(super) fn same_as(&self, rule: &Rule) -> Option<u64> {
        self.same(rule.slice, rule.said.table, rule.said.priority, &rule.pattern())
    }

    pub(super) fn remove(&mut self, slice: SliceId, number: u64) -> Option<Box<Rule>> {
        let rule = self.own_mut(slice)?.all.remove(&number)?;
        if rule.dying.is_none() {
            self.uncount(number, &rule);
        }
        Some(rule)
    }

    fn uncount(&mut self, number: u64, rule: &Rule) {
        let hash = self.hash(rule);
        if let Some(own) = self.own_mut(rule.slice) {
            own.uncount(number, hash, rule);
        }
        // Also of one that is dying: to a later process, entries of it that are left are nobody's.
        self.notes.put(&Note::NoRule(number));
    }

    /// A rule is on its way out: requests are no longer about it, and it counts no more.
    pub(super) fn dies(&mut self, slice: SliceId, number: u64, reason: RemovedReason) {
        let living = self.own_mut(slice).and_then(|own| own.all.get_mut(&number));
        let Some(rule) = living.filter(|rule| rule.dying.is_none()) else { return };
        rule.dying = Some(reason);
        // Out of the list meanwhile, because it is uncounted in what has the list, too.
        let taken = self.own_mut(slice).and_then(|own| own.all.remove(&number));
        let Some(rule) = taken else { return };
        self.uncount(number, &rule);
        if let Some(own) = self.own_mut(slice) {
            own.all.insert(number, rule);
        }
    }

    /// Changes a living rule.
    pub(super) fn change(&mut self, slice: SliceId, number: u64, change: impl FnOnce(&mut Rule)) {
        let Rules { slices, notes, .. } = self;
        let Some(own) = slices.get_mut(usize::from(slice.0)) else { return };
        let Some(rule) = own.all.get_mut(&number).filter(|rule| rule.dying.is_none()) else {
            return;
        };
        own.counts.change(rule, u64::saturating_sub);
        change(rule);
        own.counts.change(rule, u64::saturating_add);
        notes.put(&note(number, rule));
    }

    /// What a slice's rules come to.
    pub(super) fn count(&self, slice: SliceId) -> Counts {
        self.own(slice).map(|own| own.counts).unwrap_or_default()
    }

    /// How many rules a slice has in a table.
    pub(super) fn in_table(&self, slice: SliceId, table: u8) -> u32 {
        self.own(slice).and_then(|own| own.tables.get(&table)).copied().unwrap_or(0)
    }

    /// All living rules.
    pub(super) fn living(&self) -> impl Iterator<Item = (u64, &Rule)> {
        let all = self.slices.iter().flat_map(|own| &own.all);
        let living = all.filter(|(_, rule)| rule.dying.is_none());
        living.map(|(number, rule)| (*number, rule.as_ref()))
    }

    /// Changes nothing that is counted of all living rules.
    pub(super) fn each_living(&mut self, mut change: impl FnMut(&mut Rule)) {
        let all = self.slices.iter_mut().flat_map(|own| own.all.values_mut());
        all.filter(|rule| rule.dying.is_none()).for_each(|rule| change(rule));
    }

    /// Rules that are dying are gone.
    pub(super) fn forget_dying(&mut self) {
        for own in &mut self.slices {
            own.all.retain(|_, rule| rule.dying.is_none());
        }
    }

    /// The rules of a slice with numbers in a range, in order, with those that are dying.
    pub(super) fn range(
        &self,
        slice: SliceId,
        numbers: RangeInclusive<u64>,
    ) -> impl Iterator<Item = (u64, &Rule)> {
        let all = self.own(slice).map(|own| own.all.range(numbers));
        all.into_iter().flatten().map(|(number, rule)| (*number, rule.as_ref()))
    }
}
