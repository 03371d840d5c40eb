//! A process between a supervisor and its program, which ends the program and all that it started when the supervisor ends.
//!
//! Without a supervisor nothing is let through (the calls fail with ENOSYS), but programs would linger. The keeper
//! is the reaper of what they leave behind (`PR_SET_CHILD_SUBREAPER`), so that nothing leaves its tree. It holds no
//! descriptor of theirs, hands on the signals that the supervisor sends, and ends as the program does; the program
//! ends if the keeper is killed.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::Signal;

use crate::process::{
    block_signals, close_all_but, end_descendants, exit_now, pidfd, signalfd, unblock_signals,
};

/// Forks. The new process returns from here, and is to become the program; this one becomes its keeper.
///
/// To be called in a process of one thread, which the supervisor has forked.
pub(super) fn stand_between() -> io::Result<()> {
    let supervisor = supervisor()?;
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    // SAFETY: this process has one thread.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
            Ok(())
        }
        program => keep(program, &supervisor),
    }
}

/// The process that forked this one.
fn supervisor() -> io::Result<OwnedFd> {
    let gone = || io::Error::from_raw_os_error(libc::ESRCH);
    let parent = rustix::process::getppid().ok_or_else(gone)?;
    let opened = pidfd(parent).map_err(|_| gone())?;
    // Else the id may have been another process's already.
    if rustix::process::getppid() == Some(parent) { Ok(opened) } else { Err(gone()) }
}

/// The keeper's life.
fn keep(program: libc::pid_t, supervisor: &OwnedFd) -> ! {
    block_signals();
    let all: Vec<i32> = (1..=64).collect();
    let Ok(signals) = signalfd(&all) else { end_all() };
    for fd in 0..3 {
        // SAFETY: nobody uses the standard descriptors in this process any more.
        unsafe { libc::close(fd) };
    }
    close_all_but(&[supervisor.as_fd(), signals.as_fd()]);
    // One that ended before its signal was blocked tells no more of it.
    reap(program);
    loop {
        let mut polled =
            [PollFd::new(supervisor, PollFlags::IN), PollFd::new(&signals, PollFlags::IN)];
        // Signals are blocked; any other error shows again.
        let _ = poll(&mut polled, None);
        if !polled[0].revents().is_empty() {
            end_all();
        }
        hand_on(&signals, program);
        reap(program);
    }
}

/// Passes signals on that a process sent to this one alone; those of a terminal reach the program by themselves.
fn hand_on(signals: &OwnedFd, program: libc::pid_t) {
    let mut info = [0u8; size_of::<libc::signalfd_siginfo>()];
    while rustix::io::read(signals, &mut info).is_ok_and(|length| length == info.len()) {
        let word =
            |at: usize| i32::from_ne_bytes([info[at], info[at + 1], info[at + 2], info[at + 3]]);
        // `ssi_signo` and `ssi_code` of signalfd(2).
        let (number, code) = (word(0), word(8));
        if number != libc::SIGCHLD && code == libc::SI_USER {
            // SAFETY: sends a signal, and touches no memory. The program has not been waited for.
            unsafe { libc::kill(program, number) };
        }
    }
}

/// Waits for what has ended, and ends as the program did.
fn reap(program: libc::pid_t) {
    loop {
        let mut status = 0;
        // SAFETY: writes a status to this variable.
        let ended = unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) };
        match ended {
            0 | -1 => return,
            ended if ended == program => end_like(status),
            _ => {}
        }
    }
}

fn end_like(status: i32) -> ! {
    if libc::WIFEXITED(status) {
        exit_now(libc::WEXITSTATUS(status));
    }
    let number = libc::WTERMSIG(status);
    // The program has left its own core.
    let none = rustix::process::Rlimit { current: Some(0), maximum: Some(0) };
    let _ = rustix::process::setrlimit(rustix::process::Resource::Core, none);
    crate::process::set_ignored(number, false);
    unblock_signals();
    // SAFETY: sends a signal to this process.
    unsafe { libc::raise(number) };
    exit_now(128 + number)
}

/// Ends every process below this one, also what those start meanwhile, and then this one.
fn end_all() -> ! {
    end_descendants();
    exit_now(128 + libc::SIGKILL)
}
