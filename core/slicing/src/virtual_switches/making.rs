//! A rule, before anything is changed: its actions and match in real numbers, narrowed to the slice and proved. It can be
//! left at any point, and goes on later.

use netloom_openflow::flow::FlowMod;
use netloom_openflow::{Field, Instruction, Match, Message, Reason, Version, encode, weight};

use super::rewrite::{self, MOST_PIECES, TAG, tag};
use super::rules::{Piece, Rule};
use super::{Refusal, Sent, VirtualSwitches};
use crate::Work;
use crate::cube::Cube;
use crate::fault::{self, Fault};
use crate::mark;
use crate::proof::{Findings, Proof};
use crate::walk::Walk;
use crate::{Example, SliceId};

/// Instructions of this many bytes in memory at most are within a message, whatever they are, with any match.
const SHORT: usize = 32 * 1024;

/// Bytes of a message that a rule may take: statistics that tell it have some more before it.
const LONGEST: usize = u16::MAX as usize - 16;

/// What making an entry takes, in steps of work.
const PIECE: usize = 10;

/// A rule that is being made.
#[derive(Debug)]
pub(super) struct Making {
    pub(super) said: FlowMod,
    /// What it does, in real numbers.
    pub(super) instructions: Vec<Instruction>,
    /// Whether it lists the slice's ports.
    pub(super) floods: bool,
    pub(super) findings: Findings,
    /// Its match in real numbers, and the bits of the metadata in it.
    cube: Cube,
    metadata: (u128, u128),
    /// The packets of it that are the slice's, and the next cube of the slice to look at.
    packets: Vec<Cube>,
    next: usize,
    /// Its entries, if they are wanted, and the next of its packets to make some of.
    pieces: Option<Vec<Piece>>,
    piece: usize,
    walk: Option<Walk>,
}

impl Making {
    /// The rule, when it is made. The request is moved into it.
    pub(super) fn rule(&mut self, sent: &Sent) -> Rule {
        let nothing = FlowMod::new(self.said.command, Match::default());
        let mut said = std::mem::replace(&mut self.said, nothing);
        said.instructions.shrink_to_fit();
        if let Match::Oxm(fields) = &mut said.matching {
            fields.shrink_to_fit();
        }
        let mut pieces = self.pieces.take().unwrap_or_default();
        pieces.shrink_to_fit();
        Rule {
            slice: sent.slice,
            said,
            instructions: std::mem::take(&mut self.instructions).into(),
            findings: self.findings,
            floods: self.floods,
            alive: pieces.len(),
            pieces,
            since: sent.now,
            packets: 0,
            bytes: 0,
            dying: None,
        }
    }
}

fn refuse(reason: Reason, words: impl Into<String>) -> Refusal {
    Refusal::new(reason, words)
}

impl VirtualSwitches {
    /// Begins with a rule; its entries are made if they are wanted.
    ///
    /// # Errors
    /// With what was said, if it cannot be said in real numbers.
    pub(super) fn making(
        &self,
        slice: SliceId,
        said: FlowMod,
        pieces: bool,
    ) -> Result<Making, Box<(Refusal, FlowMod)>> {
        match self.real(slice, &said) {
            Ok((mut cube, instructions, floods)) => {
                let metadata = cube.get(Field::Metadata);
                // Spaces say nothing of metadata; it is put into the entries again.
                cube.free(Field::Metadata);
                Ok(Making {
                    said,
                    instructions,
                    floods,
                    findings: Findings::default(),
                    cube,
                    metadata,
                    packets: vec![],
                    next: 0,
                    pieces: pieces.then(Vec::new),
                    piece: 0,
                    walk: None,
                })
            }
            Err(refusal) => Err(Box::new((refusal, said))),
        }
    }

    /// A rule in real numbers: its match, its instructions, and whether they list the slice's ports.
    fn real(
        &self,
        slice: SliceId,
        said: &FlowMod,
    ) -> Result<(Cube, Vec<Instruction>, bool), Refusal> {
        let member = self.of(slice)?;
        if self.version == Version::V13 && said.table >= self.features.tables {
            return Err(refuse(Reason::FlowModFailedBadTableId, "there is no such table"));
        }
        let cube = rewrite::matched(&said.matching, member)?;
        let mut actions = self.actions(slice, member);
        let instructions = actions.instructions(slice, said.table, &said.instructions)?;
        Ok((cube, instructions, actions.flooded))
    }

    /// Goes on with a rule; returns whether it is made.
    pub(super) fn make(
        &mut self,
        slice: SliceId,
        making: &mut Making,
        work: &mut Work,
    ) -> Result<bool, Refusal> {
        if making.walk.is_none() {
            if !self.narrow(slice, making, work) || !self.make_pieces(slice, making, work)? {
                return Ok(false);
            }
            self.is_sayable(making)?;
            let packets = std::mem::take(&mut making.packets);
            making.walk = Some(Walk::rule(making.said.table, packets, &making.instructions)?);
        }
        let VirtualSwitches { slicing, members, .. } = self;
        let member = members.get_mut(usize::from(slice.0));
        let (Some(walk), Some(member)) = (&mut making.walk, member) else { return Ok(true) };
        let (known, ports) = member.proving();
        let done = walk.goes_on(&Proof { slicing, slice, ports }, known, work);
        let Some(findings) = done else { return Ok(false) };
        making.findings = findings?;
        self.clashes(slice, making.findings)?;
        Ok(true)
    }

    fn clashes(&self, slice: SliceId, findings: Findings) -> Result<(), Refusal> {
        let others = self.rules.count(slice);
        // The action set that one entry writes may be done where the way of another ends.
        let clash = findings.shares_set && others.outside > 0
            || findings.ends_outside && others.sharing > 0;
        if findings.shares_set && findings.ends_outside || clash {
            let words = "packets changed to leave the slice's space could meet an action set of another table";
            return Err(refuse(Reason::BadActionEperm, words));
        }
        Ok(())
    }

    /// Finds the slice's packets of a match; returns whether it is done.
    fn narrow(&self, slice: SliceId, making: &mut Making, work: &mut Work) -> bool {
        if fault::is(Fault::Narrow) {
            making.packets = vec![making.cube.clone()];
            return true;
        }
        let cubes = self.slicing.region(slice).map_or(&[][..], |own| &own.cubes);
        while let Some(own) = cubes.get(making.next) {
            if !work.is_left() {
                return false;
            }
            work.spend(1);
            making.next += 1;
            if own.meets(&making.cube) {
                let both = own.and(&making.cube).filter(Cube::is_possible);
                making.packets.extend(both);
                work.spend(2);
            }
        }
        true
    }

    /// Makes the entries of a rule; returns whether it is done.
    fn make_pieces(
        &self,
        slice: SliceId,
        making: &mut Making,
        work: &mut Work,
    ) -> Result<bool, Refusal> {
        let Making { said, cube, metadata, packets, pieces, piece, .. } = making;
        let Some(pieces) = pieces else { return Ok(true) };
        // In later tables the tag alone says that a packet is the slice's: one entry is enough.
        if said.table != 0 {
            if pieces.is_empty() {
                let mut tagged = cube.clone();
                tagged.restrict(Field::Metadata, metadata.0, metadata.1);
                if !fault::is(Fault::Tag) {
                    tagged.restrict(Field::Metadata, u128::from(tag(slice)), u128::from(TAG));
                }
                self.make_piece(said.priority, &tagged, pieces, work)?;
            }
            return Ok(true);
        }
        if packets.is_empty() && !self.is_discovery(slice, cube) {
            return Err(Refusal {
                example: Some(Example::of(cube)),
                ..refuse(Reason::FlowModFailedEperm, "no packet of the match is in the slice")
            });
        }
        while let Some(cube) = packets.get(*piece) {
            if !work.is_left() {
                return Ok(false);
            }
            *piece += 1;
            if metadata.1 == 0 {
                self.make_piece(said.priority, cube, pieces, work)?;
                continue;
            }
            let mut cube = cube.clone();
            cube.restrict(Field::Metadata, metadata.0, metadata.1);
            self.make_piece(said.priority, &cube, pieces, work)?;
        }
        Ok(true)
    }

    fn make_piece(
        &self,
        priority: u16,
        cube: &Cube,
        pieces: &mut Vec<Piece>,
        work: &mut Work,
    ) -> Result<(), Refusal> {
        let priority = match self.meets_discovery(cube) {
            // Below the entries that take packets of discovery out.
            true => priority.min(u16::MAX - 1),
            false => priority,
        };
        for matching in rewrite::sayable(cube, self.version)? {
            pieces.push(Piece { matching, priority, alive: true, quiet: None });
            work.spend(PIECE);
        }
        if pieces.len() > MOST_PIECES {
            let words = format!("narrowed to the slice it needs more than {MOST_PIECES} entries");
            return Err(refuse(Reason::FlowModFailedTableFull, words));
        }
        Ok(())
    }

    /// Whether messages have room for a rule's entries, and statistics for what was said.
    fn is_sayable(&self, making: &Making) -> Result<(), Refusal> {
        let long = |all: &[Instruction]| weight::instructions(all) > SHORT;
        if !long(&making.instructions) && !long(&making.said.instructions) {
            return Ok(());
        }
        let fits = |matching: &Match, instructions: &[Instruction]| {
            let change = FlowMod {
                instructions: instructions.to_vec(),
                ..FlowMod::new(making.said.command, matching.clone())
            };
            let bytes = encode(self.version, 0, &Message::FlowMod(change));
            bytes.is_ok_and(|bytes| bytes.len() <= LONGEST)
        };
        let longest = making.pieces.iter().flatten();
        let longest = longest.max_by_key(|piece| weight::matching(&piece.matching));
        let real = longest.is_none_or(|piece| fits(&piece.matching, &making.instructions));
        if real && fits(&making.said.matching, &making.said.instructions) {
            return Ok(());
        }
        let words = "in the switch's numbers it is longer than a message can be";
        Err(refuse(Reason::BadActionTooMany, words))
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
        self.has_discovery && mark::ETHERTYPES.iter().any(|of| u128::from(*of) & mask == value)
    }
}
