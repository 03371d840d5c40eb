//! Switches and controllers that the slicer connects to: which there are to be, attempts, ends.

use std::os::fd::OwnedFd;

use netloom_ofconn::dial::{Begun, Peer, State};
use netloom_ofconn::reach::Space;
use netloom_ofconn::tls::Configs;
use netloom_ofconn::{Controller, Time};
use netloom_sys::describe;

use crate::Result;
use crate::server::{Arrives, Key, Server};
use crate::system::clock;
use crate::wire::{Side, Whose};

impl Server {
    /// Makes peers of all that there are to be, and ends those that are not to be.
    pub(crate) fn refresh_peers(&mut self) -> Result<()> {
        let mut wanted: Vec<(Controller, Whose)> =
            self.application.switches.iter().map(|at| (at.clone(), Whose::Switch)).collect();
        for (switch, real) in &self.reals {
            for (slice, attached) in &real.slices {
                let Some(of) = self.application.policy.slices.get(attached.place) else { continue };
                let whose = Whose::Controller(*switch, *slice, attached.place);
                wanted.extend(of.controllers.iter().map(|at| (at.clone(), whose)));
            }
        }
        let gone = |peer: &Peer<Whose>| {
            !wanted.iter().any(|(at, whose)| peer.controller == *at && peer.whose == *whose)
        };
        for id in self.peers.which(gone) {
            self.forget_peer(id)?;
        }
        let now = clock();
        for (at, whose) in wanted {
            if !self.peers.all().any(|peer| peer.controller == at && peer.whose == whose) {
                let id = self.number();
                self.peers.add(id, at, whose, now);
            }
        }
        Ok(())
    }

    fn forget_peer(&mut self, id: u64) -> Result<()> {
        match self.peers.remove(&self.watcher, id) {
            Some(State::Connected(id)) => self.close(id, "it is not wanted any more")?,
            Some(State::Listening(place)) => self.arrivals.stop(&self.watcher, place),
            _ => {}
        }
        Ok(())
    }

    /// Gives a namespace a name, or forgets it; those that are reached from it start over.
    pub(crate) fn set_namespace(&mut self, name: &str, space: Option<Space>) -> Result<()> {
        for id in self.peers.set_namespace(name, space) {
            self.forget_peer(id)?;
        }
        self.refresh_peers()
    }

    /// Makes the attempts that are due.
    pub(crate) fn dial(&mut self, now: Time) {
        let word = |whose: &Whose| whose.word();
        for (id, begun) in self.peers.dial(&self.watcher, Key::Dial, word, now) {
            let state = match begun {
                Begun::Connected(socket) => self.arrive(id, socket, now),
                Begun::Listening(socket, tls) => {
                    self.listen(socket, tls, Arrives::Switches).map(State::Listening)
                }
                Begun::Dialling | Begun::Nothing => continue,
            };
            self.peers.settle(id, state.map_err(|e| describe(&e)), now);
        }
    }

    /// A connection has been made, or not.
    pub(crate) fn dialled(&mut self, id: u64, now: Time) {
        if let Some(socket) = self.peers.dialled(&self.watcher, id, now) {
            let state = self.arrive(id, socket, now);
            self.peers.settle(id, state.map_err(|e| describe(&e)), now);
        }
    }

    /// Takes over a connection that has been made.
    fn arrive(&mut self, id: u64, socket: OwnedFd, now: Time) -> Result<State> {
        let Some(peer) = self.peers.get(id) else { return Ok(State::Waiting) };
        let (target, whose) = (peer.controller.target.clone(), peer.whose);
        let configs = self.configs(whose)?;
        let link = Server::link_to(&target, socket, configs.as_ref())?;
        self.open(link, target.to_string(), side_of(whose), now).map(State::Connected)
    }

    /// What its TLS is made with.
    fn configs(&self, whose: Whose) -> Result<Option<Configs>> {
        let files = match whose {
            Whose::Switch => self.application.tls.as_ref(),
            Whose::Controller(_, _, place) => {
                self.application.policy.slices.get(place).and_then(|slice| slice.tls.as_ref())
            }
        };
        // Read for each connection, so that renewed certificates count without a restart.
        Ok(files.map(Configs::read).transpose()?)
    }
}

fn side_of(whose: Whose) -> Side {
    match whose {
        Whose::Switch => Side::Greeting(Box::default()),
        Whose::Controller(switch, slice, place) => {
            Side::Slice { switch, slice, place, controls: true, greeted: false }
        }
    }
}
