//! The switch's side of a plug: the operations needed of a switch port.

use std::os::fd::BorrowedFd;

use crate::Result;

/// Result of [`Member::receive`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// A frame with its header: `buffer[start..start + length]`.
    Frame {
        /// Where the header begins.
        start: usize,
        /// Bytes, header included.
        length: usize,
    },
    /// A frame that did not fit: it is lost, and to be counted.
    Truncated,
    /// No frame at the moment.
    Empty,
    /// The switch is gone for good.
    Gone,
}

/// Result of [`Member::queue`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Given {
    /// Taken.
    Done,
    /// Not taken now: there is no room, and no wait has been made. The same frame may be offered again;
    /// nothing signals when.
    Full,
    /// Lost: the receiver did not read within the patience.
    Stalled,
    /// Lost: against the rules of the switch, or of invalid length.
    Refused,
    /// Lost: the switch is gone for good.
    Gone,
}

/// A port of a switch. Frames carry a virtio-net header, as in [`netloom_port::Port`].
pub trait Member: Send {
    /// Receives the next frame, if any, into `buffer`, without blocking.
    ///
    /// # Errors
    /// A failure beyond a single frame.
    fn receive(&mut self, buffer: &mut [u8]) -> Result<Taken>;

    /// Offers a frame, which may stay pending until [`Member::flush`]. May wait for room, bounded.
    ///
    /// # Errors
    /// A failure beyond a single frame.
    fn queue(&mut self, frame: &[u8]) -> Result<Given>;

    /// Sends what [`Member::queue`] has taken.
    fn flush(&mut self);

    /// Counts this many more frames as lost at the interface, for readers of the port's counters.
    fn note_lost(&mut self, frames: u64);

    /// Readable when frames may have arrived since [`Member::receive`] found none.
    fn as_fd(&self) -> BorrowedFd<'_>;
}
