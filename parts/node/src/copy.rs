//! Copies files into a node and out of it: `cp`, from outside.
//!
//! The caller stays outside and holds the node's root directory. Every path of the node is resolved below it
//! (openat2 with RESOLVE_IN_ROOT). Each directory is opened once and walked by descriptors without following
//! links, so no link or race in a node leads out of it. A named path that is a symbolic link is followed;
//! links inside directories are copied as links. Permission bits, times and holes are kept; owners, set-id bits,
//! hard links and extended attributes are not. A device, pipe or socket is refused when named and
//! skipped inside a directory. A file, link or new directory appears whole or not at all: it is written without
//! a name or under a temporary one and renamed, which replaces whatever had the name, even a link. What does not
//! fit into the free space of its file system, or exceeds [`Bounds`], is not written. Specification:
//! openat2(2), lseek(2), cp(1).

mod content;
mod holder;
mod place;
mod stream;
mod walk;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use netloom_sys::{Failure, process};
use rustix::fs::{Mode, OFlags};

use crate::{Error, Result};
use place::{Given, Side};

/// What ends a copy before it is complete.
#[derive(Clone, Copy, Default)]
pub struct Bounds<'a> {
    /// The most bytes that are written; holes do not count.
    pub max: Option<u64>,
    /// Asked again and again: whether the caller is told to end.
    pub is_told_to_end: Option<&'a dyn Fn() -> bool>,
}

impl std::fmt::Debug for Bounds<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bounds").field("max", &self.max).finish_non_exhaustive()
    }
}

/// Totals of a copy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Regular files.
    pub files: u64,
    /// Directories.
    pub directories: u64,
    /// Symbolic links.
    pub links: u64,
    /// Bytes in regular files, holes included.
    pub bytes: u64,
    /// Paths of devices, pipes and sockets that were left out.
    pub skipped: Vec<String>,
}

/// Opens the root directory of the node whose init has this pidfd, for [`into_node`] and [`out_of_node`].
///
/// # Errors
/// The init has ended, or belongs to another user.
pub fn open_root(node: &str, init: BorrowedFd<'_>) -> Result<OwnedFd> {
    let fail = |operation, source| Failure::new(format!("node {node:?}: init"), operation, source);
    let pid = pid_of(init).map_err(|e| fail("find its process", e))?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::open(format!("/proc/{pid}/root"), flags, Mode::empty())
        .map_err(|e| fail("open its root directory", e.into()))?;
    // Still alive now, so the pid was not reused when the path was opened.
    if process::has_ended(init) {
        return Err(fail("open its root directory", io::Error::other("it has ended")).into());
    }
    Ok(root)
}

/// The pid of a pidfd in this PID namespace, pidfd_open(2).
fn pid_of(pidfd: BorrowedFd<'_>) -> io::Result<u32> {
    use std::os::fd::AsRawFd;
    let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", pidfd.as_raw_fd()))?;
    let pid = info.lines().find_map(|line| line.strip_prefix("Pid:")).map(str::trim);
    pid.and_then(|pid| pid.parse().ok()).ok_or_else(|| io::Error::other("it has ended"))
}

/// Copies a file or directory of the caller into a node.
///
/// If the destination is an existing directory, the copy goes inside it; a destination with a trailing slash
/// must exist. A source that ends in `.` means the content of the directory.
///
/// # Errors
/// [`Error::Failed`] with the failing path, starting as given. Entries already copied into an existing
/// directory stay; no half-copied entry does. Without openat2 (Linux 5.6) nothing is copied.
pub fn into_node(
    root: BorrowedFd<'_>,
    source: &Path,
    destination: &str,
    bounds: Bounds<'_>,
) -> Result<Summary> {
    let from = Given::new(Side::Host, source.as_os_str());
    let to = Given::new(Side::Node(root), destination.as_ref());
    walk::copy(&from, &to, bounds)
}

/// Copies a file or directory of a node out to the caller, otherwise like [`into_node`].
///
/// # Errors
/// As for [`into_node`].
pub fn out_of_node(
    root: BorrowedFd<'_>,
    source: &str,
    destination: &Path,
    bounds: Bounds<'_>,
) -> Result<Summary> {
    let from = Given::new(Side::Node(root), source.as_ref());
    let to = Given::new(Side::Host, destination.as_os_str());
    walk::copy(&from, &to, bounds)
}

/// Writes a regular file of a node to an open file of the caller's, such as its standard output.
///
/// # Errors
/// It is not a regular file, longer than the bounds allow, or the output is closed.
pub fn out_to(
    root: BorrowedFd<'_>,
    source: &str,
    output: impl AsFd,
    bounds: Bounds<'_>,
) -> Result<Summary> {
    let from = Given::new(Side::Node(root), source.as_ref());
    let bytes = stream::stream(&from, output, bounds)?;
    Ok(Summary { files: 1, bytes, ..Summary::default() })
}

/// For `map_err` on system calls.
fn fail<E: Into<io::Error>>(path: &str, operation: &'static str) -> impl FnOnce(E) -> Error {
    let failed = Failure::of(path, operation);
    move |source| failed(source.into()).into()
}
