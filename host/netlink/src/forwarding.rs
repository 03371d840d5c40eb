//! What a namespace forwards by, as it changes: routes of all kinds, and neighbours, each as the kernel tells it.
//!
//! [`ForwardingWatch`] receives changes; [`Socket::forwarding_routes`] and [`Socket::neighbours`] ask for everything. The
//! kernel removes some routes without a word, when a link goes down or an address goes: such changes, and lost messages,
//! are reported as [`ForwardingChange::Unknown`], after which the caller asks again. Next hops that are objects of their own
//! come expanded, as the kernel sends them unless `net.ipv4.nexthop_compat_mode` is off.
//! Specification: rtnetlink(7), `linux/{rtnetlink,neighbour}.h`.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};

use ipnet::IpNet;
use netloom_sys::Failure;

use crate::batch::sealed::Encode;
use crate::batch::{Purpose, Request};
use crate::decode::{Message, attributes, messages, u8_at, u16_at, u32_at};
use crate::encode::Encoder;
use crate::error::{Error, Result, SOCKET};
use crate::query::{Family, dump_question, read_ip};
use crate::socket::Socket;
use crate::uapi::{
    AF_INET, AF_INET6, CREATE, NDA_DST, NDA_LLADDR, NUD_PERMANENT, REQUEST, RTA_DST, RTA_GATEWAY,
    RTA_MULTIPATH, RTA_OIF, RTA_PRIORITY, RTA_TABLE, RTM_DELNEIGH, RTM_DELROUTE, RTM_GETROUTE,
    RTM_NEWNEIGH, RTM_NEWROUTE,
};
use crate::watch::drain;

const RTM_GETNEIGH: u16 = 30;
const RTA_VIA: u16 = 18;
const RTM_F_CLONED: u32 = 0x200;
const NTF_USE: u8 = 1;
const NUD_INCOMPLETE: u16 = 0x01;
const NUD_STALE: u16 = 0x04;
const NUD_FAILED: u16 = 0x20;

/// Links, neighbours, addresses of IPv4, routes of IPv4, addresses of IPv6, routes of IPv6.
const GROUPS: [u32; 6] = [1, 3, 5, 7, 9, 11];

/// The table of local addresses.
pub const LOCAL_TABLE: u32 = 255;
/// The table of ordinary routes.
pub const MAIN_TABLE: u32 = 254;

const RECEIVE_BYTES: usize = 64 << 10;

/// A next hop of a route.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ForwardingHop {
    /// The gateway; `None` for a destination on the link.
    pub via: Option<IpAddr>,
    /// Index of the egress link; 0 without one.
    pub link: u32,
    /// Its share among several.
    pub weight: u16,
}

/// A route of any type and table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForwardingRoute {
    /// The destination.
    pub to: IpNet,
    /// The table.
    pub table: u32,
    /// Its type, `RTN_*`: 1 is an ordinary one.
    pub kind: u8,
    /// Who installed it, `RTPROT_*`.
    pub origin: u8,
    /// Preference, lower first.
    pub metric: u32,
    /// Next hops, in the kernel's order.
    pub hops: Vec<ForwardingHop>,
}

impl ForwardingRoute {
    /// Whether packets are forwarded by it.
    pub fn is_unicast(&self) -> bool {
        self.kind == 1
    }
}

/// A neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForwardingNeighbour {
    /// Index of the link.
    pub link: u32,
    /// Its address.
    pub address: IpAddr,
    /// Its hardware address, if that can be used.
    pub mac: Option<[u8; 6]>,
    /// Whether the kernel would forget it soon if nothing is sent to it.
    pub stale: bool,
    /// Whether somebody made it for good.
    pub permanent: bool,
}

/// A change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ForwardingChange {
    /// A route came; `replaces` one of its destination and metric.
    Route {
        /// The route.
        route: ForwardingRoute,
        /// Whether it takes the place of another.
        replaces: bool,
    },
    /// A route went.
    NoRoute(ForwardingRoute),
    /// A neighbour came or changed.
    Neighbour(ForwardingNeighbour),
    /// A neighbour went.
    NoNeighbour(ForwardingNeighbour),
    /// Something may have changed that was not told.
    Unknown,
}

/// Receives changes of the namespace in which it was opened.
#[derive(Debug)]
pub struct ForwardingWatch {
    socket: Socket,
    buffer: Vec<u8>,
}

impl ForwardingWatch {
    /// Watches the calling thread's network namespace from now on.
    ///
    /// # Errors
    /// [`Error::Failed`] if the system refuses it.
    pub fn open() -> Result<Self> {
        // With a large buffer: a hundred thousand routes may come at once.
        let socket = Socket::open()?;
        for group in GROUPS {
            socket
                .set_option(libc::NETLINK_ADD_MEMBERSHIP, group)
                .map_err(io::Error::from)
                .map_err(|e| failed("join the groups of routes", e))?;
        }
        Ok(Self { socket, buffer: vec![0; RECEIVE_BYTES] })
    }

    /// Hands over changes since the last call, of `most` datagrams; does not wait. Where some were lost it hands over
    /// [`ForwardingChange::Unknown`] and none of those that wait: they are older than what can be asked for then, and what
    /// undid them may be among the lost.
    ///
    /// # Errors
    /// [`Error::Failed`] if the socket cannot be read.
    pub fn receive(&mut self, most: usize, take: &mut dyn FnMut(ForwardingChange)) -> Result<()> {
        for _ in 0..most {
            let flags = rustix::net::RecvFlags::DONTWAIT;
            let buffer = &mut self.buffer[..];
            match rustix::net::recv(self.socket.as_fd(), buffer, flags).map_err(io::Error::from) {
                Ok((read, _)) => changes(&self.buffer[..read], take),
                Err(e) => match e.raw_os_error() {
                    Some(libc::EAGAIN) => return Ok(()),
                    Some(libc::EINTR) => {}
                    Some(libc::ENOBUFS) => {
                        take(ForwardingChange::Unknown);
                        // What still waits says less than the answers that the caller asks for now.
                        return self.discard();
                    }
                    _ => return Err(failed("receive", e)),
                },
            }
        }
        Ok(())
    }

    /// Drops what waits. Until nothing does, the kernel adds nothing: so it ends (`NETLINK_S_CONGESTED`).
    fn discard(&mut self) -> Result<()> {
        let receive = || {
            let flags = rustix::net::RecvFlags::DONTWAIT;
            Ok(rustix::net::recv(self.socket.as_fd(), &mut self.buffer[..], flags)?)
        };
        drain(receive, |_| ()).map(drop)
    }
}

/// Readable if changes are pending.
impl AsFd for ForwardingWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn failed(operation: &'static str, source: io::Error) -> Error {
    Failure::new(SOCKET, operation, source).into()
}

/// The changes of which a datagram tells.
pub fn changes(datagram: &[u8], take: &mut dyn FnMut(ForwardingChange)) {
    for message in messages(datagram) {
        let change = match message.kind {
            RTM_NEWROUTE => read_route(&message).map(|route| ForwardingChange::Route {
                route,
                replaces: message.flags & crate::uapi::REPLACE != 0,
            }),
            RTM_DELROUTE => read_route(&message).map(ForwardingChange::NoRoute),
            RTM_NEWNEIGH => read_neighbour(&message).map(ForwardingChange::Neighbour),
            RTM_DELNEIGH => read_neighbour(&message).map(ForwardingChange::NoNeighbour),
            // Links and addresses, with which the kernel removes routes without telling.
            _ => Some(ForwardingChange::Unknown),
        };
        if let Some(change) = change {
            take(change);
        }
    }
}

impl Socket {
    /// The routes of all tables in one family, of all types.
    ///
    /// # Errors
    /// As [`Socket::addresses`].
    pub fn forwarding_routes(&mut self, family: Family) -> Result<Vec<ForwardingRoute>> {
        let mut header = [0; 12];
        header[0] = family.number();
        let mut question = dump_question(RTM_GETROUTE, &header);
        self.dump(&mut question, "routes", |message| {
            (message.kind == RTM_NEWROUTE).then(|| read_route(message)).flatten()
        })
    }

    /// The neighbours of one family.
    ///
    /// # Errors
    /// As [`Socket::addresses`].
    pub fn neighbours(&mut self, family: Family) -> Result<Vec<ForwardingNeighbour>> {
        let mut header = [0; 12];
        header[0] = family.number();
        let mut question = dump_question(RTM_GETNEIGH, &header);
        self.dump(&mut question, "neighbours", |message| {
            (message.kind == RTM_NEWNEIGH).then(|| read_neighbour(message)).flatten()
        })
    }
}

/// Decodes `struct rtmsg` and its attributes; `None` for copies in caches and routes by source.
fn read_route(message: &Message<'_>) -> Option<ForwardingRoute> {
    let payload = message.payload;
    let family = u8_at(payload, 0)?;
    let length = u8_at(payload, 1)?;
    // Routes by source or by type of service match less than `to` says.
    let plain = u8_at(payload, 2)? == 0 && u8_at(payload, 3)? == 0;
    // Clones are entries of a cache, not of a table.
    if !plain || u32_at(payload, 8)? & RTM_F_CLONED != 0 {
        return None;
    }
    let any = match family {
        AF_INET => IpAddr::from([0; 4]),
        AF_INET6 => IpAddr::from([0; 16]),
        _ => return None,
    };
    let mut route = ForwardingRoute {
        to: IpNet::new(any, 0).ok()?,
        table: u8_at(payload, 4)?.into(),
        kind: u8_at(payload, 7)?,
        origin: u8_at(payload, 5)?,
        metric: 0,
        hops: vec![],
    };
    let mut to = any;
    let mut only = ForwardingHop { via: None, link: 0, weight: 1 };
    for (kind, value) in attributes(payload.get(12..)?) {
        match kind {
            RTA_DST => to = read_ip(family, value)?,
            // The header's byte cannot hold numbers above 255.
            RTA_TABLE => route.table = u32_at(value, 0)?,
            RTA_PRIORITY => route.metric = u32_at(value, 0)?,
            RTA_OIF => only.link = u32_at(value, 0)?,
            RTA_GATEWAY => only.via = read_ip(family, value),
            RTA_VIA => only.via = read_via(value),
            RTA_MULTIPATH => route.hops = read_hops(family, value),
            _ => {}
        }
    }
    route.to = IpNet::new(to, length).ok()?.trunc();
    if route.hops.is_empty() {
        route.hops.push(only);
    }
    Some(route)
}

/// `struct rtvia`: a family and an address of it.
fn read_via(value: &[u8]) -> Option<IpAddr> {
    let family = u8::try_from(u16_at(value, 0)?).ok()?;
    read_ip(family, value.get(2..)?)
}

/// A list of `struct rtnexthop`, each with attributes.
fn read_hops(family: u8, value: &[u8]) -> Vec<ForwardingHop> {
    let mut rest = value;
    let mut hops = Vec::new();
    while let (Some(length), Some(link)) = (u16_at(rest, 0), u32_at(rest, 4)) {
        let length = usize::from(length);
        let Some(inside) = rest.get(8..length) else { break };
        // `rtnh_hops` is the weight less one.
        let weight = u16::from(rest.get(3).copied().unwrap_or(0)) + 1;
        let mut hop = ForwardingHop { via: None, link, weight };
        for (kind, value) in attributes(inside) {
            match kind {
                RTA_GATEWAY => hop.via = read_ip(family, value),
                RTA_VIA => hop.via = read_via(value),
                _ => {}
            }
        }
        hops.push(hop);
        // Each begins at a multiple of four bytes (`RTNH_ALIGN`).
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    hops
}

/// Decodes `struct ndmsg` and its attributes.
fn read_neighbour(message: &Message<'_>) -> Option<ForwardingNeighbour> {
    let payload = message.payload;
    let family = u8_at(payload, 0)?;
    let state = u16_at(payload, 8)?;
    let (mut address, mut mac) = (None, None);
    for (kind, value) in attributes(payload.get(12..)?) {
        match kind {
            NDA_DST => address = read_ip(family, value),
            // Links that are not Ethernet have addresses of other lengths: those cannot be used here.
            NDA_LLADDR => mac = value.try_into().ok(),
            _ => {}
        }
    }
    // Without a state, or while it is asked for, an address has no card.
    let known = state != 0 && state & (NUD_INCOMPLETE | NUD_FAILED) == 0;
    Some(ForwardingNeighbour {
        link: u32_at(payload, 4)?,
        address: address?,
        mac: mac.filter(|_| known),
        stale: state == NUD_STALE,
        permanent: state & NUD_PERMANENT != 0,
    })
}

/// Has the kernel find or confirm a neighbour, as if a packet were sent to it.
#[derive(Clone, Copy, Debug)]
pub struct UseNeighbour {
    /// Interface index.
    pub link: u32,
    /// The neighbour's address.
    pub address: IpAddr,
}

impl Encode for UseNeighbour {
    fn encode(&self, bytes: &mut Vec<u8>) {
        Encoder::message(bytes, RTM_NEWNEIGH, REQUEST | CREATE, |encoder| {
            let mut header = [0; 12];
            header[0] = if self.address.is_ipv4() { AF_INET } else { AF_INET6 };
            header[4..8].copy_from_slice(&self.link.to_ne_bytes());
            header[10] = NTF_USE;
            encoder.fixed(&header);
            match self.address {
                IpAddr::V4(address) => encoder.attribute(NDA_DST, &address.octets()),
                IpAddr::V6(address) => encoder.attribute(NDA_DST, &address.octets()),
            }
        });
    }
}

impl Request for UseNeighbour {
    fn operation(&self) -> &'static str {
        "use"
    }
    fn purpose(&self) -> Purpose {
        Purpose::Touch
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u16, flags: u16, body: impl FnOnce(&mut Encoder<'_>)) -> Vec<u8> {
        let mut bytes = vec![];
        Encoder::message(&mut bytes, kind, flags, body);
        bytes
    }

    fn one(bytes: &[u8]) -> ForwardingChange {
        let mut all = vec![];
        changes(bytes, &mut |change| all.push(change));
        assert_eq!(all.len(), 1);
        all.remove(0)
    }

    #[test]
    fn a_route_with_several_hops_is_read() {
        let bytes = message(RTM_NEWROUTE, 0, |e| {
            e.fixed(&[AF_INET, 24, 0, 0, 254, 188, 0, 1, 0, 0, 0, 0]);
            e.attribute(RTA_DST, &[10, 1, 2, 0]);
            e.u32(RTA_PRIORITY, 20);
            let mut hops = vec![];
            for (link, weight, last) in [(3u32, 0u8, 1u8), (4, 2, 2)] {
                hops.extend(16u16.to_ne_bytes());
                hops.extend([0, weight]);
                hops.extend(link.to_ne_bytes());
                hops.extend(8u16.to_ne_bytes());
                hops.extend(RTA_GATEWAY.to_ne_bytes());
                hops.extend([10, 0, 0, last]);
            }
            e.attribute(RTA_MULTIPATH, &hops);
        });
        let ForwardingChange::Route { route, replaces: false } = one(&bytes) else { panic!() };
        assert_eq!(route.to.to_string(), "10.1.2.0/24");
        assert_eq!((route.table, route.origin, route.metric), (MAIN_TABLE, 188, 20));
        let hops: Vec<_> =
            route.hops.iter().map(|h| (h.via.unwrap().to_string(), h.link, h.weight)).collect();
        assert_eq!(hops, [("10.0.0.1".to_owned(), 3, 1), ("10.0.0.2".to_owned(), 4, 3)]);
    }

    #[test]
    fn a_neighbour_without_an_address_to_use_has_none() {
        for (state, usable) in
            [(2u16, true), (NUD_STALE, true), (NUD_FAILED, false), (NUD_INCOMPLETE, false)]
        {
            let bytes = message(RTM_NEWNEIGH, 0, |e| {
                let mut header = [0; 12];
                header[0] = AF_INET6;
                header[4] = 7;
                header[8..10].copy_from_slice(&state.to_ne_bytes());
                e.fixed(&header);
                e.attribute(NDA_DST, &[1; 16]);
                e.attribute(NDA_LLADDR, &[2; 6]);
            });
            let ForwardingChange::Neighbour(found) = one(&bytes) else { panic!() };
            assert_eq!((found.link, found.mac.is_some()), (7, usable), "{state}");
        }
    }

    #[test]
    fn what_is_cut_ends_the_walk() {
        let bytes =
            message(RTM_NEWROUTE, 0, |e| e.fixed(&[AF_INET, 24, 0, 0, 254, 1, 0, 1, 0, 0, 0, 0]));
        for end in 0..bytes.len() {
            changes(&bytes[..end], &mut |_| {});
        }
    }
}
