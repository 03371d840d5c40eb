//! Connections that others make: switches, and whoever speaks with a virtual switch at its socket.

use std::os::fd::{AsFd, OwnedFd};

use netloom_ofconn::tls::Configs;
use netloom_ofconn::{Link, Time};
use netloom_sys::{describe, scm};
use rustix::io::Errno;
use rustix::net::SocketFlags;

use crate::Result;
use crate::server::{Arrives, Key, Listening, Server};
use crate::wire::Side;

/// Connections accepted in a turn.
const TURN: usize = 16;

/// Most connections that others made; beyond it new ones are closed at once.
const MOST: usize = 2048;

impl Server {
    /// Takes connections of a listening socket from now on; returns its number.
    pub(crate) fn listen(&mut self, place: Listening) -> Result<u64> {
        let id = self.number();
        self.watcher.add(&place.socket, Key::Listener(id), true, false)?;
        self.places.insert(id, place);
        Ok(id)
    }

    /// Closes a place.
    pub(crate) fn stop_listening(&mut self, id: u64) {
        if let Some(place) = self.places.remove(&id) {
            self.watcher.drop(&place.socket);
        }
    }

    /// Accepts connections.
    pub(crate) fn welcome(&mut self, id: u64, now: Time) -> Result<()> {
        for _ in 0..TURN {
            let Some(place) = self.places.get(&id) else { return Ok(()) };
            let (tls, arrives) = (place.tls, place.arrives);
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            match rustix::net::acceptfrom_with(&place.socket, flags) {
                Ok((socket, from)) => {
                    let _ = rustix::net::sockopt::set_tcp_nodelay(&socket, true);
                    let peer = from.and_then(|from| std::net::SocketAddr::try_from(from).ok());
                    let peer = peer.map_or_else(|| local(&socket), |peer| peer.to_string());
                    self.admit(socket, peer, tls, arrives, now)?;
                }
                Err(Errno::MFILE | Errno::NFILE) => {
                    // Otherwise epoll would report it forever.
                    drop(self.spare.take());
                    drop(rustix::net::accept_with(&place.socket, flags));
                    self.spare = place.socket.try_clone().ok();
                    return Ok(());
                }
                // One that left before it was accepted does not matter.
                Err(_) => return Ok(()),
            }
        }
        Ok(())
    }

    fn admit(
        &mut self,
        socket: OwnedFd,
        peer: String,
        tls: bool,
        arrives: Arrives,
        now: Time,
    ) -> Result<()> {
        if self.wires.len() >= MOST {
            self.dropped += 1;
            return Ok(());
        }
        let side = match arrives {
            Arrives::Switches => Side::Greeting(Box::default()),
            Arrives::Clients(switch, slice, place) => {
                Side::Slice { switch, slice, place, controls: false, greeted: false }
            }
        };
        let opened = self.link_from(socket, tls).and_then(|link| self.open(link, peer, side, now));
        if let Err(e) = opened {
            self.trouble = Some(describe(&e));
        }
        Ok(())
    }

    fn link_from(&self, socket: OwnedFd, tls: bool) -> Result<Link> {
        if !tls {
            return Ok(Link::Plain(socket));
        }
        let files = self.application.tls.as_ref().ok_or_else(Server::no_tls)?;
        Ok(Link::Tls(Box::new(Configs::read(files)?.accept(socket)?)))
    }
}

/// A peer of a UNIX socket, for people.
fn local(socket: impl AsFd) -> String {
    match scm::peer_pid(socket) {
        Some(pid) => format!("process {}", pid.as_raw_nonzero()),
        None => "a process".into(),
    }
}
