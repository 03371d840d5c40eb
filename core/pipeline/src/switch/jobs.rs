//! Messages about many entries, groups or meters, done some at a time: others have their turn between the parts.
//!
//! A job looks through the tables from their beginning. It concerns the entries that there were when its message came:
//! those that come later have greater numbers. Its connection's next messages are to wait until it is done; so answers and
//! barriers stay in order. What a connection that is gone has ordered is still done.

use std::collections::BTreeSet;

use netloom_openflow::flow::NO_BUFFER;
use netloom_openflow::multipart::{Aggregate, FlowStats, MORE, segments};
use netloom_openflow::{ErrorMessage, Message, Reason, Reply, Version};

use super::stats::flow_stats;
use super::task::{BYTES, CHANGED, Chosen, Filter, Gone, Modifying, TOLD, Task};
use super::{Affected, Change, ConnectionId, Outputs, Switch};
use crate::rule::{Rule, RuleId, Time};
use crate::uses;
use crate::work::Work;

/// Entries up to which a message is done at once.
const FEW: u64 = 128;

/// Jobs of connections that are gone, and their bytes, beyond which another is not done.
const MOST_LEFT: usize = 256;
const MOST_LEFT_BYTES: usize = 8 << 20;

/// A place in the tables: the entries before it have been looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    table: u8,
    slot: u32,
}

impl Place {
    /// Before all entries.
    pub const FIRST: Place = Place { table: 0, slot: 0 };
}

/// A job.
#[derive(Debug)]
pub(super) struct Job {
    version: Version,
    xid: u32,
    /// The beginning of its message, which an error quotes.
    head: Vec<u8>,
    /// The greatest number of an entry that it concerns.
    last: u64,
    /// The next one to look at.
    place: Place,
    /// Entries that are changed next, before others are looked for.
    next: Vec<RuleId>,
    task: Task,
    /// Bytes that its message takes.
    bytes: usize,
}

impl Switch {
    /// Whether a message about all entries is done at once.
    pub(super) fn has_few(&self) -> bool {
        self.entries() <= FEW
    }

    /// Whether groups or meters are deleted at once, with the entries that use them.
    pub(super) fn are_few(&self, gone: &Gone) -> bool {
        self.has_few() && u64::try_from(gone.len()).is_ok_and(|count| count <= FEW)
    }

    /// Begins what a message asks for.
    pub(super) fn begin_job(&mut self, id: ConnectionId, version: Version, xid: u32, task: Task) {
        let bytes = task.bytes();
        let job = Job {
            version,
            xid,
            head: vec![],
            last: self.numbers,
            place: Place::FIRST,
            next: vec![],
            task,
            bytes,
        };
        self.jobs.insert(id, job);
    }

    /// Keeps the beginning of a message that is begun.
    pub(super) fn quote(&mut self, id: ConnectionId, bytes: &[u8]) {
        if let Some(job) = self.jobs.get_mut(&id) {
            job.head = bytes.get(..netloom_openflow::refusal::QUOTED).unwrap_or(bytes).to_vec();
        }
    }

    /// Connections, or those that are gone, whose last message is not done: [`Switch::proceed`] goes on with it.
    pub fn unfinished(&self) -> impl Iterator<Item = ConnectionId> {
        self.jobs.keys().copied()
    }

    /// Whether a connection's next messages are to wait.
    pub fn is_busy(&self, id: ConnectionId) -> bool {
        self.jobs.contains_key(&id)
    }

    /// Connections whose last message is not done, with the bytes of memory that this takes, about.
    pub fn held(&self) -> impl Iterator<Item = (ConnectionId, usize)> {
        self.jobs.iter().map(|(id, job)| (*id, job.bytes))
    }

    /// How many orders of connections that were gone were not carried out, because these had left too many.
    pub fn abandoned(&self) -> u64 {
        self.abandoned
    }

    /// What [`Switch::proceed`] may change next.
    pub fn affected_next(&mut self, id: ConnectionId, work: &mut Work) -> Affected {
        let Some(mut job) = self.jobs.remove(&id) else { return Affected::default() };
        if job.next.is_empty() && job.task.is_changing() {
            while work.is_left()
                && let Some(rule) = self.next_rule(&mut job.place)
            {
                work.spend(1);
                if rule.id.number <= job.last && job.task.changes(rule) {
                    work.spend(CHANGED);
                    job.next.push(rule.id);
                }
            }
        }
        let steps = u64::from(!job.next.is_empty());
        let affected = Affected::of_rules(job.next.clone(), steps);
        self.jobs.insert(id, job);
        affected
    }

    /// Goes on with what a connection's message asked for. Before that, [`Switch::affected_next`] says what may change.
    pub fn proceed(&mut self, id: ConnectionId, work: &mut Work, now: Time, out: &mut Outputs) {
        let Some(mut job) = self.jobs.remove(&id) else { return };
        match self.part(id, &mut job, work, now, out) {
            Ok(false) => drop(self.jobs.insert(id, job)),
            Ok(true) => {}
            Err(reason) => {
                // Of the message only its beginning is left by now.
                let error = ErrorMessage::new(job.version, reason, &job.head);
                out.send(id, job.version, job.xid, &Message::Error(error));
            }
        }
    }

    /// Does all of it.
    pub(super) fn finish(&mut self, id: ConnectionId, now: Time, out: &mut Outputs) {
        while self.is_busy(id) {
            self.affected_next(id, &mut Work::all());
            self.proceed(id, &mut Work::all(), now, out);
        }
    }

    /// A connection is gone. What it ordered is done still, unless it is behind many others: nobody was told that it was, and
    /// it is counted.
    pub(super) fn leave_job(&mut self, id: ConnectionId) {
        let Some(job) = self.jobs.get(&id) else { return };
        let may_be_left = match job.task {
            // The group or meter is already gone; entries that use it must not stay.
            Task::Delete(Chosen::Groups(_) | Chosen::Meters(_), _) | Task::Forget(..) => false,
            Task::Delete(Chosen::Filter(_), _) | Task::Modify(_) => true,
            // Nobody is there to hear the answer.
            Task::Tell(_) | Task::Sum(..) | Task::List(..) => {
                self.jobs.remove(&id);
                return;
            }
        };
        let gone = self.jobs.iter().filter(|(id, _)| !self.connections.contains_key(*id));
        let (count, bytes) =
            gone.fold((0, 0), |(count, bytes), (_, job)| (count + 1, bytes + job.bytes));
        if may_be_left && (count > MOST_LEFT || bytes > MOST_LEFT_BYTES) {
            self.jobs.remove(&id);
            self.abandoned += 1;
        }
    }

    /// The next entry from a place on, which moves behind it.
    pub fn next_rule(&self, place: &mut Place) -> Option<&Rule> {
        while let Some(entries) = self.tables.get(usize::from(place.table)) {
            if let Some(rule) = entries.at_or_after(place.slot) {
                place.slot = rule.id.slot + 1;
                return Some(rule);
            }
            *place = Place { table: place.table + 1, slot: 0 };
        }
        None
    }

    /// Does a part of a job; returns whether that was the last.
    fn part(
        &mut self,
        id: ConnectionId,
        job: &mut Job,
        work: &mut Work,
        now: Time,
        out: &mut Outputs,
    ) -> Result<bool, Reason> {
        let (version, last) = (job.version, job.last);
        let place = &mut job.place;
        let (reply, is_done) = match &mut job.task {
            Task::Tell(filter) => {
                let told = self.tell_some((filter, version, last), place, work, now);
                let is_done = self.is_past(*place);
                // No empty part but the last.
                ((is_done || !told.is_empty()).then_some(Reply::Flow(told)), is_done)
            }
            Task::Sum(filter, sums) => {
                self.sum(filter, last, sums, place, work);
                let is_done = self.is_past(*place);
                (is_done.then_some(Reply::Aggregate(*sums)), is_done)
            }
            Task::List(listed, from) => {
                let (reply, left) = self.list(*listed, *from, work, now);
                *from = left.unwrap_or(u32::MAX);
                (Some(reply), left.is_none())
            }
            Task::Forget(..) => return Ok(self.forget_some(job, work)),
            Task::Delete(_, reason) => {
                let reason = *reason;
                self.for_next(&mut job.next, work, |switch, id| {
                    switch.remove(id, reason, now, out);
                });
                (None, job.next.is_empty() && self.is_past(*place))
            }
            // A first pass only measures: a modification that does not fit is refused whole, not in the
            // middle.
            Task::Modify(modifying) if !modifying.measured => {
                self.measure(modifying, last, place, work)?;
                (None, false)
            }
            Task::Modify(modifying) => {
                modifying.any |= !job.next.is_empty();
                let change = &modifying.change;
                self.for_next(&mut job.next, work, |switch, id| {
                    switch.modify_one(id, change, version);
                });
                let is_done = job.next.is_empty() && self.is_past(*place);
                if is_done {
                    self.modified(modifying, version, now, out)?;
                }
                (None, is_done)
            }
        };
        if let Some(reply) = reply {
            answer(id, (version, job.xid), reply, !is_done, out);
        }
        Ok(is_done)
    }

    /// The entries that are told next.
    fn tell_some(
        &self,
        (filter, version, last): (&Filter, Version, u64),
        place: &mut Place,
        work: &mut Work,
        now: Time,
    ) -> Vec<FlowStats> {
        let mut told = vec![];
        while work.is_left()
            && let Some(rule) = self.next_rule(place)
        {
            work.spend(1);
            if rule.id.number <= last && filter.accepts(rule) {
                work.spend(TOLD + uses::of_rule(rule) / BYTES);
                told.push(flow_stats(rule, version, now));
            }
        }
        told
    }

    /// Adds counters of entries.
    fn sum(
        &self,
        filter: &Filter,
        last: u64,
        sums: &mut Aggregate,
        place: &mut Place,
        work: &mut Work,
    ) {
        while work.is_left()
            && let Some(rule) = self.next_rule(place)
        {
            work.spend(1);
            if rule.id.number <= last && filter.accepts(rule) {
                sums.packets = sums.packets.saturating_add(rule.packets);
                sums.bytes = sums.bytes.saturating_add(rule.bytes);
                sums.flows += 1;
            }
        }
    }

    /// All that a modification concerns has changed.
    fn modified(
        &mut self,
        modifying: &Modifying,
        version: Version,
        now: Time,
        out: &mut Outputs,
    ) -> Result<(), Reason> {
        let change = &modifying.change;
        if !modifying.any && version == Version::V10 {
            // 1.0 adds what it cannot modify; later versions do nothing.
            self.add(change, version, now)?;
            self.changed();
        }
        if change.buffer != NO_BUFFER {
            let (in_port, bytes) = self.buffers.take(change.buffer)?;
            self.resume(&bytes, in_port, now, out);
        }
        Ok(())
    }

    /// Goes on to forget what was deleted; then its users are next. Returns whether there are none.
    fn forget_some(&mut self, job: &mut Job, work: &mut Work) -> bool {
        let Task::Forget(gone, users, reason) = &mut job.task else { return false };
        self.forget(gone, work);
        if gone.len() > 0 {
            return false;
        }
        let users = std::mem::replace(users, Chosen::Groups(BTreeSet::new()));
        let is_done = users.is_empty();
        job.task = Task::Delete(users, *reason);
        is_done
    }

    /// Frees the memory of deleted groups or meters, and notes that they are gone.
    fn forget(&mut self, gone: &mut Gone, work: &mut Work) {
        while work.is_left() {
            let bytes = match gone {
                Gone::Groups(groups) => {
                    let Some((number, group)) = groups.pop_first() else { return };
                    self.uses.group_is_forgotten(&group);
                    self.note(Change::Group(number));
                    uses::of_buckets(&group.buckets)
                }
                Gone::Meters(meters) => {
                    let Some((number, meter)) = meters.pop_first() else { return };
                    self.uses.meter_goes(&meter);
                    self.note(Change::Meter(number));
                    uses::of_meter(&meter)
                }
            };
            work.spend(TOLD + bytes / BYTES);
        }
    }

    /// Whether a place is behind all entries.
    fn is_past(&self, mut place: Place) -> bool {
        self.next_rule(&mut place).is_none()
    }

    /// Changes or removes the next entries of a job, as long as there is work.
    fn for_next(
        &mut self,
        next: &mut Vec<RuleId>,
        work: &mut Work,
        mut act: impl FnMut(&mut Switch, RuleId),
    ) {
        if next.is_empty() {
            return;
        }
        self.changed();
        let mut done = 0;
        for id in next.iter() {
            // At least one a turn: a job must end even if other work always takes the whole turn.
            if !work.is_left() && done > 0 {
                break;
            }
            let passed = |switch: &Switch| {
                switch.tables.get(usize::from(id.table)).map_or(0, crate::table::Table::passed)
            };
            let before = passed(self);
            let bytes = self.rule(*id).map_or(0, uses::of_rule);
            act(self, *id);
            let bytes = bytes + self.rule(*id).map_or(0, uses::of_rule);
            work.spend(CHANGED + bytes / BYTES + passed(self) - before);
            done += 1;
        }
        next.drain(..done);
    }

    /// Goes on to find out what a modification takes.
    fn measure(
        &self,
        modifying: &mut Modifying,
        last: u64,
        place: &mut Place,
        work: &mut Work,
    ) -> Result<(), Reason> {
        let takes = uses::of_instructions(&modifying.change.instructions);
        while work.is_left()
            && let Some(rule) = self.next_rule(place)
        {
            work.spend(1);
            if rule.id.number <= last && modifying.filter.accepts(rule) {
                modifying.freed += uses::of_instructions(&rule.said);
                modifying.grown += takes;
            }
        }
        if self.is_past(*place) {
            if !self.has_memory(modifying.freed, modifying.grown) {
                return Err(Reason::FlowModFailedTableFull);
            }
            (modifying.measured, *place) = (true, Place::FIRST);
        }
        Ok(())
    }
}

/// Answers, or with a part of an answer of which more follow.
fn answer(
    id: ConnectionId,
    (version, xid): (Version, u32),
    reply: Reply,
    more: bool,
    out: &mut Outputs,
) {
    // What no message can hold is counted: nobody would know of it otherwise.
    let Ok(parts) = segments(version, reply) else {
        out.lost += 1;
        return;
    };
    for mut part in parts {
        part.flags |= if more { MORE } else { 0 };
        out.send(id, version, xid, &Message::MultipartReply(part));
    }
}
