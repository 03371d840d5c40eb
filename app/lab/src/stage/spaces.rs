//! The network namespaces of a lab, and work in them, on threads of its own that end afterwards.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::thread::{Scope, ScopedJoinHandle};

use netloom_model::plan::Slot;
use netloom_model::plan::form::Forms;
use netloom_netlink::{Batch, Socket};
use netloom_sys::{Failure, namespace};

use crate::{Error, Result};

/// The most threads that read nodes, and the fewest nodes that justify another thread.
const MOST_THREADS: usize = 4;
const FEWEST_A_THREAD: usize = 64;

/// Index of the loopback interface in every namespace.
pub(crate) const LOOPBACK: u32 = 1;

/// Network namespaces of a lab: one per node in the plan's order, and the core's.
pub(crate) struct Spaces<'a> {
    pub(crate) nodes: Vec<Option<OwnedFd>>,
    pub(crate) core: OwnedFd,
    /// How links are made.
    pub(crate) forms: &'a Forms,
}

impl Spaces<'_> {
    pub(crate) fn node(&self, slot: Slot) -> Result<BorrowedFd<'_>> {
        let found = self.nodes.get(slot.get()).and_then(Option::as_ref);
        found.map(AsFd::as_fd).ok_or_else(|| {
            let gone = std::io::Error::from(std::io::ErrorKind::NotFound);
            Error::of(format!("node {slot}"), "find its network namespace")(Failure::new(
                "network namespace",
                "open",
                gone,
            ))
        })
    }
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
