//! The processes of a lab's shared-memory switches, and those that carry frames between a switch and an
//! interface (plugs): found, started, ended.
//!
//! A switch is named by its socket: whoever connects learns from the kernel who listens. A plug is named
//! by the lock that it holds on a file of its own. Both live on when the lab process is killed.

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use netloom_switch::control::Connection;
use netloom_sys::process;
use rustix::process::{Flock, FlockType, Pid, Signal, fcntl_getlk};

use super::asked;
use crate::state::Folder;
use crate::{Result, role};

/// How long a killed process may take to end.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);

/// A running one.
pub(super) struct Process {
    pub(super) pidfd: OwnedFd,
    pub(super) since: Instant,
}

impl Process {
    pub(super) fn lives(&self) -> bool {
        !process::has_ended(self.pidfd.as_fd())
    }

    pub(super) fn end(self) {
        // One that has ended needs no signal.
        let _ = process::signal(&self.pidfd, Signal::KILL);
        process::wait_end(&self.pidfd, KILL_TIMEOUT);
    }

    /// The process of this number, if what `names` it still does so once the pidfd is open: then the
    /// number was its own.
    fn known(
        pid: Option<Pid>,
        names: impl FnOnce() -> Result<Option<Pid>>,
    ) -> Result<Option<Self>> {
        let Some(pid) = pid else { return Ok(None) };
        let Ok(pidfd) = process::pidfd(pid) else { return Ok(None) };
        let same = names()? == Some(pid);
        Ok(same.then(|| Process { pidfd, since: Instant::now() }))
    }
}

/// Where a switch of a lab listens.
pub(super) fn socket(folder: &Folder, switch: &str) -> PathBuf {
    netloom_shm::name::socket(folder.runtime(), folder.name(), switch)
}

/// The process of a switch, if it lives.
pub(super) fn find_switch(socket: &Path) -> Result<Option<Process>> {
    let listens = || -> Result<Option<Pid>> {
        let object = socket.display().to_string();
        let found = Connection::open(socket).map_err(asked(&object, "connect"))?;
        Ok(found.and_then(|c| Pid::from_raw(c.process().pid)))
    };
    Process::known(listens()?, listens)
}

/// Starts a switch with what it needs to know.
pub(super) fn start_switch(folder: &Folder, switch: &str, options: &str) -> Result<Process> {
    let (socket, state) = (socket(folder, switch), folder.switch_state(switch));
    let words = [socket.as_os_str(), state.as_os_str(), OsStr::new(options)];
    role::start("switch-process", &words, None, "start a switch", || find_switch(&socket))
}

/// The process of a plug, if it lives.
pub(super) fn find_plug(lock: &Path) -> Result<Option<Process>> {
    let holds = || Ok(holder(lock));
    Process::known(holds()?, holds)
}

/// Who holds a lock on the whole of a file.
fn holder(path: &Path) -> Option<Pid> {
    let file = std::fs::File::options().read(true).write(true).open(path).ok()?;
    let whole = Flock::from(FlockType::WriteLock);
    fcntl_getlk(&file, &whole).ok().flatten().and_then(|found| found.pid)
}

/// How a plug is to be.
pub(super) struct Plug<'a> {
    pub(super) lock: &'a Path,
    pub(super) switch: &'a Path,
    /// The port's name on the switch.
    pub(super) name: &'a str,
    /// What its descriptor is: `tap`, `packet`, or `ring` for a card.
    pub(super) kind: &'a str,
}

/// Starts one with the descriptor of its interface.
pub(super) fn start_plug(plug: &Plug<'_>, fd: OwnedFd) -> Result<Process> {
    let words = [plug.lock.as_os_str(), plug.switch.as_os_str()];
    let words = [words[0], words[1], OsStr::new(plug.name), OsStr::new(plug.kind)];
    role::start("plug-process", &words, Some(fd), "start a plug", || find_plug(plug.lock))
}
