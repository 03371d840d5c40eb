//! Communication with the wire process, over its control socket.
//!
//! A SOCK_SEQPACKET UNIX socket; a message is one JSON value, accompanied by the descriptors of its
//! ports (`netloom_sys::envelope`). Each side accepts only peers of its own
//! user. Requests of one connection are answered in order, each before the next is read.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use netloom_impair::{Impairments, Ledger};
use netloom_port::Kind;
use netloom_sys::envelope::{self, Received};
pub use netloom_sys::envelope::{Envelope, MOST_INLINE, MOST_MESSAGE};
use netloom_sys::scm;
use netloom_sys::{Failure, process::wait_readable};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::{CONTROL, WIRES};
pub use crate::fates::Record;
pub use crate::lateness::Lateness;
use crate::{Error, Result};

/// Most records of one [`Request::ReadFates`], and most kept by [`Request::Fates`].
pub const MOST_RECORDS: usize = 1 << 17;

/// Requests to the process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// Adds a wire; frames flow from then on. The descriptors of `ports` come with the message in
    /// the same order. Answered by [`Answer::Done`].
    Add {
        /// The link's number: identifies the wire from now on.
        wire: usize,
        /// The kinds of the descriptors. One that serves both directions comes once.
        ports: Vec<PortKind>,
        /// The wire's directions; `None` for an absent one.
        directions: [Option<DirectionSpec>; 2],
    },
    /// Changes the impairments from the next frame on; held frames keep their times. The `seed` in
    /// them is ignored. Answered by [`Answer::Done`].
    Set {
        /// The wire.
        wire: usize,
        /// 0 or 1.
        direction: usize,
        /// The new impairments.
        impairments: Impairments,
    },
    /// Ends a wire and closes its ports. Answered by [`Answer::Removed`] once that is done.
    Remove {
        /// The wire.
        wire: usize,
        /// Whether pending and held frames are delivered first, each at its time; else they are
        /// lost.
        drain: bool,
    },
    /// Lists all wires, or one. Answered by [`Answer::Wires`].
    List {
        /// The only wire to list.
        #[serde(default)]
        wire: Option<usize>,
    },
    /// Keeps the fates of the last `keep` frames of a direction; 0 stops and forgets. Answered by
    /// [`Answer::Done`].
    Fates {
        /// The wire.
        wire: usize,
        /// 0 or 1.
        direction: usize,
        /// Number of fates, at most [`MOST_RECORDS`].
        keep: usize,
    },
    /// Reads kept fates, oldest first. Answered by [`Answer::Fates`].
    ReadFates {
        /// The wire.
        wire: usize,
        /// 0 or 1.
        direction: usize,
        /// Only those with a greater sequence number; all if `None`.
        #[serde(default)]
        after: Option<u64>,
        /// Number of fates, at most [`MOST_RECORDS`].
        most: usize,
    },
    /// Ends the process. Held frames are lost. Answered by [`Answer::Done`], then the connection
    /// closes.
    Stop,
}

/// The kind of a descriptor's port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PortKind {
    /// A tap.
    Tap,
    /// A packet socket.
    Packet,
}

impl From<PortKind> for Kind {
    fn from(kind: PortKind) -> Kind {
        match kind {
            PortKind::Tap => Kind::Tap,
            PortKind::Packet => Kind::Packet,
        }
    }
}

/// One direction of a new wire. A port is the input of at most one direction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DirectionSpec {
    /// The impairments of its frames.
    pub impairments: Impairments,
    /// Seed of its random numbers.
    pub seed: u64,
    /// The input: an index in `ports`.
    pub input: usize,
    /// The output: an index in `ports`.
    pub output: usize,
}

/// Answers of the process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// The request succeeded.
    Done,
    /// The request failed, with the reason.
    Failed(String),
    /// The wire is gone; its final state.
    Removed(Box<WireState>),
    /// The wires by number.
    Wires(BTreeMap<usize, WireState>),
    /// Fates.
    Fates(Fates),
}

/// The state of a wire: its directions.
pub type WireState = [Option<DirectionState>; 2];

/// The state of a direction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectionState {
    /// Its impairments.
    pub impairments: Impairments,
    /// Its ledger; frames that the input lost before they could be read count as offered and overrun.
    pub ledger: Ledger,
    /// Frames held; a super-frame counts as one.
    pub held_frames: usize,
    /// Their bytes, including virtio-net headers.
    pub held_bytes: u64,
    /// Whether the output accepts nothing at present.
    pub blocked: bool,
    /// Whether its input is gone.
    pub input_gone: bool,
    /// Frames that the input lost because they were not read in time, if it tells.
    pub overruns: Option<u64>,
    /// How late held frames were delivered.
    pub lateness: Lateness,
    /// A port's last answer that no kernel is known to give.
    pub trouble: Option<String>,
}

/// Fates of frames.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fates {
    /// Oldest first.
    pub records: Vec<Record>,
    /// Number of records after `after` that were forgotten before they were read.
    pub missed: u64,
}

/// A connection to the process.
#[derive(Debug)]
pub struct Connection {
    socket: OwnedFd,
}

impl Connection {
    /// Connects to the socket at `path`. `Ok(None)` if nobody listens.
    ///
    /// # Errors
    /// [`Error::Failed`] if the system refuses, [`Error::Stranger`] if another user listens.
    pub fn open(path: &Path) -> Result<Option<Connection>> {
        let Some(socket) = envelope::connect(CONTROL, path)? else { return Ok(None) };
        check_peer(&socket)?;
        Ok(Some(Connection { socket }))
    }

    /// The process's id in this PID namespace; `None` if it is not visible.
    pub fn process(&self) -> Option<rustix::process::Pid> {
        scm::peer_pid(&self.socket)
    }

    /// Sends a request and waits for the answer; [`Answer::Failed`] becomes [`Error::Refused`].
    ///
    /// # Errors
    /// [`Error::Ended`] if the process ended instead; [`Error::Failed`] for other failures.
    pub fn ask(&self, request: &Request, ports: &[BorrowedFd<'_>]) -> Result<Answer> {
        self.send(request, ports)?;
        self.answer()
    }

    /// Like [`Connection::ask`], waiting at most `timeout`; `Ok(None)` after that. The answer may
    /// still come and would be taken for that of a later request, so connect again.
    ///
    /// # Errors
    /// As [`Connection::ask`].
    pub fn ask_within(&self, request: &Request, timeout: Duration) -> Result<Option<Answer>> {
        self.send(request, &[])?;
        if wait_readable(&self.socket, timeout) { self.answer().map(Some) } else { Ok(None) }
    }

    /// Sends a request without waiting for its answer.
    ///
    /// # Errors
    /// [`Error::Failed`] if the system refuses.
    pub fn send(&self, request: &Request, ports: &[BorrowedFd<'_>]) -> Result<()> {
        send_value(&self.socket, request, ports)
    }

    /// Waits for an answer.
    ///
    /// # Errors
    /// As [`Connection::ask`].
    pub fn answer(&self) -> Result<Answer> {
        match receive_value(&self.socket)? {
            Some((Answer::Failed(reason), _)) => Err(Error::Refused(reason)),
            Some((answer, _)) => Ok(answer),
            None => Err(Error::Ended),
        }
    }

    /// Sends a request that is answered by [`Answer::Done`].
    ///
    /// # Errors
    /// As [`Connection::ask`].
    pub fn order(&self, request: &Request, ports: &[BorrowedFd<'_>]) -> Result<()> {
        match self.ask(request, ports)? {
            Answer::Done => Ok(()),
            _ => Err(unexpected()),
        }
    }

    /// Ends a wire; returns its final state.
    ///
    /// # Errors
    /// As [`Connection::ask`].
    pub fn remove(&self, wire: usize, drain: bool) -> Result<WireState> {
        match self.ask(&Request::Remove { wire, drain }, &[])? {
            Answer::Removed(state) => Ok(*state),
            _ => Err(unexpected()),
        }
    }

    /// The state of all wires, or of one.
    ///
    /// # Errors
    /// As [`Connection::ask`].
    pub fn list(&self, wire: Option<usize>) -> Result<BTreeMap<usize, WireState>> {
        match self.ask(&Request::List { wire }, &[])? {
            Answer::Wires(wires) => Ok(wires),
            _ => Err(unexpected()),
        }
    }

    /// Reads the fates of a direction after a sequence number.
    ///
    /// # Errors
    /// As [`Connection::ask`].
    pub fn fates(
        &self,
        wire: usize,
        direction: usize,
        after: Option<u64>,
        most: usize,
    ) -> Result<Fates> {
        match self.ask(&Request::ReadFates { wire, direction, after, most }, &[])? {
            Answer::Fates(fates) => Ok(fates),
            _ => Err(unexpected()),
        }
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn unexpected() -> Error {
    Failure::new(CONTROL, "understand the answer", io::Error::from(io::ErrorKind::InvalidData))
        .into()
}

/// Refuses a peer that runs as another user.
pub(crate) fn check_peer(socket: &OwnedFd) -> Result<()> {
    let peer =
        scm::peer_uid(socket).map_err(|e| Failure::new(WIRES, "read the peer's credentials", e))?;
    let own = rustix::process::geteuid().as_raw();
    if peer == own { Ok(()) } else { Err(Error::Stranger(peer)) }
}

/// Sends a value with descriptors.
pub(crate) fn send_value<T: Serialize>(
    socket: &OwnedFd,
    value: &T,
    fds: &[BorrowedFd<'_>],
) -> Result<()> {
    Ok(envelope::send(CONTROL, socket, value, fds)?)
}

/// Receives a value with descriptors; `Ok(None)` if the peer is gone. After [`Error::Message`] the
/// connection remains usable.
pub(crate) fn receive_value<T: DeserializeOwned>(
    socket: &OwnedFd,
) -> Result<Option<(T, Vec<OwnedFd>)>> {
    match envelope::receive(CONTROL, socket)? {
        Received::Value(value, fds) => Ok(Some((value, fds))),
        Received::Malformed(reason) => Err(Error::Message(reason)),
        Received::Ended => Ok(None),
    }
}
