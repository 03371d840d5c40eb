//! The caller's terminal, which nobody else opens by its name where the program could (`TIOCEXCL` of ioctl_tty(2)): nobody
//! but root, that is.
//!
//! Several guards may have the same terminal, as those of a pipeline do. They read from it and write on it in turn: who shows a
//! question has the turn until that is answered. The turn is a lock (flock(2)) on the terminal by its own name.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use netloom_sys::terminal::by_its_name;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::termios::{ioctl_tiocexcl, ioctl_tiocnxcl};

/// The caller's terminal.
#[derive(Debug)]
pub(crate) struct Tty {
    fd: OwnedFd,
    /// Whether it is to be this process's alone while that has it.
    alone: bool,
    /// The file locked by the guard that has the turn; without it no other guard can be waited for.
    turn: Option<OwnedFd>,
    /// The process that took it: one that is forked from it gives nothing back.
    owner: u32,
}

impl Tty {
    /// The terminal, which others can open until it is [kept](Tty::keep).
    pub(crate) fn take(fd: OwnedFd) -> Tty {
        let turn = by_its_name(&fd);
        Tty { fd, alone: true, turn, owner: std::process::id() }
    }

    /// Leaves it to others for good: the program cannot name it.
    pub(crate) fn share(&mut self) {
        self.alone = false;
    }

    /// Keeps others from opening it from now on.
    pub(crate) fn keep(&self) {
        if self.alone {
            // Nobody draws on a terminal that is gone.
            let _ = ioctl_tiocexcl(&self.fd);
        }
    }

    /// Gives it back for a while.
    pub(crate) fn give_back(&self) {
        if self.alone && self.is_own() {
            let _ = ioctl_tiocnxcl(&self.fd);
        }
    }

    /// Takes the turn to read and write, if no other guard has it; the holder keeps it.
    pub(crate) fn take_turn(&self) -> bool {
        let lock = |turn| flock(turn, FlockOperation::NonBlockingLockExclusive);
        self.turn.as_ref().is_none_or(|turn| lock(turn) != Err(Errno::AGAIN))
    }

    /// Waits for the turn.
    pub(crate) fn wait_for_turn(&self) {
        let lock = |turn| flock(turn, FlockOperation::LockExclusive);
        while self.turn.as_ref().is_some_and(|turn| lock(turn) == Err(Errno::INTR)) {}
    }

    /// Passes the turn on.
    pub(crate) fn pass_turn(&self) {
        if let Some(turn) = &self.turn {
            let _ = flock(turn, FlockOperation::Unlock);
        }
    }

    fn is_own(&self) -> bool {
        self.owner == std::process::id()
    }
}

impl AsFd for Tty {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for Tty {
    fn drop(&mut self) {
        self.give_back();
        if self.is_own() {
            // A turn that is had at the end lasts as long as this process: what that tells last covers no question.
            std::mem::forget(self.turn.take());
        }
    }
}
