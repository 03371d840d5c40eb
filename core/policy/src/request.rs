//! What a program asks for: who, in which direction, by which protocol, to which target.
//!
//! Disguised addresses are made plain here, once: [`Target::ip`] turns an IPv4-mapped address to IPv4, and the
//! unspecified address of an outgoing call to the loopback address, which is what Linux reaches by it.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The direction of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// Connect, or send to an address.
    Out,
    /// Listen, bind to a port, or accept from an address.
    In,
    /// Open a socket that needs no address to do harm: raw, packet, netlink.
    Open,
}

impl Direction {
    /// All directions, in the order of files.
    pub const ALL: [Direction; 3] = [Direction::Out, Direction::In, Direction::Open];

    /// The word of files and prompts.
    pub fn name(self) -> &'static str {
        match self {
            Direction::Out => "out",
            Direction::In => "in",
            Direction::Open => "open",
        }
    }
}

/// The protocol of a socket, as far as policies tell them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Protocol {
    /// TCP, and MPTCP, which looks alike to the other side.
    Tcp,
    /// UDP and UDP-Lite.
    Udp,
    /// ICMP or ICMPv6 by a datagram socket (unprivileged ping).
    Icmp,
    /// SCTP.
    Sctp,
    /// DCCP.
    Dccp,
    /// A raw IP socket.
    Raw,
    /// A packet socket: whole frames.
    Packet,
    /// A netlink socket.
    Netlink,
    /// A UNIX-domain socket.
    Unix,
    /// A socket to the hypervisor or between virtual machines.
    Vsock,
    /// Bluetooth, CAN, and whatever else the kernel has.
    Other,
}

impl Protocol {
    /// All protocols, in the order of files.
    pub const ALL: [Protocol; 11] = [
        Protocol::Tcp,
        Protocol::Udp,
        Protocol::Icmp,
        Protocol::Sctp,
        Protocol::Dccp,
        Protocol::Raw,
        Protocol::Packet,
        Protocol::Netlink,
        Protocol::Unix,
        Protocol::Vsock,
        Protocol::Other,
    ];

    /// The word of files and prompts.
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Tcp => "tcp",
            Protocol::Udp => "udp",
            Protocol::Icmp => "icmp",
            Protocol::Sctp => "sctp",
            Protocol::Dccp => "dccp",
            Protocol::Raw => "raw",
            Protocol::Packet => "packet",
            Protocol::Netlink => "netlink",
            Protocol::Unix => "unix",
            Protocol::Vsock => "vsock",
            Protocol::Other => "other",
        }
    }

    /// The protocol of a word.
    pub fn named(name: &str) -> Option<Protocol> {
        Protocol::ALL.into_iter().find(|protocol| protocol.name() == name)
    }
}

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Program {
    /// The absolute path of the executable.
    pub path: String,
    /// The SHA-256 of its content; `None` if it could not be read.
    pub sha256: Option<[u8; 32]>,
}

/// What a request is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// An IP address and port (0: none, or any free one).
    Ip {
        /// The address, without disguises.
        address: IpAddr,
        /// The port.
        port: u16,
        /// Names that the program has looked up and that led to this address, in lower case.
        names: Vec<String>,
    },
    /// A UNIX-domain socket at an absolute path.
    Path(String),
    /// A UNIX-domain socket in the abstract name space; bytes that are no UTF-8 are escaped.
    Abstract(String),
    /// A context id and port of a virtual machine socket.
    Vsock {
        /// The context id.
        cid: u32,
        /// The port.
        port: u32,
    },
    /// No address: the socket itself.
    Socket,
}

impl Target {
    /// An IP target without disguises of the address.
    pub fn ip(direction: Direction, address: IpAddr, port: u16, names: Vec<String>) -> Target {
        let names = names.into_iter().map(|name| plain_name(&name)).collect();
        Target::Ip { address: plain_address(direction, address), port, names }
    }

    /// The port, if the target has one that rules can name.
    pub fn port(&self) -> Option<u32> {
        match self {
            Target::Ip { port, .. } => Some(u32::from(*port)),
            Target::Vsock { port, .. } => Some(*port),
            Target::Path(_) | Target::Abstract(_) | Target::Socket => None,
        }
    }
}

/// A name as it is compared: lower case, without the dot of the root.
pub fn plain_name(name: &str) -> String {
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}

fn plain_address(direction: Direction, address: IpAddr) -> IpAddr {
    let plain = address.to_canonical();
    match plain {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) if direction == Direction::Out => {
            Ipv4Addr::LOCALHOST.into()
        }
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) if direction == Direction::Out => {
            Ipv6Addr::LOCALHOST.into()
        }
        plain => plain,
    }
}

/// A program's request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Request {
    /// Who asks.
    pub program: Program,
    /// The direction.
    pub direction: Direction,
    /// The protocol of the socket.
    pub protocol: Protocol,
    /// What it is about.
    pub target: Target,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Ip { address, port, names } => {
                if let Some(name) = names.first() {
                    write!(f, "{name} ")?;
                }
                match address {
                    IpAddr::V4(address) => write!(f, "{address}:{port}"),
                    IpAddr::V6(address) => write!(f, "[{address}]:{port}"),
                }
            }
            Target::Path(path) => write!(f, "unix:{path}"),
            Target::Abstract(name) => write!(f, "unix:@{name}"),
            Target::Vsock { cid, port } => write!(f, "vsock:{cid}:{port}"),
            Target::Socket => f.write_str("a socket"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(direction: Direction, text: &str) -> String {
        Target::ip(direction, text.parse().unwrap(), 80, vec![]).to_string()
    }

    #[test]
    fn disguised_addresses_become_plain() {
        assert_eq!(address(Direction::Out, "::ffff:10.0.0.1"), "10.0.0.1:80");
        assert_eq!(address(Direction::Out, "0.0.0.0"), "127.0.0.1:80");
        assert_eq!(address(Direction::Out, "::"), "[::1]:80");
        assert_eq!(address(Direction::Out, "::ffff:0.0.0.0"), "127.0.0.1:80");
    }

    #[test]
    fn a_listener_on_all_addresses_is_not_one_on_loopback() {
        assert_eq!(address(Direction::In, "0.0.0.0"), "0.0.0.0:80");
        assert_eq!(address(Direction::In, "::"), "[::]:80");
    }

    #[test]
    fn names_are_compared_in_lower_case_without_the_root() {
        let target =
            Target::ip(Direction::Out, Ipv4Addr::LOCALHOST.into(), 1, vec!["Example.ORG.".into()]);
        assert_eq!(target.to_string(), "example.org 127.0.0.1:1");
    }

    #[test]
    fn words_name_protocols() {
        for protocol in Protocol::ALL {
            assert_eq!(Protocol::named(protocol.name()), Some(protocol));
        }
    }
}
