//! What slices asked for and is not done yet: each does a part at a time, so that others have their turns meanwhile.
//!
//! A slice's messages are done in their order: the next one begins when all before it are done. Only answers of the switch
//! that fit into one part are not waited for.

use std::collections::{BTreeMap, VecDeque};

use netloom_openflow::{Instruction, Message, MultipartRequest};

use super::tasks::{Adding, Deleting, Describing, Flows, Following, Grouping, Modifying, Sending};
use super::{Out, Refusal, Sent, VirtualSwitches};
use crate::Work;
use crate::{SliceId, Time};

/// What a message for the switch takes, in steps of work.
pub(super) const ORDER: usize = 20;

/// The same with these instructions.
pub(super) fn order(instructions: &[Instruction]) -> usize {
    ORDER + actions(instructions)
}

/// How many actions there are.
pub(super) fn actions(instructions: &[Instruction]) -> usize {
    let of = |instruction: &Instruction| match instruction {
        Instruction::ApplyActions(all) | Instruction::WriteActions(all) => all.len(),
        _ => 0,
    };
    instructions.iter().map(of).sum()
}

/// Something that a slice asked for, or that is to be done for it.
#[derive(Debug)]
pub(super) enum Job {
    /// A message that is not begun.
    Said(Box<Message>),
    Add(Box<Adding>),
    Modify(Box<Modifying>),
    Delete(Box<Deleting>),
    /// A rule is dying: its entries from this one on are to go. It is waited until they are gone, or forgotten at once.
    Uninstall {
        number: u64,
        piece: usize,
        forget: bool,
    },
    Follow(Box<Following>),
    Group(Box<Grouping>),
    /// These groups are to go, the last first.
    NoGroups(Vec<u32>),
    NoMeters(Vec<u32>),
    Packet(Box<Sending>),
    /// A request for an answer in parts, while another one is awaited.
    Ask(Box<MultipartRequest>),
    Flows(Box<Flows>),
    Describe(Describing),
}

impl Job {
    /// Whether it does nothing but answer.
    pub(super) fn answers(&self) -> bool {
        matches!(self, Job::Ask(_) | Job::Flows(_) | Job::Describe(_))
    }
}

/// Of the slices that have any, in the order in which they are done.
pub(super) type Jobs = BTreeMap<SliceId, VecDeque<(Sent, Job)>>;

/// The rest, if it is not done.
pub(super) type Step = Result<Option<Job>, Refusal>;

impl VirtualSwitches {
    /// Puts something behind what a slice asked for before.
    pub(super) fn push(&mut self, sent: Sent, job: Job) {
        if self.of(sent.slice).is_ok() {
            self.jobs.entry(sent.slice).or_default().push_back((sent, job));
        }
    }

    /// Puts something before what a slice asked for.
    pub(super) fn push_first(&mut self, sent: Sent, job: Job) {
        if self.of(sent.slice).is_ok() {
            self.jobs.entry(sent.slice).or_default().push_front((sent, job));
        }
    }

    /// Whether a slice's messages are to wait, because what it asked for before is not done.
    pub fn is_busy(&self, slice: SliceId) -> bool {
        self.jobs.contains_key(&slice) || self.pending.holds(slice)
    }

    /// The slices for which [`VirtualSwitches::proceed`] has something to do; if it is to answer a message, with the number
    /// of that.
    pub fn unfinished(&self) -> impl Iterator<Item = (SliceId, Option<u32>)> {
        self.jobs.keys().filter_map(|slice| Some((*slice, self.unfinished_of(*slice)?)))
    }

    /// The same of a slice, if there is something to do for it.
    pub fn unfinished_of(&self, slice: SliceId) -> Option<Option<u32>> {
        let (sent, job) = self.jobs.get(&slice)?.front()?;
        self.may_proceed(slice).then(|| job.answers().then_some(sent.xid))
    }

    fn may_proceed(&self, slice: SliceId) -> bool {
        match self.jobs.get(&slice).and_then(VecDeque::front) {
            None => false,
            // One answer in parts at a time, also where it holds up nothing else.
            Some((_, Job::Ask(_))) => !self.pending.awaits_parts(slice),
            Some(_) => !self.pending.holds(slice),
        }
    }

    /// Goes on with what a slice asked for.
    pub fn proceed(&mut self, now: Time, slice: SliceId, work: &mut Work) -> Vec<Out> {
        let mut out = vec![];
        self.work_on(slice, work, &mut out);
        self.pay(now, slice, &out);
        out
    }

    pub(super) fn work_on(&mut self, slice: SliceId, work: &mut Work, out: &mut Vec<Out>) {
        while self.may_proceed(slice) && work.is_left() {
            let next = self.jobs.get_mut(&slice).and_then(VecDeque::pop_front);
            let Some((sent, job)) = next else { break };
            // Whatever the job: a long list of ones that do nothing takes its time, too.
            work.spend(1);
            let left = match self.step(&sent, job, work, out) {
                Ok(left) => left,
                Err(refusal) => {
                    self.refuse(&sent, refusal, out);
                    None
                }
            };
            if let Some(job) = left {
                self.push_first(sent, job);
            }
        }
        // A slice is busy as long as it has a list.
        if self.jobs.get(&slice).is_some_and(VecDeque::is_empty) {
            self.jobs.remove(&slice);
        }
    }

    /// What a slice asked for counts as the messages for the switch that it became.
    pub(super) fn pay(&mut self, now: Time, slice: SliceId, out: &[Out]) {
        let orders = out.iter().filter(|one| matches!(one, Out::ToSwitch { .. })).count();
        if let Some(member) = self.member(slice) {
            member.pay(now, orders);
        }
    }

    fn step(&mut self, sent: &Sent, job: Job, work: &mut Work, out: &mut Vec<Out>) -> Step {
        match job {
            Job::Said(message) => self.controller(sent, *message, work, out),
            Job::Add(mut adding) => match self.adding(sent, &mut adding, work, out)? {
                true => Ok(None),
                false => Ok(Some(Job::Add(adding))),
            },
            Job::Modify(modifying) => self.modify(sent, modifying, work, out),
            Job::Delete(deleting) => self.delete(sent, deleting, work, out),
            Job::Uninstall { number, piece, forget } => {
                let left = self.uninstall(sent, number, piece, work, out);
                // The switch does not tell of an entry that it never had.
                if left.is_none() && forget {
                    self.rules.remove(sent.slice, number);
                }
                Ok(left.map(|piece| Job::Uninstall { number, piece, forget }))
            }
            Job::Follow(following) => self.follow(sent, following, work, out),
            Job::Group(grouping) => self.group(sent, grouping, work, out),
            Job::NoGroups(groups) => Ok(self.delete_groups(sent, groups, work, out)),
            Job::NoMeters(meters) => Ok(self.delete_meters(sent, meters, work, out)),
            Job::Packet(sending) => self.send_packet(sent, sending, work, out),
            Job::Ask(request) => self.multipart_request(sent, *request, out),
            Job::Flows(flows) => Ok(self.flows(sent, flows, work, out)),
            Job::Describe(describing) => Ok(self.describe(sent, describing, work, out)),
        }
    }
}
