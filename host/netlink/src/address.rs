//! Requests for a link's addresses and neighbours.
//!
//! Links are given by index in the socket's namespace. IPv6 addresses skip duplicate address
//! detection, so they are usable at once. Specification: rtnetlink(7).

use std::net::IpAddr;

use ipnet::IpNet;

use crate::batch::sealed::Encode;
use crate::batch::{Purpose, Request};
use crate::encode::Encoder;
use crate::uapi::*;

/// Adds an address to a link.
#[derive(Clone, Copy, Debug)]
pub struct Address {
    /// Interface index.
    pub link: u32,
    /// Address and prefix length.
    pub address: IpNet,
    /// Whether the same address may exist already (its flags are then renewed).
    pub replace: bool,
}

impl Address {
    /// A new address for the link with this index.
    #[must_use]
    pub fn new(link: u32, address: IpNet) -> Self {
        Self { link, address, replace: false }
    }
}

impl Encode for Address {
    fn encode(&self, bytes: &mut Vec<u8>) {
        let mode = if self.replace { REPLACE } else { EXCLUSIVE };
        Encoder::message(bytes, RTM_NEWADDR, REQUEST | CREATE | mode, |encoder| {
            encoder.fixed(&address_header(self.link, self.address));
            local(encoder, self.address.addr());
            match self.address {
                // 31 and 32 bits leave no address for a broadcast.
                IpNet::V4(net) if net.prefix_len() < 31 => {
                    encoder.attribute(IFA_BROADCAST, &net.broadcast().octets());
                }
                IpNet::V4(_) => {}
                IpNet::V6(_) => encoder.u32(IFA_FLAGS, IFA_F_NODAD),
            }
        });
    }
}

impl Request for Address {
    fn operation(&self) -> &'static str {
        "add"
    }
    fn purpose(&self) -> Purpose {
        Purpose::Create
    }
}

/// Removes an address from a link.
#[derive(Clone, Copy, Debug)]
pub struct DeleteAddress {
    /// Interface index.
    pub link: u32,
    /// Address and prefix length.
    pub address: IpNet,
}

impl Encode for DeleteAddress {
    fn encode(&self, bytes: &mut Vec<u8>) {
        Encoder::message(bytes, RTM_DELADDR, REQUEST, |encoder| {
            encoder.fixed(&address_header(self.link, self.address));
            local(encoder, self.address.addr());
        });
    }
}

impl Request for DeleteAddress {
    fn operation(&self) -> &'static str {
        "delete"
    }
    fn purpose(&self) -> Purpose {
        Purpose::Touch
    }
}

/// Adds a permanent neighbour entry to a link, replacing an existing one.
#[derive(Clone, Copy, Debug)]
pub struct Neighbour {
    /// Interface index.
    pub link: u32,
    /// The neighbour's address.
    pub address: IpAddr,
    /// The neighbour's hardware address.
    pub mac: [u8; 6],
}

impl Encode for Neighbour {
    fn encode(&self, bytes: &mut Vec<u8>) {
        Encoder::message(bytes, RTM_NEWNEIGH, REQUEST | CREATE | REPLACE, |encoder| {
            // struct ndmsg: family, 3 of padding, index, state, flags, type
            let mut header = [0; 12];
            header[0] = family(self.address);
            header[4..8].copy_from_slice(&self.link.to_ne_bytes());
            header[8..10].copy_from_slice(&NUD_PERMANENT.to_ne_bytes());
            encoder.fixed(&header);
            ip(encoder, NDA_DST, self.address);
            encoder.attribute(NDA_LLADDR, &self.mac);
        });
    }
}

impl Request for Neighbour {
    fn operation(&self) -> &'static str {
        "add"
    }
    fn purpose(&self) -> Purpose {
        Purpose::Create
    }
}

/// Deletes what a link knows of a neighbour, which is asked for again when something is sent to it.
#[derive(Clone, Copy, Debug)]
pub struct DeleteNeighbour {
    /// Interface index.
    pub link: u32,
    /// The neighbour's address.
    pub address: IpAddr,
}

impl Encode for DeleteNeighbour {
    fn encode(&self, bytes: &mut Vec<u8>) {
        Encoder::message(bytes, RTM_DELNEIGH, REQUEST, |encoder| {
            // struct ndmsg, as above.
            let mut header = [0; 12];
            header[0] = family(self.address);
            header[4..8].copy_from_slice(&self.link.to_ne_bytes());
            encoder.fixed(&header);
            ip(encoder, NDA_DST, self.address);
        });
    }
}

impl Request for DeleteNeighbour {
    fn operation(&self) -> &'static str {
        "delete"
    }
    fn purpose(&self) -> Purpose {
        Purpose::Touch
    }
}

/// `struct ifaddrmsg`: family, prefix length, flags, scope, index.
fn address_header(link: u32, address: IpNet) -> [u8; 8] {
    let mut header =
        [family(address.addr()), address.prefix_len(), 0, scope(address.addr()), 0, 0, 0, 0];
    header[4..8].copy_from_slice(&link.to_ne_bytes());
    header
}

/// For IPv6 the kernel derives the scope from the address and ignores this.
fn scope(address: IpAddr) -> u8 {
    if address.is_loopback() { RT_SCOPE_HOST } else { RT_SCOPE_UNIVERSE }
}

/// IPv4 removes by IFA_LOCAL and matches IFA_ADDRESS if given; IPv6 takes either.
fn local(encoder: &mut Encoder<'_>, address: IpAddr) {
    ip(encoder, IFA_LOCAL, address);
    ip(encoder, IFA_ADDRESS, address);
}

pub(crate) fn family(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => AF_INET,
        IpAddr::V6(_) => AF_INET6,
    }
}

pub(crate) fn ip(encoder: &mut Encoder<'_>, kind: u16, address: IpAddr) {
    match address {
        IpAddr::V4(address) => encoder.attribute(kind, &address.octets()),
        IpAddr::V6(address) => encoder.attribute(kind, &address.octets()),
    }
}
