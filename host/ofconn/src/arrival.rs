//! Connections that others make at a listening socket.

use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};

use netloom_sys::scm;
use rustix::io::Errno;
use rustix::net::{SocketFlags, sockopt};

/// Connections that are to be accepted in a turn at most.
pub const TURN: usize = 16;

/// A connection that somebody made.
#[derive(Debug)]
pub struct Arrival {
    /// Its socket, which does not block.
    pub socket: OwnedFd,
    /// The peer, in words.
    pub peer: String,
}

impl Arrival {
    /// The next one that waits. `spare` is a descriptor that is given up for a moment when there are no others, to accept a
    /// connection and close it: epoll would report it for ever otherwise.
    pub fn next(listener: &OwnedFd, spare: &mut Option<OwnedFd>) -> Option<Arrival> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        match rustix::net::acceptfrom_with(listener, flags) {
            Ok((socket, from)) => {
                let _ = sockopt::set_tcp_nodelay(&socket, true);
                let from = from.and_then(|from| SocketAddr::try_from(from).ok());
                let peer = from.map_or_else(|| local(&socket), |from| from.to_string());
                Some(Arrival { socket, peer })
            }
            Err(Errno::MFILE | Errno::NFILE) => {
                drop(spare.take());
                drop(rustix::net::accept_with(listener, flags));
                *spare = listener.try_clone().ok();
                None
            }
            // One that left before it was accepted does not matter.
            Err(_) => None,
        }
    }
}

/// The peer of a UNIX socket.
fn local(socket: impl AsFd) -> String {
    match scm::peer_pid(socket) {
        Some(pid) => format!("process {}", pid.as_raw_nonzero()),
        None => "a process".into(),
    }
}
