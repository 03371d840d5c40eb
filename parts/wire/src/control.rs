//! Communication with the wire process, over its control socket.
//!
//! What carries requests, with the descriptors of ports, is `netloom_control`. Requests of one connection are answered in
//! order, each before the next is read.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::time::Duration;

use netloom_control::{Client, PATIENCE, Protocol, unexpected};
pub use netloom_fidelity::{Lateness, recent::Shown};
use netloom_impair::{Impairments, Ledger};
use netloom_port::Kind;
use netloom_sys::process::wait_readable;
use serde::{Deserialize, Serialize};

use crate::error::CONTROL;
pub use crate::fates::Record;
use crate::{Error, Result};

pub use netloom_control::{Fault, listen};

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
        directions: Box<[Option<DirectionSpec>; 2]>,
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
    /// The same over the last seconds; nothing from a process of an older version.
    #[serde(default)]
    pub recent: Shown,
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

/// What the process is asked, and answers.
#[derive(Debug)]
pub enum Wires {}

impl Protocol for Wires {
    const OBJECT: &'static str = CONTROL;
    const IS_REPLACED: bool = true;
    type Request = Request;
    type Answer = Answer;
    type Error = Error;

    fn refuse(reason: String) -> Option<Answer> {
        Some(Answer::Failed(reason))
    }

    fn judge(answer: Answer) -> Result<Answer, String> {
        match answer {
            Answer::Failed(reason) => Err(reason),
            answer => Ok(answer),
        }
    }

    fn is_done(answer: &Answer) -> bool {
        matches!(answer, Answer::Done)
    }
}

/// A connection to the process.
#[derive(Debug)]
pub struct Connection {
    client: Client<Wires>,
    path: PathBuf,
    patience: Duration,
}

impl Connection {
    /// [`Client::open`].
    ///
    /// # Errors
    /// As [`Client::open`].
    pub fn open(path: &Path) -> Result<Option<Connection>> {
        let (path, patience) = (path.to_owned(), PATIENCE);
        Ok(Client::open(&path)?.map(|client| Connection { client, path, patience }))
    }

    /// Limits the wait for each answer from now on.
    #[must_use]
    pub fn within(self, patience: Duration) -> Connection {
        Connection { client: self.client.within(patience), patience, ..self }
    }

    /// Ends a wire; returns its final state. A wire that is drained ends with its last frame, which is waited for as
    /// long as the process answers others.
    ///
    /// # Errors
    /// As [`Client::ask`].
    pub fn remove(&self, wire: usize, drain: bool) -> Result<WireState> {
        self.client.send(&Request::Remove { wire, drain }, &[])?;
        while drain && !wait_readable(&self.client, self.patience) && self.answers_others(wire) {}
        match self.client.answer()? {
            Answer::Removed(state) => Ok(*state),
            other => Err(unexpected(&other).into()),
        }
    }

    /// Whether the process answers another client. What it says does not matter: the wire may just have ended.
    fn answers_others(&self, wire: usize) -> bool {
        let Ok(Some(other)) = Client::<Wires>::open(&self.path) else { return false };
        let asked = other.within(self.patience).ask(&Request::List { wire: Some(wire) }, &[]);
        matches!(asked, Ok(_) | Err(Error::Refused(_)))
    }

    /// The state of all wires, or of one.
    ///
    /// # Errors
    /// As [`Client::ask`].
    pub fn list(&self, wire: Option<usize>) -> Result<BTreeMap<usize, WireState>> {
        match self.client.ask(&Request::List { wire }, &[])? {
            Answer::Wires(wires) => Ok(wires),
            other => Err(unexpected(&other).into()),
        }
    }

    /// Reads the fates of a direction after a sequence number.
    ///
    /// # Errors
    /// As [`Client::ask`].
    pub fn fates(
        &self,
        wire: usize,
        direction: usize,
        after: Option<u64>,
        most: usize,
    ) -> Result<Fates> {
        match self.client.ask(&Request::ReadFates { wire, direction, after, most }, &[])? {
            Answer::Fates(fates) => Ok(fates),
            other => Err(unexpected(&other).into()),
        }
    }
}

impl Deref for Connection {
    type Target = Client<Wires>;

    fn deref(&self) -> &Client<Wires> {
        &self.client
    }
}
