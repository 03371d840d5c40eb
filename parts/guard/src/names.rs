//! Names of destinations: those that a program looked up before it called an address.
//!
//! A socket with which a program asks one of this machine's name servers is exchanged for one in a network
//! namespace apart, where this process stands at the server's own address and port ([`relay`]). So every resolver
//! works as ever, whichever library it is and however it checks where answers come from; queries and answers are
//! carried byte for byte; and each answer is seen before the program has it ([`book`]). Servers that the
//! program asks elsewhere, or from another network, are left alone, and what they say names nothing. Names of /etc/hosts
//! count as well ([`hosts`]).
//!
//! Both files are those of the place where the program runs, when it starts; from its network servers are asked
//! ([`home`]). Where the namespace apart cannot be made nothing is exchanged.

mod book;
pub(crate) mod home;
mod hosts;
mod relay;
mod resolvers;
mod shared;
mod stream;

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use ipnet::IpNet;
use netloom_netlink::{Address as Assign, Batch, Change};
use netloom_policy::{Direction, Protocol, Target};
use netloom_sys::Failure;
use netloom_sys::apart::{Apart, network_of};
use netloom_sys::seccomp::{Call, Caller, Listener};
use rustix::net::{AddressFamily, SocketType, sockopt};

use crate::address::Address;
use crate::calls::{Kind, kind};
use crate::prepare::{Act, Outgoing, Place};
use crate::socket::Socket;
use home::{Files, Home, family};
use hosts::Hosts;
use shared::{Door, PORT, Shared};

/// What is done about names.
#[derive(Debug)]
pub(crate) struct Names {
    hosts: Hosts,
    servers: Vec<IpAddr>,
    home: Arc<Home>,
    /// Made when a name server is asked for the first time; `None` where it cannot be made.
    stub: OnceLock<Option<Stub>>,
}

impl Names {
    /// By the files and the network of the place where the program runs.
    pub(crate) fn of(files: &Files, home: Home) -> Names {
        Names {
            hosts: Hosts::parse(&files.hosts),
            servers: resolvers::servers(&files.resolv),
            home: Arc::new(home),
            stub: OnceLock::new(),
        }
    }

    /// Adds to a target the names that led to it.
    pub(crate) fn add_to(&self, target: &mut Target, direction: Direction) {
        let (Target::Ip { address, names, .. }, Direction::Out) = (target, direction) else {
            return;
        };
        if let Some(Some(stub)) = self.stub.get() {
            let book = stub.shared.book.lock().unwrap_or_else(PoisonError::into_inner);
            *names = book.of(*address, Instant::now());
        }
        // What the program has looked up says more than what a file says of any address.
        if names.is_empty() {
            *names = self.hosts.of(*address).to_vec();
        }
    }

    /// The call as it is to be made: one that asks a name server, on a socket apart, which also takes the place of the
    /// program's; any other on one that is not apart.
    pub(crate) fn lead(&self, act: Act, asked: &Asked<'_>) -> Act {
        match act {
            Act::Connect { fd, place, probe } => {
                let fd = self.exchange(fd, Some(&place), true, asked);
                Act::Connect { fd, place, probe }
            }
            Act::Send { fd, message, flags } => {
                let fd = self.exchange(fd, message.place.as_ref(), false, asked);
                Act::Send { fd, message, flags }
            }
            Act::SendMany { fd, messages, flags } => {
                let place = |(message, _): &'_ (Outgoing, u64)| message.place.is_some();
                let first = messages.iter().find(|message| place(message));
                let first = first.and_then(|(message, _)| message.place.as_ref());
                let fd = self.exchange(fd, first, false, asked);
                Act::SendMany { fd, messages, flags }
            }
            act => act,
        }
    }

    /// The socket for a destination: `fd`, or the one that has taken its place.
    fn exchange(
        &self,
        fd: OwnedFd,
        to: Option<&Place>,
        connects: bool,
        asked: &Asked<'_>,
    ) -> OwnedFd {
        let Some(Address::Ip(address, port)) = to.and_then(|to| Address::read(to.bytes())) else {
            return fd;
        };
        let is_server = port == PORT && self.servers.contains(&address.to_canonical());
        let stub = match is_server {
            true => self.stub.get_or_init(|| Stub::start(&self.servers, &self.home).ok()),
            false => self.stub.get().unwrap_or(&None),
        };
        let to = SocketAddr::from((address, port));
        let other = stub.as_ref().and_then(|stub| stub.other(fd.as_fd(), to, is_server));
        if let (Some(stub), Some(other), true) = (stub, &other, connects && is_server)
            && stub.seem(other, to).is_err()
        {
            // The server cannot be reached, as the program's own call will find.
            return fd;
        }
        match other {
            Some(other) if asked.replace(&fd, &other) => other,
            _ => fd,
        }
    }
}

/// A call that is being answered.
pub(crate) struct Asked<'c> {
    pub(crate) call: &'c Call,
    pub(crate) caller: &'c Caller,
    pub(crate) listener: &'c Listener,
}

impl Asked<'_> {
    /// Puts `other` in the place of the program's socket, with its ways of waiting. Arguments that lie in memory may
    /// name another one by now.
    fn replace(&self, fd: &OwnedFd, other: &OwnedFd) -> bool {
        if kind(self.call.machine, self.call.number) == Some(Kind::SocketCall) {
            return false;
        }
        #[expect(clippy::cast_possible_truncation, reason = "the kernel takes the lower half")]
        let number = (self.call.arguments[0] as u32).cast_signed();
        if alike(fd, other).is_err() {
            return false;
        }
        let path = format!("/proc/{}/fdinfo/{number}", self.caller.tid());
        let closes = closes_on_exec(&std::fs::read_to_string(path).unwrap_or_default());
        self.listener.replace(self.call.id, other.as_fd(), number, closes).unwrap_or(false)
    }
}

/// Gives `other` the ways of waiting of `fd`.
fn alike(fd: &OwnedFd, other: &OwnedFd) -> rustix::io::Result<()> {
    rustix::fs::fcntl_setfl(other, rustix::fs::fcntl_getfl(fd)?)?;
    for wait in [sockopt::Timeout::Recv, sockopt::Timeout::Send] {
        sockopt::set_socket_timeout(other, wait, sockopt::socket_timeout(fd, wait)?)?;
    }
    Ok(())
}

/// By the flags in proc_pid_fdinfo(5), which are octal.
fn closes_on_exec(info: &str) -> bool {
    const CLOSE_ON_EXEC: u32 = 0o2_000_000;
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
    flags.is_some_and(|flags| flags & CLOSE_ON_EXEC != 0)
}

/// A namespace apart with the machine's name servers in it.
#[derive(Debug)]
struct Stub {
    apart: Apart,
    /// The program's network.
    place: Arc<Home>,
    /// Networks by number: the program's, and the one apart.
    home: u64,
    away: u64,
    /// Servers that have a door.
    servers: Vec<IpAddr>,
    /// Addresses there: servers', and this machine's own from which servers are asked.
    assigned: Mutex<HashSet<IpAddr>>,
    shared: Arc<Shared>,
    relay: Option<JoinHandle<()>>,
}

impl Drop for Stub {
    fn drop(&mut self) {
        self.shared.end();
        if let Some(relay) = self.relay.take() {
            // A relay that panicked has ended, too.
            let _ = relay.join();
        }
    }
}

impl Stub {
    fn start(servers: &[IpAddr], place: &Arc<Home>) -> Result<Stub, Failure> {
        let failed = |operation: &'static str| {
            move |error: std::io::Error| Failure::new("name servers", operation, error)
        };
        let apart = Apart::start().map_err(|e| Failure::new("name servers", "stand in for", e))?;
        assign(&apart, servers)?;
        let doors: Vec<Door> = servers.iter().filter_map(|s| door(&apart, *s).ok()).collect();
        let here = place.socket(AddressFamily::INET, SocketType::DGRAM);
        let here = here.map_err(failed("make a socket for"))?;
        let network = |socket: BorrowedFd<'_>| {
            network_of(socket).map_err(|e| Failure::new("network", "tell", e))
        };
        let home = network(here.as_fd())?;
        let away = apart.socket(AddressFamily::INET, SocketType::DGRAM);
        let away = away.map_err(|e| Failure::new("name servers", "make a socket for", e))?;
        let away = network(away.as_fd())?;
        let servers: Vec<IpAddr> = doors.iter().map(|door| door.server).collect();
        let shared =
            Shared::new(Arc::clone(place)).map_err(|e| Failure::new("name servers", "relay", e))?;
        let (shared, builder) = (Arc::new(shared), std::thread::Builder::new());
        let theirs = Arc::clone(&shared);
        let relay = builder.name("guard-names".into()).spawn(move || relay::run(&doors, &theirs));
        let relay = Some(relay.map_err(failed("start a thread for"))?);
        let assigned = Mutex::new(HashSet::from_iter(servers.clone()));
        let place = Arc::clone(place);
        Ok(Stub { apart, place, home, away, servers, assigned, shared, relay })
    }

    /// The socket that is to take the place of `fd` for a call to `to`; `None` if it is right as it is.
    fn other(&self, fd: BorrowedFd<'_>, to: SocketAddr, is_server: bool) -> Option<OwnedFd> {
        let socket = Socket::of(fd).ok().filter(|socket| socket.is_ip())?;
        let network = network_of(fd).ok()?;
        let leads = matches!(socket.protocol, Protocol::Tcp | Protocol::Udp);
        let family = socket.family(fd).ok()?;
        if is_server && network == self.home {
            let is_served = leads && self.servers.contains(&to.ip().to_canonical());
            let made = is_served.then(|| self.apart.socket(family, socket.kind))?;
            return made.ok();
        }
        // One that asked a server before is used for something else.
        let leaves = !is_server && network == self.away;
        let made = leaves.then(|| self.place.socket(family, socket.kind))?;
        made.ok()
    }

    /// Gives a socket apart the address that the program's own would have after connect(2), which programs may look at.
    fn seem(&self, other: &OwnedFd, to: SocketAddr) -> Result<(), Failure> {
        let failed =
            |errno: rustix::io::Errno| Failure::new("name server", "stand in before", errno);
        let family = sockopt::socket_domain(other).map_err(failed)?;
        let sender = sender(&self.place, family, to)?;
        let plain = sender.ip().to_canonical();
        {
            let mut assigned = self.assigned.lock().unwrap_or_else(PoisonError::into_inner);
            if !plain.is_loopback() && !assigned.contains(&plain) {
                assign(&self.apart, &[plain])?;
                assigned.insert(plain);
            }
        }
        rustix::net::bind(other, &sender).map_err(failed)
    }
}

/// From which of the place's addresses a socket of that family reaches `to`: nothing is sent to find out.
fn sender(place: &Home, family: AddressFamily, to: SocketAddr) -> Result<SocketAddr, Failure> {
    let failed = |errno: rustix::io::Errno| Failure::new("name server", "find a way to", errno);
    let socket = place.socket(family, SocketType::DGRAM);
    let socket = socket.map_err(|e| Failure::new("name server", "find a way to", e))?;
    rustix::net::connect(&socket, &to).map_err(failed)?;
    let sender = rustix::net::getsockname(&socket).map_err(failed)?;
    let mut sender = SocketAddr::try_from(sender).map_err(failed)?;
    sender.set_port(0);
    Ok(sender)
}

/// Raises the interface apart, and gives it addresses. Those of loopback are there already.
fn assign(apart: &Apart, addresses: &[IpAddr]) -> Result<(), Failure> {
    let failed = |e: &dyn std::fmt::Display| Failure::new("name servers", "set up", e.to_string());
    let socket = apart.socket(AddressFamily::NETLINK, SocketType::RAW).map_err(|e| failed(&e))?;
    let mut batch = Batch::new();
    batch.push("interface lo", &Change::of(LOOPBACK).up());
    for address in addresses.iter().filter(|address| !address.is_loopback()) {
        batch.push(
            format!("address {address}"),
            &Assign { replace: true, ..Assign::new(LOOPBACK, IpNet::from(*address)) },
        );
    }
    let mut socket = netloom_netlink::Socket::over(socket).map_err(|e| failed(&e))?;
    socket.run(&mut batch).map_err(|e| failed(&e))
}

/// `lo` in a new namespace.
const LOOPBACK: u32 = 1;

/// Connections that wait to be carried.
const BACKLOG: i32 = 64;

/// A server's place apart, at its own address.
fn door(apart: &Apart, server: IpAddr) -> Result<Door, Failure> {
    let failed =
        |e: &dyn std::fmt::Display| Failure::new("name server", "stand in for", e.to_string());
    let at = SocketAddr::from((server, PORT));
    let family = family(at);
    let bound = |kind| {
        let socket = apart.socket(family, kind).map_err(|e| failed(&e))?;
        rustix::net::bind(&socket, &at).map_err(|e| failed(&e))?;
        Ok(socket)
    };
    let datagrams = UdpSocket::from(bound(SocketType::DGRAM)?);
    datagrams.set_nonblocking(true).map_err(|e| failed(&e))?;
    let streams = bound(SocketType::STREAM)?;
    rustix::net::listen(&streams, BACKLOG).map_err(|e| failed(&e))?;
    let streams = TcpListener::from(streams);
    streams.set_nonblocking(true).map_err(|e| failed(&e))?;
    Ok(Door { server, datagrams, streams })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_of_a_descriptor_tell_whether_it_stays() {
        assert!(closes_on_exec("pos:\t0\nflags:\t02000002\nmnt_id:\t9\n"));
        assert!(!closes_on_exec("pos:\t0\nflags:\t04002\n"));
        assert!(!closes_on_exec(""));
    }

    #[test]
    fn destinations_have_the_names_of_the_file_of_hosts() {
        let hosts = "192.0.2.7 Store store.example\n".to_owned();
        let names = Names::of(&Files { hosts, ..Files::default() }, Home::default());
        let named = |direction, address: &str| {
            let mut target = Target::ip(direction, address.parse().unwrap(), 80, vec![]);
            names.add_to(&mut target, direction);
            let Target::Ip { names, .. } = target else { panic!("{target:?}") };
            names
        };
        assert_eq!(named(Direction::Out, "192.0.2.7"), ["store", "store.example"]);
        assert!(named(Direction::Out, "192.0.2.8").is_empty());
        assert!(named(Direction::In, "192.0.2.7").is_empty());
    }

    #[test]
    fn a_socket_is_exchanged_where_it_asks_a_server_and_back() {
        let server: IpAddr = "127.0.0.77".parse().unwrap();
        netloom_kit::needs_namespaces!();
        let stub = Stub::start(&[server], &Arc::default()).unwrap();
        let own = UdpSocket::bind("127.0.0.1:0").unwrap();
        let (server, elsewhere) = ((server, PORT).into(), "127.0.0.1:9".parse().unwrap());
        assert!(stub.other(own.as_fd(), elsewhere, false).is_none());
        let apart = stub.other(own.as_fd(), server, true).unwrap();
        assert_eq!(network_of(&apart).unwrap(), stub.away);
        stub.seem(&apart, server).unwrap();
        let seen = SocketAddr::try_from(rustix::net::getsockname(&apart).unwrap()).unwrap();
        assert_eq!(seen.ip().to_string(), "127.0.0.1");
        assert!(stub.other(apart.as_fd(), server, true).is_none());
        let back = stub.other(apart.as_fd(), elsewhere, false).unwrap();
        assert_eq!(network_of(&back).unwrap(), stub.home);
    }
}
