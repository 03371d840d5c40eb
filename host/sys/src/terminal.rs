//! The controlling terminal: its foreground group, for programs that run in a node or under guard, and raw mode.
//!
//! A shell in a node takes the terminal for its own process group; when it has ended, the terminal
//! is taken back, so that the caller's shell continues as before. See tcsetpgrp(3), setpgid(2).

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::Pid;
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};

use crate::{Failure, Result};

/// A new terminal: the side of whoever shows it, and the side of the program in it (pty(7)). It becomes nobody's controlling
/// terminal by this.
///
/// # Errors
/// The kernel makes none: there is no /dev/pts, or too many.
pub fn pair() -> Result<(OwnedFd, OwnedFd)> {
    let fail = |operation| move |e| Failure::new("terminal", operation, e);
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let outer = openpt(flags).map_err(fail("make"))?;
    grantpt(&outer).and_then(|()| unlockpt(&outer)).map_err(fail("unlock"))?;
    let inner = ioctl_tiocgptpeer(&outer, flags).map_err(fail("open"))?;
    Ok((outer, inner))
}

/// Remembers the terminal's foreground group and restores it on drop.
pub struct Foreground<'a> {
    terminal: BorrowedFd<'a>,
    group: Pid,
}

impl<'a> Foreground<'a> {
    /// `None` when `terminal` is no terminal, or this process is not in its foreground group.
    pub fn remember(terminal: &'a impl AsFd) -> Option<Foreground<'a>> {
        let terminal = terminal.as_fd();
        let group = rustix::process::getpgrp();
        let front = rustix::termios::tcgetpgrp(terminal).ok()?;
        (front == group).then_some(Foreground { terminal, group })
    }

    /// Gives the terminal to another process group.
    pub fn give(&self, group: Pid) {
        // The caller is in the foreground, so no SIGTTOU; a refusal leaves the terminal unchanged.
        let _ = rustix::termios::tcsetpgrp(self.terminal, group);
    }
}

impl Drop for Foreground<'_> {
    fn drop(&mut self) {
        crate::process::set_ignored(libc::SIGTTOU, true);
        let _ = rustix::termios::tcsetpgrp(self.terminal, self.group);
        crate::process::set_ignored(libc::SIGTTOU, false);
    }
}

/// Makes the program of `command` lead a process group of its own, in the foreground of its session's `terminal`. Its
/// parent must be in the same session, so that the program can stop and continue (job control).
pub fn start_in_foreground(command: &mut Command, terminal: OwnedFd) {
    let own_group = move || {
        rustix::process::setpgid(None, None)?;
        let ignored = crate::disposition::is_ignored(libc::SIGTTOU);
        crate::process::set_ignored(libc::SIGTTOU, true);
        let given = rustix::termios::tcsetpgrp(&terminal, rustix::process::getpid());
        crate::process::set_ignored(libc::SIGTTOU, ignored);
        given.map_err(std::io::Error::from)
    };
    // SAFETY: between fork and exec it makes system calls alone, and allocates nothing.
    unsafe { command.pre_exec(own_group) };
}

/// A terminal in raw mode; restored on drop.
pub struct Raw<'a> {
    terminal: BorrowedFd<'a>,
    before: rustix::termios::Termios,
}

impl<'a> Raw<'a> {
    /// `None` when `terminal` is no terminal, or is gone.
    pub fn set(terminal: BorrowedFd<'a>) -> Option<Raw<'a>> {
        let before = rustix::termios::tcgetattr(terminal).ok()?;
        let mut raw = before.clone();
        raw.make_raw();
        change(terminal, &raw)?;
        Some(Raw { terminal, before })
    }
}

impl Drop for Raw<'_> {
    fn drop(&mut self) {
        // A terminal that is gone needs nothing.
        let _ = change(self.terminal, &self.before);
    }
}

/// Pending output is written in the old mode first. Also works from the background.
fn change(terminal: BorrowedFd<'_>, to: &rustix::termios::Termios) -> Option<()> {
    use rustix::termios::{OptionalActions, tcsetattr};
    let ignored = crate::disposition::is_ignored(libc::SIGTTOU);
    crate::process::set_ignored(libc::SIGTTOU, true);
    let changed = tcsetattr(terminal, OptionalActions::Drain, to);
    crate::process::set_ignored(libc::SIGTTOU, ignored);
    changed.ok()
}
