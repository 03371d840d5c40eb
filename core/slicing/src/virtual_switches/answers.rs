//! Statistics and descriptions: asked of the real switch, and the slice's part of the answer, in its numbers.
//!
//! Answers go to the slice part by part, as they come. Where a slice has many rules, the switch is asked for a block of
//! them at a time: what others ask for meanwhile is not behind all of them.

use std::collections::BTreeMap;

use netloom_openflow::action::GROUP_ALL;
use netloom_openflow::flow::Duration;
use netloom_openflow::meter::METER_ALL;
use netloom_openflow::multipart::{
    Aggregate, FlowCounts, FlowStats, GroupDesc, GroupStats, MORE, MeterConfig, MeterStats,
    TableFeatures, TableProperty, TableStats, segments,
};
use netloom_openflow::port::Name;
use netloom_openflow::queue::QueueConfig;
use netloom_openflow::{
    Message, MultipartReply, MultipartRequest, PortNumber, Reason, Reply, Request, Version, weight,
};

use super::blocks::LAST;
use super::jobs::{Job, Step};
use super::pending::Kind;
use super::rewrite::TAG;
use super::rules::Rule;
use super::tasks::{Describing, Flows, PendingReply, Sum, What};
use super::{Done, Out, Refusal, Sent, VirtualSwitches};
use crate::SliceId;
use crate::Work;

/// What a part of an answer has at most, in bytes that it takes in memory, which are more than those of its message. One
/// that is longer alone is a part alone.
const PART: usize = 48 * 1024;

/// Entries that are told in a part at most.
const MOST_TOLD: usize = 512;

fn refuse(reason: Reason, words: &str) -> Refusal {
    Refusal::new(reason, words)
}

impl VirtualSwitches {
    pub(super) fn multipart_request(
        &mut self,
        sent: &Sent,
        request: MultipartRequest,
        out: &mut Vec<Out>,
    ) -> Step {
        if let Some(reply) = self.known(sent.slice, &request.body) {
            self.answer(sent, reply, false, out);
            return Ok(None);
        }
        let what = match request.body {
            Request::GroupDesc => return Ok(Some(Job::Describe(Describing::Groups(0)))),
            Request::MeterConfig(METER_ALL) => {
                return Ok(Some(Job::Describe(Describing::Meters(0))));
            }
            _ if self.pending.awaits_parts(sent.slice) => {
                return Ok(Some(Job::Ask(Box::new(request))));
            }
            Request::Flow(asked) => self.flows_of(sent.slice, asked, None),
            Request::Aggregate(asked) => {
                self.flows_of(sent.slice, asked, Some(Aggregate::default()))
            }
            other => {
                let body = self.real_request(sent.slice, other)?;
                let kind = Kind::Answer(Box::new(PendingReply { what: What::Other, holds: false }));
                let request = MultipartRequest { flags: 0, body };
                self.order(sent, kind, Message::MultipartRequest(request), out);
                return Ok(None);
            }
        };
        Ok(Some(Job::Flows(Box::new(what))))
    }

    /// Answers without the switch.
    fn known(&self, slice: SliceId, asked: &Request) -> Option<Reply> {
        let member = self.of(slice).ok()?;
        Some(match asked {
            Request::PortDesc => Reply::PortDesc(self.seen_ports(slice)),
            Request::MeterConfig(meter) if *meter != METER_ALL => {
                let known = member.meters.get(*meter);
                let config = |kept: &super::member::Kept<_>| config(*meter, kept);
                Reply::MeterConfig(known.map(config).into_iter().collect())
            }
            // Statistics of a group that does not exist are none (section 7.3.5.9).
            Request::GroupStats(group)
                if *group != GROUP_ALL && member.groups.get(*group).is_none() =>
            {
                Reply::GroupStats(vec![])
            }
            _ => return None,
        })
    }

    /// A request in real numbers.
    fn real_request(&self, slice: SliceId, asked: Request) -> Result<Request, Refusal> {
        let member = self.of(slice)?;
        let real_port = |port| {
            let none = || refuse(Reason::BadRequestBadPort, "the port is not in the slice");
            member.real(port).ok_or_else(none)
        };
        let every = |port| matches!(port, PortNumber::ANY | PortNumber::ALL);
        Ok(match asked {
            Request::PortStats(port) if every(port) => Request::PortStats(PortNumber::ANY),
            Request::PortStats(port) => Request::PortStats(real_port(port)?),
            Request::QueueStats { port, queue } if !every(port) => {
                Request::QueueStats { port: real_port(port)?, queue }
            }
            Request::GroupStats(group) => {
                // Any other group that the slice lacks was answered in `known`.
                Request::GroupStats(member.groups.real(group).unwrap_or(GROUP_ALL))
            }
            Request::MeterStats(METER_ALL) => Request::MeterStats(METER_ALL),
            Request::MeterStats(meter) => match member.meters.real(meter) {
                Some(real) => Request::MeterStats(real),
                None => return Err(refuse(Reason::MeterModFailedUnknownMeter, "no such meter")),
            },
            Request::TableFeatures(tables) if !tables.is_empty() => {
                return Err(refuse(Reason::TableFeaturesFailedEperm, "tables are shared"));
            }
            Request::Experimenter { .. } => {
                let words = "nothing is known of an experimenter's request";
                return Err(refuse(Reason::BadRequestBadExperimenter, words));
            }
            same => same,
        })
    }

    /// Goes on to tell rules: asks for the entries of a block of them, or tells those that it knows.
    pub(super) fn flows(
        &mut self,
        sent: &Sent,
        mut flows: Box<Flows>,
        work: &mut Work,
        out: &mut Vec<Out>,
    ) -> Option<Job> {
        if let Some((body, holds)) = self.ask_next(sent.slice, &mut flows, work) {
            let kind = Kind::Answer(Box::new(PendingReply { what: What::Flows(flows), holds }));
            let request = MultipartRequest { flags: 0, body: Request::Flow(body) };
            self.order(sent, kind, Message::MultipartRequest(request), out);
            return None;
        }
        let last = flows.last.unwrap_or(LAST);
        let told = self.told(sent.slice, &mut flows, last, work);
        let mut rules = self.rules.range(sent.slice, last + 1..=u64::MAX);
        let is_whole = flows.next > last;
        let is_last = is_whole && rules.next().is_none();
        if let Some(total) = &flows.total {
            if is_last {
                self.answer(sent, Reply::Aggregate(*total), false, out);
            }
        } else if is_last || !told.is_empty() {
            self.answer(sent, Reply::Flow(told), !is_last, out);
        }
        if is_last {
            return None;
        }
        if is_whole {
            flows.last = None;
            flows.sums.clear();
        }
        Some(Job::Flows(flows))
    }

    /// The next rules of a block, with the sums over their entries; or these are added up.
    fn told(
        &self,
        slice: SliceId,
        flows: &mut Flows,
        last: u64,
        work: &mut Work,
    ) -> Vec<FlowStats> {
        let (mut told, mut bytes) = (vec![], 0);
        for (number, rule) in self.rules.range(slice, flows.next..=last) {
            work.spend(2);
            if flows.filter.accepts(rule) {
                let size = weight::boxed::<FlowStats>()
                    + weight::matching(&rule.said.matching)
                    + weight::instructions(&rule.said.instructions);
                let is_full = bytes + size > PART || told.len() == MOST_TOLD;
                if flows.total.is_none() && is_full && !told.is_empty() {
                    return told;
                }
                bytes += size;
                let sum = flows.sums.get(&number).copied().unwrap_or_default();
                match &mut flows.total {
                    Some(total) => add_up(total, rule, sum),
                    None => {
                        work.spend(10);
                        told.push(self.stats(rule, sum));
                    }
                }
            }
            flows.next = number + 1;
            if !work.is_left() {
                return told;
            }
        }
        flows.next = last + 1;
        told
    }

    fn stats(&self, rule: &Rule, (packets, bytes, duration): Sum) -> FlowStats {
        let v10 = self.version == Version::V10;
        FlowStats {
            table: rule.said.table,
            duration,
            priority: rule.said.priority,
            idle_timeout: rule.said.idle_timeout,
            hard_timeout: rule.said.hard_timeout,
            // `ofp_flow_stats` of 1.0 has none.
            flags: if v10 { Default::default() } else { rule.said.flags },
            cookie: rule.said.cookie,
            packets: packets.saturating_add(rule.packets),
            bytes: bytes.saturating_add(rule.bytes),
            matching: rule.said.matching.clone(),
            instructions: rule.said.instructions.clone(),
        }
    }

    /// Goes on to tell groups or meters.
    pub(super) fn describe(
        &mut self,
        sent: &Sent,
        describing: Describing,
        work: &mut Work,
        out: &mut Vec<Out>,
    ) -> Option<Job> {
        let member = self.of(sent.slice).ok()?;
        let (mut bytes, mut left) = (0, None);
        // What fits into a part; what does not is left.
        let mut fits = |number: u32, size: u64| {
            work.spend(10);
            let first = bytes == 0;
            bytes += size;
            let fits = left.is_none() && (first || bytes <= PART as u64);
            left = left.or((!fits).then_some(number));
            fits
        };
        let reply = match describing {
            Describing::Groups(from) => {
                let all = member.groups.from(from);
                let part = all.take_while(|(number, kept)| fits(*number, kept.bytes));
                Reply::GroupDesc(part.map(|(group, kept)| desc(group, kept)).collect())
            }
            Describing::Meters(from) => {
                let all = member.meters.from(from);
                let part = all.take_while(|(number, kept)| fits(*number, kept.bytes));
                Reply::MeterConfig(part.map(|(meter, kept)| config(meter, kept)).collect())
            }
        };
        self.answer(sent, reply, left.is_some(), out);
        let next = |from| match describing {
            Describing::Groups(_) => Describing::Groups(from),
            Describing::Meters(_) => Describing::Meters(from),
        };
        left.map(|from| Job::Describe(next(from)))
    }

    /// Answers, or with a part of an answer of which more follow.
    fn answer(&self, sent: &Sent, reply: Reply, more: bool, out: &mut Vec<Out>) {
        // Nothing is longer than what the switch sent, or a message said.
        for mut part in segments(self.version, reply).unwrap_or_default() {
            part.flags |= if more { MORE } else { 0 };
            self.tell(sent.slice, sent.xid, Message::MultipartReply(part), out);
        }
    }

    pub(super) fn multipart_reply(&mut self, xid: u32, part: MultipartReply, out: &mut Vec<Out>) {
        let more = part.flags & MORE != 0;
        let Some((sent, asked)) = self.pending.asked(xid) else { return };
        let sent = sent.clone();
        match (&asked.what, part.body) {
            (What::Flows(_), Reply::Flow(entries)) => {
                self.count(xid, more, entries.iter().map(FlowCounts::from));
            }
            (What::Other, reply) => {
                let reply = self.seen_reply(sent.slice, reply);
                if !more {
                    // Only the last part ends the request: more parts come under the same number.
                    self.pending.take(xid);
                }
                if let Some(reply) = reply {
                    self.answer(&sent, reply, more, out);
                }
            }
            (What::Flows(_), _) => drop(self.pending.take(xid)),
        }
    }

    /// Adds up what the entries of a slice's rules have counted, and goes on when all of them are there.
    pub(super) fn count(&mut self, xid: u32, more: bool, counts: impl Iterator<Item = FlowCounts>) {
        let VirtualSwitches { pending, rules, .. } = self;
        let Some((sent, asked)) = pending.asked(xid) else { return };
        let What::Flows(flows) = &mut asked.what else {
            // It was asked for something else.
            drop(pending.take(xid));
            return;
        };
        for entry in counts {
            if flows.is_told(entry.cookie) {
                continue;
            }
            let Some((number, _, rule)) = rules.of_cookie(entry.cookie) else { continue };
            if rule.slice == sent.slice {
                add(flows.sums.entry(number).or_default(), &entry);
            }
        }
        if !more
            && let Some((sent, Kind::Answer(asked))) = pending.take(xid)
            && let What::Flows(flows) = asked.what
        {
            // Before the slice's later messages: it gets answers in the order of its requests.
            self.push_first(sent, Job::Flows(flows));
        }
    }

    /// The slice's part of an answer.
    fn seen_reply(&self, slice: SliceId, reply: Reply) -> Option<Reply> {
        let member = self.of(slice).ok()?;
        let numbered = |real: u32, all: &BTreeMap<u32, u32>| all.get(&real).copied();
        let groups = || member.groups.all().map(|(seen, kept)| (kept.real, seen)).collect();
        let meters = || member.meters.all().map(|(seen, kept)| (kept.real, seen)).collect();
        Some(match reply {
            Reply::Desc(mut desc) => {
                let name = self.slicing.slice(slice).map(|slice| slice.name.as_str());
                desc.datapath = Name::new(&format!("slice {}", name.unwrap_or_default()));
                Reply::Desc(desc)
            }
            Reply::Table(all) => Reply::Table(self.tables(slice, all)),
            Reply::PortStats(mut all) => {
                all.retain_mut(|one| {
                    member.seen(one.port).is_some_and(|seen| {
                        one.port = seen;
                        true
                    })
                });
                Reply::PortStats(all)
            }
            Reply::QueueStats(mut all) => {
                all.retain_mut(|one| {
                    member.seen(one.port).is_some_and(|seen| {
                        one.port = seen;
                        true
                    })
                });
                Reply::QueueStats(all)
            }
            Reply::GroupStats(all) => {
                let known = groups();
                let one = |stats: GroupStats| {
                    Some(GroupStats { group: numbered(stats.group, &known)?, ..stats })
                };
                Reply::GroupStats(all.into_iter().filter_map(one).collect())
            }
            Reply::MeterStats(all) => {
                let known = meters();
                let one = |stats: MeterStats| {
                    Some(MeterStats { meter: numbered(stats.meter, &known)?, ..stats })
                };
                Reply::MeterStats(all.into_iter().filter_map(one).collect())
            }
            Reply::TableFeatures(all) => {
                Reply::TableFeatures(all.into_iter().map(|one| self.table(slice, one)).collect())
            }
            same @ (Reply::GroupFeatures(_) | Reply::MeterFeatures(_)) => same,
            _ => return None,
        })
    }

    /// Look-ups in tables cannot be attributed to a slice: not counted.
    fn tables(&self, slice: SliceId, mut all: Vec<TableStats>) -> Vec<TableStats> {
        let quota = self.slicing.slice(slice).and_then(|slice| slice.quota.rules);
        for table in &mut all {
            table.active = self.rules.in_table(slice, table.table);
            table.max_entries = table.max_entries.min(quota.unwrap_or(u32::MAX));
            // All ones: the switch does not count this (section 5.8).
            (table.lookups, table.matched) = (u64::MAX, u64::MAX);
        }
        all
    }

    fn table(&self, slice: SliceId, mut table: TableFeatures) -> TableFeatures {
        let quota = self.slicing.slice(slice).and_then(|slice| slice.quota.rules);
        // What is not offered here is refused in rules: these bits tell slices apart.
        table.metadata_match &= !TAG;
        table.metadata_write &= !TAG;
        table.max_entries = table.max_entries.min(quota.unwrap_or(u32::MAX));
        table.properties.retain(|one| !matches!(one, TableProperty::Experimenter { .. }));
        table
    }

    pub(super) fn queues(&mut self, sent: &Sent, port: PortNumber, out: &mut Vec<Out>) -> Done {
        let real = match port {
            PortNumber::ANY => port,
            port => self.of(sent.slice)?.real(port).ok_or_else(|| {
                refuse(Reason::QueueOpFailedBadPort, "the port is not in the slice")
            })?,
        };
        let request = Message::QueueGetConfigRequest(real);
        self.order(sent, Kind::Queues(port), request, out);
        Ok(())
    }

    pub(super) fn queue_config(&mut self, xid: u32, config: QueueConfig, out: &mut Vec<Out>) {
        let Some((sent, Kind::Queues(asked))) = self.pending.take(xid) else { return };
        let Ok(member) = self.of(sent.slice) else { return };
        let mut queues = config.queues;
        queues.retain_mut(|queue| {
            member.seen(queue.port).is_some_and(|seen| {
                queue.port = seen;
                true
            })
        });
        let reply = Message::QueueGetConfigReply(QueueConfig { port: asked, queues });
        self.tell(sent.slice, sent.xid, reply, out);
    }
}

fn add(sum: &mut Sum, entry: &FlowCounts) {
    sum.0 = sum.0.saturating_add(entry.packets);
    sum.1 = sum.1.saturating_add(entry.bytes);
    let later = |one: Duration| (one.seconds, one.nanoseconds);
    // A rule is as old as its oldest entry: others may have been put back.
    if later(entry.duration) > later(sum.2) {
        sum.2 = entry.duration;
    }
}

fn add_up(total: &mut Aggregate, rule: &Rule, (packets, bytes, _): Sum) {
    total.packets = total.packets.saturating_add(packets).saturating_add(rule.packets);
    total.bytes = total.bytes.saturating_add(bytes).saturating_add(rule.bytes);
    total.flows += 1;
}

fn desc(group: u32, kept: &super::member::Kept<netloom_openflow::GroupMod>) -> GroupDesc {
    GroupDesc { kind: kept.said.kind, group, buckets: kept.said.buckets.clone() }
}

fn config(meter: u32, kept: &super::member::Kept<netloom_openflow::MeterMod>) -> MeterConfig {
    MeterConfig { flags: kept.said.flags, meter, bands: kept.said.bands.clone() }
}
