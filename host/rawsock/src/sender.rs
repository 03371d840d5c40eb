//! A packet socket that sends prepared frames, many per call (packet(7), sendmmsg(2)).
//!
//! The socket has no protocol, so nothing is ever queued for reading. [`Path::Direct`] bypasses the
//! interface's queueing discipline and egress programs; [`Path::Queue`] does not. A frame is
//! accepted if the interface has it, or lost if the queue was full: never both.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use netloom_sys::Failure;
use rustix::io::Errno;
use rustix::net::SocketFlags;

use crate::socket::{self, object};
use crate::{Frames, Result};

/// The path of frames from the socket to the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// Through the queueing discipline and the interface's egress programs.
    Queue,
    /// Bypassing both (`PACKET_QDISC_BYPASS`).
    Direct,
}

/// Counters of sent frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Accepted by the interface.
    pub taken: u64,
    /// Lost: the queue behind the socket was full.
    pub refused: u64,
}

impl Tally {
    /// All frames given to the socket.
    pub fn offered(self) -> u64 {
        self.taken + self.refused
    }

    fn add(&mut self, other: Tally) {
        self.taken += other.taken;
        self.refused += other.refused;
    }
}

/// A packet socket bound to one interface, for sending.
#[derive(Debug)]
pub struct Sender {
    fd: OwnedFd,
    index: u32,
    tally: Tally,
}

impl Sender {
    /// Opens a socket on the interface `index` of the calling thread's network namespace.
    ///
    /// # Errors
    /// [`crate::Error::Unsupported`] without permission; [`crate::Error::Failed`] if the kernel refuses.
    pub fn open(index: u32, path: Path) -> Result<Sender> {
        let fd = socket::open(index, SocketFlags::empty())?;
        if path == Path::Direct {
            socket::set(&fd, index, libc::PACKET_QDISC_BYPASS, 1, "send directly through")?;
        }
        socket::bind(&fd, index, 0)?;
        Ok(Sender { fd, index, tally: Tally::default() })
    }

    /// Sends all of `frames` once, in order, and returns their counters. It waits while the
    /// socket's own buffer is full.
    ///
    /// # Errors
    /// [`crate::Error::Failed`] if the interface is down or gone, or does not accept such a frame; the
    /// frames before it have been sent and are in the [`Sender::tally`].
    pub fn send(&mut self, frames: &mut Frames) -> Result<Tally> {
        let mut sent = Tally::default();
        let mut rest = frames.messages();
        while !rest.is_empty() {
            let step = match self.send_some(rest) {
                Ok(taken) => Tally { taken: taken as u64, refused: 0 },
                // The first of the remaining frames was lost in the queue.
                Err(Errno::NOBUFS) => Tally { taken: 0, refused: 1 },
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(Failure::new(object(self.index), "send", errno).into()),
            };
            self.tally.add(step);
            sent.add(step);
            let done = usize::try_from(step.offered()).unwrap_or(usize::MAX).min(rest.len());
            rest = rest.split_at_mut(done).1;
        }
        Ok(sent)
    }

    /// Totals since opening.
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// Sends from the front; returns how many were accepted, at least one.
    fn send_some(&self, messages: &mut [libc::mmsghdr]) -> Result<usize, Errno> {
        let count = libc::c_uint::try_from(messages.len()).map_err(|_| Errno::INVAL)?;
        // SAFETY: messages are `count` live mmsghdr; by the invariant of `Frames` each points to
        // one live part, and that to live bytes, which the kernel only reads.
        let ret = unsafe { libc::sendmmsg(self.fd.as_raw_fd(), messages.as_mut_ptr(), count, 0) };
        usize::try_from(ret).map_err(|_| {
            let number = io::Error::last_os_error().raw_os_error();
            Errno::from_raw_os_error(number.unwrap_or(libc::EIO))
        })
    }
}
