//! Requests to the switch: whose each is, so that its answer or error goes there, with the number that it was sent with.
//!
//! Bounded: the oldest are forgotten. What gets no answer is done when a barrier after it is answered; [`Pending::is_long`]
//! asks for one where slices send none. A slice for which many answers are awaited is not to ask for more
//! ([`Pending::may_ask`]), and has one answer in parts at a time, so that nothing of another's waits or is forgotten for it.

use std::collections::{BTreeMap, VecDeque};

use netloom_openflow::PortNumber;

use super::Sent;
use super::tasks::PendingReply;
use crate::SliceId;

/// Requests that are kept. A switch is not sent more while it has not taken some hundred kilobytes.
const MOST: usize = 16 * 1024;

/// Requests after which a barrier is to tell what is done.
const LONG: usize = 1024;

/// Answers that are awaited for a slice before it is to wait.
const MOST_AWAITED: usize = 1024;

/// What a request is about.
#[derive(Debug)]
pub(super) enum Kind {
    /// An order of this program.
    Own,
    /// An order of this program that a switch may have no sense for, such as to delete groups.
    Attempt,
    /// An order without an answer.
    Order,
    /// Entries of the rule with this number.
    Rule(u64),
    /// The group with this number, as its slice has it.
    Group(u32),
    /// The meter.
    Meter(u32),
    Barrier,
    /// A barrier of this program, to see what is done.
    Mark,
    /// The queues of a port, as its slice has it.
    Queues(PortNumber),
    /// An answer in parts.
    Answer(Box<PendingReply>),
}

/// The awaited answers of a slice.
#[derive(Clone, Copy, Debug, Default)]
struct Awaited {
    answers: usize,
    /// Of these, the ones in parts.
    parts: usize,
    /// Answers behind which the slice's next messages wait.
    holds: usize,
}

#[derive(Debug, Default)]
pub(super) struct Pending {
    /// In the order of their numbers; none where one is done.
    sent: VecDeque<Option<(Sent, Kind)>>,
    /// The number of the first.
    first: u32,
    awaited: BTreeMap<SliceId, Awaited>,
    /// Requests since the last barrier.
    unmarked: usize,
}

impl Kind {
    /// Whether an answer comes in any case.
    fn is_answered(&self) -> bool {
        matches!(self, Kind::Barrier | Kind::Mark | Kind::Queues(_) | Kind::Answer(_))
    }

    /// Whether a slice awaits its answer.
    fn is_awaited(&self) -> bool {
        self.is_answered() && !matches!(self, Kind::Mark)
    }

    fn change(&self, awaited: &mut Awaited, by: impl Fn(usize, usize) -> usize) {
        awaited.answers = by(awaited.answers, 1);
        if let Kind::Answer(asked) = self {
            awaited.parts = by(awaited.parts, 1);
            awaited.holds = by(awaited.holds, usize::from(asked.holds));
        }
    }
}

impl Pending {
    fn awaited(&self, slice: SliceId) -> Awaited {
        self.awaited.get(&slice).copied().unwrap_or_default()
    }

    /// Whether a slice may ask for more.
    pub(super) fn may_ask(&self, slice: SliceId) -> bool {
        self.awaited(slice).answers < MOST_AWAITED
    }

    /// Whether a slice awaits an answer in parts.
    pub(super) fn awaits_parts(&self, slice: SliceId) -> bool {
        self.awaited(slice).parts > 0
    }

    /// Whether a slice's messages wait for an answer.
    pub(super) fn holds(&self, slice: SliceId) -> bool {
        self.awaited(slice).holds > 0
    }

    /// Whether a barrier is to tell what is done.
    pub(super) fn is_long(&self) -> bool {
        self.unmarked >= LONG
    }

    /// Keeps a request; returns the number to send it with.
    pub(super) fn note(&mut self, sent: Sent, kind: Kind) -> u32 {
        let number = self.push(sent, kind);
        while self.sent.len() > MOST {
            self.take(self.first);
        }
        number
    }

    fn push(&mut self, sent: Sent, kind: Kind) -> u32 {
        if self.sent.is_empty() && self.first == 0 {
            // Zero is for what nobody asked for.
            self.first = 1;
        }
        let next = |pending: &Pending| {
            let count = u32::try_from(pending.sent.len()).unwrap_or(0);
            pending.first.wrapping_add(count)
        };
        // Numbers go around; one place is left out for the zero.
        if next(self) == 0 {
            self.sent.push_back(None);
        }
        self.unmarked = match kind {
            Kind::Barrier | Kind::Mark => 0,
            _ => self.unmarked + 1,
        };
        let number = next(self);
        self.keep(&sent, &kind);
        self.sent.push_back(Some((sent, kind)));
        number
    }

    fn keep(&mut self, sent: &Sent, kind: &Kind) {
        if kind.is_awaited() {
            kind.change(self.awaited.entry(sent.slice).or_default(), usize::saturating_add);
        }
    }

    fn place(&mut self, xid: u32) -> Option<&mut Option<(Sent, Kind)>> {
        let at = usize::try_from(xid.wrapping_sub(self.first)).ok()?;
        self.sent.get_mut(at)
    }

    /// The request with this number, which is done.
    pub(super) fn take(&mut self, xid: u32) -> Option<(Sent, Kind)> {
        let taken = self.place(xid)?.take();
        while let Some(None) = self.sent.front() {
            self.sent.pop_front();
            self.first = self.first.wrapping_add(1);
        }
        let (sent, kind) = taken?;
        if kind.is_awaited()
            && let Some(awaited) = self.awaited.get_mut(&sent.slice)
        {
            kind.change(awaited, usize::saturating_sub);
        }
        Some((sent, kind))
    }

    /// The request for an answer in parts with this number.
    pub(super) fn asked(&mut self, xid: u32) -> Option<(&Sent, &mut PendingReply)> {
        match self.place(xid)? {
            Some((sent, Kind::Answer(asked))) => Some((sent, asked)),
            _ => None,
        }
    }

    /// A barrier was answered: what was ordered before it is done. Returns whose barrier it was.
    pub(super) fn barrier(&mut self, xid: u32) -> Option<Sent> {
        let is_barrier = matches!(self.place(xid)?, Some((_, Kind::Barrier | Kind::Mark)));
        if !is_barrier {
            return None;
        }
        let before = usize::try_from(xid.wrapping_sub(self.first)).unwrap_or(0);
        // The switch answers a barrier after all errors of what came before it (section 6.2).
        for place in self.sent.iter_mut().take(before) {
            if place.as_ref().is_some_and(|(_, kind)| !kind.is_answered()) {
                *place = None;
            }
        }
        let (sent, kind) = self.take(xid)?;
        matches!(kind, Kind::Barrier).then_some(sent)
    }

    /// A controller went away: its answers are for nobody. Errors about rules still matter.
    pub(super) fn forget(&mut self, slice: SliceId) {
        // Answers to what it had asked still come, and are nobody's.
        self.awaited.remove(&slice);
        for place in &mut self.sent {
            let goes = place.as_ref().is_some_and(|(sent, kind)| {
                sent.slice == slice
                    && (kind.is_awaited() || matches!(kind, Kind::Order | Kind::Attempt))
            });
            if goes {
                *place = None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(slice: u16) -> Sent {
        Sent { slice: SliceId(slice), xid: 7, now: 0, head: [].into() }
    }

    #[test]
    fn a_barrier_tells_what_is_done_and_answers_are_still_awaited() {
        let mut pending = Pending::default();
        let rule = pending.note(sent(0), Kind::Rule(1));
        let queues = pending.note(sent(0), Kind::Queues(PortNumber(1)));
        let barrier = pending.note(sent(1), Kind::Barrier);
        let mark = pending.note(sent(1), Kind::Mark);
        assert!(pending.barrier(rule).is_none());
        assert_eq!(pending.barrier(barrier).map(|sent| sent.slice), Some(SliceId(1)));
        assert!(pending.take(rule).is_none());
        assert!(pending.barrier(mark).is_none());
        assert!(matches!(pending.take(queues), Some((_, Kind::Queues(_)))));
        assert_eq!(pending.sent.len(), 0);
    }

    #[test]
    fn numbers_go_round_without_zero_and_the_oldest_are_forgotten() {
        let mut pending = Pending { first: u32::MAX - 1, ..Pending::default() };
        let numbers: Vec<u32> =
            (0..4).map(|rule| pending.note(sent(0), Kind::Rule(rule))).collect();
        assert_eq!(numbers, [u32::MAX - 1, u32::MAX, 1, 2]);
        let of = |pending: &mut Pending, number| match pending.take(number) {
            Some((_, Kind::Rule(rule))) => Some(rule),
            _ => None,
        };
        assert_eq!([of(&mut pending, 0), of(&mut pending, 1)], [None, Some(2)]);
        for rule in 4..=MOST as u64 {
            pending.note(sent(0), Kind::Rule(rule));
        }
        assert_eq!([of(&mut pending, u32::MAX - 1), of(&mut pending, 2)], [None, Some(3)]);
        assert!(pending.is_long());
    }
}
