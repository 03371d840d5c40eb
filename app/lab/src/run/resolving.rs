//! Messages to the thread that keeps the nodes' `/etc/hosts`: which inits live, and that something changed.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use netloom_model::plan::NodeId;
use rustix::event::EventfdFlags;
use rustix::process::Pid;

use crate::stage::inits::Inits;

/// Data shared with the thread.
pub(crate) struct Resolving {
    pub(crate) table: Mutex<Table>,
    /// Signalled when the thread has completed a round.
    pub(crate) done: Condvar,
    /// Written to when the table or the lab changes.
    pub(crate) wake: Option<OwnedFd>,
}

#[derive(Default)]
pub(crate) struct Table {
    /// The living inits of nodes and of the core, by id.
    pub(crate) inits: BTreeMap<NodeId, Pid>,
    pub(crate) spawner: Option<Pid>,
    pub(crate) over: bool,
    /// Whether the thread runs.
    pub(crate) runs: bool,
    /// The number of changes reported to the thread, and how many it has processed.
    pub(crate) told: u64,
    pub(crate) seen_to: u64,
}

impl Resolving {
    pub(crate) fn new(spawner: Pid) -> Resolving {
        let wake = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let table = Table { spawner: Some(spawner), ..Table::default() };
        // Without it the file stays as planned.
        Resolving { table: Mutex::new(table), done: Condvar::new(), wake: wake.ok() }
    }

    pub(crate) fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// These nodes (ids) have new inits.
    pub(crate) fn follow(&self, inits: &Inits, ids: impl IntoIterator<Item = NodeId>) {
        let found = ids.into_iter().filter_map(|id| Some((id, inits.get(&id)?.pid)));
        self.table().inits.extend(found);
        self.wake();
    }

    /// These nodes are being removed.
    pub(crate) fn forget(&self, ids: &[NodeId]) {
        self.table().inits.retain(|id, _| !ids.contains(id));
        self.wake();
    }

    /// A new spawner also has the file.
    pub(crate) fn follow_spawner(&self, spawner: Pid) {
        self.table().spawner = Some(spawner);
        self.wake();
    }

    /// The lab is being taken down.
    pub(crate) fn end(&self) {
        self.table().over = true;
        self.wake();
    }

    /// The plan may have changed.
    pub(crate) fn wake(&self) {
        // Counted before the wake: the thread compares when it has done.
        self.table().told += 1;
        if let Some(wake) = &self.wake {
            // A full counter wakes as well.
            let _ = rustix::io::write(wake, &1_u64.to_ne_bytes());
        }
    }
}

impl Resolving {
    /// A descriptor to wait for.
    pub(crate) fn wake_of(&self) -> Option<OwnedFd> {
        self.wake.as_ref()?.try_clone().ok()
    }
}
