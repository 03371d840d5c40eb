//! Copies a file's bytes, permission bits and times.

use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, Stat, Timespec, Timestamps, copy_file_range};
use rustix::io::{Errno, read, retry_on_intr, write};

/// Bytes requested per copy_file_range call.
const RANGE: usize = 1 << 30;

/// Bytes per read when the kernel does not copy.
const BLOCK: usize = 256 * 1024;

/// Copies the rest of a file and returns the number of bytes; on failure the operation and its error.
pub(super) fn copy_bytes(from: &OwnedFd, to: &OwnedFd) -> Result<u64, (&'static str, io::Error)> {
    let mut total = 0;
    // On a refusal (other file system, special file) or an early end, as files of /proc show, plain reading
    // takes over where this stopped and yields the exact error.
    while let Ok(n @ 1..) = retry_on_intr(|| copy_file_range(from, None, to, None, RANGE)) {
        total += n as u64;
    }
    let mut buffer = vec![0; BLOCK];
    loop {
        let n = retry_on_intr(|| read(from, &mut buffer[..])).map_err(|e| ("read", e.into()))?;
        if n == 0 {
            return Ok(total);
        }
        write_all(to, &buffer[..n]).map_err(|e| ("write", e.into()))?;
        total += n as u64;
    }
}

fn write_all(to: &OwnedFd, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        let n = retry_on_intr(|| write(to, bytes))?;
        bytes = &bytes[n..];
    }
    Ok(())
}

/// Permission bits of a copy. Set-id bits are dropped because the owner is not copied.
pub(super) fn mode(stat: &Stat, directory: bool) -> Mode {
    Mode::from_raw_mode(stat.st_mode & if directory { 0o1777 } else { 0o777 })
}

/// Times of a copy.
pub(super) fn times(stat: &Stat) -> Timestamps {
    let time = |seconds, nanoseconds| Timespec {
        tv_sec: seconds,
        tv_nsec: i64::try_from(nanoseconds).unwrap_or(0),
    };
    Timestamps {
        last_access: time(stat.st_atime, stat.st_atime_nsec),
        last_modification: time(stat.st_mtime, stat.st_mtime_nsec),
    }
}
