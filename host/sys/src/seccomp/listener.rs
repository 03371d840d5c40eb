//! Notified calls: receive, answer, and put a descriptor in the caller's place.
//!
//! A call that is received waits until it is answered, even while signals arrive for its thread, unless the signal
//! kills (`WAIT_KILLABLE_RECV`). Between its notification and its receipt a signal interrupts it, and the
//! kernel notifies it again if it restarts. When the listener is closed, waiting and later calls fail with
//! ENOSYS: nothing is let through.

use std::io;
use std::mem::zeroed;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};

use super::program::{Filter, Machine};
use crate::{Error, Failure, Result};

/// A call that waits for its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// The notification's number; never used again while the listener lives.
    pub id: u64,
    /// The calling thread, in the PID namespace of the listener; 0 if it is not in there.
    pub tid: i32,
    /// The machine, which decides what numbers and structures mean.
    pub machine: Machine,
    /// The call's number on that machine.
    pub number: u32,
    /// The registers of its arguments.
    pub arguments: [u64; 6],
}

/// What a call returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Runs as it is. Only for decisions on registers: memory and descriptors may change until it runs.
    Continue,
    /// Returns this value.
    Value(i64),
    /// Fails with this error, positive.
    Errno(i32),
    /// Is interrupted by a signal that waits, and restarts or fails with EINTR as the signal's handler was
    /// installed: ERESTARTSYS. Without a signal that waits, the program would see error 512.
    Interrupted,
}

/// The kernel's ERESTARTSYS (linux/errno.h): not for programs' eyes.
const RESTART: i32 = 512;

/// Installs a filter in this thread, and gives its listener. Children inherit the filter; nobody can remove it.
///
/// The second value says whether received calls wait through signals that do not kill (Linux 5.19 and later).
///
/// # Errors
/// EACCES without `CAP_SYS_ADMIN` and no_new_privs; EBUSY if a filter with a listener is installed already; EINVAL or
/// ENOSYS on a kernel without notifications.
pub fn install(filter: &Filter) -> Result<(Listener, bool)> {
    match install_with(filter, libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV) {
        // Before Linux 5.19 the flag is unknown.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            Ok((Listener(install_with(filter, 0)?), false))
        }
        installed => Ok((Listener(installed?), true)),
    }
}

fn install_with(filter: &Filter, flags: libc::c_ulong) -> Result<OwnedFd> {
    let fd = set(filter, flags | libc::SECCOMP_FILTER_FLAG_NEW_LISTENER)?;
    // SAFETY: the kernel gave this descriptor to this call alone.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Installs a filter without a listener in this thread, which must have no_new_privs or `CAP_SYS_ADMIN`. Children inherit
/// it; nobody can remove it.
///
/// # Errors
/// As [`install`], without EBUSY.
pub fn restrict(filter: &Filter) -> Result<()> {
    set(filter, 0).map(drop)
}

fn set(filter: &Filter, flags: libc::c_ulong) -> Result<i32> {
    let code = filter.instructions();
    let program = libc::sock_fprog {
        len: u16::try_from(code.len()).unwrap_or(u16::MAX),
        filter: code.as_ptr().cast_mut(),
    };
    let mode = libc::SECCOMP_SET_MODE_FILTER;
    // SAFETY: the kernel reads `len` instructions, which `filter` holds until this returns, and writes none.
    let fd = unsafe { libc::syscall(libc::SYS_seccomp, mode, flags, &raw const program) };
    i32::try_from(fd).ok().filter(|fd| *fd >= 0).ok_or_else(last("install"))
}

fn last(operation: &'static str) -> impl FnOnce() -> Error {
    move || Failure::new("system call filter", operation, io::Error::last_os_error()).into()
}

/// The side that answers.
#[derive(Debug)]
pub struct Listener(OwnedFd);

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl From<OwnedFd> for Listener {
    /// A listener that came from another process.
    fn from(fd: OwnedFd) -> Self {
        Listener(fd)
    }
}

impl From<Listener> for OwnedFd {
    fn from(listener: Listener) -> Self {
        listener.0
    }
}

impl Listener {
    /// Wakes and runs the answering thread on the caller's CPU, which saves a wake-up on another one
    /// (Linux 6.6 and later; ignored before).
    pub fn wake_synchronously(&self) {
        let flag: u64 = 1;
        // SAFETY: the request takes a number of 8 bytes by value.
        unsafe { libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SET_FLAGS, flag) };
    }

    /// Waits for a call; `None` when no process has the filter any more.
    ///
    /// Calls that vanish before they are received are passed over. Calls of machines that the filter does not
    /// know cannot occur, since it refuses them itself.
    ///
    /// # Errors
    /// A refusal of the kernel; EINTR is none.
    pub fn receive(&self) -> Result<Option<Call>> {
        loop {
            if !self.is_in_use()? {
                return Ok(None);
            }
            match self.take() {
                Ok(Some(call)) => return Ok(Some(call)),
                Ok(None) => {}
                Err(error) => return Err(receiving(error)),
            }
        }
    }

    /// Waits for a call, as one of several threads, of which the kernel wakes one for each call; `None` after `ended`.
    ///
    /// On kernels before Linux 6.11 a thread may wait here when no process has the filter any more: the thread that sets
    /// `ended` interrupts it.
    ///
    /// # Errors
    /// As [`Listener::receive`].
    pub fn next(&self, ended: &AtomicBool) -> Result<Option<Call>> {
        while !ended.load(Ordering::SeqCst) {
            match self.take() {
                Ok(Some(call)) => return Ok(Some(call)),
                Ok(None) if self.is_unused(Duration::ZERO) => return Ok(None),
                Ok(None) => {}
                Err(error) => return Err(receiving(error)),
            }
        }
        Ok(None)
    }

    /// A call, waiting for one; `None` if the wait was interrupted, or the call vanished.
    fn take(&self) -> io::Result<Option<Call>> {
        // SAFETY: a structure of integers; the kernel demands zeroes.
        let mut got: libc::seccomp_notif = unsafe { zeroed() };
        // SAFETY: the request writes a seccomp_notif, whose size is part of its number.
        let done = unsafe {
            libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut got)
        };
        if done == 0 {
            let call = call_of(&got);
            if call.is_none() {
                // Nobody else would answer it, and its thread would wait for ever.
                drop(self.answer(got.id, Outcome::Errno(libc::ENOSYS)));
            }
            return Ok(call);
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EINTR | libc::ENOENT) => Ok(None),
            _ => Err(error),
        }
    }

    /// Waits until there is a call; false when no process has the filter any more.
    fn is_in_use(&self) -> Result<bool> {
        let mut polled = [PollFd::new(&self.0, PollFlags::IN)];
        match poll(&mut polled, None) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return Ok(true),
            Err(error) => return Err(receiving(error.into())),
        }
        Ok(polled[0].revents().contains(PollFlags::IN)
            || !polled[0].revents().contains(PollFlags::HUP))
    }

    /// Waits for at most `span` until no process has the filter any more; calls do not end this wait.
    pub fn is_unused(&self, span: Duration) -> bool {
        let mut polled = [PollFd::new(&self.0, PollFlags::empty())];
        let polls = poll(&mut polled, Some(&crate::process::timespec(span)));
        polls.is_ok() && polled[0].revents().contains(PollFlags::HUP)
    }

    /// Whether a received call still waits for its answer.
    pub fn is_waiting(&self, id: u64) -> bool {
        // SAFETY: the request reads a number of 8 bytes.
        let valid = unsafe {
            libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_ID_VALID, &raw const id)
        };
        valid == 0
    }

    /// Answers a call; false if it vanished, for instance because its thread was killed.
    ///
    /// # Errors
    /// A refusal of the kernel.
    pub fn answer(&self, id: u64, outcome: Outcome) -> Result<bool> {
        let (val, error, flags) = match outcome {
            // SECCOMP_USER_NOTIF_FLAG_CONTINUE.
            Outcome::Continue => (0, 0, 1),
            Outcome::Value(value) => (value, 0, 0),
            Outcome::Errno(errno) => (0, -errno, 0),
            Outcome::Interrupted => (0, -RESTART, 0),
        };
        let answer = libc::seccomp_notif_resp { id, val, error, flags };
        // SAFETY: the request reads a seccomp_notif_resp, whose size is part of its number.
        let done = unsafe {
            libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND, &raw const answer)
        };
        delivered(done, "answer a call of").map(|done| done.is_some())
    }

    /// Answers a call with a new descriptor of `fd`'s description; false if the call vanished.
    ///
    /// # Errors
    /// EMFILE if the caller may have no more descriptors; other refusals.
    pub fn answer_with(&self, id: u64, fd: BorrowedFd<'_>, close_on_exec: bool) -> Result<bool> {
        let place = libc::seccomp_notif_addfd {
            id,
            flags: 2, // SECCOMP_ADDFD_FLAG_SEND
            srcfd: fd.as_raw_fd().unsigned_abs(),
            newfd: 0,
            newfd_flags: if close_on_exec { libc::O_CLOEXEC.unsigned_abs() } else { 0 },
        };
        // SAFETY: the request reads a seccomp_notif_addfd, whose size is part of its number; `fd` is open.
        let done = unsafe {
            libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_ADDFD, &raw const place)
        };
        delivered(done, "give a descriptor to a call of").map(|done| done.is_some())
    }

    /// Puts a new descriptor of `fd`'s description in the place of the caller's descriptor `number`, before the call is
    /// answered; false if the call vanished.
    ///
    /// # Errors
    /// A refusal of the kernel.
    pub fn replace(
        &self,
        id: u64,
        fd: BorrowedFd<'_>,
        number: i32,
        close_on_exec: bool,
    ) -> Result<bool> {
        let place = libc::seccomp_notif_addfd {
            id,
            flags: 1, // SECCOMP_ADDFD_FLAG_SETFD
            srcfd: fd.as_raw_fd().unsigned_abs(),
            newfd: number.cast_unsigned(),
            newfd_flags: if close_on_exec { libc::O_CLOEXEC.unsigned_abs() } else { 0 },
        };
        // SAFETY: the request reads a seccomp_notif_addfd, whose size is part of its number; `fd` is open.
        let done = unsafe {
            libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_ADDFD, &raw const place)
        };
        delivered(done, "replace a descriptor of a call of").map(|done| done.is_some())
    }

    /// Waits until the listener has something to receive, or `span` has gone by.
    pub fn wait(&self, span: Duration) -> bool {
        crate::process::wait_readable(&self.0, span)
    }
}

/// The result of an answer; `None` if the call had vanished.
fn delivered(done: i32, operation: &'static str) -> Result<Option<i32>> {
    if done >= 0 {
        return Ok(Some(done));
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        // EINPROGRESS: answered by another thread; ENOENT: gone.
        Some(libc::ENOENT | libc::EINPROGRESS) => Ok(None),
        _ => Err(Failure::new("system call filter", operation, error).into()),
    }
}

fn receiving(source: io::Error) -> Error {
    Failure::new("system call filter", "receive a call of", source).into()
}

fn call_of(got: &libc::seccomp_notif) -> Option<Call> {
    Some(Call {
        id: got.id,
        tid: i32::try_from(got.pid).ok()?,
        machine: Machine::of(got.data.arch)?,
        number: u32::try_from(got.data.nr).ok()?,
        arguments: got.data.args,
    })
}
