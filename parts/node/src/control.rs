//! Client of a node's init over its control socket.
//!
//! What carries them is `netloom_control`, each message bare, so that inits of older versions are understood: of at most
//! [`MAX_MESSAGE`] bytes. An init answers processes of its own user only. The kernel reports the listening process, so the
//! socket identifies its init without a pid that may have been reused.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::time::Duration;

use netloom_control::{Client, Fault, Form, PATIENCE, Protocol, Trust};
use netloom_model::lab::{Health, Program, Ready};
use netloom_sys::Failure;
use rustix::process::Pid;
use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// Largest message in bytes.
pub const MAX_MESSAGE: usize = 64 * 1024;

/// Request to an init.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Request {
    /// Run the commands of `setup`, then start the programs. The answer comes when the node is ready or has
    /// failed to become ready.
    Start,
    /// Do the commands of `exec`, one after the other. The answer is [`Answer::Ready`] when they are done, or
    /// [`Answer::Failed`]. An init of an older version closes the connection.
    Exec,
    /// State of the programs.
    Programs,
    /// State of the node. An init of an older version does not know this request and closes the connection.
    Report,
    /// Start a program for the caller whose descriptors are attached ([`crate::by_init`]). There is no
    /// answer: the caller has its own socket to the deputy. An init of an older version closes the
    /// connection.
    Run,
    /// Have other programs: a [`Wanted`] in the first descriptor attached, and two files for a log after it, for an init
    /// that has none. The answers are those to [`Request::Start`]. An init of an older version closes the connection.
    Change,
    /// Read what the node may use and has used from other files of its groups, which have these names: they are attached.
    /// The connection's end is the answer. An init of an older version closes it, too.
    Gauges(Vec<String>),
    /// Stop the programs, first by SIGTERM, then the node. The connection's end is the answer.
    Stop {
        /// How long programs may take to end, in milliseconds.
        grace_ms: u64,
    },
}

/// What a living node shall run from now on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    /// Its programs: those that it has and are equal run on, in the same environment.
    pub run: Vec<Program>,
    /// Their whole environment.
    pub env: Vec<(String, String)>,
    /// When it counts as ready.
    pub ready: Ready,
    /// The check that repeats from then on.
    #[serde(default)]
    pub health: Option<Health>,
}

/// An init's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// The node is ready.
    Ready,
    /// The node has failed to become ready: the reason.
    Failed(String),
    /// A program has ended with an error and is not started again: which, how, and its last lines. Sent to
    /// every connection that requested the start, each time it happens, before and after the answer.
    Ended(String),
    /// A command of `exec` that may fail has failed: which, how, and its last lines.
    Missed(String),
    /// The programs, in the order of the file.
    Programs(Vec<ProgramState>),
    /// State of the node.
    Report(NodeReport),
}

/// State of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeReport {
    /// The programs, in the order of the file.
    pub programs: Vec<ProgramState>,
    /// What the node still waits for before it is ready.
    pub waits_for: Option<String>,
    /// Why the node failed to become ready.
    pub failed: Option<String>,
    /// The results of its check that repeats, if it has one and is ready.
    #[serde(default)]
    pub health: Option<HealthState>,
}

/// Results of a check that repeats.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HealthState {
    /// Whether this many checks in a row have failed that the node counts as unhealthy; `None`: no check has ended yet, or
    /// all have failed, but not so many.
    pub healthy: Option<bool>,
    /// How many checks have failed in a row.
    pub failures: u32,
    /// Why the last one did.
    pub reason: Option<String>,
}

impl NodeReport {
    /// A report with the programs only.
    pub fn of_programs(programs: Vec<ProgramState>) -> NodeReport {
        NodeReport { programs, ..NodeReport::default() }
    }
}

/// State of a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramState {
    /// Its argument list.
    pub command: Vec<String>,
    /// Its pid in the node, while it runs.
    pub pid: Option<i32>,
    /// Its last exit status, as a shell shows it.
    pub exit_code: Option<i32>,
    /// The signal that ended it, if any.
    // Inits of older versions do not tell it.
    #[serde(default)]
    pub signal: Option<i32>,
    /// It has ended and is not started again.
    #[serde(default)]
    pub ended: bool,
    /// How often it was started again.
    pub restarts: u32,
    /// When it is started again, in milliseconds.
    #[serde(default)]
    pub restart_in_ms: Option<u64>,
}

/// What an init is asked, and answers.
#[derive(Debug)]
pub enum Inits {}

impl Protocol for Inits {
    const OBJECT: &'static str = "init: control socket";
    const FORM: Form = Form::Bare { most: MAX_MESSAGE };
    const TRUST: Trust = Trust::User;
    /// Each request of the lab process has a connection, and requests to start have one until the node is ready.
    const MOST_CLIENTS: usize = 256;
    type Request = Request;
    type Answer = Answer;
    type Error = Fault;

    // As inits of older versions do with what they do not know: callers must understand that in any case.
    fn refuse(_: String) -> Option<Answer> {
        None
    }

    fn judge(answer: Answer) -> std::result::Result<Answer, String> {
        Ok(answer)
    }
}

/// A connection to an init.
pub struct Connection {
    client: Client<Inits>,
    node: String,
}

impl Connection {
    /// Connects to the init of `node` by the path of its socket. `Ok(None)` when nobody listens: the init has
    /// ended, or never existed.
    pub fn open(node: &str, path: &Path) -> Result<Option<Connection>> {
        Connection::open_within(node, path, PATIENCE)
    }

    /// [`Connection::open`] with another bound: connecting and sending fail after `patience`.
    pub fn open_within(node: &str, path: &Path, patience: Duration) -> Result<Option<Connection>> {
        let client = Client::open_as(talk(node), path, patience).map_err(failed(node))?;
        Ok(client.map(|client| Connection { client, node: node.to_owned() }))
    }

    /// Limits the wait for each answer to a question.
    #[must_use]
    pub fn within(self, patience: Duration) -> Connection {
        Connection { client: self.client.within(patience), ..self }
    }

    /// Tells the init what to run from now on. `log`: two files, used if it has no log yet. The answers are those to
    /// [`Request::Start`].
    ///
    /// # Errors
    /// The init has ended, or there is no memory for the request.
    pub fn change(&self, wanted: &Wanted, log: [BorrowedFd<'_>; 2]) -> Result<()> {
        use std::io::Write;
        let fail = |e: io::Error| {
            Error::from(Failure::new(talk(&self.node), "write what it shall run", e))
        };
        // In a file: programs and their environment may be longer than a message.
        let memory = rustix::fs::memfd_create("wanted", rustix::fs::MemfdFlags::CLOEXEC);
        let mut memory = std::fs::File::from(memory.map_err(|e| fail(e.into()))?);
        let bytes = serde_json::to_vec(wanted).map_err(|e| fail(e.into()))?;
        memory.write_all(&bytes).map_err(fail)?;
        self.send_with(&Request::Change, &[memory.as_fd(), log[0], log[1]])
    }

    /// Requests the node's state. `Ok(None)` when the init has ended or does not know the request.
    pub fn report(&self) -> Result<Option<NodeReport>> {
        Ok(match self.ask(&Request::Report)? {
            Some(Answer::Report(report)) => Some(report),
            _ => None,
        })
    }

    /// The init's pid in the caller's PID namespace; `None` when the init is being torn down.
    pub fn init(&self) -> Option<Pid> {
        self.client.process()
    }

    /// Sends a question and waits for the answer. `Ok(None)` when the init ended instead.
    pub fn ask(&self, request: &Request) -> Result<Option<Answer>> {
        self.heard(self.client.ask(request, &[]))
    }

    /// Sends a request without waiting.
    pub fn send(&self, request: &Request) -> Result<()> {
        self.send_with(request, &[])
    }

    /// [`Connection::send`] with descriptors attached.
    pub fn send_with(&self, request: &Request, fds: &[BorrowedFd<'_>]) -> Result<()> {
        self.client.send(request, fds).map_err(failed(&self.node))
    }

    /// Waits for an answer, however long the node takes. `Ok(None)` when the init ended.
    pub fn receive(&self) -> Result<Option<Answer>> {
        self.heard(self.client.answer_within(None))
    }

    fn heard(&self, answer: std::result::Result<Answer, Fault>) -> Result<Option<Answer>> {
        match answer {
            Err(Fault::Ended) => Ok(None),
            answer => answer.map(Some).map_err(failed(&self.node)),
        }
    }
}

/// The exchange with a node's init, in errors.
fn talk(node: &str) -> String {
    format!("node {node:?}: init")
}

fn failed(node: &str) -> impl Fn(Fault) -> Error {
    move |fault| match fault {
        Fault::Failed(failure) => failure.into(),
        other => Failure::new(talk(node), "speak with it", io::Error::other(other)).into(),
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.client.as_fd()
    }
}
