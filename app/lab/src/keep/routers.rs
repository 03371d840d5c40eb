//! The processes that follow routers whose planes are separate: one each, in the router's network namespace.
//!
//! A process ends with the init of its router; entries stay in the switch that is the router's plane, and the next
//! process, which follows the node made anew, confirms them. It survives a kill of the lab process, and is found by the
//! lock that it holds.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use netloom_model::Plan;
use netloom_model::plan::{NodeId, PlannedNode};
use netloom_router::{Followed, Interface, Ospf, Spec};

use crate::build::keeper::{Context, Fresh, Gone, Keeper};
use crate::keep::flows::plane_ports;
use crate::stage::attach;
use crate::stage::inits::{Init, Inits};
use crate::stage::role::{self, FIRST_PAUSE, LONGEST_PAUSE, Process, Role, STEADY};
use crate::store::state::{Folder, State};
use crate::{Error, Result};

/// The processes of a lab.
#[derive(Default)]
pub(crate) struct Routers {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    /// By router.
    processes: BTreeMap<NodeId, Process>,
    pause: Duration,
}

impl Routers {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The routers whose planes are separate.
fn routers(plan: &Plan) -> impl Iterator<Item = &PlannedNode> {
    plan.nodes.iter().filter(|node| node.kind.has_separate_plane())
}

/// How many entries of a router's plane nobody has confirmed yet; `None` while nobody follows it.
pub(crate) fn unconfirmed(folder: &Folder, node: &PlannedNode) -> Option<usize> {
    let followed = Followed::read(&folder.flow_folder(&node.plane_name()))?;
    Some(followed.unconfirmed)
}

/// The init of a router, if it lives.
fn living(inits: &Inits, node: NodeId) -> Option<&Init> {
    inits.get(&node).filter(|init| init.lives())
}

/// The process that holds a lock.
fn find(lock: &Path) -> Result<Option<Process>> {
    let again = || Ok(netloom_plug::holder(lock).map(drop));
    Ok(Process::known(netloom_plug::holder(lock), again)?.map(|(process, ())| process))
}

/// What the process is told.
fn spec(folder: &Folder, plan: &Plan, node: &PlannedNode, init: &Init) -> Spec {
    let name = node.plane_name();
    let interfaces = node.interfaces.iter().map(|interface| {
        let [outside, inside] = plane_ports(interface);
        let (index, mac, mtu) = (interface.index, interface.mac, interface.mtu);
        Interface { index, mac, mtu, outside, inside }
    });
    Spec {
        name: node.name.clone(),
        openflow: folder.flow_socket(&name),
        interfaces: interfaces.collect(),
        grace: node.kind.as_router().map_or(0, |router| router.grace),
        root: Some(PathBuf::from(format!("/proc/{}/root", init.pid.as_raw_nonzero()))),
        ospf: plan.announced(node).map(|(router, area, grace)| Ospf { router, area, grace }),
        home: folder.flow_folder(&name),
    }
}

fn start(context: &Context<'_>, node: &PlannedNode, init: &Init) -> Result<Option<Process>> {
    let object = format!("router {:?}", node.name);
    let Some(space) = attach::open(context.inits, node.id)? else { return Ok(None) };
    let spec = serde_json::to_string(&spec(context.folder, &context.state.plan, node, init))
        .map_err(|e| Error::of(object, "describe it")(std::io::Error::from(e)))?;
    // What an earlier process wrote is not about this one.
    let home = context.folder.flow_folder(&node.plane_name());
    let _ = std::fs::remove_file(home.join(netloom_router::STATE));
    let lock = context.folder.router_lock(&node.plane_name());
    let pid = init.pid.as_raw_nonzero().to_string();
    let words = [lock.as_os_str(), OsStr::new(&pid), OsStr::new(&spec)];
    let found = || find(&lock);
    role::start(Role::Router, &words, Some(space), "follow a router", found).map(Some)
}

impl Inner {
    fn lives(&self, node: NodeId) -> bool {
        self.processes.get(&node).is_some_and(Process::lives)
    }

    fn start_missing(&mut self, context: &Context<'_>) -> Result<()> {
        for node in routers(&context.state.plan) {
            let Some(init) = living(context.inits, node.id).filter(|_| !self.lives(node.id)) else {
                continue;
            };
            let lock = context.folder.router_lock(&node.plane_name());
            let process = match find(&lock)? {
                Some(process) => Some(process),
                None => start(context, node, init)?,
            };
            self.processes.extend(process.map(|process| (node.id, process)));
        }
        Ok(())
    }

    /// Ends the process of a router, also one of an earlier lab process.
    fn end(&mut self, folder: &Folder, node: &PlannedNode) {
        let known = self.processes.remove(&node.id);
        let found = || find(&folder.router_lock(&node.plane_name())).ok().flatten();
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
}

impl Keeper for Routers {
    fn fit(&self, context: &Context<'_>, fresh: Fresh<'_>) -> Result<()> {
        let mut inner = self.inner();
        let plan = &context.state.plan;
        let ids = fresh.ids(context.state);
        let touched = |node: &PlannedNode| {
            node.interfaces.iter().any(|interface| fresh.links.contains(&interface.link))
        };
        // Those of nodes made anew are in a network that is gone; others are told of new links.
        for node in routers(plan).filter(|node| ids.contains(&node.id) || touched(node)) {
            inner.end(context.folder, node);
        }
        inner.start_missing(context)
    }

    fn adopt(&self, context: &Context<'_>) -> Result<()> {
        self.inner().start_missing(context)
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
        if self_is_whole(&inner, context.state, context.inits) {
            return None;
        }
        if ended.is_some_and(|lived| lived < STEADY) && inner.pause < LONGEST_PAUSE {
            inner.pause = role::longer(inner.pause);
            if inner.pause > FIRST_PAUSE {
                return Some(inner.pause);
            }
        }
        match inner.start_missing(context) {
            Ok(()) => {
                inner.pause = Duration::ZERO;
                None
            }
            Err(e) => {
                netloom_sys::journal::line(format_args!("netloom: {}", netloom_sys::describe(&e)));
                inner.pause = role::longer(inner.pause);
                Some(inner.pause)
            }
        }
    }

    fn end(&self, _: &Folder) {
        let processes = std::mem::take(&mut self.inner().processes);
        processes.into_values().for_each(Process::end);
    }

    fn sweep(&self, folder: &Folder, _: Option<&Plan>) -> Result<()> {
        let entries = std::fs::read_dir(folder.flow_files()).into_iter().flatten().flatten();
        for entry in entries {
            if let Some(process) = find(&entry.path().join("router.lock"))? {
                process.end();
            }
        }
        Ok(())
    }
}

/// Whether every living router has its process.
fn self_is_whole(inner: &Inner, state: &State, inits: &Inits) -> bool {
    routers(&state.plan).all(|node| living(inits, node.id).is_none() || inner.lives(node.id))
}
