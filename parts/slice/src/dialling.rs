//! Switches and controllers that the slicer connects to: which there are to be, attempts, ends.

use netloom_ofconn::dial::{Begun, Peer, State};
use netloom_ofconn::reach::Space;
use netloom_ofconn::tls::Configs;
use netloom_ofconn::{Controller, Time};
use netloom_sys::describe;

use crate::Result;
use crate::server::{Key, Listening, Server};
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
        let gone: Vec<u64> =
            self.peers.iter().filter(|(_, peer)| gone(peer)).map(|(id, _)| *id).collect();
        for id in gone {
            self.forget_peer(id)?;
        }
        let now = clock();
        for (at, whose) in wanted {
            if !self.peers.values().any(|peer| peer.controller == at && peer.whose == whose) {
                let id = self.number();
                self.peers.insert(id, Peer::new(at, whose, now));
            }
        }
        Ok(())
    }

    fn forget_peer(&mut self, id: u64) -> Result<()> {
        let Some(peer) = self.peers.remove(&id) else { return Ok(()) };
        match peer.state {
            State::Dialling(socket, _) => self.watcher.drop(&socket),
            State::Connected(id) => self.close(id, "it is not wanted any more")?,
            State::Listening(place) => self.stop_listening(place),
            State::Idle(_) | State::Waiting => {}
        }
        Ok(())
    }

    /// Gives a namespace a name, or forgets it; those that are reached from it start over.
    pub(crate) fn set_namespace(&mut self, name: &str, space: Option<Space>) -> Result<()> {
        match space {
            Some(space) => drop(self.namespaces.insert(name.to_owned(), space)),
            None => drop(self.namespaces.remove(name)),
        }
        let uses = |peer: &Peer<Whose>| peer.controller.namespace.as_deref() == Some(name);
        let users: Vec<u64> =
            self.peers.iter().filter(|(_, peer)| uses(peer)).map(|(id, _)| *id).collect();
        for id in users {
            self.forget_peer(id)?;
        }
        self.refresh_peers()
    }

    /// Makes the attempts that are due.
    pub(crate) fn dial(&mut self, now: Time) {
        let due = |peer: &Peer<Whose>| peer.is_due(now);
        let ids: Vec<u64> =
            self.peers.iter().filter(|(_, peer)| due(peer)).map(|(id, _)| *id).collect();
        for id in ids {
            let Some(peer) = self.peers.get_mut(&id) else { continue };
            if let State::Dialling(socket, _) = &peer.state {
                self.watcher.drop(socket);
                peer.failed("no answer".into(), now);
                continue;
            }
            let word = peer.whose.word();
            match peer.attempt(word, &self.namespaces, now) {
                Begun::Nothing => {}
                Begun::Connected(socket) => self.arrive(id, socket, now),
                Begun::Listening(socket, tls) => {
                    let place = self.listen(Listening::switches(socket, tls));
                    let Some(peer) = self.peers.get_mut(&id) else { continue };
                    match place {
                        Ok(place) => peer.state = State::Listening(place),
                        Err(e) => peer.failed(describe(&e), now),
                    }
                }
                Begun::Dialling => {
                    let State::Dialling(socket, _) = &peer.state else { continue };
                    if let Err(e) = self.watcher.add(socket, Key::Dial(id), false, true) {
                        peer.failed(describe(&e), now);
                    }
                }
            }
        }
    }

    /// A connection has been made, or not.
    pub(crate) fn dialled(&mut self, id: u64, now: Time) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        let State::Dialling(socket, _) = &peer.state else { return };
        self.watcher.drop(socket);
        if let Some(socket) = peer.dialled(now) {
            self.arrive(id, socket, now);
        }
    }

    /// Takes over a connection that has been made.
    fn arrive(&mut self, id: u64, socket: std::os::fd::OwnedFd, now: Time) {
        let Some(peer) = self.peers.get(&id) else { return };
        let (target, whose) = (peer.controller.target.clone(), peer.whose);
        let opened = self
            .configs(whose)
            .and_then(|configs| Server::link_to(&target, socket, configs.as_ref()))
            .and_then(|link| self.open(link, target.to_string(), side_of(whose), now));
        let Some(peer) = self.peers.get_mut(&id) else { return };
        match opened {
            Ok(channel) => peer.state = State::Connected(channel),
            Err(e) => peer.failed(describe(&e), now),
        }
    }

    /// What its TLS is made with.
    fn configs(&self, whose: Whose) -> Result<Option<Configs>> {
        let files = match whose {
            Whose::Switch => self.application.tls.as_ref(),
            Whose::Controller(_, _, place) => {
                self.application.policy.slices.get(place).and_then(|slice| slice.tls.as_ref())
            }
        };
        Ok(files.map(Configs::read).transpose()?)
    }

    /// A connection has ended: if it was a peer's, it is tried again.
    pub(crate) fn lost_peer(&mut self, channel: u64, reason: &str) {
        let has = |peer: &&mut Peer<Whose>| peer.connection() == Some(channel);
        if let Some(peer) = self.peers.values_mut().find(has) {
            peer.failed(reason.to_owned(), clock());
        }
    }

    /// It has said hello: the next attempt after it is the first again.
    pub(crate) fn heard_peer(&mut self, channel: u64) {
        let has = |peer: &&mut Peer<Whose>| peer.connection() == Some(channel);
        if let Some(peer) = self.peers.values_mut().find(has) {
            peer.heard();
        }
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
