//! Members of a shared-memory switch as ports (netloom_shm, docs/abi/switch-join.md).
//!
//! It has no descriptor that frames could be read from, so it cannot be handed to another process:
//! whoever uses it joins the switch. What it is given is copied once, into the memory that its
//! receiver reads. Sending may wait for a receiver, for a time that is bounded when it joins.

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
    /// [`Error::Switch`]: there is none, or it does not want us.
    pub fn join(options: &JoinOptions) -> Result<ShmPort> {
        Ok(ShmPort { port: SwitchPort::join(options)? })
    }

    /// What it can do beyond a [`Port`].
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

    /// None: who sends waits, or counts what it could not send.
    fn overruns(&mut self) -> Option<u64> {
        None
    }
}

/// The header is the same on both sides.
const _: () = assert!(crate::HEADER == netloom_shm::HEADER);

/// The same failure, as this crate tells it.
impl From<netloom_shm::Error> for Error {
    fn from(error: netloom_shm::Error) -> Self {
        match error {
            netloom_shm::Error::Call { object, operation, source } => {
                Error::Call { object, operation, source }
            }
            other => Error::Switch(Box::new(other)),
        }
    }
}
