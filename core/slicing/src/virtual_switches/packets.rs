//! Packets between the switch and controllers: each packet goes to the slice that it is of, and a controller sends only
//! packets of its slice, or of discovery, by its slice's ports.

use netloom_openflow::flow::NO_BUFFER;
use netloom_openflow::packet::PacketInReason;
use netloom_openflow::port::PortConfig;
use netloom_openflow::{Action, Field, Message, PacketIn, PacketOut, PortNumber, Reason};
use netloom_pipeline::headers::parse;

use super::jobs::{Job, Step};
use super::pending::Kind;
use super::rewrite::TAG;
use super::tasks::Sending;
use super::{Out, Refusal, Sent, VirtualSwitches};
use crate::Work;
use crate::cube::Cube;
use crate::fault::{self, Fault};
use crate::mark::{self, Marked};
use crate::proof::Proof;
use crate::walk::Walk;
use crate::{SliceId, Time};

/// What a frame is, at a port.
fn packet_at(port: PortNumber, frame: &[u8]) -> Cube {
    let (_, mut key) = parse(frame);
    key.set(Field::InPort, u128::from(port.0));
    Cube::exactly(&key)
}

impl VirtualSwitches {
    /// A packet of the switch for a controller.
    pub(super) fn packet_in(&mut self, now: Time, packet: PacketIn, out: &mut Vec<Out>) {
        let Some(port) = packet.in_port() else { return };
        match mark::unmark(self.slicing.key(), &packet.data) {
            Marked::By(number, frame) => {
                let by = self.slicing.numbers().find(|id| {
                    let slice = self.slicing.slice(*id).filter(|slice| slice.lldp);
                    slice.is_some_and(|slice| self.slicing.key().number(&slice.name) == number)
                });
                let Some(slice) = by else { return };
                if let Some(member) = self.member(slice) {
                    member.counters.lldp_received += 1;
                }
                let total_len = u16::try_from(frame.len()).unwrap_or(u16::MAX);
                let packet = PacketIn {
                    buffer: NO_BUFFER,
                    total_len,
                    reason: PacketInReason::Action,
                    // All ones: of no rule (section 7.4.1).
                    cookie: u64::MAX,
                    data: frame,
                    ..packet
                };
                self.give(now, slice, port, packet, out);
            }
            // Made without the key, or changed on the way: which slice sent it is not known.
            Marked::Forged => {}
            Marked::No => self.route(now, port, packet, out),
        }
    }

    /// To the slice whose rule sent it, else whose packet it is.
    fn route(&mut self, now: Time, port: PortNumber, mut packet: PacketIn, out: &mut Vec<Out>) {
        let rule = self.rules.of_cookie(packet.cookie);
        let is_miss = rule.is_some_and(|(_, _, rule)| rule.is_table_miss());
        if is_miss && packet.reason == PacketInReason::Action {
            // To its controller it is an entry without a match, to the switch one of the slice's packets (section 5.4).
            packet.reason = PacketInReason::NoMatch;
        }
        let rule = rule.map(|(_, _, rule)| (rule.slice, rule.said.cookie));
        if fault::is(Fault::PacketIns) {
            for slice in self.slicing.ids() {
                self.give(now, slice, port, packet.clone(), out);
            }
            return;
        }
        let owner = || {
            let (_, mut key) = parse(&packet.data);
            key.set(Field::InPort, u128::from(port.0));
            self.slicing.owner(&key).map(|slice| (slice, u64::MAX))
        };
        let Some((slice, cookie)) = rule.or_else(owner) else { return };
        self.give(now, slice, port, PacketIn { cookie, ..packet }, out);
    }

    fn give(
        &mut self,
        now: Time,
        slice: SliceId,
        port: PortNumber,
        mut packet: PacketIn,
        out: &mut Vec<Out>,
    ) {
        let v10 = self.version == netloom_openflow::Version::V10;
        if packet.buffer != NO_BUFFER {
            // Whichever slice had it before, it is another packet now.
            self.members.iter_mut().for_each(|member| member.lose_buffer(packet.buffer));
        }
        let Some(member) = self.member(slice) else { return };
        let Some(seen) = member.seen(port) else { return };
        // A bit for each reason (section 7.3.10).
        let bits = member.interests.packet_in.get(member.side()).copied().unwrap_or(0);
        let wanted = bits.checked_shr(u32::from(u8::from(packet.reason))).unwrap_or(0) & 1 == 1;
        let config = member.port_config.get(&port).copied().unwrap_or_default();
        let silent =
            config.has(PortConfig::NO_PACKET_IN) && packet.reason == PacketInReason::NoMatch;
        if !member.connected || !wanted || silent {
            return;
        }
        if member.packet_ins.as_mut().is_some_and(|bucket| !bucket.take(now, 1)) {
            member.counters.packet_ins_dropped += 1;
            return;
        }
        member.counters.packet_ins += 1;
        if packet.buffer != NO_BUFFER {
            member.give_buffer(packet.buffer, packet_at(port, &packet.data));
            if v10 && packet.reason == PacketInReason::NoMatch {
                packet.data.truncate(usize::from(member.config.miss_send_len));
            }
        }
        for oxm in &mut packet.fields {
            match oxm.field {
                Field::InPort | Field::InPhyPort => oxm.value = u128::from(seen.0),
                // Controllers see neither the tag nor that there is one.
                Field::Metadata => oxm.value &= !u128::from(TAG),
                _ => {}
            }
        }
        packet.fields.retain(|oxm| oxm.field != Field::Metadata || oxm.value != 0);
        self.tell(slice, 0, Message::PacketIn(packet), out);
    }

    /// A packet of a controller for the switch.
    pub(super) fn packet_out(
        &mut self,
        sent: &Sent,
        packet: PacketOut,
        work: &mut Work,
        out: &mut Vec<Out>,
    ) -> Step {
        let member = self.of(sent.slice)?;
        let in_port = match packet.in_port {
            reserved if reserved.is_reserved() && reserved != PortNumber::LOCAL => reserved,
            port => member.real(port).ok_or_else(|| {
                let words = format!("port {port} is not in the slice");
                Refusal::new(Reason::BadRequestBadPort, words)
            })?,
        };
        let mut actions = self.actions(sent.slice, member);
        actions.tables = true;
        let actions = actions.list(&packet.actions)?;
        let mut data = packet.data;
        let walk = match self.discovery(sent.slice, packet.buffer, &data, &actions) {
            Some(marked) => {
                data = marked;
                Walk::default()
            }
            None => {
                let packet = self.packet_of(sent.slice, in_port, packet.buffer, &data)?;
                Walk::packet(packet, &actions)
            }
        };
        let order = PacketOut { buffer: packet.buffer, in_port, actions, data };
        self.send_packet(sent, Box::new(Sending { order, walk }), work, out)
    }

    /// Goes on with a packet.
    pub(super) fn send_packet(
        &mut self,
        sent: &Sent,
        mut sending: Box<Sending>,
        work: &mut Work,
        out: &mut Vec<Out>,
    ) -> Step {
        let VirtualSwitches { slicing, members, .. } = self;
        if let Some(member) = members.get_mut(usize::from(sent.slice.0)) {
            let (known, ports) = member.proving();
            let proof = Proof { slicing, slice: sent.slice, ports };
            match sending.walk.goes_on(&proof, known, work) {
                None => return Ok(Some(Job::Packet(sending))),
                Some(done) => done?,
            };
            member.counters.packet_outs += 1;
        }
        self.order(sent, Kind::Order, Message::PacketOut(sending.order), out);
        Ok(None)
    }

    /// Facts about a packet that is sent.
    fn packet_of(
        &mut self,
        slice: SliceId,
        in_port: PortNumber,
        buffer: u32,
        data: &[u8],
    ) -> Result<Cube, Refusal> {
        let mut cube = match buffer {
            NO_BUFFER => packet_at(in_port, data),
            buffer => {
                let taken = self.member(slice).and_then(|member| member.take_buffer(buffer));
                let (port, mut cube) = taken.ok_or_else(|| {
                    let words = "the buffer is not the slice's";
                    Refusal::new(Reason::BadRequestBufferUnknown, words)
                })?;
                // It is proved as what it is said to be: a packet of that port.
                if port != in_port {
                    cube.assign(Field::InPort, u128::from(in_port.0));
                }
                cube
            }
        };
        if in_port.is_reserved() && in_port != PortNumber::LOCAL {
            // It came in nowhere: so it must be the slice's wherever it leaves.
            cube.free(Field::InPort);
        }
        Ok(cube)
    }

    /// A packet of discovery with its mark, if it is one that only goes out.
    fn discovery(
        &self,
        slice: SliceId,
        buffer: u32,
        data: &[u8],
        actions: &[Action],
    ) -> Option<Vec<u8>> {
        let offered = self.slicing.slice(slice).filter(|slice| slice.lldp)?;
        // Ports were looked up in the slice; there is no rewriting and no way around.
        let goes_out = |action: &Action| match action {
            Action::Output { port, .. } => !port.is_reserved() || *port == PortNumber::IN_PORT,
            Action::Enqueue { .. } | Action::SetQueue(_) => true,
            _ => false,
        };
        let plain = buffer == NO_BUFFER && actions.iter().all(goes_out);
        if !plain || !mark::is_discovery(data) {
            return None;
        }
        let key = self.slicing.key();
        mark::mark(key, key.number(&offered.name), data)
    }
}
