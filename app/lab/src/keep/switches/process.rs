//! The processes of a lab's shared-memory switches, and those that carry frames between a switch and an
//! interface (plugs): found, started, ended.
//!
//! A switch is identified by its socket: the kernel tells a client the listening process. A plug is identified
//! by the lock that it holds on a file of its own. Both survive a kill of the lab process.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use netloom_model::kinds::shm::{ShmSwitch, VdeFolder};
use netloom_switch::control::Connection;
use rustix::process::Pid;

use crate::stage::role::{self, Process, Role};
use crate::store::state::{Folder, VDE_LOCK};
use crate::{Error, Result};

/// The socket of a switch of a lab.
pub(super) fn socket(folder: &Folder, switch: &str) -> PathBuf {
    netloom_shm::name::socket(folder.runtime(), folder.name(), switch)
}

/// The process of a switch, if it lives.
pub(super) fn find_switch(socket: &Path) -> Result<Option<Process>> {
    let listener = || -> Result<Option<Pid>> {
        let object = socket.display().to_string();
        let found = Connection::open(socket).map_err(Error::of(&object, "connect"))?;
        Ok(found.and_then(|c| Pid::from_raw(c.process().pid)))
    };
    let pid = listener()?;
    // The process at the socket may have been replaced between the two looks.
    let still = || Ok((listener()? == pid).then_some(()));
    Ok(Process::known(Role::Switch, socket, pid, still)?.map(|(process, ())| process))
}

/// Starts a switch with its options, and with the network namespace in which the kernel forwards among its ports.
pub(super) fn start_switch(
    folder: &Folder,
    switch: &str,
    options: &str,
    space: Option<OwnedFd>,
) -> Result<Process> {
    let (socket, state) = (socket(folder, switch), folder.switch_state(switch));
    let words = [socket.as_os_str(), state.as_os_str(), OsStr::new(options)];
    role::start(Role::Switch, &words, space, "start a switch", || find_switch(&socket))
}

/// The process of a plug, or of what offers a switch to clients of VDE, if it lives.
pub(super) fn find_plug(lock: &Path) -> Result<Option<Process>> {
    let offers = lock.to_string_lossy().ends_with(VDE_LOCK);
    Process::holding(if offers { Role::Vde } else { Role::Plug }, lock)
}

/// The folder by which clients of classic VDE know a switch, if there is one.
pub(super) fn vde_folder(folder: &Folder, switch: &str, options: &ShmSwitch) -> Option<PathBuf> {
    match &options.vde {
        VdeFolder::None => None,
        VdeFolder::At(path) => Some(path.into()),
        VdeFolder::Beside => {
            let mut path = socket(folder, switch).into_os_string();
            path.push(".vde");
            Some(path.into())
        }
    }
}

/// The folder of what offers a switch to clients of VDE and holds this lock, by its command line; see [`start_vde`].
pub(super) fn offered(lock: &Path) -> Option<PathBuf> {
    let pid = netloom_plug::holder(lock)?.as_raw_nonzero();
    let words = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let words = words.split(|byte| *byte == 0).map(OsStr::from_bytes);
    // The lock is followed by the socket and the folder.
    words.skip_while(|word| *word != lock).nth(2).map(PathBuf::from)
}

/// Starts what offers a switch to clients of classic VDE.
pub(super) fn start_vde(
    folder: &Folder,
    switch: &str,
    path: &Path,
    options: &str,
) -> Result<Process> {
    let object = format!("switch {switch:?}");
    // `up` reports it here; the process itself could only log it.
    netloom_switch::classic::check(path).map_err(Error::of(object, "offer VDE"))?;
    let (lock, socket) = (folder.vde_lock(switch), socket(folder, switch));
    let words = [lock.as_os_str(), socket.as_os_str(), path.as_os_str(), OsStr::new(options)];
    role::start(Role::Vde, &words, None, "offer VDE", || find_plug(&lock))
}

/// Options of a plug.
pub(super) struct Plug<'a> {
    pub(super) lock: &'a Path,
    pub(super) switch: &'a Path,
    /// The port's name on the switch.
    pub(super) name: &'a str,
    /// The kind of its descriptor: `tap`, `beside` for a tap beside a port, `packet`, or `ring` for a card.
    pub(super) kind: &'a str,
}

/// Starts a plug with the descriptor of its interface.
pub(super) fn start_plug(plug: &Plug<'_>, fd: OwnedFd) -> Result<Process> {
    let words = [plug.lock.as_os_str(), plug.switch.as_os_str()];
    let words = [words[0], words[1], OsStr::new(plug.name), OsStr::new(plug.kind)];
    role::start(Role::Plug, &words, Some(fd), "start a plug", || find_plug(plug.lock))
}
