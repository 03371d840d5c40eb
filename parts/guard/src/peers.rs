//! Listeners that not everybody may reach: before a socket hears anybody, the kernel gets a filter of its peers.
//!
//! A socket of TCP gets its filter before it listens, since one that is bound and connects hears only its peer.
//! One of UDP gets it before it is bound. While binds and listens of a policy with peers take turns, a socket's address
//! stays what was judged, and a filter that is there stays ([`netloom_sys::admission`]).

use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use netloom_policy::Protocol;
use netloom_policy::pattern::Peers;
use netloom_sys::admission::admit;
use rustix::io::Errno;

use crate::prepare::Act;
use crate::socket::Socket;

/// Why nobody can be kept from a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unlimited {
    pub(crate) why: &'static str,
    pub(crate) errno: Errno,
}

/// The socket that a call binds, lets listen, or joins to a group.
pub(crate) fn socket_of(act: &Act) -> Option<&OwnedFd> {
    match act {
        Act::Bind { fd, .. } | Act::Listen { fd, .. } | Act::SetOption { fd, .. } => Some(fd),
        _ => None,
    }
}

/// Keeps all but `peers` from the socket of a call that was allowed.
///
/// # Errors
/// Why they cannot be kept from it; then the call must not be made.
pub(crate) fn limit(act: &Act, peers: &Peers) -> Result<(), Unlimited> {
    let Some(fd) = socket_of(act) else { return Ok(()) };
    let socket = Socket::of(fd.as_fd()).map_err(|errno| Unlimited { why: "no socket", errno })?;
    match (socket.protocol, act) {
        // It hears nobody before it listens.
        (Protocol::Tcp, Act::Bind { .. }) => return Ok(()),
        (Protocol::Tcp | Protocol::Udp, _) if socket.is_ip() => {}
        _ => {
            let why = "only sockets of tcp and udp can have `from`";
            return Err(Unlimited { why, errno: Errno::ACCESS });
        }
    }
    let nets: Vec<(IpAddr, u8)> =
        peers.nets().iter().map(|net| (net.addr(), net.prefix_len())).collect();
    admit(fd.as_fd(), &nets).map_err(|error| {
        let errno = error.raw_os_error().map_or(Errno::ACCESS, Errno::from_raw_os_error);
        let why = match errno {
            Errno::OPNOTSUPP => return NO_MPTCP,
            Errno::NOPROTOOPT => return ROOT_ONLY,
            Errno::PERM => "the socket has a locked filter that lets others through",
            Errno::ACCESS => "the socket has a filter that cannot be read",
            _ => "the kernel refuses a filter",
        };
        Unlimited { why, errno: Errno::ACCESS }
    })
}

const fn because(why: &'static str) -> Unlimited {
    Unlimited { why, errno: Errno::ACCESS }
}

pub(crate) const NO_MPTCP: Unlimited = because("the kernel filters no mptcp");
pub(crate) const ROOT_ONLY: Unlimited = because("this kernel lets only root filter sockets of tcp");
/// Of one whose connections are looked at.
pub(crate) const OTHERS: Unlimited = because("the socket has listened for others");
/// Of one that was to be handed to another process.
pub(crate) const KEPT: Unlimited = because("another process would accept from everybody");

/// Whether a socket is one of MPTCP, whose connections get more paths later.
pub(crate) fn is_mptcp(fd: BorrowedFd<'_>) -> bool {
    const MPTCP: u32 = 262;
    let protocol = rustix::net::sockopt::socket_protocol(fd).ok().flatten();
    protocol.is_some_and(|protocol| protocol.as_raw().get() == MPTCP)
}
