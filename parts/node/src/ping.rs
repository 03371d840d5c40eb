//! Reachability: echo requests from every node to every other, from one to one ([`one_pair`]), or to
//! a few in rounds ([`Presence`]).
//!
//! Each node gets one raw ICMP socket, created inside its network namespace by a short-lived thread; a single
//! loop sends and reads on all sockets. Every pair gets at most [`ATTEMPTS`] requests within the timeout,
//! since its first packets may be lost during neighbour resolution. At most [`WINDOW`] requests are in
//! flight, so that queues of unresolved neighbours and socket buffers can hold them. Times are upper bounds:
//! they include the wait until the answer is read. Nothing is configured and no program runs in a node.
//! Specification: RFC 792, RFC 4443, icmp(7), raw(7).

mod packet;
mod pair;
mod presence;
mod rounds;

use std::net::IpAddr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use netloom_sys::{Failure, namespace};
use rustix::net::{AddressFamily, Protocol, SocketFlags, SocketType, ipproto};

use crate::Result;
use crate::error::failed;
pub use pair::{Pace, one_pair};
pub use presence::Presence;
use rounds::{End, Rounds};

/// Maximum number of requests for a pair.
pub const ATTEMPTS: u8 = 3;

/// Maximum number of requests in flight.
pub const WINDOW: usize = 256;

/// Version of the internet protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Version {
    /// From the number 4 or 6.
    pub fn from_number(number: u8) -> Option<Version> {
        match number {
            4 => Some(Version::V4),
            6 => Some(Version::V6),
            _ => None,
        }
    }

    fn has(self, address: IpAddr) -> bool {
        address.is_ipv4() == (self == Version::V4)
    }
}

/// A node that sends and receives requests.
#[derive(Clone, Copy, Debug)]
pub struct Prober<'a> {
    /// Its name, for errors.
    pub name: &'a str,
    /// Its network namespace.
    pub netns: BorrowedFd<'a>,
    /// Its address. Without one, or with one of the other version, the node takes no part.
    pub address: Option<IpAddr>,
}

/// A node that answers requests, and sends some if it is here.
#[derive(Clone, Copy, Debug)]
pub struct Peer<'a> {
    /// Its name, for errors.
    pub name: &'a str,
    /// Its network namespace; `None` on another machine.
    pub netns: Option<BorrowedFd<'a>>,
    /// Its address. Without one, or with one of the other version, the node takes no part.
    pub address: Option<IpAddr>,
}

/// Pings every node from every other: a row per sender, a column per receiver, round-trip times in
/// microseconds. A cell is `None` on the diagonal, if no answer came within `timeout` of the first request,
/// and if either node has no address of this version.
///
/// Takes one descriptor per node while it runs, and about 20 bytes per pair. Silent pairs cost [`ATTEMPTS`]
/// requests each, at up to 64,000 requests a second; a node without a route costs none. All namespaces share
/// the kernel's neighbour table limit (`gc_thresh3`, 1024 by default): beyond that many active neighbours,
/// requests are lost.
///
/// # Errors
/// A namespace cannot be entered or its socket cannot be created; the error names the node.
pub fn all_pairs(
    nodes: &[Prober<'_>],
    version: Version,
    timeout: Duration,
) -> Result<Vec<Vec<Option<u32>>>> {
    let peers = nodes.iter().map(|node| Peer {
        name: node.name,
        netns: Some(node.netns),
        address: node.address,
    });
    all_from_here(&peers.collect::<Vec<_>>(), version, timeout)
}

/// The same where some nodes are on other machines: these answer, and their rows are empty.
///
/// # Errors
/// As [`all_pairs`].
pub fn all_from_here(
    nodes: &[Peer<'_>],
    version: Version,
    timeout: Duration,
) -> Result<Vec<Vec<Option<u32>>>> {
    let here = nodes.iter().filter_map(|node| {
        Some(Prober { name: node.name, netns: node.netns?, address: node.address })
    });
    let mut sockets = open_sockets(&here.collect::<Vec<_>>(), version)?.into_iter();
    let mut ends = Vec::new();
    for (row, node) in nodes.iter().enumerate() {
        // One for each node that is here, whether or not it has an address.
        let socket = node.netns.and_then(|_| sockets.next().flatten());
        let address = node.address.filter(|address| version.has(*address));
        if let Some(address) = address {
            ends.push(End { row, name: node.name, address, socket });
        }
    }
    let mut table = vec![vec![None; nodes.len()]; nodes.len()];
    if ends.len() > 1 {
        Rounds::new(&ends, version, timeout)?.run(&mut table)?;
    }
    Ok(table)
}

/// A socket in each namespace that has an address of this version, in the order of `nodes`.
fn open_sockets(nodes: &[Prober<'_>], version: Version) -> Result<Vec<Option<OwnedFd>>> {
    let open = |node: &Prober<'_>| -> Result<Option<OwnedFd>> {
        if !node.address.is_some_and(|address| version.has(address)) {
            return Ok(None);
        }
        namespace::enter_network(node.netns)
            .and_then(|()| open_socket(version))
            .map(Some)
            .map_err(failed(node.name, "prepare to ping"))
    };
    let result = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("ping-sockets".into());
        let thread = thread.spawn_scoped(scope, || nodes.iter().map(open).collect());
        thread.map(std::thread::ScopedJoinHandle::join)
    });
    match result {
        Ok(Ok(sockets)) => sockets,
        Ok(Err(panic)) => std::panic::resume_unwind(panic),
        Err(e) => {
            let name = nodes.first().map_or("", |node| node.name);
            let refused = Failure::new("thread \"ping-sockets\"", "start", e);
            Err(failed(name, "prepare to ping")(refused))
        }
    }
}

fn open_socket(version: Version) -> netloom_sys::Result<OwnedFd> {
    let (family, protocol): (_, Protocol) = match version {
        Version::V4 => (AddressFamily::INET, ipproto::ICMP),
        Version::V6 => (AddressFamily::INET6, ipproto::ICMPV6),
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::socket_with(family, SocketType::RAW, flags, Some(protocol))
        .map_err(|e| Failure::new("ICMP socket", "open", e).into())
}
