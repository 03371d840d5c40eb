//! Requests to the switch: whose each is, so that its answer or error goes there, with the number that it was sent with.
//!
//! Bounded: the oldest are forgotten. What gets no answer is done when a barrier after it is answered. A slice for which many
//! answers are awaited is not to ask for more ([`Pending::may_ask`]), so that nothing of another's is forgotten for it.

use std::collections::{BTreeMap, VecDeque};

use netloom_openflow::multipart::{FlowRequest, Gather};
use netloom_openflow::{PortNumber, Reply};

use super::Sent;
use crate::SliceId;

/// Requests that are kept. A switch is not sent more while it has not taken some hundred kilobytes.
const MOST: usize = 65_536;

/// Answers that are awaited for a slice before it is to wait.
const MOST_AWAITED: usize = 1024;

/// What a request is about.
#[derive(Clone, Debug)]
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
    /// The queues of a port, as its slice has it.
    Queues(PortNumber),
    Answer(Box<Asked>),
}

/// What a slice asked for, and the parts of the answer.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) what: What,
    pub(super) parts: Gather<Reply>,
}

/// What the answer needs to become a slice's.
#[derive(Clone, Debug)]
pub(super) enum What {
    Flow(FlowRequest),
    Aggregate(FlowRequest),
    Other,
}

#[derive(Debug, Default)]
pub(super) struct Pending {
    sent: BTreeMap<u32, (Sent, Kind)>,
    order: VecDeque<u32>,
    /// By slice, how many answers are awaited.
    awaited: BTreeMap<SliceId, usize>,
    last: u32,
}

impl Kind {
    /// Whether an answer comes in any case.
    fn is_answered(&self) -> bool {
        matches!(self, Kind::Barrier | Kind::Queues(_) | Kind::Answer(_))
    }
}

impl Pending {
    /// Whether a slice may ask for more.
    pub(super) fn may_ask(&self, slice: SliceId) -> bool {
        self.awaited.get(&slice).is_none_or(|count| *count < MOST_AWAITED)
    }

    fn insert(&mut self, xid: u32, sent: Sent, kind: Kind) {
        if kind.is_answered() {
            *self.awaited.entry(sent.slice).or_default() += 1;
        }
        self.sent.insert(xid, (sent, kind));
    }

    /// Keeps a request; returns the number to send it with.
    pub(super) fn note(&mut self, sent: &Sent, kind: Kind) -> u32 {
        // Zero is for what nobody asked for.
        self.last = self.last.checked_add(1).unwrap_or(1);
        self.insert(self.last, sent.clone(), kind);
        self.order.push_back(self.last);
        while self.order.len() > MOST {
            if let Some(oldest) = self.order.pop_front() {
                self.take(oldest);
            }
        }
        self.last
    }

    pub(super) fn take(&mut self, xid: u32) -> Option<(Sent, Kind)> {
        let (sent, kind) = self.sent.remove(&xid)?;
        if kind.is_answered()
            && let Some(count) = self.awaited.get_mut(&sent.slice)
        {
            *count = count.saturating_sub(1);
        }
        Some((sent, kind))
    }

    /// Puts back what is not yet done.
    pub(super) fn put(&mut self, xid: u32, sent: Sent, kind: Kind) {
        self.insert(xid, sent, kind);
    }

    /// A barrier was answered: what was ordered before it is done.
    pub(super) fn barrier(&mut self, xid: u32) -> Option<Sent> {
        let (sent, kind) = self.take(xid)?;
        let Kind::Barrier = kind else {
            self.put(xid, sent, kind);
            return None;
        };
        let mut kept = VecDeque::new();
        while let Some(before) = self.order.pop_front() {
            if before == xid {
                break;
            }
            match self.sent.get(&before) {
                Some((_, Kind::Answer(_) | Kind::Queues(_) | Kind::Barrier)) => {
                    kept.push_back(before);
                }
                _ => drop(self.take(before)),
            }
        }
        kept.append(&mut self.order);
        self.order = kept;
        Some(sent)
    }

    /// A controller went away: its answers are for nobody. Errors about rules still matter.
    pub(super) fn forget(&mut self, slice: SliceId) {
        // Answers to what it had asked still come, and are nobody's.
        self.awaited.remove(&slice);
        self.sent.retain(|_, (sent, kind)| {
            sent.slice != slice
                || matches!(kind, Kind::Rule(_) | Kind::Group(_) | Kind::Meter(_) | Kind::Own)
        });
    }
}
