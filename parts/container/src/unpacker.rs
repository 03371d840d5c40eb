//! The process that unpacks: it has the ids of the files' owners, nothing of its maker but the store, and ends with it.
//!
//! It is forked before its maker starts threads. In an ordinary user's store it enters a user namespace like that of the
//! labs that will use the files. Orders are numbers of layers, answers are lines of JSON, over a pair of sockets.

use std::io::{BufRead, BufReader, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use netloom_sys::process::{self, Forked, Namespaces};
use netloom_sys::subordinate::{self, Given};
use netloom_sys::{Failure, describe, feature};
use rustix::fs::Mode;
use rustix::process::Pid;
use serde::{Deserialize, Serialize};

use crate::options::Owners;
use crate::unpack::Job;
use crate::{Error, Result, Store};

/// Its name in the process list.
const NAME: &str = "netloom-unpack";

/// The least time between two reports on a layer.
const BETWEEN: Duration = Duration::from_millis(100);

/// What it reports.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Report {
    /// Bytes of a layer so far.
    Bytes(u64),
    /// A layer is there.
    Done(usize),
    /// It went wrong: the error in words, with the image's name.
    Failed(String),
}

/// The process.
pub(crate) struct Unpacker {
    socket: Option<UnixStream>,
    pid: Pid,
}

impl Unpacker {
    /// Forks it for a job; this process must have one thread.
    pub(crate) fn start(job: &Job<'_>) -> Result<Unpacker> {
        let pair = UnixStream::pair();
        let (ours, theirs) = pair.map_err(|e| Failure::new("unpacker", "connect", e))?;
        let forked = process::fork_alone(Namespaces::NONE, None)
            .map_err(|e| Failure::new("unpacker", "fork", e))?;
        match forked {
            Forked::Parent(pid) => Ok(Unpacker { socket: Some(ours), pid }),
            Forked::Child => {
                drop(ours);
                work(job, theirs)
            }
        }
    }

    /// Where it reads orders from.
    pub(crate) fn orders(&self) -> Result<Orders> {
        let socket = self.socket.as_ref().map(UnixStream::try_clone);
        let socket = socket.unwrap_or_else(|| Err(std::io::ErrorKind::NotConnected.into()));
        Ok(Orders(socket.map_err(|e| Failure::new("unpacker", "ask", e))?))
    }

    /// Its reports, until it ends or all is done.
    pub(crate) fn reports(&self) -> Result<impl Iterator<Item = Report>> {
        let orders = self.orders()?;
        let lines = BufReader::new(orders.0).lines();
        Ok(lines.map_while(|line| line.ok()).filter_map(|line| serde_json::from_str(&line).ok()))
    }
}

impl Drop for Unpacker {
    fn drop(&mut self) {
        if let Some(socket) = self.socket.take() {
            // Copies of it may be open: closing this one would not end the process.
            let _ = socket.shutdown(std::net::Shutdown::Both);
        }
        let _ = process::wait_or_stop(self.pid);
    }
}

/// The way in which it is told what to do.
pub(crate) struct Orders(UnixStream);

impl Orders {
    /// Orders a layer to be unpacked: its file is there, and those below were ordered before.
    pub(crate) fn unpack(&mut self, index: usize) {
        // If it is gone, its reports say so.
        let _ = writeln!(self.0, "{index}");
    }

    /// Ends it: nobody waits for it any more.
    pub(crate) fn end(&self) {
        let _ = self.0.shutdown(std::net::Shutdown::Both);
    }
}

fn work(job: &Job<'_>, socket: UnixStream) -> ! {
    let socket = OwnedFd::from(socket);
    // Nothing of the maker's is left to a process that reads strangers' archives.
    process::close_all_but(&[socket.as_fd()]);
    process::set_name(NAME);
    let socket = UnixStream::from(socket);
    let tell = |report: &Report| {
        let line = serde_json::to_string(report).unwrap_or_default();
        // Without a listener there is nothing to do any more.
        if writeln!(&socket, "{line}").is_err() {
            process::exit_now(1);
        }
    };
    if let Err(words) = begin(job.owners) {
        let words = format!("image {:?}: unpack: {words}", job.image);
        tell(&Report::Failed(words));
        process::exit_now(1);
    }
    // With the owners' ids: what killed processes left may be removable only so.
    job.store.sweep();
    let Ok(orders) = socket.try_clone() else { process::exit_now(1) };
    for order in BufReader::new(orders).lines().map_while(|line| line.ok()) {
        let Ok(index) = order.parse::<usize>() else { break };
        let mut last = Instant::now();
        let done = job.unpack(index, &mut |bytes| {
            if last.elapsed() >= BETWEEN {
                last = Instant::now();
                tell(&Report::Bytes(bytes));
            }
        });
        match done {
            Ok(()) => tell(&Report::Done(index)),
            Err(e) => {
                tell(&Report::Failed(describe(&e)));
                // Layers above would miss this one.
                break;
            }
        }
    }
    process::exit_now(0)
}

/// Takes the ids that it needs, and the permissions that archives give.
fn begin(owners: Owners) -> std::result::Result<(), String> {
    let words = |e: netloom_sys::Error| describe(&e);
    process::die_with_parent(true).map_err(words)?;
    // Archives say all permissions themselves.
    rustix::process::umask(Mode::empty());
    match owners {
        Owners::Root => Ok(()),
        // Where there is none, files are made without rights over others' permissions.
        Owners::One => feature::enter_own_user_namespace().or(Ok(())),
        Owners::Many => {
            let given = Given::find().map_err(|e| describe(&e))?;
            match subordinate::enter(&given).map_err(words)? {
                None => Ok(()),
                Some(refusal) => Err(refusal),
            }
        }
    }
}

/// What a report of failure becomes.
pub(crate) fn failure(words: String) -> Error {
    Error::Told(words)
}

/// Removes what lies in `staging` and belongs to nobody, with the ids of its owners.
pub(crate) fn clean(store: &Store) {
    store.sweep();
    let is_empty = std::fs::read_dir(store.at("staging")).is_ok_and(|mut all| all.next().is_none());
    if is_empty || netloom_sys::caps::is_privileged() {
        return;
    }
    for owners in [Owners::One, Owners::Many] {
        // A namespace is entered for good: each kind needs a process.
        match process::fork_alone(Namespaces::NONE, None) {
            Ok(Forked::Parent(pid)) => drop(process::wait_or_stop(pid)),
            Ok(Forked::Child) => {
                if begin(owners).is_ok() {
                    store.sweep();
                }
                process::exit_now(0)
            }
            // Remains are removed another time.
            Err(_) => return,
        }
    }
}
