//! Living inits of nodes: found by their sockets, and whether they answer.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use netloom_model::plan::NodeId;
use netloom_node::control::{Connection, Request};
use netloom_node::spec::socket_name;
use netloom_sys::{namespace, process};
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
    /// The init that listens on a control socket, if one does.
    pub(crate) fn find(folder: &Folder, id: NodeId, node: &str) -> Result<Option<Init>> {
        let path = folder.sockets().join(socket_name(id.get()));
        let Some(connection) = Connection::open(node, &path)? else { return Ok(None) };
        let Some(pid) = connection.init() else { return Ok(None) };
        let pidfd = match process::pidfd(pid) {
            Ok(fd) => fd,
            Err(_) => return Ok(None),
        };
        // This connection is younger than the pidfd: so the process lived, and its id was not reused.
        let still = Connection::open(node, &path)?.is_some();
        Ok(still.then_some(Init { id, pid, pidfd }))
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
            .and_then(|c| c.ask_within(&Request::Programs, ANSWER_TIMEOUT).ok().flatten());
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

/// Living inits by id: nodes', and [`NodeId::CORE`].
pub(crate) type Inits = BTreeMap<NodeId, Init>;
