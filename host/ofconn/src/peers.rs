//! All others that are to be reached, each a [`Peer`], and the network namespaces that they are reached from.
//!
//! Nothing here waits. The owner has the connections; here is whose they are.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

use netloom_sys::describe;

use crate::dial::{Begun, Peer, State};
use crate::reach::{Namespaces, Space};
use crate::watch::Watcher;
use crate::{Controller, Time};

/// All others, by number; `W`: whose a connection is.
#[derive(Debug)]
pub struct Peers<W> {
    all: BTreeMap<u64, Peer<W>>,
    namespaces: Namespaces,
}

impl<W> Default for Peers<W> {
    fn default() -> Self {
        Peers { all: BTreeMap::new(), namespaces: Namespaces::new() }
    }
}

impl<W> Peers<W> {
    /// One more, whose first attempt is due now.
    pub fn add(&mut self, id: u64, controller: Controller, whose: W, now: Time) {
        self.all.insert(id, Peer::new(controller, whose, now));
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = &Peer<W>> {
        self.all.values()
    }

    /// The numbers of these.
    pub fn which(&self, is: impl Fn(&Peer<W>) -> bool) -> Vec<u64> {
        self.all.iter().filter(|(_, peer)| is(peer)).map(|(id, _)| *id).collect()
    }

    /// The one of this number.
    pub fn get(&self, id: u64) -> Option<&Peer<W>> {
        self.all.get(&id)
    }

    /// The one whose connection this is.
    pub fn of(&self, connection: u64) -> Option<&Peer<W>> {
        self.all.values().find(|peer| peer.connection() == Some(connection))
    }

    fn of_mut(&mut self, connection: u64) -> Option<&mut Peer<W>> {
        self.all.values_mut().find(|peer| peer.connection() == Some(connection))
    }

    /// Forgets one; how it stood: its connection and its listener are the owner's.
    pub fn remove<K: Into<u64> + From<u64>>(
        &mut self,
        watcher: &Watcher<K>,
        id: u64,
    ) -> Option<State> {
        let peer = self.all.remove(&id)?;
        if let State::Dialling(socket, _) = &peer.state {
            watcher.drop(socket);
        }
        Some(peer.state)
    }

    /// The namespaces that are known.
    pub fn namespaces(&self) -> &Namespaces {
        &self.namespaces
    }

    /// Gives a namespace a name, or forgets it. Returns those that are reached from it: they have to start over.
    pub fn set_namespace(&mut self, name: &str, space: Option<Space>) -> Vec<u64> {
        match space {
            Some(space) => drop(self.namespaces.insert(name.to_owned(), space)),
            None => drop(self.namespaces.remove(name)),
        }
        self.which(|peer| peer.controller.namespace.as_deref() == Some(name))
    }

    /// When [`Peers::dial`] is to be called.
    pub fn deadline(&self) -> Option<Time> {
        self.all.values().filter_map(Peer::deadline).min()
    }

    /// Makes the attempts that are due. Returns those that came to something at once, for [`Peers::settle`]: connections and
    /// listening sockets. Failures name who it is by `word`.
    pub fn dial<K: Into<u64> + From<u64>>(
        &mut self,
        watcher: &Watcher<K>,
        key: impl Fn(u64) -> K,
        word: impl Fn(&W) -> &'static str,
        now: Time,
    ) -> Vec<(u64, Begun)> {
        let mut begun = vec![];
        for (id, peer) in self.all.iter_mut().filter(|(_, peer)| peer.is_due(now)) {
            if let State::Dialling(socket, _) = &peer.state {
                watcher.drop(socket);
                peer.failed("no answer".into(), now);
                continue;
            }
            let word = word(&peer.whose);
            match peer.attempt(word, &self.namespaces, now) {
                Begun::Nothing => {}
                Begun::Dialling => {
                    let State::Dialling(socket, _) = &peer.state else { continue };
                    if let Err(e) = watcher.add(socket, key(*id), false, true) {
                        peer.failed(describe(&e), now);
                    }
                }
                there => begun.push((*id, there)),
            }
        }
        begun
    }

    /// A socket that is watched can be written: a connection has been made, or not.
    pub fn dialled<K: Into<u64> + From<u64>>(
        &mut self,
        watcher: &Watcher<K>,
        id: u64,
        now: Time,
    ) -> Option<OwnedFd> {
        let peer = self.all.get_mut(&id)?;
        let State::Dialling(socket, _) = &peer.state else { return None };
        watcher.drop(socket);
        peer.dialled(now)
    }

    /// What became of what was there, or why nothing did.
    pub fn settle(&mut self, id: u64, state: Result<State, String>, now: Time) {
        let Some(peer) = self.all.get_mut(&id) else { return };
        match state {
            Ok(state) => peer.state = state,
            Err(why) => peer.failed(why, now),
        }
    }

    /// A connection has ended: if it was one of these, it is tried again.
    pub fn lost(&mut self, connection: u64, reason: &str, now: Time) {
        if let Some(peer) = self.of_mut(connection) {
            peer.failed(reason.to_owned(), now);
        }
    }

    /// One has said hello: the next attempt after it is the first again.
    pub fn heard(&mut self, connection: u64) {
        if let Some(peer) = self.of_mut(connection) {
            peer.heard();
        }
    }
}
