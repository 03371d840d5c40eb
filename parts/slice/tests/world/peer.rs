//! A peer that speaks OpenFlow 1.3 over a UNIX socket, made by hand.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use netloom_openflow::flow::{FlowCommand, FlowMod};
use netloom_openflow::multipart::{FlowRequest, MultipartRequest, Reply, Request};
use netloom_openflow::stream::Stream;
use netloom_openflow::{Hello, Match, Message, Port, Version, decode, encode, text};

use super::BOUND;

const V13: Version = Version::V13;

/// A connection.
pub struct Peer {
    pub socket: UnixStream,
    stream: Stream,
    xid: u32,
}

impl Peer {
    /// One that has said hello.
    pub fn unix(path: &Path) -> Peer {
        let socket = super::wait("the socket is there", || UnixStream::connect(path).ok());
        Peer::over(socket)
    }

    /// The same over a connection that was made.
    pub fn over(socket: UnixStream) -> Peer {
        socket.set_read_timeout(Some(BOUND)).expect("a time limit");
        let mut peer = Peer { socket, stream: Stream::default(), xid: 100 };
        peer.send(0, &Message::Hello(Hello::offering(&[V13])));
        assert!(matches!(peer.hear().expect("a hello").1, Message::Hello(_)));
        peer
    }

    pub fn send(&mut self, xid: u32, message: &Message) {
        let bytes = encode(V13, xid, message).expect("a message");
        self.socket.write_all(&bytes).expect("sent");
    }

    /// The next message; `None` at the end.
    pub fn hear(&mut self) -> Option<(u32, Message)> {
        let mut buffer = [0; 4096];
        loop {
            if let Some(bytes) = self.stream.next_message().expect("OpenFlow") {
                let (header, message) = decode(bytes).expect("a message");
                if let Message::EchoRequest(data) = message {
                    self.send(header.xid, &Message::EchoReply(data));
                    continue;
                }
                return Some((header.xid, message));
            }
            match self.socket.read(&mut buffer) {
                Ok(0) => return None,
                Ok(length) => self.stream.push(&buffer[..length]),
                Err(e) if e.kind() == ErrorKind::ConnectionReset => return None,
                Err(e) => panic!("nothing came: {e}"),
            }
        }
    }

    /// The answer to a message, by its transaction id; others are left out.
    pub fn ask(&mut self, message: &Message) -> Message {
        self.xid += 1;
        let xid = self.xid;
        self.send(xid, message);
        self.answer(xid)
    }

    pub fn answer(&mut self, to: u32) -> Message {
        loop {
            let (xid, message) = self.hear().expect("an answer");
            if xid == to {
                return message;
            }
        }
    }

    /// Waits for a packet.
    pub fn packet(&mut self) -> netloom_openflow::PacketIn {
        loop {
            if let (_, Message::PacketIn(packet)) = self.hear().expect("a packet") {
                return packet;
            }
        }
    }

    pub fn barrier(&mut self) {
        assert_eq!(self.ask(&Message::BarrierRequest), Message::BarrierReply);
    }

    fn request(&mut self, body: Request) -> Reply {
        match self.ask(&Message::MultipartRequest(MultipartRequest { flags: 0, body })) {
            Message::MultipartReply(reply) => reply.body,
            other => panic!("{other:?}"),
        }
    }

    pub fn ports(&mut self) -> Vec<Port> {
        match self.request(Request::PortDesc) {
            Reply::PortDesc(ports) => ports,
            other => panic!("{other:?}"),
        }
    }

    pub fn flows(&mut self) -> usize {
        let all = FlowRequest::new(Match::default());
        match self.request(Request::Flow(all)) {
            Reply::Flow(flows) => flows.len(),
            other => panic!("{other:?}"),
        }
    }

    /// Adds an entry in the syntax of ovs-ofctl, and waits until it is there; returns the reason if it is refused.
    pub fn add(&mut self, flow: &str) -> Result<(), String> {
        let change: FlowMod = text::flow(FlowCommand::Add, flow, V13).expect("an entry");
        self.xid += 1;
        let xid = self.xid;
        self.send(xid, &Message::FlowMod(change));
        self.send(xid + 1, &Message::BarrierRequest);
        self.xid += 1;
        let mut refused = Ok(());
        loop {
            match self.hear().expect("an answer") {
                (at, Message::Error(error)) if at == xid => {
                    // It quotes what was sent, with the number that it had.
                    assert_eq!(error.data.get(4..8), Some(&xid.to_be_bytes()[..]));
                    let reason = error.reason(V13).expect("a known reason");
                    refused = Err(reason.name().to_owned());
                }
                (at, Message::BarrierReply) if at == xid + 1 => return refused,
                _ => {}
            }
        }
    }

    /// Deletes all its entries.
    pub fn delete_all(&mut self) {
        let change = text::flow(FlowCommand::Delete, "", V13).expect("all entries");
        self.xid += 1;
        self.send(self.xid, &Message::FlowMod(change));
        self.barrier();
    }

    /// Whether the other end closes the connection, before long.
    pub fn is_closed(&mut self) -> bool {
        self.socket.set_read_timeout(Some(Duration::from_secs(60))).expect("a time limit");
        let mut buffer = [0; 4096];
        loop {
            match self.socket.read(&mut buffer) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(e) => return e.kind() == ErrorKind::ConnectionReset,
            }
        }
    }
}
