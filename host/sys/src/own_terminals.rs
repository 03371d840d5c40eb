//! Terminals of a program's own: none of its user's other ones can be opened by a name.
//!
//! A process that has a terminal open by name draws on it, and reads what is typed there. So a program gets a /dev/pts of its own
//! (each mount of devpts is one since Linux 4.7), which covers every mount of another; consoles and serial lines on which
//! its user is logged in are covered by /dev/null. In a user namespace below that of the mounts it cannot uncover them
//! (mount_namespaces(7)). What it has open already is not covered ([`crate::inherited`]), nor what others hand it.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::StatFs;
use rustix::mount::{MountFlags, mount_bind};

use crate::setup::{Real, Setup};
use crate::{Failure, Result, mountinfo};

/// `DEVPTS_SUPER_MAGIC` of linux/magic.h.
const DEVPTS: rustix::fs::FsWord = 0x1CD1;
/// Where terminals are.
const FOLDER: &str = "/dev/pts";

/// Consoles and serial lines on which this process's user is logged in: login(1) makes them its own.
///
/// In a user namespace that has not all users, those of others would seem to be the overflow user's.
pub fn of_user() -> Vec<PathBuf> {
    let user = rustix::process::getuid().as_raw();
    let names = fs::read_dir("/sys/class/tty").into_iter().flatten().flatten();
    let paths = names.map(|name| Path::new("/dev").join(name.file_name()));
    let is_own = |path: &PathBuf| {
        let found = fs::symlink_metadata(path);
        found.is_ok_and(|found| found.file_type().is_char_device() && found.uid() == user)
    };
    // /dev/tty is whichever the program has, and /dev/ptmx makes new ones.
    let is_one =
        |path: &PathBuf| !["/dev/tty", "/dev/ptmx"].map(Path::new).contains(&path.as_path());
    paths.filter(is_one).filter(is_own).collect()
}

/// In a mount namespace of its own this process finds no terminal any more but those that are made from now on; `others`
/// are covered as well.
///
/// # Errors
/// One of them cannot be covered; some are by then.
pub fn enter(others: &[PathBuf]) -> Result<()> {
    let all: Vec<(PathBuf, PathBuf, u64)> = mountinfo::read()?
        .into_iter()
        .filter(|mount| mount.fstype == "devpts")
        .filter_map(|mount| Some((device_of(&mount.path)?, mount)))
        .map(|(device, mount)| (mount.path, mount.root, device))
        .collect();
    let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
    Real.mount("devpts", Path::new(FOLDER), flags, "newinstance,ptmxmode=0666,mode=0620")?;
    for (path, root, device) in &all {
        // Covered by the mount above, or by one of this loop.
        if device_of(path).is_none_or(|now| now != *device) {
            continue;
        }
        // A part of it that is mounted somewhere: the maker of terminals, or one of them.
        let own = match root.strip_prefix("/") {
            Ok(name) if name.as_os_str().is_empty() => PathBuf::from(FOLDER),
            Ok(name) if name == Path::new("ptmx") => Path::new(FOLDER).join(name),
            _ => PathBuf::from("/dev/null"),
        };
        cover(&own, path)?;
        if device_of(path) == Some(*device) {
            let still = std::io::Error::other("terminals of others are still there");
            return Err(Failure::path(path, "cover", still).into());
        }
    }
    others.iter().try_for_each(|path| cover(Path::new("/dev/null"), path))
}

fn cover(own: &Path, path: &Path) -> Result<()> {
    mount_bind(own, path).map_err(|e| Failure::path(path, "cover", e).into())
}

/// The device number of the devpts that a path leads to; `None` if it leads to another file system, or nowhere.
fn device_of(path: &Path) -> Option<u64> {
    let is_devpts = |found: StatFs| found.f_type == DEVPTS;
    let found = rustix::fs::statfs(path).is_ok_and(is_devpts);
    found.then(|| fs::metadata(path).ok().map(|found| found.dev()))?
}
