//! UDP: each peer of the port of the host has a socket in the node; answers to it go back to the peer.
//!
//! A socket goes when nothing passed it for [`IDLE`]. Where nobody listens the kernel tells so at a later call; the datagram is then
//! sent to the next place.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// Peers of a port at a time; datagrams of others are dropped.
const MOST: usize = 256;

/// How long a peer's socket stays without a datagram.
const IDLE: Duration = Duration::from_secs(60);

/// The longest datagram.
const LONGEST: usize = 65_535;

/// The stack of a thread.
const STACK: usize = 192 << 10;

/// The sockets in the node, by peer.
type Peers = Arc<Mutex<BTreeMap<SocketAddr, Arc<Peer>>>>;

/// A peer's socket in the node.
struct Peer {
    socket: UdpSocket,
    places: Vec<SocketAddr>,
    /// Which place it sends to, and the last datagram, which is sent again at the next.
    now: Mutex<(usize, Vec<u8>)>,
}

/// Takes datagrams for ever.
pub(crate) fn take(outer: &Arc<UdpSocket>, places: &[SocketAddr]) {
    let peers = Peers::default();
    let mut datagram = vec![0; LONGEST];
    loop {
        let Ok((length, from)) = outer.recv_from(&mut datagram) else { continue };
        if let Some(peer) = find(&peers, outer, from, places) {
            peer.send(&datagram[..length]);
        }
    }
}

fn find(
    peers: &Peers,
    outer: &Arc<UdpSocket>,
    from: SocketAddr,
    places: &[SocketAddr],
) -> Option<Arc<Peer>> {
    let mut all = peers.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(peer) = all.get(&from) {
        return Some(Arc::clone(peer));
    }
    if all.len() >= MOST {
        return None;
    }
    let peer = Arc::new(Peer::new(places.to_vec()).ok()?);
    let (peers, outer, own) = (Arc::clone(peers), Arc::clone(outer), Arc::clone(&peer));
    let answers = move || {
        own.answers(&outer, from);
        peers.lock().unwrap_or_else(PoisonError::into_inner).remove(&from);
    };
    let thread = thread::Builder::new().name("netloom-port".into()).stack_size(STACK);
    thread.spawn(answers).ok()?;
    all.insert(from, Arc::clone(&peer));
    Some(peer)
}

impl Peer {
    fn new(places: Vec<SocketAddr>) -> io::Result<Peer> {
        let socket = connected(places.first().ok_or(ErrorKind::AddrNotAvailable)?)?;
        Ok(Peer { socket, places, now: Mutex::default() })
    }

    fn send(&self, datagram: &[u8]) {
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        now.1.clear();
        now.1.extend_from_slice(datagram);
        if self.socket.send(datagram).is_err_and(|e| e.kind() == ErrorKind::ConnectionRefused) {
            self.next(&mut now);
        }
    }

    /// Sends the last datagram to the next place, after one where nobody listens. `false`: there is none.
    fn next(&self, now: &mut (usize, Vec<u8>)) -> bool {
        while let Some(to) = self.places.get(now.0 + 1) {
            now.0 += 1;
            if turn(&self.socket, to).and_then(|()| self.socket.send(&now.1)).is_ok() {
                return true;
            }
        }
        false
    }

    /// Passes answers on until there were none for a while.
    fn answers(&self, outer: &UdpSocket, to: SocketAddr) {
        let mut datagram = vec![0; LONGEST];
        loop {
            match self.socket.recv(&mut datagram) {
                Ok(length) => drop(outer.send_to(&datagram[..length], to)),
                Err(e) if e.kind() == ErrorKind::ConnectionRefused => {
                    let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
                    if !self.next(&mut now) {
                        return;
                    }
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    }
}

/// A socket for all places: one of IPv6 reaches those of IPv4, too, as mapped addresses.
fn connected(to: &SocketAddr) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0))
        .or_else(|_| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)))?;
    socket.set_read_timeout(Some(IDLE))?;
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
