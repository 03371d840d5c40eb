//! Ports of a shared-memory switch's members (netloom_shm, docs/abi/switch-join.md).
//!
//! Such a port has no descriptor to read frames from, so it cannot be handed to another process:
//! its user joins the switch itself. Sent frames are copied once, into the memory that the receiver
//! reads. Sending may wait for a receiver, for a time bounded on joining.

use std::os::fd::BorrowedFd;

use netloom_shm::{JoinOptions, SwitchPort};

use crate::{Error, Port, Received, Result, Sent};

/// A member of a switch.
#[derive(Debug)]
pub struct ShmPort {
    port: SwitchPort,
}

impl ShmPort {
    /// Joins a switch.
    ///
    /// # Errors
    /// [`Error::Switch`]: there is no such switch, or it refuses.
    pub fn join(options: &JoinOptions) -> Result<ShmPort> {
        Ok(ShmPort { port: SwitchPort::join(options)? })
    }

    /// Its functions beyond those of a [`Port`].
    pub fn switch_port(&mut self) -> &mut SwitchPort {
        &mut self.port
    }
}

impl From<SwitchPort> for ShmPort {
    fn from(port: SwitchPort) -> ShmPort {
        ShmPort { port }
    }
}

impl Port for ShmPort {
    fn receive(&mut self, buffer: &mut [u8]) -> Result<Received> {
        Ok(match self.port.receive(buffer)? {
            netloom_shm::Received::Frame { start, length } => Received::Frame { start, length },
            netloom_shm::Received::Truncated => Received::Truncated,
            netloom_shm::Received::Empty => Received::Empty,
            netloom_shm::Received::Gone => Received::Gone,
        })
    }

    fn send(&mut self, frame: &[u8]) -> Result<Sent> {
        Ok(match self.port.send(frame)? {
            netloom_shm::Sent::Done => Sent::Done,
            netloom_shm::Sent::Full => Sent::Full,
            netloom_shm::Sent::Stalled => Sent::NoRoom,
            netloom_shm::Sent::Refused => Sent::Refused,
            netloom_shm::Sent::Gone => Sent::Gone,
        })
    }

    fn as_fd(&self) -> BorrowedFd<'_> {
        self.port.as_fd()
    }

    /// None: the sender waits, or counts frames it could not send.
    fn overruns(&mut self) -> Option<u64> {
        None
    }
}

/// The header is the same on both sides.
const _: () = assert!(crate::HEADER == netloom_shm::HEADER);

/// The same failure as an error of this crate.
impl From<netloom_shm::Error> for Error {
    fn from(error: netloom_shm::Error) -> Self {
        match error {
            netloom_shm::Error::Failed(failure) => Error::Failed(failure),
            other => Error::Switch(Box::new(other)),
        }
    }
}
