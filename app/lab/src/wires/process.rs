//! The process that carries frames: found, started, ended.
//!
//! Its control socket names it: whoever connects learns from the kernel who listens.

use std::os::fd::{AsFd, OwnedFd};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use netloom_sys::process;
use netloom_wire::control::Connection;
use rustix::process::Signal;

use super::failed;
use crate::state::Folder;
use crate::{Error, Result};

/// How long the process may take to listen, and how often it is looked for.
const START_TIMEOUT: Duration = Duration::from_secs(5);
const START_LOOK: Duration = Duration::from_millis(1);

/// How long one whose sockets are closed may take to end.
const END_TIMEOUT: Duration = Duration::from_secs(1);

/// A running one.
pub(super) struct Process {
    pub(super) pidfd: OwnedFd,
    pub(super) connection: Connection,
    pub(super) since: Instant,
}

impl Process {
    /// The process of a lab, if it lives.
    pub(super) fn find(folder: &Folder) -> Result<Option<Process>> {
        let open = || Connection::open(&folder.wire_socket()).map_err(failed("wires", "connect"));
        let Some(connection) = open()? else { return Ok(None) };
        let Some(pid) = connection.process() else { return Ok(None) };
        let Ok(pidfd) = process::pidfd(pid) else { return Ok(None) };
        // It still listens after its pidfd was opened: so the pid was its own.
        let Some(connection) = open()? else { return Ok(None) };
        Ok(Some(Process { pidfd, connection, since: Instant::now() }))
    }

    /// Starts the process: this program in another role. It ends with the thread that starts it until
    /// it listens, so that nobody is left whom no socket names.
    pub(super) fn start(folder: &Folder) -> Result<Process> {
        let started = |e| Error::state("/proc/self/exe", "start the wires' process")(e);
        let own = rustix::process::getpid().as_raw_nonzero().to_string();
        let mut child = Command::new("/proc/self/exe")
            .arg("wire-process")
            .arg(own)
            .arg(folder.path())
            .stdin(Stdio::null())
            .env_clear()
            .spawn()
            .map_err(started)?;
        let until = Instant::now() + START_TIMEOUT;
        loop {
            if let Some(found) = Process::find(folder)? {
                reap_later(child);
                return Ok(found);
            }
            if let Ok(Some(status)) = child.try_wait() {
                let why = std::io::Error::other(format!("it ended at once: {status}"));
                return Err(started(why));
            }
            if Instant::now() > until {
                // It is this process's own child, so the pid is its own.
                let _ = child.kill();
                let _ = child.wait();
                return Err(started(std::io::ErrorKind::TimedOut.into()));
            }
            std::thread::sleep(START_LOOK);
        }
    }

    pub(super) fn lives(&self) -> bool {
        !process::has_ended(self.pidfd.as_fd())
    }

    /// Whether it ends within a moment: its sockets are closed before it is seen to have ended.
    pub(super) fn ends_soon(&self) -> bool {
        process::wait_end(&self.pidfd, END_TIMEOUT)
    }

    pub(super) fn end(self) {
        // One that has ended needs no signal.
        let _ = process::signal(&self.pidfd, Signal::KILL);
        process::wait_end(&self.pidfd, START_TIMEOUT);
    }
}

/// Ends the wires' process of a lab whose own process is gone.
pub(crate) fn end_process(folder: &Folder) -> Result<()> {
    if let Some(process) = Process::find(folder)? {
        process.end();
    }
    Ok(())
}

/// Waits for a child on a thread of its own, so that it leaves no zombie.
fn reap_later(mut child: std::process::Child) {
    let reaper = std::thread::Builder::new().name("netloom-reap".into()).stack_size(64 << 10);
    // Without the thread it stays a zombie until the lab process ends.
    let _ = reaper.spawn(move || child.wait());
}
