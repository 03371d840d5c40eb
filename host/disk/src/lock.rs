//! The lock on a file being written: no second process writes to it.
//!
//! It is a flock(2) lock on the open file: taken before the file is emptied or has a name, and released
//! with the last descriptor, however the process ends. It is advisory: it excludes only those who ask
//! for it, as all writers of this crate do. A file system without locks gives no protection.

use std::fs::{File, TryLockError};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{FlockOperation, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::{Error, Result};

/// Tries for a lock that another process holds, and the time between them: [`check_free`] holds it
/// for an instant, and a killed process until the kernel has cleaned up.
const TRIES: u32 = 50;
const PAUSE: Duration = Duration::from_millis(10);

/// Locks an open file until its last descriptor is closed.
pub(crate) fn take(fd: &OwnedFd, path: &Path) -> Result<()> {
    for tried in 0..TRIES {
        match rustix::fs::flock(fd, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) if tried + 1 < TRIES => std::thread::sleep(PAUSE),
            Err(Errno::WOULDBLOCK) => return Err(busy(path)),
            // Taken, or the file system has no locks.
            _ => return Ok(()),
        }
    }
    Ok(())
}

/// Locks a file that other code than this crate's writes, until it is closed.
///
/// # Errors
/// [`Error::Busy`]: another process writes it.
pub fn lock(file: &File, path: &Path) -> Result<()> {
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => Err(busy(path)),
        _ => Ok(()),
    }
}

/// Checks that no process writes to the file at a path. A missing or unreadable file counts as free.
///
/// # Errors
/// [`Error::Busy`]: another process writes it.
pub fn check_free(path: &Path) -> Result<()> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let Ok(fd) = rustix::fs::open(path, flags, Mode::empty()) else { return Ok(()) };
    match rustix::fs::flock(fd, FlockOperation::NonBlockingLockShared) {
        Err(Errno::WOULDBLOCK) => Err(busy(path)),
        _ => Ok(()),
    }
}

/// The error for a file that another process writes.
fn busy(path: &Path) -> Error {
    let writer = match writer_of(path) {
        Some((pid, name)) => format!("process {pid} ({name})"),
        None => "another process".to_owned(),
    };
    Error::Busy { path: path.to_owned(), writer }
}

/// Number and name of the process that holds the lock, if the kernel shows it.
fn writer_of(path: &Path) -> Option<(u32, String)> {
    let file = rustix::fs::stat(path).ok()?;
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    let pid = locks.lines().find_map(|line| holder(line, &file))?;
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    Some((pid, name.trim_end().to_owned()))
}

/// The process on a line of `/proc/locks`, if the line is about this file (proc_locks(5)).
fn holder(line: &str, file: &Stat) -> Option<u32> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let [_, "FLOCK", _, "WRITE", pid, place, ..] = words[..] else { return None };
    let (major, minor) = (rustix::fs::major(file.st_dev), rustix::fs::minor(file.st_dev));
    let here = format!("{major:02x}:{minor:02x}:{}", file.st_ino);
    // A process of another PID namespace has no number here.
    (place == here).then(|| pid.parse().ok().filter(|pid| *pid != 0)).flatten()
}
