//! Directories of the host's other users, which nodes of an ordinary user's lab may fill.
//!
//! In a user namespace nobody may write into a directory whose owner is not mapped, nor copy it into an overlay's upper
//! layer. So one layer for all nodes of a lab has such directories once more, empty and root's; an overlay shows the
//! owner of its first layer, and the content of all (overlayfs.rst). What this user cannot read there is not shown: such a
//! directory is opaque. Files stay as they are: they can be read, removed and replaced, not written; but logs are the
//! host's, and servers add to them, so each is an empty file of the node's own.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use netloom_sys::Result;
use netloom_sys::setup::Setup;
use rustix::fs::{Access as Rights, XattrFlags};

use crate::files::{inside, is_outside};

/// Where programs keep what they write, and how deep below it directories are made.
const PLACES: [(&str, usize); 4] = [("/etc", 2), ("/var", 3), ("/srv", 2), ("/opt", 2)];

/// Where programs keep their logs.
const LOGS: &str = "/var/log";

/// How many directories and files are made in all.
const MOST: usize = 1000;

/// The mark of a directory that hides those of lower layers, in a user namespace (overlayfs.rst).
const OPAQUE: &str = "user.overlay.opaque";

/// Makes the layer in the directory `shared`. Returns the places that are in it.
pub(crate) fn make(setup: &impl Setup, shared: &Path) -> Result<Vec<PathBuf>> {
    let mut left = MOST;
    let mut made = Vec::new();
    for (place, deep) in PLACES.map(|(place, deep)| (Path::new(place), deep)) {
        let Ok(found) = fs::symlink_metadata(place) else { continue };
        if !found.is_dir() {
            continue;
        }
        setup.mkdir(&inside(shared, place), 0o755)?;
        copy(setup, (place, found.dev()), shared, deep, &mut left)?;
        made.push(place.to_owned());
    }
    Ok(made)
}

/// Copies the directories in `dir`, with what is in them as far as this user may read them; where another file system
/// begins it ends.
fn copy(
    setup: &impl Setup,
    (dir, device): (&Path, u64),
    shared: &Path,
    deep: usize,
    left: &mut usize,
) -> Result<()> {
    let mut names: Vec<PathBuf> = fs::read_dir(dir)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| {
            entry.file_type().is_ok_and(|kind| kind.is_dir() || is_log(&entry.path(), kind))
        })
        .map(|entry| entry.path())
        .collect();
    names.sort();
    for path in names {
        let ours = |found: &fs::Metadata| found.dev() == device && is_outside(found.uid());
        let may = rustix::fs::access(&path, Rights::READ_OK | Rights::EXEC_OK).is_ok();
        let Some(found) = fs::symlink_metadata(&path).ok().filter(&ours) else { continue };
        if *left == 0 {
            continue;
        }
        *left -= 1;
        let (own, mode) = (inside(shared, &path), found.mode() & 0o7777);
        if !found.is_dir() {
            setup.write(&own, b"", mode)?;
            continue;
        }
        setup.mkdir(&own, mode)?;
        if !may {
            hide_lower(&own);
        } else if deep > 1 {
            copy(setup, (&path, device), shared, deep - 1, left)?;
        }
    }
    Ok(())
}

/// Whether something is the log of a program.
fn is_log(path: &Path, kind: fs::FileType) -> bool {
    kind.is_file() && path.starts_with(LOGS)
}

/// Makes a directory hide those of lower layers. Where that cannot be (tmpfs before Linux 6.6 keeps no such marks), there
/// is no such directory: a node then has the host's, which it cannot enter.
fn hide_lower(dir: &Path) {
    if rustix::fs::setxattr(dir, OPAQUE, b"y", XattrFlags::empty()).is_err() {
        let _ = fs::remove_dir(dir);
    }
}
