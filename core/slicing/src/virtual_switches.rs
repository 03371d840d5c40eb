//! One real switch and the virtual switches of all slices: the state machine between them. Its modules: what a slice
//! has (`member`), what it asked for that is not done yet (`jobs`, `tasks`), requests that wait for an answer or an
//! error of the switch (`pending`), what a message says in real numbers (`rewrite`), rules (`rules`, `making`,
//! `flow_mod`, `modify`, `delete`, `removed`), `groups`, packets (`packets`), ports (`ports`), answers (`answers`,
//! `blocks`, `settings`), what is remembered for a later process (`recollect`), and what that finds (`resume`).

mod answers;
mod blocks;
mod delete;
mod flow_mod;
mod groups;
mod jobs;
mod making;
mod member;
mod modify;
mod packets;
mod pending;
mod ports;
mod recollect;
mod removed;
mod resume;
mod rewrite;
mod rules;
mod settings;
mod tasks;

use std::collections::BTreeMap;
use std::sync::Arc;

use netloom_openflow::multipart::FlowCounts;
use netloom_openflow::switch::Features;
use netloom_openflow::{DecodeError, ErrorMessage, Message, Port, PortNumber, Reason, Version};

use crate::{Error, Refusal, Slice, SliceId, Slicing, Time, Work};

use jobs::{Job, Jobs};
use member::Member;
use pending::{Kind, Pending};
pub use recollect::Written;
pub use resume::{Found, Resumed, Resuming};
use rules::Rules;

/// What follows from an input, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Out {
    /// A message for the real switch.
    ToSwitch {
        /// Its transaction id.
        xid: u32,
        /// The message.
        message: Message,
    },
    /// A message for a slice's controller.
    ToController {
        /// The slice.
        slice: SliceId,
        /// Its transaction id.
        xid: u32,
        /// The message.
        message: Message,
    },
    /// A controller's connection is to be closed, after its messages.
    Close {
        /// The slice.
        slice: SliceId,
        /// Why.
        reason: CloseReason,
    },
    /// For the log: a message of a controller was refused. The error that says so is a [`Out::ToController`].
    Refused {
        /// The slice.
        slice: SliceId,
        /// The message's transaction id.
        xid: u32,
        /// Why, with an example where the proof failed.
        refusal: Box<Refusal>,
    },
}

/// Why a controller's connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// It speaks another version than the switch.
    Version,
    /// There is no such slice.
    NoSlice,
}

/// What a slice did, and what was kept from it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Messages of its controller.
    pub messages: u64,
    /// Messages of it that were refused.
    pub refused: u64,
    /// Rules that it has.
    pub rules: u64,
    /// Entries of the real switch that these take.
    pub entries: u64,
    /// Groups that it has.
    pub groups: u64,
    /// Buckets of these at the real switch.
    pub buckets: u64,
    /// Meters that it has.
    pub meters: u64,
    /// Bytes that all of these take here, about.
    pub bytes: u64,
    /// Packets sent to its controller.
    pub packet_ins: u64,
    /// Packets that were not, because of its quota.
    pub packet_ins_dropped: u64,
    /// Packets of its controller that were sent.
    pub packet_outs: u64,
    /// LLDP packets of it that came back, on any switch.
    pub lldp_received: u64,
}

/// One real switch and the virtual switches of all slices.
#[derive(Debug)]
pub struct VirtualSwitches {
    slicing: Arc<Slicing>,
    version: Version,
    /// What the real switch said of itself.
    features: Features,
    ports: BTreeMap<PortNumber, Port>,
    members: Vec<Member>,
    /// What slices asked for that is not done.
    jobs: Jobs,
    rules: Rules,
    pending: Pending,
    /// Whether any slice discovers links.
    has_discovery: bool,
    /// Numbers of groups and meters of the real switch given so far.
    groups: u32,
    meters: u32,
}

/// A message on its way: who sent it when, and how it is quoted in an error.
#[derive(Clone, Debug)]
struct Sent {
    slice: SliceId,
    xid: u32,
    now: Time,
    /// Its first bytes.
    head: Arc<[u8]>,
}

type Done = Result<(), Refusal>;

impl VirtualSwitches {
    /// Begins with a switch that said its features and, in 1.3, its ports (in 1.0 they are in the features), and empties
    /// it: the first messages are for it.
    ///
    /// # Errors
    /// If the switch's version cannot keep what the slices are promised.
    pub fn new(
        slicing: Arc<Slicing>,
        version: Version,
        features: &Features,
        ports: &[Port],
        now: Time,
    ) -> Result<(VirtualSwitches, Vec<Out>), Error> {
        let mut switches = VirtualSwitches::bare(slicing, version, features, ports)?;
        let mut out = vec![];
        switches.begin(now, &mut out);
        Ok((switches, out))
    }

    /// Without anything in the switch.
    fn bare(
        slicing: Arc<Slicing>,
        version: Version,
        features: &Features,
        ports: &[Port],
    ) -> Result<VirtualSwitches, Error> {
        let ports = ports.iter().chain(&features.ports);
        let ports: BTreeMap<_, _> = ports.map(|port| (port.number, *port)).collect();
        let mut members = vec![];
        let nobody = Slice::default();
        for id in slicing.numbers() {
            let slice = slicing.slice(id).unwrap_or(&nobody);
            if version == Version::V10 && slice.quota.kilobits.is_some() {
                return Err(Error::Version { name: slice.name.clone(), what: "a rate" });
            }
            members.push(Member::new(slice, &ports));
        }
        let mut slices = slicing.ids().filter_map(|id| slicing.slice(id));
        let has_discovery = slices.any(|slice| slice.lldp);
        Ok(VirtualSwitches {
            slicing,
            version,
            features: Features { ports: vec![], ..features.clone() },
            ports,
            jobs: Jobs::new(),
            rules: Rules::new(version, members.len()),
            members,
            pending: Pending::default(),
            has_discovery,
            groups: 0,
            meters: 0,
        })
    }

    /// The version that all controllers have to speak: the switch's.
    pub fn version(&self) -> Version {
        self.version
    }

    /// The slices.
    pub fn slicing(&self) -> &Slicing {
        &self.slicing
    }

    /// The real switch sent a message.
    pub fn from_switch(&mut self, now: Time, xid: u32, message: Message) -> Vec<Out> {
        let mut out = vec![];
        match message {
            Message::EchoRequest(data) => {
                out.push(Out::ToSwitch { xid, message: Message::EchoReply(data) });
            }
            Message::Error(error) => self.error(now, xid, error, &mut out),
            Message::PacketIn(packet) => self.packet_in(now, packet, &mut out),
            Message::FlowRemoved(removed) => self.flow_removed(now, &removed, &mut out),
            Message::PortStatus(status) => self.port_status(now, &status, &mut out),
            Message::BarrierReply => {
                if let Some(sent) = self.pending.barrier(xid) {
                    self.tell(sent.slice, sent.xid, Message::BarrierReply, &mut out);
                }
            }
            Message::MultipartReply(reply) => self.multipart_reply(xid, reply, &mut out),
            Message::QueueGetConfigReply(config) => self.queue_config(xid, config, &mut out),
            // What the switch was not asked for here.
            _ => {}
        }
        out
    }

    /// The real switch answered with the counts of flow entries, of which nothing else is needed; the same as its message to
    /// [`VirtualSwitches::from_switch`].
    pub fn counts_from_switch(&mut self, xid: u32, more: bool, counts: &[FlowCounts]) {
        self.count(xid, more, counts.iter().copied());
    }

    /// A controller that is connected sent a message. Hellos and the choice of a version are the caller's. All of it is
    /// done, except what waits for answers of the switch.
    pub fn from_controller(
        &mut self,
        now: Time,
        slice: SliceId,
        xid: u32,
        message: Message,
    ) -> Vec<Out> {
        let head = netloom_openflow::encode(self.version, xid, &message).unwrap_or_default();
        self.begin_message(now, slice, xid, message, &head, &mut Work::all())
    }

    /// The same, with as much of it done as there is work: [`VirtualSwitches::proceed`] does the rest. `bytes` is the message
    /// as it was sent, with this number, or the beginning of it. While the slice is busy ([`VirtualSwitches::is_busy`]) its
    /// next messages are not to be read; one that comes in all the same waits.
    pub fn begin_message(
        &mut self,
        now: Time,
        slice: SliceId,
        xid: u32,
        message: Message,
        bytes: &[u8],
        work: &mut Work,
    ) -> Vec<Out> {
        let mut out = vec![];
        let Some(member) = self.members.get_mut(usize::from(slice.0)) else {
            return vec![Out::Close { slice, reason: CloseReason::NoSlice }];
        };
        member.counters.messages += 1;
        let within = member.has_turn(now);
        // An error quotes the message's first bytes
        // (section 7.4.4), which are the controller's own.
        let head = bytes.get(..netloom_openflow::refusal::QUOTED).unwrap_or(bytes).into();
        let sent = Sent { slice, xid, now, head };
        if !within {
            let words = "more messages than its quota";
            self.refuse(&sent, Refusal::new(Reason::BadRequestEperm, words), &mut out);
            return out;
        }
        if self.is_busy(slice) {
            self.push(sent, Job::Said(Box::new(message)));
        } else {
            match self.controller(&sent, message, work, &mut out) {
                Ok(None) => {}
                Ok(Some(job)) => self.push(sent, job),
                Err(refusal) => self.refuse(&sent, refusal, &mut out),
            }
        }
        if self.is_busy(slice) {
            self.work_on(slice, work, &mut out);
        }
        self.pay(now, slice, &out);
        out
    }

    /// A controller sent what cannot be read: the answer.
    pub fn unreadable(
        &mut self,
        now: Time,
        slice: SliceId,
        error: &DecodeError,
        bytes: &[u8],
    ) -> Vec<Out> {
        let mut out = vec![];
        let Some(member) = self.members.get_mut(usize::from(slice.0)) else { return out };
        member.counters.messages += 1;
        // It uses up the quota like any message; the answer is an error whether there was room or not.
        member.has_turn(now);
        member.counters.refused += 1;
        let answer = Message::Error(error.answer(self.version, bytes));
        self.tell(slice, error.xid(), answer, &mut out);
        let refusal = Box::new(Refusal::new(error.reason, error.to_string()));
        out.push(Out::Refused { slice, xid: error.xid(), refusal });
        out
    }

    fn refuse(&mut self, sent: &Sent, refusal: Refusal, out: &mut Vec<Out>) {
        if let Some(member) = self.member(sent.slice) {
            member.counters.refused += 1;
        }
        let error = ErrorMessage::new(self.version, refusal.reason, &sent.head);
        self.tell(sent.slice, sent.xid, Message::Error(error), out);
        let refusal = Box::new(refusal);
        out.push(Out::Refused { slice: sent.slice, xid: sent.xid, refusal });
    }

    /// The switch refused what a controller, or this program, asked for.
    fn error(&mut self, now: Time, xid: u32, error: ErrorMessage, out: &mut Vec<Out>) {
        let Some((sent, kind)) = self.pending.take(xid) else { return };
        let ErrorMessage { kind: of, code, .. } = error;
        // Only for the log: the controller gets the switch's own numbers, known here or not.
        let reason = error.reason(self.version).unwrap_or(Reason::BadRequestEperm);
        let told = match kind {
            Kind::Rule(number) => self.rule_failed(sent.slice, number, now),
            Kind::Group(number) => self.group_failed(sent.slice, number),
            Kind::Meter(number) => self.meter_failed(sent.slice, number),
            // No controller asked for it.
            Kind::Own => false,
            // A switch without groups or meters refuses to delete them: there are none.
            Kind::Attempt => return,
            _ => true,
        };
        if told {
            let error = ErrorMessage { kind: of, code, data: sent.head.to_vec() };
            self.tell(sent.slice, sent.xid, Message::Error(error), out);
        }
        let words = "the switch refused it";
        let refusal = Box::new(Refusal::new(reason, words));
        out.push(Out::Refused { slice: sent.slice, xid: sent.xid, refusal });
    }

    fn member(&mut self, slice: SliceId) -> Option<&mut Member> {
        self.members.get_mut(usize::from(slice.0))
    }

    /// What a slice has; the slice is one of these.
    fn of(&self, slice: SliceId) -> Result<&Member, Refusal> {
        let none = || Refusal::new(Reason::BadRequestEperm, "there is no such slice");
        self.members.get(usize::from(slice.0)).ok_or_else(none)
    }

    /// To a slice's controller, if it is there.
    fn tell(&self, slice: SliceId, xid: u32, message: Message, out: &mut Vec<Out>) {
        if self.members.get(usize::from(slice.0)).is_some_and(|member| member.connected) {
            out.push(Out::ToController { slice, xid, message });
        }
    }

    /// To the switch, on behalf of a slice.
    fn order(&mut self, sent: &Sent, kind: Kind, message: Message, out: &mut Vec<Out>) {
        let xid = self.pending.note(sent.clone(), kind);
        out.push(Out::ToSwitch { xid, message });
    }

    /// A slice's controller is connected, and both said hello in this version. Rules of an earlier connection are there.
    pub fn connected(&mut self, now: Time, slice: SliceId, version: Version) -> Vec<Out> {
        let _ = now;
        let same = version == self.version;
        let Some(member) = self.member(slice) else {
            return vec![Out::Close { slice, reason: CloseReason::NoSlice }];
        };
        if !same {
            return vec![Out::Close { slice, reason: CloseReason::Version }];
        }
        member.connect();
        vec![]
    }

    /// A slice's controller went away: its rules stay, what it ordered is done, nothing more is sent to it.
    pub fn disconnected(&mut self, now: Time, slice: SliceId) -> Vec<Out> {
        let _ = now;
        if let Some(member) = self.member(slice) {
            member.connected = false;
        }
        if let Some(jobs) = self.jobs.get_mut(&slice) {
            jobs.retain(|(_, job)| !job.answers());
            if jobs.is_empty() {
                self.jobs.remove(&slice);
            }
        }
        self.pending.forget(slice);
        vec![]
    }

    /// Time passed.
    pub fn tick(&mut self, now: Time) -> Vec<Out> {
        let mut out = vec![];
        // Once it is answered, whatever was sent before and not refused is done, and can be forgotten.
        if self.pending.is_long() {
            let sent = VirtualSwitches::own(SliceId(0), now);
            self.order(&sent, Kind::Mark, Message::BarrierRequest, &mut out);
        }
        out
    }

    /// When [`VirtualSwitches::tick`] has something to do next, if nothing else happens.
    pub fn deadline(&self) -> Option<Time> {
        self.pending.is_long().then_some(0)
    }

    /// Until when no message of a slice's controller is to be read, because its quota is used up; `None`: read on.
    /// Messages that come in all the same are refused.
    pub fn wait(&self, now: Time, slice: SliceId) -> Option<Time> {
        self.members.get(usize::from(slice.0))?.wait(now)
    }

    /// Whether more of a slice's messages are to be read: not while it waits for many answers of the switch. Messages
    /// that come in all the same are carried out.
    pub fn may_ask(&self, slice: SliceId) -> bool {
        self.pending.may_ask(slice)
    }

    /// Bytes that a slice's rules, groups and meters take here, about.
    fn bytes(&self, slice: SliceId) -> u64 {
        let beside = self.of(slice).map_or(0, |one| one.groups.bytes + one.meters.bytes);
        self.rules.count(slice).bytes + beside
    }

    /// What a slice did.
    pub fn counters(&self, slice: SliceId) -> Counters {
        let Ok(member) = self.of(slice) else { return Counters::default() };
        let counts = self.rules.count(slice);
        let wide = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        Counters {
            rules: counts.rules,
            entries: counts.entries,
            groups: wide(member.groups.len()),
            buckets: member.groups.buckets,
            meters: wide(member.meters.len()),
            bytes: self.bytes(slice),
            ..member.counters
        }
    }
}
