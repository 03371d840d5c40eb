//! Living inits of nodes: found by their sockets, proved by what the kernel says of them, and whether they answer.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use netloom_model::plan::NodeId;
use netloom_node::control::{Connection, Request};
use netloom_node::init;
use netloom_node::spec::socket_name;
use netloom_sys::process::Status;
use netloom_sys::trusted::TrustedDir;
use netloom_sys::{namespace, process};
use rustix::fs::FileType;
use rustix::process::Pid;

use crate::store::state::Folder;
use crate::{Error, Result};

/// Time limit for an init to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// A living init.
#[derive(Debug)]
pub(crate) struct Init {
    /// The number of its socket.
    pub(crate) id: NodeId,
    pub(crate) pid: Pid,
    pub(crate) pidfd: OwnedFd,
}

impl Init {
    /// The init that listens on a control socket in the lab's folder of them, if one does. A link to a socket is none.
    ///
    /// # Errors
    /// Another process listens there.
    pub(crate) fn find(sockets: &TrustedDir, id: NodeId, node: &str) -> Result<Option<Init>> {
        let name = socket_name(id.get());
        if sockets.kind(&name) != Some(FileType::Socket) {
            return Ok(None);
        }
        let path = sockets.path_of(&name);
        let Some(connection) = Connection::open(node, &path)? else { return Ok(None) };
        let Some(pid) = connection.init() else { return Ok(None) };
        let pidfd = match process::pidfd(pid) {
            Ok(fd) => fd,
            Err(_) => return Ok(None),
        };
        let Some(status) = Status::of(pid.as_raw_nonzero()) else { return unseen(pid, &pidfd) };
        // This connection is younger than the pidfd: so the process lived, and its id was not reused.
        if Connection::open(node, &path)?.is_none() {
            return Ok(None);
        }
        match is_init(&status) {
            true => Ok(Some(Init { id, pid, pidfd })),
            false => Err(stranger(&path, pid, status.field("Name").unwrap_or_default())),
        }
    }

    /// Whether it has a network of its own: one that is not set up may still be in that of this process, where it was
    /// born. One that has its own keeps it.
    pub(crate) fn has_own_network(&self) -> bool {
        namespace::has_other_network(self.pid)
    }

    /// Whether it answers. A killed init does not, although its process may take some time to end.
    pub(crate) fn answers(&self, folder: &Folder, id: NodeId, node: &str) -> bool {
        let path = folder.sockets().join(socket_name(id.get()));
        let connection = Connection::open(node, &path);
        let answer = connection
            .ok()
            .flatten()
            .and_then(|c| c.within(ANSWER_TIMEOUT).ask(&Request::Programs).ok().flatten());
        answer.is_some()
    }

    /// Opens the network namespace of `node`, whose init this is.
    pub(crate) fn network(&self, node: &str) -> Result<OwnedFd> {
        let object = format!("node {node:?}");
        let ns = namespace::network_of(self.pid)
            .map_err(Error::of(object, "open its network namespace"));
        // Opened before the init was seen to live: so the namespace is the init's.
        if self.lives() { ns } else { Err(Error::DeadNode(node.to_owned())) }
    }

    /// Whether the process lives.
    pub(crate) fn lives(&self) -> bool {
        !process::has_ended(self.pidfd.as_fd())
    }
}

/// Whether the kernel says that a process is an init: it has the name, which nobody else gives it, and is the first of a
/// PID namespace below this one.
fn is_init(status: &Status) -> bool {
    let mut numbers = status.field("NSpid").unwrap_or_default().split_whitespace();
    let first = numbers.next_back() == Some("1") && numbers.next().is_some();
    status.field("Name") == Some(init::NAME) && first
}

/// What follows from a process of which `/proc` cannot be read: it has ended, or is hidden (`hidepid`) and cannot be judged,
/// or too many files are open for a moment.
pub(crate) fn unseen<T>(pid: Pid, pidfd: &OwnedFd) -> Result<Option<T>> {
    if process::has_ended(pidfd.as_fd()) {
        return Ok(None);
    }
    let pid = pid.as_raw_nonzero();
    let object = format!("process {pid}");
    match Path::new("/proc").join(pid.to_string()).exists() {
        true => Err(Error::of(object, "look at")(rustix::io::Errno::MFILE)),
        false => {
            let reason = "/proc does not show it, so its program is unknown".to_owned();
            Err(Error::Busy { object: object.into(), reason })
        }
    }
}

/// The refusal of a process that is where one of the lab's should be.
pub(crate) fn stranger(at: &Path, pid: Pid, name: &str) -> Error {
    let pid = pid.as_raw_nonzero();
    let reason = format!(
        "process {pid} ({name}) has it, which is not of this lab and is left alone; remove the file, then repeat"
    );
    Error::Busy { object: format!("{at:?}").into(), reason }
}

/// Living inits by id: nodes', and [`NodeId::CORE`].
pub(crate) type Inits = BTreeMap<NodeId, Init>;
