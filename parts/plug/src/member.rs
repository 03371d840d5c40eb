//! The switch's side of a plug: what carrying frames needs of a switch port.

use std::os::fd::BorrowedFd;

use crate::Result;

/// What a [`Member::receive`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
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
    /// The switch is gone for good.
    Gone,
}

/// What became of a frame given to [`Member::queue`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Given {
    /// Taken.
    Done,
    /// Not taken for now: there is no room, and it has not been waited for. The same frame may be given
    /// again; nothing tells when.
    Full,
    /// Lost: the receiver has not read for as long as it is waited for.
    Stalled,
    /// Lost: against the rules of the switch, or of no sensible length.
    Refused,
    /// Lost: the switch is gone for good.
    Gone,
}

/// A port of a switch. Frames have a virtio-net header before them, as those of [`netloom_port::Port`].
pub trait Member: Send {
    /// Takes the next frame, if there is one, into `buffer`, without waiting.
    ///
    /// # Errors
    /// What is no matter of a single frame.
    fn receive(&mut self, buffer: &mut [u8]) -> Result<Taken>;

    /// Gives a frame, which may wait until [`Member::flush`]. May wait for room, bounded.
    ///
    /// # Errors
    /// What is no matter of a single frame.
    fn queue(&mut self, frame: &[u8]) -> Result<Given>;

    /// Sends what [`Member::queue`] has taken.
    fn flush(&mut self);

    /// Readable when something may have come since [`Member::receive`] found nothing.
    fn as_fd(&self) -> BorrowedFd<'_>;
}
