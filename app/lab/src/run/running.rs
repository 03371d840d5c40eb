//! A running lab: its state, what it keeps, and making what is missing of it. What it is asked is in `serving`.
//!
//! Two things never happen at once: making and taking down, under one lock. What is shown is read
//! from the kernel when it is asked for.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::sync::Weak;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use netloom_measure::Interfaces;
use netloom_model::Plan;
use netloom_model::lookup::slot;
use netloom_model::plan::PlannedNode;
use netloom_model::plan::Slot;
use netloom_model::plan::{LinkSlot, NodeId};
use netloom_node::spawner::Spawner;
use netloom_sys::process;
use rustix::process::Pid;

use crate::build::keeper::Gone;
use crate::build::maker::{Maker, Missing};
use crate::build::starting;
use crate::events::Serve;
use crate::keep::keepers::Keepers;
use crate::run::load_average::Loads;
use crate::run::probing::Probing;
use crate::run::resolving::Resolving;
use crate::run::saved_settings::Luggage;
use crate::run::teardown;
use crate::stage::inits::{Init, Inits};
use crate::stage::reports::forget_reports;
use crate::store::state::{Folder, State};
use crate::{Error, Result};

/// How long a killed init may take to end.
const END_TIMEOUT: Duration = Duration::from_secs(10);

/// How far a lab is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Its nodes and links are being made.
    Making,
    /// Its programs are being started.
    Starting,
    /// It has come up.
    Up,
    /// It could not come up, and is kept to be looked into.
    Failed,
    /// It is being taken down, or has been.
    Ended,
}

/// What was made.
#[derive(Debug, Default)]
pub(crate) struct Made {
    /// Names of nodes.
    pub(crate) nodes: Vec<String>,
    /// Programs in them that ended with an error, and links that could not be made anew.
    pub(crate) troubles: Vec<String>,
}

/// A running lab.
pub(crate) struct Running {
    pub(crate) folder: Folder,
    phase: Mutex<Phase>,
    /// What is to exist: replaced as a whole by each change.
    state: Mutex<Arc<State>>,
    work: Mutex<Work>,
    pub(crate) kept: Kept,
    load: Loads,
    /// Written to when the lab has been taken down.
    pub(crate) ended: OwnedFd,
}

/// Called with what is being done and how much of it is done.
type Progress<'a> = dyn Fn(&str, usize, usize) + Sync + 'a;

/// What a spawner is given besides the lab's state.
pub(crate) struct Again {
    /// The lab's lock.
    pub(crate) lock: OwnedFd,
    /// How many files a program of a node may open.
    pub(crate) open_files: (Option<u64>, Option<u64>),
}

/// What only one may use at a time.
pub(crate) struct Work {
    pub(crate) spawner: Option<Spawner>,
    pub(crate) reports: OwnedFd,
    /// What another spawner needs when this one was killed.
    pub(crate) again: Again,
    pub(crate) inits: Inits,
}

/// Kept beside a lab's nodes.
pub(crate) struct Kept {
    pub(crate) keepers: Keepers,
    pub(crate) probing: Probing,
    pub(crate) luggage: Luggage,
    pub(crate) resolving: Resolving,
    pub(crate) scopes: Mutex<Scopes>,
    pub(crate) guests: Mutex<BTreeMap<NodeId, Guest>>,
    /// Written to when what is watched changes.
    wake: OwnedFd,
}

pub(crate) struct Scopes {
    pub(crate) serve: Serve,
    pub(crate) running: Weak<Running>,
    /// What serves, by node's id.
    pub(crate) servers: BTreeMap<NodeId, Box<dyn std::any::Any + Send>>,
}

/// A node that holds an interface of another's: its namespace lives on with us, and what is in it can
/// come home, even when the node was killed.
pub(crate) struct Guest {
    pub(crate) space: OwnedFd,
    pub(crate) init: OwnedFd,
}

impl Kept {
    pub(crate) fn new(
        serve: Serve,
        running: Weak<Running>,
        places: Arc<dyn Interfaces>,
        spawner: &Spawner,
        wake: OwnedFd,
    ) -> Kept {
        Kept {
            keepers: Keepers::default(),
            probing: Probing::new(places),
            luggage: Luggage::default(),
            resolving: Resolving::new(spawner.pid()),
            scopes: Mutex::new(Scopes { serve, running, servers: BTreeMap::new() }),
            guests: Mutex::default(),
            wake,
        }
    }

    pub(crate) fn scopes(&self) -> MutexGuard<'_, Scopes> {
        self.scopes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn guests(&self) -> MutexGuard<'_, BTreeMap<NodeId, Guest>> {
        self.guests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has all keepers let go of what is going.
    pub(crate) fn forget(&self, state: &State, gone: Gone<'_>) {
        for keeper in self.keepers.all() {
            keeper.forget(state, gone);
        }
    }

    pub(crate) fn wake(&self) {
        // A full pipe wakes as well.
        let _ = rustix::io::write(&self.wake, b".");
    }
}

impl Running {
    pub(crate) fn new(
        folder: Folder,
        state: State,
        (spawner, reports, again): (Spawner, OwnedFd, Again),
        ended: OwnedFd,
        kept: Kept,
    ) -> Running {
        let work = Work { spawner: Some(spawner), reports, again, inits: Inits::new() };
        Running {
            folder,
            phase: Mutex::new(Phase::Making),
            state: Mutex::new(Arc::new(state)),
            work: Mutex::new(work),
            kept,
            load: Loads::default(),
            ended,
        }
    }

    /// What is to exist, as of now.
    pub(crate) fn state(&self) -> Arc<State> {
        Arc::clone(&self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// How far it is.
    pub(crate) fn phase(&self) -> Phase {
        *self.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes how far it is. One that is being taken down stays that; whether it was noted.
    pub(crate) fn enter(&self, next: Phase) -> bool {
        let mut phase = self.phase.lock().unwrap_or_else(PoisonError::into_inner);
        if *phase != Phase::Ended {
            *phase = next;
        }
        *phase == next
    }

    /// Waits for whoever makes, changes or removes something.
    pub(crate) fn work(&self) -> MutexGuard<'_, Work> {
        // What a panicking call left is looked at anew by the next.
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes what is to exist: on disk first. The caller has the work.
    pub(crate) fn change<T>(
        &self,
        _: &mut Work,
        change: impl FnOnce(&mut State) -> Result<T>,
    ) -> Result<T> {
        let mut state = State::clone(&self.state());
        let result = change(&mut state)?;
        self.folder.keep_made()?;
        self.folder.write_state(&state)?;
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(state);
        self.kept.resolving.wake();
        Ok(result)
    }

    /// Finds the inits that live already.
    pub(crate) fn adopt(&self) -> Result<()> {
        let state = self.state();
        let mut work = self.work();
        for (id, name) in names(&state.plan) {
            if let Some(init) = Init::find(&self.folder, id, name)? {
                work.inits.insert(id, init);
            }
        }
        drop(work);
        self.drop_silent();
        let mut work = self.work();
        self.adopt_kept(&state, &work.inits)?;
        self.end_leaving(&mut work);
        self.end_unfinished(&mut work);
        Ok(())
    }

    /// Forgets inits that do not answer, once their processes have ended.
    pub(crate) fn drop_silent(&self) {
        let state = self.state();
        let mut work = self.work();
        for (id, name) in names(&state.plan) {
            let silent = |i: &Init| !i.answers(&self.folder, id, name);
            if !work.inits.get(&id).is_some_and(silent) {
                continue;
            }
            if let Some(init) = work.inits.remove(&id) {
                // It is dying, or hangs for good: either way it goes before another takes its place.
                let _ = process::signal(&init.pidfd, rustix::process::Signal::KILL);
                process::wait_end(&init.pidfd, END_TIMEOUT);
            }
        }
    }

    /// Makes what is missing and starts its programs. While these start others may have the work.
    pub(crate) fn make(&self, progress: &Progress<'_>) -> Result<Made> {
        let (slots, lost) = self.make_network(&mut self.work(), progress)?;
        if self.phase() == Phase::Making {
            self.enter(Phase::Starting);
        }
        self.start(&slots, lost, progress)
    }

    /// The same for somebody who has the work, and keeps it.
    pub(crate) fn make_with(&self, work: &mut Work) -> Result<Made> {
        let (slots, lost) = self.make_network(work, &|_, _, _| {})?;
        self.start(&slots, lost, &|_, _, _| {})
    }

    /// Makes all that is missing but programs; gives the slots, and which links cannot be made anew.
    fn make_network(
        &self,
        work: &mut Work,
        progress: &Progress<'_>,
    ) -> Result<(Vec<Slot>, Vec<String>)> {
        self.tend_guests(work);
        self.note_strays(work)?;
        let links = Missing::of(&self.state(), &work.inits).links;
        self.recall(work, &links)?;
        let lived: BTreeSet<NodeId> =
            work.inits.iter().filter(|(_, init)| init.lives()).map(|(id, _)| *id).collect();
        match self.make_missing(work, progress) {
            Ok(made) => {
                self.found_again(work, &links)?;
                Ok((made, self.make_lost(work)?))
            }
            Err(e) => {
                if !lived.is_empty() {
                    end_new(&mut work.inits, &lived);
                }
                Err(e)
            }
        }
    }

    fn make_missing(&self, work: &mut Work, progress: &Progress<'_>) -> Result<Vec<Slot>> {
        self.keep_spawner(work)?;
        let state = self.state();
        let Work { spawner, reports, inits, .. } = work;
        let Some(spawner) = spawner else {
            return Err(Error::NoLab(self.folder.name().to_owned()));
        };
        forget_reports(reports);
        let before_programs = |inits: &Inits, slots: &[Slot], links: &[LinkSlot]| {
            self.fit(&state, inits, slots, links)
        };
        let maker = Maker {
            folder: &self.folder,
            state: &state,
            spawner,
            keepers: &self.kept.keepers.all(),
            reports,
            progress,
            before_programs: &before_programs,
        };
        maker.make(inits)
    }

    fn start(
        &self,
        slots: &[Slot],
        mut troubles: Vec<String>,
        progress: &Progress<'_>,
    ) -> Result<Made> {
        let state = self.state();
        if slots.len() < state.plan.nodes.len() {
            // Those that live on may have lost addresses and got them again. A lab that is made as a whole
            // has the names of its plan.
            self.settle_names();
        }
        troubles.extend(starting::start(&self.folder, &state.plan, slots, progress)?);
        let nodes = slots.iter().filter_map(|i| state.plan.node_at(*i));
        Ok(Made { nodes: nodes.map(|n| n.name.clone()).collect(), troubles })
    }

    /// Takes everything down.
    pub(crate) fn take_down(&self) -> Result<()> {
        self.kept.probing.end();
        self.kept.resolving.end();
        let mut work = self.work();
        self.return_everything(&mut work);
        self.end_kept();
        // Without its client the spawner ends, and nothing more is born.
        match work.spawner.take() {
            Some(spawner) => spawner.end(),
            // Somebody else has taken it down.
            None if !self.folder.exists() => return Ok(()),
            None => {}
        }
        let state = self.state();
        let mut inits: Vec<Init> = std::mem::take(&mut work.inits).into_values().collect();
        inits.retain(Init::lives);
        if inits.len() <= state.plan.nodes.len() {
            // Making may have stopped before all were known; their sockets name them.
            let known: Vec<_> = inits.iter().map(|i| i.pid).collect();
            let found = teardown::find_inits(&self.folder).into_iter();
            inits.extend(found.filter(|i| !known.contains(&i.pid)));
        }
        teardown::take_down(&self.folder, Some(&state), inits)
    }

    /// A node by name, and its living init.
    pub(crate) fn with_init<T>(
        &self,
        node: &str,
        f: impl FnOnce(&State, &PlannedNode, &Init) -> Result<T>,
    ) -> Result<T> {
        let state = self.state();
        let planned = &state.plan.nodes[slot(&state.plan, node)?];
        let work = self.work();
        match work.inits.get(&planned.id).filter(|i| i.lives()) {
            Some(init) => f(&state, planned, init),
            None => Err(Error::DeadNode(node.to_owned())),
        }
    }

    /// Pids of the living inits of these nodes, by slot.
    pub(crate) fn pids(&self, plan: &Plan) -> Vec<Option<Pid>> {
        let work = self.work();
        let living = |n: &PlannedNode| work.inits.get(&n.id).filter(|i| i.lives()).map(|i| i.pid);
        plan.nodes.iter().map(living).collect()
    }

    /// The same of some nodes; the others have none here.
    pub(crate) fn pids_of(&self, plan: &Plan, slots: &BTreeSet<Slot>) -> Vec<Option<Pid>> {
        let work = self.work();
        let mut pids = vec![None; plan.nodes.len()];
        for slot in slots {
            let init = work.inits.get(&plan.nodes[*slot].id).filter(|i| i.lives());
            pids[slot.get()] = init.map(|i| i.pid);
        }
        pids
    }

    /// Ids of nodes and pids of their living inits.
    pub(crate) fn living_inits(&self) -> Vec<(NodeId, i32)> {
        let work = self.work();
        let living = work.inits.iter().filter(|(id, i)| **id != NodeId::CORE && i.lives());
        living.map(|(id, i)| (*id, i.pid.as_raw_nonzero().get())).collect()
    }

    /// The load averages.
    pub(crate) fn loads(&self) -> &Loads {
        &self.load
    }

    /// Whether the core's init lives.
    pub(crate) fn has_core(&self) -> bool {
        self.work().inits.get(&NodeId::CORE).is_some_and(Init::lives)
    }
}

/// Ends the inits that were made among others that lived, and are not whole: they are made anew next time.
fn end_new(inits: &mut Inits, lived: &BTreeSet<NodeId>) {
    let ids: Vec<NodeId> = inits.keys().copied().filter(|id| !lived.contains(id)).collect();
    for init in ids.into_iter().filter_map(|id| inits.remove(&id)) {
        // One that has ended needs no signal.
        let _ = process::signal(&init.pidfd, rustix::process::Signal::KILL);
        process::wait_end(&init.pidfd, END_TIMEOUT);
    }
}

/// The numbers and names of all inits.
fn names(plan: &Plan) -> impl Iterator<Item = (NodeId, &str)> {
    let nodes = plan.nodes.iter().map(|n| (n.id, n.name.as_str()));
    nodes.chain([(NodeId::CORE, "(core)")])
}
