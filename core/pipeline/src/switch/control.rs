//! Messages of controllers: what each does, and its answer (section 7.3).

use netloom_openflow::async_config::AsyncConfig;
use netloom_openflow::flow::NO_BUFFER;
use netloom_openflow::multipart::{GatherError, MORE};
use netloom_openflow::queue::{Queue, QueueConfig, QueueProperty};
use netloom_openflow::role::Role;
use netloom_openflow::switch::{Fragments, SwitchConfig};
use netloom_openflow::{
    DecodeError, ErrorMessage, Header, Message, MultipartRequest, PacketOut, PortNumber, Reason,
    Request, Version, decode,
};

use super::{ConnectionId, Outputs, Switch};
use crate::rule::Time;
use crate::work::Work;

/// Bytes of a request in parts, and of all that are not whole yet.
const MOST_GATHERED: usize = 1 << 20;
const MOST_GATHERED_BY_ALL: usize = 4 << 20;

/// Steps of an answer that are done at once.
const AT_ONCE: u64 = 4096;

type Read = Result<(Header, Message), DecodeError>;

/// A message that has been read, so that one may ask what it is about before it is done.
#[derive(Debug)]
pub struct ReadMessage<'b> {
    bytes: &'b [u8],
    read: Read,
}

impl ReadMessage<'_> {
    /// Reads a message, as long as its header says.
    pub fn of(bytes: &[u8]) -> ReadMessage<'_> {
        ReadMessage { bytes, read: decode(bytes) }
    }

    /// What it says, unless it is refused.
    pub(super) fn said(&self) -> Option<&Message> {
        self.read.as_ref().ok().map(|(_, message)| message)
    }
}

impl Switch {
    /// A connection sent a message, as long as its header says.
    pub fn message(&mut self, id: ConnectionId, bytes: &[u8], now: Time, out: &mut Outputs) {
        self.read_message(id, ReadMessage::of(bytes), now, out);
        self.finish(id, now, out);
    }

    /// The same with a message that has been read. One about many entries, groups or meters is only begun if there are
    /// many: the connection [is busy](Switch::is_busy) then, and [`Switch::proceed`] goes on with it.
    pub fn read_message(
        &mut self,
        id: ConnectionId,
        message: ReadMessage<'_>,
        now: Time,
        out: &mut Outputs,
    ) {
        let ReadMessage { bytes, read } = message;
        // Answers stay in order, whatever the caller does.
        self.finish(id, now, out);
        let Some(connection) = self.connections.get(&id) else { return };
        let Some(version) = connection.version else {
            self.opening(id, read, out);
            return;
        };
        match read {
            Ok((header, message)) => {
                let result = if header.version() == Some(version) {
                    self.handle(id, version, &header, message, now, out)
                } else {
                    Err(Reason::BadRequestBadVersion)
                };
                if let Err(reason) = result {
                    let error = ErrorMessage::new(version, reason, bytes);
                    out.send(id, version, header.xid, &Message::Error(error));
                }
                self.quote(id, bytes);
            }
            Err(refused) => {
                let error = refused.answer(version, bytes);
                out.send(id, version, refused.xid(), &Message::Error(error));
            }
        }
    }

    /// The first message must be a hello.
    fn opening(&mut self, id: ConnectionId, read: Read, out: &mut Outputs) {
        match read {
            Ok((header, Message::Hello(hello))) => {
                self.greeted(id, header.version, &hello, header.xid, out);
            }
            // They refuse us.
            Ok((_, Message::Error(_))) => {
                self.connections.remove(&id);
                out.closed.push(id);
            }
            other => {
                let xid = other.map_or(0, |(header, _)| header.xid);
                self.incompatible(id, xid, out);
            }
        }
    }

    fn handle(
        &mut self,
        id: ConnectionId,
        version: Version,
        header: &Header,
        message: Message,
        now: Time,
        out: &mut Outputs,
    ) -> Result<(), Reason> {
        if changes_state(&message) && self.role(id) == Some(Role::Slave) {
            return Err(Reason::BadRequestIsSlave);
        }
        let answer = match message {
            // Only the first counts; errors need no answer.
            Message::Hello(_) | Message::Error(_) | Message::EchoReply(_) => None,
            Message::EchoRequest(data) => Some(Message::EchoReply(data)),
            Message::Experimenter { .. } => return Err(Reason::BadRequestBadExperimenter),
            Message::FeaturesRequest => Some(Message::FeaturesReply(self.describe(id, version))),
            Message::GetConfigRequest => Some(Message::GetConfigReply(self.config(id))),
            Message::SetConfig(config) => {
                self.set_config(id, config)?;
                None
            }
            Message::PacketOut(packet) => {
                self.packet_out(packet, version, now, out)?;
                None
            }
            Message::FlowMod(change) => {
                self.flow_mod(id, header.xid, change, version, now, out)?;
                None
            }
            Message::GroupMod(change) => {
                self.group_mod(id, header.xid, change, now, out)?;
                None
            }
            Message::MeterMod(change) => {
                self.meter_mod(id, header.xid, change, now, out)?;
                None
            }
            Message::PortMod(change) => {
                self.port_mod(&change, version, out)?;
                None
            }
            Message::TableMod(change) => {
                self.check_table_mod(change)?;
                None
            }
            Message::MultipartRequest(request) => {
                return self.multipart(id, version, header, request, now, out);
            }
            Message::BarrierRequest => Some(Message::BarrierReply),
            Message::QueueGetConfigRequest(port) => {
                Some(Message::QueueGetConfigReply(self.queues(port)?))
            }
            Message::RoleRequest(request) => {
                Some(Message::RoleReply(self.role_request(id, request)?))
            }
            Message::GetAsyncRequest => Some(Message::GetAsyncReply(self.interests(id))),
            Message::SetAsync(config) => {
                self.set_interests(id, config);
                None
            }
            // Only switches send the rest.
            _ => return Err(Reason::BadRequestBadType),
        };
        if let Some(answer) = answer {
            out.send(id, version, header.xid, &answer);
        }
        Ok(())
    }

    /// An auxiliary connection has the settings of its main one.
    fn main(&self, id: ConnectionId) -> ConnectionId {
        self.connections.get(&id).and_then(|c| c.auxiliary).map_or(id, |(main, _)| main)
    }

    fn config(&self, id: ConnectionId) -> SwitchConfig {
        let connection = self.connections.get(&self.main(id));
        let miss_send_len = connection.map_or(0, |connection| connection.miss_send_len);
        SwitchConfig { fragments: self.fragments, miss_send_len }
    }

    fn set_config(&mut self, id: ConnectionId, config: SwitchConfig) -> Result<(), Reason> {
        // Fragments are never put together.
        if config.fragments == Fragments::Reassemble {
            return Err(Reason::SwitchConfigFailedBadFlags);
        }
        if self.fragments != config.fragments {
            self.fragments = config.fragments;
            self.note(super::Change::Settings);
            self.changed();
        }
        let main = self.main(id);
        if let Some(connection) = self.connections.get_mut(&main) {
            connection.miss_send_len = config.miss_send_len;
            // As in Open vSwitch, a service asks for packet-ins by setting a length: `ovs-ofctl monitor`
            // does.
            connection.told |= config.miss_send_len > 0;
        }
        Ok(())
    }

    fn interests(&self, id: ConnectionId) -> AsyncConfig {
        let connection = self.connections.get(&self.main(id));
        connection.map_or_else(AsyncConfig::default, |connection| connection.interests)
    }

    fn set_interests(&mut self, id: ConnectionId, config: AsyncConfig) {
        let main = self.main(id);
        if let Some(connection) = self.connections.get_mut(&main) {
            connection.interests = config;
            connection.told = true;
        }
    }

    fn packet_out(
        &mut self,
        packet: PacketOut,
        version: Version,
        now: Time,
        out: &mut Outputs,
    ) -> Result<(), Reason> {
        let PacketOut { buffer, in_port, actions, data } = packet;
        let arrived =
            matches!(in_port, PortNumber::CONTROLLER | PortNumber::LOCAL | PortNumber::ANY);
        if !arrived && (in_port.is_reserved() || in_port.0 == 0) {
            return Err(Reason::BadRequestBadPort);
        }
        // Before the buffer is taken: a refused message leaves its packet for the next one.
        self.check_actions(&actions, version, true)?;
        let data = if buffer == NO_BUFFER { data } else { self.buffers.take(buffer)?.1 };
        self.send_out(&data, in_port, &actions, now, out);
        Ok(())
    }

    fn queues(&self, port: PortNumber) -> Result<QueueConfig, Reason> {
        let all = port == PortNumber::ANY;
        if !all && !self.ports.contains_key(&port) {
            return Err(Reason::QueueOpFailedBadPort);
        }
        let chosen = self.ports.iter().filter(|(number, _)| all || **number == port);
        let queues = chosen.flat_map(|(number, state)| {
            state.queues.keys().map(|queue| Queue {
                queue: *queue,
                port: *number,
                // Above 1000: no rate is guaranteed.
                properties: vec![QueueProperty::MinRate(u16::MAX)],
            })
        });
        Ok(QueueConfig { port, queues: queues.collect() })
    }

    fn multipart(
        &mut self,
        id: ConnectionId,
        version: Version,
        header: &Header,
        request: MultipartRequest,
        now: Time,
        out: &mut Outputs,
    ) -> Result<(), Reason> {
        if request.flags & !MORE != 0 {
            return Err(Reason::BadRequestBadMultipart);
        }
        let gathered: usize = self.connections.values().map(|one| one.gather.bytes()).sum();
        let Some(connection) = self.connections.get_mut(&id) else { return Ok(()) };
        let bytes = usize::from(header.length);
        // `most` bounds the whole request, so what this connection has gathered of it counts as free.
        let left = MOST_GATHERED_BY_ALL.saturating_sub(gathered) + connection.gather.bytes();
        // One that comes whole is not gathered.
        let most = MOST_GATHERED.min(left.max(bytes));
        let whole = connection.gather.request(request, bytes, most);
        let body = match whole {
            Ok(Some(body)) => body,
            Ok(None) => return Ok(()),
            Err(GatherError::Overflow { .. }) => {
                return Err(Reason::BadRequestMultipartBufferOverflow);
            }
            Err(GatherError::Mixed) => return Err(Reason::BadRequestBadMultipart),
        };
        if let Some(task) = self.task(&body)? {
            self.begin_job(id, version, header.xid, task);
            self.proceed(id, &mut Work::steps(AT_ONCE), now, out);
            return Ok(());
        }
        let reply = self.answer(body, version, now)?;
        match netloom_openflow::multipart::segments(version, reply) {
            Ok(parts) => {
                for part in parts {
                    out.send(id, version, header.xid, &Message::MultipartReply(part));
                }
            }
            Err(_) => out.lost += 1,
        }
        Ok(())
    }
}

/// Whether a slave may not send it (section 6.3.6).
fn changes_state(message: &Message) -> bool {
    match message {
        Message::PacketOut(_)
        | Message::FlowMod(_)
        | Message::GroupMod(_)
        | Message::PortMod(_)
        | Message::TableMod(_)
        | Message::MeterMod(_) => true,
        Message::MultipartRequest(request) => {
            matches!(&request.body, Request::TableFeatures(tables) if !tables.is_empty())
        }
        _ => false,
    }
}
