//! The rules of all slices: what each controller said, and the entries of the real switch that stand for it.
//!
//! The cookie of an entry is the slice's tag, the rule's number and the number of the entry in it, so that whatever the
//! switch says of an entry is known to be of its rule. Numbers are not used again.

use std::collections::BTreeMap;

use netloom_openflow::action::GROUP_ANY;
use netloom_openflow::flow::{FlowFlags, FlowMod, RemovedReason, TABLE_ALL};
use netloom_openflow::{Action, Instruction, Match, PortNumber, Version};
use netloom_pipeline::Pattern;

use super::rewrite::{TAG, tag};
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
    pub(super) pattern: Pattern,
    /// What its entries do.
    pub(super) instructions: Vec<Instruction>,
    pub(super) findings: Findings,
    /// Whether it lists the slice's ports.
    pub(super) floods: bool,
    pub(super) pieces: Vec<Piece>,
    pub(super) since: Time,
    /// Of entries that are gone.
    pub(super) packets: u64,
    pub(super) bytes: u64,
    /// Why it is being removed.
    pub(super) dying: Option<RemovedReason>,
}

impl Rule {
    fn acts(&self, is: impl Fn(&Action) -> bool) -> bool {
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
            && self.pattern == Pattern::default()
    }

    /// How many entries it has.
    pub(super) fn entries(&self) -> usize {
        self.pieces.iter().filter(|piece| piece.alive).count()
    }
}

/// Which rules a request is about.
pub(super) struct Filter {
    pub(super) slice: SliceId,
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
    fn accepts(&self, rule: &Rule) -> bool {
        let shape = match self.strict {
            Some(priority) => rule.said.priority == priority && rule.pattern == self.pattern,
            None => self.pattern.is_wider(&rule.pattern),
        };
        shape
            && rule.slice == self.slice
            && rule.dying.is_none()
            && (self.table == TABLE_ALL || self.table == rule.said.table)
            && (rule.said.cookie ^ self.cookie) & self.cookie_mask == 0
            && rule.outputs_to(self.out_port)
            && rule.uses_group(self.out_group)
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
}

impl Counts {
    fn change(&mut self, rule: &Rule, by: impl Fn(u64, u64) -> u64) {
        let entries = u64::try_from(rule.pieces.len()).unwrap_or(0);
        self.rules = by(self.rules, 1);
        self.entries = by(self.entries, entries);
        self.sharing = by(self.sharing, u64::from(rule.findings.shares_set));
        self.outside = by(self.outside, u64::from(rule.findings.ends_outside));
    }
}

/// All rules, by number.
#[derive(Debug)]
pub(super) struct Rules {
    all: BTreeMap<u64, Rule>,
    pub(super) last: u64,
    /// What a later process is to know of these, and of whatever else slices have.
    pub(super) notes: Notes,
    counts: BTreeMap<SliceId, Counts>,
    /// Living rules by table, priority and match.
    same: std::collections::HashMap<(SliceId, u8, u16, Pattern), u64>,
}

/// The cookie of a rule's entry.
pub(super) fn cookie(slice: SliceId, number: u64, piece: usize) -> u64 {
    // Entries of a rule are fewer than 4096, and numbers do not reach 2^44.
    let piece = u64::try_from(piece).unwrap_or(0) & ((1 << PIECE_BITS) - 1);
    tag(slice) | (number << PIECE_BITS & !TAG) | piece
}

/// Number of the rule and of its entry; whose they are is known by the rule.
fn numbers(cookie: u64) -> (u64, usize) {
    let piece = usize::try_from(cookie & ((1 << PIECE_BITS) - 1)).unwrap_or(0);
    ((cookie & !TAG) >> PIECE_BITS, piece)
}

/// The record of a rule.
fn note(number: u64, rule: &Rule) -> Note<'_> {
    let Rule { slice, said, packets, bytes, .. } = rule;
    Note::Rule { number, slice: *slice, said, packets: *packets, bytes: *bytes }
}

impl Rules {
    pub(super) fn new(version: Version) -> Rules {
        let (all, counts) = (BTreeMap::new(), BTreeMap::new());
        let same = std::collections::HashMap::new();
        Rules { all, last: 0, notes: Notes::new(version), counts, same }
    }

    fn key(rule: &Rule) -> (SliceId, u8, u16, Pattern) {
        (rule.slice, rule.said.table, rule.said.priority, rule.pattern)
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
        self.same.insert(Rules::key(&rule), number);
        self.counts.entry(rule.slice).or_default().change(&rule, u64::saturating_add);
        self.all.insert(number, rule);
    }

    /// What a living rule has counted is to be known later.
    pub(super) fn note(&mut self, number: u64) {
        if let Some(rule) = self.all.get(&number).filter(|rule| rule.dying.is_none()) {
            self.notes.put(&note(number, rule));
        }
    }

    /// Writes the records of all living rules.
    pub(super) fn write(&self, version: Version, to: &mut Vec<u8>) {
        let living = self.all.iter().filter(|(_, rule)| rule.dying.is_none());
        living.for_each(|(number, rule)| note(*number, rule).write(version, to));
    }

    /// All living rules.
    pub(super) fn living(&self) -> impl Iterator<Item = (u64, &Rule)> {
        let living = self.all.iter().filter(|(_, rule)| rule.dying.is_none());
        living.map(|(number, rule)| (*number, rule))
    }

    pub(super) fn get(&self, number: u64) -> Option<&Rule> {
        self.all.get(&number)
    }

    pub(super) fn get_mut(&mut self, number: u64) -> Option<&mut Rule> {
        self.all.get_mut(&number)
    }

    /// The rule and its entry with this cookie.
    pub(super) fn of_cookie(&self, cookie: u64) -> Option<(u64, usize, &Rule)> {
        let (number, piece) = numbers(cookie);
        let rule = self.all.get(&number)?;
        (tag(rule.slice) == cookie & TAG).then_some((number, piece, rule))
    }

    /// The living rule with the same table, priority and match.
    pub(super) fn same(&self, rule: &Rule) -> Option<u64> {
        self.same.get(&Rules::key(rule)).copied()
    }

    pub(super) fn remove(&mut self, number: u64) -> Option<Rule> {
        let rule = self.all.remove(&number)?;
        if rule.dying.is_none() {
            self.uncount(number, &rule);
        }
        Some(rule)
    }

    /// A rule is on its way out: requests are no longer about it, and it counts no more.
    pub(super) fn dies(&mut self, number: u64, reason: RemovedReason) {
        let Some(rule) = self.all.get_mut(&number) else { return };
        if rule.dying.is_none() {
            rule.dying = Some(reason);
            let copy = rule.clone();
            self.uncount(number, &copy);
        }
    }

    fn uncount(&mut self, number: u64, rule: &Rule) {
        self.notes.put(&Note::NoRule(number));
        let key = Rules::key(rule);
        if self.same.get(&key) == Some(&number) {
            self.same.remove(&key);
        }
        self.counts.entry(rule.slice).or_default().change(rule, u64::saturating_sub);
    }

    /// Gives a living rule other instructions, which were proved.
    pub(super) fn change(&mut self, number: u64, change: impl Fn(&mut Rule)) {
        let Some(rule) = self.all.get_mut(&number).filter(|rule| rule.dying.is_none()) else {
            return;
        };
        let count = self.counts.entry(rule.slice).or_default();
        count.change(rule, u64::saturating_sub);
        change(rule);
        count.change(rule, u64::saturating_add);
        self.notes.put(&note(number, rule));
    }

    /// What a slice's rules come to.
    pub(super) fn count(&self, slice: SliceId) -> Counts {
        self.counts.get(&slice).copied().unwrap_or_default()
    }

    /// The rules that a request is about.
    pub(super) fn chosen(&self, filter: &Filter) -> Vec<u64> {
        if let Some(priority) = filter.strict.filter(|_| filter.table != TABLE_ALL) {
            let key = (filter.slice, filter.table, priority, filter.pattern);
            let found = self
                .same
                .get(&key)
                .filter(|number| self.all.get(number).is_some_and(|rule| filter.accepts(rule)));
            return found.copied().into_iter().collect();
        }
        let all = self.all.iter().filter(|(_, rule)| filter.accepts(rule));
        all.map(|(number, _)| *number).collect()
    }

    /// The living rules of a slice.
    pub(super) fn of(&self, slice: SliceId) -> impl Iterator<Item = (u64, &Rule)> {
        let living = move |rule: &Rule| rule.slice == slice && rule.dying.is_none();
        self.all.iter().filter(move |(_, rule)| living(rule)).map(|(number, rule)| (*number, rule))
    }

    /// Whether the flags refuse overlaps, and there is one.
    pub(super) fn overlaps(&self, rule: &Rule) -> bool {
        rule.said.flags.has(FlowFlags::CHECK_OVERLAP)
            && self.of(rule.slice).any(|(_, other)| {
                other.said.table == rule.said.table
                    && other.said.priority == rule.said.priority
                    && other.pattern.overlaps(&rule.pattern)
            })
    }
}
