//! A running lab as its process sees it: implements [`Service`].
//!
//! Two things never happen at once: making and taking down, under one lock. What is shown is read
//! from the kernel when it is asked for.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use netloom_model::Plan;
use netloom_node::entry::Door;
use netloom_node::log::{self, Record};
use netloom_node::spawner::Spawner;
use netloom_node::spec::{NodeSpec, log_names};
use netloom_node::{init, ping};
use netloom_sys::{namespace, process};

use crate::making::{Init, Maker, forget_reports};
use crate::state::{Folder, State};
use crate::view::{LabStatus, Reachability, Repaired};
use crate::{Error, Result, Service, status, teardown};

/// Pause between two looks at a node's log for somebody who waits.
const LOG_LOOK: Duration = Duration::from_millis(40);

/// How long a killed init may take to end.
const END_TIMEOUT: Duration = Duration::from_secs(10);

/// A running lab.
pub(crate) struct Running {
    pub(crate) folder: Folder,
    pub(crate) state: State,
    plan: Arc<Plan>,
    work: Mutex<Work>,
    /// Written to when the lab has been taken down.
    ended: OwnedFd,
}

/// What only one may use at a time.
struct Work {
    spawner: Option<Spawner>,
    reports: OwnedFd,
    inits: Vec<Option<Init>>,
}

impl Running {
    pub(crate) fn new(
        folder: Folder,
        state: State,
        spawner: Spawner,
        reports: OwnedFd,
        ended: OwnedFd,
    ) -> Running {
        let plan = Arc::new(state.plan.clone());
        let inits = (0..=state.plan.nodes.len()).map(|_| None).collect();
        let work = Mutex::new(Work { spawner: Some(spawner), reports, inits });
        Running { folder, state, plan, work, ended }
    }

    fn work(&self) -> MutexGuard<'_, Work> {
        // What a panicking call left is looked at anew by the next.
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Finds the inits that live already.
    pub(crate) fn adopt(&self) -> Result<()> {
        let mut work = self.work();
        for index in 0..work.inits.len() {
            let name = self.plan.nodes.get(index).map_or("(core)", |n| n.name.as_str());
            work.inits[index] = Init::find(&self.folder, index, name)?;
        }
        drop(work);
        self.drop_silent();
        Ok(())
    }

    /// Forgets inits that do not answer, once their processes have ended.
    fn drop_silent(&self) {
        let mut work = self.work();
        for (index, slot) in work.inits.iter_mut().enumerate() {
            let name = self.plan.nodes.get(index).map_or("(core)", |n| n.name.as_str());
            let Some(init) = slot.take_if(|i| !i.answers(&self.folder, index, name)) else {
                continue;
            };
            // It is dying, or hangs for good: either way it goes before another takes its place.
            let _ = process::signal(&init.pidfd, rustix::process::Signal::KILL);
            process::wait_end(&init.pidfd, END_TIMEOUT);
        }
    }

    /// Makes what is missing; gives the indexes of what was made.
    pub(crate) fn make(
        &self,
        progress: &(dyn Fn(&str, usize, usize) + Sync),
    ) -> Result<Vec<usize>> {
        let mut guard = self.work();
        let Work { spawner, reports, inits } = &mut *guard;
        let Some(spawner) = spawner else {
            return Err(Error::NoLab(self.folder.name().to_owned()));
        };
        forget_reports(reports);
        let (folder, state) = (&self.folder, &self.state);
        Maker { folder, state, spawner, reports, progress }.make(inits)
    }

    /// Takes everything down.
    pub(crate) fn take_down(&self) -> Result<()> {
        let mut work = self.work();
        // Without its client the spawner ends, and nothing more is born.
        match work.spawner.take() {
            Some(spawner) => spawner.end(),
            // Somebody else has taken it down.
            None if !self.folder.exists() => return Ok(()),
            None => {}
        }
        let mut inits: Vec<Init> = work.inits.iter_mut().filter_map(Option::take).collect();
        inits.retain(Init::lives);
        if inits.len() <= self.plan.nodes.len() {
            // Making may have stopped before all were known; their sockets name them.
            let known: Vec<_> = inits.iter().map(|i| i.pid).collect();
            let found = teardown::find_inits(&self.folder).into_iter();
            inits.extend(found.filter(|i| !known.contains(&i.pid)));
        }
        teardown::take_down(&self.folder, Some(&self.state), inits)
    }

    /// The init of a node by name.
    fn with_init<T>(&self, node: &str, f: impl FnOnce(usize, &Init) -> Result<T>) -> Result<T> {
        let index = self.index(node)?;
        let work = self.work();
        match work.inits.get(index).and_then(Option::as_ref).filter(|i| i.lives()) {
            Some(init) => f(index, init),
            None => Err(Error::DeadNode(node.to_owned())),
        }
    }

    fn index(&self, node: &str) -> Result<usize> {
        self.plan.node(node).ok_or_else(|| Error::NoNode {
            lab: self.plan.lab.clone(),
            node: node.to_owned(),
            hint: hint(&self.plan, node),
        })
    }

    /// Pids of living inits, by index.
    fn pids(&self) -> Vec<Option<rustix::process::Pid>> {
        let work = self.work();
        work.inits.iter().map(|i| i.as_ref().filter(|i| i.lives()).map(|i| i.pid)).collect()
    }
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
        status::read(&self.folder, &self.state, &self.pids())
    }

    fn plan(&self) -> Arc<Plan> {
        Arc::clone(&self.plan)
    }

    fn repair(&self) -> Result<Repaired> {
        self.drop_silent();
        let made = self.make(&|_, _, _| {})?;
        let nodes = made.iter().filter_map(|i| self.plan.nodes.get(*i)).map(|n| n.name.clone());
        Ok(Repaired { nodes: nodes.collect() })
    }

    fn ping(&self, families: &[u8], timeout: Duration) -> Result<Reachability> {
        let pids = self.pids();
        let spaces: Vec<Option<OwnedFd>> = pids
            .iter()
            .take(self.plan.nodes.len())
            .map(|p| p.and_then(|p| namespace::network_of(p).ok()))
            .collect();
        let mut found = Vec::new();
        for version in families {
            found.push(self.ping_family(*version, &spaces, timeout)?);
        }
        let nodes = self.plan.nodes.iter().map(|n| n.name.clone()).collect();
        Ok(Reachability { nodes, families: found })
    }

    fn log(&self, node: &str, after_ns: u64, wait: Duration) -> Result<Vec<Record>> {
        let index = self.index(node)?;
        let paths = log_names(index).map(|n| self.folder.sockets().join(n));
        let until = Instant::now() + wait;
        loop {
            let mut records = log::read(&paths);
            records.retain(|r| r.time_ns > after_ns);
            if !records.is_empty() || Instant::now() >= until {
                return Ok(records);
            }
            std::thread::sleep(LOG_LOOK.min(until.saturating_duration_since(Instant::now())));
        }
    }

    fn door(&self, node: &str) -> Result<Door> {
        self.with_init(node, |index, found| {
            let object = format!("node {node:?}");
            let pidfd = found.pidfd.try_clone().map_err(Error::state(&object, "copy its pidfd"))?;
            let groups = self
                .state
                .groups
                .join_handles(index)
                .map_err(Error::system(&object, "open its cgroups"))?;
            let mut spec = NodeSpec::core(index, node);
            spec.env.clone_from(&self.plan.nodes[index].env);
            let env = init::environment(&self.plan.lab, &spec);
            Ok(Door { node: node.to_owned(), init: pidfd, groups, user: self.state.user, env })
        })
    }

    fn down(&self) -> Result<()> {
        let result = self.take_down();
        // The lab process ends in any case: what is left is found by the next `down`.
        let _ = rustix::io::write(&self.ended, b".");
        result
    }
}

impl Running {
    fn ping_family(
        &self,
        version: u8,
        spaces: &[Option<OwnedFd>],
        timeout: Duration,
    ) -> Result<crate::view::Family> {
        use std::net::IpAddr;
        use std::os::fd::AsFd;
        let nodes = &self.plan.nodes;
        let address = |i: usize| match version {
            4 => nodes[i].ipv4().map(IpAddr::V4),
            _ => nodes[i].ipv6().map(IpAddr::V6),
        };
        // A dead node neither asks nor answers: its row and column stay empty.
        let living: Vec<usize> = (0..nodes.len()).filter(|i| spaces[*i].is_some()).collect();
        let prober = |i: &usize| {
            let netns = spaces[*i].as_ref()?.as_fd();
            Some(ping::Prober { name: &nodes[*i].name, netns, address: address(*i) })
        };
        let probers: Vec<ping::Prober<'_>> = living.iter().filter_map(prober).collect();
        let Some(family) = ping::Version::from_number(version) else {
            let reason = format!("there is no IP version {version}");
            return Err(Error::Conflict { lab: self.plan.lab.clone(), reason });
        };
        let found = ping::all_pairs(&probers, family, timeout)?;
        let mut rtt_us = vec![vec![None; nodes.len()]; nodes.len()];
        for (source, row) in living.iter().zip(found) {
            for (target, cell) in living.iter().zip(row) {
                rtt_us[*source][*target] = cell;
            }
        }
        let with = (0..nodes.len()).filter(|i| address(*i).is_some()).count() as u64;
        let answered = rtt_us.iter().flatten().filter(|c| c.is_some()).count() as u64;
        let asked = with * with.saturating_sub(1);
        Ok(crate::view::Family { version, rtt_us, asked, answered })
    }
}

/// Lets this process open as many files as it is allowed to; gives what it was allowed before.
pub(crate) fn raise_open_files() -> (Option<u64>, Option<u64>) {
    use rustix::process::{Resource, Rlimit};
    let old = rustix::process::getrlimit(Resource::Nofile);
    let raised = Rlimit { current: old.maximum, maximum: old.maximum };
    // With the old limit large labs fail with a clear error.
    let _ = rustix::process::setrlimit(Resource::Nofile, raised);
    (old.current, old.maximum)
}

/// Whether this process is the lab's: it has the name, and the lab's lock open.
pub(crate) fn is_lab_process(folder: &Folder, pid: i32) -> bool {
    let comm = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    let lock = folder.path().join("lock");
    let has_lock = || {
        let files = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        files.filter_map(|f| std::fs::read_link(f.path()).ok()).any(|target| target == lock)
    };
    comm.trim_end() == process_name() && has_lock()
}

/// The lab process's name in the process list.
pub(crate) fn process_name() -> &'static str {
    "netloom-lab"
}

/// Sets the process's name.
pub(crate) fn name_process() {
    process::set_name(process_name());
}
