//! The controlling terminal: its foreground group, for programs that run in a node or under guard, and raw mode.
//!
//! A shell in a node takes the terminal for its own process group; when it has ended, the terminal
//! is taken back, so that the caller's shell continues as before. See tcsetpgrp(3), setpgid(2).

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use rustix::fs::{Mode, OFlags};
use rustix::process::Pid;
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{
    ControlModes, InputModes, LocalModes, OptionalActions, OutputModes, Termios, tcgetattr,
    tcsetattr,
};

use crate::{Failure, Result};

/// A new terminal: the side that shows it, and the side of the program in it (pty(7)). It becomes nobody's controlling
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
    /// `None` when `terminal` is not a terminal, or this process is not in its foreground group.
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
        // A terminal that is gone needs nothing.
        let _ = unstopped(|| rustix::termios::tcsetpgrp(self.terminal, self.group));
    }
}

/// Does something with a terminal that would stop a process in the background which does not ignore SIGTTOU
/// (tcsetpgrp(3)); the signal's disposition is as before afterwards. It allocates nothing.
fn unstopped<T>(act: impl FnOnce() -> T) -> T {
    let ignored = crate::disposition::is_ignored(libc::SIGTTOU);
    crate::process::set_ignored(libc::SIGTTOU, true);
    let result = act();
    crate::process::set_ignored(libc::SIGTTOU, ignored);
    result
}

/// Makes the program of `command` lead a process group of its own, in the foreground of its session's `terminal`. Its
/// parent must be in the same session, so that the program can stop and continue (job control).
pub fn start_in_foreground(command: &mut Command, terminal: OwnedFd) {
    let own_group = move || {
        rustix::process::setpgid(None, None)?;
        // The new group is in the background until this has moved it.
        let own = rustix::process::getpid();
        let given = unstopped(|| rustix::termios::tcsetpgrp(&terminal, own));
        given.map_err(std::io::Error::from)
    };
    // SAFETY: between fork and exec it makes system calls alone, and allocates nothing.
    unsafe { command.pre_exec(own_group) };
}

/// A session's terminal once more, by its own name: `/dev/tty` is one file for all terminals, so that nothing can be said of
/// one of them by it, such as a lock. `None` where it has no name.
pub fn by_its_name(terminal: impl AsFd) -> Option<OwnedFd> {
    /// `TIOCGDEV` of ioctl_tty(2), which libc does not have.
    const DEVICE: libc::Ioctl = 0x8004_5432u32 as libc::Ioctl;
    /// Terminals of devpts (linux/major.h, `UNIX98_PTY_SLAVE_MAJOR`).
    const PSEUDO: u32 = 136;
    let mut device = 0_u32;
    // SAFETY: the request writes a number of 4 bytes, which `device` has.
    let told = unsafe { libc::ioctl(terminal.as_fd().as_raw_fd(), DEVICE, &raw mut device) };
    // As linux/kdev_t.h has it (`new_encode_dev`).
    let (major, minor) = (device >> 8 & 0xFFF, device & 0xFF | device >> 12 & 0xF_FF00);
    let name = match major {
        PSEUDO => format!("/dev/pts/{minor}").into(),
        _ => {
            let entry = std::fs::read_link(format!("/sys/dev/char/{major}:{minor}")).ok()?;
            Path::new("/dev").join(entry.file_name()?)
        }
    };
    let flags = OFlags::RDONLY | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let named = rustix::fs::open(&name, flags, Mode::empty()).ok().filter(|_| told == 0)?;
    let found = rustix::fs::fstat(&named).ok()?.st_rdev;
    ((rustix::fs::major(found), rustix::fs::minor(found)) == (major, minor)).then_some(named)
}

/// A terminal in raw mode; restored on drop, unless another process had it in raw mode before, and is to restore it.
pub struct Raw<'a> {
    terminal: BorrowedFd<'a>,
    before: Option<Termios>,
}

impl<'a> Raw<'a> {
    /// `None` when `terminal` is not a terminal, or is gone.
    pub fn set(terminal: BorrowedFd<'a>) -> Option<Raw<'a>> {
        let before = tcgetattr(terminal).ok()?;
        let mut raw = before.clone();
        raw.make_raw();
        if modes(&raw) == modes(&before) {
            return Some(Raw { terminal, before: None });
        }
        change(terminal, &raw)?;
        Some(Raw { terminal, before: Some(before) })
    }

    /// Sets it again if another process, which had it in raw mode before, has restored it.
    pub fn renew(&mut self) {
        let lines = LocalModes::ICANON | LocalModes::ECHO;
        let is_back = tcgetattr(self.terminal).is_ok_and(|now| now.local_modes.intersects(lines));
        if is_back && let Some(mut again) = Raw::set(self.terminal) {
            self.before = again.before.take();
        }
    }
}

fn modes(of: &Termios) -> (InputModes, OutputModes, ControlModes, LocalModes) {
    (of.input_modes, of.output_modes, of.control_modes, of.local_modes)
}

impl Drop for Raw<'_> {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            // A terminal that is gone needs nothing.
            let _ = change(self.terminal, before);
        }
    }
}

/// Pending output is written in the old mode first. Also works from the background.
fn change(terminal: BorrowedFd<'_>, to: &Termios) -> Option<()> {
    unstopped(|| tcsetattr(terminal, OptionalActions::Drain, to)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_ignored_before_is_ignored_afterwards() {
        for ignored in [true, false] {
            crate::process::set_ignored(libc::SIGTTOU, ignored);
            assert!(unstopped(|| crate::disposition::is_ignored(libc::SIGTTOU)));
            assert_eq!(crate::disposition::is_ignored(libc::SIGTTOU), ignored);
        }
        let (_outer, inner) = pair().unwrap();
        crate::process::set_ignored(libc::SIGTTOU, true);
        drop(Foreground { terminal: inner.as_fd(), group: rustix::process::getpgrp() });
        assert!(crate::disposition::is_ignored(libc::SIGTTOU));
        crate::process::set_ignored(libc::SIGTTOU, false);
    }
}
