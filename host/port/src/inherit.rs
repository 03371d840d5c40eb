//! Descriptors that a process was started with, known by their numbers.

use std::os::fd::{FromRawFd, OwnedFd};

use crate::{Error, Result};

/// Takes the descriptor `number`, which this process has inherited for its own use, and keeps it from
/// programs started later. To be called once for a number, before anything else opens descriptors.
///
/// # Errors
/// [`Error::Kind`] when there is none, or it is one of the standard three.
pub fn inherited(number: i32) -> Result<OwnedFd> {
    let wrong = |reason| Err(Error::Kind { kind: "an inherited one", reason });
    if number < 3 {
        return wrong("it is one of the standard three");
    }
    // SAFETY: only looks whether the number is that of an open descriptor.
    let flags = unsafe { libc::fcntl(number, libc::F_GETFD) };
    if flags < 0 {
        return wrong("there is none of this number");
    }
    // SAFETY: the descriptor is open, and the caller's to give: it came with the start of the process,
    // so no value of this program owns it.
    let fd = unsafe { OwnedFd::from_raw_fd(number) };
    rustix::io::fcntl_setfd(&fd, rustix::io::FdFlags::CLOEXEC)
        .map_err(|e| Error::call("inherited descriptor", "keep from programs", e))?;
    Ok(fd)
}
