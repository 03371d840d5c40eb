//! A port of a shared-memory switch as a member.

use std::os::fd::BorrowedFd;

use netloom_shm::{Received, Sent, SwitchPort};

use crate::{Error, Given, Member, Result, Taken};

impl Member for SwitchPort {
    fn receive(&mut self, buffer: &mut [u8]) -> Result<Taken> {
        match SwitchPort::receive(self, buffer).map_err(|e| Error::switch("receive", e))? {
            Received::Frame { start, length } => Ok(Taken::Frame { start, length }),
            Received::Truncated => Ok(Taken::Truncated),
            Received::Empty => Ok(Taken::Empty),
            Received::Gone => Ok(Taken::Gone),
        }
    }

    /// Waits for room itself, as configured at the join; frames arriving meanwhile are kept.
    fn queue(&mut self, frame: &[u8]) -> Result<Given> {
        match SwitchPort::queue(self, frame).map_err(|e| Error::switch("send", e))? {
            Sent::Done => Ok(Given::Done),
            // Only a send that does not wait returns `Full`.
            Sent::Stalled | Sent::Full => Ok(Given::Stalled),
            Sent::Refused => Ok(Given::Refused),
            Sent::Gone => Ok(Given::Gone),
        }
    }

    fn flush(&mut self) {
        SwitchPort::flush(self);
    }

    fn note_lost(&mut self, frames: u64) {
        SwitchPort::lose(self, frames);
    }

    fn as_fd(&self) -> BorrowedFd<'_> {
        SwitchPort::as_fd(self)
    }
}
