//! Shows a file or directory of the host below another root directory, whose symbolic links cannot lead outside.
//!
//! The tree is copied as a mount of its own first (open_tree(2)), made read-only where it shall be and rid of devices
//! (mount_setattr(2)), and only then put where it is to be seen (move_mount(2)). That place is found, and made if it
//! is missing, with the root as the end of every path (openat2(2), `RESOLVE_IN_ROOT`). Needs Linux 5.12.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::mount::{MoveMountFlags, OpenTreeFlags, UnmountFlags};

use crate::lookup::{open_by_own_links, open_within};
use crate::mount_attributes::{self, NO_DEVICES, READ_ONLY};
use crate::{Failure, Result, namespace};

/// Shows `source` with its submounts at the path `at` of the root directory `root`; what is missing of the path is
/// made, owned by the caller.
///
/// # Errors
/// Names the source or the path. Nothing is shown then.
pub fn show(source: &Path, root: &Path, at: &Path, writable: bool) -> Result<()> {
    let tree = Tree::of(source, writable)?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::open(root, flags, Mode::empty())
        .map_err(|e| Failure::path(at, "open the root of", e))?;
    tree.put(root.as_fd(), at)
}

/// [`show`] in a node that lives: `init` is its init, and `root` its root directory.
///
/// # Errors
/// As [`show`]; and the caller may not mount there.
pub fn show_in(
    (init, root): (BorrowedFd<'_>, BorrowedFd<'_>),
    source: &Path,
    at: &Path,
    writable: bool,
) -> Result<()> {
    namespace::apart("bind", || {
        // Mounts of the caller's user namespace, which may be copied.
        namespace::private_mounts()?;
        let tree = Tree::of(source, writable)?;
        namespace::enter_mounts(init, root)?;
        tree.put(root, at)
    })
}

/// Takes away what [`show`] or [`show_in`] put at the path `at` of a living node. What uses it goes on with it.
///
/// `sources`: what may be shown there. With `once` it is what is mounted there last, whatever it is by now; else it is
/// everything mounted there that is one of the sources.
///
/// # Errors
/// The kernel refuses it, except because nothing is mounted there.
pub fn hide_in(
    (init, root): (BorrowedFd<'_>, BorrowedFd<'_>),
    at: &Path,
    sources: &[&Path],
    once: bool,
) -> Result<()> {
    let identity = |path: &Path| rustix::fs::stat(path).map(|of| (of.st_dev, of.st_ino)).ok();
    let known: Vec<_> = sources.iter().filter_map(|source| identity(source)).collect();
    namespace::apart("bind", || {
        namespace::enter_mounts(init, root)?;
        for _ in 0..MOST {
            if !once && identity(at).is_none_or(|found| !known.contains(&found)) {
                break;
            }
            match rustix::mount::unmount(at, UnmountFlags::DETACH) {
                Ok(()) if !once => {}
                // INVAL: nothing is mounted there.
                Ok(()) | Err(Errno::INVAL | Errno::NOENT) => break,
                Err(e) => return Err(Failure::path(at, "unbind", e).into()),
            }
        }
        Ok(())
    })
}

/// The most mounts at one place that attempts which were cut off leave.
const MOST: usize = 16;

/// A tree of the host as a mount that is nowhere yet.
struct Tree {
    mount: OwnedFd,
    is_directory: bool,
}

impl Tree {
    fn of(source: &Path, writable: bool) -> Result<Tree> {
        let fail = |operation| move |e: Errno| Failure::path(source, operation, e);
        let flags = OpenTreeFlags::OPEN_TREE_CLONE
            | OpenTreeFlags::OPEN_TREE_CLOEXEC
            | OpenTreeFlags::AT_EMPTY_PATH
            | OpenTreeFlags::AT_RECURSIVE;
        let found = open_by_own_links(source, OFlags::PATH)
            .map_err(|e| Failure::path(source, "bind", e))?;
        let mount = rustix::mount::open_tree(&found, c"", flags).map_err(fail("bind"))?;
        let rights = if writable { NO_DEVICES } else { NO_DEVICES | READ_ONLY };
        let flags = AtFlags::EMPTY_PATH.bits() | OpenTreeFlags::AT_RECURSIVE.bits();
        mount_attributes::set(&mount, c"", flags, rights)
            .map_err(|e| Failure::path(source, "protect", e))?;
        let found = rustix::fs::fstat(&mount).map_err(fail("look at"))?;
        let is_directory = FileType::from_raw_mode(found.st_mode) == FileType::Directory;
        Ok(Tree { mount, is_directory })
    }

    fn put(&self, root: BorrowedFd<'_>, at: &Path) -> Result<()> {
        let place = place(root, at, self.is_directory)?;
        let flags =
            MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
        rustix::mount::move_mount(&self.mount, "", &place, "", flags)
            .map_err(|e| Failure::path(at, "bind a file of the host to", e))?;
        Ok(())
    }
}

/// The place for a directory or another file at the path `at` of `root`.
fn place(root: BorrowedFd<'_>, at: &Path, is_directory: bool) -> Result<OwnedFd> {
    let fail = |operation: &'static str| move |e: Errno| Failure::path(at, operation, e);
    let open = |path: &Path| {
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        open_within(root, path, OFlags::PATH, resolve)
    };
    let names: Vec<&Path> = at
        .components()
        .filter_map(|part| match part {
            Component::Normal(name) => Some(Path::new(name)),
            _ => None,
        })
        .collect();
    let mut path = std::path::PathBuf::from("/");
    let mut here = open(&path).map_err(fail("open the root of"))?;
    for (index, name) in names.iter().enumerate() {
        path.push(name);
        let last = index + 1 == names.len();
        here = match open(&path) {
            Ok(found) => found,
            Err(Errno::NOENT) => {
                make(&here, name, !last || is_directory).map_err(fail("make a place for"))?;
                open(&path).map_err(fail("open"))?
            }
            Err(e) => return Err(fail("open")(e).into()),
        };
    }
    let found = rustix::fs::fstat(&here).map_err(fail("look at"))?;
    match (FileType::from_raw_mode(found.st_mode) == FileType::Directory, is_directory) {
        (true, false) => Err(fail("bind a file to")(Errno::ISDIR).into()),
        (false, true) => Err(fail("bind a directory to")(Errno::NOTDIR).into()),
        _ => Ok(here),
    }
}

fn make(within: &OwnedFd, name: &Path, directory: bool) -> rustix::io::Result<()> {
    if directory {
        return rustix::fs::mkdirat(within, name, Mode::from_raw_mode(0o755));
    }
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    rustix::fs::openat(within, name, flags, Mode::from_raw_mode(0o644)).map(drop)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_place_is_made_within_the_root_whatever_links_say() {
        let folder = tempfile::tempdir().unwrap();
        let (root, outside) = (folder.path().join("root"), folder.path().join("outside"));
        fs::create_dir_all(root.join("srv")).unwrap();
        fs::create_dir(&outside).unwrap();
        symlink(&outside, root.join("away")).unwrap();
        symlink("../../outside", root.join("up")).unwrap();
        symlink("srv", root.join("near")).unwrap();
        let opened = fs::File::open(&root).unwrap();
        let place = |_: &Path, at: &Path, directory| place(opened.as_fd(), at, directory);
        place(&root, Path::new("/near/a/b"), true).unwrap();
        assert!(root.join("srv/a/b").is_dir());
        place(&root, Path::new("/srv/file"), false).unwrap();
        assert!(root.join("srv/file").is_file());
        for path in ["/away/x", "/up/x"] {
            // The link leads to a directory that the root does not have.
            assert!(place(&root, Path::new(path), true).is_err(), "{path}");
        }
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
        let wrong = place(&root, Path::new("/srv"), false).unwrap_err().to_string();
        assert!(wrong.contains("bind a file to"), "{wrong}");
        assert!(place(&root, Path::new("/srv/file"), true).is_err());
    }
}
