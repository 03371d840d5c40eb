//! The connection to the switch: changes with a barrier, and questions with their whole answers.
//!
//! It blocks, each wait with a bound. Changes that the switch refuses are an error: nothing here asks for what it
//! could refuse, but for too many entries.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use netloom_openflow::hello::Hello;
use netloom_openflow::multipart::{Gather, MultipartRequest, Reply, Request};
use netloom_openflow::stream::Stream;
use netloom_openflow::{Message, Version, decode, encode};
use netloom_sys::Failure;
use netloom_sys::process::wait_readable;

use crate::{Error, Result};

const VERSION: Version = Version::V13;

/// Time for an answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// How many changes go out before a barrier, so that neither side waits for the other to read.
const AT_ONCE: usize = 4096;

/// The bound on an answer in parts.
const MOST: usize = 1 << 30;

/// A connection to the switch.
#[derive(Debug)]
pub struct Client {
    socket: UnixStream,
    stream: Stream,
    xid: u32,
}

impl Client {
    /// Connects.
    ///
    /// # Errors
    /// Nobody listens, or it does not speak OpenFlow 1.3.
    pub fn connect(path: &Path) -> Result<Client> {
        let socket = UnixStream::connect(path)
            .map_err(|e| Failure::path(path, "connect to its switch", e))?;
        socket
            .set_write_timeout(Some(PATIENCE))
            .map_err(|e| Failure::path(path, "set a timeout", e))?;
        let mut client = Client { socket, stream: Stream::default(), xid: 0 };
        client.send(&Message::Hello(Hello::offering(&[VERSION])))?;
        match client.next(Instant::now() + PATIENCE)? {
            (_, Message::Hello(_)) => Ok(client),
            _ => Err(Error::Strange("it did not begin with a hello".to_owned())),
        }
    }

    fn send(&mut self, message: &Message) -> Result<u32> {
        self.xid = self.xid.wrapping_add(1).max(1);
        let bytes =
            encode(VERSION, self.xid, message).map_err(|e| Error::Strange(e.to_string()))?;
        self.socket.write_all(&bytes).map_err(lost)?;
        Ok(self.xid)
    }

    /// The next message, but for echo requests, which are answered.
    fn next(&mut self, until: Instant) -> Result<(u32, Message)> {
        let mut buffer = [0; 16 << 10];
        loop {
            let found = self.stream.next_message().map_err(|e| Error::Strange(e.to_string()))?;
            if let Some(bytes) = found {
                let decoded = decode(bytes).map_err(|e| Error::Strange(e.to_string()))?;
                match decoded {
                    (_, Message::EchoRequest(data)) => {
                        self.send(&Message::EchoReply(data))?;
                    }
                    (header, message) => return Ok((header.xid, message)),
                }
                continue;
            }
            if !wait_readable(self.socket.as_fd(), until.saturating_duration_since(Instant::now()))
            {
                return Err(Error::Strange("it does not answer".to_owned()));
            }
            match self.socket.read(&mut buffer) {
                Ok(0) => return Err(Error::Closed),
                Ok(length) => self.stream.push(buffer.get(..length).unwrap_or(&[])),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(lost(e)),
            }
        }
    }

    /// Reads what came without a question; returns whether the connection goes on.
    ///
    /// # Errors
    /// The connection's.
    pub fn drain(&mut self) -> Result<()> {
        let mut buffer = [0; 16 << 10];
        match self.socket.read(&mut buffer) {
            Ok(0) => return Err(Error::Closed),
            Ok(length) => self.stream.push(buffer.get(..length).unwrap_or(&[])),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(lost(e)),
        }
        let mut echoes = vec![];
        while let Some(bytes) =
            self.stream.next_message().map_err(|e| Error::Strange(e.to_string()))?
        {
            if let Ok((header, Message::EchoRequest(data))) = decode(bytes) {
                echoes.push((header.xid, data));
            }
        }
        for (xid, data) in echoes {
            let bytes = encode(VERSION, xid, &Message::EchoReply(data))
                .map_err(|e| Error::Strange(e.to_string()))?;
            self.socket.write_all(&bytes).map_err(lost)?;
        }
        Ok(())
    }

    /// Makes changes, and returns when the switch obeys them.
    ///
    /// # Errors
    /// The connection's, or the first change that was refused; those after it were made.
    pub fn change(&mut self, changes: impl IntoIterator<Item = Message>) -> Result<()> {
        let mut open = 0;
        for change in changes {
            self.send(&change)?;
            open += 1;
            if open == AT_ONCE {
                self.barrier()?;
                open = 0;
            }
        }
        if open > 0 { self.barrier() } else { Ok(()) }
    }

    fn barrier(&mut self) -> Result<()> {
        let barrier = self.send(&Message::BarrierRequest)?;
        let until = Instant::now() + PATIENCE;
        // Errors of what came before are sent before the
        // reply to the barrier (OpenFlow 1.3.5, 6.2).
        let mut refused = None;
        loop {
            match self.next(until)? {
                (xid, Message::BarrierReply) if xid == barrier => break,
                (_, Message::Error(e)) => {
                    let reason =
                        e.reason(VERSION).map_or("no known reason", |reason| reason.name());
                    refused.get_or_insert_with(|| format!("it refuses a change: {reason}"));
                }
                _ => {}
            }
        }
        refused.map_or(Ok(()), |reason| Err(Error::Strange(reason)))
    }

    /// Asks for statistics, and gathers all parts of the answer.
    ///
    /// # Errors
    /// The connection's, or the question is refused.
    pub fn request(&mut self, body: Request) -> Result<Reply> {
        let question =
            self.send(&Message::MultipartRequest(MultipartRequest { flags: 0, body }))?;
        let until = Instant::now() + PATIENCE;
        let mut parts = Gather::<Reply>::default();
        loop {
            match self.next(until)? {
                (xid, Message::MultipartReply(part)) if xid == question => {
                    let whole = parts.reply(part, usize::from(u16::MAX), MOST);
                    if let Some(whole) = whole.map_err(|e| Error::Strange(e.to_string()))? {
                        return Ok(whole);
                    }
                }
                (xid, Message::Error(_)) if xid == question => {
                    return Err(Error::Strange("it refuses a question".to_owned()));
                }
                _ => {}
            }
        }
    }
}

fn lost(error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => Error::Closed,
        _ => Failure::new("the router's switch", "speak with it", error).into(),
    }
}

impl AsFd for Client {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
