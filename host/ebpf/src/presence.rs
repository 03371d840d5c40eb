//! Whether an interface is there, and its name, asked in the network namespace in which this was made.
//!
//! By number: another interface that got the number is taken for it. Nothing is asked but netdevice(7).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType};

/// A question to the network namespace in which it was made, whichever thread asks it.
#[derive(Debug)]
pub(crate) struct Presence {
    socket: OwnedFd,
    ifindex: u32,
}

impl Presence {
    /// Of an interface of the calling thread's network namespace, there or not.
    ///
    /// # Errors
    /// There is no descriptor or memory for a socket.
    pub(crate) fn of(ifindex: u32) -> io::Result<Presence> {
        let flags = SocketFlags::CLOEXEC;
        let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None)?;
        Ok(Presence { socket, ifindex })
    }

    /// Its name.
    ///
    /// # Errors
    /// It is not there (ENODEV).
    pub(crate) fn name(&self) -> io::Result<String> {
        Ok(rustix::net::netdevice::index_to_name(&self.socket, self.ifindex)?)
    }

    /// Whether it is there; of one that cannot be asked about it is not known: true.
    pub(crate) fn there(&self) -> bool {
        !self.name().is_err_and(|e| e.raw_os_error() == Some(libc::ENODEV))
    }

    /// The socket, for other questions of netdevice(7).
    pub(crate) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
