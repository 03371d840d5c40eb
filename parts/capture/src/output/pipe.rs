//! A pipe, a socket, or standard output: its reader sees packets as they come.
//!
//! The wait is bounded: for a reader that does not read it lasts as long as the capture, and a
//! moment longer. A reader that has gone ends the capture. Nothing is padded.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use netloom_sys::Failure;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{FileType, major, minor};
use rustix::io::Errno;

use super::{Made, Output, Refused};
use crate::Error;
use crate::head::Encoder;
use crate::queue::Chunk;
use crate::shared::Shared;

/// Bytes that a writable pipe accepts without waiting (pipe(7), `PIPE_BUF`).
const PART: usize = 4096;
/// The device numbers of /dev/null (Linux's list of allocated devices).
const NULL: [u32; 2] = [1, 3];
/// Interval of checks whether the capture is to end.
const LOOK: Duration = Duration::from_millis(100);
/// Longest wait after that for a reader that does not read.
const PATIENCE: Duration = Duration::from_secs(2);

/// A stream to a reader.
pub(crate) struct Pipe {
    fd: OwnedFd,
    /// It is a file or /dev/null, which never waits for a reader.
    file: bool,
    encoder: Encoder,
    shared: Arc<Shared>,
    bytes: u64,
}

impl Pipe {
    /// A pipe that begins with the head of a file.
    pub(crate) fn new(fd: OwnedFd, encoder: Encoder, shared: Arc<Shared>) -> Result<Pipe, Error> {
        let stat = rustix::fs::fstat(&fd).map_err(|e| Failure::new("output", "look at", e))?;
        let file = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => true,
            FileType::CharacterDevice => [major(stat.st_rdev), minor(stat.st_rdev)] == NULL,
            _ => false,
        };
        Ok(Pipe { fd, file, encoder, shared, bytes: 0 })
    }

    /// Writes the head, before anything else.
    fn begin(&mut self) -> Result<(), Refused> {
        if self.bytes == 0 {
            let head = self.encoder.head();
            self.bytes += put(&self.fd, self.file, &self.shared, &head)?;
        }
        Ok(())
    }
}

impl Output for Pipe {
    fn write(&mut self, chunk: Chunk) -> Result<(), Refused> {
        let result = self.begin().and_then(|()| {
            let blocks = chunk.buffer.get(..chunk.len).unwrap_or_default();
            let bytes = self.encoder.convert(blocks).unwrap_or(blocks);
            put(&self.fd, self.file, &self.shared, bytes)
        });
        // In either case: the chunk goes with this call.
        self.shared.settle(&chunk.shares, result.is_ok());
        self.bytes += result?;
        Ok(())
    }

    fn go_on(&mut self) -> Result<(), Refused> {
        self.begin()?;
        // POLLERR and POLLHUP are reported without being asked for (poll(2)).
        let mut set = [PollFd::new(&self.fd, PollFlags::empty())];
        let looked = rustix::event::poll(&mut set, Some(&Timespec::default()));
        let left = looked.is_ok() && set[0].revents().intersects(PollFlags::ERR | PollFlags::HUP);
        if left { Err(Refused::ReaderGone) } else { Ok(()) }
    }

    fn finish(&mut self) -> Result<(), Refused> {
        self.begin()?;
        let tail = self.encoder.tail(&self.shared);
        self.bytes += put(&self.fd, self.file, &self.shared, &tail)?;
        Ok(())
    }

    fn abandon(&mut self) {}

    fn made(&self) -> Made {
        Made { bytes: self.bytes, ..Made::default() }
    }
}

/// Writes all bytes; returns their number.
fn put(fd: &OwnedFd, file: bool, shared: &Shared, bytes: &[u8]) -> Result<u64, Refused> {
    let failed = |e: Errno| Refused::from(Failure::new("output", "write", e));
    // O_NONBLOCK would also change the descriptor for others that share it, such
    // as the shell. After poll(2), a write of PIPE_BUF bytes does not wait.
    let part = if file { usize::MAX } else { PART };
    let mut rest = bytes;
    while !rest.is_empty() {
        wait(fd, shared)?;
        match rustix::io::write(fd, &rest[..rest.len().min(part)]) {
            Ok(count) => rest = rest.get(count..).unwrap_or_default(),
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(Errno::PIPE | Errno::CONNRESET) => return Err(Refused::ReaderGone),
            Err(e) => return Err(failed(e)),
        }
    }
    Ok(bytes.len() as u64)
}

/// Waits until it accepts data, or has an error for the write to report.
fn wait(fd: &OwnedFd, shared: &Shared) -> Result<(), Refused> {
    loop {
        let mut set = [PollFd::new(fd, PollFlags::OUT)];
        let timeout = Timespec::try_from(LOOK).ok();
        match rustix::event::poll(&mut set, timeout.as_ref()) {
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => return Ok(()),
            Err(e) => return Err(Failure::new("output", "wait for", e).into()),
        }
        if shared.ending_since().is_some_and(|since| since.elapsed() >= PATIENCE) {
            let late = io::Error::from(io::ErrorKind::TimedOut);
            return Err(Failure::new("output", "wait for its reader", late).into());
        }
    }
}
