//! Ways for a program to join a switch, all used alike: open, poll, drain.
//!
//! `vde:ADDRESS` by libvdeplug, for a VDE switch's folder or a name such as `netloom://SWITCH`; `shm:SWITCH`
//! by netloom's library, publishing each frame at once; `shm-batch:SWITCH`, publishing when a line is
//! flushed.

use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use netloom_port::{HEADER, MOST_FRAME, Port, Received, Sent, VdePort};
use netloom_shm::{JoinOptions, SwitchPort};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// A buffer size that fits any frame.
pub(super) const BUFFER: usize = MOST_FRAME;

/// Result of sending a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gave {
    /// Taken.
    Taken,
    /// Lost, and counted at the place of loss.
    Lost,
    /// Not taken now.
    Full,
}

/// A port of a switch.
pub(super) trait Line: Send {
    /// Range of the next frame in the buffer; `None` if there is none now.
    fn receive(&mut self, buffer: &mut [u8]) -> Result<Option<Range<usize>>>;

    /// [`Line::receive`] that waits in the library's own way or, without one, in poll(2).
    fn receive_wait(&mut self, buffer: &mut [u8], most: Duration) -> Result<Option<Range<usize>>> {
        wait(self.as_fd(), PollFlags::IN, most)?;
        self.receive(buffer)
    }

    /// Sends a frame that is preceded by [`HEADER`] zero bytes.
    fn send(&mut self, frame: &[u8]) -> Result<Gave>;

    /// From now on the line only sends; sends may then block if that is cheaper.
    fn only_send(&mut self) -> Result<()> {
        Ok(())
    }

    /// Makes the sent frames visible to the other side.
    fn flush(&mut self) {}

    /// Readable when a frame may have arrived.
    fn as_fd(&self) -> BorrowedFd<'_>;
}

/// Opens a line; the switch shows `name` for it.
pub(super) fn open(line: &str, name: &str) -> Result<Box<dyn Line>> {
    match line.split_once(':') {
        Some(("vde", address)) => {
            let port = VdePort::open(address, name);
            Ok(Box::new(port.with_context(|| format!("join {address}"))?))
        }
        Some(("shm", switch)) => Ok(Box::new(Library { port: join(switch, name)?, batch: false })),
        Some(("shm-batch", switch)) => {
            Ok(Box::new(Library { port: join(switch, name)?, batch: true }))
        }
        _ => bail!("peer: `{line}`: not a line"),
    }
}

/// Joins a netloom switch by name; the port ends with the switch.
pub(super) fn join(switch: &str, name: &str) -> Result<SwitchPort> {
    let address = netloom_shm::name::resolve(switch)?;
    let options = JoinOptions { reconnect: false, ..JoinOptions::at(&address, name) };
    SwitchPort::join(&options).with_context(|| format!("join {switch}"))
}

/// A port through netloom's library.
struct Library {
    port: SwitchPort,
    batch: bool,
}

impl Line for Library {
    fn receive(&mut self, buffer: &mut [u8]) -> Result<Option<Range<usize>>> {
        place(self.port.receive(buffer)?)
    }

    fn receive_wait(&mut self, buffer: &mut [u8], most: Duration) -> Result<Option<Range<usize>>> {
        place(self.port.receive_wait(buffer, Some(most))?)
    }

    fn send(&mut self, frame: &[u8]) -> Result<Gave> {
        match if self.batch { self.port.queue(frame)? } else { self.port.send(frame)? } {
            netloom_shm::Sent::Done => Ok(Gave::Taken),
            netloom_shm::Sent::Full => Ok(Gave::Full),
            netloom_shm::Sent::Stalled => Ok(Gave::Lost),
            netloom_shm::Sent::Refused => {
                bail!("a frame of {} bytes is refused", frame.len() - HEADER)
            }
            netloom_shm::Sent::Gone => bail!("the switch is gone"),
        }
    }

    fn flush(&mut self) {
        if self.batch {
            self.port.flush();
        }
    }

    fn as_fd(&self) -> BorrowedFd<'_> {
        self.port.as_fd()
    }
}

fn place(received: netloom_shm::Received) -> Result<Option<Range<usize>>> {
    match received {
        netloom_shm::Received::Frame { start, length } => Ok(Some(start + HEADER..start + length)),
        netloom_shm::Received::Truncated => Ok(Some(0..0)),
        netloom_shm::Received::Empty => Ok(None),
        netloom_shm::Received::Gone => bail!("the switch is gone"),
    }
}

impl Line for VdePort {
    fn receive(&mut self, buffer: &mut [u8]) -> Result<Option<Range<usize>>> {
        match Port::receive(self, buffer)? {
            Received::Frame { start, length } => Ok(Some(start + HEADER..start + length)),
            // A frame that did not fit does not count; the next call finds the next one.
            Received::Truncated => Ok(Some(0..0)),
            Received::Empty | Received::Down => Ok(None),
            Received::Gone => bail!("the switch is gone"),
        }
    }

    fn send(&mut self, frame: &[u8]) -> Result<Gave> {
        match Port::send(self, frame)? {
            Sent::Done => Ok(Gave::Taken),
            Sent::Full => Ok(Gave::Full),
            Sent::NoRoom | Sent::Down => Ok(Gave::Lost),
            Sent::Refused => bail!("a frame of {} bytes is refused", frame.len() - HEADER),
            Sent::Gone => bail!("the switch is gone"),
        }
    }

    fn only_send(&mut self) -> Result<()> {
        Ok(self.set_blocking(true)?)
    }

    fn as_fd(&self) -> BorrowedFd<'_> {
        Port::as_fd(self)
    }
}

/// Waits until a line is readable.
pub(super) fn readable(line: &dyn Line, most: Duration) -> Result<bool> {
    wait(line.as_fd(), PollFlags::IN, most)
}

/// Waits until a line takes frames again.
pub(super) fn writable(line: &dyn Line, most: Duration) -> Result<bool> {
    wait(line.as_fd(), PollFlags::OUT, most)
}

fn wait(fd: impl AsFd, flags: PollFlags, most: Duration) -> Result<bool> {
    let most = Timespec::try_from(most).context("too long a time")?;
    match poll(&mut [PollFd::new(&fd, flags)], Some(&most)) {
        Ok(ready) => Ok(ready > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error).context("poll"),
    }
}
