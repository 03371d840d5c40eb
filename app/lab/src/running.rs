//! A running lab as its process sees it: implements [`Service`].
//!
//! Two things never happen at once: making and taking down, under one lock. What is shown is read
//! from the kernel when it is asked for.

use std::collections::BTreeSet;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use netloom_measure::Probe;
use netloom_model::Plan;
use netloom_model::plan::PlannedNode;
use netloom_node::control::{self, Connection};
use netloom_node::entry::Door;
use netloom_node::init;
use netloom_node::log::{self, Record};
use netloom_node::ping::Pace;
use netloom_node::spawner::{self, Spawner};
use netloom_node::spec::{CORE, NodeSpec, log_names, socket_name};
use netloom_switch::control::requests::{Answer, Request};
use netloom_sys::cgroup::Join;
use netloom_sys::{process, title};
use rustix::process::Pid;

use crate::keeping::Kept;
use crate::load::Loads;
use crate::making::{Init, Inits, Maker, Missing};
use crate::reports::forget_reports;
use crate::respawning::Again;
use crate::state::{Folder, State};
use crate::view::{
    Changed, Fates, LabStatus, LinkSettings, LinkStatus, MoveInterface, NewLink, NewNode,
    NewSwitch, NodeSettings, PairReachability, Reachability, Repaired,
};
use crate::{Error, Result, Service, starting, status, teardown};

/// Pause between two looks at a node's log for somebody who waits.
const LOG_LOOK: Duration = Duration::from_millis(40);

/// How long an init may take to accept a caller that is passed on to it.
const PASSING_ON: Duration = Duration::from_secs(5);

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
    ended: OwnedFd,
}

/// Called with what is being done and how much of it is done.
type Progress<'a> = dyn Fn(&str, usize, usize) + Sync + 'a;

/// What only one may use at a time.
pub(crate) struct Work {
    pub(crate) spawner: Option<Spawner>,
    pub(crate) reports: OwnedFd,
    /// What another spawner needs when this one was killed.
    pub(crate) again: Again,
    pub(crate) inits: Inits,
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
    fn drop_silent(&self) {
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
    ) -> Result<(Vec<usize>, Vec<String>)> {
        self.tend_guests(work);
        self.note_strays(work)?;
        let links = Missing::of(&self.state(), &work.inits).links;
        self.recall(work, &links)?;
        let lived: BTreeSet<usize> =
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

    fn make_missing(&self, work: &mut Work, progress: &Progress<'_>) -> Result<Vec<usize>> {
        self.keep_spawner(work)?;
        let state = self.state();
        let Work { spawner, reports, inits, .. } = work;
        let Some(spawner) = spawner else {
            return Err(Error::NoLab(self.folder.name().to_owned()));
        };
        forget_reports(reports);
        let before_programs =
            |inits: &Inits, slots: &[usize], links: &[usize]| self.fit(&state, inits, slots, links);
        let maker = Maker {
            folder: &self.folder,
            state: &state,
            spawner,
            reports,
            progress,
            before_programs: &before_programs,
        };
        maker.make(inits)
    }

    fn start(
        &self,
        slots: &[usize],
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
        let nodes = slots.iter().filter_map(|i| state.plan.nodes.get(*i));
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

    /// Ids of nodes and pids of their living inits.
    pub(crate) fn living_inits(&self) -> Vec<(usize, i32)> {
        let work = self.work();
        let living = work.inits.iter().filter(|(id, i)| **id != CORE && i.lives());
        living.map(|(id, i)| (*id, i.pid.as_raw_nonzero().get())).collect()
    }

    /// The load averages.
    pub(crate) fn loads(&self) -> &Loads {
        &self.load
    }

    /// Whether the core's init lives.
    fn has_core(&self) -> bool {
        self.work().inits.get(&CORE).is_some_and(Init::lives)
    }
}

/// Ends the inits that were made among others that lived, and are not whole: they are made anew next time.
fn end_new(inits: &mut Inits, lived: &BTreeSet<usize>) {
    let ids: Vec<usize> = inits.keys().copied().filter(|id| !lived.contains(id)).collect();
    for init in ids.into_iter().filter_map(|id| inits.remove(&id)) {
        // One that has ended needs no signal.
        let _ = process::signal(&init.pidfd, rustix::process::Signal::KILL);
        process::wait_end(&init.pidfd, END_TIMEOUT);
    }
}

/// A node's place in the plan, by name.
pub(crate) fn slot(plan: &Plan, node: &str) -> Result<usize> {
    plan.node(node).ok_or_else(|| Error::NoNode {
        lab: plan.lab.clone(),
        node: node.to_owned(),
        hint: hint(plan, node),
    })
}

/// The numbers and names of all inits.
fn names(plan: &Plan) -> impl Iterator<Item = (usize, &str)> {
    let nodes = plan.nodes.iter().map(|n| (n.id, n.name.as_str()));
    nodes.chain([(CORE, "(core)")])
}

/// `; did you mean "x"?` where a name is near.
fn hint(plan: &Plan, asked: &str) -> String {
    let lower = asked.to_lowercase();
    let near = |name: &&str| {
        let name = name.to_lowercase();
        name == lower || name.starts_with(&lower) || lower.starts_with(&name)
    };
    let found = plan.nodes.iter().map(|n| n.name.as_str()).find(near);
    found.map_or_else(String::new, |n| format!("; did you mean {n:?}?"))
}

impl Service for Running {
    fn status(&self) -> Result<LabStatus> {
        let state = self.state();
        let pids = self.pids(&state.plan);
        let mut shm = state.plan.switches.iter().filter(|s| s.kind.as_shm().is_some());
        let switched = shm.all(|s| self.kept.switches.lives(&s.name));
        let whole = self.has_core() && pids.iter().all(Option::is_some) && switched;
        let phase = self.phase();
        status::read(&status::Sources { running: self, state: &state, pids: &pids, whole, phase })
    }

    fn plan(&self) -> Arc<Plan> {
        Arc::new(self.state().plan.clone())
    }

    fn repair(&self) -> Result<Repaired> {
        self.drop_silent();
        let Made { nodes, troubles } = self.make(&|_, _, _| {})?;
        Ok(Repaired { nodes, troubles })
    }

    fn ping(&self, families: &[u8], timeout: Duration) -> Result<Reachability> {
        let all: Vec<usize> = (0..self.state().plan.nodes.len()).collect();
        self.ping_among(&all, families, timeout)
    }

    fn ping_pair(
        &self,
        from: &str,
        to: &str,
        families: &[u8],
        pace: Pace,
    ) -> Result<PairReachability> {
        self.ping_one(from, to, families, pace)
    }

    fn log(&self, node: &str, after_ns: u64, wait: Duration) -> Result<Vec<Record>> {
        let state = self.state();
        let planned = &state.plan.nodes[slot(&state.plan, node)?];
        let (index, names) = (planned.id, log::names(&planned.run));
        let paths = log_names(index).map(|n| self.folder.sockets().join(n));
        let until = Instant::now() + wait;
        loop {
            let mut records = log::read(&paths);
            records.retain(|r| r.time_ns > after_ns);
            if !records.is_empty() || Instant::now() >= until {
                let runs = planned.run.len();
                for r in &mut records {
                    let of_setup = || Some(format!("setup {}", r.program.checked_sub(runs)? + 1));
                    r.name = names.get(r.program).cloned().or_else(of_setup);
                }
                return Ok(records);
            }
            std::thread::sleep(LOG_LOOK.min(until.saturating_duration_since(Instant::now())));
        }
    }

    fn door(&self, node: &str) -> Result<Door> {
        self.with_init(node, |state, planned, found| {
            let object = format!("node {node:?}");
            let init = found.pidfd.try_clone().map_err(Error::state(&object, "copy its pidfd"))?;
            let groups = state
                .groups
                .join_handles(planned.id)
                .map_err(Error::system(&object, "open its cgroups"))?;
            let mut spec = NodeSpec::core(planned.id, node);
            spec.env.clone_from(&planned.env);
            let env = init::environment(&state.plan.lab, &spec);
            Ok(Door {
                node: node.to_owned(),
                init,
                groups,
                user: state.user,
                env,
                nested: planned.children.is_some() || planned.parent.is_some(),
                privileged: planned.privileged,
                by_init: false,
            })
        })
    }

    fn run_in(&self, node: &str, fds: &[OwnedFd]) -> Result<()> {
        let id = self.with_init(node, |_, planned, _| Ok(planned.id))?;
        let socket = self.folder.sockets().join(socket_name(id));
        let init = Connection::open_within(node, &socket, Some(PASSING_ON))?;
        let init = init.ok_or_else(|| Error::DeadNode(node.to_owned()))?;
        let fds: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
        Ok(init.send_with(&control::Request::Run, &fds)?)
    }

    fn core(&self) -> Result<Door> {
        let state = self.state();
        let (lab, user) = (state.plan.lab.clone(), state.user);
        let work = self.work();
        let found = work.inits.get(&CORE).filter(|i| i.lives());
        let object = "core namespace";
        let init = found.ok_or_else(|| Error::DeadNode(object.to_owned()))?;
        let init = init.pidfd.try_clone().map_err(Error::state(object, "copy its pidfd"))?;
        let groups = Join { tasks: vec![], v2: None };
        Ok(Door {
            node: lab,
            init,
            groups,
            user,
            env: vec![],
            nested: false,
            privileged: true,
            by_init: false,
        })
    }

    fn create_node(&self, request: &NewNode) -> Result<Changed> {
        self.create(request)
    }

    fn delete_node(&self, node: &str, force: bool) -> Result<Changed> {
        self.delete(node, force)
    }

    fn set_node(&self, node: &str, change: &NodeSettings) -> Result<Changed> {
        self.set(node, change)
    }

    fn move_interface(&self, request: &MoveInterface) -> Result<Changed> {
        self.move_to(request)
    }

    fn set_link(&self, link: &str, change: &LinkSettings) -> Result<LinkStatus> {
        self.impair(link, change)
    }

    fn create_link(&self, request: &NewLink) -> Result<Changed> {
        self.make_link(request)
    }

    fn delete_link(&self, link: &str) -> Result<Changed> {
        self.remove_link(link)
    }

    fn note_fates(&self, link: &str, keep: Option<usize>) -> Result<()> {
        self.note(link, keep)
    }

    fn fates(&self, link: &str, end: usize, after: Option<u64>, wait: Duration) -> Result<Fates> {
        self.fates_of(link, end, after, wait)
    }

    fn create_switch(&self, request: &NewSwitch) -> Result<Changed> {
        self.make_switch(request)
    }

    fn delete_switch(&self, switch: &str, force: bool) -> Result<Changed> {
        self.remove_switch(switch, force)
    }

    fn ask_switch(&self, switch: &str, request: &Request) -> Result<Answer> {
        self.ask_the_switch(switch, request)
    }

    fn probe(&self) -> Result<Arc<Probe>> {
        self.kept.probing.probe(self.folder.name())
    }

    fn down(&self) -> Result<()> {
        self.enter(Phase::Ended);
        let result = self.take_down();
        // The lab process ends in any case: what is left is found by the next `down`.
        let _ = rustix::io::write(&self.ended, b".");
        result
    }
}

/// Files that a lab's process has open but those of nodes.
const FILES_BESIDES: u64 = 48;

/// Lets this process open as many files as it is allowed to; gives what it was allowed before.
pub(crate) fn raise_open_files() -> (Option<u64>, Option<u64>) {
    use rustix::process::{Resource, Rlimit};
    let old = rustix::process::getrlimit(Resource::Nofile);
    let raised = Rlimit { current: old.maximum, maximum: old.maximum };
    // With the old limit large labs fail with a clear error.
    let _ = rustix::process::setrlimit(Resource::Nofile, raised);
    (old.current, old.maximum)
}

/// What is to be said of a lab of so many nodes that could not be made, where few files may be open: it has
/// two for each while it is made.
pub(crate) fn few_files(nodes: usize) -> Option<String> {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current?;
    let wanted = 2 * u64::try_from(nodes).unwrap_or(u64::MAX / 4) + FILES_BESIDES;
    let words = "files may be open at once; a lab of this size may need";
    (limit < wanted).then(|| format!("{limit} {words} {wanted}: see `ulimit -Hn`"))
}

/// Whether this process is the lab's: it has the name, and the lab's lock open.
pub(crate) fn is_lab_process(folder: &Folder, pid: i32) -> bool {
    has_lock(folder, pid, process_name())
}

/// Whether this process is a spawner of the lab.
pub(crate) fn is_spawner(folder: &Folder, pid: i32) -> bool {
    has_lock(folder, pid, spawner::NAME)
}

/// Whether a process has this name, and the lab's lock open.
fn has_lock(folder: &Folder, pid: i32, name: &str) -> bool {
    let comm = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    let lock = folder.path().join("lock");
    let has_lock = || {
        let files = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        files.filter_map(|f| std::fs::read_link(f.path()).ok()).any(|target| target == lock)
    };
    comm.trim_end() == name && has_lock()
}

/// The lab process's name in the process list.
pub(crate) fn process_name() -> &'static str {
    "netloom-lab"
}

/// Sets the process's name, and what the process list shows of it.
pub(crate) fn name_process(lab: &str) {
    process::set_name(process_name());
    title::set(&format!("{}: {lab}", process_name()));
}
