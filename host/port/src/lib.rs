//! Ports: descriptors that whole frames are read from and written to.
//!
//! Before each frame stands a virtio-net header of [`HEADER`] bytes (the legacy one, in the
//! machine's byte order: linux/virtio_net.h), so that super-frames and unfinished checksums cross
//! unchanged. A [`Port`] never blocks and knows nothing of what its frames mean. Making a port
//! needs rights in a network namespace; using one needs none, so a port can be made by one process
//! and handed to another ([`from_fd`]).

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

/// A buffer of this many bytes takes any frame: header, Ethernet header with two VLAN tags, the
/// longest IP packet, and room for a tag to be put back.
pub const MOST_FRAME: usize = HEADER + 14 + 8 + 65_535 + 4 + 1;

/// What a [`Port::receive`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// A frame with its header: `buffer[start..start + length]`.
    Frame {
        /// Where the header begins.
        start: usize,
        /// Bytes, header included.
        length: usize,
    },
    /// A frame that did not fit: it is gone, to be counted.
    Truncated,
    /// Nothing at the moment.
    Empty,
    /// The interface is down; it may come back.
    Down,
    /// The interface is no more. The descriptor stays readable and is of no use.
    Gone,
}

/// What became of a frame given to [`Port::send`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// Taken.
    Done,
    /// Not taken for now: the same frame may be sent when the descriptor is writable.
    Full,
    /// Lost: the queue behind the descriptor had no room, or the interface has no carrier.
    NoRoom,
    /// Lost: too long, or with a header that the other side does not take.
    Refused,
    /// Lost: the interface is down; it may come back.
    Down,
    /// Lost, as every later one will be: the interface is no more.
    Gone,
}

/// What a [`Port::lend`] found.
#[derive(Debug, PartialEq, Eq)]
pub enum Lent<'a> {
    /// The next frame with its header, where it lies.
    Frame(&'a mut [u8]),
    /// One that did not fit, to be counted and given back.
    Truncated,
    /// Nothing at the moment.
    Empty,
    /// The next one is only had by copying, if there is one: see [`Port::receive`].
    Never,
}

/// What a [`Port::flush`] came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flushed {
    /// How it ended: [`Sent::Full`] when some frames wait on, to be flushed again.
    pub sent: Sent,
    /// Frames that were taken by [`Port::queue`] and are lost.
    pub lost: u64,
}

/// Something that frames come from and go to.
pub trait Port: Send {
    /// Takes the next frame, if there is one, into `buffer` (of [`MOST_FRAME`] bytes to fit any).
    ///
    /// # Errors
    /// What no kernel is known to answer here; the port may be used on.
    fn receive(&mut self, buffer: &mut [u8]) -> Result<Received>;

    /// Gives a frame with its header, without waiting.
    ///
    /// # Errors
    /// What no kernel is known to answer here; the frame is lost, the port may be used on.
    fn send(&mut self, frame: &[u8]) -> Result<Sent>;

    /// Readable when a frame may have come, writable when one may be taken.
    fn as_fd(&self) -> BorrowedFd<'_>;

    /// How many frames were lost on the input because nobody read them in time, since the port was
    /// opened here; `None` where the descriptor does not tell.
    fn overruns(&mut self) -> Option<u64>;

    /// As [`Port::send`], but what was taken may wait until [`Port::flush`], so that a burst is sent by
    /// one call.
    ///
    /// # Errors
    /// As [`Port::send`].
    fn queue(&mut self, frame: &[u8]) -> Result<Sent> {
        self.send(frame)
    }

    /// Sends what [`Port::queue`] has taken.
    ///
    /// # Errors
    /// As [`Port::send`]; what was queued is lost.
    fn flush(&mut self) -> Result<Flushed> {
        Ok(Flushed { sent: Sent::Done, lost: 0 })
    }

    /// The next frame where it lies, for ports that can: it stays the next until it is given back.
    fn lend(&mut self) -> Lent<'_> {
        Lent::Never
    }

    /// Is done with what was lent.
    fn give_back(&mut self) {}

    /// To be asked when the descriptor shows an error: [`Received::Down`], [`Received::Gone`], or
    /// [`Received::Empty`] when all is well. Ports that tell by [`Port::receive`] say `Empty`.
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

/// A port of a descriptor that another process has made and given us.
///
/// # Errors
/// [`Error::Kind`] when it is not what it is said to be.
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
