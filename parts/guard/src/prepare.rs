//! From a notified call to what it would do: arguments copied, descriptor duplicated, request named.
//!
//! The judged call is the performed call: addresses are read once, and the socket is the duplicate. The
//! program may change its memory and its descriptors meanwhile; that has no effect.

mod kept;
mod message;
mod operation;
mod option;
pub(crate) mod place;

use std::os::fd::{AsFd, OwnedFd};

use netloom_policy::{Direction, Port, Protocol, Target};
use netloom_sys::seccomp::{Call, Caller, Machine, Sight};
use rustix::io::Errno;
use rustix::net::sockopt;

use crate::address::{Address, LONGEST};
use crate::calls::{Kind, hides_addresses, kind, makes_label, socket_call_kind};
use crate::layout::Width;
use crate::socket::{Socket, protocol};

pub(crate) use kept::Kept;
pub(crate) use message::gather;
pub(crate) use operation::{Accepting, Act, CLOSE_ON_EXEC, NONBLOCK, Operation, Outgoing, Want};
pub(crate) use place::Place;

/// A call's error, as the program sees it.
pub(crate) type Prepared<T> = Result<T, Errno>;

/// Reads a call.
///
/// # Errors
/// What the kernel would return for arguments that cannot be read.
pub(crate) fn prepare(caller: &Caller, call: &Call, sight: &Sight) -> Prepared<Operation> {
    let kind = kind(call.machine, call.number).ok_or(Errno::NOSYS)?;
    let machine = call.machine;
    if kind != Kind::SocketCall {
        let words = call.arguments;
        return Arguments { caller, sight, machine, words, copied: false }.deed(kind);
    }
    let kind =
        u32::try_from(call.arguments[0]).ok().and_then(socket_call_kind).ok_or(Errno::INVAL)?;
    let bytes = caller.bytes(call.arguments[1], 6 * 4).or_else(|_| {
        // The last call of a page: as many as this call has.
        caller.bytes(call.arguments[1], 4 * arguments_of(kind))
    });
    let bytes = bytes.map_err(|_| Errno::FAULT)?;
    let mut words = [0; 6];
    for (word, at) in words.iter_mut().zip((0..).step_by(4)) {
        *word = Width::Four.word(&bytes, at).unwrap_or(0);
    }
    Arguments { caller, sight, machine, words, copied: true }.deed(kind)
}

/// Arguments of socketcall(2)'s calls (net/socket.c, `nargs`).
fn arguments_of(kind: Kind) -> usize {
    match kind {
        Kind::Listen => 2,
        Kind::Socket | Kind::Connect | Kind::Bind | Kind::SendMessage | Kind::Accept => 3,
        Kind::SocketPair | Kind::SendMessages | Kind::Accept4 => 4,
        Kind::SetOption => 5,
        Kind::SendTo | Kind::SocketCall | Kind::Mounts | Kind::Tunnel => 6,
    }
}

/// A call's arguments: registers, or copied from memory.
struct Arguments<'c> {
    caller: &'c Caller,
    sight: &'c Sight,
    machine: Machine,
    words: [u64; 6],
    copied: bool,
}

/// Lower half of a register: what the kernel takes of an int.
#[expect(clippy::cast_possible_truncation, reason = "the kernel takes the lower half")]
fn low(word: u64) -> u32 {
    word as u32
}

fn int(word: u64) -> i32 {
    low(word).cast_signed()
}

impl Arguments<'_> {
    fn deed(&self, kind: Kind) -> Prepared<Operation> {
        match kind {
            Kind::Socket => self.socket(),
            Kind::SocketPair => self.socket_pair(),
            Kind::Connect => self.connect(),
            Kind::Bind => self.bind(),
            Kind::Listen => self.listen(),
            Kind::SendTo => self.send_to(),
            Kind::SendMessage => self.send_message(),
            Kind::SendMessages => self.send_messages(),
            Kind::SetOption => self.set_option(),
            Kind::Accept => self.accept(0),
            Kind::Accept4 => self.accept(int(self.words[3])),
            Kind::Mounts => Ok(Operation::quick(vec![], Act::Continue)),
            Kind::Tunnel => Ok(Operation::quick(vec![opened(Protocol::Packet)], Act::Continue)),
            Kind::SocketCall => Err(Errno::INVAL),
        }
    }

    fn fd(&self) -> Prepared<OwnedFd> {
        let got = self.caller.descriptor(int(self.words[0]));
        got.map_err(|error| Errno::from_raw_os_error(error.raw_os_error().unwrap_or(1)))
    }

    /// A duplicate of the socket, and what it is.
    fn known(&self) -> Prepared<(OwnedFd, Socket)> {
        let fd = self.fd()?;
        let socket = Socket::of(fd.as_fd())?;
        Ok((fd, socket))
    }

    /// The address at `at`, of `length` bytes as an int.
    fn address(&self, at: u64, length: u64) -> Prepared<Vec<u8>> {
        let length = usize::try_from(int(length)).map_err(|_| Errno::INVAL)?;
        match length {
            0 => Ok(vec![]),
            1..=LONGEST => self.caller.bytes(at, length).map_err(|_| Errno::FAULT),
            _ => Err(Errno::INVAL),
        }
    }

    fn place(&self, bytes: Vec<u8>, exists: bool) -> Prepared<Place> {
        Place::of(self.caller, self.sight, bytes, exists)
    }

    fn socket(&self) -> Prepared<Operation> {
        let [family, kind, number] = [0, 1, 2].map(|at| low(self.words[at]));
        let protocol = protocol(family, kind, number);
        let common = matches!(protocol, Protocol::Tcp | Protocol::Udp | Protocol::Unix)
            || (protocol == Protocol::Netlink && number == 0);
        let wants = if common { vec![] } else { vec![opened(protocol)] };
        if !self.copied {
            // Registers cannot change while the call waits, so the kernel makes the socket that was
            // judged.
            return Ok(Operation::quick(wants, Act::Continue));
        }
        // The supervisor's own socket must be no more than the caller's would be: of another network, or with rights
        // that the caller lacks.
        if !place::same_network(self.caller) || !(common || place::unprivileged()) {
            return Err(Errno::PERM);
        }
        Ok(Operation::quick(wants, Act::Create { family, kind, number }))
    }

    fn socket_pair(&self) -> Prepared<Operation> {
        let [family, kind, number] = [0, 1, 2].map(|at| low(self.words[at]));
        let protocol = protocol(family, kind, number);
        match (protocol, self.copied) {
            (protocol, false) => Ok(Operation::quick(vec![opened(protocol)], Act::Continue)),
            // Where the two numbers go is in memory that may change: a pair is connected to itself alone, and
            // whatever family the program makes of it has no address.
            (Protocol::Unix, true) => Ok(Operation::quick(vec![], Act::Continue)),
            (_, true) => Err(Errno::OPNOTSUPP),
        }
    }

    fn set_option(&self) -> Prepared<Operation> {
        let (fd, socket) = self.known()?;
        let [level, option, size] = [1, 2, 4].map(|at| int(self.words[at]));
        let size = usize::try_from(size).ok().filter(|size| *size <= option::MOST);
        let size = size.ok_or(Errno::INVAL)?;
        if hides_addresses(level, option) {
            return Err(Errno::OPNOTSUPP);
        }
        if makes_label(level, option) {
            let by_registers = Operation::quick(vec![opened(Protocol::Raw)], Act::Continue);
            return if self.copied { Err(Errno::OPNOTSUPP) } else { Ok(by_registers) };
        }
        let value = self.caller.bytes(self.words[3], size).map_err(|_| Errno::FAULT)?;
        let width = Width::of(self.machine);
        let value = option::translated(width, self.copied, level, option, value)?;
        let wants = option::wants(&fd, &socket, level, option, &value);
        Ok(Operation::quick(wants, Act::SetOption { fd, level, option, value }))
    }

    fn connect(&self) -> Prepared<Operation> {
        let (fd, socket) = self.known()?;
        let mut bytes = self.address(self.words[1], self.words[2])?;
        place::fill_in(&fd, &mut bytes, false);
        let place = self.place(bytes, true)?;
        let target = match Address::read(place.bytes()) {
            // It dissolves a connection, or fails; the kernel's end of netlink was decided about with the socket.
            None | Some(Address::Unspecified(_) | Address::Netlink { port: 0, groups: 0 }) => None,
            Some(address) => Some(place.target(&socket, Direction::Out, &address)),
        };
        let want = target.map(|target| want(Direction::Out, &socket, target));
        // The C library asks by a port of zero which address it would send from; nothing is sent.
        let is_probe =
            |want: &Want| socket.protocol == Protocol::Udp && want.target.port() == Port::Named(0);
        let probe = want.as_ref().is_some_and(is_probe);
        let wants: Vec<_> = want.into_iter().filter(|_| !probe).collect();
        // A listener on this machine takes a connection at once, or has a full queue.
        // The turn is given up only for what waits: passing it on wakes another thread each time.
        let near = wants.first().is_some_and(|want| is_loopback(&want.target));
        let waits = !socket.is_datagram() && !near;
        Ok(Operation { wants, act: Act::Connect { fd, place, probe }, waits })
    }

    fn bind(&self) -> Prepared<Operation> {
        let (fd, socket) = self.known()?;
        let place = self.place(self.address(self.words[1], self.words[2])?, false)?;
        let target = match Address::read(place.bytes()) {
            None | Some(Address::Unnamed | Address::Netlink { .. }) => None,
            // Where the family is missing, bind(2) of IPv4 takes it for its own.
            Some(Address::Unspecified(inet)) => {
                inet.map(|(address, port)| Target::ip(Direction::In, address.into(), port, vec![]))
            }
            Some(address) => Some(place.target(&socket, Direction::In, &address)),
        };
        // The kernel chooses a free port also for sockets that are not bound; listening on one is asked about then.
        let chosen = |target: &Target| {
            socket.is_ip() && matches!(target, Target::Ip { port: Port::Free(_) | Port::None, .. })
        };
        let wants = target.filter(|target| !chosen(target));
        let wants = wants.map(|target| want(Direction::In, &socket, target)).into_iter().collect();
        Ok(Operation::quick(wants, Act::Bind { fd, place }))
    }

    fn listen(&self) -> Prepared<Operation> {
        let (fd, socket) = self.known()?;
        let wants: Vec<Want> = listener(&fd, &socket).into_iter().collect();
        let port = wants.first().and_then(|want| want.target.port().number());
        let (port, backlog) = (port.and_then(|port| port.try_into().ok()), int(self.words[1]));
        Ok(Operation::quick(wants, Act::Listen { fd, backlog, port }))
    }

    fn accept(&self, flags: i32) -> Prepared<Operation> {
        let fd = self.fd()?;
        if flags & !(NONBLOCK | CLOSE_ON_EXEC) != 0 {
            return Err(Errno::INVAL);
        }
        let socket = Socket::of(fd.as_fd())?;
        let is_tcp = socket.protocol == Protocol::Tcp;
        let [address, length] = [1, 2].map(|at| self.words[at]);
        let accepting = Accepting { fd, is_tcp, flags, address, length };
        Ok(Operation::quick(vec![], Act::Accept(accepting)))
    }

    /// Flags of a message. A copy is sent without `MSG_ZEROCOPY`, of whose end the program would hear nothing: it
    /// gets the error by which the kernel tells that there is no room for that.
    fn flags(fd: &OwnedFd, word: u64) -> Prepared<i32> {
        const ZERO_COPY: i32 = 0x400_0000;
        let flags = int(word);
        if flags & ZERO_COPY == 0 {
            return Ok(flags);
        }
        if option::zero_copy(fd) { Err(Errno::NOBUFS) } else { Ok(flags & !ZERO_COPY) }
    }

    fn send_to(&self) -> Prepared<Operation> {
        let (fd, socket) = self.known()?;
        let flags = Self::flags(&fd, self.words[3])?;
        let mut bytes = self.address(self.words[4], self.words[5])?;
        place::fill_in(&fd, &mut bytes, true);
        let mut place = Some(self.place(bytes, true)?);
        let mut rest = vec![(self.words[1], self.words[2])];
        let data = gather(self.caller, &mut rest, !socket.is_stream())?;
        let wants = destination(&fd, &socket, &mut place, flags)?;
        let controls = message::Controls::signed(self.caller, &socket)?;
        let message = controls.outgoing(data, rest, place, &socket);
        Ok(Operation { wants, act: Act::Send { fd, message, flags }, waits: socket.has_readers() })
    }

    fn send_message(&self) -> Prepared<Operation> {
        let (fd, socket) = self.known()?;
        let flags = Self::flags(&fd, self.words[2])?;
        let (message, wants) = self.message(&fd, &socket, self.words[1], flags)?;
        Ok(Operation { wants, act: Act::Send { fd, message, flags }, waits: socket.has_readers() })
    }

    /// Most messages of one sendmmsg(2) (`UIO_MAXIOV`).
    const MOST_MESSAGES: u32 = 1024;
    /// Data of one sendmmsg(2) after which further messages are left to the next call.
    const ENOUGH: usize = 4 << 20;

    fn send_messages(&self) -> Prepared<Operation> {
        let (fd, socket) = self.known()?;
        let flags = Self::flags(&fd, self.words[3])?;
        let width = Width::of(self.machine);
        let count = low(self.words[2]).min(Self::MOST_MESSAGES);
        let (mut messages, mut wants, mut copied) = (vec![], vec![], 0);
        let step = width.many_header() as u64;
        for at in 0..u64::from(count) {
            let header = self.words[1].checked_add(at * step).ok_or(Errno::FAULT)?;
            match self.message(&fd, &socket, header, flags) {
                Ok((message, wanted)) => {
                    copied += message.message.data.len();
                    let of_this = |want| Want { message: messages.len(), ..want };
                    wants.extend(wanted.into_iter().map(of_this));
                    messages.push((message, header + width.header() as u64));
                }
                // Earlier messages are sent; the error is that of a later call.
                Err(_) if at > 0 => break,
                Err(error) => return Err(error),
            }
            if copied > Self::ENOUGH {
                break;
            }
        }
        // A thousand messages to one peer are one question.
        wants.dedup_by(|later, first| later.asks_as(first));
        Ok(Operation {
            wants,
            act: Act::SendMany { fd, messages, flags },
            waits: socket.has_readers(),
        })
    }

    /// A `struct msghdr` at `at`, and what it wants.
    fn message(
        &self,
        fd: &OwnedFd,
        socket: &Socket,
        at: u64,
        flags: i32,
    ) -> Prepared<(Outgoing, Vec<Want>)> {
        let width = Width::of(self.machine);
        let bytes = self.caller.bytes(at, width.header()).map_err(|_| Errno::FAULT)?;
        let header = width.read_header(&bytes).ok_or(Errno::FAULT)?;
        let mut place = match (header.name, header.name_length) {
            (0, _) | (_, 0) => None,
            (name, length) => {
                if length.cast_signed() < 0 {
                    return Err(Errno::INVAL);
                }
                // The kernel cuts a longer one here, unlike elsewhere.
                let length = u64::from(length).min(LONGEST as u64);
                let mut bytes = self.address(name, length)?;
                place::fill_in(fd, &mut bytes, true);
                Some(self.place(bytes, true)?)
            }
        };
        let mut rest = message::vectors(self.caller, width, &header)?;
        let data = gather(self.caller, &mut rest, !socket.is_stream())?;
        let controls = message::controls(self.caller, width, &header, socket)?;
        let mut wants = destination(fd, socket, &mut place, flags)?;
        if controls.widening {
            wants.push(opened(Protocol::Raw));
        }
        Ok((controls.outgoing(data, rest, place, socket), wants))
    }
}

/// What a socket wants that is to listen.
fn listener(fd: &OwnedFd, socket: &Socket) -> Option<Want> {
    place::bound(fd, socket).map(|target| want(Direction::In, socket, target))
}

/// What a socket wants that is to listen, as it is bound now.
pub(crate) fn listens_at(fd: &OwnedFd) -> Option<Want> {
    listener(fd, &Socket::of(fd.as_fd()).ok()?)
}

/// What sending to an address wants. An address that the kernel takes no notice of is left out of what is sent,
/// since whether it does may change until then.
fn destination(
    fd: &OwnedFd,
    socket: &Socket,
    place: &mut Option<Place>,
    flags: i32,
) -> Prepared<Vec<Want>> {
    // MSG_FASTOPEN makes sending connect (RFC 7413), so its address counts also for TCP.
    const FAST_OPEN: i32 = 0x2000_0000;
    let Some(read) = place.as_ref().and_then(|place| Address::read(place.bytes())) else {
        return Ok(vec![]);
    };
    match (socket.protocol, read) {
        (Protocol::Tcp, _) if flags & FAST_OPEN == 0 => *place = None,
        (Protocol::Udp, Address::Unspecified(_)) if socket.is_ip6(fd.as_fd())? => *place = None,
        // A connected one ignores or refuses it.
        (Protocol::Unix, _) if !socket.is_datagram() => {}
        (Protocol::Netlink, Address::Netlink { port: 0, groups: 0 }) => {}
        (_, address) => return sending(fd, socket, place.as_ref(), address),
    }
    Ok(vec![])
}

/// What sending to an address wants that the kernel takes notice of.
fn sending(
    fd: &OwnedFd,
    socket: &Socket,
    place: Option<&Place>,
    address: Address,
) -> Prepared<Vec<Want>> {
    let Some(place) = place else { return Ok(vec![]) };
    let target = match address {
        // Raw sockets of IPv6 take an address without a family for one of theirs.
        Address::Unspecified(_) if socket.is_ip6(fd.as_fd())? => {
            match crate::address::inet6(place.bytes()) {
                Some(own) => place.target(socket, Direction::Out, &own),
                None => return Ok(vec![]),
            }
        }
        Address::Unspecified(inet) => {
            let Some((address, port)) = inet.filter(|_| socket.is_ip()) else {
                return Ok(vec![]);
            };
            place::of_socket(socket, Target::ip(Direction::Out, address.into(), port, vec![]))
        }
        address => place.target(socket, Direction::Out, &address),
    };
    Ok(vec![want(Direction::Out, socket, target)])
}

fn is_loopback(target: &Target) -> bool {
    matches!(target, Target::Ip { address, .. } if address.is_loopback())
}

fn want(direction: Direction, socket: &Socket, target: Target) -> Want {
    Want { direction, protocol: socket.protocol, target, message: 0 }
}

fn opened(protocol: Protocol) -> Want {
    Want { direction: Direction::Open, protocol, target: Target::Socket, message: 0 }
}

/// A number that no other socket of this machine has (`SO_COOKIE`).
pub(crate) fn cookie(fd: &OwnedFd) -> Option<u64> {
    sockopt::socket_cookie(fd).ok()
}
