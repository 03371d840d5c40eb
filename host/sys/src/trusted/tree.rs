//! Removal of whole trees in a trusted directory, whatever others have put there.
//!
//! A tree may be of a node's making: deep, full of links, without permissions. Nothing is followed, and nothing is
//! walked: a directory that is not empty is moved to the top, so that one descriptor and no recursion do for any depth.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, Dir, Mode, OFlags};
use rustix::io::Errno;

use super::{TrustedDir, single, text};
use crate::Failure;

/// The beginning of the name of a directory that was moved to the top, to be removed next.
const MOVED: &str = ".gone-";

/// Attempts at a directory into which others still write.
const PASSES: u32 = 16;

impl TrustedDir {
    /// Removes what has this name, with all in it; what is not there is removed already.
    ///
    /// # Errors
    /// The kernel refuses, or somebody keeps writing into it.
    pub fn remove_all(&self, name: impl AsRef<OsStr>) -> crate::Result<()> {
        let mut left = vec![(single(name.as_ref())?.to_owned(), 0)];
        let mut number = 0;
        while let Some((name, passes)) = left.pop() {
            let failed = |e| Failure::path(self.path_of(&name), "remove", e);
            match remove_either(self, &name) {
                Ok(()) => continue,
                Err(e) if !is_full(e) || passes == PASSES => return Err(failed(e).into()),
                Err(_) => {}
            }
            let inner = open_all(self, &name).map_err(failed)?;
            let moved = self.clear(&inner, &mut number).map_err(failed)?;
            left.push((name, passes + 1));
            left.extend(moved.into_iter().map(|name| (name, 0)));
        }
        Ok(())
    }

    /// Removes what is in a directory; moves the directories in it that are not empty to the top, and returns their
    /// names there.
    fn clear(&self, inner: &OwnedFd, number: &mut u64) -> Result<Vec<OsString>, Errno> {
        let mut moved = Vec::new();
        for entry in Dir::read_from(inner)? {
            let name = text(entry?.file_name());
            if name == "." || name == ".." {
                continue;
            }
            match remove_either(inner, &name) {
                Ok(()) => {}
                Err(e) if is_full(e) => {
                    // To move a directory is to write into it.
                    open_all(inner, &name)?;
                    let top = self.free_name(number);
                    rustix::fs::renameat(inner, &name, self, &top)?;
                    moved.push(top);
                }
                Err(e) => return Err(e),
            }
        }
        Ok(moved)
    }

    fn free_name(&self, number: &mut u64) -> OsString {
        loop {
            let name = OsString::from(format!("{MOVED}{number}"));
            *number += 1;
            if !self.has(&name) {
                return name;
            }
        }
    }
}

/// Opens a directory, never through a link, and gives its owner, who may have none, all rights in it.
fn open_all(parent: impl AsFd, name: &OsStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let open = |how| rustix::fs::openat(parent.as_fd(), name, flags | how, Mode::empty());
    let found = open(OFlags::PATH)?;
    if rustix::fs::fstat(&found)?.st_mode & 0o700 != 0o700 {
        // fchmod(2) takes no descriptor that was opened by path alone.
        let by_descriptor = Path::new("/proc/self/fd").join(found.as_raw_fd().to_string());
        rustix::fs::chmod(by_descriptor, Mode::RWXU)?;
    }
    open(OFlags::RDONLY)
}

/// Removes a file, a link or an empty directory; what is not there is removed already.
fn remove_either(parent: impl AsFd, name: &OsStr) -> Result<(), Errno> {
    let remove = |how| match rustix::fs::unlinkat(parent.as_fd(), name, how) {
        Err(Errno::NOENT) => Ok(()),
        removed => removed,
    };
    match remove(AtFlags::empty()) {
        // Linux says so of directories, where POSIX has EPERM (unlink(2)).
        Err(Errno::ISDIR) => remove(AtFlags::REMOVEDIR),
        removed => removed,
    }
}

fn is_full(error: Errno) -> bool {
    // File systems say either (rmdir(2)).
    matches!(error, Errno::NOTEMPTY | Errno::EXIST)
}
