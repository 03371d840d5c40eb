//! Messages that the switch sends by itself: packets, removed entries, ports; roles and interests decide the receivers
//! (sections 6.1.2, 6.1.3 and 7.3.10).

use netloom_openflow::async_config::AsyncConfig;
use netloom_openflow::flow::{Duration, FlowFlags, NO_BUFFER, RemovedReason};
use netloom_openflow::meter::METER_CONTROLLER;
use netloom_openflow::packet::PacketInReason;
use netloom_openflow::{
    Field, FlowRemoved, Message, Oxm, PacketIn, PortNumber, PortStatus, Version, action,
};

use super::{ConnectionId, Outputs, Switch};
use crate::convert;
use crate::meter::Verdict;
use crate::packet::Packet;
use crate::rule::{Rule, Time};

/// Bytes of a packet that fit into a message beside everything else.
const MOST_DATA: usize = 65_000;

/// Why and how a packet goes to controllers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Notice {
    pub(super) reason: PacketInReason,
    pub(super) table: u8,
    pub(super) cookie: u64,
    /// How many bytes; `None`: as each controller set for packets without a match.
    pub(super) max_len: Option<u16>,
    /// Only to controllers of 1.0.
    pub(super) only_10: bool,
}

impl Switch {
    /// Connections that want a message with this reason, with their versions.
    fn interested(
        &self,
        mask: impl Fn(&AsyncConfig) -> [u32; 2],
        reason: u32,
    ) -> Vec<(ConnectionId, Version)> {
        let wants = |(id, connection): (&ConnectionId, &super::Connection)| {
            let version = connection.version.filter(|_| connection.is_main() && connection.told)?;
            let bits = *mask(&connection.interests).get(connection.side())?;
            let bit = 1u32.checked_shl(reason).unwrap_or(0);
            (bits & bit != 0).then_some((*id, version))
        };
        self.connections.iter().filter_map(wants).collect()
    }

    pub(super) fn tell_port(&self, status: PortStatus, out: &mut Outputs) {
        let reason = u32::from(u8::from(status.reason));
        for (id, version) in self.interested(|config| config.port_status, reason) {
            let port = super::ports::described(&status.port, version);
            let message = Message::PortStatus(PortStatus { port, ..status });
            // A port beyond 1.0's numbers is not told to it.
            if version == Version::V13 || port.number.to_10().is_some() {
                out.send(id, version, 0, &message);
            }
        }
    }

    pub(super) fn tell_removed(
        &self,
        rule: &Rule,
        reason: RemovedReason,
        now: Time,
        out: &mut Outputs,
    ) {
        if !rule.flags.has(FlowFlags::SEND_FLOW_REM) {
            return;
        }
        for (id, version) in
            self.interested(|config| config.flow_removed, u32::from(u8::from(reason)))
        {
            let reason = match (version, reason) {
                // 1.0 has no groups.
                (Version::V10, RemovedReason::GroupDelete) => RemovedReason::Delete,
                _ => reason,
            };
            let removed = FlowRemoved {
                cookie: rule.cookie,
                priority: rule.priority,
                reason,
                table: rule.id.table,
                duration: Duration::from_nanoseconds(now.saturating_sub(rule.created)),
                idle_timeout: rule.idle_timeout,
                hard_timeout: rule.hard_timeout,
                packets: rule.packets,
                bytes: rule.bytes,
                matching: convert::matching(rule, version),
            };
            out.send(id, version, 0, &Message::FlowRemoved(removed));
        }
    }

    /// Sends a packet to controllers; returns whether one wants it.
    pub(super) fn packet_in(
        &mut self,
        packet: &Packet,
        notice: Notice,
        now: Time,
        out: &mut Outputs,
    ) -> bool {
        let reason = u32::from(u8::from(notice.reason));
        let mut to = self.interested(|config| config.packet_in, reason);
        // A port beyond 1.0's numbers cannot be told to it.
        let sayable = packet.in_port().to_10().is_some();
        to.retain(|(_, version)| match version {
            Version::V10 => sayable,
            Version::V13 => !notice.only_10,
        });
        if to.is_empty() {
            return false;
        }
        // Before the meter and the buffer: packets that nobody can take must use up neither.
        to.retain(|(id, _)| !self.is_left_out(*id, out));
        if to.is_empty() {
            return true;
        }
        if !self.passes_controller_meter(packet, now) {
            return false;
        }
        let whole = packet.bytes();
        let mut buffer = None;
        for (id, version) in to {
            let miss = self.connections.get(&id).map_or(0, |connection| connection.miss_send_len);
            let max_len = notice.max_len.unwrap_or(miss);
            if buffer.is_none() && max_len != action::NO_BUFFER {
                // One buffer for all receivers: the first that answers decides, and no copy waits for the
                // others.
                buffer = self.buffers.keep(packet.in_port(), whole, now);
            }
            let kept = buffer.filter(|_| max_len != action::NO_BUFFER);
            let data = match kept {
                Some(_) => whole.get(..usize::from(max_len)).unwrap_or(whole),
                None => whole.get(..MOST_DATA).unwrap_or(whole),
            };
            let message = Message::PacketIn(PacketIn {
                buffer: kept.unwrap_or(NO_BUFFER),
                total_len: u16::try_from(whole.len()).unwrap_or(u16::MAX),
                reason: reason_for(version, notice.reason),
                table: notice.table,
                cookie: notice.cookie,
                fields: fields(packet),
                data: data.to_vec(),
            });
            out.send(id, version, 0, &message);
        }
        true
    }

    /// Whether a connection gets no packets now; counts one that it does not get.
    fn is_left_out(&self, id: ConnectionId, out: &mut Outputs) -> bool {
        let full = self.connections.get(&id).is_some_and(|connection| connection.full);
        if full {
            *out.left_out.entry(id).or_default() += 1;
        }
        full
    }

    /// The meter of the connection to controllers, if there is one (section 7.3.4.4).
    fn passes_controller_meter(&mut self, packet: &Packet, now: Time) -> bool {
        let bytes = u64::try_from(packet.bytes().len()).unwrap_or(0);
        let meter = self.meters.get_mut(&METER_CONTROLLER);
        meter.is_none_or(|meter| meter.pass(bytes, now) != Verdict::Drop)
    }
}

/// 1.0 has no reason for TTLs.
fn reason_for(version: Version, reason: PacketInReason) -> PacketInReason {
    match (version, reason) {
        (Version::V10, PacketInReason::InvalidTtl) => PacketInReason::Action,
        _ => reason,
    }
}

/// Where the packet was; fields that are zero are left out, and the physical port if it is the same (section 7.4.1).
fn fields(packet: &Packet) -> Vec<Oxm> {
    let PortNumber(in_port) = packet.in_port();
    let mut fields = vec![Oxm::exact(Field::InPort, u128::from(in_port))];
    for field in [Field::Metadata, Field::TunnelId] {
        let value = packet.key().get(field);
        if value != 0 {
            fields.push(Oxm::exact(field, value));
        }
    }
    fields
}
