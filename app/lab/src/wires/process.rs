//! The process that carries frames: found, started, ended.
//!
//! Its control socket names it: whoever connects learns from the kernel who listens.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use netloom_sys::process;
use netloom_wire::control::Connection;
use rustix::process::Signal;

use super::failed;
use crate::state::Folder;
use crate::{Result, role};

/// How long a killed process may take to end.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);

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
        let (path, operation) = (folder.path(), "start the wires' process");
        role::start("wire-process", &[path.as_os_str()], None, operation, || Process::find(folder))
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
        process::wait_end(&self.pidfd, KILL_TIMEOUT);
    }
}

/// Ends the wires' process of a lab whose own process is gone.
pub(crate) fn end_process(folder: &Folder) -> Result<()> {
    if let Some(process) = Process::find(folder)? {
        process.end();
    }
    Ok(())
}
