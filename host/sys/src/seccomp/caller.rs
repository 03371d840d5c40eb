//! The thread that made a call: its memory and its descriptors, read once.
//!
//! Thread ids are used again, so a [`Caller`] is only trusted after the listener said that the call still waits
//! (seccomp_unotify(2)). Descriptors are duplicated from the thread's own table, which need not be its process's
//! (`CLONE_FILES`, `unshare(2)`): by `PIDFD_THREAD` where the kernel has it (Linux 6.9), else by the process
//! if the two tables are the same (kcmp(2)).

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::process::Pid;

use super::listener::{Call, Listener};
use crate::{Error, Failure, Result};

/// pidfd_open(2): the thread and not its process (linux/pidfd.h).
pub(super) const PIDFD_THREAD: libc::c_uint = libc::O_EXCL.unsigned_abs();
/// kcmp(2): compares tables of descriptors (linux/kcmp.h).
const KCMP_FILES: libc::c_int = 2;

/// A thread whose call waits.
#[derive(Debug)]
pub struct Caller {
    tid: i32,
    pidfd: Arc<OwnedFd>,
}

/// The last threads that made calls: to open one takes as long as half of its call.
#[derive(Debug)]
pub struct Callers([Mutex<Option<Known>>; Callers::PLACES]);

/// A thread, and its pidfd.
type Known = (i32, Arc<OwnedFd>);

impl Default for Callers {
    fn default() -> Self {
        Callers(std::array::from_fn(|_| Mutex::new(None)))
    }
}

impl Callers {
    const PLACES: usize = 64;

    /// The thread of `call`; `None` if the call has vanished.
    ///
    /// # Errors
    /// As [`Caller::of`].
    pub fn of(&self, listener: &Listener, call: &Call) -> Result<Option<Caller>> {
        let at = usize::try_from(call.tid).unwrap_or(0) % Self::PLACES;
        let mut place = self.0[at].lock().unwrap_or_else(PoisonError::into_inner);
        // A thread of that id that lives is the caller. Of one that has ended the id may be the caller's by now.
        let known = place.as_ref().filter(|(tid, pidfd)| *tid == call.tid && is_there(pidfd));
        if let Some((tid, pidfd)) = known {
            let pidfd = Arc::clone(pidfd);
            return Ok(listener.is_waiting(call.id).then_some(Caller { tid: *tid, pidfd }));
        }
        let caller = Caller::of(listener, call)?;
        *place = caller.as_ref().map(|caller| (caller.tid, Arc::clone(&caller.pidfd)));
        Ok(caller)
    }
}

/// Whether a thread has not been waited for.
fn is_there(pidfd: &OwnedFd) -> bool {
    let none = std::ptr::null::<libc::siginfo_t>();
    // SAFETY: sends no signal, and touches no memory.
    let sent = unsafe { libc::syscall(libc::SYS_pidfd_send_signal, pidfd.as_raw_fd(), 0, none, 0) };
    sent == 0 || io::Error::last_os_error().raw_os_error() == Some(libc::EPERM)
}

impl Caller {
    /// The thread of `call`; `None` if the call has vanished.
    ///
    /// # Errors
    /// The thread's descriptors cannot be reached without a mix-up: it has a table of its own, on a kernel that
    /// cannot name threads.
    pub fn of(listener: &Listener, call: &Call) -> Result<Option<Caller>> {
        let opened = open(call.tid);
        // Only now is the id known to be the caller's and not that of a later thread.
        if !listener.is_waiting(call.id) {
            return Ok(None);
        }
        opened.map(|pidfd| Some(Caller { tid: call.tid, pidfd: Arc::new(pidfd) }))
    }

    /// A duplicate of descriptor `fd` of the thread, closed on exec.
    ///
    /// # Errors
    /// EBADF if it has none of that number; EPERM if it may not be traced.
    pub fn descriptor(&self, fd: i32) -> Result<OwnedFd> {
        let raw = self.pidfd.as_raw_fd();
        // SAFETY: takes and gives descriptors, and touches no memory.
        let got = unsafe { libc::syscall(libc::SYS_pidfd_getfd, raw, fd, 0) };
        owned(got).ok_or_else(|| self.last("duplicate a descriptor of"))
    }

    /// Fills `buffer` from `address` of the thread's memory.
    ///
    /// # Errors
    /// EFAULT if not all of it can be read; EPERM if the thread may not be traced.
    pub fn read<'b>(&self, address: u64, buffer: &'b mut [MaybeUninit<u8>]) -> Result<&'b [u8]> {
        let length = buffer.len();
        let ours = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: length };
        let theirs = remote(address, length).ok_or_else(|| self.fault())?;
        // SAFETY: the kernel writes at most `length` bytes to `buffer`, which is that long.
        let got = unsafe {
            libc::process_vm_readv(self.tid, &raw const ours, 1, &raw const theirs, 1, 0)
        };
        match usize::try_from(got) {
            Ok(got) if got == length => {
                // SAFETY: the kernel wrote all of these bytes.
                Ok(unsafe { std::slice::from_raw_parts(buffer.as_ptr().cast(), length) })
            }
            Ok(_) => Err(self.fault()),
            Err(_) => Err(self.last("read memory of")),
        }
    }

    /// `length` bytes from `address` of the thread's memory.
    ///
    /// # Errors
    /// As [`Caller::read`].
    pub fn bytes(&self, address: u64, length: usize) -> Result<Vec<u8>> {
        let mut buffer = Vec::with_capacity(length);
        self.read(address, &mut buffer.spare_capacity_mut()[..length])?;
        // SAFETY: `read` filled all `length` bytes, and the capacity is at least that.
        unsafe { buffer.set_len(length) };
        Ok(buffer)
    }

    /// Writes `bytes` to `address` of the thread's memory.
    ///
    /// # Errors
    /// As [`Caller::read`].
    pub fn write(&self, address: u64, bytes: &[u8]) -> Result<()> {
        let ours = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        let theirs = remote(address, bytes.len()).ok_or_else(|| self.fault())?;
        // SAFETY: the kernel reads `bytes` and writes to the other process, whose memory is not ours.
        let put = unsafe {
            libc::process_vm_writev(self.tid, &raw const ours, 1, &raw const theirs, 1, 0)
        };
        match usize::try_from(put) {
            Ok(put) if put == bytes.len() => Ok(()),
            Ok(_) => Err(self.fault()),
            Err(_) => Err(self.last("write memory of")),
        }
    }

    /// The thread's id.
    pub fn tid(&self) -> i32 {
        self.tid
    }

    /// The id of the thread's process; 0 if the thread is gone.
    pub fn process(&self) -> i32 {
        process_of(self.tid).map_or(0, |pid| pid.as_raw_nonzero().get())
    }

    fn last(&self, operation: &'static str) -> Error {
        Failure::new(format!("thread {}", self.tid), operation, io::Error::last_os_error()).into()
    }

    fn fault(&self) -> Error {
        let fault = io::Error::from_raw_os_error(libc::EFAULT);
        Failure::new(format!("thread {}", self.tid), "reach memory of", fault).into()
    }
}

/// Memory of another process; `None` if it cannot be addressed.
fn remote(address: u64, length: usize) -> Option<libc::iovec> {
    let base = usize::try_from(address).ok()?;
    Some(libc::iovec { iov_base: std::ptr::without_provenance_mut(base), iov_len: length })
}

fn open(tid: i32) -> Result<OwnedFd> {
    // SAFETY: takes numbers, and touches no memory.
    let got = unsafe { libc::syscall(libc::SYS_pidfd_open, tid, PIDFD_THREAD) };
    if let Some(pidfd) = owned(got) {
        return Ok(pidfd);
    }
    let error = io::Error::last_os_error();
    if error.raw_os_error() != Some(libc::EINVAL) {
        return Err(Failure::new(format!("thread {tid}"), "open", error).into());
    }
    by_process(tid)
}

/// On a kernel that cannot name threads: the thread's process, if the two share their descriptors.
fn by_process(tid: i32) -> Result<OwnedFd> {
    let name = || format!("thread {tid}");
    let process = process_of(tid).ok_or_else(|| {
        Failure::new(name(), "find the process of", io::Error::from_raw_os_error(libc::ESRCH))
    })?;
    if process.as_raw_nonzero().get() != tid {
        // SAFETY: compares two tasks by number, and touches no memory.
        let order = unsafe {
            libc::syscall(libc::SYS_kcmp, tid, process.as_raw_nonzero().get(), KCMP_FILES, 0, 0)
        };
        if order != 0 {
            let refused = io::Error::from_raw_os_error(libc::EPERM);
            return Err(Failure::new(name(), "find the descriptors of", refused).into());
        }
    }
    crate::process::pidfd(process)
}

/// The process of a thread, by `Tgid` of proc_pid_status(5).
fn process_of(tid: i32) -> Option<Pid> {
    let status = std::fs::read_to_string(format!("/proc/{tid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Tgid:"))?;
    Pid::from_raw(line.trim().parse().ok()?)
}

fn owned(fd: libc::c_long) -> Option<OwnedFd> {
    let fd = i32::try_from(fd).ok().filter(|fd| *fd >= 0)?;
    // SAFETY: the kernel gave this descriptor to the call that is being evaluated.
    Some(unsafe { OwnedFd::from_raw_fd(fd) })
}

impl std::os::fd::AsFd for Caller {
    /// The thread's pidfd, readable when it has ended.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }
}
