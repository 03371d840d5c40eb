//! Statistics and descriptions: asked of the real switch, and what is the slice's of the answer, in its numbers.

use std::collections::BTreeMap;

use netloom_openflow::action::{GROUP_ALL, GROUP_ANY};
use netloom_openflow::flow::Duration;
use netloom_openflow::meter::METER_ALL;
use netloom_openflow::multipart::{
    Aggregate, FlowRequest, FlowStats, Gather, GroupDesc, GroupStats, MeterConfig, MeterStats,
    TableFeatures, TableProperty, TableStats, segments,
};
use netloom_openflow::port::Name;
use netloom_openflow::queue::QueueConfig;
use netloom_openflow::{
    Match, Message, MultipartReply, MultipartRequest, PortNumber, Reason, Reply, Request, Version,
    matching::Match10,
};
use netloom_pipeline::Pattern;

use super::pending::{Asked, Kind, What};
use super::rewrite::{TAG, tag};
use super::rules::Filter;
use super::{Done, Out, Refusal, Sent, VirtualSwitches};
use crate::SliceId;

/// Bytes of an answer at most, counting each part as the longest.
const MOST: usize = 64 << 20;

fn refuse(reason: Reason, words: &str) -> Refusal {
    Refusal::new(reason, words)
}

impl VirtualSwitches {
    pub(super) fn multipart_request(
        &mut self,
        sent: &Sent,
        request: MultipartRequest,
        out: &mut Vec<Out>,
    ) -> Done {
        if let Some(reply) = self.known(sent.slice, &request.body) {
            self.answer(sent.slice, sent.xid, reply, out);
            return Ok(());
        }
        let what = match &request.body {
            Request::Flow(asked) => What::Flow(asked.clone()),
            Request::Aggregate(asked) => What::Aggregate(asked.clone()),
            _ => What::Other,
        };
        let body = self.real_request(sent.slice, request.body)?;
        let asked = Box::new(Asked { what, parts: Gather::default() });
        let request = MultipartRequest { flags: 0, body };
        self.order(sent, Kind::Answer(asked), Message::MultipartRequest(request), out);
        Ok(())
    }

    /// What is answered without the switch.
    fn known(&self, slice: SliceId, asked: &Request) -> Option<Reply> {
        let member = self.of(slice).ok()?;
        Some(match asked {
            Request::PortDesc => Reply::PortDesc(self.seen_ports(slice)),
            Request::GroupDesc => {
                let all = member.groups.iter().map(|(group, (_, said))| GroupDesc {
                    kind: said.kind,
                    group: *group,
                    buckets: said.buckets.clone(),
                });
                Reply::GroupDesc(all.collect())
            }
            Request::MeterConfig(asked) => {
                let all = member.meters.iter().filter(|(m, _)| *asked == METER_ALL || asked == *m);
                let all = all.map(|(meter, (_, said))| MeterConfig {
                    flags: said.flags,
                    meter: *meter,
                    bands: said.bands.clone(),
                });
                Reply::MeterConfig(all.collect())
            }
            // Statistics of a group that does not exist are none (section 7.3.5.9).
            Request::GroupStats(group)
                if *group != GROUP_ALL && !member.groups.contains_key(group) =>
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
            Request::Flow(asked) | Request::Aggregate(asked) => {
                Request::Flow(self.all_of(slice, &asked))
            }
            Request::PortStats(port) if every(port) => Request::PortStats(PortNumber::ANY),
            Request::PortStats(port) => Request::PortStats(real_port(port)?),
            Request::QueueStats { port, queue } if !every(port) => {
                Request::QueueStats { port: real_port(port)?, queue }
            }
            Request::GroupStats(group) => {
                let real = member.groups.get(&group).map(|(real, _)| *real);
                Request::GroupStats(real.unwrap_or(GROUP_ALL))
            }
            Request::MeterStats(METER_ALL) => Request::MeterStats(METER_ALL),
            Request::MeterStats(meter) => match member.meters.get(&meter) {
                Some((real, _)) => Request::MeterStats(*real),
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

    /// Asks for all entries of a slice in the tables that a request is about.
    fn all_of(&self, slice: SliceId, asked: &FlowRequest) -> FlowRequest {
        match self.version {
            Version::V10 => FlowRequest {
                table: asked.table,
                ..FlowRequest::new(Match::V10(Match10::default()))
            },
            Version::V13 => FlowRequest {
                table: asked.table,
                cookie: tag(slice),
                cookie_mask: TAG,
                ..FlowRequest::new(Match::default())
            },
        }
    }

    fn answer(&self, slice: SliceId, xid: u32, reply: Reply, out: &mut Vec<Out>) {
        // Nothing is longer than what the switch sent.
        for part in segments(self.version, reply).unwrap_or_default() {
            self.tell(slice, xid, Message::MultipartReply(part), out);
        }
    }

    pub(super) fn multipart_reply(&mut self, xid: u32, part: MultipartReply, out: &mut Vec<Out>) {
        let Some((sent, kind)) = self.pending.take(xid) else { return };
        let Kind::Answer(mut asked) = kind else {
            self.pending.put(xid, sent, kind);
            return;
        };
        match asked.parts.reply(part, usize::from(u16::MAX), MOST) {
            Ok(None) => self.pending.put(xid, sent, Kind::Answer(asked)),
            Ok(Some(reply)) => {
                if let Some(reply) = self.seen_reply(sent.slice, &asked.what, reply) {
                    self.answer(sent.slice, sent.xid, reply, out);
                }
            }
            Err(error) => {
                let words = error.to_string();
                let refusal = Refusal::new(Reason::BadRequestMultipartBufferOverflow, words);
                self.refuse(&sent, refusal, out);
            }
        }
    }

    /// What is the slice's of an answer.
    fn seen_reply(&self, slice: SliceId, what: &What, reply: Reply) -> Option<Reply> {
        let member = self.of(slice).ok()?;
        let numbered = |real: u32, all: &BTreeMap<u32, u32>| all.get(&real).copied();
        let groups = || member.groups.iter().map(|(seen, (real, _))| (*real, *seen)).collect();
        let meters = || member.meters.iter().map(|(seen, (real, _))| (*real, *seen)).collect();
        Some(match reply {
            Reply::Desc(mut desc) => {
                let name = self.slicing.slice(slice).map(|slice| slice.name.as_str());
                desc.datapath = Name::new(&format!("slice {}", name.unwrap_or_default()));
                Reply::Desc(desc)
            }
            Reply::Flow(all) => match what {
                What::Flow(asked) => Reply::Flow(self.flows(slice, asked, all)),
                What::Aggregate(asked) => Reply::Aggregate(sums(&self.flows(slice, asked, all))),
                What::Other => return None,
            },
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

    /// Rules that a request is about, each once, with the sums over its entries.
    fn flows(&self, slice: SliceId, asked: &FlowRequest, all: Vec<FlowStats>) -> Vec<FlowStats> {
        let v10 = self.version == Version::V10;
        let filter = Filter {
            slice,
            table: asked.table,
            pattern: Pattern::new(&asked.matching.to_oxm()),
            strict: None,
            cookie: asked.cookie,
            cookie_mask: if v10 { 0 } else { asked.cookie_mask },
            out_port: asked.out_port,
            out_group: if v10 { GROUP_ANY } else { asked.out_group },
        };
        let mut sums: BTreeMap<u64, (u64, u64, Duration)> = BTreeMap::new();
        for entry in all {
            let Some((number, _, _)) = self.rules.of_cookie(entry.cookie) else { continue };
            let sum = sums.entry(number).or_default();
            sum.0 = sum.0.saturating_add(entry.packets);
            sum.1 = sum.1.saturating_add(entry.bytes);
            let later = |one: Duration| (one.seconds, one.nanoseconds);
            if later(entry.duration) > later(sum.2) {
                sum.2 = entry.duration;
            }
        }
        let mut flows = vec![];
        for number in self.rules.chosen(&filter) {
            let Some(rule) = self.rules.get(number) else { continue };
            let (packets, bytes, duration) = sums.get(&number).copied().unwrap_or_default();
            flows.push(FlowStats {
                table: rule.said.table,
                duration,
                priority: rule.said.priority,
                idle_timeout: rule.said.idle_timeout,
                hard_timeout: rule.said.hard_timeout,
                flags: if v10 { Default::default() } else { rule.said.flags },
                cookie: rule.said.cookie,
                packets: packets.saturating_add(rule.packets),
                bytes: bytes.saturating_add(rule.bytes),
                matching: rule.said.matching.clone(),
                instructions: rule.said.instructions.clone(),
            });
        }
        flows
    }

    /// What is looked up in tables is not told apart by slice: not counted.
    fn tables(&self, slice: SliceId, mut all: Vec<TableStats>) -> Vec<TableStats> {
        let quota = self.slicing.slice(slice).and_then(|slice| slice.quota.rules);
        for table in &mut all {
            let own = self.rules.of(slice).filter(|(_, rule)| rule.said.table == table.table);
            table.active = u32::try_from(own.count()).unwrap_or(u32::MAX);
            table.max_entries = table.max_entries.min(quota.unwrap_or(u32::MAX));
            (table.lookups, table.matched) = (u64::MAX, u64::MAX);
        }
        all
    }

    fn table(&self, slice: SliceId, mut table: TableFeatures) -> TableFeatures {
        let quota = self.slicing.slice(slice).and_then(|slice| slice.quota.rules);
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

fn sums(flows: &[FlowStats]) -> Aggregate {
    let mut all = Aggregate::default();
    for flow in flows {
        all.packets = all.packets.saturating_add(flow.packets);
        all.bytes = all.bytes.saturating_add(flow.bytes);
        all.flows += 1;
    }
    all
}
