//! Taking down a lab from its folder alone: its process is gone, or does not serve yet.
//!
//! The folder's lock says when nothing more is being made; the inits' sockets say what lives; the
//! state says what else there is.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use netloom_sys::{caps, feature, namespace, process};
use rustix::process::{Pid, Signal};

use crate::making::Init;
use crate::running::is_lab_process;
use crate::state::{Folder, State};
use crate::{Error, Result, describe, teardown};

/// Pause between two looks at a lock that somebody has.
const LOCK_LOOK: Duration = Duration::from_millis(5);

/// Takes down a lab whose process is gone. The caller's process must have one thread and is not
/// good for much afterwards: an ordinary user's joins the lab's user namespace.
///
/// # Errors
/// [`Error::NoLab`] when there is none, [`Error::Conflict`] when its process lives.
pub fn down_orphan(runtime: &Path, name: &str) -> Result<()> {
    let folder = Folder::new(runtime, name);
    if !folder.exists() {
        return Err(Error::NoLab(name.to_owned()));
    }
    let _lock = match end_and_lock(&folder) {
        Ok(lock) => lock,
        // Its process has just removed it.
        Err(_) if !folder.exists() => return Ok(()),
        Err(e) => return Err(e),
    };
    if folder.exists() { clean(&folder, folder.read_state()?.as_ref()) } else { Ok(()) }
}

/// Waits for the lock, and asks whoever still makes or runs the lab to end. A lab process notes
/// itself a moment after it has the lock, so it is looked for until it is found.
fn end_and_lock(folder: &Folder) -> Result<OwnedFd> {
    let mut asked = false;
    loop {
        if let Some(lock) = folder.try_lock()? {
            return Ok(lock);
        }
        let alive = folder.read_pid().filter(|p| !asked && is_lab_process(folder, *p));
        if let Some(pidfd) = alive.and_then(Pid::from_raw).and_then(|p| process::pidfd(p).ok()) {
            process::signal(pidfd, Signal::TERM).map_err(Error::system("lab process", "end"))?;
            asked = true;
        }
        std::thread::sleep(LOCK_LOOK);
    }
}

fn clean(folder: &Folder, state: Option<&State>) -> Result<()> {
    let inits = teardown::find_inits(folder);
    if let (Some(init), false) = (inits.first(), caps::is_privileged()) {
        join_user_namespace(init)?;
    }
    teardown::take_down(folder, state, inits)
}

/// Removes remains and leaves the calling process where it is.
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
        result.and_then(|()| teardown::empty(folder, state, inits)).map_err(|e| {
            netloom_sys::Error::call("remains", "remove", std::io::Error::other(describe(&e)))
        })
    });
    tried.map_err(|reason| Error::Conflict { lab: folder.name().to_owned(), reason })
}

fn join_user_namespace(init: &Init) -> Result<()> {
    let ns = namespace::user_of(init.pid).map_err(Error::system("user namespace", "open"))?;
    namespace::enter_user(ns.as_fd()).map_err(Error::system("user namespace of the lab", "join"))
}
