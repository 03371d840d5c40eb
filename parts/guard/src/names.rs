//! Names of destinations: those that a program looked up before it called an address, and which it may look up.
//!
//! A socket with which a program asks one of this machine's name servers is exchanged for one in a network
//! namespace apart, where this process stands at the server's own address and port ([`relay`]). So every resolver
//! works as ever, whichever library it is and however it checks where answers come from; queries and answers are
//! carried byte for byte, and each is seen before the other side has it: the asking program ([`seats`]), for a name that it may look
//! up, and what led where ([`book`]). Such a server is the `resolver` of policies. Servers that the
//! program asks elsewhere, or from another network, are left alone, and what they say names nothing. Names of /etc/hosts
//! count as well ([`hosts`]).
//!
//! Both files are those of the place where the program runs, when it starts; from its network servers are asked
//! ([`home`]). Where the namespace apart cannot be made nothing is exchanged, and there is no resolver.

mod book;
pub(crate) mod home;
mod hosts;
mod relay;
mod resolvers;
mod seats;
mod shared;
mod stream;

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::time::Instant;

use ipnet::IpNet;
use netloom_netlink::{Address as Assign, Batch, Change};
use netloom_policy::{Direction, Port, Program, Protocol, Target};
use netloom_sys::Failure;
use netloom_sys::isolated_netns::{IsolatedNetns, network_of};
use netloom_sys::seccomp::{Call, Caller, Listener};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketType, sockopt};

use crate::address::Address;
use crate::calls::{Kind, kind};
use crate::judge::Judge;
use crate::prepare::{Act, Outgoing, Place, Prepared, Want};
use crate::socket::Socket;
use home::{Files, Home, family};
use hosts::Hosts;
use seats::Asker;
use shared::{Door, PORT, Shared};

/// The treatment of names.
#[derive(Debug)]
pub(crate) struct Names {
    hosts: Hosts,
    servers: Vec<IpAddr>,
    home: Arc<Home>,
    /// Made when a name server is asked for the first time; `None` where it cannot be made.
    stub: OnceLock<Option<Stub>>,
    /// Whether queries are carried: not yet, now, or no longer.
    phase: Mutex<Phase>,
    changed: Condvar,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    #[default]
    Unused,
    Used,
    Ended,
}

impl Names {
    /// By the files and the network of the place where the program runs.
    pub(crate) fn of(files: &Files, home: Home) -> Names {
        Names {
            hosts: Hosts::parse(&files.hosts),
            servers: resolvers::servers(&files.resolv),
            home: Arc::new(home),
            stub: OnceLock::new(),
            phase: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    /// Carries what programs ask as `judge` allows, from the first time until the [end](Names::end).
    pub(crate) fn attend(&self, judge: &dyn Judge) {
        let phase = self.phase.lock().unwrap_or_else(PoisonError::into_inner);
        let waits = |phase: &mut Phase| *phase == Phase::Unused;
        drop(self.changed.wait_while(phase, waits).unwrap_or_else(PoisonError::into_inner));
        if let Some(Some(stub)) = self.stub.get() {
            relay::run(&stub.doors, &stub.shared, judge);
        }
    }

    /// Nothing is carried any more.
    pub(crate) fn end(&self) {
        self.enter(Phase::Ended);
        if let Some(Some(stub)) = self.stub.get() {
            stub.shared.end();
        }
    }

    /// There is no way back.
    fn enter(&self, phase: Phase) {
        let mut now = self.phase.lock().unwrap_or_else(PoisonError::into_inner);
        if *now < phase {
            *now = phase;
            self.changed.notify_all();
        }
    }

    /// The namespace apart.
    fn stub(&self) -> Option<&Stub> {
        let stub = self.stub.get_or_init(|| Stub::start(&self.servers, &self.home).ok());
        self.enter(Phase::Used);
        stub.as_ref()
    }

    /// Adds to a target the names that led to it: those that `program` looked up before others, and those of the file of
    /// hosts last.
    pub(crate) fn add_to(
        &self,
        target: &mut Target,
        direction: Direction,
        program: &str,
        judge: &dyn Judge,
    ) {
        let (Target::Ip { address, names, .. }, Direction::Out) = (target, direction) else {
            return;
        };
        if let Some(Some(stub)) = self.stub.get() {
            let book = stub.shared.book.lock().unwrap_or_else(PoisonError::into_inner);
            *names = book.of(*address, program, Instant::now(), judge);
        }
        for name in self.hosts.of(*address) {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        book::tell(names, String::as_str, judge);
    }

    /// Marks the destinations that are the resolver: those whose socket [`Names::lead`] can exchange.
    pub(crate) fn tell_resolver(&self, act: &Act, wants: &mut [Want], call: &Call) {
        let fd = match act {
            Act::Connect { fd, .. } | Act::Send { fd, .. } | Act::SendMany { fd, .. } => fd,
            _ => return,
        };
        for want in wants {
            let Target::Ip { address, port: Port::Named(port), resolver, .. } = &mut want.target
            else {
                continue;
            };
            let leads = want.direction == Direction::Out
                && matches!(want.protocol, Protocol::Tcp | Protocol::Udp)
                && *port == u32::from(PORT)
                && self.servers.contains(address)
                && can_be_replaced(call);
            let stub = leads.then(|| self.stub()).flatten();
            *resolver = stub.is_some_and(|stub| stub.serves(fd.as_fd(), *address));
        }
    }

    /// The call as it is to be made: one that asks the resolver, on a socket apart, which also takes the place of the
    /// program's; any other on one that is not apart. Of messages to both kinds of places the first ones are left that go to
    /// one kind.
    ///
    /// # Errors
    /// It asks the resolver, and cannot be led there.
    pub(crate) fn lead(&self, act: Act, asked: &PendingCall<'_>) -> Prepared<Act> {
        Ok(match act {
            Act::Connect { fd, place, probe } => {
                let fd = self.exchange(fd, Some(&place), true, asked)?;
                Act::Connect { fd, place, probe }
            }
            Act::Send { fd, message, flags } => {
                let fd = self.exchange(fd, message.place.as_ref(), false, asked)?;
                Act::Send { fd, message, flags }
            }
            Act::SendMany { fd, mut messages, flags } => {
                let first = messages.first().and_then(|(message, _)| self.asks(message));
                let others = |(message, _): &(Outgoing, u64)| self.asks(message) != first;
                if let Some(other) = messages.iter().position(others) {
                    messages.truncate(other);
                }
                let place = messages.first().and_then(|(message, _)| message.place.as_ref());
                let fd = self.exchange(fd, place, false, asked)?;
                Act::SendMany { fd, messages, flags }
            }
            act => act,
        })
    }

    /// Whether a message goes to a name server; `None` if it goes where its socket does.
    fn asks(&self, message: &Outgoing) -> Option<bool> {
        let address = Address::read(message.place.as_ref()?.bytes());
        Some(matches!(address, Some(Address::Ip(address, port)) if self.is_server(address, port)))
    }

    fn is_server(&self, address: IpAddr, port: u16) -> bool {
        port == PORT && self.servers.contains(&address.to_canonical())
    }

    /// The socket for a destination: `fd`, or the one that has taken its place.
    fn exchange(
        &self,
        fd: OwnedFd,
        to: Option<&Place>,
        connects: bool,
        asked: &PendingCall<'_>,
    ) -> Prepared<OwnedFd> {
        let Some(Address::Ip(address, port)) = to.and_then(|to| Address::read(to.bytes())) else {
            return Ok(fd);
        };
        let is_server = self.is_server(address, port);
        // As long as nobody asked a server no socket is apart, so none has to be exchanged back.
        let stub = if is_server { self.stub() } else { self.stub.get().and_then(Option::as_ref) };
        let Some(stub) = stub else { return Ok(fd) };
        let to = SocketAddr::from((address, port));
        if !is_server {
            return Ok(match stub.home_of(fd.as_fd()) {
                Some(other) if asked.replace(&fd, &other) => other,
                _ => fd,
            });
        }
        if !can_be_replaced(asked.call) || !stub.serves(fd.as_fd(), address.to_canonical()) {
            return Ok(fd);
        }
        let asker = Asker::of(asked.caller.tid(), asked.program.clone());
        if stub.is_apart(fd.as_fd()) {
            let kind = sockopt::socket_type(&fd)?;
            stub.shared.seats.pass(&fd, kind, asker);
            return Ok(fd);
        }
        let other = stub.seat(fd.as_fd(), connects.then_some(to), asker)?;
        // It was allowed as one that asks there, and nowhere else.
        if asked.replace(&fd, &other) { Ok(other) } else { Err(Errno::ACCESS) }
    }
}

/// Whether the socket of a call can be exchanged: arguments that lie in memory may name another one by now.
fn can_be_replaced(call: &Call) -> bool {
    kind(call.machine, call.number) != Some(Kind::SocketCall)
}

/// A call that is being answered.
pub(crate) struct PendingCall<'c> {
    pub(crate) call: &'c Call,
    pub(crate) caller: &'c Caller,
    pub(crate) program: &'c Program,
    pub(crate) listener: &'c Listener,
}

impl PendingCall<'_> {
    /// Puts `other` in the place of the program's socket, with its ways of waiting.
    fn replace(&self, fd: &OwnedFd, other: &OwnedFd) -> bool {
        if !can_be_replaced(self.call) {
            return false;
        }
        #[expect(clippy::cast_possible_truncation, reason = "the kernel takes the lower half")]
        let number = (self.call.arguments[0] as u32).cast_signed();
        if alike(fd, other).is_err() {
            return false;
        }
        // `SECCOMP_IOCTL_NOTIF_ADDFD` sets the descriptor's flags by its own: FD_CLOEXEC is carried
        // over.
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
    apart: IsolatedNetns,
    /// The program's network.
    place: Arc<Home>,
    /// Networks by number: the program's, and the one apart.
    home: u64,
    away: u64,
    /// Addresses there: servers', and this machine's own from which servers are asked.
    assigned: Mutex<HashSet<IpAddr>>,
    shared: Arc<Shared>,
    doors: Vec<Door>,
}

impl Stub {
    fn start(servers: &[IpAddr], place: &Arc<Home>) -> Result<Stub, Failure> {
        let failed = |operation: &'static str| {
            move |error: std::io::Error| Failure::new("name servers", operation, error)
        };
        let apart =
            IsolatedNetns::start().map_err(|e| Failure::new("name servers", "stand in for", e))?;
        assign(&apart, servers)?;
        let doors: Vec<Door> = servers.iter().filter_map(|s| door(&apart, *s).ok()).collect();
        // A socket shows its network by `SO_NETNS_COOKIE`; one from each place gives the two to
        // compare.
        let here = place.socket(AddressFamily::INET, SocketType::DGRAM);
        let here = here.map_err(failed("make a socket for"))?;
        let network = |socket: BorrowedFd<'_>| {
            network_of(socket).map_err(|e| Failure::new("network", "tell", e))
        };
        let home = network(here.as_fd())?;
        let away = apart.socket(AddressFamily::INET, SocketType::DGRAM);
        let away = away.map_err(|e| Failure::new("name servers", "make a socket for", e))?;
        let away = network(away.as_fd())?;
        let shared =
            Shared::new(Arc::clone(place)).map_err(|e| Failure::new("name servers", "relay", e))?;
        let assigned = Mutex::new(doors.iter().map(|door| door.server).collect());
        let (shared, place) = (Arc::new(shared), Arc::clone(place));
        Ok(Stub { apart, place, home, away, assigned, shared, doors })
    }

    /// Whether a socket asks a server by this namespace, or can be made to.
    fn serves(&self, fd: BorrowedFd<'_>, server: IpAddr) -> bool {
        let leads = |socket: Socket| {
            socket.is_ip() && matches!(socket.protocol, Protocol::Tcp | Protocol::Udp)
        };
        let there = || network_of(fd).is_ok_and(|at| at == self.home || at == self.away);
        self.doors.iter().any(|door| door.server == server)
            && Socket::of(fd).is_ok_and(leads)
            && there()
    }

    fn is_apart(&self, fd: BorrowedFd<'_>) -> bool {
        network_of(fd).is_ok_and(|at| at == self.away)
    }

    /// A socket of the program's network for one that asked a server before, and is used for something else; `None` for one
    /// that did not.
    fn home_of(&self, fd: BorrowedFd<'_>) -> Option<OwnedFd> {
        let socket = Socket::of(fd).ok().filter(|socket| socket.is_ip())?;
        let leaves = self.is_apart(fd);
        leaves.then(|| self.place.socket(socket.family(fd).ok()?, socket.kind).ok())?
    }

    /// A socket apart for one of the program's, on which this program asks. One that is to be connected has the address that
    /// the program's own would have, which programs may look at.
    fn seat(
        &self,
        fd: BorrowedFd<'_>,
        connects: Option<SocketAddr>,
        asker: Asker,
    ) -> Prepared<OwnedFd> {
        let socket = Socket::of(fd)?;
        let family = socket.family(fd)?;
        let other = self.apart.socket(family, socket.kind).map_err(|_| Errno::ACCESS)?;
        let address = match connects {
            Some(to) => self.sender(family, to)?,
            None if family == AddressFamily::INET6 => Ipv6Addr::UNSPECIFIED.into(),
            None => Ipv4Addr::UNSPECIFIED.into(),
        };
        let make = |family, kind| self.apart.socket(family, kind).map_err(std::io::Error::other);
        self.shared.seats.take(&other, socket.kind, address, asker, make)?;
        Ok(other)
    }

    /// The address from which a connection to a server is made, which is there apart as well.
    fn sender(&self, family: AddressFamily, to: SocketAddr) -> Prepared<IpAddr> {
        let sender = sender(&self.place, family, to)?;
        let plain = sender.to_canonical();
        let mut assigned = self.assigned.lock().unwrap_or_else(PoisonError::into_inner);
        // bind(2) takes only addresses that are assigned where the socket lives.
        if !plain.is_loopback() && !assigned.contains(&plain) {
            assign(&self.apart, &[plain]).map_err(|_| Errno::ACCESS)?;
            assigned.insert(plain);
        }
        Ok(sender)
    }
}

/// From which of the place's addresses a socket of that family reaches `to`: nothing is sent to find out. The error is that of
/// the program's own call.
fn sender(place: &Home, family: AddressFamily, to: SocketAddr) -> Prepared<IpAddr> {
    let socket = place.socket(family, SocketType::DGRAM).map_err(|_| Errno::ACCESS)?;
    // On UDP it only looks up the route and chooses the sender.
    rustix::net::connect(&socket, &to)?;
    let sender = SocketAddr::try_from(rustix::net::getsockname(&socket)?);
    sender.map(|sender| sender.ip()).map_err(|_| Errno::ACCESS)
}

/// Raises the interface apart, and gives it addresses. Those of loopback are there already.
fn assign(apart: &IsolatedNetns, addresses: &[IpAddr]) -> Result<(), Failure> {
    let failed = |e: &dyn std::fmt::Display| Failure::new("name servers", "set up", e.to_string());
    let socket = apart.socket(AddressFamily::NETLINK, SocketType::RAW).map_err(|e| failed(&e))?;
    let mut batch = Batch::new();
    // A new namespace has `lo` down, and nothing is delivered by it then.
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
fn door(apart: &IsolatedNetns, server: IpAddr) -> Result<Door, Failure> {
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

    /// A judge whose rules say these names.
    struct Says(&'static [&'static str]);

    impl Judge for Says {
        fn known(&self, _: &netloom_policy::Request) -> Option<crate::Judgement> {
            None
        }

        fn decide(&self, _: &crate::Question<'_>) -> crate::Judgement {
            crate::Judgement::Allow
        }

        fn said(&self, name: &str) -> Option<crate::judge::Said> {
            let said = crate::judge::Said { by: name.to_owned(), kept: true };
            self.0.contains(&name).then_some(said)
        }
    }

    #[test]
    fn destinations_have_the_names_of_the_file_of_hosts() {
        let many: String = (0..99).map(|n| format!(" n{n}")).collect();
        let hosts = format!("192.0.2.7 Store store.example\n192.0.2.9{many}\n");
        let names = Names::of(&Files { hosts, ..Files::default() }, Home::default());
        let named = |direction, address: &str| {
            let mut target = Target::ip(direction, address.parse().unwrap(), 80, vec![]);
            names.add_to(&mut target, direction, "/bin/x", &Says(&["n77"]));
            let Target::Ip { names, .. } = target else { panic!("{target:?}") };
            names
        };
        assert_eq!(named(Direction::Out, "192.0.2.7"), ["store", "store.example"]);
        assert!(named(Direction::Out, "192.0.2.8").is_empty());
        assert!(named(Direction::In, "192.0.2.7").is_empty());
        let few = named(Direction::Out, "192.0.2.9");
        assert_eq!((few.len(), few.last().unwrap().as_str()), (book::MOST_NAMES + 1, "n77"));
    }

    #[test]
    fn a_socket_is_exchanged_where_it_asks_a_server_and_back() {
        let server: IpAddr = "127.0.0.77".parse().unwrap();
        netloom_kit::needs_namespaces!();
        let stub = Stub::start(&[server], &Arc::default()).unwrap();
        let own = UdpSocket::bind("127.0.0.1:0").unwrap();
        assert!(stub.home_of(own.as_fd()).is_none() && !stub.is_apart(own.as_fd()));
        assert!(stub.serves(own.as_fd(), server));
        assert!(!stub.serves(own.as_fd(), "127.0.0.78".parse().unwrap()));
        let asker = || Asker::of(1, Program { path: "/bin/x".into(), sha256: None });
        let apart = stub.seat(own.as_fd(), Some((server, PORT).into()), asker()).unwrap();
        assert_eq!(network_of(&apart).unwrap(), stub.away);
        let seen = SocketAddr::try_from(rustix::net::getsockname(&apart).unwrap()).unwrap();
        assert_eq!(seen.ip().to_string(), "127.0.0.1");
        let seat = stub.shared.seats.of(SocketType::DGRAM, seen.port()).unwrap();
        assert_eq!(seat.who.program.path, "/bin/x");
        assert!(stub.serves(apart.as_fd(), server) && stub.is_apart(apart.as_fd()));
        let back = stub.home_of(apart.as_fd()).unwrap();
        assert_eq!(network_of(&back).unwrap(), stub.home);
    }
}
