//! Leases on files: an opener of one waits until its holder lets go, and the holder hears of it by SIGIO.
//!
//! So the holder can write what an opener is to read. A lease ends with the descriptors of the open file, and so with its
//! holder; the kernel ends one whose holder does nothing after `fs.lease-break-time` seconds. It is given only while nobody
//! else has the file open. Openers with O_NONBLOCK are refused (EWOULDBLOCK) instead. See fcntl(2), "Leases".

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

/// Takes the lease.
///
/// # Errors
/// EAGAIN while somebody else has the file open; EACCES, if it is another user's; EINVAL where `fs.leases-enable` is 0.
pub fn take(file: impl AsFd) -> io::Result<()> {
    set(file, libc::F_WRLCK)
}

/// Lets go: waiting openers go on.
pub fn release(file: impl AsFd) -> io::Result<()> {
    set(file, libc::F_UNLCK)
}

/// How long [`open_past`] waits.
const PATIENCE: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(1);

/// Opens a file by `open`, which never waits (O_NONBLOCK): waits a bounded time for the holder of a lease on it.
///
/// # Errors
/// That of `open`; EWOULDBLOCK if the holder does not let go.
pub fn open_past<T>(mut open: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let end = Instant::now() + PATIENCE;
    loop {
        match open() {
            // The first attempt has told the holder.
            Err(e) if e.kind() == io::ErrorKind::WouldBlock && Instant::now() < end => {
                std::thread::sleep(PAUSE);
            }
            opened => return opened,
        }
    }
}

/// A file in memory that nobody else knows, and on which a lease can be taken.
///
/// # Errors
/// There is no memory, or no /proc.
pub(crate) fn file() -> io::Result<File> {
    let memory = rustix::fs::memfd_create("lease", rustix::fs::MemfdFlags::CLOEXEC)?;
    // What memfd_create opened does not count as open, but the holder of a lease must.
    File::options().read(true).write(true).open(format!("/proc/self/fd/{}", memory.as_raw_fd()))
}

/// Whether the lease is held, and nobody waits for the file.
pub fn is_held(file: impl AsFd) -> bool {
    // SAFETY: F_GETLEASE takes no argument, and the descriptor is open.
    unsafe { libc::fcntl(file.as_fd().as_raw_fd(), libc::F_GETLEASE) == libc::F_WRLCK }
}

fn set(file: impl AsFd, kind: i32) -> io::Result<()> {
    // SAFETY: F_SETLEASE takes a number, and the descriptor is open.
    match unsafe { libc::fcntl(file.as_fd().as_raw_fd(), libc::F_SETLEASE, kind) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{Mode, OFlags};

    #[test]
    fn a_lease_is_given_while_nobody_else_has_the_file_open() {
        let memory = file().unwrap();
        let path = format!("/proc/self/fd/{}", memory.as_raw_fd());
        // Openers must not wait here: there is nobody to hear of them.
        let open = || rustix::fs::open(&path, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty());
        let other = open().unwrap();
        assert_eq!(take(&memory).unwrap_err().raw_os_error(), Some(libc::EAGAIN));
        drop(other);
        // A break of the lease would end this process otherwise.
        crate::process::set_ignored(libc::SIGIO, true);
        take(&memory).unwrap();
        assert!(is_held(&memory));
        assert_eq!(open().unwrap_err(), rustix::io::Errno::AGAIN);
        assert!(!is_held(&memory));
        release(&memory).unwrap();
        open().unwrap();
    }
}
