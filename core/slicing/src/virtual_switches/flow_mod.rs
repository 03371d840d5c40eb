//! Changes of a slice's tables: narrowed, proved, and made of as many entries of the real switch as the slice's space
//! needs. Each is done in parts: a rule may need many entries, and a change may be about many rules.

use netloom_openflow::action::GROUP_ANY;
use netloom_openflow::flow::{FlowCommand, FlowFlags, FlowMod, NO_BUFFER};
use netloom_openflow::{Action, Message, PacketOut, PortNumber, Reason, Version};
use netloom_pipeline::Pattern;

use super::jobs::{Job, Step, order};
use super::pending::Kind;
use super::rules::{Filter, Rule, cookie};
use super::tasks::{Adding, Deleting, Modifying, Stage};
use super::{Done, Out, Refusal, Sent, VirtualSwitches};
use crate::{SliceId, Work, refusal};

fn refuse(reason: Reason, words: impl Into<String>) -> Refusal {
    Refusal::new(reason, words)
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
                let modifying = Modifying::new(change, filter);
                self.modify(sent, Box::new(modifying), work, out)
            }
            FlowCommand::Delete | FlowCommand::DeleteStrict => {
                let filter = self.filter(&change);
                self.delete(sent, Box::new(Deleting::new(filter)), work, out)
            }
            FlowCommand::Other(_) => {
                let refusal = refuse(Reason::FlowModFailedBadCommand, "unknown command");
                Err(refusal.about("rule", &refusal::flow(&change)))
            }
        }
    }

    pub(super) fn begin_adding(
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
                    // Only now: a buffer is used once, and a
                    // rule that is refused must not use it up.
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
            // The refusal tells what was said, which the rule had taken.
            adding.making.said = rule.said;
            return Err(refusal);
        }
        if let Some(old) = same.and_then(|number| self.rules.remove(sent.slice, number)) {
            // 1.3 copies the counters of an entry that another one replaces (section 6.4).
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

    /// Whether the quota has room for this many bytes instead of others.
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
        // A slice that is above the quota may still come down.
        if after <= most || taken <= freed {
            return Ok(());
        }
        let words = format!("what the slice has takes more than its {most} bytes (memory)");
        Err(refuse(reason, words))
    }

    /// The buffer of a flow mod, which it uses up, and the packet's port.
    pub(super) fn buffer(
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
    pub(super) fn send_buffered(
        &mut self,
        sent: &Sent,
        buffer: u32,
        in_port: PortNumber,
        out: &mut Vec<Out>,
    ) {
        let actions = vec![Action::output(PortNumber::TABLE)];
        let packet = PacketOut { buffer, in_port, actions, data: vec![] };
        self.order(sent, Kind::Order, Message::PacketOut(packet), out);
    }

    /// Sends the entries of a rule from one on; returns the next one, if the work is done before.
    pub(super) fn install(
        &mut self,
        sent: &Sent,
        number: u64,
        from: usize,
        command: FlowCommand,
        work: &mut Work,
        out: &mut Vec<Out>,
    ) -> Option<usize> {
        let rule = self.rules.get(sent.slice, number);
        let (count, takes) =
            rule.map_or((0, 0), |rule| (rule.pieces.len(), order(&rule.instructions)));
        for piece in from..count {
            self.install_piece(sent, number, piece, command, out);
            work.spend(takes);
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
            // RESET_COUNTS, NO_PKT_COUNTS and NO_BYT_COUNTS. Overlaps were looked for here.
            Version::V13 => FlowFlags(rule.said.flags.0 & 0x1c),
        };
        // An entry that is put back ends when its rule does, not a whole timeout later.
        let elapsed = sent.now.saturating_sub(rule.since) / 1_000_000_000;
        let elapsed = u16::try_from(elapsed).unwrap_or(u16::MAX);
        let hard = match rule.said.hard_timeout {
            0 => 0,
            // 0 would be without end.
            hard => hard.saturating_sub(elapsed).max(1),
        };
        let change = FlowMod {
            cookie: cookie(rule.slice, number, at),
            table: rule.said.table,
            idle_timeout: rule.said.idle_timeout,
            hard_timeout: hard,
            priority: piece.priority,
            // Whether the controller wants to hear of it
            // or not: this side has to know what is gone.
            flags: kept | FlowFlags::SEND_FLOW_REM,
            instructions: rule.instructions.to_vec(),
            ..FlowMod::new(command, piece.matching.clone())
        };
        self.order(sent, Kind::Rule(number), Message::FlowMod(change), out);
    }

    /// The one rule that a strict filter of one table is about, if it is one; none if the filter is wider.
    pub(super) fn exactly(&self, slice: SliceId, filter: &Filter) -> Option<Option<u64>> {
        // Each table may have one of this match and priority.
        let priority =
            filter.strict.filter(|_| filter.table != netloom_openflow::flow::TABLE_ALL)?;
        let same = self.rules.same(slice, filter.table, priority, &filter.pattern);
        Some(same.filter(|number| {
            self.rules.get(slice, *number).is_some_and(|rule| filter.accepts(rule))
        }))
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
            // 1.0 keeps cookies, and chooses nothing by them.
            cookie_mask: if v10 { 0 } else { change.cookie_mask },
            // Other commands ignore these two.
            out_port: if deletes { change.out_port } else { PortNumber::ANY },
            out_group: if deletes && !v10 { change.out_group } else { GROUP_ANY },
        }
    }
}
