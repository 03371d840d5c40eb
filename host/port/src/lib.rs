//! Ports: descriptors to read and write whole frames.
//!
//! Each frame follows a virtio-net header of [`HEADER`] bytes (the legacy one, in the machine's
//! byte order: linux/virtio_net.h), so super-frames and unfinished checksums pass unchanged. A
//! [`Port`] never blocks and does not interpret its frames. Making a port needs rights in a network
//! namespace; using one needs none, so one process can make a port and hand it to another
//! ([`from_fd`]).

mod error;
mod packet;
mod ring;
mod shm;
mod tap;
mod vde;

use std::os::fd::{BorrowedFd, OwnedFd};

pub use error::{Error, Result};
pub use packet::PacketPort;
pub use ring::{RingOptions, RingPort};
pub use shm::ShmPort;
pub use tap::{Tap, TapOptions};
pub use vde::VdePort;

/// Bytes of the virtio-net header in front of each frame.
pub const HEADER: usize = 10;

/// A buffer of this size holds any frame: header, Ethernet header with two VLAN tags, the longest
/// IP packet, room to restore a tag, and one byte more, since a full buffer counts as truncated ([`Tap`]).
pub const MOST_FRAME: usize = HEADER + 14 + 8 + 65_535 + 4 + 1;

/// The outcome of a [`Port::receive`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// A frame with its header: `buffer[start..start + length]`.
    Frame {
        /// Offset of the header.
        start: usize,
        /// Length in bytes, including the header.
        length: usize,
    },
    /// A frame that did not fit: it is lost, and must be counted.
    Truncated,
    /// Nothing is pending.
    Empty,
    /// The interface is down; it may come back.
    Down,
    /// The interface no longer exists. The descriptor stays readable and is useless.
    Gone,
}

/// The outcome for a frame given to [`Port::send`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// Accepted.
    Done,
    /// Not accepted now: send the same frame again when the descriptor is writable.
    Full,
    /// Lost: the queue behind the descriptor was full, or the interface has no carrier.
    NoRoom,
    /// Lost: too long, or with a header that the other side does not accept.
    Refused,
    /// Lost: the interface is down; it may come back.
    Down,
    /// Lost, as every later one will be: the interface no longer exists.
    Gone,
}

/// The outcome of a [`Port::lend`].
#[derive(Debug, PartialEq, Eq)]
pub enum Lent<'a> {
    /// The next frame with its header, in place.
    Frame(&'a mut [u8]),
    /// A frame that did not fit, to be counted and given back.
    Truncated,
    /// Nothing is pending.
    Empty,
    /// The next frame, if any, can only be copied: see [`Port::receive`].
    Never,
}

/// The outcome of a [`Port::flush`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flushed {
    /// How it ended: [`Sent::Full`] if some frames still wait; flush again.
    pub sent: Sent,
    /// Frames accepted by [`Port::queue`] and lost.
    pub lost: u64,
}

/// A source and sink of frames.
pub trait Port: Send {
    /// Receives the next frame, if any, into `buffer` ([`MOST_FRAME`] bytes fit any frame).
    ///
    /// # Errors
    /// An answer that no kernel is known to give here; the port remains usable.
    fn receive(&mut self, buffer: &mut [u8]) -> Result<Received>;

    /// Sends a frame with its header, without waiting.
    ///
    /// # Errors
    /// An answer that no kernel is known to give here; the frame is lost, the port remains usable.
    fn send(&mut self, frame: &[u8]) -> Result<Sent>;

    /// Readable if a frame may be pending, writable if one may be accepted.
    fn as_fd(&self) -> BorrowedFd<'_>;

    /// Number of incoming frames lost since the port was opened here because nobody read them in
    /// time; `None` if the descriptor does not tell.
    fn overruns(&mut self) -> Option<u64>;

    /// As [`Port::send`], but accepted frames may wait until [`Port::flush`], so that one call
    /// sends a burst.
    ///
    /// # Errors
    /// As [`Port::send`].
    fn queue(&mut self, frame: &[u8]) -> Result<Sent> {
        self.send(frame)
    }

    /// Sends the frames that [`Port::queue`] has accepted.
    ///
    /// # Errors
    /// As [`Port::send`]; the queued frames are lost.
    fn flush(&mut self) -> Result<Flushed> {
        Ok(Flushed { sent: Sent::Done, lost: 0 })
    }

    /// Lends the next frame in place, on ports that can: it stays the next until it is given back.
    fn lend(&mut self) -> Lent<'_> {
        Lent::Never
    }

    /// Gives back the lent frame.
    fn give_back(&mut self) {}

    /// To be called before waiting for the descriptor: asks the other side to be told of frames, where telling costs
    /// it something. Returns whether there is a frame already; then do not wait.
    fn rest(&mut self) -> bool {
        false
    }

    /// Call it when the descriptor shows an error: [`Received::Down`], [`Received::Gone`], or
    /// [`Received::Empty`] if all is well. Ports that report errors by [`Port::receive`] return `Empty`.
    fn fault(&mut self) -> Received {
        Received::Empty
    }
}

/// The kinds of ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// See [`Tap`].
    Tap,
    /// See [`PacketPort`].
    Packet,
}

/// A port from a descriptor that another process has made and passed on.
///
/// # Errors
/// [`Error::Kind`] if it is not of the stated kind.
pub fn from_fd(kind: Kind, fd: OwnedFd) -> Result<Box<dyn Port>> {
    Ok(match kind {
        Kind::Tap => Box::new(Tap::from_fd(fd)?),
        Kind::Packet => Box::new(PacketPort::from_fd(fd)?),
    })
}

#[cfg(test)]
extern crate self as netloom_port;

#[cfg(test)]
#[path = "../tests/all.rs"]
mod integration;
