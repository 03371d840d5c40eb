//! Changes in network namespaces: of addresses in many, received by one socket; of routes, or of links, in one.
//!
//! The socket of addresses also receives events of every namespace that has an id in its own
//! (`NETLINK_LISTEN_ALL_NSID`, Linux 4.2), so neither sockets nor entries in the kernel's one list
//! of listeners grow with the number of namespaces. It reports only whose addresses changed; the
//! caller queries the addresses, so a lost message costs no more than another query. An id keeps no
//! namespace alive. Specification: netlink(7), rtnetlink(7), `linux/net_namespace.h`.

use std::collections::BTreeSet;
use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use netloom_sys::Failure;
use rustix::net::RecvFlags;

use crate::batch::sealed::Encode;
use crate::batch::{Batch, Purpose, Request};
use crate::decode::{u16_at, u32_at};
use crate::encode::Encoder;
use crate::error::{Error, Result, SOCKET};
use crate::socket::Socket;
use crate::uapi::{HEADER, RTM_DELLINK, RTM_NEWLINK};

const RTM_NEWNSID: u16 = 88;
const NETNSA_NSID: u16 = 1;
const NETNSA_FD: u16 = 3;
const RTNLGRP_LINK: u32 = 1;
const RTNLGRP_IPV4_IFADDR: u32 = 5;
const RTNLGRP_IPV4_ROUTE: u32 = 7;
const RTNLGRP_IPV4_RULE: u32 = 8;
const RTNLGRP_IPV6_IFADDR: u32 = 9;
const RTNLGRP_IPV6_ROUTE: u32 = 11;
const RTNLGRP_IPV6_RULE: u32 = 19;
const RTNLGRP_NEXTHOP: u32 = 32;

/// Only the beginnings of messages are parsed, so they may be truncated.
const RECEIVE_BYTES: usize = 64;

/// The changes received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Changed {
    /// Addresses changed in the namespaces with these ids.
    In(BTreeSet<i32>),
    /// Messages were lost: addresses may have changed anywhere.
    Anywhere,
}

/// Receives address changes in the namespaces that were [added](AddressWatch::add).
#[derive(Debug)]
pub struct AddressWatch {
    listener: Socket,
    asker: Socket,
}

impl AddressWatch {
    /// Opens sockets in the calling thread's network namespace, best an empty one: it assigns the ids.
    ///
    /// # Errors
    /// [`Error::Failed`] if the system refuses one of their settings.
    pub fn open() -> Result<Self> {
        let listener = Socket::open_to_ask()?;
        let all = libc::NETLINK_LISTEN_ALL_NSID;
        listener.set_option(all, 1).map_err(io::Error::from).map_err(refused("listen"))?;
        for group in [RTNLGRP_IPV4_IFADDR, RTNLGRP_IPV6_IFADDR] {
            listener
                .set_option(libc::NETLINK_ADD_MEMBERSHIP, group)
                .map_err(io::Error::from)
                .map_err(refused("join the group of addresses"))?;
        }
        Ok(Self { listener, asker: Socket::open()? })
    }

    /// Receives changes in these namespaces from now on, each under its unique id.
    ///
    /// # Errors
    /// [`Error::Refused`] with every namespace that could not be added; the others are added.
    pub fn add<'f>(
        &mut self,
        namespaces: impl IntoIterator<Item = (i32, BorrowedFd<'f>)>,
    ) -> Result<()> {
        number(&mut self.asker, namespaces)
    }

    /// All changes since the last call; does not wait.
    ///
    /// # Errors
    /// [`Error::Failed`] if the socket cannot be read.
    pub fn changed(&mut self) -> Result<Changed> {
        let mut numbers = BTreeSet::new();
        // A message without an id is of the socket's own namespace, which nobody asked for.
        let lost = drain(|| receive(self.listener.as_fd()), |number| numbers.extend(number))?;
        Ok(if lost { Changed::Anywhere } else { Changed::In(numbers) })
    }
}

/// Readable if changes are pending.
impl AsFd for AddressWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

/// Groups of what routes depend on: links, addresses, rules, routes and next hops.
const ROUTING_GROUPS: [u32; 8] = [
    RTNLGRP_LINK,
    RTNLGRP_IPV4_IFADDR,
    RTNLGRP_IPV4_ROUTE,
    RTNLGRP_IPV4_RULE,
    RTNLGRP_IPV6_IFADDR,
    RTNLGRP_IPV6_ROUTE,
    RTNLGRP_IPV6_RULE,
    RTNLGRP_NEXTHOP,
];

/// Tells whether routes of one namespace may have changed. What changed is not told: ask again.
#[derive(Debug)]
pub struct RouteWatch(Socket);

impl RouteWatch {
    /// Watches the calling thread's network namespace from now on.
    ///
    /// # Errors
    /// [`Error::Failed`] if the system refuses it.
    pub fn open() -> Result<Self> {
        let socket = Socket::open_to_ask()?;
        for group in ROUTING_GROUPS {
            let joined = socket.set_option(libc::NETLINK_ADD_MEMBERSHIP, group);
            match joined.map_err(io::Error::from) {
                // A kernel without this group has none of its objects.
                Err(e) if e.raw_os_error() == Some(libc::EINVAL) => {}
                joined => joined.map_err(refused("join the groups of routes"))?,
            }
        }
        Ok(Self(socket))
    }

    /// Whether they may have changed since the last call; does not wait.
    ///
    /// # Errors
    /// [`Error::Failed`] if the socket cannot be read.
    pub fn changed(&mut self) -> Result<bool> {
        let mut changed = false;
        let lost = drain(|| receive(self.0.as_fd()), |_| changed = true)?;
        // Of what was lost, something may have been a route.
        Ok(changed || lost)
    }
}

/// The links that changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangedLinks {
    /// Those with these indices came, went or changed.
    These(BTreeSet<u32>),
    /// Messages were lost: any link may have changed.
    Any,
}

/// Tells which links of one namespace may have changed. What changed is not told: ask again.
#[derive(Debug)]
pub struct LinkWatch(Socket);

impl LinkWatch {
    /// Watches the calling thread's network namespace from now on.
    ///
    /// # Errors
    /// [`Error::Failed`] if the system refuses it.
    pub fn open() -> Result<Self> {
        // With a large buffer: a thousand links may change before they are looked at.
        let socket = Socket::open()?;
        socket
            .set_option(libc::NETLINK_ADD_MEMBERSHIP, RTNLGRP_LINK)
            .map_err(io::Error::from)
            .map_err(refused("join the group of links"))?;
        Ok(Self(socket))
    }

    /// Those that changed since the last call; does not wait.
    ///
    /// # Errors
    /// [`Error::Failed`] if the socket cannot be read.
    pub fn changed(&mut self) -> Result<ChangedLinks> {
        let mut links = BTreeSet::new();
        let mut unknown = false;
        let mut bytes = [0; RECEIVE_BYTES];
        let receive = || {
            // TRUNC returns the whole length, which tells whether more messages followed.
            let flags = RecvFlags::DONTWAIT | RecvFlags::TRUNC;
            let (read, length) = rustix::net::recv(self.0.as_fd(), &mut bytes, flags)?;
            Ok(changed_link(&bytes[..read], length))
        };
        let lost = drain(receive, |link| match link {
            Some(link) => drop(links.insert(link)),
            None => unknown = true,
        })?;
        Ok(if lost || unknown { ChangedLinks::Any } else { ChangedLinks::These(links) })
    }
}

/// The link that a datagram of `length` bytes tells of, which begins with `bytes`; `None` if it tells of something else, or
/// of more than one.
fn changed_link(bytes: &[u8], length: usize) -> Option<u32> {
    let of_links = matches!(u16_at(bytes, 4)?, RTM_NEWLINK | RTM_DELLINK);
    let first = usize::try_from(u32_at(bytes, 0)?).ok()?;
    // The index in `struct ifinfomsg`.
    let link = u32_at(bytes, HEADER + 4)?;
    (of_links && first.checked_next_multiple_of(4)? >= length).then_some(link)
}

/// Readable if changes are pending.
impl AsFd for LinkWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Receives messages until none is pending; returns whether some were lost.
pub(crate) fn drain<M>(
    mut receive: impl FnMut() -> io::Result<M>,
    mut take: impl FnMut(M),
) -> Result<bool> {
    let mut lost = false;
    loop {
        match receive() {
            Ok(message) => take(message),
            Err(e) => match e.raw_os_error() {
                Some(libc::EAGAIN) => return Ok(lost),
                Some(libc::EINTR) => {}
                // The receive buffer ran over.
                Some(libc::ENOBUFS) => lost = true,
                _ => return Err(refused("receive")(e)),
            },
        }
    }
}

fn refused(operation: &'static str) -> impl Fn(io::Error) -> Error {
    move |source| Failure::new(SOCKET, operation, source).into()
}

/// Receives one message; the id of its namespace, `None` for the socket's own.
fn receive(fd: BorrowedFd<'_>) -> io::Result<Option<i32>> {
    // Room for one id, aligned as control message headers must be.
    let mut control = [0_u64; 8];
    let mut bytes = [0_u8; RECEIVE_BYTES];
    let mut part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    // SAFETY: zeroes are a message header without name, data and control.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = mem::size_of_val(&control);
    // SAFETY: the header points to `part` and `control`, with their sizes, which live on this stack
    // until the call has returned; `part` points to `bytes` in the same way.
    let received = unsafe { libc::recvmsg(fd.as_raw_fd(), &raw mut message, libc::MSG_DONTWAIT) };
    if received < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has written `msg_controllen` bytes of whole control messages to `control`.
    let header = unsafe { libc::CMSG_FIRSTHDR(&raw const message) };
    // SAFETY: it points to a whole header within `control`, which is still live, or is null.
    let Some(header) = (unsafe { header.as_ref() }) else { return Ok(None) };
    if (header.cmsg_level, header.cmsg_type) != (libc::SOL_NETLINK, libc::NETLINK_LISTEN_ALL_NSID) {
        return Ok(None);
    }
    // SAFETY: the header is in `control`, and its data follows it.
    let data = unsafe { libc::CMSG_DATA(header) };
    // SAFETY: a message of this type carries an int, within `control`; it is read unaligned.
    Ok(Some(unsafe { data.cast::<libc::c_int>().read_unaligned() }))
}

/// Gives each namespace its unique id in the socket's own.
pub(crate) fn number<'f>(
    socket: &mut Socket,
    namespaces: impl IntoIterator<Item = (i32, BorrowedFd<'f>)>,
) -> Result<()> {
    let mut batch = Batch::new();
    for (number, space) in namespaces {
        let request = Number { number, space: space.as_raw_fd() };
        batch.push(format!("network namespace {number}"), &request);
    }
    socket.run(&mut batch)
}

/// Assigns a namespace an id in the socket's own.
#[derive(Clone, Copy, Debug)]
struct Number {
    number: i32,
    space: i32,
}

impl Encode for Number {
    fn encode(&self, bytes: &mut Vec<u8>) {
        let flags = crate::uapi::REQUEST;
        Encoder::message(bytes, RTM_NEWNSID, flags, |encoder| {
            // `struct rtgenmsg`, padded to four bytes.
            encoder.fixed(&[0; 4]);
            encoder.attribute(NETNSA_NSID, &self.number.to_ne_bytes());
            encoder.attribute(NETNSA_FD, &self.space.to_ne_bytes());
        });
    }
}

impl Request for Number {
    fn operation(&self) -> &'static str {
        "give it a number"
    }
    fn purpose(&self) -> Purpose {
        Purpose::Create
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message about link 7 of this type, which says that it has this many bytes.
    fn message(kind: u16, length: u32) -> Vec<u8> {
        let mut bytes = length.to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.resize(HEADER + 4, 0);
        bytes.extend(7_u32.to_ne_bytes());
        bytes.resize(RECEIVE_BYTES, 0);
        bytes
    }

    #[test]
    fn links_are_read_from_whole_messages_only() {
        for kind in [RTM_NEWLINK, RTM_DELLINK] {
            assert_eq!(changed_link(&message(kind, 1498), 1500), Some(7));
        }
        assert_eq!(changed_link(&message(RTM_NEWNSID, 1500), 1500), None, "another type");
        assert_eq!(changed_link(&message(RTM_NEWLINK, 700), 1500), None, "two messages");
        let message = message(RTM_NEWLINK, 32);
        for end in 0..HEADER + 8 {
            assert_eq!(changed_link(&message[..end], end), None, "cut at {end}");
        }
    }
}
