//! Flows of packets, and the keys under which an index finds them.
//!
//! A key is a 32-bit hash: different things may share one, so an index says where to look, never what is there.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use netloom_packet::hash;
use netloom_packet::headers::{Headers, TCP, UDP};

/// What an index finds packets by.
pub type Key = u32;

/// Addresses, protocol and ports of an IP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Flow {
    /// Where it comes from.
    pub from: IpAddr,
    /// Where it goes.
    pub to: IpAddr,
    /// Its protocol's number.
    pub protocol: u8,
    /// Source and target port of TCP and UDP; `None` for others and for later fragments.
    pub ports: Option<(u16, u16)>,
}

impl Flow {
    /// The flow of a frame that begins with its Ethernet header; `None` for anything but a readable IP packet.
    pub fn of(frame: &[u8]) -> Option<Flow> {
        Flow::read(frame, &Headers::parse(frame).ok()?)
    }

    /// As [`Flow::of`], of a frame whose headers were parsed before.
    pub(crate) fn read(frame: &[u8], headers: &Headers) -> Option<Flow> {
        let (at, ip) = (headers.network, headers.ip?);
        let (from, to) = if ip.v6 {
            let part = |from: usize| {
                frame.get(at + from..)?.first_chunk::<16>().map(|b| Ipv6Addr::from(*b).into())
            };
            (part(8)?, part(24)?)
        } else {
            let part = |from: usize| {
                frame.get(at + from..)?.first_chunk::<4>().map(|b| Ipv4Addr::from(*b).into())
            };
            (part(12)?, part(16)?)
        };
        let ports = (matches!(ip.protocol, TCP | UDP) && ip.payload.is_some())
            .then(|| frame.get(ip.transport..)?.first_chunk::<4>())
            .flatten()
            .map(|b| (u16::from_be_bytes([b[0], b[1]]), u16::from_be_bytes([b[2], b[3]])));
        Some(Flow { from, to, protocol: ip.protocol, ports })
    }

    /// Calls `put` with each key of a packet of this flow.
    pub fn keys(&self, mut put: impl FnMut(Key)) {
        put(node_key(self.from));
        put(node_key(self.to));
        put(pair_key(self.from, self.to));
        if let Some((one, other)) = self.ports {
            put(service_key(self.from, self.to, self.protocol, one));
            put(service_key(self.from, self.to, self.protocol, other));
        }
    }
}

/// The key of all packets seen at a link.
pub fn link_key(name: &str) -> Key {
    key(b"l", &[name.as_bytes()])
}

/// The key of all packets from or to an address.
pub fn node_key(address: IpAddr) -> Key {
    key(b"a", &[&octets(address)])
}

/// The key of all packets between two addresses, in either direction.
pub fn pair_key(one: IpAddr, other: IpAddr) -> Key {
    let (low, high) = (octets(one.min(other)), octets(one.max(other)));
    key(b"p", &[&low, &high])
}

/// The key of all packets between two addresses with this port at either end.
pub fn service_key(one: IpAddr, other: IpAddr, protocol: u8, port: u16) -> Key {
    let (low, high) = (octets(one.min(other)), octets(one.max(other)));
    key(b"s", &[&low, &high, &[protocol], &port.to_be_bytes()])
}

fn octets(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(four) => four.to_ipv6_mapped().octets(),
        IpAddr::V6(six) => six.octets(),
    }
}

fn key(kind: &[u8; 1], parts: &[&[u8]]) -> Key {
    let mut bytes = kind.to_vec();
    parts.iter().for_each(|part| bytes.extend_from_slice(part));
    let [a, b, c, d, ..] = hash(&bytes).to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
}
