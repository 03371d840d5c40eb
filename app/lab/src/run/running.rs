//! A running lab: its state, its keepers, and making of missing parts. `serving` answers requests.
//!
//! Making and taking down exclude each other by one lock. Views are read from the kernel on request.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Weak;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

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
use crate::run::meter::Meter;
use crate::run::probing::Probing;
use crate::run::prospect::Looked;
use crate::run::readings::Streaming;
use crate::run::resolving::Resolving;
use crate::run::revivals::Revivals;
use crate::run::saved_settings::SavedSettings;
use crate::run::teardown;
use crate::stage::attach;
use crate::stage::inits::{Init, Inits};
use crate::stage::reports::forget_reports;
use crate::stage::stack::Quiet;
use crate::store::state::{Folder, State};
use crate::{Error, Result};

/// How long taking the lab down waits for whatever else is done to it, and how often it looks.
const LAST_PATIENCE: Duration = Duration::from_secs(10);
const LAST_LOOK: Duration = Duration::from_millis(2);

/// Time limit for a killed init to end.
const END_TIMEOUT: Duration = Duration::from_secs(10);

/// The phase of a lab's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Its nodes and links are being made.
    Making,
    /// Its programs are being started.
    Starting,
    /// It has come up.
    Up,
    /// It could not come up, and is kept for inspection.
    Failed,
    /// It is being taken down, or has been.
    Ended,
}

/// Parts that were recreated.
#[derive(Debug, Default)]
pub(crate) struct Made {
    /// Names of nodes.
    pub(crate) nodes: Vec<String>,
    /// Programs in them that ended with an error, and links that could not be recreated.
    pub(crate) troubles: Vec<String>,
    /// Commands of `exec` in them that failed and may.
    pub(crate) notes: Vec<String>,
}

/// A running lab.
pub(crate) struct Running {
    pub(crate) folder: Folder,
    phase: Mutex<Phase>,
    /// The state; each change replaces it as a whole.
    state: Mutex<Arc<State>>,
    /// What applying a file would do, as it was shown last.
    pub(crate) looked: Mutex<Option<Looked>>,
    work: Mutex<Work>,
    /// Held while the control plane of a router moves, and until it is whole again.
    moves: Mutex<()>,
    pub(crate) revivals: Revivals,
    pub(crate) kept: Kept,
    load: Loads,
    pub(crate) meter: Meter,
    pub(crate) quiet: Quiet,
    pub(crate) streaming: Streaming,
    /// Written to when the lab has been taken down.
    pub(crate) ended: OwnedFd,
    /// The folder of this user's recordings; `None` without a home.
    pub(crate) records: Option<PathBuf>,
    /// Held while a recorder is started or ended.
    pub(crate) recording: Mutex<()>,
}

/// Called with the current step, and how much of it is done of how much.
type Progress<'a> = dyn Fn(&str, usize, usize) + Sync + 'a;

/// Data for a spawner beside the lab's state.
pub(crate) struct Again {
    /// The lab's lock.
    pub(crate) lock: OwnedFd,
    /// Limit of open files of a node's programs.
    pub(crate) open_files: (Option<u64>, Option<u64>),
}

/// Objects that only one thread may use at a time.
pub(crate) struct Work {
    pub(crate) spawner: Option<Spawner>,
    pub(crate) reports: OwnedFd,
    /// Data for a new spawner, if this one is killed.
    pub(crate) again: Again,
    pub(crate) inits: Inits,
}

/// Objects beside a lab's nodes.
pub(crate) struct Kept {
    pub(crate) keepers: Keepers,
    pub(crate) probing: Probing,
    pub(crate) luggage: SavedSettings,
    pub(crate) resolving: Resolving,
    pub(crate) scopes: Mutex<Scopes>,
    pub(crate) guests: Mutex<BTreeMap<NodeId, Guest>>,
    /// Written to when the set of watched descriptors changes.
    wake: OwnedFd,
}

pub(crate) struct Scopes {
    pub(crate) serve: Serve,
    pub(crate) running: Weak<Running>,
    /// Servers of views, by node's id.
    pub(crate) servers: BTreeMap<NodeId, Box<dyn std::any::Any + Send>>,
}

/// A node that holds an interface of another node: this process keeps its namespace, so that the interface
/// can come home even if the node was killed.
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
            luggage: SavedSettings::default(),
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

    /// Makes all keepers forget objects being removed.
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
        (ended, records): (OwnedFd, Option<PathBuf>),
        kept: Kept,
    ) -> Running {
        let work = Work { spawner: Some(spawner), reports, again, inits: Inits::new() };
        Running {
            folder,
            phase: Mutex::new(Phase::Making),
            state: Mutex::new(Arc::new(state)),
            looked: Mutex::default(),
            work: Mutex::new(work),
            moves: Mutex::default(),
            revivals: Revivals::default(),
            kept,
            load: Loads::default(),
            meter: Meter::default(),
            quiet: Quiet::default(),
            streaming: Streaming::default(),
            ended,
            records,
            recording: Mutex::default(),
        }
    }

    /// The current state.
    pub(crate) fn state(&self) -> Arc<State> {
        Arc::clone(&self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The phase.
    pub(crate) fn phase(&self) -> Phase {
        *self.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the phase, unless the lab is being taken down; returns whether it was set.
    pub(crate) fn enter(&self, next: Phase) -> bool {
        let mut phase = self.phase.lock().unwrap_or_else(PoisonError::into_inner);
        // Ended is for good: a late thread must not bring the lab back to life.
        if *phase != Phase::Ended {
            *phase = next;
        }
        *phase == next
    }

    /// Takes the work lock; waits for another thread that makes, changes or removes something.
    pub(crate) fn work(&self) -> MutexGuard<'_, Work> {
        // The next call checks again what a panicking one left.
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the work lock for taking the lab down, which must not wait for something that does not end.
    ///
    /// # Errors
    /// It is not given up in time.
    fn last_work(&self) -> Result<MutexGuard<'_, Work>> {
        let end = Instant::now() + LAST_PATIENCE;
        loop {
            // Tried: a lock has no time limit.
            match self.work.try_lock() {
                Ok(work) => return Ok(work),
                Err(TryLockError::Poisoned(work)) => return Ok(work.into_inner()),
                Err(TryLockError::WouldBlock) if Instant::now() >= end => {
                    let seconds = LAST_PATIENCE.as_secs();
                    return Err(Error::Stuck { lab: self.folder.name().to_owned(), seconds });
                }
                Err(TryLockError::WouldBlock) => std::thread::sleep(LAST_LOOK),
            }
        }
    }

    /// Lets one control plane move at a time.
    pub(crate) fn moves(&self) -> MutexGuard<'_, ()> {
        self.moves.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state, on disk first. The caller holds the work lock.
    pub(crate) fn change<T>(
        &self,
        _: &mut Work,
        change: impl FnOnce(&mut State) -> Result<T>,
    ) -> Result<T> {
        // The whole state is replaced: readers keep the one that they have.
        let mut state = State::clone(&self.state());
        let result = change(&mut state)?;
        self.take_state(state)?;
        Ok(result)
    }

    /// The same, with another plan.
    pub(crate) fn change_plan(
        &self,
        _: &mut Work,
        plan: Plan,
        change: impl FnOnce(&mut State),
    ) -> Result<()> {
        let mut state = self.state().with_plan(plan);
        change(&mut state);
        self.take_state(state)
    }

    fn take_state(&self, state: State) -> Result<()> {
        self.folder.keep_made()?;
        // On disk first: what is done later can be undone by the next process.
        self.folder.write_state(&state)?;
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(state);
        self.kept.resolving.wake();
        Ok(())
    }

    /// Finds the living inits.
    pub(crate) fn adopt(&self) -> Result<()> {
        let state = self.state();
        let mut work = self.work();
        let sockets = self.folder.sockets_dir()?;
        for (id, name) in names(&state.plan) {
            let found =
                sockets.as_ref().map(|sockets| Init::find(sockets, id, name)).transpose()?;
            work.inits.extend(found.flatten().map(|init| (id, init)));
        }
        self.end_half_made(&mut work)?;
        drop(work);
        // Without the lock: an init that hangs takes its time to be found silent.
        self.drop_silent();
        let mut work = self.work();
        self.adopt_kept(&state, &work.inits)?;
        self.end_leaving(&mut work);
        self.end_unfinished(&mut work);
        Ok(())
    }

    /// Ends nodes that the last lab process was making: their network may lack anything, and nobody would make it.
    fn end_half_made(&self, work: &mut Work) -> Result<()> {
        for id in self.folder.half_made()? {
            work.inits.remove(&id).iter().for_each(end_now);
        }
        self.folder.forget_half_made()
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
            // It is dying or hangs: in both cases it must end before another replaces it.
            work.inits.remove(&id).iter().for_each(end_now);
        }
    }

    /// Makes missing parts and starts their programs; while these start, the work lock is free.
    /// `go` is waited for before that. `records`: the recorder that the file asks for is started, too.
    pub(crate) fn make(
        &self,
        progress: &Progress<'_>,
        go: &dyn Fn() -> Result<()>,
        records: bool,
    ) -> Result<Made> {
        // Released before programs start, which may take as long as they like.
        let (slots, lost) = self.make_network(&mut self.work(), progress)?;
        go()?;
        let state = self.state();
        self.kept.keepers.far_links.go(&state, &self.work().inits)?;
        if self.phase() == Phase::Making {
            self.enter(Phase::Starting);
        }
        // Before anything is sent that a program asks for.
        let unrecorded = if records { self.follow_recording(None) } else { None };
        let mut made = self.start(&slots, lost, progress)?;
        made.troubles.extend(unrecorded);
        let work = self.work();
        self.await_link_states(&work, &slots);
        self.note_left(&work, &slots)?;
        Ok(made)
    }

    /// The same for a caller that holds the work lock, and keeps it.
    pub(crate) fn make_with(&self, work: &mut Work) -> Result<Made> {
        let (slots, lost) = self.make_network(work, &|_, _, _| {})?;
        let made = self.start(&slots, lost, &|_, _, _| {})?;
        self.await_link_states(work, &slots);
        self.note_left(work, &slots)?;
        Ok(made)
    }

    /// Makes missing parts except programs; returns the new slots, and links that could not be recreated.
    pub(crate) fn make_network(
        &self,
        work: &mut Work,
        progress: &Progress<'_>,
    ) -> Result<(Vec<Slot>, Vec<String>)> {
        self.tend_guests(work);
        self.note_strays(work)?;
        let missing = Missing::of(&self.state(), &work.inits, &self.kept.keepers.all());
        let (nodes, links) = (missing.ids(&self.state().plan), missing.links);
        // Interfaces of links that are made again would else exist twice.
        self.recall(work, &links)?;
        if !nodes.is_empty() {
            // A lab process killed from here on leaves nodes that the next one ends.
            self.folder.note_half_made(&nodes)?;
        }
        let lived: BTreeSet<NodeId> =
            work.inits.iter().filter(|(_, init)| init.lives()).map(|(id, _)| *id).collect();
        match self.make_missing(work, progress) {
            Ok(made) => {
                self.found_again(work, &links)?;
                Ok((made, self.make_lost(work)?))
            }
            Err(e) => {
                // Beside living nodes the failed ones go; a lab that could not come up at all is
                // taken down as a whole.
                if !lived.is_empty() {
                    end_new(&mut work.inits, &lived);
                    self.folder.forget_half_made()?;
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
        // Reports of an earlier attempt must not count for this one.
        forget_reports(reports);
        let left = self.leave_for_killed(&state, inits);
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
        let made = maker.make(inits);
        // The daemons have read them by now, or never will.
        left.into_iter().for_each(|folder| drop(std::fs::remove_dir_all(folder)));
        made
    }

    fn start(
        &self,
        slots: &[Slot],
        mut troubles: Vec<String>,
        progress: &Progress<'_>,
    ) -> Result<Made> {
        let state = self.state();
        if slots.len() < state.plan.nodes.len() {
            // Surviving nodes may have lost addresses and got them again. A lab that is made as a whole
            // has the planned names.
            self.settle_names();
        }
        let told = starting::start(&self.folder, &state.plan, slots, progress)?;
        troubles.extend(told.troubles);
        let nodes = slots.iter().filter_map(|i| state.plan.node_at(*i));
        let nodes = nodes.map(|n| n.name.clone()).collect();
        Ok(Made { nodes, troubles, notes: told.notes })
    }

    /// Takes everything down.
    pub(crate) fn take_down(&self) -> Result<()> {
        // Before the lock is taken: a session that starts may wait for it.
        self.kept.probing.end();
        self.kept.resolving.end();
        let mut work = self.last_work()?;
        self.return_everything(&mut work);
        self.end_kept();
        // Without its client the spawner ends, so no more inits are made.
        match work.spawner.take() {
            Some(spawner) => spawner.end(),
            // Another process has taken it down.
            None if !self.folder.exists()? => return Ok(()),
            None => {}
        }
        let state = self.state();
        let mut inits: Vec<Init> = std::mem::take(&mut work.inits).into_values().collect();
        inits.retain(Init::lives);
        // The core is one more than the nodes.
        if inits.len() <= state.plan.nodes.len() {
            // Making may have stopped before all inits were known; their sockets identify them.
            let known: Vec<_> = inits.iter().map(|i| i.pid).collect();
            // What cannot be told is told when they are ended.
            let found = teardown::find_inits(&self.folder).unwrap_or_default().into_iter();
            inits.extend(found.filter(|i| !known.contains(&i.pid)));
        }
        let removed = teardown::take_down(&self.folder, Some(&state), inits);
        // It has all frames by now, and may be waiting for an answer that needs the lock.
        drop(work);
        self.end_recording();
        removed
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

    /// The same for some nodes; others get none.
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

    /// The core namespace; `None` while its init is gone.
    pub(crate) fn core_network(&self) -> Option<OwnedFd> {
        attach::open(&self.work().inits, NodeId::CORE).ok().flatten()
    }

    /// The core's init, while it lives.
    pub(crate) fn core_pid(&self) -> Option<Pid> {
        let work = self.work();
        work.inits.get(&NodeId::CORE).filter(|init| init.lives()).map(|init| init.pid)
    }

    /// Whether the core's init lives.
    pub(crate) fn has_core(&self) -> bool {
        self.work().inits.get(&NodeId::CORE).is_some_and(Init::lives)
    }
}

/// Ends incomplete inits that were made beside living ones: they are recreated next time.
fn end_new(inits: &mut Inits, lived: &BTreeSet<NodeId>) {
    let ids: Vec<NodeId> = inits.keys().copied().filter(|id| !lived.contains(id)).collect();
    ids.into_iter().filter_map(|id| inits.remove(&id)).for_each(|init| end_now(&init));
}

/// Kills an init, and waits until it has ended.
fn end_now(init: &Init) {
    // No signal is needed if it has ended.
    let _ = process::signal(&init.pidfd, rustix::process::Signal::KILL);
    process::wait_end(&init.pidfd, END_TIMEOUT);
}

/// Ids and names of all inits.
fn names(plan: &Plan) -> impl Iterator<Item = (NodeId, &str)> {
    let nodes = plan.nodes.iter().map(|n| (n.id, n.name.as_str()));
    nodes.chain([(NodeId::CORE, "(core)")])
}
