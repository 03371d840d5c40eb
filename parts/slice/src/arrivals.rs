//! Incoming connections: switches, and clients of a virtual switch at its socket.

use std::os::fd::OwnedFd;

use netloom_ofconn::arrival::{Arrival, TURN};
use netloom_ofconn::tls::Configs;
use netloom_ofconn::{Link, Time};
use netloom_sys::describe;

use crate::Result;
use crate::server::{Arrives, Key, Server};
use crate::wire::{Side, Wire, owner_of};

/// Most connections; beyond it the slice with most of them loses the one that has been silent longest.
const MOST: usize = 2048;

impl Server {
    /// Takes connections of a listening socket from now on; returns its number.
    pub(crate) fn listen(&mut self, socket: OwnedFd, tls: bool, arrives: Arrives) -> Result<u64> {
        let id = self.number();
        self.arrivals.listen(&self.watcher, (id, Key::Listener(id)), (socket, tls), arrives)?;
        Ok(id)
    }

    /// Accepts connections.
    pub(crate) fn welcome(&mut self, id: u64, now: Time) -> Result<()> {
        // epoll is level-triggered: it reports again what is left.
        for _ in 0..TURN {
            let Some(new) = self.arrivals.next(&self.watcher, id) else { return Ok(()) };
            self.admit(new, now)?;
        }
        Ok(())
    }

    fn admit(&mut self, new: Arrival<Arrives>, now: Time) -> Result<()> {
        if self.wires.len() >= MOST && !self.make_room()? {
            // Dropping the socket closes it.
            self.dropped += 1;
            return Ok(());
        }
        let Arrival { socket, peer, tls, whose: arrives } = new;
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

    /// Closes a connection of the owner with most; returns whether there was one.
    fn make_room(&mut self) -> Result<bool> {
        let count = |_: &Wire| 1;
        let Some(owner) = self.owner_of_most(count) else { return Ok(false) };
        let own = self.wires.iter().filter(|(id, wire)| owner_of(**id, wire) == owner);
        let silent = own.filter(|(_, wire)| wire.may_make_room());
        let Some((id, _)) = silent.min_by_key(|(_, wire)| wire.channel.heard) else {
            return Ok(false);
        };
        self.dropped += 1;
        self.close(*id, "it makes room for another")?;
        Ok(true)
    }

    fn link_from(&self, socket: OwnedFd, tls: bool) -> Result<Link> {
        if !tls {
            return Ok(Link::Plain(socket));
        }
        let files = self.application.tls.as_ref().ok_or_else(Server::no_tls)?;
        // The files are read for each connection, so that renewed certificates count without a restart.
        Ok(Link::Tls(Box::new(Configs::read(files)?.accept(socket)?)))
    }
}
