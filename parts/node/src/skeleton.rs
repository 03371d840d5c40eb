//! Directories of the host's other users, which nodes of an ordinary user's lab may fill.
//!
//! In a user namespace nobody may write into a directory whose owner is not mapped, nor copy it into an overlay's upper
//! layer. So one layer for all nodes of a lab has such directories once more, empty and root's; an overlay shows the
//! owner of its first layer, and the content of all (overlayfs.rst). Files stay as they are: they can be read, removed
//! and replaced, not written.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use netloom_sys::Result;
use netloom_sys::setup::Setup;
use rustix::fs::Access as Rights;

use crate::files::{access_of, inside, is_outside};

/// Where programs keep what they write.
const PLACES: [&str; 4] = ["/etc", "/var", "/srv", "/opt"];

/// How deep below these directories are made, and how many in all.
const DEEP: usize = 4;
const MOST: usize = 1000;

/// Makes the layer in the directory `shared`. Returns the places that are in it.
pub(crate) fn make(setup: &impl Setup, shared: &Path) -> Result<Vec<PathBuf>> {
    let mut left = MOST;
    let mut made = Vec::new();
    for place in PLACES.map(Path::new) {
        let Ok(found) = fs::symlink_metadata(place) else { continue };
        if !found.is_dir() {
            continue;
        }
        setup.mkdir(&inside(shared, place), 0o755)?;
        copy(setup, (place, found.dev()), shared, DEEP, &mut left)?;
        made.push(place.to_owned());
    }
    Ok(made)
}

/// Copies the directories in `dir`, as far as this user may read them; where another file system begins it ends.
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
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect();
    names.sort();
    for path in names {
        let ours = |found: &fs::Metadata| found.dev() == device && is_outside(found.uid());
        let may = rustix::fs::access(&path, Rights::READ_OK | Rights::EXEC_OK).is_ok();
        if *left == 0 || !may || !fs::symlink_metadata(&path).is_ok_and(|found| ours(&found)) {
            continue;
        }
        *left -= 1;
        setup.mkdir(&inside(shared, &path), access_of(&path, true).mode)?;
        if deep > 1 {
            copy(setup, (&path, device), shared, deep - 1, left)?;
        }
    }
    Ok(())
}
