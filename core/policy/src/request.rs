//! What a program asks for: who, in which direction, by which protocol, to which target.
//!
//! Disguised addresses are made plain here, once: [`Target::ip`] turns an IPv4-mapped address to IPv4, and the
//! unspecified address of an outgoing call to the loopback address, which is what Linux reaches by it. Port 0 of a
//! listener is not a port, but a request for one that the kernel chooses.
//!
//! A name that is looked up is a request of its own ([`Target::Name`]), apart from reaching the name server
//! ([`Target::Ip`], `resolver`) and from reaching what the name leads to.

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
    /// A raw IP socket; as a rule's, one of any protocol.
    Raw,
    /// A raw IP socket of this protocol's number (IANA, "Protocol Numbers").
    RawOf(u16),
    /// A packet socket: whole frames.
    Packet,
    /// A netlink socket.
    Netlink,
    /// A UNIX-domain socket.
    Unix,
    /// A socket to the hypervisor or between virtual machines.
    Vsock,
    /// No socket: a name that is looked up, whichever way the question goes.
    Dns,
    /// Bluetooth, CAN, and whatever else the kernel has.
    Other,
}

impl Protocol {
    /// All protocols, in the order of files; raw sockets of one protocol are left out.
    pub const ALL: [Protocol; 12] = [
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
        Protocol::Dns,
        Protocol::Other,
    ];

    /// The word of its kind; files and prompts have its whole text, [`fmt::Display`].
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Tcp => "tcp",
            Protocol::Udp => "udp",
            Protocol::Icmp => "icmp",
            Protocol::Sctp => "sctp",
            Protocol::Dccp => "dccp",
            Protocol::Raw | Protocol::RawOf(_) => "raw",
            Protocol::Packet => "packet",
            Protocol::Netlink => "netlink",
            Protocol::Unix => "unix",
            Protocol::Vsock => "vsock",
            Protocol::Dns => "dns",
            Protocol::Other => "other",
        }
    }

    /// The protocol of a text: a word, or a raw socket's as `raw:icmp` or `raw:89`.
    pub fn named(name: &str) -> Option<Protocol> {
        if let Some(of) = name.strip_prefix("raw:") {
            let known = IP_PROTOCOLS.iter().find(|(known, _)| *known == of);
            let digits = || -> Option<u16> {
                // `parse` alone takes a sign, too.
                of.bytes().all(|b| b.is_ascii_digit()).then(|| of.parse().ok())?
            };
            return known.map(|(_, number)| *number).or_else(digits).map(Protocol::RawOf);
        }
        Protocol::ALL.into_iter().find(|protocol| protocol.name() == name)
    }

    /// Whether every socket of `other` is one of this protocol.
    pub fn covers(self, other: Protocol) -> bool {
        self == other || (self == Protocol::Raw && matches!(other, Protocol::RawOf(_)))
    }

    /// Whether names lead to addresses of this protocol.
    pub(crate) fn has_names(self) -> bool {
        use Protocol as P;
        !matches!(self, P::Packet | P::Netlink | P::Unix | P::Vsock | P::Other)
    }

    /// Whether addresses of this protocol have ports.
    pub fn has_ports(self) -> bool {
        use Protocol as P;
        !matches!(self, P::Icmp | P::Raw | P::RawOf(_) | P::Packet | P::Netlink | P::Unix | P::Dns)
    }
}

/// Protocols over IP that raw sockets are often for, by their names in /etc/protocols.
const IP_PROTOCOLS: [(&str, u16); 15] = [
    ("icmp", 1),
    ("igmp", 2),
    ("ipip", 4),
    ("tcp", 6),
    ("udp", 17),
    ("gre", 47),
    ("esp", 50),
    ("ah", 51),
    ("icmpv6", 58),
    ("ospf", 89),
    ("pim", 103),
    ("vrrp", 112),
    ("l2tp", 115),
    ("sctp", 132),
    // Its owner writes the header, with any protocol in it.
    ("any", 255),
];

impl fmt::Display for Protocol {
    /// The text of files and prompts.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Protocol::RawOf(of) = self else { return f.write_str(self.name()) };
        match IP_PROTOCOLS.iter().find(|(_, number)| number == of) {
            Some((name, _)) => write!(f, "raw:{name}"),
            None => write!(f, "raw:{of}"),
        }
    }
}

/// A port, as a program asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Port {
    /// The protocol has none, as ICMP and raw sockets.
    None,
    /// The one that the program named.
    Named(u32),
    /// The one that the kernel chose for a listener; 0 if it is yet to choose.
    Free(u32),
}

impl Port {
    /// A port that a program asks for in `direction`.
    pub fn asked(direction: Direction, port: u16) -> Port {
        match (direction, port) {
            (Direction::In, 0) => Port::Free(0),
            (_, port) => Port::Named(port.into()),
        }
    }

    /// Its number, if it has one.
    pub fn number(self) -> Option<u32> {
        match self {
            Port::None => None,
            Port::Named(port) | Port::Free(port) => Some(port),
        }
    }
}

impl fmt::Display for Port {
    /// As it stands behind an address.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Port::None => Ok(()),
            Port::Named(port) => write!(f, ":{port}"),
            Port::Free(_) => f.write_str(":free"),
        }
    }
}

/// The asking program.
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
    /// An IP address and port.
    Ip {
        /// The address, without disguises.
        address: IpAddr,
        /// The port.
        port: Port,
        /// Names that lead to this address, in lower case, the one that the program asked for last first.
        names: Vec<String>,
        /// Whether it is the resolver: a name server of the place where the program runs, which is asked in a way that
        /// each question is seen.
        resolver: bool,
    },
    /// A name that is looked up, in lower case; empty for a question whose name no rule can say.
    Name(String),
    /// A UNIX-domain socket at an absolute path.
    Path(String),
    /// A UNIX-domain socket of no certain path: it was reached in other mounts, or has several names.
    Hidden,
    /// A UNIX-domain socket in the abstract name space; bytes that are not UTF-8 are escaped.
    Abstract(String),
    /// A context id and port of a virtual machine socket.
    Vsock {
        /// The context id.
        cid: u32,
        /// The port.
        port: Port,
    },
    /// No address: the socket itself.
    Socket,
}

impl Target {
    /// An IP target without disguises of the address.
    pub fn ip(direction: Direction, address: IpAddr, port: u16, names: Vec<String>) -> Target {
        let names = names.into_iter().map(|name| plain_name(&name)).collect();
        let port = Port::asked(direction, port);
        Target::Ip { address: plain_address(direction, address), port, names, resolver: false }
    }

    /// The same without a port, for protocols that have none.
    #[must_use]
    pub fn without_port(self) -> Target {
        match self {
            Target::Ip { address, names, resolver, .. } => {
                Target::Ip { address, port: Port::None, names, resolver }
            }
            other => other,
        }
    }

    /// The requested ports.
    pub fn port(&self) -> Port {
        match self {
            Target::Ip { port, .. } | Target::Vsock { port, .. } => *port,
            Target::Name(_)
            | Target::Path(_)
            | Target::Hidden
            | Target::Abstract(_)
            | Target::Socket => Port::None,
        }
    }

    /// The same where the kernel has chosen the port.
    pub fn set_free(&mut self) {
        if let Target::Ip { port, .. } | Target::Vsock { port, .. } = self
            && let Port::Named(number) = *port
        {
            *port = Port::Free(number);
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
    /// The asking program.
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
            Target::Ip { address, port, names, resolver } => {
                match names.first() {
                    _ if *resolver => f.write_str("resolver ")?,
                    Some(name) => write!(f, "{name} ")?,
                    None => {}
                }
                match (address, port) {
                    (IpAddr::V4(_), _) | (_, Port::None) => write!(f, "{address}{port}"),
                    (IpAddr::V6(address), _) => write!(f, "[{address}]{port}"),
                }
            }
            Target::Name(name) if name.is_empty() => f.write_str("a name that no rule can say"),
            Target::Name(name) => f.write_str(name),
            Target::Path(path) => write!(f, "unix:{path}"),
            Target::Hidden => f.write_str("a unix socket of no certain path"),
            Target::Abstract(name) => write!(f, "unix:@{name}"),
            Target::Vsock { cid, port } => write!(f, "vsock:{cid}{port}"),
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
        let raw = [0, 1, 58, 89, 253, 255, 262].map(Protocol::RawOf);
        for protocol in Protocol::ALL.into_iter().chain(raw) {
            assert_eq!(Protocol::named(&protocol.to_string()), Some(protocol));
        }
        assert_eq!(Protocol::named("raw:1").unwrap().to_string(), "raw:icmp");
        for wrong in ["", "raw:", "raw:nothing", "raw:-1", "raw:+1", "raw:65536", "tcp:6"] {
            assert_eq!(Protocol::named(wrong), None, "{wrong}");
        }
        assert!(Protocol::Raw.covers(Protocol::RawOf(1)));
        assert!(!Protocol::RawOf(1).covers(Protocol::Raw));
    }

    #[test]
    fn a_listener_at_port_0_asks_for_a_free_one() {
        let any = || Ipv4Addr::UNSPECIFIED.into();
        let mut free = Target::ip(Direction::In, any(), 0, vec![]);
        assert_eq!((free.port(), free.to_string().as_str()), (Port::Free(0), "0.0.0.0:free"));
        free.set_free();
        assert_eq!(free.port(), Port::Free(0));
        let mut chosen = Target::ip(Direction::In, any(), 4000, vec![]);
        chosen.set_free();
        assert_eq!((chosen.port(), chosen.to_string()), (Port::Free(4000), free.to_string()));
        let out = Target::ip(Direction::Out, Ipv6Addr::LOCALHOST.into(), 0, vec![]);
        assert_eq!((out.port(), out.to_string().as_str()), (Port::Named(0), "[::1]:0"));
        assert_eq!(out.without_port().to_string(), "::1");
    }
}
