//! Client for requests to a running switch, over the socket by which ports join.
//!
//! A request and its answer are JSON, in the framing of `netloom_shm::protocol`. A connection that sent a
//! request cannot become a port, and a port's connection cannot send requests. Root and the user that the
//! switch runs as may send requests. Each request has its own connection, so an abandoned one leaves nothing
//! behind.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use netloom_shm::protocol::{self, Channel};
use rustix::io::Errno;

pub mod requests;

use crate::error::SWITCH;
use crate::plane::{PlaneAnswer, PlaneRequest};
use crate::rules::{Mirror, Vlan};
use crate::{Error, Result};
use netloom_sys::Failure;
use requests::{Answer, MacTable, PortChange, PortKey, Request, Shown};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Longest request in bytes.
pub const MOST_REQUEST: usize = 64 * 1024;

/// Longest answer in bytes.
pub const MOST_ANSWER: usize = 16 << 20;

/// Default time to wait for an answer.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// A switch that takes requests.
#[derive(Clone, Debug)]
pub struct Connection {
    path: PathBuf,
    peer: protocol::Peer,
    patience: Duration,
}

impl Connection {
    /// The switch whose socket is at `path`. `Ok(None)` when nobody listens.
    ///
    /// # Errors
    /// [`Error::Failed`]: the system refuses.
    pub fn open(path: &Path) -> Result<Option<Connection>> {
        let shared = Failure::of(SWITCH, "connect");
        // The socket of a process that was killed is still there, and refuses.
        let gone = [Errno::NOENT, Errno::CONNREFUSED].map(|e| Some(e.raw_os_error()));
        let channel = match Channel::connect(path, PATIENCE) {
            Ok(channel) => channel,
            Err(e) if gone.contains(&e.raw_os_error()) => return Ok(None),
            Err(e) => return Err(shared(e).into()),
        };
        let peer = channel.peer().map_err(shared)?;
        Ok(Some(Connection { path: path.to_owned(), peer, patience: PATIENCE }))
    }

    /// Limits the wait for each answer from now on.
    #[must_use]
    pub fn within(mut self, patience: Duration) -> Connection {
        self.patience = patience;
        self
    }

    /// The listening process and its user.
    pub fn process(&self) -> protocol::Peer {
        self.peer
    }

    /// Sends a request and waits for the answer.
    ///
    /// # Errors
    /// [`Error::Refused`]: the switch did not do it. [`Error::Failed`]: the switch could not be reached or
    /// did not answer.
    pub fn ask(&self, request: &Request) -> Result<Answer> {
        self.ask_for(request)
    }

    fn ask_for<A: DeserializeOwned>(&self, request: &impl Serialize) -> Result<A> {
        let wrong = |e: serde_json::Error| Error::Message(e.to_string());
        let body = serde_json::to_vec(request).map_err(wrong)?;
        if body.len() > MOST_REQUEST {
            let text = format!("a request of {} bytes; at most {MOST_REQUEST}", body.len());
            return Err(Error::Message(text));
        }
        let answer = protocol::request(&self.path, &body, self.patience).map_err(|e| match e {
            netloom_shm::Error::Silent { reason: protocol::LATE, .. } => self.late(),
            other => Failure::new(SWITCH, "ask", other),
        })?;
        if answer.failed {
            return Err(Error::Refused(serde_json::from_slice(&answer.body).map_err(wrong)?));
        }
        serde_json::from_slice(&answer.body).map_err(wrong)
    }

    /// Sends a request about forwarding in the kernel, and waits for the answer.
    ///
    /// # Errors
    /// As [`Connection::ask`]; a process of an earlier version does not know such requests.
    pub fn ask_plane(&self, request: &PlaneRequest) -> Result<PlaneAnswer> {
        self.ask_for(request)
    }

    /// The failure of a switch that is stopped or hangs, and what to do about it.
    fn late(&self) -> Failure {
        let (pid, patience) = (self.peer.pid, self.patience);
        let words = format!(
            "process {pid} has not answered for {patience:?}; `kill -CONT {pid}` continues it if it is stopped, `kill -KILL \
             {pid}` ends it if it hangs, and the lab starts another"
        );
        Failure::new(SWITCH, "ask", io::Error::new(io::ErrorKind::TimedOut, words))
    }

    fn order(&self, request: &Request) -> Result<()> {
        match self.ask(request)? {
            Answer::Done => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    /// State of the switch.
    ///
    /// # Errors
    /// As [`Connection::ask`]; the same holds for the methods below.
    pub fn show(&self) -> Result<Shown> {
        match self.ask(&Request::Show)? {
            Answer::Shown(shown) => Ok(*shown),
            other => Err(unexpected(&other)),
        }
    }

    /// The learned addresses of all its ports, or of one.
    ///
    /// # Errors
    /// As [`Connection::ask`].
    pub fn macs(&self, port: Option<PortKey>) -> Result<Vec<MacTable>> {
        match self.ask(&Request::Macs { port })? {
            Answer::Macs(tables) => Ok(tables),
            other => Err(unexpected(&other)),
        }
    }

    /// Changes rules of a port.
    ///
    /// # Errors
    /// As [`Connection::ask`].
    pub fn set_port(&self, port: impl Into<PortKey>, change: PortChange) -> Result<()> {
        self.order(&Request::SetPort { port: port.into(), change })
    }

    /// Sets the VLANs of a port.
    ///
    /// # Errors
    /// As [`Connection::ask`].
    pub fn set_vlan(&self, port: impl Into<PortKey>, vlan: Option<Vlan>) -> Result<()> {
        self.order(&Request::SetVlan { port: port.into(), vlan })
    }

    /// Starts a mirror session and returns its number.
    ///
    /// # Errors
    /// As [`Connection::ask`].
    pub fn add_mirror(&self, mirror: Mirror) -> Result<u16> {
        match self.ask(&Request::AddMirror(mirror))? {
            Answer::Mirror(number) => Ok(number),
            other => Err(unexpected(&other)),
        }
    }

    /// Ends a mirror session.
    ///
    /// # Errors
    /// As [`Connection::ask`].
    pub fn delete_mirror(&self, mirror: u16) -> Result<()> {
        self.order(&Request::DeleteMirror { mirror })
    }

    /// Disconnects a port from the switch.
    ///
    /// # Errors
    /// As [`Connection::ask`].
    pub fn disconnect(&self, port: impl Into<PortKey>) -> Result<()> {
        self.order(&Request::Disconnect { port: port.into() })
    }

    /// Ends the switch.
    ///
    /// # Errors
    /// As [`Connection::ask`].
    pub fn stop(&self) -> Result<()> {
        self.order(&Request::Stop)
    }

    /// Mirror sessions by number.
    ///
    /// # Errors
    /// As [`Connection::ask`].
    pub fn mirrors(&self) -> Result<BTreeMap<u16, Mirror>> {
        Ok(self.show()?.mirrors)
    }
}

fn unexpected(answer: &Answer) -> Error {
    let text: String = format!("{answer:?}").chars().take(60).collect();
    Error::Message(format!("an answer to something else: {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_switch_that_does_not_answer_is_told_with_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("switch");
        let _listener = protocol::Listener::bind(&path).unwrap();
        let silent = Connection::open(&path).unwrap().unwrap().within(Duration::from_millis(50));
        let late = netloom_sys::describe(&silent.show().unwrap_err());
        let own = std::process::id();
        let words =
            format!("process {own} has not answered for 50ms; `kill -CONT {own}` continues it");
        assert!(late.contains(&words), "{late}");
    }
}
