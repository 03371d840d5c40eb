//! Filters: which packets belong to a flow. The plain form, checked one by one, which tables must equal.
//!
//! A filter is a 5-tuple in which any field may be open and addresses may be prefixes. A
//! filter with ports matches no packet without ports (ICMP, later fragments); one with an address
//! matches only packets of that family; an entirely open one matches every IP packet. If
//! several match, [`Precedence`] decides. `tables` has the fast form.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use serde::Serialize;

use crate::Packet;

/// Which filter gets a packet that several match.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Precedence {
    /// The first one in the list.
    #[default]
    First,
    /// The one with the most specified bits (prefix lengths, 8 for the protocol, 16 for each port);
    /// among equals the first one.
    Longest,
}

/// Conditions on a packet; `None` matches anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub struct Filter {
    /// Its source.
    pub src_ip: Option<IpNet>,
    /// Its destination.
    pub dst_ip: Option<IpNet>,
    /// Its protocol: in IPv6 the one after the extension headers.
    pub proto: Option<u8>,
    /// Its source port.
    pub src_port: Option<u16>,
    /// Its destination port.
    pub dst_port: Option<u16>,
}

/// The fields of a packet that filters examine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// Source address.
    pub src_ip: IpAddr,
    /// Destination address, of the same family.
    pub dst_ip: IpAddr,
    /// Protocol.
    pub proto: u8,
    /// Source and destination port, if it has any.
    pub ports: Option<(u16, u16)>,
}

impl Key {
    /// The key of a packet.
    pub fn of(packet: &Packet<'_>) -> Key {
        let (src, dst) = packet.addresses();
        let address = |bytes: &[u8]| match (bytes.first_chunk::<16>(), bytes.first_chunk::<4>()) {
            (Some(sixteen), _) => IpAddr::V6(Ipv6Addr::from(*sixteen)),
            (None, Some(four)) => IpAddr::V4(Ipv4Addr::from(*four)),
            (None, None) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        };
        Key {
            src_ip: address(src),
            dst_ip: address(dst),
            proto: packet.protocol(),
            ports: packet.ports(),
        }
    }
}

impl Filter {
    /// Whether it matches.
    pub fn matches(&self, key: &Key) -> bool {
        let within = |net: Option<IpNet>, address| net.is_none_or(|net| net.contains(&address));
        let port = |port: Option<u16>, has: Option<u16>| port.is_none() || port == has;
        within(self.src_ip, key.src_ip)
            && within(self.dst_ip, key.dst_ip)
            && self.proto.is_none_or(|proto| proto == key.proto)
            && port(self.src_port, key.ports.map(|(src, _)| src))
            && port(self.dst_port, key.ports.map(|(_, dst)| dst))
    }

    /// Whether its addresses are of different families, so that it never matches.
    pub fn is_of_both_families(&self) -> bool {
        let v4 = |net: IpNet| matches!(net, IpNet::V4(_));
        self.src_ip.zip(self.dst_ip).is_some_and(|(src, dst)| v4(src) != v4(dst))
    }

    /// How many bits of a packet it specifies.
    pub fn bits_given(&self) -> u32 {
        let prefix = |net: Option<IpNet>| net.map_or(0, |net| u32::from(net.prefix_len()));
        prefix(self.src_ip)
            + prefix(self.dst_ip)
            + self.proto.map_or(0, |_| 8)
            + self.src_port.map_or(0, |_| 16)
            + self.dst_port.map_or(0, |_| 16)
    }
}

/// The index of the filter that gets this packet, by checking all of them.
pub fn find(filters: &[Filter], precedence: Precedence, key: &Key) -> Option<usize> {
    let matching = || filters.iter().enumerate().filter(|(_, filter)| filter.matches(key));
    let found = match precedence {
        Precedence::First => matching().next(),
        Precedence::Longest => {
            // Among equals `min_by_key` takes the first.
            matching().min_by_key(|(_, filter)| std::cmp::Reverse(filter.bits_given()))
        }
    };
    found.map(|(index, _)| index)
}
