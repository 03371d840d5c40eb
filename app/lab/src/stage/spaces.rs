//! The network namespaces of a lab, and work in them, on threads of its own that end afterwards.
//!
//! A large lab has more nodes than files may be open at once beside their inits. So [`Spaces`] keeps as many namespaces open
//! as its maker allows, and opens others when they are needed: [`Spaces::open`] one, [`Spaces::near`] those of some links.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::thread::{Scope, ScopedJoinHandle};

use netloom_model::Plan;
use netloom_model::plan::form::Forms;
use netloom_model::plan::{LinkSlot, PlannedEnd, Slot};
use netloom_netlink::{Batch, Socket};
use netloom_sys::{Failure, namespace};

use crate::{Error, Result};

/// The most threads that read nodes, and the fewest nodes that justify another thread.
const MOST_THREADS: usize = 4;
const FEWEST_A_THREAD: usize = 64;

/// Index of the loopback interface in every namespace.
pub(crate) const LOOPBACK: u32 = 1;

/// How many links are made at once where the namespaces of their nodes are opened for that.
pub(crate) const LINKS_AT_A_TIME: usize = 64;

/// How many namespaces a thread that goes through all nodes opens at once.
pub(crate) const NODES_AT_A_TIME: usize = 16;

/// Opens the namespace of a living node.
type Opener<'a> = dyn Fn(Slot) -> Result<OwnedFd> + Sync + 'a;

/// Network namespaces of a lab: those of some nodes, and the core's.
pub(crate) struct Spaces<'a> {
    /// Those that are open all the time.
    kept: BTreeMap<Slot, OwnedFd>,
    /// For all others.
    opener: Option<Box<Opener<'a>>>,
    pub(crate) core: OwnedFd,
    /// How links are made.
    pub(crate) forms: &'a Forms,
}

/// An open namespace.
pub(crate) enum Space<'a> {
    Kept(BorrowedFd<'a>),
    Opened(OwnedFd),
}

impl AsFd for Space<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Space::Kept(fd) => *fd,
            Space::Opened(fd) => fd.as_fd(),
        }
    }
}

/// The namespaces of the nodes at the ends of some links, and the core's, all open.
pub(crate) struct Near<'a> {
    nodes: BTreeMap<Slot, Space<'a>>,
    pub(crate) core: BorrowedFd<'a>,
    pub(crate) forms: &'a Forms,
}

impl<'a> Spaces<'a> {
    /// These nodes' alone.
    pub(crate) fn of(kept: BTreeMap<Slot, OwnedFd>, core: OwnedFd, forms: &'a Forms) -> Self {
        Spaces { kept, opener: None, core, forms }
    }

    /// These nodes', and those of others by `opener`.
    pub(crate) fn with_others(
        self,
        opener: impl Fn(Slot) -> Result<OwnedFd> + Sync + 'a,
    ) -> Spaces<'a> {
        Spaces { opener: Some(Box::new(opener)), ..self }
    }

    /// The namespace of a node.
    pub(crate) fn open(&self, slot: Slot) -> Result<Space<'_>> {
        match (self.kept.get(&slot), &self.opener) {
            (Some(kept), _) => Ok(Space::Kept(kept.as_fd())),
            (None, Some(opener)) => opener(slot).map(Space::Opened),
            (None, None) => Err(not_open(slot)),
        }
    }

    /// The namespaces of the nodes at the ends of these links.
    pub(crate) fn near(&self, plan: &Plan, links: &[LinkSlot]) -> Result<Near<'_>> {
        let mut nodes = BTreeMap::new();
        for end in links.iter().flat_map(|link| &plan.links[*link].ends) {
            if let PlannedEnd::Node { node, .. } = end
                && !nodes.contains_key(node)
            {
                nodes.insert(*node, self.open(*node)?);
            }
        }
        Ok(Near { nodes, core: self.core.as_fd(), forms: self.forms })
    }
}

impl Near<'_> {
    pub(crate) fn node(&self, slot: Slot) -> Result<BorrowedFd<'_>> {
        self.nodes.get(&slot).map(AsFd::as_fd).ok_or_else(|| not_open(slot))
    }
}

fn not_open(slot: Slot) -> Error {
    let gone = std::io::Error::from(std::io::ErrorKind::NotFound);
    let failure = Failure::new("network namespace", "open", gone);
    Error::of(format!("node {slot}"), "find its network namespace")(failure)
}

/// Runs `f` on a thread of its own in a namespace, with a netlink socket of that namespace.
pub(crate) fn inside<T: Send>(
    ns: BorrowedFd<'_>,
    object: &str,
    f: impl FnOnce(&mut Socket) -> Result<T> + Send,
) -> Result<T> {
    namespace::run_in(ns, "netloom-net", || {
        let mut socket = open(object)?;
        f(&mut socket)
    })
}

pub(crate) fn open(object: &str) -> Result<Socket> {
    Socket::open().map_err(Error::of(object, "open a netlink socket"))
}

/// Runs a batch; `object` and `operation` are for errors.
pub(crate) fn run(
    socket: &mut Socket,
    batch: &mut Batch,
    object: &str,
    operation: &'static str,
) -> Result<()> {
    socket.run(batch).map_err(Error::of(object, operation))
}

/// Runs `f` on a thread that may change its namespace and ends afterwards.
pub(crate) fn on_a_thread<T: Send>(f: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    std::thread::scope(|scope| result_of(start(scope, f)))
}

type Started<'scope, T> = Result<ScopedJoinHandle<'scope, Result<T>>>;

/// Starts a thread that may change its namespace and ends afterwards.
fn start<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    f: impl FnOnce() -> Result<T> + Send + 'scope,
) -> Started<'scope, T> {
    let named = std::thread::Builder::new().name("netloom-net".into());
    named.spawn_scoped(scope, f).map_err(Error::at("thread", "start"))
}

fn result_of<T>(thread: Started<'_, T>) -> Result<T> {
    thread?.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Does something with each of these nodes, with up to one thread per processor, which may visit the nodes' namespaces.
pub(crate) fn in_parts<T: Send>(
    all: &[Slot],
    each: impl Fn(Slot) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(MOST_THREADS);
    let part = all.len().div_ceil(threads).max(FEWEST_A_THREAD);
    let one = |slots: &[Slot]| -> Result<Vec<T>> { slots.iter().map(|slot| each(*slot)).collect() };
    let parts: Vec<Result<Vec<T>>> = std::thread::scope(|scope| {
        let one = &one;
        let started: Vec<_> = all.chunks(part).map(|s| start(scope, move || one(s))).collect();
        started.into_iter().map(result_of).collect()
    });
    let mut found = Vec::with_capacity(all.len());
    for part in parts {
        found.extend(part?);
    }
    Ok(found)
}
