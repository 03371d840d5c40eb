//! The caller's terminal and the one of its program, which is the node's: what is typed goes to that one, what
//! it shows comes back, and it has the same size.

use std::os::fd::OwnedFd;

use netloom_sys::terminal::Raw;
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::termios::{tcgetwinsize, tcsetwinsize};

/// Bytes carried at once.
const CHUNK: usize = 16 << 10;

/// Both terminals. The caller's passes on every key until this is dropped.
pub(super) struct Screen {
    /// The program's, from this side.
    inner: OwnedFd,
    /// What was typed and not taken yet.
    typed: Vec<u8>,
    /// The caller's terminal can still be read.
    reads: bool,
    /// The program's can.
    shows: bool,
    _raw: Raw<'static>,
}

impl Screen {
    /// `None` where the caller's terminal is gone.
    pub(super) fn new(inner: OwnedFd) -> Option<Screen> {
        rustix::io::ioctl_fionbio(&inner, true).ok()?;
        let raw = Raw::set(rustix::stdio::stdin())?;
        Some(Screen { inner, typed: vec![], reads: true, shows: true, _raw: raw })
    }

    /// What there is to wait for.
    pub(super) fn waits_for(&self) -> Vec<PollFd<'_>> {
        let mut fds = Vec::new();
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::IN, self.shows);
        flags.set(PollFlags::OUT, !self.typed.is_empty());
        if self.shows {
            fds.push(PollFd::new(&self.inner, flags));
        }
        if self.reads && self.typed.is_empty() {
            fds.push(PollFd::from_borrowed_fd(rustix::stdio::stdin(), PollFlags::IN));
        }
        fds
    }

    /// Carries what can be carried without waiting for either side.
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
            Err(_) => self.typed.clear(),
        }
    }

    /// Shows what the program has written so far.
    fn show(&mut self) {
        let mut buffer = [0; CHUNK];
        while self.shows {
            match rustix::io::read(&self.inner, &mut buffer) {
                Ok(0) => self.shows = false,
                Ok(n) => write_all(&buffer[..n]),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                // Nobody has the other end any more.
                Err(_) => self.shows = false,
            }
        }
    }

    /// The same when the program has ended.
    pub(super) fn show_rest(&mut self) {
        self.show();
    }

    /// Gives the program's terminal the size of the caller's.
    pub(super) fn fit(&self) {
        if let Ok(size) = tcgetwinsize(rustix::stdio::stdout()) {
            // One that is gone has no size.
            let _ = tcsetwinsize(&self.inner, size);
        }
    }
}

/// Writes to the caller's terminal; one that is gone shows nothing.
fn write_all(mut bytes: &[u8]) {
    while !bytes.is_empty() {
        match rustix::io::write(rustix::stdio::stdout(), bytes) {
            Ok(n) => bytes = &bytes[n..],
            Err(Errno::INTR) => {}
            Err(_) => return,
        }
    }
}
