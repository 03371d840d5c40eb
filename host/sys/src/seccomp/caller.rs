//! The thread that made a call: its memory and its descriptors, read once.
//!
//! Thread ids are used again, so a [`Caller`] is only trusted after the listener said that the call still waits
//! (seccomp_unotify(2)). Descriptors are duplicated from the thread's own table, which need not be its process's
//! (`CLONE_FILES`, `unshare(2)`): by `PIDFD_THREAD` where the kernel has it (Linux 6.9), else by the process
//! if the two tables are the same (kcmp(2)).

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::Pid;

use super::image::Image;
use super::listener::{Call, Listener};
use super::sight::Sight;
use crate::process::Status;
use crate::{Error, Failure, Result};

/// pidfd_open(2): the thread and not its process (linux/pidfd.h).
pub(super) const PIDFD_THREAD: libc::c_uint = libc::O_EXCL.unsigned_abs();
/// kcmp(2): compares tables of descriptors (linux/kcmp.h).
const KCMP_FILES: libc::c_int = 2;

/// A thread whose call waits.
#[derive(Debug)]
pub struct Caller {
    tid: i32,
    thread: Arc<Thread>,
    /// Whether the thread's memory is still that of which the thread's program is known.
    known: AtomicBool,
    /// Whether it could not be read.
    missed: AtomicBool,
}

/// Cached facts about a thread.
#[derive(Debug)]
pub(super) struct Thread {
    pub(super) pidfd: Arc<OwnedFd>,
    pub(super) image: Option<Image>,
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
        opened.map(|pidfd| {
            Some(Caller::new(call.tid, Arc::new(Thread { pidfd: Arc::new(pidfd), image: None })))
        })
    }

    pub(super) fn new(tid: i32, thread: Arc<Thread>) -> Caller {
        let (known, missed) = (AtomicBool::new(false), AtomicBool::new(false));
        Caller { tid, thread, known, missed }
    }

    pub(super) fn has_missed(&self) -> bool {
        self.missed.load(Ordering::Relaxed)
    }

    /// Whether nothing of the thread was read by its number: it is known from an earlier call by its pidfd, and its
    /// memory by the descriptor that was kept.
    ///
    /// A number belongs to one thread for as long as its pidfd leads to a thread. So when a descriptor was duplicated
    /// by that pidfd after the call was received, it is the caller's, also if the number is another thread's by now.
    pub fn is_known(&self) -> bool {
        self.known.load(Ordering::Relaxed) && !self.has_missed()
    }

    pub(super) fn thread(&self) -> &Arc<Thread> {
        &self.thread
    }

    /// The path of the thread's program, as [`Sight::program`] tells it.
    pub fn program(&self, sight: &Sight) -> String {
        match &self.thread.image {
            Some(image) if self.known.load(Ordering::Relaxed) => image.program.clone(),
            _ => sight.program(self.tid),
        }
    }

    /// A duplicate of descriptor `fd` of the thread, closed on exec.
    ///
    /// # Errors
    /// EBADF if it has none of that number; EPERM if it may not be traced.
    pub fn descriptor(&self, fd: i32) -> Result<OwnedFd> {
        let raw = self.thread.pidfd.as_raw_fd();
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
        if length == 0 {
            return Ok(&[]);
        }
        if let Some(image) = &self.thread.image {
            if image.read(address, buffer) {
                self.known.store(true, Ordering::Relaxed);
                // SAFETY: all of these bytes were read.
                return Ok(unsafe { std::slice::from_raw_parts(buffer.as_ptr().cast(), length) });
            }
            self.missed.store(true, Ordering::Relaxed);
        }
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

    /// Whether the thread's effective user is root, as this process sees it; false where the kernel does not tell by
    /// pidfd (before Linux 6.13).
    pub fn is_root(&self) -> bool {
        // SAFETY: a structure of integers, for which zero is valid.
        let mut info: libc::pidfd_info = unsafe { std::mem::zeroed() };
        info.mask = u64::from(libc::PIDFD_INFO_CREDS);
        let pidfd = self.thread.pidfd.as_raw_fd();
        // SAFETY: the request reads and writes a pidfd_info, whose size is part of its number.
        let told = unsafe { libc::ioctl(pidfd, libc::PIDFD_GET_INFO, &raw mut info) };
        told == 0 && info.mask & u64::from(libc::PIDFD_INFO_CREDS) != 0 && info.euid == 0
    }

    /// Whether the thread has as many descriptors as it may have (`RLIMIT_NOFILE`), so that it gets no other one.
    pub fn is_full(&self) -> bool {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: no new limit is given, and the kernel writes the old one to `limit`.
        let told = unsafe {
            libc::prlimit(self.tid, libc::RLIMIT_NOFILE, std::ptr::null(), &raw mut limit)
        };
        let held = std::fs::metadata(format!("/proc/{}/fd", self.tid));
        told == 0
            && held.is_ok_and(|held| match held.len() {
                0 => holds(self.tid, limit.rlim_cur),
                held => held >= limit.rlim_cur,
            })
    }

    fn last(&self, operation: &'static str) -> Error {
        Failure::new(format!("thread {}", self.tid), operation, io::Error::last_os_error()).into()
    }

    fn fault(&self) -> Error {
        let fault = io::Error::from_raw_os_error(libc::EFAULT);
        Failure::new(format!("thread {}", self.tid), "reach memory of", fault).into()
    }
}

/// Whether a thread has this many descriptors, where the kernel does not tell their number (before Linux 6.2).
fn holds(tid: i32, count: u64) -> bool {
    // Room for descriptors: most have more than they may use at once, and there are many to count.
    let room = Status::of(tid).and_then(|status| status.number::<u64>("FDSize"));
    if room.is_none_or(|room| room < count) {
        return false;
    }
    let listed = std::fs::read_dir(format!("/proc/{tid}/fd"));
    listed.is_ok_and(|listed| listed.count() as u64 >= count)
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
    // EINVAL: the kernel does not know the flag.
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
        // Another table, or one that may not be compared.
        if order != 0 {
            let refused = io::Error::from_raw_os_error(libc::EPERM);
            return Err(Failure::new(name(), "find the descriptors of", refused).into());
        }
    }
    crate::process::pidfd(process)
}

/// The process of a thread, by `Tgid` of proc_pid_status(5).
fn process_of(tid: i32) -> Option<Pid> {
    Pid::from_raw(Status::of(tid)?.number("Tgid")?)
}

fn owned(fd: libc::c_long) -> Option<OwnedFd> {
    let fd = i32::try_from(fd).ok().filter(|fd| *fd >= 0)?;
    // SAFETY: the kernel gave this descriptor to the call that is being evaluated.
    Some(unsafe { OwnedFd::from_raw_fd(fd) })
}

impl std::os::fd::AsFd for Caller {
    /// The thread's pidfd, readable when it has ended.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.thread.pidfd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_are_counted_where_their_number_is_not_told() {
        // Of another process, in which nothing is opened meanwhile.
        let mut child = std::process::Command::new("cat");
        child.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        let mut child = child.spawn().unwrap();
        let tid = i32::try_from(child.id()).unwrap();
        // It has said something: all that it had to load is closed.
        std::io::Write::write_all(child.stdin.as_mut().unwrap(), b".").unwrap();
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut [0]).unwrap();
        let held = std::fs::read_dir(format!("/proc/{tid}/fd")).unwrap().count() as u64;
        assert!(held >= 3 && holds(tid, held) && !holds(tid, held + 1) && !holds(tid, 1 << 20));
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(!holds(tid, held));
    }
}
