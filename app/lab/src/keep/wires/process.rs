//! The process that carries frames: found, started, ended.
//!
//! Its control socket names it: whoever connects learns from the kernel who listens.

use std::time::Duration;

use netloom_sys::process;
use netloom_wire::control::Connection;

use crate::stage::role::{self, Role};
use crate::store::state::Folder;
use crate::{Error, Result};

/// How long one whose sockets are closed may take to end.
const END_TIMEOUT: Duration = Duration::from_secs(1);

/// A running one.
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
        let known = role::Process::known(connection.process(), open)?;
        Ok(known.map(|(own, connection)| Process { own, connection }))
    }

    /// Starts the process: this program in another role. It ends with the thread that starts it until
    /// it listens, so that nobody is left whom no socket names.
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

/// Ends the wires' process of a lab whose own process is gone.
pub(super) fn end_process(folder: &Folder) -> Result<()> {
    if let Some(process) = Process::find(folder)? {
        process.end();
    }
    Ok(())
}
