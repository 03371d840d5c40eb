//! The thread that hands out descriptors for entering a node, or passes the caller's descriptors to the
//! node's init if the caller may not enter.
//!
//! A connection (SOCK_SEQPACKET) carries one question and one answer, each one JSON value in one message. The
//! answer comes with the descriptors that it counts: the init's pidfd, the `tasks` files of version 1
//! cgroups, the directory of the version 2 cgroup. The thread waits on all connections at once, so a silent
//! caller delays nobody; while there are too many, the oldest of the process with most of them is closed.

use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use netloom_lab::Service;
use netloom_node::Users;
use netloom_node::entry::Entry;
use netloom_sys::scm;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::SocketFlags;
use serde::{Deserialize, Serialize};

use crate::reply::Rejection;
use crate::socket::peer_is_trusted;

/// Largest question in bytes.
pub(crate) const MAX_ASK: usize = 4 * 1024;

/// Largest answer in bytes; below what a UNIX socket takes in one message by default.
pub(crate) const MAX_REPLY: usize = 128 * 1024;

/// Maximum number of connections that have not asked yet.
const MAX_CONNECTIONS: usize = 256;

/// How long a caller may take, if nothing else is said.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// Pause after a failed accept, e.g. for lack of descriptors, since the next one would fail too.
const ACCEPT_PAUSE: Duration = Duration::from_millis(5);

/// A caller's question.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Ask {
    /// Name of the node; an explicit `null` means the core namespace.
    #[serde(deserialize_with = "Option::deserialize")]
    pub(crate) node: Option<String>,
    /// Requests no entry: the node's init starts a program for the caller, whose descriptors are attached.
    #[serde(default)]
    pub(crate) run: bool,
}

/// An answer.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Reply {
    /// With descriptors: the init, then `tasks`, then the v2 directory. Lab processes of earlier versions call it so.
    #[serde(rename = "door")]
    Entry {
        /// The node's name.
        node: String,
        /// See [`Entry`].
        user: bool,
        /// See [`Entry`].
        #[serde(default)]
        own_user: bool,
        /// Environment of its programs.
        env: Vec<(String, String)>,
        /// Number of `tasks` files.
        tasks: usize,
        /// Whether there is a v2 directory.
        v2: bool,
        /// See [`Entry`].
        #[serde(default)]
        nested: bool,
        /// See [`Entry`].
        #[serde(default)]
        privileged: bool,
        /// See [`Entry`].
        #[serde(default)]
        users: Users,
        /// See [`Entry`].
        #[serde(default)]
        by_init: bool,
        /// See [`Entry`].
        #[serde(default)]
        machine: bool,
    },
    /// The init has the program's descriptors.
    Passed,
    /// Without descriptors.
    Refused {
        /// The HTTP status of the same failure.
        status: u16,
        /// The reason.
        error: String,
    },
}

/// Everything that the thread needs.
pub(crate) struct Handles {
    pub(crate) listener: OwnedFd,
    pub(crate) path: PathBuf,
    pub(crate) service: Arc<dyn Service>,
    /// Readable when the thread must end.
    pub(crate) stop: Arc<OwnedFd>,
    /// How long a caller may take to send its question.
    pub(crate) patience: Duration,
}

struct Waiting {
    socket: OwnedFd,
    /// Its process; `None` if that is not visible from here.
    pid: Option<i32>,
    until: Instant,
}

/// The one that gives way: the oldest of the process that has most.
fn first_to_go(waiting: &[Waiting]) -> Option<usize> {
    let mut counts: HashMap<Option<i32>, usize> = HashMap::new();
    for caller in waiting {
        *counts.entry(caller.pid).or_default() += 1;
    }
    let most = counts.values().max()?;
    waiting.iter().position(|caller| counts.get(&caller.pid) == Some(most))
}

/// The readable descriptors.
struct Readable {
    stop: bool,
    listener: bool,
    waiting: Vec<bool>,
}

impl Handles {
    /// Serves until told to stop.
    pub(crate) fn run(self) {
        let mut waiting: Vec<Waiting> = Vec::new();
        loop {
            let readable = self.wait(&waiting);
            if readable.stop {
                return;
            }
            let now = Instant::now();
            let mut can_read = readable.waiting.into_iter();
            waiting.retain(|caller| {
                let finished = can_read.next() == Some(true) && self.serve(&caller.socket);
                !finished && caller.until > now
            });
            // After the others: a new connection may make one of them give way.
            if readable.listener {
                self.accept(&mut waiting);
            }
        }
    }

    fn wait(&self, waiting: &[Waiting]) -> Readable {
        let mut fds = vec![
            PollFd::new(&*self.stop, PollFlags::IN),
            PollFd::new(&self.listener, PollFlags::IN),
        ];
        fds.extend(waiting.iter().map(|w| PollFd::new(&w.socket, PollFlags::IN)));
        let until = waiting.iter().map(|w| w.until).min();
        let left = until.map(|u| u.saturating_duration_since(Instant::now()));
        let left = left.and_then(|d| Timespec::try_from(d).ok());
        // A signal ends the wait early: then nothing is marked and the next round waits again.
        let ready = rustix::event::poll(&mut fds, left.as_ref()).is_ok();
        let mut marks = fds.iter().map(|fd| ready && !fd.revents().is_empty());
        Readable {
            stop: marks.next() == Some(true),
            listener: marks.next() == Some(true),
            waiting: marks.collect(),
        }
    }

    fn accept(&self, waiting: &mut Vec<Waiting>) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        match rustix::net::accept_with(&self.listener, flags) {
            Ok(socket) if peer_is_trusted(&socket, &self.path) => {
                if waiting.len() >= MAX_CONNECTIONS
                    && let Some(at) = first_to_go(waiting)
                {
                    waiting.remove(at);
                }
                let pid = scm::peer_pid(&socket).map(|pid| pid.as_raw_nonzero().get());
                waiting.push(Waiting { socket, pid, until: Instant::now() + self.patience });
            }
            // The caller may have gone between poll(2) and accept(2).
            Ok(_) | Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => {}
            Err(e) => {
                tracing::warn!("{:?}: accept: {e}", self.path);
                if let Some(at) = first_to_go(waiting) {
                    waiting.remove(at);
                }
                std::thread::sleep(ACCEPT_PAUSE);
            }
        }
    }

    /// Answers a caller that has sent something. Returns whether the connection is finished.
    fn serve(&self, socket: &OwnedFd) -> bool {
        // One byte above the limit reveals a message that is too large.
        let mut buffer = [0; MAX_ASK + 1];
        let (received, fds) = match scm::receive(socket, &mut buffer) {
            Ok(received) => received,
            Err(e) => return e.raw_os_error() != Some(Errno::AGAIN.raw_os_error()),
        };
        if received > 0 {
            let sent = match self.answer(&buffer[..received], &fds) {
                Ok(Some(entry)) => send_entry(socket, &entry),
                Ok(None) => scm::send(socket, &encode(&Reply::Passed), &[]),
                Err(failure) => send_refusal(socket, failure),
            };
            if let Err(e) = sent {
                tracing::debug!("{:?}: answer: {e}", self.path);
            }
        }
        true
    }

    /// An entry, or `None` when the init got the program's descriptors.
    fn answer(&self, ask: &[u8], fds: &[OwnedFd]) -> std::result::Result<Option<Entry>, Rejection> {
        let wrong = |why: String| Rejection::new(axum::http::StatusCode::BAD_REQUEST, why);
        if ask.len() > MAX_ASK {
            return Err(wrong(format!("question: larger than {MAX_ASK} bytes")));
        }
        let Ask { node, run } =
            netloom_form::read(ask).map_err(|e| wrong(format!("question: {e}")))?;
        let entry = || match &node {
            Some(node) if run => self.service.run_in(node, fds).map(|()| None),
            Some(node) => self.service.entry(node).map(Some),
            None => self.service.core().map(Some),
        };
        match catch_unwind(AssertUnwindSafe(entry)) {
            Ok(entry) => entry.map_err(Rejection::from),
            Err(_) => Err(Rejection::panicked()),
        }
    }
}

fn send_entry(socket: &OwnedFd, entry: &Entry) -> netloom_sys::Result<usize> {
    let groups = &entry.groups;
    let fds: Vec<BorrowedFd<'_>> = std::iter::once(&entry.init)
        .chain(&groups.tasks)
        .chain(&groups.v2)
        .map(AsFd::as_fd)
        .collect();
    let reply = Reply::Entry {
        node: entry.node.clone(),
        user: entry.user,
        own_user: entry.own_user,
        env: entry.env.clone(),
        tasks: groups.tasks.len(),
        v2: groups.v2.is_some(),
        nested: entry.nested,
        privileged: entry.privileged,
        users: entry.users,
        by_init: entry.by_init,
        machine: entry.machine,
    };
    let bytes = encode(&reply);
    if bytes.len() > MAX_REPLY || fds.len() > scm::MAX_FDS {
        let why = format!("node {:?}: its environment or its groups are too many", entry.node);
        let status = axum::http::StatusCode::INTERNAL_SERVER_ERROR;
        return send_refusal(socket, Rejection::new(status, why));
    }
    scm::send(socket, &bytes, &fds)
}

fn send_refusal(socket: &OwnedFd, failure: Rejection) -> netloom_sys::Result<usize> {
    let reply = Reply::Refused { status: failure.status, error: failure.problem.detail };
    scm::send(socket, &encode(&reply), &[])
}

fn encode(reply: &Reply) -> Vec<u8> {
    // Serialising plain data to memory cannot fail; an empty message reads as a closed connection.
    serde_json::to_vec(reply).unwrap_or_default()
}
