//! Which program asks by a socket apart: each has a port of its own there, which a program cannot change.
//!
//! A port is bound by its number, so that dissolving a connection leaves it bound; and below the ports that the kernel
//! gives by itself, so that a socket without a seat never has one of these. One that was taken before is taken again only
//! where nobody has it at any address: its number alone identifies the sender.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

use netloom_policy::Program;
use netloom_sys::process::began;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketType, bind, sockopt};

use crate::judge::State;
use crate::who::Who;

/// Ports of seats.
const FIRST: u16 = 1024;
const LAST: u16 = 32_767;
/// Ports that are tried for one seat: of others that are still open.
const TRIES: usize = 4096;

/// A program that asks.
#[derive(Debug)]
pub(super) struct Asker {
    pub(super) who: Who,
    /// When its thread was started: a number is used again.
    began: Option<u64>,
}

impl Asker {
    /// The caller of a call that waits.
    pub(super) fn of(thread: i32, program: Program) -> Asker {
        Asker { who: Who::of(thread, program), began: began(thread) }
    }

    /// Whether its thread is still the same.
    pub(super) fn state(&self) -> State {
        let same = self.began.is_some() && began(self.who.thread) == self.began;
        if same { State::Waiting } else { State::Gone }
    }
}

/// Seats of datagrams and streams, by port.
#[derive(Debug, Default)]
pub(super) struct Seats(Mutex<Taken>);

#[derive(Debug, Default)]
struct Taken {
    all: HashMap<(bool, u16), Arc<Asker>>,
    last: u16,
}

impl Seats {
    /// Binds a socket to a seat at an address; `make` makes another socket there.
    pub(super) fn take(
        &self,
        socket: &OwnedFd,
        kind: SocketType,
        address: IpAddr,
        asker: Asker,
        make: impl Fn(AddressFamily, SocketType) -> std::io::Result<OwnedFd>,
    ) -> Result<(), Errno> {
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for _ in 0..TRIES {
            taken.last = if (FIRST..LAST).contains(&taken.last) { taken.last + 1 } else { FIRST };
            let port = taken.last;
            let again = taken.all.contains_key(&(kind == SocketType::STREAM, port));
            if again && !is_free(kind, port, &make) {
                continue;
            }
            match bind(socket, &SocketAddr::from((address, port))) {
                Ok(()) => {
                    taken.all.insert((kind == SocketType::STREAM, port), Arc::new(asker));
                    return Ok(());
                }
                Err(Errno::ADDRINUSE) => {}
                Err(errno) => return Err(errno),
            }
        }
        Err(Errno::ADDRINUSE)
    }

    /// Gives the seat of a socket to another program, which asks by it now.
    pub(super) fn pass(&self, socket: impl AsFd, kind: SocketType, asker: Asker) {
        let local = rustix::net::getsockname(socket).ok().map(SocketAddr::try_from);
        let Some(Ok(local)) = local else { return };
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(seat) = taken.all.get_mut(&(kind == SocketType::STREAM, local.port())) {
            *seat = Arc::new(asker);
        }
    }

    /// The program that asks from a port.
    pub(super) fn of(&self, kind: SocketType, port: u16) -> Option<Arc<Asker>> {
        let taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        taken.all.get(&(kind == SocketType::STREAM, port)).cloned()
    }
}

/// Whether no socket of this kind has a port, at whichever address. The caller lets nobody take one meanwhile.
fn is_free(
    kind: SocketType,
    port: u16,
    make: impl Fn(AddressFamily, SocketType) -> std::io::Result<OwnedFd>,
) -> bool {
    // All addresses of both families, or of IPv4 where there is no IPv6.
    let (socket, all) = match make(AddressFamily::INET6, kind) {
        Ok(socket) if sockopt::set_ipv6_v6only(&socket, false).is_ok() => {
            (Ok(socket), IpAddr::V6(Ipv6Addr::UNSPECIFIED))
        }
        _ => (make(AddressFamily::INET, kind), Ipv4Addr::UNSPECIFIED.into()),
    };
    // Without SO_REUSEADDR bind(2) to all addresses fails while any socket has the port.
    socket.is_ok_and(|socket| bind(socket, &SocketAddr::from((all, port))).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn socket(family: AddressFamily, kind: SocketType) -> std::io::Result<OwnedFd> {
        Ok(rustix::net::socket(family, kind, None)?)
    }

    fn asker(path: &str) -> Asker {
        let own = i32::try_from(std::process::id()).unwrap();
        Asker::of(own, Program { path: path.into(), sha256: None })
    }

    fn port(socket: &OwnedFd) -> u16 {
        SocketAddr::try_from(rustix::net::getsockname(socket).unwrap()).unwrap().port()
    }

    /// After all ports were given once: a socket at another address does not get the port of a seat that is still
    /// taken.
    #[test]
    fn a_seat_at_another_address_is_another_one() {
        for kind in [SocketType::DGRAM, SocketType::STREAM] {
            let seats = Seats::default();
            // Where no other test has its own.
            seats.0.lock().unwrap().last = 20_000;
            let take = |path: &str, at: &str| {
                let socket = socket(AddressFamily::INET, kind).unwrap();
                seats.take(&socket, kind, at.parse().unwrap(), asker(path), self::socket).unwrap();
                socket
            };
            let first = take("/first", "127.0.0.1");
            seats.0.lock().unwrap().last = port(&first) - 1;
            let second = take("/second", "127.0.0.2");
            assert_ne!(port(&first), port(&second));
            let who = |socket| seats.of(kind, port(socket)).unwrap().who.program.path.clone();
            assert_eq!((who(&first), who(&second)), ("/first".into(), "/second".into()));
            let free = port(&first);
            drop(first);
            seats.0.lock().unwrap().last = free - 1;
            assert_eq!(port(&take("/third", "127.0.0.2")), free);
        }
    }

    #[test]
    fn each_socket_has_a_seat_of_its_own_which_may_be_passed_on() {
        let seats = Seats::default();
        let sockets: Vec<OwnedFd> = ["/a", "/b"]
            .map(|path| {
                let socket = socket(AddressFamily::INET, SocketType::DGRAM).unwrap();
                let here = Ipv4Addr::LOCALHOST.into();
                seats.take(&socket, SocketType::DGRAM, here, asker(path), self::socket).unwrap();
                socket
            })
            .into();
        let port = |at: usize| port(&sockets[at]);
        let who = |at: usize| {
            let asker = seats.of(SocketType::DGRAM, port(at)).unwrap();
            (asker.who.program.path.clone(), asker.state())
        };
        assert_eq!(who(0), ("/a".to_owned(), State::Waiting));
        assert_eq!(who(1), ("/b".to_owned(), State::Waiting));
        assert!((FIRST..=LAST).contains(&port(0)) && port(0) != port(1));
        seats.pass(&sockets[0], SocketType::DGRAM, asker("/c"));
        assert_eq!(who(0).0, "/c");
        assert!(seats.of(SocketType::STREAM, port(0)).is_none());
        let gone = Asker::of(i32::MAX, Program { path: String::new(), sha256: None });
        assert_eq!(gone.state(), State::Gone);
    }
}
