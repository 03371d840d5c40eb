//! Copies a file of a layer below into a layer, as a write to an overlay would.

use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, Timespec, Timestamps, Uid};

use crate::below::{self, Found};
use crate::options::Owners;
use crate::wrong::{Done, Wrong};

/// Copies what was found at a path to the same path below `root`, whose directory is there.
pub(crate) fn copy(found: &Found<'_>, real: &[Vec<u8>], root: &OwnedFd, owners: Owners) -> Done {
    let text = below::text(real);
    let stat = &found.stat;
    let mode = Mode::from_raw_mode(stat.st_mode & 0o7777);
    let (uid, gid) = (Uid::from_raw(stat.st_uid), Gid::from_raw(stat.st_gid));
    let fail = Wrong::of("copy the target of");
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => {
            let mut from = below::open_in(found.layer, real).map_err(&fail)?;
            // EXCL: never into a file, or through a link, that is there.
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
            // Closed to others until owner and permissions are set.
            let to = rustix::fs::openat(root, &text, flags, Mode::from_raw_mode(0o600))
                .map_err(&fail)?;
            let mut to = std::fs::File::from(to);
            let copied = std::io::copy(&mut from, &mut to);
            copied.map_err(|e| Wrong::at("copy the target of", &e))?;
            if owners.are_kept() {
                rustix::fs::fchown(&to, Some(uid), Some(gid)).map_err(&fail)?;
            }
            // After the owner, whose change drops file capabilities.
            below::copy_attributes(&from, &to).map_err(&fail)?;
            rustix::fs::fchmod(&to, mode).map_err(&fail)?;
            let at = Timespec { tv_sec: stat.st_mtime, tv_nsec: 0 };
            let times = Timestamps { last_access: at, last_modification: at };
            rustix::fs::futimens(&to, &times).map_err(&fail)
        }
        FileType::Symlink => {
            let target = rustix::fs::readlinkat(found.layer, &text, Vec::new()).map_err(&fail)?;
            rustix::fs::symlinkat(target, root, &text).map_err(&fail)?;
            match owners {
                // All files are one user's: there is nothing to change.
                Owners::One => Ok(()),
                Owners::Root | Owners::Many => {
                    let flags = AtFlags::SYMLINK_NOFOLLOW;
                    rustix::fs::chownat(root, &text, Some(uid), Some(gid), flags).map_err(&fail)
                }
            }
        }
        _ => Err(Wrong::new("link", "its target is not a file".to_owned())),
    }
}
