//! UDP: each peer of the port of the host has a socket in the node; answers to it go back to the peer.
//!
//! One thread takes datagrams of peers, another one all answers. A socket goes when nothing passed it for [`IDLE`], or when
//! a new peer needs one: then the one that is silent for longest of the address that has most of them. Where nobody
//! listens the kernel tells so at a later call; the datagram is then sent to the next place.

use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use netloom_sys::{Failure, crowd, process};
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;

use crate::Result;

/// Peers of a port at a time.
const MOST: usize = 1024;

/// How long a peer's socket stays without a datagram.
const IDLE: Duration = Duration::from_secs(60);

/// How often silent ones are looked for.
const LOOK: Duration = Duration::from_secs(1);

/// Answers of one peer that are passed on before the next one has its turn.
const TURN: usize = 16;

/// The longest datagram.
const LONGEST: usize = 65_535;

/// A port of the host.
pub(crate) struct Relay {
    outer: UdpSocket,
    places: Vec<SocketAddr>,
    epoll: OwnedFd,
    begun: Instant,
    peers: Mutex<Peers>,
}

/// The sockets in the node.
#[derive(Default)]
struct Peers {
    last: u64,
    by_address: HashMap<SocketAddr, Arc<Peer>>,
    by_id: HashMap<u64, Arc<Peer>>,
    counts: HashMap<IpAddr, usize>,
}

/// A peer's socket in the node.
struct Peer {
    id: u64,
    address: SocketAddr,
    socket: UdpSocket,
    /// When something passed it, in milliseconds.
    used: AtomicU64,
    /// Which place it sends to, and the last datagram, which is sent again at the next.
    now: Mutex<(usize, Vec<u8>)>,
}

impl Peers {
    fn remove(&mut self, address: SocketAddr) {
        let Some(gone) = self.by_address.remove(&address) else { return };
        // Closing the socket, with its last user, takes it out of the epoll set (epoll(7)).
        self.by_id.remove(&gone.id);
        let of = crowd::host(address.ip());
        if let Some(count) = self.counts.get_mut(&of) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&of);
            }
        }
    }

    /// Removes the one that gives way to a new one.
    fn make_room(&mut self) {
        let most = self.counts.values().max();
        let of_most = |one: &&Arc<Peer>| self.counts.get(&crowd::host(one.address.ip())) == most;
        let all = self.by_address.values().filter(of_most);
        // Times alone: nothing else is read because of them.
        let first = all.min_by_key(|one| one.used.load(Ordering::Relaxed));
        if let Some(address) = first.map(|one| one.address) {
            self.remove(address);
        }
    }
}

impl Relay {
    /// Between a port and these places.
    pub(crate) fn new(outer: UdpSocket, places: Vec<SocketAddr>) -> Result<Arc<Relay>> {
        let epoll =
            epoll::create(CreateFlags::CLOEXEC).map_err(Failure::of("ports", "make an epoll"))?;
        let (begun, peers) = (Instant::now(), Mutex::default());
        Ok(Arc::new(Relay { outer, places, epoll, begun, peers }))
    }

    fn peers(&self) -> MutexGuard<'_, Peers> {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Takes datagrams for ever.
    pub(crate) fn take(&self) {
        let mut datagram = vec![0; LONGEST];
        loop {
            let Ok((length, from)) = self.outer.recv_from(&mut datagram) else { continue };
            if let Ok(peer) = self.find(from) {
                peer.used.store(self.now(), Ordering::Relaxed);
                peer.send(&datagram[..length], &self.places);
            }
        }
    }

    fn find(&self, from: SocketAddr) -> io::Result<Arc<Peer>> {
        let mut peers = self.peers();
        if let Some(peer) = peers.by_address.get(&from) {
            return Ok(Arc::clone(peer));
        }
        if peers.by_address.len() >= MOST {
            peers.make_room();
        }
        let to = self.places.first().ok_or(ErrorKind::AddrNotAvailable)?;
        let socket = connected(to).or_else(|e| {
            // The process may be out of descriptors before there are as many peers as may be.
            let full = [Errno::MFILE, Errno::NFILE].map(|errno| Some(errno.raw_os_error()));
            if !full.contains(&e.raw_os_error()) {
                return Err(e);
            }
            peers.make_room();
            connected(to)
        })?;
        peers.last += 1;
        // Not the descriptor's number, which another socket may have when an event is read.
        let id = peers.last;
        epoll::add(&self.epoll, &socket, EventData::new_u64(id), EventFlags::IN)?;
        let used = AtomicU64::new(self.now());
        let new = Arc::new(Peer { id, address: from, socket, used, now: Mutex::default() });
        peers.by_address.insert(from, Arc::clone(&new));
        peers.by_id.insert(id, Arc::clone(&new));
        *peers.counts.entry(crowd::host(from.ip())).or_default() += 1;
        Ok(new)
    }

    /// Passes answers on for ever.
    pub(crate) fn answer(&self) {
        let mut datagram = vec![0; LONGEST];
        let mut events = Vec::with_capacity(256);
        let mut look = Instant::now() + LOOK;
        loop {
            events.clear();
            let wait = process::timespec(look.saturating_duration_since(Instant::now()));
            let _ = epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&wait));
            for event in &events {
                let peer = self.peers().by_id.get(&{ event.data }.u64()).map(Arc::clone);
                if let Some(peer) = peer
                    && !self.answers_of(&peer, &mut datagram)
                {
                    self.peers().remove(peer.address);
                }
            }
            if look <= Instant::now() {
                look = Instant::now() + LOOK;
                self.sweep();
            }
        }
    }

    /// Passes answers of one peer on; `false`: nobody listens for it.
    fn answers_of(&self, peer: &Peer, datagram: &mut [u8]) -> bool {
        // What is left wakes the epoll again, which is level-triggered.
        for _ in 0..TURN {
            match peer.socket.recv(datagram) {
                Ok(length) => {
                    peer.used.store(self.now(), Ordering::Relaxed);
                    // An answer that cannot be sent is lost, as any datagram may be.
                    let _ = self.outer.send_to(&datagram[..length], peer.address);
                }
                Err(e) if e.kind() == ErrorKind::ConnectionRefused => {
                    let mut now = peer.now.lock().unwrap_or_else(PoisonError::into_inner);
                    if !peer.next(&mut now, &self.places) {
                        return false;
                    }
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return e.kind() == ErrorKind::WouldBlock,
            }
        }
        true
    }

    fn sweep(&self) {
        let idle = u64::try_from(IDLE.as_millis()).unwrap_or(u64::MAX);
        let now = self.now();
        let mut peers = self.peers();
        let silent = |one: &&Arc<Peer>| now.saturating_sub(one.used.load(Ordering::Relaxed)) > idle;
        let gone: Vec<_> =
            peers.by_address.values().filter(silent).map(|one| one.address).collect();
        gone.into_iter().for_each(|address| peers.remove(address));
    }
}

impl Peer {
    fn send(&self, datagram: &[u8], places: &[SocketAddr]) {
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        now.1.clear();
        now.1.extend_from_slice(datagram);
        if self.socket.send(datagram).is_err_and(|e| e.kind() == ErrorKind::ConnectionRefused) {
            self.next(&mut now, places);
        }
    }

    /// Sends the last datagram to the next place, after one where nobody listens. `false`: there is none.
    fn next(&self, now: &mut (usize, Vec<u8>), places: &[SocketAddr]) -> bool {
        while let Some(to) = places.get(now.0 + 1) {
            now.0 += 1;
            if turn(&self.socket, to).and_then(|()| self.socket.send(&now.1)).is_ok() {
                return true;
            }
        }
        false
    }
}

/// A socket for all places: one of IPv6 reaches those of IPv4, too, as mapped addresses.
fn connected(to: &SocketAddr) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0))
        .or_else(|_| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)))?;
    socket.set_nonblocking(true)?;
    turn(&socket, to)?;
    Ok(socket)
}

fn turn(socket: &UdpSocket, to: &SocketAddr) -> io::Result<()> {
    match (socket.local_addr()?, to) {
        (SocketAddr::V6(_), SocketAddr::V4(to)) => {
            socket.connect((to.ip().to_ipv6_mapped(), to.port()))
        }
        _ => socket.connect(to),
    }
}
