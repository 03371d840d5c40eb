//! The operations that a connection needs of a switch port, so that tests can replace it.

use std::os::fd::BorrowedFd;

use netloom_shm::{Received, Result, Sent, SwitchPort};

/// A port; [`SwitchPort`] documents the functions of the same names.
pub(crate) trait Port {
    /// Never blocks. Frames are whole packets with complete checksums.
    fn receive(&mut self, buffer: &mut [u8]) -> Result<Received>;
    /// Whether the last receive, which found nothing, saw the data descriptor readable.
    fn was_woken(&mut self) -> Result<bool>;
    /// Waits for room, bounded, or returns [`Sent::Full`] if it must not wait.
    fn send(&mut self, frame: &[u8], wait: bool) -> Result<Sent>;
    /// Readable while a frame may be available.
    fn data(&self) -> BorrowedFd<'_>;
    /// Readable once the switch is gone.
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
