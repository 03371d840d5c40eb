//! This program in other roles: processes that a lab process starts and that outlive it.
//!
//! Each is found again by something of its own (a socket that it listens at, a lock that it holds),
//! never by a number written down. Until it is found it ends with the thread that starts it, so that
//! nobody is left whom nothing names.

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use netloom_sys::process;
use rustix::process::{Pid, Signal};

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
    /// Clones inits for a lab process whose spawner was killed; ends with its client.
    Spawner,
}

impl Role {
    /// All roles.
    pub const ALL: [Role; 4] = [Role::Wire, Role::Switch, Role::Plug, Role::Spawner];

    /// The hidden verb of the command line that starts it.
    pub const fn verb(self) -> &'static str {
        match self {
            Role::Wire => "wire-process",
            Role::Switch => "switch-process",
            Role::Plug => "plug-process",
            Role::Spawner => "spawner-process",
        }
    }

    /// The name of its process.
    pub const fn process(self) -> &'static str {
        match self {
            Role::Wire => netloom_wire::NAME,
            Role::Switch => netloom_switch::NAME,
            Role::Plug => netloom_plug::NAME,
            Role::Spawner => netloom_node::spawner::NAME,
        }
    }
}

/// How long a process may take to be found, and how often it is looked for.
const START_TIMEOUT: Duration = Duration::from_secs(30);
const START_LOOK: Duration = Duration::from_millis(1);

/// How long a killed process may take to end.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);

/// Pause before something is started again: first, and most.
pub(crate) const FIRST_PAUSE: Duration = Duration::from_millis(50);
pub(crate) const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// What lived so long has not failed at once.
pub(crate) const STEADY: Duration = Duration::from_secs(10);

/// How long to wait the next time when so long was waited the last time.
pub(crate) fn longer(pause: Duration) -> Duration {
    (pause * 2).clamp(FIRST_PAUSE, LONGEST_PAUSE)
}

/// A process in a role.
pub(crate) struct Process {
    pub(crate) pidfd: OwnedFd,
    pub(crate) since: Instant,
}

impl Process {
    /// The process of this number, and what `still` finds of it once the pidfd is open: what names it named
    /// it then, too, so that the number was its own.
    pub(crate) fn known<T>(
        pid: Option<Pid>,
        still: impl FnOnce() -> Result<Option<T>>,
    ) -> Result<Option<(Process, T)>> {
        let Some(pidfd) = pid.and_then(|pid| process::pidfd(pid).ok()) else { return Ok(None) };
        Ok(still()?.map(|found| (Process { pidfd, since: Instant::now() }, found)))
    }

    pub(crate) fn lives(&self) -> bool {
        !process::has_ended(self.pidfd.as_fd())
    }

    pub(crate) fn end(self) {
        // One that has ended needs no signal.
        let _ = process::signal(&self.pidfd, Signal::KILL);
        process::wait_end(&self.pidfd, KILL_TIMEOUT);
    }
}

/// Starts a role with its arguments, preceded by this process's own number, by which it knows its
/// starter. `input` becomes its standard input. Returns what `find` finds of it.
///
/// # Errors
/// It cannot be started, ends at once, or is not found within thirty seconds; it is ended then.
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

/// Ends a child of this process's own, whose number is its own for that.
fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

/// Waits for a child on a thread of its own, so that it leaves no zombie.
pub(crate) fn reap_later(mut child: Child) {
    let reaper = std::thread::Builder::new().name("netloom-reap".into()).stack_size(64 << 10);
    // Without the thread it stays a zombie until the lab process ends.
    let _ = reaper.spawn(move || child.wait());
}
