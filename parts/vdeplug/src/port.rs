//! What a connection needs of a port of a switch, so that it can be tested without one.

use std::os::fd::BorrowedFd;

use netloom_shm::{Received, Result, Sent, SwitchPort};

/// A port; [`SwitchPort`] says what the functions of its names do.
pub(crate) trait Port {
    /// Never blocks. Frames are whole packets with finished checksums.
    fn receive(&mut self, buffer: &mut [u8]) -> Result<Received>;
    /// Whether receiving, which found nothing, has seen that the data descriptor was readable.
    fn was_woken(&mut self) -> Result<bool>;
    /// Waits for room, bounded, or says [`Sent::Full`] if it is not to.
    fn send(&mut self, frame: &[u8], wait: bool) -> Result<Sent>;
    /// Readable as long as a frame may be there.
    fn data(&self) -> BorrowedFd<'_>;
    /// Readable from when the switch is gone.
    fn control(&self) -> BorrowedFd<'_>;
}

impl Port for SwitchPort {
    fn receive(&mut self, buffer: &mut [u8]) -> Result<Received> {
        SwitchPort::receive(self, buffer)
    }

    fn was_woken(&mut self) -> Result<bool> {
        SwitchPort::was_woken(self)
    }

    fn send(&mut self, frame: &[u8], wait: bool) -> Result<Sent> {
        if wait { SwitchPort::send(self, frame) } else { self.try_send(frame) }
    }

    fn data(&self) -> BorrowedFd<'_> {
        self.as_fd()
    }

    fn control(&self) -> BorrowedFd<'_> {
        self.control_fd()
    }
}
