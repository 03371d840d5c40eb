//! Helper processes: this program in other roles, started by a lab process and outliving it.
//!
//! Each is found again by an object of its own (a socket that it listens on, a lock that it holds) and by its name,
//! never by a stored process id. Until it can be found, it ends with the thread that starts it, so that
//! no process is left that cannot be found.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use netloom_sys::{population, process};
use rustix::process::{Pid, Signal};

use crate::stage::inits::{stranger, unseen};
use crate::store::state::Folder;
use crate::{Error, Result};

/// A role of this program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Carries the frames of a lab's wires; found by the socket that it listens on.
    Wire,
    /// A shared-memory switch; found by its socket.
    Switch,
    /// Carries frames between a switch and an interface; found by the lock that it holds.
    Plug,
    /// Admits clients of classic VDE to a switch; found by the lock that it holds.
    Vde,
    /// An OpenFlow switch; found by its control socket.
    Flow,
    /// The slicer; found by its control socket.
    Slice,
    /// Follows a router whose plane is separate; found by the lock that it holds.
    Router,
    /// Passes what leaves an ordinary user's lab; found by the lock that it holds.
    Uplink,
    /// Carries what comes to a node's ports on the host; found by the lock that it holds.
    Publish,
    /// Clones inits for a lab process whose spawner was killed; ends with its client.
    Spawner,
}

impl Role {
    /// All roles.
    pub const ALL: [Role; 10] = [
        Role::Wire,
        Role::Switch,
        Role::Plug,
        Role::Vde,
        Role::Flow,
        Role::Slice,
        Role::Router,
        Role::Uplink,
        Role::Publish,
        Role::Spawner,
    ];

    /// The hidden verb that starts it.
    pub const fn verb(self) -> &'static str {
        match self {
            Role::Wire => "wire-process",
            Role::Switch => "switch-process",
            Role::Plug => "plug-process",
            Role::Vde => "vde-process",
            Role::Flow => "flow-process",
            Role::Slice => "slice-process",
            Role::Router => "router-process",
            Role::Uplink => "uplink-process",
            Role::Publish => "ports-process",
            Role::Spawner => "spawner-process",
        }
    }

    /// The name of its process.
    pub const fn process(self) -> &'static str {
        match self {
            Role::Wire => netloom_wire::NAME,
            Role::Switch => netloom_switch::NAME,
            Role::Plug => netloom_plug::NAME,
            Role::Vde => netloom_switch::classic::NAME,
            Role::Flow => netloom_flow::NAME,
            Role::Slice => netloom_slice::NAME,
            Role::Router => netloom_router::NAME,
            Role::Uplink => netloom_uplink::NAME,
            Role::Publish => netloom_publish::NAME,
            Role::Spawner => netloom_node::spawner::NAME,
        }
    }
}

/// Words of a command line before those that [`start`] is given: the program, the verb, and who starts it.
const FIRST_WORD: usize = 3;

/// Time limit for a new process to be found, and the interval between searches.
const START_TIMEOUT: Duration = Duration::from_secs(30);
const START_LOOK: Duration = Duration::from_millis(1);

/// Time limit for a killed process to end.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);

/// Pause before a restart: the first one and the longest.
pub(crate) const FIRST_PAUSE: Duration = Duration::from_millis(50);
pub(crate) const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// A process that lived this long did not fail at once.
pub(crate) const STEADY: Duration = Duration::from_secs(10);

/// The pause that follows this one.
pub(crate) fn longer(pause: Duration) -> Duration {
    (pause * 2).clamp(FIRST_PAUSE, LONGEST_PAUSE)
}

/// The growing pause between starts of processes that end at once.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pause(Duration);

impl Pause {
    /// Starts again what has ended, or tells when to try: `lived` is the shortest life of what ended since the last call.
    /// A process that lived long, or ends for the first time, is restarted at once. If a start fails, the journal names it.
    pub(crate) fn restart(
        &mut self,
        lived: Option<Duration>,
        who: &str,
        start: impl FnOnce() -> Result<()>,
    ) -> Option<Duration> {
        if let Some(lived) = lived {
            self.0 = if lived < STEADY { longer(self.0) } else { Duration::ZERO };
            if self.0 > FIRST_PAUSE {
                return Some(self.0);
            }
        }
        match start() {
            Ok(()) => None,
            Err(e) => {
                netloom_sys::journal::line(format_args!(
                    "netloom: {who}: {}",
                    netloom_sys::describe(&e)
                ));
                self.0 = longer(self.0);
                Some(self.0)
            }
        }
    }
}

/// A process in a role.
pub(crate) struct Process {
    pub(crate) pidfd: OwnedFd,
    pub(crate) since: Instant,
}

impl Process {
    /// The process with this id, which has a socket or a lock. `still` looks for it again once the pidfd is open, which
    /// proves that the id was not reused. A link leads to another's socket, and so to nobody.
    ///
    /// # Errors
    /// The kernel says that it is none in this role.
    pub(crate) fn known<T>(
        role: Role,
        at: &Path,
        pid: Option<Pid>,
        still: impl FnOnce() -> Result<Option<T>>,
    ) -> Result<Option<(Process, T)>> {
        let Some((pid, pidfd)) = pid.and_then(|pid| Some((pid, process::pidfd(pid).ok()?))) else {
            return Ok(None);
        };
        if at.is_symlink() {
            return Ok(None);
        }
        let Some(name) = process::name_of(pid) else { return unseen(pid, &pidfd) };
        let Some(found) = still()? else { return Ok(None) };
        match name == role.process() {
            true => Ok(Some((Process { pidfd, since: Instant::now() }, found))),
            false => Err(stranger(at, pid, &name)),
        }
    }

    /// The process in this role that holds a lock, if one does.
    ///
    /// # Errors
    /// As [`Process::known`].
    pub(crate) fn holding(role: Role, lock: &Path) -> Result<Option<Process>> {
        let pid = netloom_plug::holder(lock);
        let still = || Ok((netloom_plug::holder(lock) == pid).then_some(()));
        Ok(Process::known(role, lock, pid, still)?.map(|(process, ())| process))
    }

    pub(crate) fn lives(&self) -> bool {
        !process::has_ended(self.pidfd.as_fd())
    }

    pub(crate) fn end(self) {
        // No signal is needed if it has ended.
        let _ = process::signal(&self.pidfd, Signal::KILL);
        process::wait_end(&self.pidfd, KILL_TIMEOUT);
    }
}

/// A process in a role that no socket and no lock leads to, by its command line.
pub(crate) struct UnlistedProcess {
    pub(crate) role: Role,
    pub(crate) pid: Pid,
    /// What [`start`] was given.
    pub(crate) words: Vec<OsString>,
    pub(crate) process: Process,
}

/// The processes in roles that were started for the lab of this folder, as the kernel shows them: of this user, of a role's
/// name, with a path in the folder among their first words.
pub(crate) fn of_lab(folder: &Folder) -> Vec<UnlistedProcess> {
    let (folder, user) = (folder.path(), rustix::process::geteuid().as_raw());
    let found = population::pids().into_iter().flatten().filter_map(|pid| {
        let pid = Pid::from_raw(pid)?;
        // Before its name is read: a number that is used again proves nothing.
        let pidfd = process::pidfd(pid).ok()?;
        let name = process::name_of(pid)?;
        let role = *Role::ALL.iter().find(|role| role.process() == name)?;
        let place = PathBuf::from(format!("/proc/{}", pid.as_raw_nonzero()));
        let line = std::fs::read(place.join("cmdline")).ok()?;
        let is_own = std::fs::metadata(&place).is_ok_and(|found| found.uid() == user);
        let words = line.split(|byte| *byte == 0).map(|word| OsStr::from_bytes(word).to_owned());
        let words: Vec<OsString> = words.skip(FIRST_WORD).collect();
        let is_of_lab = words.iter().take(2).any(|word| Path::new(word).starts_with(&folder));
        let process = Process { pidfd, since: Instant::now() };
        (is_own && is_of_lab).then_some(UnlistedProcess { role, pid, words, process })
    });
    found.collect()
}

/// Starts a role with its arguments, preceded by this process's id, which identifies the starter.
/// `input` becomes its standard input. Returns what `find` returns.
///
/// # Errors
/// It cannot be started, ends at once, or is not found within thirty seconds, in which case it is killed.
pub(crate) fn start<T>(
    role: Role,
    arguments: &[&OsStr],
    input: Option<OwnedFd>,
    operation: &'static str,
    mut find: impl FnMut() -> Result<Option<T>>,
) -> Result<T> {
    let started = |e| Error::at("/proc/self/exe", operation)(e);
    let own = rustix::process::getpid().as_raw_nonzero().to_string();
    let mut child = Command::new("/proc/self/exe")
        .arg(role.verb())
        .arg(own)
        .args(arguments)
        .stdin(input.map_or_else(Stdio::null, Stdio::from))
        .env_clear()
        .spawn()
        .map_err(started)?;
    let until = Instant::now() + START_TIMEOUT;
    loop {
        match find() {
            Ok(None) => {}
            Ok(Some(found)) => {
                reap_later(child);
                return Ok(found);
            }
            Err(e) => {
                end(&mut child);
                return Err(e);
            }
        }
        if let Ok(Some(status)) = child.try_wait() {
            return Err(started(std::io::Error::other(format!("it ended at once: {status}"))));
        }
        if Instant::now() > until {
            end(&mut child);
            return Err(started(std::io::ErrorKind::TimedOut.into()));
        }
        std::thread::sleep(START_LOOK);
    }
}

/// Ends a child of this process, whose id cannot have been reused.
fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

/// Reaps a child on a thread of its own, so that it does not stay a zombie.
pub(crate) fn reap_later(mut child: Child) {
    let reaper = std::thread::Builder::new().name("netloom-reap".into()).stack_size(64 << 10);
    // If the thread cannot start, it stays a zombie until the lab process ends.
    let _ = reaper.spawn(move || child.wait());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A start that works.
    fn well() -> Result<()> {
        Ok(())
    }

    #[test]
    fn what_ends_at_once_is_started_ever_later() {
        let (mut pause, soon) = (Pause::default(), Some(Duration::from_millis(3)));
        assert_eq!(pause.restart(soon, "it", well), None, "the first end");
        let mut waits = vec![];
        for _ in 0..9 {
            waits.extend(pause.restart(soon, "it", || panic!("too soon")));
            // When the pause is over.
            assert_eq!(pause.restart(None, "it", well), None);
        }
        let doubled = waits.windows(2).all(|pair| pair[1] == (pair[0] * 2).min(LONGEST_PAUSE));
        assert!(waits.len() == 9 && waits[0] == FIRST_PAUSE * 2 && doubled, "{waits:?}");
        assert_eq!(waits.last(), Some(&LONGEST_PAUSE));
        assert_eq!(pause.restart(Some(STEADY), "it", well), None, "it had lived long");
        assert_eq!(pause.restart(soon, "it", well), None, "as the first time");
    }

    #[test]
    fn what_cannot_be_started_is_tried_ever_later() {
        let fail = || Err(Error::of("it", "start")(std::io::Error::other("no")));
        let mut pause = Pause::default();
        let waits = [(); 3].map(|()| pause.restart(None, "it", fail));
        assert_eq!(waits, [1, 2, 4].map(|times| Some(FIRST_PAUSE * times)));
        assert_eq!(pause.restart(None, "it", well), None);
    }
}
