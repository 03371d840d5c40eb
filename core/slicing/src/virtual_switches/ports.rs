//! Ports: what comes and goes, and what controllers set of them.

use netloom_openflow::flow::{FlowCommand, FlowMod};
use netloom_openflow::group::{GroupCommand, GroupType};
use netloom_openflow::meter::{METER_ALL, MeterCommand, MeterFlags};
use netloom_openflow::port::{PortConfig, PortMod, PortReason, PortStatus};
use netloom_openflow::switch::{Fragments, SwitchConfig};
use netloom_openflow::{
    Action, Field, GroupMod, Instruction, Match, Message, MeterMod, Port, PortNumber, Reason,
    Version, action, flow,
};

use super::pending::Kind;
use super::{Done, Out, Refusal, Sent, VirtualSwitches, rewrite};
use crate::cube::Cube;
use crate::mark;
use crate::memory::Note;
use crate::{SliceId, Time};

/// What a slice has for itself on a port that others may share.
const OWN: PortConfig = PortConfig(PortConfig::NO_FLOOD.0 | PortConfig::NO_PACKET_IN.0);

impl VirtualSwitches {
    /// Empties the switch and makes what it needs before any rule.
    pub(super) fn begin(&mut self, now: Time, out: &mut Vec<Out>) {
        let sent = VirtualSwitches::own(SliceId(0), now);
        let v13 = self.version == Version::V13;
        let table = if v13 { flow::TABLE_ALL } else { 0 };
        let matching = if v13 { Match::default() } else { Match::V10(Match::default().to_10().0) };
        let all = FlowMod { table, ..FlowMod::new(FlowCommand::Delete, matching) };
        self.order(&sent, Kind::Own, Message::FlowMod(all), out);
        if v13 {
            let (command, kind) = (GroupCommand::Delete, GroupType::All);
            let groups = GroupMod { command, kind, group: action::GROUP_ALL, buckets: vec![] };
            self.order(&sent, Kind::Attempt, Message::GroupMod(groups), out);
            let (command, flags) = (MeterCommand::Delete, MeterFlags::default());
            let meters = MeterMod { command, flags, meter: METER_ALL, bands: vec![] };
            self.order(&sent, Kind::Attempt, Message::MeterMod(meters), out);
        }
        self.configure(now, out);
        for slice in self.slicing.ids() {
            let quota = self.slicing.slice(slice).map(|slice| slice.quota).unwrap_or_default();
            if let Some(kilobits) = quota.kilobits {
                self.rate_meter(slice, kilobits, now, out);
            }
        }
        let ports: Vec<PortNumber> = self.ports.keys().copied().collect();
        for port in ports {
            self.take_discovery(now, port, out);
        }
    }

    /// How the switch treats fragments and packets that miss.
    pub(super) fn configure(&mut self, now: Time, out: &mut Vec<Out>) {
        let sent = VirtualSwitches::own(SliceId(0), now);
        // Whole packets: whose one is shows in its headers, however far back these lie.
        let config = SwitchConfig { fragments: Fragments::Normal, miss_send_len: 0xffff };
        self.order(&sent, Kind::Own, Message::SetConfig(config), out);
    }

    /// Packets of discovery at a port of a slice that discovers links come here, unless they are of a slice that does not.
    fn take_discovery(&mut self, now: Time, port: PortNumber, out: &mut Vec<Out>) {
        let sent = VirtualSwitches::own(SliceId(0), now);
        for entry in self.discovery_entries(port) {
            self.order(&sent, Kind::Own, Message::FlowMod(entry), out);
        }
    }

    pub(super) fn discovery_entries(&self, port: PortNumber) -> Vec<FlowMod> {
        let has = |slice: &SliceId| self.of(*slice).is_ok_and(|one| one.seen(port).is_some());
        let offered = |slice: &SliceId| self.slicing.slice(*slice).is_some_and(|slice| slice.lldp);
        if !self.slicing.ids().any(|slice| has(&slice) && offered(&slice)) {
            return vec![];
        }
        let mut entries = vec![];
        for ethertype in mark::ETHERTYPES {
            let mut cube = Cube::default();
            cube.assign(Field::InPort, u128::from(port.0));
            cube.assign(Field::EthType, u128::from(ethertype));
            let others = self.slicing.ids().filter(|slice| !offered(slice));
            let taken = others
                .filter_map(|slice| self.slicing.region(slice))
                .any(|region| !region.and(&cube).is_empty());
            let Ok(matches) = rewrite::sayable(&cube, self.version) else { continue };
            let Some(matching) = matches.into_iter().next().filter(|_| !taken) else { continue };
            let to = Action::output(PortNumber::CONTROLLER);
            entries.push(FlowMod {
                // Rules that could meet these packets are put below it (`make_piece`).
                priority: u16::MAX,
                instructions: vec![Instruction::ApplyActions(vec![to])],
                ..FlowMod::new(FlowCommand::Add, matching)
            });
        }
        entries
    }

    /// A slice's ports: the number that its controller sees, and the port with it.
    pub fn ports(&self, slice: SliceId) -> Vec<(PortNumber, Port)> {
        let Ok(member) = self.of(slice) else { return vec![] };
        let mut ports: Vec<_> = self
            .ports
            .values()
            .filter_map(|port| Some((member.seen(port.number)?, *port)))
            .collect();
        ports.sort_by_key(|(seen, _)| *seen);
        ports
    }

    /// A slice's ports as its controller sees them.
    pub(super) fn seen_ports(&self, slice: SliceId) -> Vec<Port> {
        let all = self.ports(slice).into_iter();
        all.map(|(seen, port)| self.seen_port(slice, seen, &port)).collect()
    }

    fn seen_port(&self, slice: SliceId, seen: PortNumber, port: &Port) -> Port {
        let own = self.of(slice).ok().and_then(|member| member.port_config.get(&port.number));
        let config = port.config.without(OWN).with(own.copied().unwrap_or_default());
        Port { number: seen, config, ..*port }
    }

    pub(super) fn port_status(&mut self, now: Time, status: &PortStatus, out: &mut Vec<Out>) {
        let port = status.port;
        let known = self.ports.contains_key(&port.number);
        match status.reason {
            // Slices keep their numbers for it, should it come back.
            PortReason::Delete => drop(self.ports.remove(&port.number)),
            _ => drop(self.ports.insert(port.number, port)),
        }
        if !known && status.reason != PortReason::Delete {
            for slice in self.slicing.ids() {
                let Some(member) = self.member(slice) else { continue };
                member.appeared(port.number);
                if let Some(seen) = member.seen(port.number) {
                    self.rules.notes.put(&Note::Port { slice, real: port.number, seen });
                }
            }
            self.take_discovery(now, port.number, out);
        }
        for slice in self.slicing.ids() {
            let Ok(member) = self.of(slice) else { continue };
            let Some(seen) = member.seen(port.number) else { continue };
            let bits = member.interests.port_status.get(member.side()).copied().unwrap_or(0);
            let wanted = bits.checked_shr(u32::from(u8::from(status.reason))).unwrap_or(0) & 1 == 1;
            if wanted {
                let port = self.seen_port(slice, seen, &port);
                let status = PortStatus { reason: status.reason, port };
                self.tell(slice, 0, Message::PortStatus(status), out);
            }
            if !known {
                self.flood_again(&VirtualSwitches::own(slice, now));
            }
        }
    }

    pub(super) fn port_mod(&mut self, sent: &Sent, change: &PortMod, out: &mut Vec<Out>) -> Done {
        let refuse = |reason, words| Err(Refusal::new(reason, words));
        let real = self.of(sent.slice)?.real(change.port);
        let Some(port) = real.and_then(|real| self.ports.get(&real)).copied() else {
            return refuse(Reason::PortModFailedBadPort, "the port is not in the slice");
        };
        if port.address != change.address {
            return refuse(Reason::PortModFailedBadHwAddr, "the port has another address");
        }
        // Bits that the switch has once for all cannot be one slice's alone.
        let shared =
            self.members.iter().filter(|member| member.seen(port.number).is_some()).count();
        let rest = change.mask.without(OWN);
        if rest != PortConfig::default() && shared > 1 {
            return refuse(Reason::PortModFailedEperm, "other slices share the port");
        }
        let Some(member) = self.member(sent.slice) else { return Ok(()) };
        let old = member.port_config.get(&port.number).copied().unwrap_or_default();
        let mask = PortConfig(change.mask.0 & OWN.0);
        let new = old.without(mask).with(PortConfig(change.config.0 & mask.0));
        member.port_config.insert(port.number, new);
        let note = Note::PortConfig { slice: sent.slice, real: port.number, config: new };
        self.rules.notes.put(&note);
        if rest != PortConfig::default() {
            let order = PortMod {
                port: port.number,
                mask: rest,
                config: change.config.without(OWN),
                ..*change
            };
            self.order(sent, Kind::Order, Message::PortMod(order), out);
        }
        if old.has(PortConfig::NO_FLOOD) != new.has(PortConfig::NO_FLOOD) {
            self.flood_again(&VirtualSwitches::own(sent.slice, sent.now));
        }
        Ok(())
    }
}
