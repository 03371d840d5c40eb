//! Descriptors that programs inherit by way of this process: terminals and folders lead them past what was made theirs.
//!
//! A process that has a folder open reaches what is below it by the mount through which it was opened, also where that is covered, or in
//! another mount namespace; see mount_namespaces(7). This process's own descriptors are closed on exec, and are left alone.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use rustix::fs::{FileType, Mode, OFlags, fcntl_getfl, fstat, open};

use crate::seccomp::sight::{Object, object, path_of};

/// Puts `terminal` in the place of every other one but the standard streams.
pub fn replace_terminals(terminal: impl AsFd) {
    for (number, fd) in all().into_iter().filter(|(number, _)| *number > 2) {
        if rustix::termios::isatty(fd) {
            put(&terminal, number);
        }
    }
}

/// Opens folders again by their paths, the current one as well: they are those of this process's mounts then. What is not
/// there by its path becomes /dev/null.
pub fn reopen_folders() {
    if let Ok(here) = std::env::current_dir() {
        // One that cannot be entered by its path stays.
        let _ = std::env::set_current_dir(here);
    }
    for (number, fd) in all() {
        let Ok(found) = fstat(fd) else { continue };
        if FileType::from_raw_mode(found.st_mode) != FileType::Directory {
            continue;
        }
        let nothing = || open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).ok();
        if let Some(again) = again(fd, object(&found)).or_else(nothing) {
            put(again, number);
        }
    }
}

/// The same folder, through the mount that its path leads to.
fn again(fd: BorrowedFd<'_>, this: Object) -> Option<OwnedFd> {
    let kept = fcntl_getfl(fd).ok()? & OFlags::PATH;
    let flags = kept | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let again = open(path_of(fd)?, flags, Mode::empty()).ok()?;
    // By now something else may be at that path.
    (object(&fstat(&again).ok()?) == this).then_some(again)
}

/// Those that stay open on exec.
fn all() -> Vec<(RawFd, BorrowedFd<'static>)> {
    let Ok(open) = std::fs::read_dir("/proc/self/fd") else { return vec![] };
    let numbers = open.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    // Listed first, since the list has a descriptor, too.
    let numbers: Vec<RawFd> = numbers.collect();
    let stays = |number: &RawFd| {
        // SAFETY: asks about a number, which may be no descriptor by now, and touches no memory.
        let flags = unsafe { libc::fcntl(*number, libc::F_GETFD) };
        flags >= 0 && flags & libc::FD_CLOEXEC == 0
    };
    let stay = numbers.into_iter().filter(stays);
    // SAFETY: what stays open on exec came from this process's caller, and nothing of this process closes it.
    stay.map(|number| (number, unsafe { BorrowedFd::borrow_raw(number) })).collect()
}

/// Puts a descriptor in the place of one of [`all`].
fn put(other: impl AsFd, number: RawFd) {
    // dup2(2) leaves the new one open on exec, as those of `all` are.
    // SAFETY: nothing of this process owns the old one, and the new one stays open for as long.
    unsafe { libc::dup2(other.as_fd().as_raw_fd(), number) };
}
