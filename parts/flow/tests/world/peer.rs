//! The other end of an OpenFlow connection, made by hand.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use netloom_openflow::flow::FlowCommand;
use netloom_openflow::multipart::{FlowRequest, FlowStats, MultipartRequest};
use netloom_openflow::stream::Stream;
use netloom_openflow::{
    ErrorMessage, Header, Hello, Match, Message, Reply, Request, Version, decode, encode, text,
};

use super::BOUND;

trait Bytes: Read + Write + Send {
    fn patience(&self, span: Duration);
}

impl Bytes for UnixStream {
    fn patience(&self, span: Duration) {
        self.set_read_timeout(Some(span)).expect("a timeout");
    }
}

impl Bytes for TcpStream {
    fn patience(&self, span: Duration) {
        self.set_read_timeout(Some(span)).expect("a timeout");
    }
}

impl<C, D> Bytes for rustls::StreamOwned<C, TcpStream>
where
    C: std::ops::DerefMut<Target = rustls::ConnectionCommon<D>> + Send,
    D: rustls::SideData + Send,
{
    fn patience(&self, span: Duration) {
        self.sock.set_read_timeout(Some(span)).expect("a timeout");
    }
}

/// A connection to a switch, or of one.
pub struct Peer {
    bytes: Box<dyn Bytes>,
    stream: Stream,
    pub version: Version,
    xid: u32,
    /// What came that nobody waited for.
    pub others: Vec<(Header, Message)>,
}

impl Peer {
    fn new(bytes: Box<dyn Bytes>, version: Version) -> Peer {
        Peer { bytes, stream: Stream::default(), version, xid: 0, others: vec![] }
    }

    /// Within TLS.
    pub fn over<C, D>(stream: rustls::StreamOwned<C, TcpStream>) -> Peer
    where
        C: std::ops::DerefMut<Target = rustls::ConnectionCommon<D>> + Send + 'static,
        D: rustls::SideData + Send,
    {
        Peer::new(Box::new(stream), Version::V13)
    }

    /// Connects to a UNIX socket, without a word.
    pub fn silent(path: &Path) -> Peer {
        Peer::new(Box::new(UnixStream::connect(path).expect("connect")), Version::V13)
    }

    /// Connects, and says hello.
    pub fn unix(path: &Path) -> Peer {
        Peer::silent(path).greeted(Version::V13)
    }

    /// The same over TCP.
    pub fn tcp(to: SocketAddr) -> Peer {
        let stream = TcpStream::connect(to).expect("connect");
        Peer::new(Box::new(stream), Version::V13).greeted(Version::V13)
    }

    /// Says hello in a version, and hears the switch's.
    pub fn greeted(mut self, version: Version) -> Peer {
        self.version = version;
        self.say(&Message::Hello(Hello::default()));
        self.hear(|_, message| matches!(message, Message::Hello(_)).then_some(()));
        self
    }

    pub fn write(&mut self, bytes: &[u8]) {
        self.bytes.write_all(bytes).expect("write");
    }

    /// Writes what may not be taken any more.
    pub fn try_write(&mut self, bytes: &[u8]) -> bool {
        self.bytes.write_all(bytes).is_ok()
    }

    /// Sends a message; returns its transaction id.
    pub fn say(&mut self, message: &Message) -> u32 {
        self.xid += 1;
        let bytes = encode(self.version, self.xid, message).expect("a message");
        self.write(&bytes);
        self.xid
    }

    /// The next message, or `None` at the end of the connection.
    pub fn next(&mut self) -> Option<(Header, Message)> {
        let until = Instant::now() + BOUND;
        loop {
            if let Some(bytes) = self.stream.next_message().expect("whole messages") {
                let (header, message) = decode(bytes).expect("a message of a switch");
                if let Message::EchoRequest(data) = message {
                    let reply = Message::EchoReply(data);
                    let bytes = encode(self.version, header.xid, &reply).expect("a message");
                    let _ = self.bytes.write_all(&bytes);
                    continue;
                }
                return Some((header, message));
            }
            assert!(Instant::now() < until, "no message within {BOUND:?}");
            self.bytes.patience(BOUND);
            let mut buffer = [0; 65536];
            match self.bytes.read(&mut buffer) {
                Ok(0) => return None,
                Ok(length) => self.stream.push(&buffer[..length]),
                Err(e) if e.kind() == std::io::ErrorKind::ConnectionReset => return None,
                Err(e) => panic!("read: {e}"),
            }
        }
    }

    /// Waits for a message; others are kept.
    pub fn hear<T>(&mut self, wanted: impl Fn(&Header, &Message) -> Option<T>) -> T {
        if let Some(at) = self.others.iter().position(|(h, m)| wanted(h, m).is_some()) {
            let (header, message) = self.others.remove(at);
            return wanted(&header, &message).expect("as before");
        }
        loop {
            let (header, message) = self.next().expect("the switch closed the connection");
            match wanted(&header, &message) {
                Some(found) => return found,
                None => self.others.push((header, message)),
            }
        }
    }

    /// Sends a request, and waits for its answer.
    pub fn ask(&mut self, message: &Message) -> Message {
        let xid = self.say(message);
        self.hear(|header, message| (header.xid == xid).then(|| message.clone()))
    }

    /// Sends a message that is refused.
    pub fn refused(&mut self, message: &Message) -> ErrorMessage {
        match self.ask(message) {
            Message::Error(error) => error,
            other => panic!("{other:?}"),
        }
    }

    /// A barrier: nothing before it was refused.
    pub fn barrier(&mut self) {
        let xid = self.say(&Message::BarrierRequest);
        self.hear(|header, message| match message {
            Message::BarrierReply if header.xid == xid => Some(()),
            Message::Error(error) => panic!("{:?}", error.reason(Version::V13)),
            _ => None,
        });
    }

    /// Changes flow entries.
    pub fn flow(&mut self, command: FlowCommand, said: &str) {
        let change = text::flow(command, said, self.version).expect("a flow entry");
        self.say(&Message::FlowMod(change));
    }

    /// Adds a flow entry.
    pub fn add(&mut self, said: &str) {
        self.flow(FlowCommand::Add, said);
    }

    /// All flow entries.
    pub fn flows(&mut self) -> Vec<FlowStats> {
        let empty = match self.version {
            Version::V13 => Match::Oxm(vec![]),
            Version::V10 => Match::V10(Match::Oxm(vec![]).to_10().0),
        };
        let body = Request::Flow(FlowRequest::new(empty));
        let request = MultipartRequest { flags: 0, body };
        let xid = self.say(&Message::MultipartRequest(request));
        let mut all = vec![];
        loop {
            let (more, part) = self.hear(|header, message| match message {
                Message::MultipartReply(reply) if header.xid == xid => match &reply.body {
                    Reply::Flow(flows) => Some((reply.flags & 1 == 1, flows.clone())),
                    other => panic!("{other:?}"),
                },
                _ => None,
            });
            all.extend(part);
            if !more {
                return all;
            }
        }
    }
}

/// A controller that listens.
pub struct Listening(TcpListener);

impl Listening {
    /// On some port of 127.0.0.1, in the calling thread's network namespace.
    pub fn new() -> Listening {
        Listening(TcpListener::bind("127.0.0.1:0").expect("listen"))
    }

    pub fn at(address: SocketAddr) -> Listening {
        Listening(TcpListener::bind(address).expect("listen"))
    }

    pub fn address(&self) -> SocketAddr {
        self.0.local_addr().expect("its address")
    }

    /// As a switch is told.
    pub fn target(&self) -> String {
        format!("tcp:{}", self.address())
    }

    /// The next connection of the switch, after both said hello.
    pub fn accept(&self, version: Version) -> Peer {
        let (stream, _) = self.0.accept().expect("accept");
        Peer::new(Box::new(stream), version).greeted(version)
    }

    /// The next connection as a stream.
    pub fn accept_stream(&self) -> TcpStream {
        self.0.accept().expect("accept").0
    }

    /// The next connection, without a word.
    pub fn accept_silent(&self) -> Peer {
        let (stream, _) = self.0.accept().expect("accept");
        Peer::new(Box::new(stream), Version::V13)
    }
}
