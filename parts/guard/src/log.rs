//! The log: a line of JSON for each decision.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use netloom_policy::pattern::Peers;
use netloom_policy::{Port, Request, Target};
use serde::{Deserialize, Serialize};

use crate::judge::Judgement;
use crate::who::Who;

/// Why a verdict is what it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// A rule, as its line in the policy.
    Rule(String),
    /// No rule matched.
    Default,
    /// A person answered.
    Answer,
    /// Nobody answered.
    Unanswered,
    /// A name is only looked up: whether it may be reached is asked.
    LookedUp,
    /// The policy is frozen and does not know the request.
    Frozen,
    /// Everything is allowed, to be learned.
    Learning,
    /// Others than a rule's peers could not be kept from the listener, for this reason.
    Peers(&'static str),
}

/// A decision.
pub(crate) struct Decided<'d> {
    pub(crate) who: &'d Who,
    pub(crate) request: &'d Request,
    pub(crate) judgement: Judgement,
    pub(crate) reason: Reason,
    /// The peers that may reach a listener; `None` is all.
    pub(crate) from: Option<Peers>,
    pub(crate) took: Duration,
}

/// A decision as it is written.
#[derive(Serialize)]
struct Line<'l> {
    time: String,
    program: &'l str,
    #[serde(skip_serializing_if = "str::is_empty")]
    called: &'l str,
    arguments: &'l [String],
    pid: i32,
    parent: i32,
    direction: &'static str,
    protocol: String,
    target: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    chosen_port: Option<u32>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    names: &'l [String],
    answer: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    errno: Option<i32>,
    because: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<&'l str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<Vec<String>>,
    latency_us: u64,
}

/// What a report reads of a line.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Entry {
    /// When, as RFC 3339 writes it.
    pub time: String,
    /// The executable.
    pub program: String,
    /// out, in or open.
    pub direction: String,
    /// The protocol.
    pub protocol: String,
    /// Address and port, or the socket.
    pub target: String,
    /// Names by which the address is known.
    #[serde(default)]
    pub names: Vec<String>,
    /// allow, deny or withdrawn.
    pub answer: String,
}

impl Entry {
    /// Reads a line of a log; `None` if it is none.
    pub fn parse(line: &[u8]) -> Option<Entry> {
        serde_json::from_slice(line).ok()
    }
}

/// Where decisions are written.
#[derive(Debug)]
pub struct Log(Mutex<Lines>);

#[derive(Debug)]
struct Lines {
    file: File,
    /// The last line may be without its end.
    cut: bool,
    /// Lines that could not be written.
    lost: u64,
    /// Why the first of them could not.
    why: Option<io::Error>,
}

impl Lines {
    /// A line is one write, so that several supervisors may share a file.
    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        // A disk that was full may have taken half a line, which must not run into this one.
        let line = if self.cut { [b"\n", line].concat() } else { line.to_vec() };
        let mut rest = line.as_slice();
        while !rest.is_empty() {
            match self.file.write(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    rest = rest.get(written..).unwrap_or_default();
                    self.cut = !rest.is_empty();
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }
}

impl Log {
    /// Appends to a file, which only its owner may read: arguments of programs may hold secrets.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn append(path: &Path) -> io::Result<Log> {
        // O_APPEND: each write goes to the end, also while others write to the file.
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
        Ok(Log(Mutex::new(Lines { file, cut: false, lost: 0, why: None })))
    }

    /// Lines that could not be written, and why the first one could not.
    pub(crate) fn lost(&self) -> Option<(u64, io::Error)> {
        let mut lines = self.lock();
        let why = lines.why.take()?;
        Some((lines.lost, why))
    }

    fn lock(&self) -> MutexGuard<'_, Lines> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes a decision. A full disk loses lines, which are counted, and stops no program.
    pub(crate) fn write(&self, decided: &Decided<'_>) {
        let Ok(mut line) = serde_json::to_vec(&Line::of(decided)) else { return };
        line.push(b'\n');
        let mut lines = self.lock();
        if let Err(why) = lines.write(&line) {
            lines.lost += 1;
            // The first reason: those after it, such as a full disk, mostly follow from it.
            lines.why.get_or_insert(why);
        }
    }
}

impl<'l> Line<'l> {
    fn of(decided: &'l Decided<'_>) -> Line<'l> {
        let Decided { who, request, judgement, reason, from, took } = decided;
        let (answer, errno) = match judgement {
            Judgement::Allow => ("allow", None),
            Judgement::Deny(errno) => ("deny", Some(*errno)),
            Judgement::Withdrawn => ("withdrawn", None),
        };
        let (because, rule) = match reason {
            Reason::Rule(rule) => ("rule", Some(rule.as_str())),
            Reason::Default => ("default", None),
            Reason::Answer => ("answer", None),
            Reason::Unanswered => ("unanswered", None),
            Reason::LookedUp => ("looked-up", None),
            Reason::Frozen => ("frozen", None),
            Reason::Learning => ("learning", None),
            Reason::Peers(_) => ("from", None),
        };
        let why = if let Reason::Peers(why) = reason { Some(*why) } else { None };
        let (target, names) = plain(&request.target);
        let chosen_port = match request.target.port() {
            Port::Free(port) if port > 0 => Some(port),
            _ => None,
        };
        Line {
            time: Timestamp::now().to_string(),
            program: &who.program.path,
            called: if who.program.path.is_empty() { &who.called } else { "" },
            arguments: &who.arguments,
            pid: who.pid,
            parent: who.parent,
            direction: request.direction.name(),
            protocol: request.protocol.to_string(),
            target,
            chosen_port,
            names,
            answer,
            errno,
            because,
            rule,
            why,
            from: from.as_ref().map(|from| from.words().collect()),
            latency_us: u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
        }
    }
}

/// The target without its names, and the names.
fn plain(target: &Target) -> (String, &[String]) {
    match target {
        Target::Ip { address, port, names, resolver } => {
            let (address, port, resolver) = (*address, *port, *resolver);
            let bare = Target::Ip { address, port, names: vec![], resolver };
            (bare.to_string(), names)
        }
        other => (other.to_string(), &[]),
    }
}
