//! Changes of a slice's tables: narrowed, proved, and made of as many entries of the real switch as the slice's space
//! needs.

use netloom_openflow::action::GROUP_ANY;
use netloom_openflow::flow::{FlowCommand, FlowFlags, FlowMod, NO_BUFFER, RemovedReason};
use netloom_openflow::{
    Action, Field, Instruction, Match, Message, PacketOut, PortNumber, Reason, Version, text,
};
use netloom_pipeline::Pattern;

use super::pending::Kind;
use super::rewrite::{self, MOST_PIECES, TAG, tag};
use super::rules::{Filter, Piece, Rule, cookie};
use super::{Done, Out, Refusal, Sent, VirtualSwitches};
use crate::cube::Cube;
use crate::fault::{self, Fault};
use crate::mark;
use crate::proof::Findings;
use crate::{Example, SliceId};

fn refuse(reason: Reason, words: impl Into<String>) -> Refusal {
    Refusal::new(reason, words)
}

/// What a rule becomes.
struct Made {
    instructions: Vec<Instruction>,
    findings: Findings,
    floods: bool,
}

impl VirtualSwitches {
    pub(super) fn flow_mod(&mut self, sent: &Sent, change: FlowMod, out: &mut Vec<Out>) -> Done {
        let said = change.clone();
        let done = match change.command {
            FlowCommand::Add => self.add(sent, change, out),
            FlowCommand::Modify | FlowCommand::ModifyStrict => self.modify(sent, change, out),
            FlowCommand::Delete | FlowCommand::DeleteStrict => {
                self.delete(sent, &change, out);
                Ok(())
            }
            FlowCommand::Other(_) => {
                Err(refuse(Reason::FlowModFailedBadCommand, "unknown command"))
            }
        };
        done.map_err(|refusal| refusal.about("rule", &text::print_flow(&said)))
    }

    fn add(&mut self, sent: &Sent, change: FlowMod, out: &mut Vec<Out>) -> Done {
        if self.version == Version::V10 && change.flags.has(FlowFlags::EMERGENCY) {
            return Err(refuse(
                Reason::FlowModFailedTableFull,
                "there is no table for emergencies",
            ));
        }
        let mut rule = self.made(sent, change)?;
        let buffer = self.buffer(sent.slice, rule.said.buffer)?;
        if self.rules.overlaps(&rule) {
            let words = "it overlaps a rule of the same priority";
            return Err(refuse(Reason::FlowModFailedOverlap, words));
        }
        let same = self.rules.same(&rule);
        self.has_room(&rule, same)?;
        if let Some(old) = same.and_then(|number| self.rules.remove(number)) {
            let keeps =
                self.version == Version::V13 && !rule.said.flags.has(FlowFlags::RESET_COUNTS);
            if keeps {
                (rule.packets, rule.bytes) = (old.packets, old.bytes);
            }
        }
        let number = self.rules.add(rule);
        self.install(sent, number, FlowCommand::Add, out);
        if let Some((id, port)) = buffer {
            self.send_buffered(sent, id, port, out);
        }
        Ok(())
    }

    /// A rule, narrowed and proved; nothing is changed yet.
    pub(super) fn made(&self, sent: &Sent, said: FlowMod) -> Result<Rule, Refusal> {
        let member = self.of(sent.slice)?;
        if self.version == Version::V13 && said.table >= self.features.tables {
            return Err(refuse(Reason::FlowModFailedBadTableId, "there is no such table"));
        }
        let cube = rewrite::matched(&said.matching, member)?;
        let made = self.proved(sent.slice, &said, &cube)?;
        let pieces = self.pieces(sent.slice, &said, &cube)?;
        Ok(Rule {
            slice: sent.slice,
            pattern: Pattern::new(&said.matching.to_oxm()),
            said,
            instructions: made.instructions,
            findings: made.findings,
            floods: made.floods,
            pieces,
            since: sent.now,
            packets: 0,
            bytes: 0,
            dying: None,
        })
    }

    /// What a rule does, in real numbers, proved.
    fn proved(&self, slice: SliceId, said: &FlowMod, cube: &Cube) -> Result<Made, Refusal> {
        let member = self.of(slice)?;
        let mut actions = self.actions(slice, member);
        let instructions = actions.instructions(slice, said.table, &said.instructions)?;
        let floods = actions.flooded;
        let ports = member.all();
        let proof = self.proof(slice, &ports);
        let mut headers = cube.clone();
        headers.free(Field::Metadata);
        let packets = proof.packets(&headers);
        let findings = proof.rule(said.table, &packets, &instructions)?;
        let others = self.rules.count(slice);
        let clash = findings.shares_set && others.outside > 0
            || findings.ends_outside && others.sharing > 0;
        if findings.shares_set && findings.ends_outside || clash {
            let words = "packets changed to leave the slice's space could meet an action set of another table";
            return Err(refuse(Reason::BadActionEperm, words));
        }
        Ok(Made { instructions, findings, floods })
    }

    /// The entries of a rule.
    fn pieces(&self, slice: SliceId, said: &FlowMod, cube: &Cube) -> Result<Vec<Piece>, Refusal> {
        let member = self.of(slice)?;
        let ports = member.all();
        let narrowed = match said.table {
            0 => self.proof(slice, &ports).packets(cube),
            _ => {
                let mut tagged = cube.clone();
                if !fault::is(Fault::Tag) {
                    tagged.restrict(Field::Metadata, u128::from(tag(slice)), u128::from(TAG));
                }
                vec![tagged]
            }
        };
        if narrowed.is_empty() && !self.is_discovery(slice, cube) {
            return Err(Refusal {
                example: Some(Example::of(cube)),
                ..refuse(Reason::FlowModFailedEperm, "no packet of the match is in the slice")
            });
        }
        let mut pieces = vec![];
        for cube in narrowed {
            let priority = match self.meets_discovery(&cube) {
                // Below the entries that take packets of discovery out.
                true => said.priority.min(u16::MAX - 1),
                false => said.priority,
            };
            for matching in rewrite::sayable(&cube, self.version)? {
                pieces.push(Piece { matching, priority, alive: true, quiet: None });
            }
            if pieces.len() > MOST_PIECES {
                let words =
                    format!("narrowed to the slice it needs more than {MOST_PIECES} entries");
                return Err(refuse(Reason::FlowModFailedTableFull, words));
            }
        }
        Ok(pieces)
    }

    /// Whether a match is of packets of discovery, which come to the slice without a rule.
    fn is_discovery(&self, slice: SliceId, cube: &Cube) -> bool {
        let offered = self.slicing.slice(slice).is_some_and(|slice| slice.lldp);
        let ethertype = cube.exact(Field::EthType);
        offered && mark::ETHERTYPES.iter().any(|of| ethertype == Some(u128::from(*of)))
    }

    /// Whether packets of discovery are among these, and taken out before.
    fn meets_discovery(&self, cube: &Cube) -> bool {
        let (value, mask) = cube.get(Field::EthType);
        self.has_discovery() && mark::ETHERTYPES.iter().any(|of| u128::from(*of) & mask == value)
    }

    /// Whether the quota has room for a rule, which replaces another.
    pub(super) fn has_room(&self, rule: &Rule, replaced: Option<u64>) -> Done {
        let quota = self.slicing.slice(rule.slice).and_then(|slice| slice.quota.rules);
        let Some(most) = quota else { return Ok(()) };
        let old =
            replaced.and_then(|number| self.rules.get(number)).map_or(0, |old| old.pieces.len());
        let old = u64::try_from(old).unwrap_or(0);
        let new = u64::try_from(rule.pieces.len()).unwrap_or(u64::MAX);
        if self.rules.count(rule.slice).entries.saturating_sub(old).saturating_add(new)
            > u64::from(most)
        {
            let words = format!("more entries than the slice's {most}");
            return Err(refuse(Reason::FlowModFailedTableFull, words));
        }
        Ok(())
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

    /// Sends all entries of a rule.
    pub(super) fn install(
        &mut self,
        sent: &Sent,
        number: u64,
        command: FlowCommand,
        out: &mut Vec<Out>,
    ) {
        let Some(rule) = self.rules.get(number) else { return };
        for piece in 0..rule.pieces.len() {
            self.install_piece(sent, number, piece, command, out);
        }
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
        let Some(rule) = self.rules.get(number) else { return };
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
            instructions: rule.instructions.clone(),
            ..FlowMod::new(command, piece.matching.clone())
        };
        self.order(sent, Kind::Rule(number), Message::FlowMod(change), out);
    }

    fn modify(&mut self, sent: &Sent, change: FlowMod, out: &mut Vec<Out>) -> Done {
        let chosen = self.rules.chosen(&self.filter(sent.slice, &change));
        if chosen.is_empty() && self.version == Version::V10 {
            // 1.0 adds what it cannot modify.
            return self.add(sent, change, out);
        }
        // Nothing is changed unless all can be.
        let mut all = vec![];
        for number in chosen {
            let Some(rule) = self.rules.get(number) else { continue };
            let mut said = rule.said.clone();
            said.instructions.clone_from(&change.instructions);
            if self.version == Version::V10 {
                said.cookie = change.cookie;
            }
            let cube = rewrite::matched(&said.matching, self.of(sent.slice)?)?;
            let made = self.proved(sent.slice, &said, &cube)?;
            all.push((number, said, made));
        }
        let buffer = self.buffer(sent.slice, change.buffer)?;
        for (number, said, made) in all {
            self.remade(sent, number, said, made, out);
        }
        if let Some((id, port)) = buffer {
            self.send_buffered(sent, id, port, out);
        }
        Ok(())
    }

    fn remade(&mut self, sent: &Sent, number: u64, said: FlowMod, made: Made, out: &mut Vec<Out>) {
        self.rules.change(number, |rule| {
            rule.said.clone_from(&said);
            rule.instructions.clone_from(&made.instructions);
            rule.findings = made.findings;
            rule.floods = made.floods;
        });
        self.install(sent, number, FlowCommand::ModifyStrict, out);
    }

    /// The slice's ports, or what takes part in floods, changed: rules that list them follow.
    pub(super) fn flood_again(&mut self, sent: &Sent, out: &mut Vec<Out>) {
        let floods = self.rules.of(sent.slice).filter(|(_, rule)| rule.floods);
        for number in floods.map(|(number, _)| number).collect::<Vec<_>>() {
            let Some(rule) = self.rules.get(number) else { continue };
            let said = rule.said.clone();
            let Ok(member) = self.of(sent.slice) else { return };
            let made = rewrite::matched(&said.matching, member)
                .and_then(|cube| self.proved(sent.slice, &said, &cube));
            match made {
                Ok(made) => self.remade(sent, number, said, made, out),
                // By the new port it would leave the slice: without it, it is as it was.
                Err(refusal) => {
                    out.push(Out::Refused { slice: sent.slice, xid: 0, refusal: Box::new(refusal) })
                }
            }
        }
    }

    fn filter(&self, slice: SliceId, change: &FlowMod) -> Filter {
        let deletes = matches!(change.command, FlowCommand::Delete | FlowCommand::DeleteStrict);
        let strict =
            matches!(change.command, FlowCommand::ModifyStrict | FlowCommand::DeleteStrict);
        let v10 = self.version == Version::V10;
        Filter {
            slice,
            table: change.table,
            pattern: Pattern::new(&change.matching.to_oxm()),
            strict: strict.then_some(change.priority),
            cookie: change.cookie,
            cookie_mask: if v10 { 0 } else { change.cookie_mask },
            out_port: if deletes { change.out_port } else { PortNumber::ANY },
            out_group: if deletes && !v10 { change.out_group } else { GROUP_ANY },
        }
    }

    fn delete(&mut self, sent: &Sent, change: &FlowMod, out: &mut Vec<Out>) {
        let filter = self.filter(sent.slice, change);
        let chosen = self.rules.chosen(&filter);
        let at_once = filter.is_all() && self.version == Version::V13 && !chosen.is_empty();
        if at_once {
            let all = FlowMod {
                cookie: tag(sent.slice),
                cookie_mask: TAG,
                table: change.table,
                ..FlowMod::new(FlowCommand::Delete, Match::default())
            };
            self.order(sent, Kind::Order, Message::FlowMod(all), out);
        }
        for number in chosen {
            self.rules.dies(number, RemovedReason::Delete);
            if at_once {
                self.nothing_left(sent.now, number, out);
            } else {
                self.uninstall(sent, number, out);
            }
        }
    }

    /// Removes the entries of a rule that is dying.
    pub(super) fn uninstall(&mut self, sent: &Sent, number: u64, out: &mut Vec<Out>) {
        let Some(rule) = self.rules.get(number) else { return };
        let (slice, table) = (rule.slice, rule.said.table);
        let living = rule.pieces.iter().enumerate().filter(|(_, piece)| piece.alive);
        let changes: Vec<FlowMod> = living
            .map(|(at, piece)| FlowMod {
                cookie: cookie(slice, number, at),
                cookie_mask: if self.version == Version::V13 { u64::MAX } else { 0 },
                table,
                priority: piece.priority,
                ..FlowMod::new(FlowCommand::DeleteStrict, piece.matching.clone())
            })
            .collect();
        for change in changes {
            self.order(sent, Kind::Order, Message::FlowMod(change), out);
        }
        self.nothing_left(sent.now, number, out);
    }
}
