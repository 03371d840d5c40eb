//! Whether an interface exists, and its name, asked in the network namespace in which this was made.
//!
//! By number: another interface that got the number counts as the same. Uses only netdevice(7).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType};

/// A query to the network namespace in which it was made, whichever thread asks.
#[derive(Debug)]
pub(crate) struct Presence {
    socket: OwnedFd,
    ifindex: u32,
}

impl Presence {
    /// A query about an interface, existing or not, of the calling thread's network namespace.
    ///
    /// # Errors
    /// No descriptor or memory for a socket.
    pub(crate) fn of(ifindex: u32) -> io::Result<Presence> {
        // Sockets of any family answer netdevice(7); this one needs no right and no interface.
        let flags = SocketFlags::CLOEXEC;
        let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None)?;
        Ok(Presence { socket, ifindex })
    }

    /// The interface's name.
    ///
    /// # Errors
    /// The interface does not exist (ENODEV).
    pub(crate) fn name(&self) -> io::Result<String> {
        Ok(rustix::net::netdevice::index_to_name(&self.socket, self.ifindex)?)
    }

    /// Whether the interface exists; true if that cannot be found out.
    pub(crate) fn there(&self) -> bool {
        !self.name().is_err_and(|e| e.raw_os_error() == Some(libc::ENODEV))
    }

    /// The socket, for other queries of netdevice(7).
    pub(crate) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
