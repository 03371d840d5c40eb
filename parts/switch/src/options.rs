//! Options of a switch.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use netloom_shm::protocol::{Channel, Listener};
use netloom_sys::Failure;
use netloom_sys::private_socket::Named;
use rustix::io::Errno;

use crate::Result;
use crate::error::SWITCH;

/// Options of a switch.
#[derive(Clone, Debug)]
pub struct Options {
    /// The users that may join, as file permissions: the write bits for the user it runs as, for `group`, and for
    /// everybody. The socket itself should have the same mode.
    pub mode: u32,
    /// The group whose processes may join if `mode` says so; its own when `None`.
    pub group: Option<u32>,
    /// Bytes of the ring from the switch to each port; a power of two, at least 256 KiB.
    pub downlink: usize,
    /// Seconds after which the switch forgets an address. Shorter than for ports, because the switch does not
    /// see frames on edges.
    pub ageing: u32,
    /// How long after its start the switch awaits ports of an earlier process.
    pub grace: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            mode: 0o600,
            group: None,
            downlink: netloom_shm::layout::ring::LEAST_ARENA,
            ageing: 60,
            grace: Duration::from_secs(10),
        }
    }
}

/// Creates a switch's socket at `path`, replacing one on which nobody listens any more.
///
/// # Errors
/// [`crate::Error::Failed`] when it cannot be created, with EADDRINUSE when a switch listens there, or when its mode
/// cannot be set.
pub fn listen(path: &Path, mode: u32) -> Result<OwnedFd> {
    let in_use = Some(Errno::ADDRINUSE.raw_os_error());
    let listener = match Listener::bind(path) {
        Err(e) if e.raw_os_error() == in_use && is_dead(path) => {
            std::fs::remove_file(path)
                .map_err(|e| Failure::new(SWITCH, "remove the old socket", e))?;
            Listener::bind(path)
        }
        other => other,
    };
    let listener = listener.map_err(Failure::of(SWITCH, "make the socket"))?;
    Named::hold(path)
        .and_then(|named| named.set_mode(mode & 0o777))
        .map_err(|e| Failure::new(SWITCH, "set the socket's mode", e))?;
    let fd = listener.as_fd().try_clone_to_owned();
    fd.map_err(|e| Failure::new(SWITCH, "copy a descriptor", e).into())
}

fn is_dead(path: &Path) -> bool {
    let refused = Some(Errno::CONNREFUSED.raw_os_error());
    Channel::connect(path, Duration::ZERO).is_err_and(|e| e.raw_os_error() == refused)
}
