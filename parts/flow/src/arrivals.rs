//! Connections that others make.

use std::os::fd::{AsFd, OwnedFd};

use netloom_ofconn::reach;
use netloom_pipeline::Time;
use netloom_sys::scm;
use rustix::io::Errno;
use rustix::net::SocketFlags;

use crate::Result;
use crate::listeners::Listening;
use crate::server::{Key, Server};

/// Connections accepted in a turn.
const TURN: usize = 16;

impl Server {
    /// Listens at the switch's own socket.
    pub(crate) fn listen_unix(&mut self) -> Result<()> {
        let socket = reach::listen_unix(&self.application.openflow)?;
        self.listeners.spare = socket.try_clone().ok();
        self.listen(socket, false).map(drop)
    }

    /// Takes connections of a listening socket from now on; returns its number.
    pub(crate) fn listen(&mut self, socket: OwnedFd, tls: bool) -> Result<u64> {
        let id = self.number();
        self.watcher.add(&socket, Key::Listener(id), true, false)?;
        self.listeners.places.insert(id, Listening { socket, tls });
        Ok(id)
    }

    /// Closes a place.
    pub(crate) fn stop_listening(&mut self, id: u64) {
        if let Some(place) = self.listeners.places.remove(&id) {
            self.watcher.drop(&place.socket);
        }
    }

    /// Accepts connections.
    pub(crate) fn welcome_channels(&mut self, id: u64, now: Time) -> Result<()> {
        for _ in 0..TURN {
            let Some(place) = self.listeners.places.get(&id) else { return Ok(()) };
            let tls = place.tls;
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            match rustix::net::acceptfrom_with(&place.socket, flags) {
                Ok((socket, from)) => {
                    let _ = rustix::net::sockopt::set_tcp_nodelay(&socket, true);
                    let peer = from.and_then(|from| std::net::SocketAddr::try_from(from).ok());
                    let peer = peer.map_or_else(|| local(&socket), |peer| peer.to_string());
                    self.admit(socket, peer, tls, now)?;
                }
                Err(Errno::MFILE | Errno::NFILE) => {
                    // Otherwise epoll would report it forever.
                    drop(self.listeners.spare.take());
                    drop(rustix::net::accept_with(&place.socket, flags));
                    self.listeners.spare = place.socket.try_clone().ok();
                    return Ok(());
                }
                // One that left before it was accepted does not matter.
                Err(_) => return Ok(()),
            }
        }
        Ok(())
    }
}

/// A peer of the UNIX socket, for people.
fn local(socket: impl AsFd) -> String {
    match scm::peer_pid(socket) {
        Some(pid) => format!("process {}", pid.as_raw_nonzero()),
        None => "a process".into(),
    }
}
