//! A client that speaks OpenFlow with a switch, as a controller does: requests and their answers, changes with a barrier.
//!
//! It blocks, with a bound on each wait. Messages that were not asked for are left out, except by
//! [`Client::receive`]. Works with any switch of OpenFlow 1.0 or 1.3. It is the only client that is not a part of a loop.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use netloom_openflow::hello::{self, Hello};
use netloom_openflow::multipart::{Gather, MultipartRequest, Reply, Request};
use netloom_openflow::refusal::ErrorMessage;
use netloom_openflow::stream::Stream;
use netloom_openflow::{Message, Version, decode, encode};
use netloom_sys::process::wait_readable;

use crate::Target;

/// Default time to wait for an answer.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// How many changes go out before their answers are read, so that neither side waits for the other to read.
const AT_ONCE: usize = 256;

/// Bytes that are sent in one call.
const BURST: usize = 1 << 16;

/// Maximum bytes of an answer in parts.
const MOST: usize = 1 << 30;

/// Why a switch could not be asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The system refused.
    #[error("{target}: {operation}")]
    Failed {
        /// The switch.
        target: String,
        /// The attempted operation.
        operation: &'static str,
        /// The cause.
        source: io::Error,
    },
    /// A kind of connection that only switches make.
    #[error("{target}: a client connects by tcp:ADDRESS[:PORT] or unix:PATH")]
    Target {
        /// The target.
        target: String,
    },
    /// It speaks none of the wanted versions.
    #[error("{target}: the switch does not speak {wanted}")]
    Versions {
        /// The switch.
        target: String,
        /// The wanted versions.
        wanted: String,
    },
    /// It refused a request.
    #[error("{target}: the switch refuses the request: {reason}")]
    Refused {
        /// The switch.
        target: String,
        /// The reason, by its name in the specification.
        reason: String,
    },
    /// It closed the connection.
    #[error("{target}: the switch closed the connection")]
    Closed {
        /// The switch.
        target: String,
    },
    /// It sent something that is not OpenFlow, or an answer to something else.
    #[error("{target}: {reason}")]
    Strange {
        /// The switch.
        target: String,
        /// What it did.
        reason: String,
    },
    /// The version agreed on lacks what is to be sent.
    #[error(transparent)]
    Encode(#[from] netloom_openflow::EncodeError),
}

impl ClientError {
    /// Whether no process was there, or it has just ended.
    pub fn is_of_nobody(&self) -> bool {
        use io::ErrorKind::{ConnectionRefused, NotFound};
        match self {
            ClientError::Failed { operation: "connect", source, .. } => {
                matches!(source.kind(), ConnectionRefused | NotFound)
            }
            ClientError::Closed { .. } => true,
            _ => false,
        }
    }
}

/// Result of this module.
pub type Result<T, E = ClientError> = std::result::Result<T, E>;

/// A change that a switch refused: its place among the changes, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Its place, from 0.
    pub at: usize,
    /// The reason, by its name in the specification: `OFPFMFC_TABLE_FULL`.
    pub reason: String,
}

/// What bytes go by.
pub trait Bytes: Read + Write + AsFd {}

impl<T: Read + Write + AsFd> Bytes for T {}

/// A connection to a switch.
pub struct Client {
    socket: Box<dyn Bytes>,
    /// For errors.
    target: String,
    version: Version,
    stream: Stream,
    /// Bytes that are not sent yet.
    queued: Vec<u8>,
    xid: u32,
    patience: Duration,
    at_once: usize,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client")
            .field("target", &self.target)
            .field("version", &self.version)
            .finish()
    }
}

impl Client {
    /// Connects, and agrees on the highest of these versions that the switch speaks.
    ///
    /// # Errors
    /// Nobody listens there, or it speaks none of them.
    pub fn connect(target: &Target, versions: &[Version]) -> Result<Client> {
        let name = target.to_string();
        let fail =
            |source| ClientError::Failed { target: name.clone(), operation: "connect", source };
        let socket: Box<dyn Bytes> = match target {
            Target::Unix(path) => Box::new(connect_unix(path, PATIENCE).map_err(fail)?),
            Target::Tcp(to) => {
                let socket = TcpStream::connect_timeout(to, PATIENCE).map_err(fail)?;
                // Requests are small, and each waits for its answer.
                socket.set_nodelay(true).map_err(fail)?;
                socket.set_write_timeout(Some(PATIENCE)).map_err(fail)?;
                Box::new(socket)
            }
            Target::Tls(_) | Target::Listen(_) | Target::ListenTls(_) => {
                return Err(ClientError::Target { target: name });
            }
        };
        Client::over(socket, name, versions)
    }

    /// Agrees on a version over a connection with a switch of this name, whose writes end in time.
    ///
    /// # Errors
    /// As [`Client::connect`].
    pub fn over(socket: Box<dyn Bytes>, target: String, versions: &[Version]) -> Result<Client> {
        let version = versions.iter().copied().max().unwrap_or(Version::V13);
        let mut client = Client {
            socket,
            target,
            version,
            stream: Stream::default(),
            queued: vec![],
            xid: 0,
            patience: PATIENCE,
            at_once: AT_ONCE,
        };
        client.greet(versions)?;
        Ok(client)
    }

    /// Limits the wait for each answer from now on.
    #[must_use]
    pub fn within(mut self, patience: Duration) -> Client {
        self.patience = patience;
        self
    }

    /// Has this many changes go out before their answers are read: more than ordinarily, for a switch that reads while it
    /// answers.
    #[must_use]
    pub fn at_once(mut self, changes: usize) -> Client {
        self.at_once = changes;
        self
    }

    /// The version agreed on.
    pub fn version(&self) -> Version {
        self.version
    }

    fn greet(&mut self, versions: &[Version]) -> Result<()> {
        match self.send(&Message::Hello(Hello::offering(versions))) {
            // A peer that closes may have said why, or that it is not a switch.
            Ok(_) | Err(ClientError::Closed { .. }) => {}
            Err(e) => return Err(e),
        }
        let until = Instant::now() + self.patience;
        let bytes = self.bytes_until(Some(until))?.ok_or_else(|| self.late())?;
        let number = bytes.first().copied().unwrap_or(0);
        let none = || ClientError::Versions {
            target: self.target.clone(),
            wanted: versions.iter().map(ToString::to_string).collect::<Vec<_>>().join(" or "),
        };
        match decode(&bytes) {
            Ok((_, Message::Hello(hello))) => {
                self.version = hello::negotiate(versions, number, &hello).ok_or_else(none)?;
                Ok(())
            }
            Ok((_, Message::Error(_))) => Err(none()),
            _ => Err(self.strange("it did not begin with a hello of OpenFlow")),
        }
    }

    /// Sends a message, and returns its transaction id.
    ///
    /// # Errors
    /// The connection's, or the version lacks the message.
    pub fn send(&mut self, message: &Message) -> Result<u32> {
        let xid = self.queue(message)?;
        self.flush()?;
        Ok(xid)
    }

    /// Sends a message with others, and returns its transaction id. [`Client::barrier`] sends the last ones.
    ///
    /// # Errors
    /// As [`Client::send`].
    pub fn queue(&mut self, message: &Message) -> Result<u32> {
        self.xid = self.xid.wrapping_add(1).max(1);
        self.queued.extend(encode(self.version, self.xid, message)?);
        if self.queued.len() >= BURST {
            self.flush()?;
        }
        Ok(self.xid)
    }

    fn flush(&mut self) -> Result<()> {
        let sent = self.socket.write_all(&self.queued);
        // After a failure, too: a part of it may be on its way, and must not be sent twice.
        self.queued.clear();
        sent.map_err(|e| self.failed("send", e))
    }

    /// The next message of the switch with its transaction id, within this time or, without one, however long it
    /// takes; `None` when the time is over. Echo requests are answered and left out.
    ///
    /// # Errors
    /// The connection's end, and what is not OpenFlow.
    pub fn receive(&mut self, within: Option<Duration>) -> Result<Option<(u32, Message)>> {
        self.receive_until(within.map(|time| Instant::now() + time))
    }

    fn receive_until(&mut self, until: Option<Instant>) -> Result<Option<(u32, Message)>> {
        loop {
            let Some(bytes) = self.bytes_until(until)? else { return Ok(None) };
            match decode(&bytes) {
                Ok((header, Message::EchoRequest(data))) => {
                    let reply = encode(self.version, header.xid, &Message::EchoReply(data))?;
                    self.queued.extend(reply);
                    self.flush()?;
                }
                Ok((header, message)) => return Ok(Some((header.xid, message))),
                Err(e) => return Err(self.strange(&e.to_string())),
            }
        }
    }

    /// The bytes of the next message.
    fn bytes_until(&mut self, until: Option<Instant>) -> Result<Option<Vec<u8>>> {
        let mut buffer = [0; 16 << 10];
        loop {
            match self.stream.next_message() {
                Ok(Some(bytes)) => return Ok(Some(bytes.to_vec())),
                Ok(None) => {}
                Err(e) => return Err(self.strange(&e.to_string())),
            }
            if let Some(until) = until
                && !wait_readable(
                    self.socket.as_fd(),
                    until.saturating_duration_since(Instant::now()),
                )
            {
                return Ok(None);
            }
            match self.socket.read(&mut buffer) {
                Ok(0) => return Err(self.closed()),
                Ok(length) => self.stream.push(buffer.get(..length).unwrap_or(&[])),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(self.failed("receive", e)),
            }
        }
    }

    /// The next answer to this request; other messages are left out.
    fn answer(&mut self, to: u32) -> Result<Message> {
        let until = Instant::now() + self.patience;
        loop {
            match self.receive_until(Some(until))? {
                None => return Err(self.late()),
                Some((xid, Message::Error(e))) if xid == to => {
                    let reason = self.reason(&e);
                    return Err(ClientError::Refused { target: self.target.clone(), reason });
                }
                Some((xid, message)) if xid == to => return Ok(message),
                Some(_) => {}
            }
        }
    }

    /// Sends a message that has one answer.
    ///
    /// # Errors
    /// The switch refuses it, or does not answer in time.
    pub fn ask(&mut self, message: &Message) -> Result<Message> {
        let xid = self.send(message)?;
        self.answer(xid)
    }

    /// Asks for statistics or descriptions, and gathers all parts of the answer.
    ///
    /// # Errors
    /// As [`Client::ask`].
    pub fn request(&mut self, body: Request) -> Result<Reply> {
        let xid = self.send(&Message::MultipartRequest(MultipartRequest { flags: 0, body }))?;
        let mut parts = Gather::<Reply>::default();
        loop {
            let Message::MultipartReply(part) = self.answer(xid)? else {
                return Err(self.strange("unexpected reply"));
            };
            // The length on the wire is not known any more; the bound is on the number of parts.
            let whole = parts.reply(part, usize::from(u16::MAX), MOST);
            if let Some(whole) = whole.map_err(|e| self.strange(&e.to_string()))? {
                return Ok(whole);
            }
        }
    }

    /// Makes changes, and returns when the switch obeys all of them; those that it refused are returned in order.
    ///
    /// # Errors
    /// The connection's; changes before the failure may have been made.
    pub fn change(&mut self, changes: impl IntoIterator<Item = Message>) -> Result<Vec<Refusal>> {
        let mut refused = Vec::new();
        let mut open = BTreeMap::new();
        for (at, change) in changes.into_iter().enumerate() {
            open.insert(self.queue(&change)?, at);
            if open.len() == self.at_once {
                self.settle(&mut open, &mut refused)?;
            }
        }
        if !open.is_empty() {
            self.settle(&mut open, &mut refused)?;
        }
        refused.sort_by_key(|refusal: &Refusal| refusal.at);
        Ok(refused)
    }

    /// Waits until these changes, by transaction id, are done, noting which were refused.
    fn settle(
        &mut self,
        open: &mut BTreeMap<u32, usize>,
        refused: &mut Vec<Refusal>,
    ) -> Result<()> {
        let told = self.barrier()?;
        let of = |(xid, reason)| open.get(&xid).map(|at| Refusal { at: *at, reason });
        refused.extend(told.into_iter().filter_map(of));
        open.clear();
        Ok(())
    }

    /// Sends what is queued, waits until everything before is done, and returns what was refused meanwhile: transaction ids
    /// and reasons.
    ///
    /// # Errors
    /// The switch refuses the barrier, or does not answer in time.
    pub fn barrier(&mut self) -> Result<Vec<(u32, String)>> {
        let barrier = self.send(&Message::BarrierRequest)?;
        let until = Instant::now() + self.patience;
        // Errors of what came before are sent before the reply to the barrier (OpenFlow 1.3.5, 6.2).
        let mut refused = vec![];
        loop {
            match self.receive_until(Some(until))? {
                None => return Err(self.late()),
                Some((xid, Message::BarrierReply)) if xid == barrier => return Ok(refused),
                Some((xid, Message::Error(e))) if xid == barrier => {
                    let reason = self.reason(&e);
                    return Err(ClientError::Refused { target: self.target.clone(), reason });
                }
                Some((xid, Message::Error(e))) => refused.push((xid, self.reason(&e))),
                Some(_) => {}
            }
        }
    }

    fn reason(&self, error: &ErrorMessage) -> String {
        match error.reason(self.version) {
            Some(reason) => reason.name().to_owned(),
            None => format!("error of type {}, code {}", error.kind, error.code),
        }
    }

    fn failed(&self, operation: &'static str, source: io::Error) -> ClientError {
        use io::ErrorKind::{BrokenPipe, ConnectionReset, TimedOut, WouldBlock};
        let source = match source.kind() {
            BrokenPipe | ConnectionReset => return self.closed(),
            // The time of the socket to send is over (SO_SNDTIMEO of socket(7)).
            WouldBlock => TimedOut.into(),
            _ => source,
        };
        ClientError::Failed { target: self.target.clone(), operation, source }
    }

    fn closed(&self) -> ClientError {
        ClientError::Closed { target: self.target.clone() }
    }

    fn late(&self) -> ClientError {
        self.failed("wait for an answer", io::ErrorKind::TimedOut.into())
    }

    fn strange(&self, reason: &str) -> ClientError {
        ClientError::Strange { target: self.target.clone(), reason: reason.to_owned() }
    }
}

impl AsFd for Client {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Connects to a socket. Connecting to one whose queue is full waits as a write does (`unix_stream_connect`), so the limit is
/// that of writes and is set first.
fn connect_unix(path: &Path, patience: Duration) -> io::Result<UnixStream> {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
    let address = SocketAddrUnix::new(path)?;
    let (family, kind) = (AddressFamily::UNIX, SocketType::STREAM);
    let socket = rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
    let socket = UnixStream::from(socket);
    socket.set_write_timeout(Some(patience))?;
    match rustix::io::retry_on_intr(|| rustix::net::connect(&socket, &address)) {
        Ok(()) => Ok(socket),
        Err(rustix::io::Errno::AGAIN) => {
            let why = "nobody takes connections there: the socket's queue is full";
            Err(io::Error::new(io::ErrorKind::TimedOut, why))
        }
        Err(e) => Err(e.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_queue_does_not_hold_a_client_for_ever() {
        use rustix::net::{AddressFamily, SocketAddrUnix, SocketType};
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("switch");
        let socket = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
        rustix::net::bind(&socket, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        rustix::net::listen(&socket, 0).unwrap();
        // One waits to be taken, which is all that the queue holds.
        let first = connect_unix(&path, PATIENCE).unwrap();
        let error = connect_unix(&path, Duration::from_millis(1)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        drop(first);
    }

    #[test]
    fn what_it_said_before_it_closed_is_heard() {
        for (said, words) in [
            (&[][..], "closed the connection"),
            (&[4, 0, 0, 4, 0, 0, 0, 1], "shorter than its header"),
            (&[3, 0, 0, 8, 0, 0, 0, 1], "does not speak"),
        ] {
            let (ours, mut theirs) = UnixStream::pair().expect("a pair");
            theirs.write_all(said).expect("sent");
            drop(theirs);
            let versions = [Version::V10, Version::V13];
            let error = Client::over(Box::new(ours), "it".into(), &versions).expect_err("closed");
            assert!(error.to_string().contains(words), "{said:?}: {error}");
        }
    }
}
