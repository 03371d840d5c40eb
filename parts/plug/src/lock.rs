//! The lock file by which a running plug is found (fcntl(2), F_SETLK).
//!
//! F_GETLK tells an observer the pid of the process that holds the lock. The kernel releases the lock when
//! the process ends, for whatever reason. Invariant: the process closes no other descriptor of the file,
//! because that would release the lock too.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use netloom_sys::Failure;
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::process::{Flock, FlockType, Pid, fcntl_getlk};

use crate::Result;

/// A lock that this process holds until it ends or drops it.
#[derive(Debug)]
pub struct Lock(OwnedFd);

impl Lock {
    /// Locks a whole file, which is created if missing.
    ///
    /// # Errors
    /// [`crate::Error::Failed`]: EAGAIN or EACCES when another process holds the lock.
    pub fn take(path: &Path) -> Result<Lock> {
        let failed = |e: rustix::io::Errno| Failure::path(path, "lock", e);
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR).map_err(failed)?;
        let wanted = FlockOperation::NonBlockingLockExclusive;
        rustix::fs::fcntl_lock(&file, wanted).map_err(failed)?;
        Ok(Lock(file))
    }
}

/// The process that holds the lock on a file, if any.
pub fn holder(path: &Path) -> Option<Pid> {
    // NONBLOCK: a FIFO in its place must not hold up an observer.
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = rustix::fs::open(path, flags, Mode::empty()).ok()?;
    let whole = Flock::from(FlockType::WriteLock);
    fcntl_getlk(&file, &whole).ok().flatten().and_then(|found| found.pid)
}

impl AsFd for Lock {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
