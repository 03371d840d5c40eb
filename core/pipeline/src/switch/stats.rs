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

use super::flow_mod::Filter;
use super::ports::described;
use super::{Switch, features};
use crate::convert;
use crate::group::Group;
use crate::key::Pattern;
use crate::meter::Meter;
use crate::rule::{Rule, Time};

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
            Request::Flow(request) => {
                let stats = |rule: &Rule| flow_stats(rule, version, now);
                Reply::Flow(self.filtered(&request)?.map(stats).collect())
            }
            Request::Aggregate(request) => Reply::Aggregate(self.sums(&request)?),
            Request::Table => Reply::Table(self.table_stats(version)),
            Request::PortStats(port) => Reply::PortStats(self.port_stats(port, version, now)?),
            Request::QueueStats { port, queue } => {
                Reply::QueueStats(self.queue_stats(port, queue, version, now)?)
            }
            Request::GroupStats(group) => Reply::GroupStats(self.group_stats(group, now)),
            Request::GroupDesc => Reply::GroupDesc(self.group_descs()),
            Request::GroupFeatures => Reply::GroupFeatures(self.group_features()),
            Request::MeterStats(meter) => {
                let stats = |(number, meter): (&u32, &Meter)| self.meter_stats(*number, meter, now);
                Reply::MeterStats(self.chosen_meters(meter)?.map(stats).collect())
            }
            Request::MeterConfig(meter) => {
                let config = |(number, meter): (&u32, &Meter)| MeterConfig {
                    flags: meter.flags,
                    meter: *number,
                    bands: meter.bands.clone(),
                };
                Reply::MeterConfig(self.chosen_meters(meter)?.map(config).collect())
            }
            Request::MeterFeatures => Reply::MeterFeatures(MeterFeatures {
                max_meters: self.options.max_meters,
                // Drop is 1, DSCP remark is 2.
                band_types: 0b110,
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

    /// The entries that a request is about.
    fn filtered(&self, request: &FlowRequest) -> Result<impl Iterator<Item = &Rule>, Reason> {
        if request.table != TABLE_ALL && request.table >= self.options.tables {
            // 1.0's table of emergencies, which is empty.
            if request.table != 0xfe {
                return Err(Reason::BadRequestBadTableId);
            }
        }
        let filter = Filter {
            table: request.table,
            pattern: Pattern::new(&request.matching.to_oxm()),
            cookie: request.cookie,
            cookie_mask: request.cookie_mask,
            out_port: request.out_port,
            out_group: request.out_group,
        };
        Ok(self.rules().filter(move |rule| filter.accepts(rule)))
    }

    fn sums(&self, request: &FlowRequest) -> Result<Aggregate, Reason> {
        let mut sums = Aggregate::default();
        for rule in self.filtered(request)? {
            sums.packets += rule.packets;
            sums.bytes += rule.bytes;
            sums.flows += 1;
        }
        Ok(sums)
    }

    fn table_stats(&self, version: Version) -> Vec<TableStats> {
        let v10 = version == Version::V10;
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
        if all.is_empty() && queue != QUEUE_ALL {
            return Err(Reason::QueueOpFailedBadQueue);
        }
        Ok(all)
    }

    fn group_stats(&self, number: u32, now: Time) -> Vec<GroupStats> {
        let all = matches!(number, GROUP_ALL | GROUP_ANY);
        let one = |(id, group): (&u32, &Group)| GroupStats {
            group: *id,
            references: count(
                self.rules().filter(|rule| rule.uses_group(*id)).count()
                    + self.groups.references(*id),
            ),
            packets: group.packets,
            bytes: group.bytes,
            duration: since(group.created, now),
            buckets: group.counters.clone(),
        };
        self.groups.0.iter().filter(|(id, _)| all || **id == number).map(one).collect()
    }

    fn group_descs(&self) -> Vec<GroupDesc> {
        let one = |(id, group): (&u32, &Group)| GroupDesc {
            kind: group.kind,
            group: *id,
            buckets: group.buckets.clone(),
        };
        self.groups.0.iter().map(one).collect()
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

    fn chosen_meters(&self, number: u32) -> Result<impl Iterator<Item = (&u32, &Meter)>, Reason> {
        let all = number == METER_ALL;
        if !all && !self.meters.contains_key(&number) {
            return Err(Reason::MeterModFailedUnknownMeter);
        }
        Ok(self.meters.iter().filter(move |(id, _)| all || **id == number))
    }

    fn meter_stats(&self, number: u32, meter: &Meter, now: Time) -> MeterStats {
        MeterStats {
            meter: number,
            flows: count(self.rules().filter(|rule| rule.uses_meter(number)).count()),
            packets: meter.packets,
            bytes: meter.bytes,
            duration: since(meter.created, now),
            bands: meter.applied.clone(),
        }
    }
}

fn flow_stats(rule: &Rule, version: Version, now: Time) -> FlowStats {
    let instructions: Vec<Instruction> = convert::instructions(rule, version);
    FlowStats {
        table: rule.id.table,
        duration: since(rule.created, now),
        priority: rule.priority,
        idle_timeout: rule.idle_timeout,
        hard_timeout: rule.hard_timeout,
        flags: if version == Version::V10 { Default::default() } else { rule.flags },
        cookie: rule.cookie,
        packets: rule.packets,
        bytes: rule.bytes,
        matching: convert::matching(rule, version),
        instructions,
    }
}
