//! Places where others connect, and those who do.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};

use netloom_sys::scm;
use rustix::io::Errno;
use rustix::net::{SocketFlags, sockopt};

use crate::Result;
use crate::watch::Watcher;

/// Connections that are to be accepted in a turn at most.
pub const TURN: usize = 16;

/// A connection that somebody made.
#[derive(Debug)]
pub struct Arrival<W> {
    /// Its socket, which does not block.
    pub socket: OwnedFd,
    /// The peer, in words.
    pub peer: String,
    /// Whether TLS is spoken there.
    pub tls: bool,
    /// Who arrives there.
    pub whose: W,
}

#[derive(Debug)]
struct Place<W> {
    socket: OwnedFd,
    tls: bool,
    whose: W,
}

/// All places where connections arrive, by number; `W`: who arrives there.
#[derive(Debug)]
pub struct Arrivals<W> {
    places: BTreeMap<u64, Place<W>>,
    /// Closed for a moment when descriptors run out, to accept a connection and close it.
    spare: Option<OwnedFd>,
}

impl<W> Default for Arrivals<W> {
    fn default() -> Self {
        Arrivals { places: BTreeMap::new(), spare: None }
    }
}

impl<W: Copy> Arrivals<W> {
    /// Takes connections of a listening socket from now on; `key` is the place of this number, and the socket comes with
    /// whether TLS is spoken there.
    ///
    /// # Errors
    /// The system refuses.
    pub fn listen<K: Into<u64> + From<u64>>(
        &mut self,
        watcher: &Watcher<K>,
        (id, key): (u64, K),
        (socket, tls): (OwnedFd, bool),
        whose: W,
    ) -> Result<()> {
        watcher.add(&socket, key, true, false)?;
        self.spare = self.spare.take().or_else(|| spare(watcher));
        self.places.insert(id, Place { socket, tls, whose });
        Ok(())
    }

    /// Closes a place.
    pub fn stop<K: Into<u64> + From<u64>>(&mut self, watcher: &Watcher<K>, id: u64) {
        if let Some(place) = self.places.remove(&id) {
            watcher.drop(&place.socket);
        }
    }

    /// The places where these arrive.
    pub fn of(&self, who: impl Fn(W) -> bool) -> Vec<u64> {
        let of = self.places.iter().filter(|(_, place)| who(place.whose));
        of.map(|(id, _)| *id).collect()
    }

    /// The next connection that waits at a place. When there are no more descriptors it is closed: epoll would report it for
    /// ever otherwise.
    pub fn next<K: Into<u64> + From<u64>>(
        &mut self,
        watcher: &Watcher<K>,
        id: u64,
    ) -> Option<Arrival<W>> {
        let Place { socket: listener, tls, whose } = self.places.get(&id)?;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        match rustix::net::acceptfrom_with(listener, flags) {
            Ok((socket, from)) => {
                // Refused at UNIX sockets, which hold nothing back anyway.
                let _ = sockopt::set_tcp_nodelay(&socket, true);
                let from = from.and_then(|from| SocketAddr::try_from(from).ok());
                let peer = from.map_or_else(|| local(&socket), |from| from.to_string());
                Some(Arrival { socket, peer, tls: *tls, whose: *whose })
            }
            Err(Errno::MFILE | Errno::NFILE) => {
                drop(self.spare.take());
                drop(rustix::net::accept_with(listener, flags));
                self.spare = spare(watcher);
                None
            }
            // One that left before it was accepted does not matter.
            Err(_) => None,
        }
    }
}

/// A descriptor that keeps nothing open.
fn spare<K>(watcher: &Watcher<K>) -> Option<OwnedFd> {
    watcher.as_fd().try_clone_to_owned().ok()
}

/// The peer of a UNIX socket.
fn local(socket: impl AsFd) -> String {
    match scm::peer_pid(socket) {
        Some(pid) => format!("process {}", pid.as_raw_nonzero()),
        None => "a process".into(),
    }
}
