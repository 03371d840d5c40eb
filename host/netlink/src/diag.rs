//! Sockets of a network namespace: a list of TCP, UDP, raw and packet sockets, and a count of all.
//!
//! Everything concerns the calling thread's namespace. Lists come from the kernel's socket monitoring;
//! kinds that a kernel does not monitor (often raw sockets) come from the tables in proc, with the same
//! content. The process that holds a socket is not given, but its inode is, as in the links of
//! `/proc/PID/fd`. Specification: `sock_diag`(7), `linux/inet_diag.h`, `linux/packet_diag.h`, proc(5).

mod table;

use std::fmt;
use std::io::Read;
use std::net::{IpAddr, SocketAddr};

use netloom_sys::Failure;

use crate::decode::{Message, array_at, attributes, u8_at, u32_at};
use crate::encode::Encoder;
use crate::error::{Error, Result};
use crate::socket::Socket;
use crate::uapi::{AF_INET, AF_INET6, DUMP, REQUEST};

const BY_FAMILY: u16 = 20;
const AF_PACKET: u8 = 17;
const ALL_STATES: u32 = u32::MAX;
const PACKET_SHOW_INFO: u32 = 1;
const PACKET_INFO: u16 = 0;
/// `INET_DIAG_SKMEMINFO`, an attribute that is asked for by its bit.
const MEMORY: u16 = 7;
/// `INET_DIAG_SKV6ONLY`.
const V6ONLY: u16 = 11;

/// A socket's protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    /// TCP over IPv4 or IPv6.
    Tcp,
    /// UDP over IPv4 or IPv6.
    Udp,
    /// An IP protocol chosen by number.
    Raw,
    /// Whole frames of one interface or of all.
    Packet,
}

impl Protocol {
    fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Raw => "raw",
            Self::Packet => "packet",
        }
    }

    fn number(self) -> u8 {
        match self {
            Self::Tcp => 6,
            Self::Udp => 17,
            // By IPPROTO_RAW the kernel lists raw sockets of all protocols.
            Self::Raw | Self::Packet => 255,
        }
    }
}

/// State of a TCP socket (RFC 9293); others are [`State::Open`] or [`State::Established`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Not connected.
    Open,
    /// Listens for connections.
    Listen,
    /// Has a peer.
    Established,
    /// The connection is being opened.
    Opening,
    /// The connection is being closed, or is in its final wait.
    Closing,
}

impl State {
    fn from_kernel(number: u8) -> Self {
        // Numbers of the kernel's net/tcp_states.h; 12 is its own TCP_NEW_SYN_RECV.
        match number {
            1 => Self::Established,
            2 | 3 | 12 => Self::Opening,
            4..=6 | 8 | 9 | 11 => Self::Closing,
            10 => Self::Listen,
            // 7 is TCP_CLOSE, which sockets of UDP and raw ones are in, too, while they have no peer.
            _ => Self::Open,
        }
    }
}

/// One socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketInfo {
    /// Its protocol.
    pub protocol: Protocol,
    /// Its own address; `None` for packet sockets. A raw socket's port is its protocol number.
    pub local: Option<SocketAddr>,
    /// Its peer's address, if it has one.
    pub remote: Option<SocketAddr>,
    /// Its state.
    pub state: State,
    /// Index of the interface it is bound to.
    pub interface: Option<u32>,
    /// Its inode number; 0 if no process holds it any more.
    pub inode: u32,
    /// Of a listening socket: connections that wait to be accepted, and how many may; of others: bytes that wait to be read,
    /// and bytes on their way. `None` where the kernel does not tell.
    pub queue: Option<(u32, u32)>,
    /// A socket of IPv6 that takes no IPv4 (IPV6_V6ONLY), as far as the kernel tells.
    pub six_only: bool,
    /// Room for what is received. `None` where the kernel does not tell.
    pub room: Option<Room>,
}

/// Room for what a socket receives, as the kernel counts it: with what it needs to keep a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Bytes that are taken.
    pub used: u32,
    /// Most bytes.
    pub most: u32,
    /// Packets that were dropped, most for lack of room.
    pub dropped: u32,
}

impl fmt::Display for SocketInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.protocol.name())?;
        if let Some(local) = self.local {
            write!(f, " {local}")?;
        }
        if let Some(remote) = self.remote {
            write!(f, " to {remote}")?;
        }
        if let Some(interface) = self.interface {
            write!(f, " on interface {interface}")?;
        }
        match self.state {
            State::Open | State::Established => Ok(()),
            State::Listen => f.write_str(" (listens)"),
            State::Opening => f.write_str(" (opening)"),
            State::Closing => f.write_str(" (closing)"),
        }
    }
}

/// Number of sockets by protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// TCP.
    pub tcp: usize,
    /// UDP.
    pub udp: usize,
    /// Raw.
    pub raw: usize,
    /// Packet sockets.
    pub packet: usize,
}

impl Counts {
    /// Counts the sockets of a list.
    pub fn of(sockets: &[SocketInfo]) -> Self {
        let mut counts = Self::default();
        for socket in sockets {
            match socket.protocol {
                Protocol::Tcp => counts.tcp += 1,
                Protocol::Udp => counts.udp += 1,
                Protocol::Raw => counts.raw += 1,
                Protocol::Packet => counts.packet += 1,
            }
        }
        counts
    }
}

/// All TCP, UDP, raw and packet sockets of the calling thread's network namespace.
///
/// # Errors
/// [`Error::Refused`], [`Error::Failed`]; [`Error::Changing`] if a table changed
/// in every attempt.
pub fn sockets() -> Result<Vec<SocketInfo>> {
    let mut socket = Socket::open_diag()?;
    let mut found = Vec::new();
    for protocol in [Protocol::Tcp, Protocol::Udp, Protocol::Raw] {
        // The kernel lists one protocol of one family at a time.
        for family in [AF_INET, AF_INET6] {
            let mut question = inet_question(protocol, family);
            let listed = socket.dump(&mut question, "sockets", |m| read_inet(protocol, m));
            found.extend(match listed {
                Err(error) if unknown(&error) => table::read(protocol, family)?,
                listed => listed?,
            });
        }
    }
    match socket.dump(&mut packet_question(), "packet sockets", read_packet) {
        Err(error) if unknown(&error) => found.extend(table::read(Protocol::Packet, AF_PACKET)?),
        listed => found.extend(listed?),
    }
    Ok(found)
}

/// Number of sockets of any kind in the calling thread's network namespace, including UNIX and
/// netlink sockets. A netlink socket is counted a moment longer than it lives.
///
/// # Errors
/// [`Error::Failed`] if the kernel's count cannot be read.
pub fn in_use() -> Result<u64> {
    let path = "/proc/thread-self/net/sockstat";
    let fail = |source| Failure::path(path, "read", source);
    // It is in the first line; this is queried for a thousand nodes at once.
    let mut head = [0; 64];
    let length = std::fs::File::open(path).and_then(|mut f| f.read(&mut head)).map_err(fail)?;
    let text = String::from_utf8_lossy(head.get(..length).unwrap_or_default());
    let used = text.lines().find_map(|l| l.strip_prefix("sockets: used ")?.trim().parse().ok());
    used.ok_or_else(|| Error::Answer { object: path.to_owned(), operation: "count sockets" })
}

/// Whether the kernel does not monitor the requested kind.
fn unknown(error: &Error) -> bool {
    let missing = [libc::ENOENT, libc::EINVAL, libc::EOPNOTSUPP];
    error.refusals().first().is_some_and(|failure| missing.contains(&failure.errno))
}

/// `struct inet_diag_req_v2`: family, protocol, extensions, pad, states, an empty socket id.
fn inet_question(protocol: Protocol, family: u8) -> Vec<u8> {
    let mut fixed = [0; 56];
    fixed[0] = family;
    fixed[1] = protocol.number();
    fixed[2] = 1 << (MEMORY - 1);
    fixed[4..8].copy_from_slice(&ALL_STATES.to_ne_bytes());
    question(&fixed)
}

/// `struct packet_diag_req`: family, protocol, pad, inode, what to show, cookie.
fn packet_question() -> Vec<u8> {
    let mut fixed = [0; 20];
    fixed[0] = AF_PACKET;
    fixed[8..12].copy_from_slice(&PACKET_SHOW_INFO.to_ne_bytes());
    question(&fixed)
}

fn question(fixed: &[u8]) -> Vec<u8> {
    let mut question = Vec::with_capacity(80);
    Encoder::message(&mut question, BY_FAMILY, REQUEST | DUMP, |encoder| encoder.fixed(fixed));
    question
}

/// Decodes `struct inet_diag_msg`: family, state, timer, retransmissions, the socket id (ports and
/// addresses in network order, interface, cookie), expiry, queues, user, inode.
fn read_inet(protocol: Protocol, message: &Message<'_>) -> Option<SocketInfo> {
    if message.kind != BY_FAMILY {
        return None;
    }
    let family = u8_at(message.payload, 0)?;
    let port = |offset| array_at(message.payload, offset).map(u16::from_be_bytes);
    let address = |offset| match family {
        AF_INET => array_at::<4>(message.payload, offset).map(IpAddr::from),
        AF_INET6 => array_at::<16>(message.payload, offset).map(IpAddr::from),
        _ => None,
    };
    let local = SocketAddr::new(address(8)?, port(4)?);
    let remote = SocketAddr::new(address(24)?, port(6)?);
    Some(SocketInfo {
        protocol,
        local: Some(local),
        remote: Some(remote).filter(peers),
        state: State::from_kernel(u8_at(message.payload, 1)?),
        interface: u32_at(message.payload, 40).filter(|index| *index != 0),
        inode: u32_at(message.payload, 68)?,
        queue: u32_at(message.payload, 56).zip(u32_at(message.payload, 60)),
        six_only: message.payload.get(72..).is_some_and(six_only),
        room: message.payload.get(72..).and_then(room),
    })
}

/// `INET_DIAG_SKV6ONLY`, which the kernel tells unasked of sockets without a peer.
fn six_only(list: &[u8]) -> bool {
    attributes(list).any(|(kind, value)| kind == V6ONLY && value.first() == Some(&1))
}

/// `SK_MEMINFO_*` of `linux/sock_diag.h`: what is taken is the first word, the most the second, drops the ninth.
fn room(list: &[u8]) -> Option<Room> {
    let (_, words) = attributes(list).find(|(kind, _)| *kind == MEMORY)?;
    Some(Room { used: u32_at(words, 0)?, most: u32_at(words, 4)?, dropped: u32_at(words, 32)? })
}

/// Whether a remote address is set.
fn peers(remote: &SocketAddr) -> bool {
    remote.port() != 0 || !remote.ip().is_unspecified()
}

/// Decodes `struct packet_diag_msg`: family, type, protocol, inode, cookie.
fn read_packet(message: &Message<'_>) -> Option<SocketInfo> {
    if message.kind != BY_FAMILY || u8_at(message.payload, 0)? != AF_PACKET {
        return None;
    }
    let mut info = attributes(message.payload.get(16..)?);
    let index = info.find(|(kind, _)| *kind == PACKET_INFO).and_then(|(_, v)| u32_at(v, 0));
    Some(packet(index.unwrap_or(0), u32_at(message.payload, 4)?))
}

fn packet(interface: u32, inode: u32) -> SocketInfo {
    SocketInfo {
        protocol: Protocol::Packet,
        local: None,
        remote: None,
        state: State::Open,
        interface: Some(interface).filter(|index| *index != 0),
        inode,
        queue: None,
        six_only: false,
        room: None,
    }
}

#[cfg(test)]
mod tests;
