//! A connection's operations on its port, in the terms of libvdeplug(3).
//!
//! * Receiving never blocks. Without a frame it returns EAGAIN. Exception: a blocking program that was woken
//!   for nothing (by a message of the switch, or a frame not for it) gets [`Taken::Nothing`], since many
//!   programs end at any error. Programs that set O_NONBLOCK or pass MSG_DONTWAIT get EAGAIN.
//! * Sending waits for room up to the port's bound, then returns ENOBUFS and the frame is lost. That holds
//!   with O_NONBLOCK too, because an epoll descriptor cannot signal room. With MSG_DONTWAIT it returns EAGAIN
//!   at once, and the program keeps the frame.
//! * The control descriptor is silent until the switch is gone, and readable from then on. A program that
//!   continues keeps its edges, and is a member again when the switch is back.
//! * A connection copied by fork closes without a message to the switch.

use std::os::fd::{AsRawFd, RawFd};
use std::sync::{Mutex, MutexGuard};

use netloom_shm::{HEADER, MOST_FRAME, Received, Sent};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::Pid;

use crate::open;
use crate::port::Port;

/// Shortest frame: an Ethernet header.
const LEAST: usize = 14;
/// Longest frame: the longest IP packet with its Ethernet header and two VLAN tags.
const MOST: usize = 14 + 8 + 65_535;

/// A connection.
#[derive(Debug)]
pub(crate) struct Plug<P> {
    held: Mutex<Held<P>>,
    data: RawFd,
    control: RawFd,
    /// The process that opened it.
    process: Pid,
}

#[derive(Debug)]
struct Held<P> {
    port: P,
    buffer: Box<[u8]>,
}

/// Result of a receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// A frame; the number of bytes delivered.
    Frame(usize),
    /// No frame, although the data descriptor was readable.
    Nothing,
}

impl<P: Port> Plug<P> {
    pub(crate) fn new(port: P) -> Plug<P> {
        let (data, control) = (port.data().as_raw_fd(), port.control().as_raw_fd());
        let buffer = vec![0; MOST_FRAME].into_boxed_slice();
        let held = Mutex::new(Held { port, buffer });
        Plug { held, data, control, process: rustix::process::getpid() }
    }

    /// Receives the next frame and passes it to `give`, which returns the number of bytes used.
    pub(crate) fn receive(
        &self,
        flags: i32,
        give: impl FnOnce(&[u8]) -> usize,
    ) -> Result<Taken, Errno> {
        let mut held = self.lock()?;
        let Held { port, buffer } = &mut *held;
        loop {
            match port.receive(buffer).map_err(|error| open::number(&error))? {
                Received::Frame { start, length } => {
                    let frame = buffer.get(start + HEADER..start + length).ok_or(Errno::IO)?;
                    return Ok(Taken::Frame(give(frame)));
                }
                // Longer than any frame; the port has counted it.
                Received::Truncated => {}
                Received::Empty => {
                    let waits = flags & libc::MSG_DONTWAIT == 0
                        && !rustix::fs::fcntl_getfl(port.data())?.contains(OFlags::NONBLOCK)
                        && port.was_woken().map_err(|error| open::number(&error))?;
                    return if waits { Ok(Taken::Nothing) } else { Err(Errno::AGAIN) };
                }
                Received::Gone => return Err(Errno::CONNRESET),
            }
        }
    }

    /// Sends a frame of `length` bytes that `fill` writes; returns its length.
    pub(crate) fn send(
        &self,
        length: usize,
        flags: i32,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<usize, Errno> {
        match length {
            ..LEAST => return Err(Errno::INVAL),
            LEAST..=MOST => {}
            _ => return Err(Errno::MSGSIZE),
        }
        let mut held = self.lock()?;
        let Held { port, buffer, .. } = &mut *held;
        let whole = buffer.get_mut(..HEADER + length).ok_or(Errno::MSGSIZE)?;
        let (header, frame) = whole.split_at_mut(HEADER);
        header.fill(0);
        fill(frame);
        let waits = flags & libc::MSG_DONTWAIT == 0;
        match port.send(whole, waits).map_err(|error| open::number(&error))? {
            Sent::Done => Ok(length),
            Sent::Full => Err(Errno::AGAIN),
            Sent::Stalled => Err(Errno::NOBUFS),
            Sent::Refused => Err(Errno::PERM),
            Sent::Gone => Err(Errno::CONNRESET),
        }
    }

    /// Readable while a frame may be available.
    pub(crate) fn data_fd(&self) -> RawFd {
        self.data
    }

    /// Readable once the switch is gone.
    pub(crate) fn control_fd(&self) -> RawFd {
        self.control
    }

    /// Leaves the switch, unless this is a fork's copy and the process that opened the connection lives: such
    /// a copy is leaked, because memories and sockets belong to that process.
    pub(crate) fn close(self) {
        let own = self.process == rustix::process::getpid();
        // After daemon(3) the copy is the only one.
        if !own && rustix::process::test_kill_process(self.process) != Err(Errno::SRCH) {
            std::mem::forget(self);
        }
    }

    fn lock(&self) -> Result<MutexGuard<'_, Held<P>>, Errno> {
        // Poisoned: a panic left the port in an unknown state.
        self.held.lock().map_err(|_| Errno::IO)
    }
}

#[cfg(test)]
mod tests;
