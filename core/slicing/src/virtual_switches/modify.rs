//! Modifications of rules: what they are to do is proved for all of them before one changes. And rules that list the
//! slice's ports, which follow these.

use std::sync::Arc;

use netloom_openflow::flow::{FlowCommand, FlowMod};
use netloom_openflow::{Reason, Version};

use super::jobs::{Job, Step, actions};
use super::making::Making;
use super::rules::{Filter, does};
use super::tasks::{Following, Made, Modifying};
use super::{Out, Refusal, Sent, VirtualSwitches};
use crate::{SliceId, Work, refusal};

impl Modifying {
    pub(super) fn new(change: FlowMod, filter: Filter) -> Modifying {
        Modifying {
            change,
            filter,
            next: 0,
            found: None,
            making: None,
            made: vec![],
            freed: 0,
            taken: 0,
            changing: false,
            installing: None,
            buffer: None,
        }
    }
}

impl Following {
    pub(super) fn has_begun(&self) -> bool {
        self.next > 0
    }
}

impl VirtualSwitches {
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
        // Rules leave the list of those found as they are proved: that it is empty says nothing yet.
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
        // They are taken from the end.
        found.reverse();
        *next = u64::MAX;
        true
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
            let (freed, taken) = (modifying.freed, modifying.taken);
            self.has_memory(sent.slice, freed, taken, Reason::FlowModFailedTableFull)?;
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
            // It is written down.
            work.spend(actions(&made.instructions));
            self.remade(sent.slice, number, made, |said| {
                said.instructions.clone_from(&change.instructions);
                // 1.3 leaves the cookie as it was (section 6.4).
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
                // Without entries: its match stays, and so do they.
                let making = self.making(sent.slice, said, false).map_err(|wrong| wrong.0)?;
                modifying.making = Some((number, making));
            }
            if let Some((number, making)) = &mut modifying.making {
                if !self.make(sent.slice, making, work)? {
                    return Ok(false);
                }
                let mut made = made(making);
                if let Some(rule) = self.rules.get(sent.slice, *number) {
                    let pieces = rule.pieces.len();
                    let freed = does(&rule.said.instructions, &rule.instructions, pieces);
                    let taken = does(&modifying.change.instructions, &made.instructions, pieces);
                    // Added up: the quota must have room for all changes together, or none is made.
                    modifying.freed = modifying.freed.saturating_add(freed);
                    modifying.taken = modifying.taken.saturating_add(taken);
                    work.spend(actions(&rule.instructions) + actions(&made.instructions));
                }
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
        // One that has begun may have passed a rule already.
        let waits = self.jobs.get(&sent.slice).is_some_and(|jobs| jobs.iter().any(is_new));
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
}

fn made(making: &mut Making) -> Made {
    let instructions = std::mem::take(&mut making.instructions).into();
    Made { instructions, findings: making.findings, floods: making.floods }
}
