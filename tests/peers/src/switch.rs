//! A switch in a process of its own.

use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use netloom_switch::Options;
use rustix::process::{Signal, set_parent_process_death_signal};

use crate::Running;

/// Says that this process is to be a switch, and where its socket is; the socket is stdin.
const SOCKET: &str = "NETLOOM_PEERS_SWITCH";

/// A running switch; killed when dropped.
#[derive(Debug)]
pub struct Switch {
    socket: PathBuf,
    process: Running,
}

impl Switch {
    /// Starts a switch with its socket in a folder of the test's.
    ///
    /// # Panics
    /// When it cannot be started.
    pub fn start(folder: &Path, name: &str) -> Switch {
        let socket = folder.join(name);
        let listener = netloom_switch::listen(&socket, 0o600).expect("make the switch's socket");
        let process = netloom_kit::again_by_name("switch_process")
            .env(SOCKET, &socket)
            .stdin(Stdio::from(listener))
            .stdout(Stdio::null())
            .spawn()
            .expect("start the switch");
        Switch { socket, process: Running(process) }
    }

    /// The path of its socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Its name for libvdeplug.
    pub fn name(&self) -> String {
        format!("netloom://{}", self.socket.display())
    }

    /// Ends it at once.
    pub fn kill(self) {
        drop(self.process);
    }
}

/// Is a switch until its end: this process was started as one.
///
/// # Panics
/// When the switch ends by an error.
pub fn serve_as_switch() {
    let socket = PathBuf::from(std::env::var_os(SOCKET).expect("the path of a socket"));
    // Who started it may be killed.
    set_parent_process_death_signal(Some(Signal::KILL)).expect("ask to be ended");
    let listener = std::io::stdin().as_fd().try_clone_to_owned().expect("the listening socket");
    let state = socket.with_extension("state");
    netloom_switch::serve(listener, &socket, &state, &Options::default()).expect("serve");
}
