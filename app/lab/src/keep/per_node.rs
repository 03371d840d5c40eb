//! Processes of which a node has one each, of one kind: started with the node, again when they end, and ended with it.
//!
//! A process survives a kill of the lab process, and is found by the lock that it holds. That of a recreated node is
//! restarted, since it lives in a network that is gone.

use std::collections::{BTreeMap, BTreeSet};
use std::marker::PhantomData;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use netloom_model::Plan;
use netloom_model::plan::{NodeId, PlannedNode};

use crate::Result;
use crate::build::keeper::{Context, Fresh, Gone, Keeper};
use crate::stage::inits::{Init, Inits};
use crate::stage::role::{Pause, Process, Role};
use crate::store::state::{Folder, State};

/// A kind of such processes.
pub(crate) trait Kind {
    /// How the journal names them.
    const WHO: &str;

    /// Whether a node has one.
    fn has(node: &PlannedNode) -> bool;

    /// Their role.
    const ROLE: Role;

    /// The file that a node's process holds a lock on.
    fn lock(folder: &Folder, node: &PlannedNode) -> PathBuf;

    /// All such files of a lab, those of nodes that are no longer in its plan among them.
    fn locks(folder: &Folder) -> Vec<PathBuf>;

    /// Starts that of a node; `None` if the node has just ended.
    ///
    /// # Errors
    /// What the system refuses.
    fn start(context: &Context<'_>, node: &PlannedNode, init: &Init) -> Result<Option<Process>>;
}

/// The processes of one kind.
pub(crate) struct PerNode<K>(Mutex<Inner>, PhantomData<fn() -> K>);

#[derive(Default)]
struct Inner {
    processes: BTreeMap<NodeId, Process>,
    pause: Pause,
}

impl<K> Default for PerNode<K> {
    fn default() -> Self {
        PerNode(Mutex::default(), PhantomData)
    }
}

impl<K> PerNode<K> {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Kind> PerNode<K> {
    /// Ends the processes of these nodes, and starts those that they have by now.
    ///
    /// # Errors
    /// What the system refuses.
    pub(crate) fn renew(&self, context: &Context<'_>, ids: &BTreeSet<NodeId>) -> Result<()> {
        let mut inner = self.inner();
        for node in context.state.plan.nodes.iter().filter(|node| ids.contains(&node.id)) {
            inner.end::<K>(context.folder, node);
        }
        inner.start_missing::<K>(context)
    }
}

/// The init of a node, if it lives.
fn living(inits: &Inits, node: NodeId) -> Option<&Init> {
    inits.get(&node).filter(|init| init.lives())
}

impl Inner {
    fn lives(&self, node: NodeId) -> bool {
        self.processes.get(&node).is_some_and(Process::lives)
    }

    fn start_missing<K: Kind>(&mut self, context: &Context<'_>) -> Result<()> {
        for node in context.state.plan.nodes.iter().filter(|node| K::has(node)) {
            // A node without an init gets its process when it is recreated.
            let Some(init) = living(context.inits, node.id).filter(|_| !self.lives(node.id)) else {
                continue;
            };
            // One of an earlier lab process goes on.
            let process = match Process::holding(K::ROLE, &K::lock(context.folder, node))? {
                Some(process) => Some(process),
                None => K::start(context, node, init)?,
            };
            self.processes.extend(process.map(|process| (node.id, process)));
        }
        Ok(())
    }

    /// Ends the process of a node, also one of an earlier lab process.
    fn end<K: Kind>(&mut self, folder: &Folder, node: &PlannedNode) {
        let known = self.processes.remove(&node.id);
        let found = || Process::holding(K::ROLE, &K::lock(folder, node)).ok().flatten();
        if let Some(process) = known.or_else(found) {
            process.end();
        }
    }

    /// Forgets processes that have ended; returns the shortest life among them.
    fn take_ended(&mut self) -> Option<Duration> {
        let mut shortest: Option<Duration> = None;
        self.processes.retain(|_, process| {
            if !process.lives() {
                let lived = process.since.elapsed();
                shortest = Some(shortest.map_or(lived, |s| s.min(lived)));
            }
            process.lives()
        });
        shortest
    }

    /// Whether every living node that has one has it.
    fn is_whole<K: Kind>(&self, state: &State, inits: &Inits) -> bool {
        let mut nodes = state.plan.nodes.iter().filter(|node| K::has(node));
        // A node that has ended needs none.
        nodes.all(|node| living(inits, node.id).is_none() || self.lives(node.id))
    }
}

impl<K: Kind> Keeper for PerNode<K> {
    fn fit(&self, context: &Context<'_>, fresh: Fresh<'_>) -> Result<()> {
        let mut inner = self.inner();
        let ids = fresh.ids(context.state);
        let touched = |node: &PlannedNode| {
            node.interfaces.iter().any(|interface| fresh.links.contains(&interface.link))
        };
        // Processes of recreated nodes are in a network that is gone; others learn of new links.
        let nodes = context.state.plan.nodes.iter().filter(|node| K::has(node));
        for node in nodes.filter(|node| ids.contains(&node.id) || touched(node)) {
            inner.end::<K>(context.folder, node);
        }
        inner.start_missing::<K>(context)
    }

    fn adopt(&self, context: &Context<'_>) -> Result<()> {
        self.inner().start_missing::<K>(context)
    }

    fn forget(&self, _: &State, gone: Gone<'_>) {
        let mut inner = self.inner();
        for node in gone.nodes {
            if let Some(process) = inner.processes.remove(node) {
                process.end();
            }
        }
    }

    fn watched(&self) -> Vec<OwnedFd> {
        let inner = self.inner();
        inner.processes.values().filter_map(|process| process.pidfd.try_clone().ok()).collect()
    }

    fn tend(&self, context: &Context<'_>) -> Option<Duration> {
        let mut inner = self.inner();
        let ended = inner.take_ended();
        if inner.is_whole::<K>(context.state, context.inits) {
            return None;
        }
        // A copy, put back below: the restart needs the rest of `inner` for itself.
        let mut pause = inner.pause;
        let next = pause.restart(ended, K::WHO, || inner.start_missing::<K>(context));
        inner.pause = pause;
        next
    }

    fn end(&self, _: &Folder) {
        let processes = std::mem::take(&mut self.inner().processes);
        processes.into_values().for_each(Process::end);
    }

    fn sweep(&self, folder: &Folder, _: Option<&Plan>) -> Result<()> {
        for lock in K::locks(folder) {
            if let Some(process) = Process::holding(K::ROLE, &lock)? {
                process.end();
            }
        }
        Ok(())
    }
}
