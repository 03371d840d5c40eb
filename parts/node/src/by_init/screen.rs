//! Relays between the caller's terminal and the program's, which belongs to the node: input in, output back,
//! and the caller's window size.

use std::os::fd::OwnedFd;

use netloom_sys::terminal::Raw;
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::termios::{tcgetwinsize, tcsetwinsize};

/// Bytes relayed at once.
const CHUNK: usize = 16 << 10;

/// Both terminals. The caller's is in raw mode until this is dropped.
pub(super) struct Screen {
    /// This side of the program's terminal.
    inner: OwnedFd,
    /// Input that the program's terminal has not taken yet.
    typed: Vec<u8>,
    /// The caller's terminal can still be read.
    reads: bool,
    /// The program's terminal can still be read.
    shows: bool,
    _raw: Raw<'static>,
}

impl Screen {
    /// `None` if the caller's terminal is gone.
    pub(super) fn new(inner: OwnedFd) -> Option<Screen> {
        rustix::io::ioctl_fionbio(&inner, true).ok()?;
        let raw = Raw::set(rustix::stdio::stdin())?;
        Some(Screen { inner, typed: vec![], reads: true, shows: true, _raw: raw })
    }

    /// Descriptors and events to poll for.
    pub(super) fn waits_for(&self) -> Vec<PollFd<'_>> {
        let mut fds = Vec::new();
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::IN, self.shows);
        flags.set(PollFlags::OUT, !self.typed.is_empty());
        if self.shows {
            fds.push(PollFd::new(&self.inner, flags));
        }
        // One block is held at most: further input waits in the caller's terminal until the program has read.
        if self.reads && self.typed.is_empty() {
            fds.push(PollFd::from_borrowed_fd(rustix::stdio::stdin(), PollFlags::IN));
        }
        fds
    }

    /// Relays what is possible without blocking on either side.
    pub(super) fn carry(&mut self) {
        self.show();
        let stdin = rustix::stdio::stdin();
        let readable = || netloom_sys::process::wait_readable(stdin, std::time::Duration::ZERO);
        if self.reads && self.typed.is_empty() && readable() {
            let mut buffer = [0; 4096];
            match rustix::io::read(stdin, &mut buffer) {
                Ok(0) => self.reads = false,
                Ok(n) => self.typed.extend(&buffer[..n]),
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(_) => self.reads = false,
            }
        }
        match rustix::io::write(&self.inner, &self.typed) {
            Ok(n) => drop(self.typed.drain(..n)),
            Err(Errno::AGAIN | Errno::INTR) => {}
            // The program's terminal is gone: nobody will read this.
            Err(_) => self.typed.clear(),
        }
    }

    /// Shows the program's output so far.
    fn show(&mut self) {
        let mut buffer = [0; CHUNK];
        while self.shows {
            match rustix::io::read(&self.inner, &mut buffer) {
                Ok(0) => self.shows = false,
                Ok(n) => write_all(&buffer[..n]),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                // Nobody holds the other end any more.
                Err(_) => self.shows = false,
            }
        }
    }

    /// Shows the remaining output once the program has ended.
    pub(super) fn show_rest(&mut self) {
        self.show();
    }

    /// Sets the program's terminal to the size of the caller's.
    pub(super) fn fit(&self) {
        if let Ok(size) = tcgetwinsize(rustix::stdio::stdout()) {
            // A closed terminal has no size.
            let _ = tcsetwinsize(&self.inner, size);
        }
    }
}

/// Writes to the caller's terminal; if that is gone, drops the output.
fn write_all(mut bytes: &[u8]) {
    while !bytes.is_empty() {
        match rustix::io::write(rustix::stdio::stdout(), bytes) {
            Ok(n) => bytes = &bytes[n..],
            Err(Errno::INTR) => {}
            Err(_) => return,
        }
    }
}
