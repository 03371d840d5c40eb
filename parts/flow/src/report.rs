//! State of the switch, and its tables, for status.

use std::collections::BTreeMap;

use netloom_ofconn::Channel;
use netloom_openflow::port::PortState;
use netloom_openflow::role::Role;
use netloom_openflow::{Port, text};
use netloom_pipeline::{ConnectionId, Rule, Time};

use crate::Result;
use crate::control::requests::{
    ConnectionShown, ControllerShown, EntryShown, PortShown, Shown, TableShown, Tables,
};
use crate::ports::Known;
use crate::server::Server;
use crate::system::{self, clock};

fn count(of: usize) -> u64 {
    u64::try_from(of).unwrap_or(u64::MAX)
}

/// An entry in the syntax of ovs-ofctl.
pub(crate) fn flow_text(rule: &Rule) -> String {
    text::print_flow(&rule.change())
}

impl Server {
    /// State of the switch.
    pub(crate) fn shown(&mut self) -> Result<Shown> {
        self.engine.collect()?;
        let numbers: Vec<u32> = self.ports.known.keys().copied().collect();
        let ports = numbers.into_iter().filter_map(|number| self.port_shown(number)).collect();
        let switch = &self.engine.switch;
        let controllers = self.controllers.shown();
        let controllers = controllers.into_iter().map(|(shown, id)| ControllerShown {
            connection: id.and_then(|id| self.connection_shown(id)),
            ..shown
        });
        let others = self.channels.keys().filter(|id| !self.controllers.has(**id));
        let tables = (0..=254).map_while(|table| switch.table_counters(table));
        let (groups, meters) = switch.group_and_meter_counts();
        Ok(Shown {
            name: self.application.name.clone(),
            datapath: format!("{:#018x}", self.application.datapath),
            versions: switch.versions().iter().map(|version| (*version).into()).collect(),
            pid: std::process::id(),
            since: self.since,
            cpu_us: system::cpu_us(),
            takeovers: self.takeovers,
            fail: self.application.fail,
            standalone: switch.is_standalone(),
            plane: self.engine.plane.facts(),
            tables: self.application.tables,
            max_entries: self.application.max_entries,
            entries: tables.map(|(entries, ..)| count(entries)).sum(),
            groups: count(groups),
            meters: count(meters),
            ports,
            controllers: controllers.collect(),
            connections: others.filter_map(|id| self.connection_shown(*id)).collect(),
            counters: self.counters(),
            trouble: self.trouble.clone(),
        })
    }

    fn counters(&self) -> BTreeMap<String, u64> {
        let named = |name: &str, value: u64| (name.to_owned(), value);
        BTreeMap::from([
            named("connections-made", self.tally.connections),
            named("connections-dropped", self.tally.dropped),
            named("packet-ins-dropped", self.tally.packet_ins_dropped),
            named("orders-abandoned", self.engine.switch.abandoned()),
            named("malformed-frames", self.engine.malformed),
        ])
    }

    fn port_shown(&mut self, number: u32) -> Option<PortShown> {
        let Known { spec, .. } = self.ports.known.get(&number)?;
        let at = netloom_openflow::PortNumber(number);
        let mut shown = PortShown {
            number,
            name: spec.name.clone(),
            interface: spec.interface.clone(),
            ..PortShown::default()
        };
        let plane = self.engine.plane.counters(at);
        let port: Option<Port> = self.engine.switch.ports().find(|port| port.number == at).copied();
        if let Some(port) = port {
            shown.mac = port.address.map(|byte| format!("{byte:02x}")).join(":");
            shown.up = !port.state.has(PortState::LINK_DOWN);
            shown.config = port.config.names().map(str::to_owned).collect();
        }
        let stats = self.engine.switch.port_counters(at).map(|(stats, _)| stats);
        let of =
            |get: fn(&netloom_openflow::multipart::PortStats) -> u64| stats.as_ref().map_or(0, get);
        for (name, value) in [
            ("received-packets", of(|stats| stats.rx_packets)),
            ("received-bytes", of(|stats| stats.rx_bytes)),
            ("sent-packets", of(|stats| stats.tx_packets)),
            ("sent-bytes", of(|stats| stats.tx_bytes)),
            ("upcalls", plane.upcalls),
            ("upcalls-dropped", plane.upcalls_dropped),
            ("send-dropped", plane.send_dropped),
            ("malformed", plane.malformed),
        ] {
            shown.counters.insert(name.to_owned(), value);
        }
        Some(shown)
    }

    fn connection_shown(&self, id: u64) -> Option<ConnectionShown> {
        let channel: &Channel = self.channels.get(&id)?;
        let switch = &self.engine.switch;
        let role = match switch.role(ConnectionId(id)) {
            Some(Role::Master) => "master",
            Some(Role::Slave) => "slave",
            _ => "equal",
        };
        Some(ConnectionShown {
            peer: channel.peer.clone(),
            version: switch.version(ConnectionId(id)).map(Into::into),
            role: role.into(),
            since: channel.since,
            received: channel.received,
            sent: channel.sent,
            queued: count(channel.queued()),
            packet_ins_dropped: channel.packet_ins_dropped,
        })
    }

    /// Flow entries, groups and meters.
    pub(crate) fn tables(&mut self, only: Option<u8>) -> Result<Tables> {
        self.engine.collect()?;
        let now = clock();
        let switch = &self.engine.switch;
        let mut tables = BTreeMap::<u8, TableShown>::new();
        for number in (0..=254).filter(|number| only.is_none_or(|only| only == *number)) {
            let Some((entries, lookups, matched)) = switch.table_counters(number) else { break };
            if entries > 0 || lookups > 0 || only.is_some() {
                let table = TableShown { table: number, lookups, matched, entries: vec![] };
                tables.insert(number, table);
            }
        }
        let mut rules: Vec<&Rule> =
            switch.rules().filter(|rule| tables.contains_key(&rule.id.table)).collect();
        rules.sort_by_key(|rule| (std::cmp::Reverse(rule.priority), rule.id.number));
        for rule in rules {
            if let Some(table) = tables.get_mut(&rule.id.table) {
                table.entries.push(entry(rule, now));
            }
        }
        Ok(Tables {
            tables: tables.into_values().collect(),
            groups: switch.groups().map(|group| text::print_group(&group.change)).collect(),
            meters: switch.meters().map(|meter| text::print_meter(&meter.change)).collect(),
        })
    }
}

fn entry(rule: &Rule, now: Time) -> EntryShown {
    let since = |time: Time| now.saturating_sub(time) / 1_000_000;
    EntryShown {
        flow: flow_text(rule),
        packets: rule.packets,
        bytes: rule.bytes,
        age_ms: since(rule.created),
        idle_ms: since(rule.used),
    }
}
