//! The caller's terminal, which nobody else opens by its name where the program could (`TIOCEXCL` of ioctl_tty(2)): nobody
//! but root, that is.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::termios::{ioctl_tiocexcl, ioctl_tiocnxcl};

/// The caller's terminal.
#[derive(Debug)]
pub(crate) struct Tty {
    fd: OwnedFd,
    /// Whether it is to be this process's alone while that has it.
    alone: bool,
    /// Whose it is: a process that was forked from this one gives nothing back.
    owner: u32,
}

impl Tty {
    /// Keeps others from opening it from now on.
    pub(crate) fn take(fd: OwnedFd) -> Tty {
        let tty = Tty { fd, alone: true, owner: std::process::id() };
        tty.keep();
        tty
    }

    /// Leaves it to others for good: the program cannot name it.
    pub(crate) fn share(&mut self) {
        self.give_back();
        self.alone = false;
    }

    /// Keeps others from opening it, after it was given back.
    pub(crate) fn keep(&self) {
        if self.alone {
            // Nobody draws on a terminal that is gone.
            let _ = ioctl_tiocexcl(&self.fd);
        }
    }

    /// Gives it back for a while.
    pub(crate) fn give_back(&self) {
        if self.alone && self.owner == std::process::id() {
            let _ = ioctl_tiocnxcl(&self.fd);
        }
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
    }
}
