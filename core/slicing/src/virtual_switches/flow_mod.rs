//! Changes of a slice's tables: narrowed, proved, and made of as many entries of the real switch as the slice's space
//! needs. Each is done in parts: a rule may need many entries, and a change may be about many rules.

use std::sync::Arc;

use netloom_openflow::action::GROUP_ANY;
use netloom_openflow::flow::{FlowCommand, FlowFlags, FlowMod, NO_BUFFER, RemovedReason};
use netloom_openflow::{
    Action, Instruction, Match, Message, PacketOut, PortNumber, Reason, Version,
};
use netloom_pipeline::Pattern;

use super::jobs::{Job, ORDER, Step};
use super::making::Making;
use super::pending::Kind;
use super::rewrite::{TAG, tag};
use super::rules::{Filter, Rule, cookie};
use super::{Done, Out, Refusal, Sent, VirtualSwitches};
use crate::proof::Findings;
use crate::work::Work;
use crate::{SliceId, refusal};

fn refuse(reason: Reason, words: impl Into<String>) -> Refusal {
    Refusal::new(reason, words)
}

/// A rule that is to be there.
#[derive(Debug)]
pub(super) struct Adding {
    making: Making,
    stage: Stage,
    /// A packet that the rule is for, and its port.
    buffer: Option<(u32, PortNumber)>,
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    Making,
    /// Rules from this number on are looked at for overlaps.
    Looking(u64),
    /// The rule has this number; this entry of it is next.
    Installing(u64, usize),
}

/// Rules that are to do something else.
#[derive(Debug)]
pub(super) struct Modifying {
    change: FlowMod,
    filter: Filter,
    /// The next rule to look at, and those that were found, the last first.
    next: u64,
    found: Option<Vec<u64>>,
    making: Option<(u64, Making)>,
    /// What they are to do. Nothing is changed unless all can be.
    made: Vec<(u64, Made)>,
    changing: bool,
    /// The rule whose entries are changed, and the next of these.
    installing: Option<(u64, usize)>,
    buffer: Option<(u32, PortNumber)>,
}

/// What a rule becomes.
#[derive(Clone, Debug)]
struct Made {
    instructions: Arc<[Instruction]>,
    findings: Findings,
    floods: bool,
}

/// Rules that are to go.
#[derive(Debug)]
pub(super) struct Deleting {
    filter: Filter,
    next: u64,
    /// Whether the switch was told to delete all that the slice has.
    at_once: bool,
    /// The rule whose entries are deleted, and the next of these.
    removing: Option<(u64, usize)>,
}

/// Rules that list the slice's ports, which have changed.
#[derive(Debug, Default)]
pub(super) struct Following {
    next: u64,
    making: Option<(u64, Making)>,
    installing: Option<(u64, usize)>,
}

impl Following {
    pub(super) fn has_begun(&self) -> bool {
        self.next > 0
    }
}

impl VirtualSwitches {
    pub(super) fn flow_mod(
        &mut self,
        sent: &Sent,
        change: FlowMod,
        work: &mut Work,
        out: &mut Vec<Out>,
    ) -> Step {
        match change.command {
            FlowCommand::Add => self.begin_adding(sent, change, work, out),
            FlowCommand::Modify | FlowCommand::ModifyStrict => {
                let filter = self.filter(&change);
                let modifying = Modifying {
                    change,
                    filter,
                    next: 0,
                    found: None,
                    making: None,
                    made: vec![],
                    changing: false,
                    installing: None,
                    buffer: None,
                };
                self.modify(sent, Box::new(modifying), work, out)
            }
            FlowCommand::Delete | FlowCommand::DeleteStrict => {
                let filter = self.filter(&change);
                let deleting = Deleting { filter, next: 0, at_once: false, removing: None };
                self.delete(sent, Box::new(deleting), work, out)
            }
            FlowCommand::Other(_) => {
                let refusal = refuse(Reason::FlowModFailedBadCommand, "unknown command");
                Err(refusal.about("rule", &refusal::flow(&change)))
            }
        }
    }

    fn begin_adding(
        &mut self,
        sent: &Sent,
        change: FlowMod,
        work: &mut Work,
        out: &mut Vec<Out>,
    ) -> Step {
        let about = |refusal: Refusal, said: &FlowMod| refusal.about("rule", &refusal::flow(said));
        if self.version == Version::V10 && change.flags.has(FlowFlags::EMERGENCY) {
            let words = "there is no table for emergencies";
            return Err(about(refuse(Reason::FlowModFailedTableFull, words), &change));
        }
        let making =
            self.making(sent.slice, change, true).map_err(|wrong| about(wrong.0, &wrong.1))?;
        let mut adding = Adding { making, stage: Stage::Making, buffer: None };
        // Mostly it is done at once.
        match self.adding(sent, &mut adding, work, out)? {
            true => Ok(None),
            false => Ok(Some(Job::Add(Box::new(adding)))),
        }
    }

    /// Goes on with a rule; returns whether it is there.
    pub(super) fn adding(
        &mut self,
        sent: &Sent,
        adding: &mut Adding,
        work: &mut Work,
        out: &mut Vec<Out>,
    ) -> Result<bool, Refusal> {
        let done = self.add(sent, adding, work, out);
        done.map_err(|refusal| refusal.about("rule", &refusal::flow(&adding.making.said)))
    }

    fn add(
        &mut self,
        sent: &Sent,
        adding: &mut Adding,
        work: &mut Work,
        out: &mut Vec<Out>,
    ) -> Result<bool, Refusal> {
        loop {
            match adding.stage {
                Stage::Making => {
                    if !self.make(sent.slice, &mut adding.making, work)? {
                        return Ok(false);
                    }
                    adding.buffer = self.buffer(sent.slice, adding.making.said.buffer)?;
                    let looks = adding.making.said.flags.has(FlowFlags::CHECK_OVERLAP);
                    adding.stage = match looks {
                        true => Stage::Looking(0),
                        false => self.place(sent, adding)?,
                    };
                }
                Stage::Looking(next) => {
                    let Some(next) = self.overlaps(sent.slice, &adding.making.said, next, work)?
                    else {
                        adding.stage = self.place(sent, adding)?;
                        continue;
                    };
                    adding.stage = Stage::Looking(next);
                    return Ok(false);
                }
                Stage::Installing(number, piece) => {
                    let left = self.install(sent, number, piece, FlowCommand::Add, work, out);
                    if let Some(piece) = left {
                        adding.stage = Stage::Installing(number, piece);
                        return Ok(false);
                    }
                    if let Some((id, port)) = adding.buffer.take() {
                        self.send_buffered(sent, id, port, out);
                    }
                    return Ok(true);
                }
            }
        }
    }

    /// Whether a rule overlaps one of the same priority; the next one to look at, if the work is done before.
    fn overlaps(
        &self,
        slice: SliceId,
        said: &FlowMod,
        from: u64,
        work: &mut Work,
    ) -> Result<Option<u64>, Refusal> {
        let pattern = Pattern::of(&said.matching);
        for (number, other) in self.rules.range(slice, from..=u64::MAX) {
            let near = other.dying.is_none()
                && (other.said.table, other.said.priority) == (said.table, said.priority);
            work.spend(1 + 3 * usize::from(near));
            if near && other.pattern().overlaps(&pattern) {
                let words = "it overlaps a rule of the same priority";
                return Err(refuse(Reason::FlowModFailedOverlap, words));
            }
            if !work.is_left() {
                return Ok(Some(number + 1));
            }
        }
        Ok(None)
    }

    /// Puts a rule that was made among the others.
    fn place(&mut self, sent: &Sent, adding: &mut Adding) -> Result<Stage, Refusal> {
        let mut rule = adding.making.rule(sent);
        let same = self.rules.same_as(&rule);
        if let Err(refusal) = self.has_room(&rule, same) {
            adding.making.said = rule.said;
            return Err(refusal);
        }
        if let Some(old) = same.and_then(|number| self.rules.remove(sent.slice, number)) {
            let keeps =
                self.version == Version::V13 && !rule.said.flags.has(FlowFlags::RESET_COUNTS);
            if keeps {
                (rule.packets, rule.bytes) = (old.packets, old.bytes);
            }
        }
        Ok(Stage::Installing(self.rules.add(rule), 0))
    }

    /// Whether the quota has room for a rule, which replaces another.
    pub(super) fn has_room(&self, rule: &Rule, replaced: Option<u64>) -> Done {
        let quota = self.slicing.slice(rule.slice).map(|slice| slice.quota).unwrap_or_default();
        let old = replaced.and_then(|number| self.rules.get(rule.slice, number));
        let count = |rule: &Rule| u64::try_from(rule.pieces.len()).unwrap_or(u64::MAX);
        let counts = self.rules.count(rule.slice);
        let after = counts.entries.saturating_sub(old.map_or(0, count)).saturating_add(count(rule));
        if let Some(most) = quota.rules.filter(|most| after > u64::from(*most)) {
            let words = format!("more entries than the slice's {most} (rules)");
            return Err(refuse(Reason::FlowModFailedTableFull, words));
        }
        let freed = old.map_or(0, Rule::weight);
        self.has_memory(rule.slice, freed, rule.weight(), Reason::FlowModFailedTableFull)
    }

    /// Whether the quota has room for so many bytes instead of others.
    pub(super) fn has_memory(
        &self,
        slice: SliceId,
        freed: u64,
        taken: u64,
        reason: Reason,
    ) -> Done {
        let most = self.slicing.slice(slice).and_then(|slice| slice.quota.bytes);
        let Some(most) = most else { return Ok(()) };
        let after = self.bytes(slice).saturating_sub(freed).saturating_add(taken);
        if after <= most || taken <= freed {
            return Ok(());
        }
        let words = format!("what the slice has takes more than its {most} bytes (memory)");
        Err(refuse(reason, words))
    }

    /// The buffer of a flow mod, which it uses up, and the packet's port.
    fn buffer(
        &mut self,
        slice: SliceId,
        buffer: u32,
    ) -> Result<Option<(u32, PortNumber)>, Refusal> {
        if buffer == NO_BUFFER {
            return Ok(None);
        }
        let taken = self.member(slice).and_then(|member| member.take_buffer(buffer));
        let words = || refuse(Reason::BadRequestBufferUnknown, "the buffer is not the slice's");
        taken.map(|(port, _)| Some((buffer, port))).ok_or_else(words)
    }

    /// Sends a buffered packet through the tables (section 7.3.4.1: a flow mod with a buffer does that).
    fn send_buffered(&mut self, sent: &Sent, buffer: u32, in_port: PortNumber, out: &mut Vec<Out>) {
        let actions = vec![Action::output(PortNumber::TABLE)];
        let packet = PacketOut { buffer, in_port, actions, data: vec![] };
        self.order(sent, Kind::Order, Message::PacketOut(packet), out);
    }

    /// Sends the entries of a rule from one on; returns the next one, if the work is done before.
    fn install(
        &mut self,
        sent: &Sent,
        number: u64,
        from: usize,
        command: FlowCommand,
        work: &mut Work,
        out: &mut Vec<Out>,
    ) -> Option<usize> {
        let count = self.rules.get(sent.slice, number).map_or(0, |rule| rule.pieces.len());
        for piece in from..count {
            self.install_piece(sent, number, piece, command, out);
            work.spend(ORDER);
            if !work.is_left() && piece + 1 < count {
                return Some(piece + 1);
            }
        }
        None
    }

    /// Sends one entry of a rule.
    pub(super) fn install_piece(
        &mut self,
        sent: &Sent,
        number: u64,
        at: usize,
        command: FlowCommand,
        out: &mut Vec<Out>,
    ) {
        let Some(rule) = self.rules.get(sent.slice, number) else { return };
        let Some(piece) = rule.pieces.get(at) else { return };
        let kept = match self.version {
            Version::V10 => FlowFlags::default(),
            Version::V13 => FlowFlags(rule.said.flags.0 & 0x1c),
        };
        let elapsed = sent.now.saturating_sub(rule.since) / 1_000_000_000;
        let elapsed = u16::try_from(elapsed).unwrap_or(u16::MAX);
        let hard = match rule.said.hard_timeout {
            0 => 0,
            hard => hard.saturating_sub(elapsed).max(1),
        };
        let change = FlowMod {
            cookie: cookie(rule.slice, number, at),
            table: rule.said.table,
            idle_timeout: rule.said.idle_timeout,
            hard_timeout: hard,
            priority: piece.priority,
            flags: kept | FlowFlags::SEND_FLOW_REM,
            instructions: rule.instructions.to_vec(),
            ..FlowMod::new(command, piece.matching.clone())
        };
        self.order(sent, Kind::Rule(number), Message::FlowMod(change), out);
    }

    pub(super) fn modify(
        &mut self,
        sent: &Sent,
        mut modifying: Box<Modifying>,
        work: &mut Work,
        out: &mut Vec<Out>,
    ) -> Step {
        if !self.find(sent.slice, &mut modifying, work) {
            return Ok(Some(Job::Modify(modifying)));
        }
        let nothing = modifying.found.as_ref().is_some_and(Vec::is_empty);
        let fresh = modifying.made.is_empty() && !modifying.changing;
        if nothing && fresh && modifying.making.is_none() && self.version == Version::V10 {
            // 1.0 adds what it cannot modify.
            return self.begin_adding(sent, modifying.change, work, out);
        }
        match self.modified(sent, &mut modifying, work, out) {
            Ok(true) => Ok(None),
            Ok(false) => Ok(Some(Job::Modify(modifying))),
            Err(refusal) => Err(refusal.about("rule", &refusal::flow(&modifying.change))),
        }
    }

    /// Finds the rules that a change is about; returns whether all were.
    fn find(&self, slice: SliceId, modifying: &mut Modifying, work: &mut Work) -> bool {
        if modifying.found.as_ref().is_some_and(|_| modifying.next == u64::MAX) {
            return true;
        }
        let Modifying { filter, next, found, .. } = modifying;
        let found = found.get_or_insert_default();
        if let Some(place) = self.exactly(slice, filter) {
            found.extend(place);
            *next = u64::MAX;
            return true;
        }
        for (number, rule) in self.rules.range(slice, *next..=u64::MAX) {
            work.spend(4);
            found.extend(filter.accepts(rule).then_some(number));
            if !work.is_left() {
                *next = number + 1;
                return false;
            }
        }
        found.reverse();
        *next = u64::MAX;
        true
    }

    /// The one rule that a strict filter of one table is about, if it is one; none if the filter is wider.
    fn exactly(&self, slice: SliceId, filter: &Filter) -> Option<Option<u64>> {
        let priority =
            filter.strict.filter(|_| filter.table != netloom_openflow::flow::TABLE_ALL)?;
        let same = self.rules.same(slice, filter.table, priority, &filter.pattern);
        Some(same.filter(|number| {
            self.rules.get(slice, *number).is_some_and(|rule| filter.accepts(rule))
        }))
    }

    fn modified(
        &mut self,
        sent: &Sent,
        modifying: &mut Modifying,
        work: &mut Work,
        out: &mut Vec<Out>,
    ) -> Result<bool, Refusal> {
        if !modifying.changing {
            if !self.prove_all(sent, modifying, work)? {
                return Ok(false);
            }
            self.fit(sent.slice, modifying)?;
            modifying.buffer = self.buffer(sent.slice, modifying.change.buffer)?;
            modifying.made.reverse();
            modifying.changing = true;
        }
        loop {
            if let Some((number, piece)) = modifying.installing.take() {
                let command = FlowCommand::ModifyStrict;
                let left = self.install(sent, number, piece, command, work, out);
                modifying.installing = left.map(|piece| (number, piece));
                if !work.is_left() {
                    return Ok(false);
                }
            }
            let Some((number, made)) = modifying.made.pop() else { break };
            let (v10, change) = (self.version == Version::V10, &modifying.change);
            self.remade(sent.slice, number, made, |said| {
                said.instructions.clone_from(&change.instructions);
                if v10 {
                    said.cookie = change.cookie;
                }
            });
            modifying.installing = Some((number, 0));
        }
        if let Some((id, port)) = modifying.buffer.take() {
            self.send_buffered(sent, id, port, out);
        }
        Ok(true)
    }

    /// Proves what all rules are to do; returns whether it is done.
    fn prove_all(
        &mut self,
        sent: &Sent,
        modifying: &mut Modifying,
        work: &mut Work,
    ) -> Result<bool, Refusal> {
        loop {
            if modifying.making.is_none() {
                let next = modifying.found.as_mut().and_then(Vec::pop);
                let Some(number) = next else { return Ok(true) };
                let Some(rule) = self.rules.get(sent.slice, number) else { continue };
                let mut said = rule.said.clone();
                said.instructions.clone_from(&modifying.change.instructions);
                let making = self.making(sent.slice, said, false).map_err(|wrong| wrong.0)?;
                modifying.making = Some((number, making));
            }
            if let Some((number, making)) = &mut modifying.making {
                if !self.make(sent.slice, making, work)? {
                    return Ok(false);
                }
                let mut made = made(making);
                // Rules of a table mostly come to the same.
                if let Some((_, last)) = modifying.made.last()
                    && last.instructions == made.instructions
                {
                    made.instructions = Arc::clone(&last.instructions);
                }
                modifying.made.push((*number, made));
                modifying.making = None;
            }
            if !work.is_left() {
                return Ok(false);
            }
        }
    }

    /// Whether the quota has room for what rules are to do.
    fn fit(&self, slice: SliceId, modifying: &Modifying) -> Done {
        let (mut freed, mut taken) = (0u64, 0u64);
        for (number, made) in &modifying.made {
            let Some(rule) = self.rules.get(slice, *number) else { continue };
            freed = freed.saturating_add(weigh(&rule.said.instructions, &rule.instructions));
            taken = taken.saturating_add(weigh(&modifying.change.instructions, &made.instructions));
        }
        self.has_memory(slice, freed, taken, Reason::FlowModFailedTableFull)
    }

    fn remade(&mut self, slice: SliceId, number: u64, made: Made, say: impl FnOnce(&mut FlowMod)) {
        self.rules.change(slice, number, |rule| {
            say(&mut rule.said);
            rule.instructions = made.instructions;
            rule.findings = made.findings;
            rule.floods = made.floods;
        });
    }

    /// The slice's ports, or what takes part in floods, changed: rules that list them follow.
    pub(super) fn flood_again(&mut self, sent: &Sent) {
        let is_new = |(_, job): &(Sent, Job)| match job {
            Job::Follow(following) => !following.has_begun(),
            _ => false,
        };
        let waits = self.of(sent.slice).is_ok_and(|member| member.jobs.iter().any(is_new));
        if !waits {
            self.push(sent.clone(), Job::Follow(Box::default()));
        }
    }

    pub(super) fn follow(
        &mut self,
        sent: &Sent,
        mut following: Box<Following>,
        work: &mut Work,
        out: &mut Vec<Out>,
    ) -> Step {
        loop {
            if let Some((number, piece)) = following.installing.take() {
                let command = FlowCommand::ModifyStrict;
                let left = self.install(sent, number, piece, command, work, out);
                following.installing = left.map(|piece| (number, piece));
            } else if let Some((number, mut making)) = following.making.take() {
                match self.make(sent.slice, &mut making, work) {
                    Ok(false) => following.making = Some((number, making)),
                    Ok(true) => {
                        self.remade(sent.slice, number, made(&mut making), |_| {});
                        following.installing = Some((number, 0));
                    }
                    Err(refusal) => self.stays_as_it_was(sent, refusal, out),
                }
            } else {
                let mut rules = self.rules.range(sent.slice, following.next..=u64::MAX);
                let mut looked = 1;
                let found = rules.find(|(_, rule)| {
                    looked += 1;
                    rule.floods && rule.dying.is_none()
                });
                work.spend(looked);
                let Some((number, rule)) = found else { return Ok(None) };
                following.next = number + 1;
                match self.making(sent.slice, rule.said.clone(), false) {
                    Ok(making) => following.making = Some((number, making)),
                    Err(wrong) => self.stays_as_it_was(sent, wrong.0, out),
                }
            }
            if !work.is_left() {
                return Ok(Some(Job::Follow(following)));
            }
        }
    }

    /// By the new port a rule would leave the slice: without it, it is as it was.
    fn stays_as_it_was(&self, sent: &Sent, refusal: Refusal, out: &mut Vec<Out>) {
        out.push(Out::Refused { slice: sent.slice, xid: 0, refusal: Box::new(refusal) });
    }

    fn filter(&self, change: &FlowMod) -> Filter {
        let deletes = matches!(change.command, FlowCommand::Delete | FlowCommand::DeleteStrict);
        let strict =
            matches!(change.command, FlowCommand::ModifyStrict | FlowCommand::DeleteStrict);
        let v10 = self.version == Version::V10;
        Filter {
            table: change.table,
            pattern: Pattern::of(&change.matching),
            strict: strict.then_some(change.priority),
            cookie: change.cookie,
            cookie_mask: if v10 { 0 } else { change.cookie_mask },
            out_port: if deletes { change.out_port } else { PortNumber::ANY },
            out_group: if deletes && !v10 { change.out_group } else { GROUP_ANY },
        }
    }

    pub(super) fn delete(
        &mut self,
        sent: &Sent,
        mut deleting: Box<Deleting>,
        work: &mut Work,
        out: &mut Vec<Out>,
    ) -> Step {
        if let Some(one) = self.exactly(sent.slice, &deleting.filter) {
            let Some(number) = one else { return Ok(None) };
            self.rules.dies(sent.slice, number, RemovedReason::Delete);
            let left = self.uninstall(sent, number, 0, work, out);
            return Ok(left.map(|piece| Job::Uninstall { number, piece, forget: false }));
        }
        loop {
            if let Some((number, piece)) = deleting.removing.take() {
                let left = self.uninstall(sent, number, piece, work, out);
                deleting.removing = left.map(|piece| (number, piece));
            } else {
                let Some((last, accepted)) = self.next_of(sent.slice, &deleting, work) else {
                    return Ok(None);
                };
                deleting.next = last + 1;
                if accepted {
                    self.let_die(sent, last, &mut deleting, out);
                }
            }
            if !work.is_left() {
                return Ok(Some(Job::Delete(deleting)));
            }
        }
    }

    /// The next rule that is to go, or the last that was looked at.
    fn next_of(&self, slice: SliceId, deleting: &Deleting, work: &mut Work) -> Option<(u64, bool)> {
        let mut last = None;
        for (number, rule) in self.rules.range(slice, deleting.next..=u64::MAX) {
            work.spend(4);
            let accepted = deleting.filter.accepts(rule);
            last = Some((number, accepted));
            if accepted || !work.is_left() {
                break;
            }
        }
        last
    }

    /// A rule is to go. If all are, the switch is told so once.
    fn let_die(&mut self, sent: &Sent, number: u64, deleting: &mut Deleting, out: &mut Vec<Out>) {
        if !deleting.at_once && deleting.filter.is_all() && self.version == Version::V13 {
            let all = FlowMod {
                cookie: tag(sent.slice),
                cookie_mask: TAG,
                table: deleting.filter.table,
                ..FlowMod::new(FlowCommand::Delete, Match::default())
            };
            self.order(sent, Kind::Order, Message::FlowMod(all), out);
            deleting.at_once = true;
        }
        self.rules.dies(sent.slice, number, RemovedReason::Delete);
        if deleting.at_once {
            self.nothing_left(sent.now, sent.slice, number, out);
        } else {
            deleting.removing = Some((number, 0));
        }
    }

    /// Removes the entries of a rule that is dying, from one on; returns the next one, if the work is done before.
    pub(super) fn uninstall(
        &mut self,
        sent: &Sent,
        number: u64,
        from: usize,
        work: &mut Work,
        out: &mut Vec<Out>,
    ) -> Option<usize> {
        let rule = self.rules.get(sent.slice, number)?;
        for piece in from..rule.pieces.len() {
            if !work.is_left() {
                return Some(piece);
            }
            self.uninstall_piece(sent, number, piece, out);
            work.spend(ORDER);
        }
        self.nothing_left(sent.now, sent.slice, number, out);
        None
    }

    fn uninstall_piece(&mut self, sent: &Sent, number: u64, at: usize, out: &mut Vec<Out>) {
        let Some(rule) = self.rules.get(sent.slice, number) else { return };
        let Some(piece) = rule.pieces.get(at).filter(|piece| piece.alive) else { return };
        let change = FlowMod {
            cookie: cookie(rule.slice, number, at),
            cookie_mask: if self.version == Version::V13 { u64::MAX } else { 0 },
            table: rule.said.table,
            priority: piece.priority,
            ..FlowMod::new(FlowCommand::DeleteStrict, piece.matching.clone())
        };
        self.order(sent, Kind::Order, Message::FlowMod(change), out);
    }
}

fn made(making: &mut Making) -> Made {
    let instructions = std::mem::take(&mut making.instructions).into();
    Made { instructions, findings: making.findings, floods: making.floods }
}

fn weigh(said: &[Instruction], real: &[Instruction]) -> u64 {
    let bytes = super::weight::instructions(said) + super::weight::instructions(real);
    u64::try_from(bytes).unwrap_or(u64::MAX)
}
