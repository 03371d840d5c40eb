//! What a connection does with its port, in the terms of libvdeplug(3).
//!
//! * Receiving never waits. Nothing there is EAGAIN; but a program that was woken for nothing (by a
//!   message of the switch, or a frame that was not for it) and that would block on a socket is given
//!   [`Taken::Nothing`], since many programs end at any error. Those that have set O_NONBLOCK or give
//!   MSG_DONTWAIT do not.
//! * Sending waits for room, up to the port's bound, then is ENOBUFS, and the frame is lost; also
//!   with O_NONBLOCK set, because an epoll descriptor cannot say that there is room. With
//!   MSG_DONTWAIT it is EAGAIN at once, and the frame is the program's still.
//! * The control descriptor is silent until the switch is gone, and readable from then on. A program
//!   that goes on all the same keeps its edges, and is a member again when the switch is back.
//! * A copy of a connection that a fork made ends without a word to the switch.

use std::os::fd::{AsRawFd, RawFd};
use std::sync::{Mutex, MutexGuard};

use netloom_shm::{HEADER, MOST_FRAME, Received, Sent};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::Pid;

use crate::open;
use crate::port::Port;

/// The shortest frame: an Ethernet header.
const LEAST: usize = 14;
/// The longest: the longest IP packet with its Ethernet header and two VLAN tags.
const MOST: usize = 14 + 8 + 65_535;

/// A connection.
#[derive(Debug)]
pub(crate) struct Plug<P> {
    held: Mutex<Held<P>>,
    data: RawFd,
    control: RawFd,
    /// Who opened it.
    process: Pid,
}

#[derive(Debug)]
struct Held<P> {
    port: P,
    buffer: Box<[u8]>,
}

/// What was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// A frame, of which so many bytes were given.
    Frame(usize),
    /// None, though the data descriptor said so.
    Nothing,
}

impl<P: Port> Plug<P> {
    pub(crate) fn new(port: P) -> Plug<P> {
        let (data, control) = (port.data().as_raw_fd(), port.control().as_raw_fd());
        let buffer = vec![0; MOST_FRAME].into_boxed_slice();
        let held = Mutex::new(Held { port, buffer });
        Plug { held, data, control, process: rustix::process::getpid() }
    }

    /// Takes the next frame and hands it to `give`, which says how much of it was wanted.
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

    /// Sends a frame of `length` bytes that `fill` writes; gives its length.
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

    /// Readable as long as a frame may be there.
    pub(crate) fn data_fd(&self) -> RawFd {
        self.data
    }

    /// Readable from when the switch is gone.
    pub(crate) fn control_fd(&self) -> RawFd {
        self.control
    }

    /// Leaves the switch, unless this is the copy that a fork has made and who opened it lives: that
    /// one is only forgotten, because memories and sockets are the other's.
    pub(crate) fn close(self) {
        let own = self.process == rustix::process::getpid();
        // daemon(3) leaves the copy as the only one.
        if !own && rustix::process::test_kill_process(self.process) != Err(Errno::SRCH) {
            std::mem::forget(self);
        }
    }

    fn lock(&self) -> Result<MutexGuard<'_, Held<P>>, Errno> {
        // Poisoned: a panic left the port in a state that nobody knows.
        self.held.lock().map_err(|_| Errno::IO)
    }
}

#[cfg(test)]
#[path = "plug_tests.rs"]
mod tests;
