//! Signal dispositions of a process, and those inherited from its caller.
//!
//! An ignored signal stays ignored through fork(2) and execve(2): in this way a caller tells a
//! program not to end by it. A non-interactive shell starts background jobs with SIGINT and SIGQUIT
//! ignored; nohup(1) ignores SIGHUP. See signal(7); POSIX.1-2024, XCU 1.4, "Asynchronous Events",
//! and 2.11.

use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

use crate::{Result, process};

/// Signals that end a program running until told to stop, unless its caller ignored them.
const ENDING_UNLESS_IGNORED: [i32; 2] = [libc::SIGINT, libc::SIGHUP];

/// The last standard (not real-time) signal.
const LAST_PLAIN: i32 = 31;

/// Whether this process ignores a signal: inherited, unless it has asked for it itself.
pub fn is_ignored(signal: i32) -> bool {
    let mut now = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: nothing is set; the kernel writes the disposition into `now`, which outlives the call.
    let asked = unsafe { libc::sigaction(signal, std::ptr::null(), now.as_mut_ptr()) };
    // SAFETY: `now` was zeroed, which is valid for all its fields, and the call wrote it or nothing.
    let now = unsafe { now.assume_init() };
    asked == 0 && now.sa_sigaction == libc::SIG_IGN
}

/// Catches the signals that end a program running until told to stop, for a
/// [`signalfd`](process::signalfd): SIGTERM always, SIGINT and SIGHUP unless the caller ignored them.
///
/// # Errors
/// The kernel's error.
pub fn catch_ending() -> Result<OwnedFd> {
    let heeded = ENDING_UNLESS_IGNORED.into_iter().filter(|signal| !is_ignored(*signal));
    let caught: Vec<i32> = heeded.chain([libc::SIGTERM]).collect();
    process::catch(&caught)
}

/// Resets every signal to its default except SIGPIPE, which Rust programs ignore: for long-lived
/// processes, which must not depend on who called.
pub fn restore_defaults() {
    for signal in (1..=LAST_PLAIN).filter(|signal| *signal != libc::SIGPIPE) {
        process::set_ignored(signal, false);
    }
}

/// Starts a program with every signal at its default, whatever this process's dispositions.
///
/// # Errors
/// As [`Command::spawn`].
pub fn spawn_with_defaults(command: &mut Command) -> std::io::Result<Child> {
    // SAFETY: between fork and exec it calls only signal(2), which is async-signal-safe.
    unsafe {
        command.pre_exec(|| {
            restore_defaults();
            Ok(())
        })
    };
    command.spawn()
}

/// Makes the program of `command` start with no signal blocked, whatever this process's mask, which a program inherits;
/// and end when the thread that starts it does.
pub fn start_mortal(command: &mut Command) {
    // SAFETY: between fork and exec it calls only sigprocmask(2) and prctl(2), which are async-signal-safe.
    unsafe {
        command.pre_exec(|| {
            process::unblock_signals();
            rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
                .map_err(std::io::Error::from)
        })
    };
}

/// Makes the program of `command` start with no signal blocked, and get SIGTERM when the thread that starts it ends.
pub fn start_following(command: &mut Command) {
    // SAFETY: between fork and exec it calls only sigprocmask(2) and prctl(2), which are async-signal-safe.
    unsafe {
        command.pre_exec(|| {
            process::unblock_signals();
            rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::TERM))
                .map_err(std::io::Error::from)
        })
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_caller_ignores_is_seen() {
        // No other test of this process uses this signal.
        process::set_ignored(libc::SIGUSR2, true);
        assert!(is_ignored(libc::SIGUSR2));
        process::set_ignored(libc::SIGUSR2, false);
        assert!(!is_ignored(libc::SIGUSR2));
        assert!(!is_ignored(0) && !is_ignored(libc::SIGKILL));
    }

    #[test]
    fn programs_start_with_defaults_whatever_holds_here() {
        process::set_ignored(libc::SIGUSR1, true);
        // Without a shell: busybox's ignores SIGQUIT, and is its own grep.
        let mut command = Command::new("grep");
        command.args(["^SigIgn", "/proc/self/status"]).stdout(std::process::Stdio::piped());
        let done = spawn_with_defaults(&mut command).unwrap().wait_with_output().unwrap();
        process::set_ignored(libc::SIGUSR1, false);
        let text = String::from_utf8(done.stdout).unwrap();
        let bits = text.split_ascii_whitespace().last().unwrap();
        // C libraries reserve the first real-time signals.
        assert_eq!(u64::from_str_radix(bits, 16).unwrap() & 0x7fff_ffff, 0, "{text}");
    }
}
