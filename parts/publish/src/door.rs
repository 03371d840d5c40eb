//! TCP: takes connections at the ports of the host, and makes one in the node for each.
//!
//! One thread waits for all of it. A connection that finds no program is closed at once, as a port without a listener would;
//! a found connection goes to a [`Carrier`].

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use netloom_sys::{Failure, crowd, process};
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

use crate::Result;
use crate::carry::{Carrier, Link};
use crate::seats::{Seat, Seats, reset};

/// Time limit for a program to accept: only a program that does not take what waits for it makes this matter.
const PATIENCE: Duration = Duration::from_secs(10);

/// How often time limits are looked at.
const LOOK: Duration = Duration::from_secs(1);

/// The pause when nobody has to give way, or the system has no descriptor to give.
const PAUSE: Duration = Duration::from_millis(20);

/// How many connections of a port are taken before the next port has its turn.
const TURN: usize = 64;

/// After how much silence the system asks whether a peer is still there.
const KEEPALIVE: Duration = Duration::from_secs(300);

/// Keys of connections that are being made are above those of ports.
const FIRST: u64 = 1 << 32;

/// A port of the host, and where it leads.
#[derive(Debug)]
pub(crate) struct Door {
    pub(crate) listener: TcpListener,
    pub(crate) places: Vec<SocketAddr>,
}

/// A connection for which one in the node is being made.
struct Opening {
    seat: Arc<Seat>,
    socket: OwnedFd,
    /// The place that it goes to, of the port's.
    place: usize,
    port: usize,
    until: Instant,
}

/// Everything that the thread needs.
pub(crate) struct Doors {
    doors: Vec<Door>,
    carriers: Vec<Arc<Carrier>>,
    seats: Arc<Seats>,
    epoll: OwnedFd,
    openings: HashMap<u64, Opening>,
    next: usize,
    /// Until when no connection is taken.
    closed: Option<Instant>,
}

impl Doors {
    /// Takes connections at these ports for these carriers.
    pub(crate) fn new(
        doors: Vec<Door>,
        carriers: Vec<Arc<Carrier>>,
        seats: Arc<Seats>,
    ) -> Result<Doors> {
        let failed = |operation| Failure::of("ports", operation);
        let epoll = epoll::create(CreateFlags::CLOEXEC).map_err(failed("make an epoll"))?;
        for (key, door) in (0..).zip(&doors) {
            rustix::io::ioctl_fionbio(&door.listener, true)
                .map_err(failed("wait for connections"))?;
            epoll::add(&epoll, &door.listener, EventData::new_u64(key), EventFlags::IN)
                .map_err(failed("wait for connections"))?;
        }
        let (openings, next, closed) = (HashMap::new(), 0, None);
        Ok(Doors { doors, carriers, seats, epoll, openings, next, closed })
    }

    /// Takes connections for ever.
    pub(crate) fn run(mut self) {
        let mut events = Vec::with_capacity(256);
        let mut look = Instant::now() + LOOK;
        loop {
            events.clear();
            let until = self.closed.map_or(look, |closed| closed.min(look));
            let wait = process::timespec(until.saturating_duration_since(Instant::now()));
            let _ = epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&wait));
            for event in &events {
                match { event.data }.u64() {
                    key if key >= FIRST => self.see(key - FIRST),
                    key => self.take(usize::try_from(key).unwrap_or(usize::MAX)),
                }
            }
            let now = Instant::now();
            if self.closed.is_some_and(|closed| closed <= now) {
                self.closed = None;
                self.listen(true);
            }
            if look <= now {
                look = now + LOOK;
                self.sweep(now);
            }
        }
    }

    /// Waits for connections, or no more.
    fn listen(&self, wanted: bool) {
        let flags = if wanted { EventFlags::IN } else { EventFlags::empty() };
        for (key, door) in (0..).zip(&self.doors) {
            let _ = epoll::modify(&self.epoll, &door.listener, EventData::new_u64(key), flags);
        }
    }

    /// Takes connections at a port.
    fn take(&mut self, port: usize) {
        for _ in 0..TURN {
            let Some(door) = self.doors.get(port).filter(|_| self.closed.is_none()) else { return };
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            // Whether a connection has to give way depends on the newcomer.
            match rustix::net::acceptfrom_with(&door.listener, flags) {
                Ok((outer, from)) => {
                    let from = from.and_then(|from| SocketAddr::try_from(from).ok());
                    self.enter(TcpStream::from(outer), port, from);
                }
                Err(Errno::AGAIN) => return,
                // The peer has gone.
                Err(Errno::CONNABORTED | Errno::INTR | Errno::PROTO) => {}
                Err(_) => {
                    // No descriptor or memory is left.
                    self.make_room([0, 0, 0, 0].into());
                    return self.pause();
                }
            }
        }
    }

    /// Makes a seat free for a connection of this peer; `false` if nobody has to give way now.
    fn make_room(&mut self, newcomer: IpAddr) -> bool {
        let gone = self.seats.make_room(newcomer);
        if let Some(id) = gone {
            // Its sockets go at once: many may come before time limits are looked at.
            self.openings.remove(&id);
        }
        gone.is_some()
    }

    fn pause(&mut self) {
        self.closed = Some(Instant::now() + PAUSE);
        self.listen(false);
    }

    fn enter(&mut self, outer: TcpStream, port: usize, from: Option<SocketAddr>) {
        let from = crowd::host(from.map_or([0, 0, 0, 0].into(), |from| from.ip()));
        if !self.seats.has_room() && !self.make_room(from) {
            // Those that its peer has are all at work. It is here already and comes in; the next one waits in the queue.
            self.pause();
        }
        // Small messages must not wait for more (Nagle).
        let _ = outer.set_nodelay(true);
        let _ = sockopt::set_socket_keepalive(&outer, true);
        let _ = sockopt::set_tcp_keepidle(&outer, KEEPALIVE);
        let seat = self.seats.take(outer, from);
        self.open(seat, port, 0);
    }

    /// Makes the connection in the node, beginning with this place.
    fn open(&mut self, seat: Arc<Seat>, port: usize, first: usize) {
        let places = self.doors.get(port).map_or(&[][..], |door| &door.places);
        for (place, to) in places.iter().enumerate().skip(first) {
            let Ok(socket) = socket_for(to) else { continue };
            match rustix::net::connect(&socket, to) {
                Ok(()) => return self.found(seat, socket),
                Err(Errno::INPROGRESS) => {
                    let key = EventData::new_u64(FIRST + seat.id());
                    if epoll::add(&self.epoll, &socket, key, EventFlags::OUT).is_err() {
                        break;
                    }
                    let until = Instant::now() + PATIENCE;
                    let id = seat.id();
                    self.openings.insert(id, Opening { seat, socket, place, port, until });
                    return;
                }
                Err(_) => {}
            }
        }
        reset(seat.outer());
    }

    /// Something became of a connection that is being made.
    fn see(&mut self, id: u64) {
        let Some(opening) = self.openings.remove(&id) else { return };
        let Opening { seat, socket, place, port, .. } = opening;
        // A carrier watches it from now on, by an epoll of its own.
        let _ = epoll::delete(&self.epoll, &socket);
        match sockopt::socket_error(&socket) {
            Ok(Ok(())) => self.found(seat, socket),
            Ok(Err(_)) | Err(_) => self.open(seat, port, place + 1),
        }
    }

    fn found(&mut self, seat: Arc<Seat>, inner: OwnedFd) {
        let inner = TcpStream::from(inner);
        let _ = inner.set_nodelay(true);
        self.next = (self.next + 1) % self.carriers.len().max(1);
        if let Some(carrier) = self.carriers.get(self.next) {
            carrier.give(Link { seat, inner });
        }
    }

    /// Looks at time limits.
    fn sweep(&mut self, now: Instant) {
        let late = |opening: &Opening| opening.until <= now || opening.seat.is_gone();
        let ids: Vec<u64> =
            self.openings.iter().filter(|(_, o)| late(o)).map(|(id, _)| *id).collect();
        for id in ids {
            let Some(opening) = self.openings.remove(&id) else { continue };
            let _ = epoll::delete(&self.epoll, &opening.socket);
            match opening.seat.is_gone() {
                true => {}
                false => self.open(opening.seat, opening.port, opening.place + 1),
            }
        }
        self.seats.sweep();
    }
}

fn socket_for(to: &SocketAddr) -> rustix::io::Result<OwnedFd> {
    let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::socket_with(family, SocketType::STREAM, flags, None)
}

#[cfg(test)]
mod tests;
