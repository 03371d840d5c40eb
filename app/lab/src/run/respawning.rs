//! Starts a new spawner after the old one was killed.
//!
//! `up` forks the first spawner while it has one thread. The lab process has several, so if its spawner has ended when
//! something is to be made, it executes this program in the role of a spawner. In a user's lab the new spawner is in
//! the lab's user namespace from the start, as the lab process is.

use std::process::{Command, Stdio};

use netloom_node::spawner::Spawner;
use netloom_node::spec::Prepare;
use rustix::pipe::PipeFlags;
use rustix::process::Pid;

use crate::run::running::{Running, Work};
use crate::store::state::{Folder, State};
use crate::{Error, Result};

impl Running {
    /// Starts a new spawner if the old one has ended.
    pub(crate) fn keep_spawner(&self, work: &mut Work) -> Result<()> {
        if work.spawner.as_ref().is_none_or(Spawner::lives) {
            return Ok(());
        }
        let spawner = start()?;
        let (reports, status) =
            rustix::pipe::pipe_with(PipeFlags::CLOEXEC).map_err(Error::at("pipe", "make"))?;
        let prepare = prepare(&self.folder, &self.state(), work.again.open_files);
        spawner.prepare(prepare, &status, &work.again.lock)?;
        self.kept.resolving.follow_spawner(spawner.pid());
        work.spawner = Some(spawner);
        work.reports = reports;
        Ok(())
    }
}

/// Starts this program as a spawner.
fn start() -> Result<Spawner> {
    let (ours, theirs) = Spawner::socket()?;
    let started = Command::new("/proc/self/exe")
        .arg(crate::stage::role::Role::Spawner.verb())
        .stdin(Stdio::from(theirs))
        .spawn()
        .map_err(Error::at("/proc/self/exe", "start a spawner"))?;
    // Not reaped yet, so the id is its own.
    let spawner = Spawner::of(ours, Pid::from_child(&started));
    crate::stage::role::reap_later(started);
    Ok(spawner?)
}

pub(crate) fn prepare(
    folder: &Folder,
    state: &State,
    open_files: (Option<u64>, Option<u64>),
) -> Prepare {
    Prepare {
        lab: state.plan.lab.clone(),
        state: folder.path(),
        runtime: folder.runtime().to_owned(),
        user: state.user,
        hosts: state.plan.hosts.clone(),
        open_files,
        network_ahead: false,
    }
}
