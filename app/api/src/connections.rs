//! The connected clients: a bound on all connections, and which of them closes when it is reached.
//!
//! A new caller is always let in. What gives way for it is one of these kinds, in this order: a stranger, which has not asked
//! anything yet that it may ask; an idle connection, or one whose request is still coming; one whose request only waits.
//! Strangers come last while they have less than their share of all places, because each caller begins as one. Within a
//! kind, the peer with most connections loses its oldest, so that one with few keeps them. A request that is worked on
//! stays; only if all are like that, callers wait.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::future::poll_fn;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use netloom_sys::crowd;
use tokio::sync::Notify;

/// The share of places that strangers may have while others give way.
const SHARE_OF_STRANGERS: usize = 4;

/// Whose a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Peer {
    /// A process of this machine; `None` if it is not visible from here.
    Process(Option<i32>),
    /// A host of the network.
    Address(IpAddr),
}

impl Peer {
    /// The peer with this address.
    pub(crate) fn at(address: IpAddr) -> Peer {
        Peer::Address(crowd::host(address))
    }
}

/// What a connection does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doing {
    /// Nothing, or its request is not whole yet.
    Idle,
    /// Its request waits for something to happen, or for its turn.
    Waiting,
    /// Its request is worked on.
    Working,
}

/// Kinds of connections that give way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Stranger,
    Idle,
    Waiting,
}

#[derive(Debug)]
struct Entry {
    peer: Peer,
    known: bool,
    doing: Doing,
    /// When its request began, or its last one ended, in [`All::turn`]. A request that waits, looks and waits on is as old as
    /// before.
    since: u64,
    leaving: bool,
    signs: Arc<Signs>,
}

impl Entry {
    fn kind(&self) -> Option<Kind> {
        match (self.leaving, self.known, self.doing) {
            (true, ..) | (_, true, Doing::Working) => None,
            (_, false, _) => Some(Kind::Stranger),
            (_, _, Doing::Idle) => Some(Kind::Idle),
            (_, _, Doing::Waiting) => Some(Kind::Waiting),
        }
    }
}

/// What a connection is told when it gives way.
#[derive(Debug, Default)]
struct Signs {
    /// Close.
    close: Notify,
    /// Answer now.
    hurry: Notify,
}

#[derive(Debug, Default)]
struct All {
    most: usize,
    turn: u64,
    entries: BTreeMap<u64, Entry>,
}

/// All connections of a server.
#[derive(Clone, Debug, Default)]
pub(crate) struct Connections {
    all: Arc<Mutex<All>>,
    /// Something may have room or give way by now.
    changed: Arc<Notify>,
}

impl Connections {
    /// A table for this many.
    pub(crate) fn new(most: usize) -> Connections {
        let all = All { most, ..All::default() };
        Connections { all: Arc::new(Mutex::new(all)), changed: Arc::default() }
    }

    fn all(&self) -> MutexGuard<'_, All> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether one more can be let in, because there is room or another gives way.
    pub(crate) fn has_room(&self) -> bool {
        let all = self.all();
        all.present() < all.most || all.entries.values().any(|entry| entry.kind().is_some())
    }

    /// Returns when this may have changed.
    pub(crate) async fn change(&self) {
        self.changed.notified().await;
    }

    /// Enters the connection of a stranger; another one gives way where there are too many.
    pub(crate) fn enter(&self, peer: Peer) -> Place {
        let mut all = self.all();
        if all.present() >= all.most {
            all.make_room();
        }
        let id = all.next();
        let signs = Arc::<Signs>::default();
        let (known, doing, leaving) = (false, Doing::Idle, false);
        let entry = Entry { peer, known, doing, since: id, leaving, signs: Arc::clone(&signs) };
        all.entries.insert(id, entry);
        drop(all);
        Place(Held { connections: self.clone(), id, signs })
    }

    /// Makes one give way although there is room, because the process has no descriptor for another.
    pub(crate) fn make_room(&self) {
        self.all().make_room();
    }

    /// Number of requests that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.all().entries.values().filter(|entry| entry.doing == Doing::Waiting).count()
    }
}

impl All {
    fn next(&mut self) -> u64 {
        self.turn += 1;
        self.turn
    }

    fn present(&self) -> usize {
        self.entries.values().filter(|entry| !entry.leaving).count()
    }

    /// Tells the one that gives way, if there is one.
    fn make_room(&mut self) {
        let Some(id) = self.first() else { return };
        let Some(entry) = self.entries.get_mut(&id) else { return };
        // It counts as gone from now on, although its task may take a while to notice.
        entry.leaving = true;
        let waits = entry.known && entry.doing == Doing::Waiting;
        let sign = if waits { &entry.signs.hurry } else { &entry.signs.close };
        sign.notify_one();
    }

    /// The one that gives way first.
    fn first(&self) -> Option<u64> {
        let mut of: HashMap<Kind, HashMap<Peer, Vec<(u64, u64)>>> = HashMap::new();
        for (id, entry) in &self.entries {
            let Some(kind) = entry.kind() else { continue };
            of.entry(kind).or_default().entry(entry.peer).or_default().push((entry.since, *id));
        }
        let strangers: usize =
            of.get(&Kind::Stranger).into_iter().flat_map(HashMap::values).map(Vec::len).sum();
        let order = if strangers * SHARE_OF_STRANGERS >= self.most {
            [Kind::Stranger, Kind::Idle, Kind::Waiting]
        } else {
            [Kind::Idle, Kind::Waiting, Kind::Stranger]
        };
        let peers = order.iter().find_map(|kind| of.get(kind))?;
        // Of equal peers, the one with the oldest connection.
        let oldest = |all: &Vec<(u64, u64)>| all.iter().min().copied();
        let most = peers.values().max_by_key(|all| (all.len(), Reverse(oldest(all))))?;
        oldest(most).map(|(_, id)| id)
    }
}

/// A connection's entry, which goes with it.
#[derive(Debug)]
pub(crate) struct Place(Held);

impl Place {
    /// For its requests.
    pub(crate) fn held(&self) -> Held {
        self.0.clone()
    }

    /// Returns when the connection gives way.
    pub(crate) async fn given_up(&self) {
        self.0.signs.close.notified().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.connections.all().entries.remove(&self.0.id);
        self.0.connections.changed.notify_one();
    }
}

/// The connection of a request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Held {
    connections: Connections,
    id: u64,
    signs: Arc<Signs>,
}

impl Held {
    /// Its caller asked, and may.
    pub(crate) fn admit(&self) {
        if let Some(entry) = self.connections.all().entries.get_mut(&self.id) {
            entry.known = true;
        }
    }

    /// Says what it does from now on; returns whether it is to close.
    pub(crate) fn does(&self, doing: Doing) -> bool {
        let mut all = self.connections.all();
        let turn = all.next();
        // Its connection has closed under it.
        let Some(entry) = all.entries.get_mut(&self.id) else { return true };
        if [entry.doing, doing].contains(&Doing::Idle) {
            entry.since = turn;
        }
        entry.doing = doing;
        let leaving = entry.leaving;
        drop(all);
        self.connections.changed.notify_one();
        leaving
    }

    /// Waits for a future; `None` if its caller has to give way.
    pub(crate) async fn wait<T>(&self, future: impl Future<Output = T>) -> Option<T> {
        let mut future = pin!(future);
        // What need not wait does not count as waiting.
        let at_once = poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await;
        if let Poll::Ready(done) = at_once {
            return Some(done);
        }
        if self.does(Doing::Waiting) {
            return None;
        }
        let done = tokio::select! {
            biased;
            done = future => Some(done),
            () = self.signs.hurry.notified() => None,
        };
        self.does(Doing::Working);
        done
    }

    /// Number of requests of its server that wait.
    pub(crate) fn others_waiting(&self) -> usize {
        self.connections.waiting()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaving(place: &Place) -> bool {
        let all = place.0.connections.all();
        all.entries.get(&place.0.id).is_some_and(|entry| entry.leaving)
    }

    fn asked(connections: &Connections, peer: i32, doing: Doing) -> Place {
        let place = connections.enter(Peer::Process(Some(peer)));
        place.held().admit();
        place.held().does(doing);
        place
    }

    fn which(places: &[Place]) -> Vec<usize> {
        (0..places.len()).filter(|at| leaving(&places[*at])).collect()
    }

    #[test]
    fn idle_ones_give_way_before_those_that_wait_and_work_is_not_touched() {
        let connections = Connections::new(4);
        let mut places = vec![
            asked(&connections, 1, Doing::Working),
            asked(&connections, 1, Doing::Waiting),
            asked(&connections, 2, Doing::Idle),
            asked(&connections, 2, Doing::Working),
        ];
        places.push(asked(&connections, 3, Doing::Working));
        assert_eq!(which(&places), [2]);
        places.push(asked(&connections, 3, Doing::Working));
        assert_eq!(which(&places), [1, 2]);
        assert!(!connections.has_room(), "all are worked on");
        places[0].held().does(Doing::Idle);
        assert!(connections.has_room());
        drop(places);
        assert_eq!(connections.all().entries.len(), 0);
    }

    #[test]
    fn the_peer_with_most_loses_its_oldest() {
        let connections = Connections::new(5);
        let mut places: Vec<Place> =
            [1, 2, 2, 3, 2].map(|peer| asked(&connections, peer, Doing::Idle)).into();
        // The second has been used since.
        places[1].held().does(Doing::Idle);
        for _ in 0..2 {
            places.push(asked(&connections, 4, Doing::Idle));
        }
        assert_eq!(which(&places), [2, 4]);
    }

    #[test]
    fn strangers_have_a_share_and_no_more() {
        let connections = Connections::new(8);
        let mut places: Vec<Place> =
            (0..8).map(|_| asked(&connections, 1, Doing::Waiting)).collect();
        let stranger = || connections.enter(Peer::at("192.0.2.1".parse().unwrap()));
        for _ in 0..4 {
            places.push(stranger());
        }
        // A quarter of the places becomes theirs; then they give way to each other.
        assert_eq!(which(&places), [0, 1, 8, 9]);
    }
}
