//! Answers to requests for statistics and descriptions (section 7.3.5).

use netloom_openflow::action::{GROUP_ALL, GROUP_ANY};
use netloom_openflow::flow::{Duration, TABLE_ALL};
use netloom_openflow::group::GroupType;
use netloom_openflow::matching::Wildcards;
use netloom_openflow::meter::METER_ALL;
use netloom_openflow::multipart::{
    Aggregate, Desc, FlowRequest, FlowStats, GroupCapabilities, GroupDesc, GroupFeatures,
    GroupStats, MeterConfig, MeterFeatures, MeterStats, PortStats, QueueStats, TableStats,
};
use netloom_openflow::port::Name;
use netloom_openflow::queue::QUEUE_ALL;
use netloom_openflow::{Instruction, PortNumber, Reason, Reply, Request, Version};

use super::ports::described;
use super::task::{BYTES, Filter, Listed, TOLD, Task};
use super::{Switch, features};
use crate::convert;
use crate::group::Group;
use crate::key::Pattern;
use crate::meter::Meter;
use crate::rule::{Rule, Time};
use crate::uses::{self, Uses};
use crate::work::Work;

fn since(created: Time, now: Time) -> Duration {
    Duration::from_nanoseconds(now.saturating_sub(created))
}

/// Whether a version has a number for a port.
fn sayable(port: PortNumber, version: Version) -> bool {
    version == Version::V13 || port.to_10().is_some()
}

fn count(items: usize) -> u32 {
    u32::try_from(items).unwrap_or(u32::MAX)
}

impl Switch {
    pub(super) fn answer(
        &mut self,
        request: Request,
        version: Version,
        now: Time,
    ) -> Result<Reply, Reason> {
        Ok(match request {
            Request::Desc => Reply::Desc(Box::new(self.in_words())),
            // Requests about many entries are done some at a time.
            Request::Flow(_)
            | Request::Aggregate(_)
            | Request::GroupDesc
            | Request::GroupStats(GROUP_ALL | GROUP_ANY)
            | Request::MeterStats(METER_ALL)
            | Request::MeterConfig(METER_ALL) => return Err(Reason::BadRequestBadMultipart),
            Request::Table => Reply::Table(self.table_stats(version)),
            Request::PortStats(port) => Reply::PortStats(self.port_stats(port, version, now)?),
            Request::QueueStats { port, queue } => {
                Reply::QueueStats(self.queue_stats(port, queue, version, now)?)
            }
            Request::GroupStats(number) => {
                let group = self.groups.0.get(&number);
                let stats = group.map(|group| self.group_stats(number, group, now));
                Reply::GroupStats(stats.into_iter().collect())
            }
            Request::GroupFeatures => Reply::GroupFeatures(self.group_features()),
            Request::MeterStats(number) => {
                let meter = self.meters.get(&number).ok_or(Reason::MeterModFailedUnknownMeter)?;
                Reply::MeterStats(vec![self.meter_stats(number, meter, now)])
            }
            Request::MeterConfig(number) => {
                let meter = self.meters.get(&number).ok_or(Reason::MeterModFailedUnknownMeter)?;
                Reply::MeterConfig(vec![meter_config(number, meter)])
            }
            Request::MeterFeatures => Reply::MeterFeatures(MeterFeatures {
                max_meters: self.options.max_meters,
                // Drop is 1, DSCP remark is 2.
                band_types: 0b110,
                // Kilobits, packets, bursts and counts: all flags that a meter may have.
                capabilities: 0b1111,
                max_bands: super::group_mod::MOST_BANDS,
                max_color: 0,
            }),
            Request::TableFeatures(tables) => {
                if !tables.is_empty() {
                    self.set_features(tables)?;
                }
                Reply::TableFeatures(self.table_features())
            }
            Request::PortDesc => {
                Reply::PortDesc(self.ports.values().map(|p| described(&p.desc, version)).collect())
            }
            Request::Experimenter { .. } => return Err(Reason::BadRequestBadExperimenter),
        })
    }

    fn in_words(&self) -> Desc {
        let [manufacturer, hardware, software, serial, datapath] = &self.options.description;
        Desc {
            manufacturer: Name::new(manufacturer),
            hardware: Name::new(hardware),
            software: Name::new(software),
            serial: Name::new(serial),
            datapath: Name::new(datapath),
        }
    }

    /// What a request about many asks for, if it is one.
    pub(super) fn task(&self, request: &Request) -> Result<Option<Task>, Reason> {
        Ok(Some(match request {
            Request::Flow(request) => Task::Tell(Box::new(self.asked_filter(request)?)),
            Request::Aggregate(request) => {
                Task::Sum(Box::new(self.asked_filter(request)?), Aggregate::default())
            }
            Request::GroupDesc => Task::List(Listed::GroupDescs, 0),
            Request::GroupStats(GROUP_ALL | GROUP_ANY) => Task::List(Listed::GroupStats, 0),
            Request::MeterStats(METER_ALL) => Task::List(Listed::MeterStats, 0),
            Request::MeterConfig(METER_ALL) => Task::List(Listed::MeterConfigs, 0),
            _ => return Ok(None),
        }))
    }

    fn asked_filter(&self, request: &FlowRequest) -> Result<Filter, Reason> {
        // 0xfe is 1.0's table of emergencies, which is empty.
        let known = request.table < self.options.tables || request.table == 0xfe;
        if request.table != TABLE_ALL && !known {
            return Err(Reason::BadRequestBadTableId);
        }
        Ok(Filter {
            table: request.table,
            pattern: Pattern::new(&request.matching.to_oxm()),
            cookie: request.cookie,
            cookie_mask: request.cookie_mask,
            out_port: request.out_port,
            out_group: request.out_group,
        })
    }

    /// Groups or meters from a number on, as long as there is work; and the number of the next one.
    pub(super) fn list(
        &self,
        listed: Listed,
        from: u32,
        work: &mut Work,
        now: Time,
    ) -> (Reply, Option<u32>) {
        let (groups, meters) = (self.groups.0.range(from..), self.meters.range(from..));
        let of_group = |group: &Group| uses::of_buckets(&group.buckets);
        match listed {
            Listed::GroupStats => {
                let one = |number: u32, group: &Group| self.group_stats(number, group, now);
                let (told, left) = take(groups, of_group, one, work);
                (Reply::GroupStats(told), left)
            }
            Listed::GroupDescs => {
                let (told, left) = take(groups, of_group, group_desc, work);
                (Reply::GroupDesc(told), left)
            }
            Listed::MeterStats => {
                let one = |number: u32, meter: &Meter| self.meter_stats(number, meter, now);
                let (told, left) = take(meters, uses::of_meter, one, work);
                (Reply::MeterStats(told), left)
            }
            Listed::MeterConfigs => {
                let (told, left) = take(meters, uses::of_meter, meter_config, work);
                (Reply::MeterConfig(told), left)
            }
        }
    }

    fn table_stats(&self, version: Version) -> Vec<TableStats> {
        let v10 = version == Version::V10;
        // Later versions tell name, wildcards and size with the features of tables.
        let one = |(table, number): (&crate::table::Table, u8)| TableStats {
            table: number,
            name: if v10 { Name::new(&features::name(number)) } else { Name::default() },
            wildcards: if v10 { Wildcards::ALL.0 } else { 0 },
            max_entries: if v10 { self.max_entries(number) } else { 0 },
            active: count(table.len()),
            lookups: table.lookups,
            matched: table.matched,
        };
        self.tables.iter().zip(0..).map(one).collect()
    }

    fn port_stats(
        &self,
        port: PortNumber,
        version: Version,
        now: Time,
    ) -> Result<Vec<PortStats>, Reason> {
        let all = port == PortNumber::ANY;
        if !all && !self.ports.contains_key(&port) {
            return Err(Reason::BadRequestBadPort);
        }
        // 1.0 has no field for the time.
        let one = |state: &super::PortState| {
            let duration = match version {
                Version::V10 => Duration::default(),
                Version::V13 => since(state.created, now),
            };
            PortStats { duration, ..state.stats }
        };
        let chosen = self.ports.iter().filter(|(number, _)| all || **number == port);
        let chosen = chosen.filter(|(number, _)| sayable(**number, version));
        Ok(chosen.map(|(_, state)| one(state)).collect())
    }

    fn queue_stats(
        &self,
        port: PortNumber,
        queue: u32,
        version: Version,
        now: Time,
    ) -> Result<Vec<QueueStats>, Reason> {
        let all_ports = matches!(port, PortNumber::ALL | PortNumber::ANY);
        if !all_ports && !self.ports.contains_key(&port) {
            return Err(Reason::QueueOpFailedBadPort);
        }
        let mut all = vec![];
        for (number, state) in &self.ports {
            if !all_ports && *number != port || !sayable(*number, version) {
                continue;
            }
            for (id, [bytes, packets, errors]) in &state.queues {
                if queue == QUEUE_ALL || queue == *id {
                    let duration = match version {
                        Version::V10 => Duration::default(),
                        Version::V13 => since(state.created, now),
                    };
                    all.push(QueueStats {
                        port: *number,
                        queue: *id,
                        tx_bytes: *bytes,
                        tx_packets: *packets,
                        tx_errors: *errors,
                        duration,
                    });
                }
            }
        }
        // Where all are asked for, a port may have none.
        if all.is_empty() && queue != QUEUE_ALL {
            return Err(Reason::QueueOpFailedBadQueue);
        }
        Ok(all)
    }

    fn group_stats(&self, number: u32, group: &Group, now: Time) -> GroupStats {
        let Uses { groups, chained, .. } = &self.uses;
        GroupStats {
            group: number,
            // By entries, and by other groups.
            references: groups.of(number).saturating_add(chained.of(number)),
            packets: group.packets,
            bytes: group.bytes,
            duration: since(group.created, now),
            buckets: group.counters.clone(),
        }
    }

    fn group_features(&self) -> GroupFeatures {
        let actions = features::actions_13().iter().fold(0, |bits, (number, _)| bits | 1 << number);
        GroupFeatures {
            types: GroupType::KNOWN.iter().fold(0, |bits, kind| bits | 1 << u8::from(*kind)),
            capabilities: GroupCapabilities::SELECT_WEIGHT
                | GroupCapabilities::SELECT_LIVENESS
                | GroupCapabilities::CHAINING
                | GroupCapabilities::CHAINING_CHECKS,
            max_groups: [self.options.max_groups; 4],
            actions: [actions; 4],
        }
    }

    fn meter_stats(&self, number: u32, meter: &Meter, now: Time) -> MeterStats {
        MeterStats {
            meter: number,
            flows: self.uses.meters.of(number),
            packets: meter.packets,
            bytes: meter.bytes,
            duration: since(meter.created, now),
            bands: meter.applied.clone(),
        }
    }
}

/// Groups or meters from one on, as long as there is work, as `one` tells them; and the number of the next.
fn take<'a, O: 'a, T>(
    mut all: impl Iterator<Item = (&'a u32, &'a O)>,
    bytes: impl Fn(&O) -> usize,
    one: impl Fn(u32, &O) -> T,
    work: &mut Work,
) -> (Vec<T>, Option<u32>) {
    let mut told = vec![];
    for (number, object) in &mut all {
        if !work.is_left() {
            return (told, Some(*number));
        }
        work.spend(TOLD + bytes(object) / BYTES);
        told.push(one(*number, object));
    }
    (told, None)
}

fn group_desc(number: u32, group: &Group) -> GroupDesc {
    GroupDesc { kind: group.kind, group: number, buckets: group.buckets.clone() }
}

fn meter_config(number: u32, meter: &Meter) -> MeterConfig {
    MeterConfig { flags: meter.flags, meter: number, bands: meter.bands.clone() }
}

pub(super) fn flow_stats(rule: &Rule, version: Version, now: Time) -> FlowStats {
    let instructions: Vec<Instruction> = convert::instructions(rule, version);
    FlowStats {
        table: rule.id.table,
        duration: since(rule.created, now),
        priority: rule.priority,
        idle_timeout: rule.idle_timeout,
        hard_timeout: rule.hard_timeout,
        // 1.0 does not tell them.
        flags: if version == Version::V10 { Default::default() } else { rule.flags },
        cookie: rule.cookie,
        packets: rule.packets,
        bytes: rule.bytes,
        matching: convert::matching(rule, version),
        instructions,
    }
}
