//! The bytes of a connection: a stream socket, plain or within TLS. Nothing here blocks.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, sockopt};

use crate::tls::Secure;

/// Bytes that the kernel holds for the other end, with its bookkeeping twice as much.
const SEND: usize = 64 * 1024;

/// A connected stream socket.
#[derive(Debug)]
pub enum Link {
    /// As it is.
    Plain(OwnedFd),
    /// Within TLS.
    Tls(Box<Secure>),
}

impl Link {
    /// Reads; 0 at the end.
    ///
    /// # Errors
    /// `WouldBlock` if nothing is there.
    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Link::Plain(fd) => receive(fd, buffer),
            Link::Tls(secure) => secure.read(buffer),
        }
    }

    /// Writes pieces, in order; returns how many bytes were taken, maybe of the first alone.
    ///
    /// # Errors
    /// `WouldBlock` if there is no room.
    pub fn write(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Link::Plain(fd) => send(fd, pieces),
            Link::Tls(secure) => secure.write(pieces.first().map_or(&[], |first| first)),
        }
    }

    /// Bounds what the kernel holds for the other end: packets are not to grow old there.
    pub fn bound(&self) {
        // What the system grants otherwise is bounded, too.
        let _ = sockopt::set_socket_send_buffer_size(self, SEND);
    }

    /// Passes on what was written and is held here, as far as there is room.
    ///
    /// # Errors
    /// The connection's.
    pub fn flush(&mut self) -> io::Result<()> {
        match self {
            Link::Plain(_) => Ok(()),
            Link::Tls(secure) => secure.flush(),
        }
    }

    /// Whether something that was written is held here.
    pub fn wants_write(&self) -> bool {
        match self {
            Link::Plain(_) => false,
            Link::Tls(secure) => secure.wants_write(),
        }
    }

    /// Whether it can be written at all by now.
    pub fn takes(&self) -> bool {
        match self {
            Link::Plain(_) => true,
            Link::Tls(secure) => secure.takes(),
        }
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Link::Plain(fd) => fd.as_fd(),
            Link::Tls(secure) => secure.as_fd(),
        }
    }
}

fn receive(fd: &OwnedFd, buffer: &mut [u8]) -> io::Result<usize> {
    Ok(rustix::net::recv(fd, buffer, RecvFlags::DONTWAIT).map(|(length, _)| length)?)
}

fn send(fd: &OwnedFd, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    Ok(rustix::net::sendmsg(fd, pieces, &mut SendAncillaryBuffer::default(), flags)?)
}
