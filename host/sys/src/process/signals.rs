//! Signals of this process: masks, dispositions, and a descriptor that reports them. See signalfd(2).

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::process::Signal;

use crate::{Failure, Result};

/// Signals by which users talk to a program; a process that runs it in their place passes them on.
pub const FOR_PROGRAMS: [Signal; 6] =
    [Signal::TERM, Signal::HUP, Signal::USR1, Signal::USR2, Signal::ALARM, Signal::CONT];

/// Signals of a terminal's keys: a program that shares the terminal's foreground gets them by itself.
pub const OF_KEYS: [Signal; 2] = [Signal::INT, Signal::QUIT];

/// Blocks every signal for this thread; programs started later must unblock them.
pub fn block_signals() {
    set_mask(libc::SIG_BLOCK);
}

/// Unblocks every signal for this thread.
pub fn unblock_signals() {
    set_mask(libc::SIG_UNBLOCK);
}

/// Runs `f` with no signal blocked, for starting a program: it inherits the mask.
pub fn with_open_mask<T>(f: impl FnOnce() -> T) -> T {
    let mut old = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    let mut none = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigemptyset initialises the set it is given.
    unsafe { libc::sigemptyset(none.as_mut_ptr()) };
    // SAFETY: none was initialised above; old is written by the kernel.
    unsafe { libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), old.as_mut_ptr()) };
    let result = f();
    // SAFETY: old was written by the call above, which cannot fail with these arguments.
    unsafe { libc::sigprocmask(libc::SIG_SETMASK, old.as_ptr(), std::ptr::null_mut()) };
    result
}

fn set_mask(how: i32) {
    let mut set = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigfillset initialises the set it is given.
    unsafe { libc::sigfillset(set.as_mut_ptr()) };
    // SAFETY: the set was initialised above; no old mask is asked for.
    unsafe { libc::sigprocmask(how, set.as_ptr(), std::ptr::null_mut()) };
}

/// A descriptor that becomes readable when one of `signals` is pending. They must be blocked.
pub fn signalfd(signals: &[i32]) -> Result<OwnedFd> {
    use std::os::fd::FromRawFd;
    let set = signal_set(signals);
    // SAFETY: the set is initialised and only read.
    let fd = unsafe { libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
    if fd < 0 {
        return Err(Failure::new("signalfd", "create", io::Error::last_os_error()).into());
    }
    // SAFETY: the kernel has just given us this descriptor and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn signal_set(signals: &[i32]) -> libc::sigset_t {
    let mut set = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigemptyset initialises the set it is given.
    unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    for signal in signals {
        // SAFETY: the set was initialised above; a wrong number is refused with EINVAL.
        unsafe { libc::sigaddset(set.as_mut_ptr(), *signal) };
    }
    // SAFETY: the set was initialised above.
    unsafe { set.assume_init() }
}

/// Sets this process's disposition of a signal: ignored, or the default.
pub fn set_ignored(signal: i32, ignore: bool) {
    // SAFETY: SIG_IGN and SIG_DFL install no code of ours.
    unsafe { libc::signal(signal, if ignore { libc::SIG_IGN } else { libc::SIG_DFL }) };
}

/// A signal that was pending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Its number.
    pub number: i32,
    /// Whether a process sent it with kill(2) or the like. Signals of a terminal's keys come from the kernel.
    pub by_process: bool,
}

/// The number of the next pending signal of a [`signalfd`], without waiting.
pub fn next_signal(fd: impl AsFd) -> Option<i32> {
    next_sent(fd).map(|sent| sent.number)
}

/// The next pending signal of a [`signalfd`], and where it comes from, without waiting.
pub fn next_sent(fd: impl AsFd) -> Option<Sent> {
    // `struct signalfd_siginfo`: the signal's number, an errno, the code.
    let mut info = [0u8; 128];
    match rustix::io::read(fd, &mut info) {
        Ok(n) if n == info.len() => {
            let number = u32::from_ne_bytes([info[0], info[1], info[2], info[3]]);
            let code = i32::from_ne_bytes([info[8], info[9], info[10], info[11]]);
            // `SI_FROMUSER` of the kernel.
            Some(Sent { number: i32::try_from(number).ok()?, by_process: code <= 0 })
        }
        _ => None,
    }
}

/// Blocks `signals`, so that they no longer act, and returns a [`signalfd`] that reports them.
pub fn catch(signals: &[i32]) -> Result<OwnedFd> {
    let set = signal_set(signals);
    // SAFETY: the set is initialised and only read; no old mask is asked for.
    unsafe { libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) };
    signalfd(signals)
}
