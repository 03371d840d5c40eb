//! The clients of a node's ports, and which one loses its connection when there are too many.
//!
//! A new connection is always let in: one of the peer that has most of them gives way, as long as that has more than the new
//! one's peer. Among those of one peer, one that has carried nothing goes before one that has, the one that is silent
//! for longest before others; one of the new one's own peer goes only if it has been silent for a moment.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::{IpAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// How long a connection of the same peer that has been used must be silent before it gives way to a new one.
const MOMENT: Duration = Duration::from_secs(1);

/// How long a connection may carry nothing at all, or nothing more after one of its ends has ended.
const UNUSED: Duration = Duration::from_secs(60);
const HALF: Duration = Duration::from_secs(600);

/// A connection as others see it.
#[derive(Debug)]
pub(crate) struct Seat {
    seats: Arc<Seats>,
    id: u64,
    peer: IpAddr,
    outer: Arc<TcpStream>,
    /// Milliseconds on the clock of all seats: when it came, and when it carried something last; 0 while it has not.
    since: u64,
    used: AtomicU64,
    /// One direction has ended.
    half: AtomicBool,
    gone: AtomicBool,
}

impl Seat {
    /// Its number, which no other one gets.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// The peer's side.
    pub(crate) fn outer(&self) -> &Arc<TcpStream> {
        &self.outer
    }

    /// It carried something.
    pub(crate) fn use_at(&self, now: u64) {
        self.used.store(now.max(1), Ordering::Relaxed);
    }

    /// One direction has ended.
    pub(crate) fn note_end(&self) {
        self.half.store(true, Ordering::Relaxed);
    }

    /// Whether it gave way.
    pub(crate) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Relaxed)
    }

    fn give_way(&self) {
        // Relaxed: the reset wakes its carrier, which looks
        // then; one that looks too early meets an error.
        self.gone.store(true, Ordering::Relaxed);
        reset(&self.outer);
    }

    /// Since when it has been silent.
    fn silent_since(&self) -> u64 {
        self.since.max(self.used.load(Ordering::Relaxed))
    }

    fn is_used(&self) -> bool {
        self.used.load(Ordering::Relaxed) > 0
    }

    /// Whether it has been of no use for too long.
    fn is_over(&self, now: u64) -> bool {
        let silent = Duration::from_millis(now.saturating_sub(self.silent_since()));
        (!self.is_used() && silent > UNUSED) || (self.half.load(Ordering::Relaxed) && silent > HALF)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.seats.all().leave(self.id, self.peer);
    }
}

/// Ends a connection as broken, so that the other side does not take the end for a regular one. Who carries it hears of it.
pub(crate) fn reset(socket: &TcpStream) {
    // AF_UNSPEC dissolves the connection (connect(2)). Closing
    // would not: its carrier holds the socket, too.
    let _ = rustix::net::connect_unspec(socket);
}

#[derive(Debug, Default)]
struct All {
    last: u64,
    by_id: HashMap<u64, Weak<Seat>>,
    counts: HashMap<IpAddr, usize>,
}

impl All {
    fn leave(&mut self, id: u64, peer: IpAddr) {
        if self.by_id.remove(&id).is_none() {
            return;
        }
        if let Some(count) = self.counts.get_mut(&peer) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&peer);
            }
        }
    }
}

/// All connections of a node's ports.
#[derive(Debug)]
pub(crate) struct Seats {
    most: usize,
    begun: Instant,
    all: Mutex<All>,
}

impl Seats {
    /// Seats for this many.
    pub(crate) fn new(most: usize) -> Arc<Seats> {
        Arc::new(Seats { most, begun: Instant::now(), all: Mutex::default() })
    }

    fn all(&self) -> MutexGuard<'_, All> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Milliseconds since the beginning.
    pub(crate) fn now(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// A seat for a connection.
    pub(crate) fn take(self: &Arc<Self>, outer: TcpStream, peer: IpAddr) -> Arc<Seat> {
        let since = self.now();
        let mut all = self.all();
        all.last += 1;
        let id = all.last;
        let seat = Arc::new(Seat {
            seats: Arc::clone(self),
            id,
            peer,
            outer: Arc::new(outer),
            since,
            used: AtomicU64::new(0),
            half: AtomicBool::new(false),
            gone: AtomicBool::new(false),
        });
        all.by_id.insert(id, Arc::downgrade(&seat));
        *all.counts.entry(peer).or_default() += 1;
        seat
    }

    /// Whether nobody has one.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.all().by_id.is_empty()
    }

    /// Whether there is a free seat.
    pub(crate) fn has_room(&self) -> bool {
        self.all().by_id.len() < self.most
    }

    /// Makes a seat free for a connection of this peer, and returns whose it was; `None` if nobody has to give way now.
    pub(crate) fn make_room(&self, newcomer: IpAddr) -> Option<u64> {
        let now = self.now();
        let mut all = self.all();
        let own = all.counts.get(&newcomer).copied().unwrap_or(0);
        let most = all.counts.values().max().copied().unwrap_or(0);
        // With one more, two peers would take the last seat from each other by turns.
        let others = most > own + 1;
        // All of them are dropped after the lock: it may be the end of one, which takes the lock.
        let seats: Vec<Arc<Seat>> = all.by_id.values().filter_map(Weak::upgrade).collect();
        let of_most = seats.iter().filter(|seat| all.counts.get(&seat.peer) == Some(&most));
        let first = of_most.min_by_key(|seat| (seat.is_used(), seat.silent_since(), seat.id));
        let goes = first.filter(|seat| {
            let silent = Duration::from_millis(now.saturating_sub(seat.silent_since()));
            others || !seat.is_used() || silent >= MOMENT
        });
        let done = goes.map(|seat| {
            all.leave(seat.id, seat.peer);
            seat.give_way();
            seat.id
        });
        drop(all);
        done
    }

    /// Ends connections that have been of no use for too long.
    pub(crate) fn sweep(&self) {
        let now = self.now();
        let seats: Vec<Arc<Seat>> = self.all().by_id.values().filter_map(Weak::upgrade).collect();
        let mut over: Vec<_> = seats.iter().filter(|seat| seat.is_over(now)).collect();
        over.sort_by_key(|seat| Reverse(seat.id));
        over.iter().for_each(|seat| seat.give_way());
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// A connection with itself, of which this is one side.
    fn outer(listener: &TcpListener) -> TcpStream {
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        drop(listener.accept().unwrap());
        stream
    }

    #[test]
    fn one_of_the_peer_with_most_gives_way() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let seats = Seats::new(4);
        let at = |n: u8| IpAddr::from([192, 0, 2, n]);
        let take = |n| seats.take(outer(&listener), at(n));
        let all = [take(1), take(2), take(2), take(2)];
        all[1].use_at(5);
        assert!(!seats.has_room());
        assert_eq!(seats.make_room(at(1)), Some(all[2].id), "the first that carried nothing");
        assert!(all[2].is_gone() && seats.has_room());
        assert_eq!(seats.make_room(at(3)), Some(all[3].id), "another one of the same");
        assert!(all[3].is_gone());
        drop(all);
        assert!(seats.all().by_id.is_empty() && seats.all().counts.is_empty());
    }

    #[test]
    fn what_is_used_by_the_same_peer_stays_for_a_moment() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let seats = Seats::new(2);
        let me = IpAddr::from([127, 0, 0, 1]);
        let all = [seats.take(outer(&listener), me), seats.take(outer(&listener), me)];
        all.iter().for_each(|seat| seat.use_at(seats.now()));
        assert_eq!(seats.make_room(me), None, "both are at work");
        let other = IpAddr::from([127, 0, 0, 2]);
        assert!(seats.make_room(other).is_some(), "one peer has all");
        assert!(all.iter().any(|seat| seat.is_gone()));
    }

    #[test]
    fn connections_end_while_room_is_made() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let seats = Seats::new(64);
        let at = |n: u8| IpAddr::from([192, 0, 2, n]);
        // Those of the peer with most stay, since all of them are in use; the other peer's comes and goes meanwhile.
        let most: Vec<_> = (0..8).map(|_| seats.take(outer(&listener), at(1))).collect();
        most.iter().for_each(|seat| seat.use_at(u64::MAX));
        // Their end would wait, too, and the failure would not be told.
        std::mem::forget(most);
        let stream = outer(&listener);
        let (done, ended) = std::sync::mpsc::channel();
        let (goes, finds) = (Arc::clone(&seats), Arc::clone(&seats));
        let told = done.clone();
        std::thread::spawn(move || {
            for n in 0..20_000 {
                let take = || goes.take(stream.try_clone().unwrap(), at(2));
                let some = [take(), take(), take(), take()];
                // At any moment of the other thread's work.
                (0..n % 500).for_each(|_| std::hint::spin_loop());
                drop(some);
            }
            told.send(()).unwrap();
        });
        std::thread::spawn(move || {
            for _ in 0..200_000 {
                assert_eq!(finds.make_room(at(1)), None);
            }
            done.send(()).unwrap();
        });
        for _ in 0..2 {
            ended.recv_timeout(Duration::from_secs(120)).expect("they wait for each other");
        }
    }
}
