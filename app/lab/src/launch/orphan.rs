//! Takes down a lab from its folder alone, or looks at it: its process has ended, or does not serve yet.
//!
//! The folder's lock tells when nothing more is being made; the inits' sockets tell which nodes live; the
//! state lists all other objects.

use std::fs::File;
use std::io::{Seek, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use netloom_model::plan::NodeId;
use netloom_sys::{Failure, caps, describe, feature, namespace, population, process};
use rustix::fs::MemfdFlags;
use rustix::process::Signal;

use crate::run::drift::{self, Differences, Left, LivingInits};
use crate::run::teardown;
use crate::stage::inits::Init;
use crate::stage::lab_process::{lab_process, spawner};
use crate::store::state::{Folder, State};
use crate::{Error, Result};

/// Interval of checks of a lock that is held.
const LOCK_LOOK: Duration = Duration::from_millis(5);

/// Wait before the user is told the reason of the wait.
pub(crate) const TELL: Duration = Duration::from_secs(1);

/// Time limit for a lab process that was asked to end: a stopped one, and any other.
const STOPPED: Duration = Duration::from_secs(3);
const HUNG: Duration = Duration::from_secs(60);

/// Time limit for the lock to be held without a lab process.
const HOLDER_PATIENCE: Duration = Duration::from_secs(5);

/// Time limit for a killed process to end.
const KILL_TIMEOUT: Duration = Duration::from_secs(30);

/// Takes down a lab whose process has ended. The calling process must have one thread; that of an ordinary user is
/// in the lab's user namespace afterwards. `tell` is called with the object of a long wait, and with the action
/// after it.
///
/// # Errors
/// [`Error::NoLab`] when there is none, [`Error::Conflict`] when its process lives.
pub fn down_orphan(runtime: &Path, name: &str, tell: &dyn Fn(&str)) -> Result<()> {
    let folder = Folder::new(runtime, name);
    if !folder.exists()? {
        return Err(Error::NoLab(name.to_owned()));
    }
    let _lock = match end_and_lock(&folder, tell) {
        Ok(lock) => lock,
        // The lab process has just removed it.
        Err(_) if !folder.exists()? => return Ok(()),
        Err(e) => return Err(e),
    };
    if !folder.exists()? {
        return Ok(());
    }
    let unreadable = |file: &Path, reason: &str| {
        tell(&format!("{file:?} cannot be read: {reason}; taking down what the kernel shows"));
    };
    if let Err(Error::Unreadable { file, reason, .. }) = folder.read_host_changes() {
        unreadable(&file, &reason);
    }
    match folder.read_state() {
        Err(Error::Unreadable { file, reason, .. }) => {
            unreadable(&file, &reason);
            clean(&folder, None)
        }
        state => clean(&folder, state?.as_ref()),
    }
}

/// Waits for the lock, and asks a process that still makes or runs the lab to end, or kills it. A lab
/// process records itself shortly after it has the lock, so the search repeats until it is found.
fn end_and_lock(folder: &Folder, tell: &dyn Fn(&str)) -> Result<OwnedFd> {
    let (mut asked, mut told) = (None, false);
    let mut last_seen = Instant::now();
    loop {
        if let Some(lock) = folder.try_lock()? {
            return Ok(lock);
        }
        let alive = living(folder);
        match (&alive, asked) {
            (Some((_, pidfd)), None) => {
                process::signal(pidfd, Signal::TERM).map_err(Error::of("lab process", "end"))?;
                asked = Some(Instant::now());
            }
            (Some((pid, _)), Some(since)) => {
                if !told && since.elapsed() > TELL {
                    tell(&format!("waiting for the lab process (pid {pid}) to end"));
                    told = true;
                }
                if since.elapsed() > patience(*pid) {
                    kill_lab_process(folder, tell)?;
                }
            }
            (None, _) if last_seen.elapsed() > HOLDER_PATIENCE => {
                end_holders(folder, tell)?;
                if last_seen.elapsed() > 2 * HOLDER_PATIENCE {
                    let reason = "somebody has its lock; see who: fuser -v LAB/lock".to_owned();
                    return Err(Error::Conflict { lab: folder.name().to_owned(), reason });
                }
            }
            (None, _) if !told && last_seen.elapsed() > TELL => {
                tell(&holders_words(folder));
                told = true;
            }
            (None, _) => {}
        }
        if alive.is_some() {
            last_seen = Instant::now();
        }
        std::thread::sleep(LOCK_LOOK);
    }
}

/// Time limit for a lab process that was asked to end, which a stopped one cannot do.
fn patience(pid: i32) -> Duration {
    if process::is_stopped(pid) { STOPPED } else { HUNG }
}

/// Kills a lab process, if it lives, and waits until it has ended; its lab lives on.
///
/// # Errors
/// It does not end.
pub fn kill_lab_process(folder: &Folder, tell: &dyn Fn(&str)) -> Result<()> {
    let Some((pid, pidfd)) = living(folder) else { return Ok(()) };
    tell(&format!("the lab process (pid {pid}) is killed, because it does not answer or end"));
    kill((pid, &pidfd), "lab process")
}

/// The lab process, if it lives: the recorded one, or the one that the kernel shows.
fn living(folder: &Folder) -> Option<(i32, OwnedFd)> {
    let proved = |pid: i32| Some((pid, lab_process(folder, pid)?));
    folder
        .read_pid()
        .and_then(proved)
        .or_else(|| population::pids().into_iter().flatten().find_map(proved))
}

/// Spawners of a lab.
fn spawners(folder: &Folder) -> Vec<(i32, OwnedFd)> {
    population::pids()
        .into_iter()
        .flatten()
        .filter_map(|pid| Some((pid, spawner(folder, pid)?)))
        .collect()
}

/// The object of the wait, when there is no lab process and the lock is held.
pub(crate) fn holders_words(folder: &Folder) -> String {
    match spawners(folder).first() {
        Some((pid, _)) => format!("waiting for the lab's spawner (pid {pid}) to end"),
        None => format!("waiting for the process that holds the lock of lab {:?}", folder.name()),
    }
}

/// Kills spawners that hold a lab's lock, when there is no lab process: they should have ended.
pub(crate) fn end_holders(folder: &Folder, tell: &dyn Fn(&str)) -> Result<()> {
    for (pid, pidfd) in spawners(folder) {
        tell(&format!("the lab's spawner (pid {pid}) is killed, because it does not end"));
        kill((pid, &pidfd), "spawner")?;
    }
    Ok(())
}

fn kill((pid, pidfd): (i32, &OwnedFd), object: &'static str) -> Result<()> {
    process::signal(pidfd, Signal::KILL).map_err(Error::of(object, "kill"))?;
    if process::wait_end(pidfd, KILL_TIMEOUT) {
        return Ok(());
    }
    let late = std::io::Error::from(std::io::ErrorKind::TimedOut);
    Err(Error::at(format!("process {pid}"), "wait for its end")(late))
}

fn clean(folder: &Folder, state: Option<&State>) -> Result<()> {
    let inits = teardown::find_inits(folder)?;
    if let (Some(init), false) = (inits.first(), caps::is_privileged()) {
        join_user_namespace(init)?;
    }
    teardown::take_down(folder, state, inits)
}

/// Removes remains without changing the calling process's namespaces.
pub(crate) fn empty_in_child(
    folder: &Folder,
    state: Option<&State>,
    inits: Vec<Init>,
) -> Result<()> {
    let tried = feature::in_child(|| {
        let result = match inits.first().filter(|_| !caps::is_privileged()) {
            Some(init) => join_user_namespace(init),
            None => Ok(()),
        };
        match result.and_then(|()| teardown::empty(folder, state, inits)) {
            // Everything of the lab is removed; what a foreign process keeps does no harm.
            Ok(()) | Err(Error::Visited { .. }) => Ok(()),
            Err(e) => Err(Failure::new("remains", "remove", describe(&e)).into()),
        }
    });
    tried.map_err(|reason| Error::Conflict { lab: folder.name().to_owned(), reason })
}

/// What differs in a lab without a process, without changing the calling process's namespaces.
pub(crate) fn differences(folder: &Folder, state: &State) -> Result<Differences> {
    let inits = teardown::find_inits(folder)?;
    let pid = |id: NodeId| inits.iter().find(|init| init.id == id).map(|init| init.pid);
    let nodes = state.plan.nodes.iter().map(|node| pid(node.id)).collect();
    let inhabited = LivingInits { nodes, core: pid(NodeId::CORE) };
    let left = Left::read(folder)?;
    let (Some(init), false) = (inits.first(), caps::is_privileged()) else {
        // The process that continues the lab makes its doors again.
        return drift::find(state, &inhabited, &left);
    };
    let failed = Error::at("memory", "share");
    let shared = rustix::fs::memfd_create("netloom-drift", MemfdFlags::CLOEXEC);
    let mut shared = File::from(shared.map_err(failed)?);
    let tried = feature::in_child(|| {
        let found = join_user_namespace(init)
            .and_then(|()| drift::find(state, &inhabited, &left))
            .map_err(|e| Failure::new("nodes", "look into", describe(&e)))?;
        let text = serde_json::to_vec(&found.to_stored())
            .map_err(|e| Failure::new("differences", "encode", std::io::Error::from(e)))?;
        (&shared).write_all(&text).map_err(|e| Failure::new("memory", "write", e))?;
        Ok(())
    });
    tried.map_err(|reason| Error::Conflict { lab: folder.name().to_owned(), reason })?;
    let read = shared.rewind().and_then(|()| Ok(serde_json::from_reader(&shared)?));
    Ok(Differences::from_stored(read.map_err(Error::at("differences", "read"))?))
}

fn join_user_namespace(init: &Init) -> Result<()> {
    let ns = namespace::user_of(init.pid).map_err(Error::of("user namespace", "open"))?;
    namespace::enter_user(ns.as_fd()).map_err(Error::of("user namespace of the lab", "join"))
}
