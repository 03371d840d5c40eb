//! Ports: news of them, changes by controllers, counters (sections 4 and 7.2.1).

use std::collections::BTreeMap;

use netloom_openflow::multipart::PortStats;
use netloom_openflow::port::{PortConfig, PortReason, PortState as StateFlags};
use netloom_openflow::{Port, PortMod, PortNumber, PortStatus, Reason, Version};

use super::{Outputs, Switch};
use crate::rule::Time;

/// Counters of a queue: bytes, packets, errors.
pub(super) type QueueCounters = [u64; 3];

/// A port and its counters.
#[derive(Clone, Debug)]
pub(super) struct PortState {
    pub(super) desc: Port,
    pub(super) stats: PortStats,
    pub(super) created: Time,
    pub(super) queues: BTreeMap<u32, QueueCounters>,
}

impl PortState {
    pub(super) fn is(&self, flag: PortConfig) -> bool {
        self.desc.config.has(flag)
    }

    /// Whether frames can go through it.
    pub(super) fn is_up(&self) -> bool {
        !self.is(PortConfig::PORT_DOWN) && !self.desc.state.has(StateFlags::LINK_DOWN)
    }

    /// Puts back what was saved.
    pub(super) fn restore(&mut self, config: PortConfig, stats: PortStats, created: Time) {
        self.desc.config = config;
        (self.stats, self.created) = (PortStats { port: self.desc.number, ..stats }, created);
        self.update_live();
    }

    /// Whether it counts as live for groups.
    fn update_live(&mut self) {
        let live = if self.is_up() { StateFlags::LIVE } else { StateFlags::default() };
        self.desc.state = self.desc.state.without(StateFlags::LIVE).with(live);
    }
}

/// As a version describes a port: 1.0 has no live state.
pub(super) fn described(port: &Port, version: Version) -> Port {
    match version {
        Version::V13 => *port,
        Version::V10 => {
            let state = port.state.without(StateFlags::LIVE | StateFlags::BLOCKED);
            Port { state, current_speed: 0, max_speed: 0, ..*port }
        }
    }
}

/// Bits of the configuration that controllers of a version may change.
fn changeable(version: Version) -> PortConfig {
    let both =
        PortConfig::PORT_DOWN | PortConfig::NO_RECV | PortConfig::NO_FWD | PortConfig::NO_PACKET_IN;
    match version {
        Version::V13 => both,
        Version::V10 => both | PortConfig::NO_FLOOD | PortConfig::NO_STP | PortConfig::NO_RECV_STP,
    }
}

impl Switch {
    /// A port came, or its description changed; `queues` are those it has. What controllers configured stays.
    pub fn set_port(&mut self, port: Port, queues: &[u32], now: Time, out: &mut Outputs) {
        let old = self.ports.remove(&port.number);
        let reason = if old.is_some() { PortReason::Modify } else { PortReason::Add };
        let mut state = old.unwrap_or_else(|| PortState {
            desc: port,
            stats: PortStats::new(port.number),
            created: now,
            queues: BTreeMap::new(),
        });
        let before = state.desc;
        let config = if reason == PortReason::Add { port.config } else { before.config };
        state.desc = Port { config, ..port };
        state.update_live();
        let counters = std::mem::take(&mut state.queues);
        let kept = |queue: &u32| (*queue, counters.get(queue).copied().unwrap_or_default());
        state.queues = queues.iter().map(kept).collect();
        let desc = state.desc;
        self.ports.insert(port.number, state);
        if reason == PortReason::Add || before != desc {
            // Stations behind it may come back behind another port: without this, frames to them would be
            // lost here until they send.
            if desc.state.has(StateFlags::LINK_DOWN) {
                self.learning.forget(port.number);
            }
            self.changed();
            self.tell_port(PortStatus { reason, port: desc }, out);
        }
    }

    /// A port went.
    pub fn remove_port(&mut self, number: PortNumber, out: &mut Outputs) {
        if let Some(port) = self.ports.remove(&number) {
            self.learning.forget(number);
            self.changed();
            self.tell_port(PortStatus { reason: PortReason::Delete, port: port.desc }, out);
        }
    }

    /// Replaces the counters of a port that it does not count itself: drops and errors.
    pub fn set_port_errors(&mut self, stats: &PortStats) {
        if let Some(port) = self.ports.get_mut(&stats.port) {
            let own = port.stats;
            port.stats = PortStats {
                rx_packets: own.rx_packets,
                tx_packets: own.tx_packets,
                rx_bytes: own.rx_bytes,
                tx_bytes: own.tx_bytes,
                ..*stats
            };
        }
    }

    /// A controller changes a port.
    pub(super) fn port_mod(
        &mut self,
        change: &PortMod,
        version: Version,
        out: &mut Outputs,
    ) -> Result<(), Reason> {
        let port = self.ports.get_mut(&change.port).ok_or(Reason::PortModFailedBadPort)?;
        // The address guards against a number that another port has by now (section 7.3.4.3).
        if port.desc.address != change.address {
            return Err(Reason::PortModFailedBadHwAddr);
        }
        if !changeable(version).has(change.mask) {
            return Err(Reason::PortModFailedBadConfig);
        }
        let bits = port.desc.config.0 & !change.mask.0 | change.config.0 & change.mask.0;
        if bits == port.desc.config.0 {
            return Ok(());
        }
        port.desc.config = PortConfig(bits);
        port.update_live();
        let desc = port.desc;
        if !port.is_up() {
            self.learning.forget(change.port);
        }
        self.changed();
        out.ports.push((change.port, desc.config));
        self.note(super::Change::Port(change.port));
        self.tell_port(PortStatus { reason: PortReason::Modify, port: desc }, out);
        Ok(())
    }

    /// Whether a port is live for groups.
    pub(super) fn is_live(ports: &BTreeMap<PortNumber, PortState>, number: PortNumber) -> bool {
        ports.get(&number).is_some_and(PortState::is_up)
    }

    /// Counts frames sent by a port.
    pub(super) fn count_sent(
        &mut self,
        number: PortNumber,
        queue: Option<u32>,
        packets: u64,
        bytes: u64,
    ) {
        let Some(port) = self.ports.get_mut(&number) else { return };
        port.stats.tx_packets += packets;
        port.stats.tx_bytes += bytes;
        if let Some(counters) = queue.and_then(|queue| port.queues.get_mut(&queue)) {
            counters[0] += bytes;
            counters[1] += packets;
        }
    }
}
