//! Where packets leave: ports, all of them, the controllers, or where a switch without OpenFlow would send them (section 4.5).

use netloom_openflow::port::PortConfig;
use netloom_openflow::{Field, PortNumber};

use super::notify::Notice;
use super::walk::stations;
use super::walk_state::Walk;
use super::{Frame, Switch};
use crate::learning::is_group;
use crate::packet::Packet;
use crate::trace::{Drop, Effect};

impl Switch {
    /// An output action.
    pub(super) fn output(
        &mut self,
        port: PortNumber,
        max_len: u16,
        packet: &mut Packet,
        walk: &mut Walk<'_>,
    ) {
        match port {
            PortNumber::IN_PORT => self.send(packet.in_port(), packet, walk),
            PortNumber::TABLE if walk.tables => {
                if !walk.may_copy(packet.bytes().len()) {
                    return;
                }
                // A packet-out goes through the tables once; entries in them may not send it there again.
                walk.tables = false;
                self.run(&mut packet.clone(), walk);
                walk.tables = true;
            }
            PortNumber::NORMAL => self.normal(packet, walk),
            PortNumber::FLOOD => self.spread(true, packet, walk),
            PortNumber::ALL => self.spread(false, packet, walk),
            PortNumber::CONTROLLER => {
                let notice = Notice { max_len: Some(max_len), only_10: false, ..walk.notice };
                self.tell(packet, notice, walk);
            }
            // Only OFPP_IN_PORT sends a packet back where it came from (section 4.5).
            port if port == packet.in_port() => walk.drop(Drop::Hairpin),
            port => self.send(port, packet, walk),
        }
    }

    /// By a port, unless it is down or does not forward.
    fn send(&mut self, port: PortNumber, packet: &Packet, walk: &mut Walk<'_>) {
        let open = self
            .ports
            .get(&port)
            .is_some_and(|state| state.is_up() && !state.is(PortConfig::NO_FWD));
        if !open {
            walk.drop(Drop::Send);
            return;
        }
        if !walk.may_copy(packet.bytes().len()) {
            return;
        }
        let queue = packet.queue;
        walk.trace.effects.push(Effect::Send { port, queue });
        let grown = walk.grown(packet);
        walk.trace.growth.sends.push(grown);
        self.count_sent(port, queue, 1, u64::try_from(packet.bytes().len()).unwrap_or(0));
        walk.out.frames.push(Frame { port, queue, bytes: packet.bytes().to_vec() });
    }

    /// By all ports but that of arrival; in a flood, but those that take no part.
    fn spread(&mut self, flood: bool, packet: &Packet, walk: &mut Walk<'_>) {
        walk.trace.everywhere = true;
        let takes_part = |state: &super::PortState| {
            state.is_up()
                && !state.is(PortConfig::NO_FWD)
                && !(flood && state.is(PortConfig::NO_FLOOD))
        };
        let to: Vec<PortNumber> = self
            .ports
            .iter()
            .filter(|(number, state)| **number != packet.in_port() && takes_part(state))
            .map(|(number, _)| *number)
            .collect();
        if to.is_empty() {
            walk.drop(Drop::Send);
        }
        for port in to {
            self.send(port, packet, walk);
        }
    }

    /// As a switch without OpenFlow: learns the source, sends to where the destination was seen, else floods.
    /// Addresses that bridges keep to themselves (IEEE 802.1Q, 8.6.3) are not forwarded.
    pub(super) fn normal(&mut self, packet: &mut Packet, walk: &mut Walk<'_>) {
        let (vlan, source, destination) = stations(packet);
        let in_port = packet.in_port();
        if walk.opened {
            walk.trace.only_this("forwarding looks behind a header that was removed or changed");
        }
        for field in [Field::InPort, Field::VlanVid, Field::EthSrc, Field::EthDst] {
            walk.trace.consulted.include(field, field.full());
        }
        if self.ports.contains_key(&in_port) {
            if self.learning.learn(vlan, source, in_port, walk.now) {
                // Facts about other results may no longer hold.
                self.changed();
            }
            walk.trace.station = Some((vlan, source));
        }
        if destination & !0xf == 0x0180_c200_0000 {
            walk.drop(Drop::NoOutput);
            return;
        }
        let known = self.learning.port(vlan, destination);
        match known.filter(|_| !is_group(destination)) {
            Some(port) if port == in_port => walk.drop(Drop::Hairpin),
            Some(port) => self.send(port, packet, walk),
            None => self.spread(true, packet, walk),
        }
    }
}
