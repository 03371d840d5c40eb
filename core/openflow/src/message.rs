//! All messages of both versions, and their types on the wire (section 7.1, 1.0.0 section 5.1).

use crate::async_config::AsyncConfig;
use crate::error::{EncodeError, Reason};
use crate::flow::{FlowMod, FlowRemoved};
use crate::group::GroupMod;
use crate::header::{HEADER_LEN, Header, Version};
use crate::hello::Hello;
use crate::meter::MeterMod;
use crate::multipart::{MultipartReply, MultipartRequest};
use crate::packet::{PacketIn, PacketOut};
use crate::port::{PortMod, PortNumber, PortStatus};
use crate::queue::QueueConfig;
use crate::refusal::{DecodeError, ErrorMessage};
use crate::role::RoleMessage;
use crate::switch::{Features, SwitchConfig, TableMod};
use crate::wire::{Encoded, Fail, Reader, Result, Writer, fail};

/// A message of either version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Opens a connection.
    Hello(Hello),
    /// Refuses a message.
    Error(ErrorMessage),
    /// Asks for an echo.
    EchoRequest(Vec<u8>),
    /// Answers with the same bytes.
    EchoReply(Vec<u8>),
    /// An experimenter's; in 1.0 a vendor's.
    Experimenter {
        /// Its number.
        experimenter: u32,
        /// The rest; in 1.3 its first four bytes are the experimenter's type.
        data: Vec<u8>,
    },
    /// Asks for the features.
    FeaturesRequest,
    /// The features.
    FeaturesReply(Features),
    /// Asks for the configuration.
    GetConfigRequest,
    /// The configuration.
    GetConfigReply(SwitchConfig),
    /// Sets the configuration.
    SetConfig(SwitchConfig),
    /// A packet for the controller.
    PacketIn(PacketIn),
    /// A flow entry was removed.
    FlowRemoved(FlowRemoved),
    /// A port changed.
    PortStatus(PortStatus),
    /// A packet to send.
    PacketOut(PacketOut),
    /// Changes flow entries.
    FlowMod(FlowMod),
    /// Changes a group (1.3).
    GroupMod(GroupMod),
    /// Changes a port.
    PortMod(PortMod),
    /// Changes a table (1.3).
    TableMod(TableMod),
    /// Asks for statistics or descriptions.
    MultipartRequest(MultipartRequest),
    /// Statistics or descriptions.
    MultipartReply(MultipartReply),
    /// Asks for everything before it to be done.
    BarrierRequest,
    /// Everything before the request is done.
    BarrierReply,
    /// Asks for the queues of a port.
    QueueGetConfigRequest(PortNumber),
    /// The queues of a port.
    QueueGetConfigReply(QueueConfig),
    /// Asks for a role (1.3).
    RoleRequest(RoleMessage),
    /// The role (1.3).
    RoleReply(RoleMessage),
    /// Asks which asynchronous messages are sent (1.3).
    GetAsyncRequest,
    /// Which asynchronous messages are sent (1.3).
    GetAsyncReply(AsyncConfig),
    /// Sets which asynchronous messages are sent (1.3).
    SetAsync(AsyncConfig),
    /// Changes a meter (1.3).
    MeterMod(MeterMod),
}

impl Message {
    /// Its type in a version that has it.
    pub const fn number(&self, version: Version) -> Option<u8> {
        let (v10, v13) = match self {
            Message::Hello(_) => (Some(0), 0),
            Message::Error(_) => (Some(1), 1),
            Message::EchoRequest(_) => (Some(2), 2),
            Message::EchoReply(_) => (Some(3), 3),
            Message::Experimenter { .. } => (Some(4), 4),
            Message::FeaturesRequest => (Some(5), 5),
            Message::FeaturesReply(_) => (Some(6), 6),
            Message::GetConfigRequest => (Some(7), 7),
            Message::GetConfigReply(_) => (Some(8), 8),
            Message::SetConfig(_) => (Some(9), 9),
            Message::PacketIn(_) => (Some(10), 10),
            Message::FlowRemoved(_) => (Some(11), 11),
            Message::PortStatus(_) => (Some(12), 12),
            Message::PacketOut(_) => (Some(13), 13),
            Message::FlowMod(_) => (Some(14), 14),
            Message::GroupMod(_) => (None, 15),
            Message::PortMod(_) => (Some(15), 16),
            Message::TableMod(_) => (None, 17),
            Message::MultipartRequest(_) => (Some(16), 18),
            Message::MultipartReply(_) => (Some(17), 19),
            Message::BarrierRequest => (Some(18), 20),
            Message::BarrierReply => (Some(19), 21),
            Message::QueueGetConfigRequest(_) => (Some(20), 22),
            Message::QueueGetConfigReply(_) => (Some(21), 23),
            Message::RoleRequest(_) => (None, 24),
            Message::RoleReply(_) => (None, 25),
            Message::GetAsyncRequest => (None, 26),
            Message::GetAsyncReply(_) => (None, 27),
            Message::SetAsync(_) => (None, 28),
            Message::MeterMod(_) => (None, 29),
        };
        match version {
            Version::V10 => v10,
            Version::V13 => Some(v13),
        }
    }

    /// Whether only switches send it.
    pub const fn from_switch(&self) -> bool {
        matches!(
            self,
            Message::FeaturesReply(_)
                | Message::GetConfigReply(_)
                | Message::PacketIn(_)
                | Message::FlowRemoved(_)
                | Message::PortStatus(_)
                | Message::MultipartReply(_)
                | Message::BarrierReply
                | Message::QueueGetConfigReply(_)
                | Message::RoleReply(_)
                | Message::GetAsyncReply(_)
        )
    }

    fn read(kind: u8, r: &mut Reader<'_>) -> Result<Message> {
        // From 14 on the versions' numbers differ.
        Ok(match (kind, r.is_10()) {
            (0, _) => Message::Hello(Hello { body: r.rest() }),
            (1, _) => Message::Error(ErrorMessage::read(r)?),
            (2, _) => Message::EchoRequest(r.rest()),
            (3, _) => Message::EchoReply(r.rest()),
            (4, _) => Message::Experimenter { experimenter: r.u32()?, data: r.rest() },
            (5, _) => Message::FeaturesRequest,
            (6, _) => Message::FeaturesReply(Features::read(r)?),
            (7, _) => Message::GetConfigRequest,
            (8, _) => Message::GetConfigReply(SwitchConfig::read(r)?),
            (9, _) => Message::SetConfig(SwitchConfig::read_set(r)?),
            (10, _) => Message::PacketIn(PacketIn::read(r)?),
            (11, _) => Message::FlowRemoved(FlowRemoved::read(r)?),
            (12, _) => Message::PortStatus(PortStatus::read(r)?),
            (13, _) => Message::PacketOut(PacketOut::read(r)?),
            (14, _) => Message::FlowMod(FlowMod::read(r)?),
            (15, false) => Message::GroupMod(GroupMod::read(r)?),
            (15, true) | (16, false) => Message::PortMod(PortMod::read(r)?),
            (17, false) => Message::TableMod(TableMod::read(r)?),
            (16, true) | (18, false) => Message::MultipartRequest(MultipartRequest::read(r)?),
            (17, true) | (19, false) => Message::MultipartReply(MultipartReply::read(r)?),
            (18, true) | (20, false) => Message::BarrierRequest,
            (19, true) | (21, false) => Message::BarrierReply,
            (20, true) | (22, false) => {
                Message::QueueGetConfigRequest(QueueConfig::read_request(r)?)
            }
            (21, true) | (23, false) => Message::QueueGetConfigReply(QueueConfig::read(r)?),
            (24, false) => Message::RoleRequest(RoleMessage::read(r)?),
            (25, false) => Message::RoleReply(RoleMessage::read(r)?),
            (26, false) => Message::GetAsyncRequest,
            (27, false) => Message::GetAsyncReply(AsyncConfig::read(r)?),
            (28, false) => Message::SetAsync(AsyncConfig::read(r)?),
            (29, false) => Message::MeterMod(MeterMod::read(r)?),
            _ => return fail(Reason::BadRequestBadType, "header: unknown type"),
        })
    }

    fn write(&self, w: &mut Writer) -> Encoded {
        match self {
            Message::Hello(hello) => w.bytes(&hello.body),
            Message::Error(error) => error.write(w)?,
            Message::EchoRequest(data) | Message::EchoReply(data) => w.bytes(data),
            Message::Experimenter { experimenter, data } => {
                w.u32(*experimenter);
                w.bytes(data);
            }
            Message::FeaturesRequest
            | Message::GetConfigRequest
            | Message::BarrierRequest
            | Message::BarrierReply
            | Message::GetAsyncRequest => {}
            Message::FeaturesReply(features) => features.write(w)?,
            Message::GetConfigReply(config) | Message::SetConfig(config) => config.write(w)?,
            Message::PacketIn(packet) => packet.write(w)?,
            Message::FlowRemoved(removed) => removed.write(w)?,
            Message::PortStatus(status) => status.write(w)?,
            Message::PacketOut(packet) => packet.write(w)?,
            Message::FlowMod(change) => change.write(w)?,
            Message::GroupMod(change) => change.write(w)?,
            Message::PortMod(change) => change.write(w)?,
            Message::TableMod(change) => change.write(w)?,
            Message::MultipartRequest(request) => request.write(w)?,
            Message::MultipartReply(reply) => reply.write(w)?,
            Message::QueueGetConfigRequest(port) => QueueConfig::write_request(*port, w)?,
            Message::QueueGetConfigReply(config) => config.write(w)?,
            Message::RoleRequest(role) | Message::RoleReply(role) => role.write(w)?,
            Message::GetAsyncReply(config) | Message::SetAsync(config) => config.write(w)?,
            Message::MeterMod(change) => change.write(w)?,
        }
        Ok(())
    }
}

/// Reads the message at the beginning of `bytes`, which is as long as its header says; bytes behind it are ignored.
///
/// A hello and an error are read in any version, all else in those that this crate speaks.
///
/// # Errors
/// With the reason to answer; [`DecodeError::answer`] makes the answer.
pub fn decode(bytes: &[u8]) -> std::result::Result<(Header, Message), DecodeError> {
    let refuse = |header, object| {
        Err(DecodeError::new(header, Fail { reason: Reason::BadRequestBadLen, object }))
    };
    let Some(header) = Header::parse(bytes) else { return refuse(None, "header: too few bytes") };
    // A length below the header's reverses the range, which gives `None`, too.
    let Some(body) = bytes.get(HEADER_LEN..usize::from(header.length)) else {
        return refuse(Some(header), "header: length");
    };
    let version = match header.version() {
        Some(version) => version,
        // The two messages whose bodies all versions share.
        None if header.kind <= 1 => Version::V13,
        None => {
            let fail = Fail { reason: Reason::BadRequestBadVersion, object: "header: version" };
            return Err(DecodeError::new(Some(header), fail));
        }
    };
    let mut r = Reader::new(body, version, "message");
    let message = Message::read(header.kind, &mut r).and_then(|message| {
        // Bytes behind the last field are a wrong length, as missing ones are.
        r.finish()?;
        Ok(message)
    });
    message.map(|message| (header, message)).map_err(|fail| DecodeError::new(Some(header), fail))
}

/// The bytes of a message.
///
/// # Errors
/// If the version lacks something of the message, or it is longer than 65,535 bytes.
pub fn encode(
    version: Version,
    xid: u32,
    message: &Message,
) -> std::result::Result<Vec<u8>, EncodeError> {
    let Some(number) = message.number(version) else {
        return Err(EncodeError::NotInVersion { object: "message", version });
    };
    let mut w = Writer::new(version);
    w.u8(version.number());
    w.u8(number);
    w.zeros(2);
    w.u32(xid);
    message.write(&mut w)?;
    // Known only now: lengths come before what they count.
    w.set_length(0, 2, "message")?;
    Ok(w.into_bytes())
}
