//! Deletions of rules.

use netloom_openflow::flow::{FlowCommand, FlowMod, RemovedReason};
use netloom_openflow::{Match, Message, Version};

use super::jobs::{Job, ORDER, Step};
use super::pending::Kind;
use super::rewrite::{TAG, tag};
use super::rules::{Filter, cookie};
use super::tasks::Deleting;
use super::{Out, Sent, VirtualSwitches};
use crate::{SliceId, Work};

impl Deleting {
    pub(super) fn new(filter: Filter) -> Deleting {
        Deleting { filter, next: 0, at_once: false, removing: None }
    }
}

impl VirtualSwitches {
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
            // The tag in their cookies finds all entries of the slice, and no others.
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
        // Also by its cookie: an entry of a newer rule may have taken the place.
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
