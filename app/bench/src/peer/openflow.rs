//! A controller's side of OpenFlow 1.3, one request after another: over a switch's UNIX socket, or a connection that it made.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use netloom_openflow::flow::FlowCommand;
use netloom_openflow::stream::Stream;
use netloom_openflow::text::flow;
use netloom_openflow::{Hello, Message, Version, decode, encode};

use super::idle;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(120);
/// Bytes that are sent in one call.
const BURST: usize = 1 << 16;

/// What bytes go by.
pub(super) trait Connection: Read + Write {}

impl<T: Read + Write> Connection for T {}

/// A connection.
pub(super) struct Client {
    socket: Box<dyn Connection>,
    received: Stream,
    /// Bytes that are not sent yet.
    queued: Vec<u8>,
    number: u32,
}

impl Client {
    pub(super) fn connect(path: &Path) -> Result<Client> {
        let socket = UnixStream::connect(path)
            .with_context(|| format!("connect to the switch at {}", path.display()))?;
        socket.set_read_timeout(Some(PATIENCE)).context("set a receive timeout")?;
        Client::over(Box::new(socket))
    }

    /// Over a connection that is made, whose reads end in time.
    pub(super) fn over(socket: Box<dyn Connection>) -> Result<Client> {
        let mut client = Client { socket, received: Stream::default(), queued: vec![], number: 0 };
        client.send(&Message::Hello(Hello::offering(&[Version::V13])))?;
        client.flush()?;
        client.wait(|_, message| matches!(message, Message::Hello(_)))?;
        Ok(client)
    }

    /// Queues a message; returns its number.
    pub(super) fn send(&mut self, message: &Message) -> Result<u32> {
        self.number += 1;
        self.queued.extend(encode(Version::V13, self.number, message)?);
        if self.queued.len() >= BURST {
            self.flush()?;
        }
        Ok(self.number)
    }

    pub(super) fn flush(&mut self) -> Result<()> {
        self.socket.write_all(&self.queued).context("send to the switch")?;
        self.queued.clear();
        Ok(())
    }

    /// Queues a change of flow entries, in the syntax of ovs-ofctl.
    pub(super) fn change(&mut self, command: FlowCommand, text: &str) -> Result<()> {
        self.send(&Message::FlowMod(flow(command, text, Version::V13)?)).map(|_| ())
    }

    /// Sends what is queued and waits until the switch says that all of it is done.
    pub(super) fn barrier(&mut self) -> Result<()> {
        let number = self.send(&Message::BarrierRequest)?;
        self.flush()?;
        self.wait(|xid, message| xid == number && *message == Message::BarrierReply)
    }

    /// Answers what the switch asks, once; what else it sends is let go.
    pub(super) fn attend(&mut self) -> Result<()> {
        let mut buffer = [0; 1 << 16];
        match self.socket.read(&mut buffer) {
            Ok(0) => bail!("the switch closed the connection"),
            Ok(count) => self.received.push(&buffer[..count]),
            Err(error) if idle(error.kind()) => return Ok(()),
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(()),
            Err(error) => return Err(error).context("wait for the switch"),
        }
        self.hear(|_, _| false).map(|_| ())
    }

    /// Takes messages until the one that is waited for; an error is one here.
    fn wait(&mut self, wanted: impl Fn(u32, &Message) -> bool) -> Result<()> {
        let mut buffer = [0; 4096];
        loop {
            if self.hear(&wanted)? {
                return Ok(());
            }
            match self.socket.read(&mut buffer).context("wait for the switch")? {
                0 => bail!("the switch closed the connection"),
                count => self.received.push(&buffer[..count]),
            }
        }
    }

    /// Looks through what has come; whether the message that is waited for is among it.
    fn hear(&mut self, wanted: impl Fn(u32, &Message) -> bool) -> Result<bool> {
        while let Some(bytes) = self.received.next_message()? {
            // What this side does not know is not waited for.
            let Ok((header, message)) = decode(bytes) else { continue };
            match message {
                Message::Error(error) => bail!("the switch refuses: {error:?}"),
                Message::EchoRequest(data) => {
                    let reply = encode(Version::V13, header.xid, &Message::EchoReply(data))?;
                    self.socket.write_all(&reply).context("answer an echo")?;
                }
                message if wanted(header.xid, &message) => return Ok(true),
                _ => {}
            }
        }
        Ok(false)
    }
}
