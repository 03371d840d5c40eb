//! The files of the place where programs under a filter run, as their supervisor sees them: which path leads to what.
//!
//! A path is text of the calling program: in mounts of its own a process puts any file under any name, and a file that is opened
//! there keeps the name when it is handed on (mount_namespaces(7)). So a name counts only where the process has the
//! place's mounts, and where the same file is found under it there, by device and inode.

use std::fs;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags, Stat, open, statat};

use crate::lookup::open_within;
use crate::{Failure, Result};

/// A file itself, whatever it is called: device and inode.
pub type Object = (u64, u64);

/// The files of a place.
#[derive(Debug)]
pub struct Sight {
    root: OwnedFd,
    /// Held, so that the number is not another namespace's later.
    mounts: OwnedFd,
    number: Object,
}

impl Sight {
    /// What this process sees.
    ///
    /// # Errors
    /// There is no /proc.
    pub fn here() -> Result<Sight> {
        let path = |path: &'static str, flags| {
            let opened = open(path, flags | OFlags::CLOEXEC, Mode::empty());
            opened.map_err(|e| Failure::path(path, "open", e))
        };
        let root = path("/", OFlags::PATH | OFlags::DIRECTORY)?;
        Sight::of(root, path("/proc/self/ns/mnt", OFlags::RDONLY)?)
    }

    /// What a process sees whose root and mount namespace these are.
    ///
    /// # Errors
    /// The kernel's.
    pub fn of(root: OwnedFd, mounts: OwnedFd) -> Result<Sight> {
        let found = rustix::fs::fstat(&mounts);
        let found = found.map_err(|e| Failure::new("mount namespace", "look at", e))?;
        Ok(Sight { root, mounts, number: object(&found) })
    }

    /// Root and mount namespace, for a process that is to see the same.
    pub fn parts(&self) -> [BorrowedFd<'_>; 2] {
        [self.root.as_fd(), self.mounts.as_fd()]
    }

    /// Whether a thread has the place's mounts.
    pub fn is_shared_by(&self, tid: i32) -> bool {
        let found = rustix::fs::stat(format!("/proc/{tid}/ns/mnt"));
        found.is_ok_and(|found| object(&found) == self.number)
    }

    /// The path of a thread's program, if it is the program's here; empty if it is not, or cannot be read.
    pub fn program(&self, tid: i32) -> String {
        let exe = format!("/proc/{tid}/exe");
        let Ok(path) = fs::read_link(&exe) else { return String::new() };
        // The link leads to the file itself, also where its name leads elsewhere.
        let Ok(found) = rustix::fs::stat(&exe) else { return String::new() };
        if self.is_shared_by(tid) && self.finds(&path, object(&found)) {
            return path.to_string_lossy().into_owned();
        }
        String::new()
    }

    /// Whether a path without symbolic links, as the kernel tells it, leads to this object.
    pub fn finds(&self, path: &Path, this: Object) -> bool {
        let Ok(below) = path.strip_prefix("/") else { return false };
        let below = if below.as_os_str().is_empty() { Path::new(".") } else { below };
        let found = statat(&self.root, below, AtFlags::SYMLINK_NOFOLLOW);
        found.is_ok_and(|found| object(&found) == this)
    }

    /// What a path leads to, through symbolic links.
    pub fn object(&self, path: &Path) -> Option<Object> {
        rustix::fs::fstat(self.open(path)?).ok().map(|found| object(&found))
    }

    /// The same, held.
    pub fn open(&self, path: &Path) -> Option<OwnedFd> {
        open_within(&self.root, path, OFlags::PATH, ResolveFlags::IN_ROOT).ok()
    }

    /// A path without symbolic links; what is not there yet has the name in the folder to which it leads. `None` for what
    /// has no folder.
    pub fn follow(&self, path: &str) -> Option<String> {
        let path = Path::new(path);
        let reached = self.reach(path).or_else(|| {
            let folder = self.reach(path.parent()?)?;
            Some(folder.join(path.file_name()?))
        });
        reached.and_then(|path| path.into_os_string().into_string().ok())
    }

    fn reach(&self, path: &Path) -> Option<PathBuf> {
        let held = self.open(path)?;
        path_of(&held).filter(|path| path.as_os_str().as_bytes().starts_with(b"/"))
    }
}

/// What a descriptor leads to.
pub fn object(found: &Stat) -> Object {
    (found.st_dev, found.st_ino)
}

/// The path of what a descriptor leads to, as the kernel tells it; which file is found there by now, it does not tell.
pub fn path_of(held: impl AsFd) -> Option<PathBuf> {
    use std::os::fd::AsRawFd;
    fs::read_link(format!("/proc/self/fd/{}", held.as_fd().as_raw_fd())).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> i32 {
        i32::try_from(std::process::id()).unwrap()
    }

    #[test]
    fn this_program_is_found_by_its_path_and_by_no_other() {
        let sight = Sight::here().unwrap();
        assert!(sight.is_shared_by(own()) && !sight.is_shared_by(i32::MAX));
        let path = std::env::current_exe().unwrap();
        assert_eq!(Some(sight.program(own()).as_str()), path.to_str());
        assert_eq!(sight.program(i32::MAX), "");
        let this = sight.object(&path).unwrap();
        assert!(sight.finds(&path, this) && !sight.finds(Path::new("/proc/self"), this));
        assert!(!sight.finds(Path::new("relative"), this));
        let root = object(&rustix::fs::stat("/").unwrap());
        assert!(sight.finds(Path::new("/"), root));
    }

    #[test]
    fn paths_are_followed_as_far_as_they_lead() {
        let sight = Sight::here().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        fs::create_dir(folder.join("real")).unwrap();
        std::os::unix::fs::symlink(folder.join("real"), folder.join("link")).unwrap();
        fs::write(folder.join("real/file"), "").unwrap();
        std::os::unix::fs::symlink("file", folder.join("real/alias")).unwrap();
        let followed = |name: &str| {
            let found = sight.follow(folder.join(name).to_str().unwrap())?;
            Some(found.strip_prefix(folder.to_str().unwrap())?.to_owned())
        };
        assert_eq!(followed("link/alias").as_deref(), Some("/real/file"));
        assert_eq!(followed("link/new").as_deref(), Some("/real/new"));
        assert_eq!(followed("none/new"), None);
        assert_eq!(sight.follow("/").as_deref(), Some("/"));
        let same = |a: &str, b: &str| {
            sight
                .object(&folder.join(a))
                .is_some_and(|one| Some(one) == sight.object(&folder.join(b)))
        };
        assert!(same("link/alias", "real/file") && !same("link", "real/file"));
    }

    /// Another sight of the same place, as it comes from another process.
    #[test]
    fn a_place_is_seen_by_its_root_and_mounts() {
        let sight = Sight::here().unwrap();
        let [root, mounts] = sight.parts().map(|part| part.try_clone_to_owned().unwrap());
        let other = Sight::of(root, mounts).unwrap();
        assert!(other.is_shared_by(own()));
        assert_eq!(other.program(own()), sight.program(own()));
    }
}
