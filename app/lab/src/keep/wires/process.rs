//! The process that carries frames of wires: found, started, ended.
//!
//! Its control socket identifies it: the kernel tells a client the listening process.

use std::time::Duration;

use netloom_sys::process;
use netloom_wire::control::Connection;

use crate::stage::role::{self, Role};
use crate::store::state::Folder;
use crate::{Error, Result};

/// Time limit to end for a process whose sockets are closed.
const END_TIMEOUT: Duration = Duration::from_secs(1);

/// A running process.
pub(super) struct Process {
    pub(super) own: role::Process,
    pub(super) connection: Connection,
}

impl Process {
    /// The process of a lab, if it lives.
    pub(super) fn find(folder: &Folder) -> Result<Option<Process>> {
        let open =
            || Connection::open(&folder.wire_socket()).map_err(Error::of("wires", "connect"));
        let Some(connection) = open()? else { return Ok(None) };
        let (role, socket) = (Role::Wire, folder.wire_socket());
        let known = role::Process::known(role, &socket, connection.process(), open)?;
        Ok(known.map(|(own, connection)| Process { own, connection }))
    }

    /// Starts the process: this program in another role. Until it listens, it ends with the thread that
    /// starts it, so that no process is left that no socket identifies.
    pub(super) fn start(folder: &Folder) -> Result<Process> {
        let (path, operation) = (folder.path(), "start the wires' process");
        role::start(Role::Wire, &[path.as_os_str()], None, operation, || Process::find(folder))
    }

    pub(super) fn lives(&self) -> bool {
        self.own.lives()
    }

    /// Whether it ends within a moment: its sockets are closed before it is seen to have ended.
    pub(super) fn ends_soon(&self) -> bool {
        process::wait_end(&self.own.pidfd, END_TIMEOUT)
    }

    pub(super) fn end(self) {
        self.own.end();
    }
}

/// Ends the wires' process of a lab whose lab process has ended.
pub(super) fn end_process(folder: &Folder) -> Result<()> {
    if let Some(process) = Process::find(folder)? {
        process.end();
    }
    Ok(())
}
