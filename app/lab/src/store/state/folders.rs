//! Folders of labs: made for their owner alone, or so that others may pass, and removed where netloom made them.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::Path;

use crate::{Error, Result};

/// The file in the common folder of labs that records that netloom made that folder.
const MADE_MARK: &str = ".made";

/// Makes the common folder of labs; marks a new one with [`MADE_MARK`].
pub(super) fn make_common_dir(path: &Path) -> Result<()> {
    if let Some(parent) = path.parent().filter(|_| !path.exists()) {
        fs::DirBuilder::new()
            .mode(0o700)
            .recursive(true)
            .create(parent)
            .map_err(Error::at(parent, "make folder"))?;
        // Another process may be making it and marks it itself.
        if fs::DirBuilder::new().mode(0o700).create(path).is_ok() {
            let mark = path.join(MADE_MARK);
            File::create(&mark).map_err(Error::at(&mark, "write"))?;
        }
    }
    make_private_dir(path, true)
}

/// Removes the common folder if it is empty and netloom made it.
pub(super) fn remove_common_dir(path: &Path) {
    let mark = path.join(MADE_MARK);
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let mut others = entries.filter(|entry| entry.file_name() != MADE_MARK);
    if others.next().is_some() || fs::remove_file(&mark).is_err() {
        return;
    }
    if fs::remove_dir(path).is_err() {
        // Another lab was made meanwhile; the folder is removed with that one.
        let _ = File::create(&mark);
    }
}

/// Makes the folder of a socket that other users may be given access to, and lets them enter it.
pub(crate) fn make_shared_dir(socket: &Path) -> Result<()> {
    let Some(folder) = socket.parent() else { return Ok(()) };
    make_private_dir(folder, true)?;
    for path in [Some(folder), folder.parent()].into_iter().flatten() {
        let found = fs::metadata(path).map_err(Error::at(path, "look at"))?;
        let mode = found.mode() & 0o777 | 0o011;
        fs::set_permissions(path, fs::Permissions::from_mode(mode))
            .map_err(Error::at(path, "let others pass"))?;
    }
    Ok(())
}

/// Makes a folder for its owner alone; refuses an existing one that others could have prepared.
pub(crate) fn make_private_dir(path: &Path, deep: bool) -> Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.mode(0o700).recursive(deep);
    match builder.create(path) {
        Ok(()) => {}
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
        Err(e) => return Err(Error::at(path, "make folder")(e)),
    }
    let found = fs::symlink_metadata(path).map_err(Error::at(path, "look at"))?;
    let own = rustix::process::geteuid().as_raw();
    if !found.is_dir() || found.uid() != own {
        let e = io::Error::other("not a folder of this user's");
        return Err(Error::at(path, "use as folder of labs")(e));
    }
    if found.mode() & 0o022 != 0 {
        let e = io::Error::other("others may write there");
        return Err(Error::at(path, "use as folder of labs")(e));
    }
    Ok(())
}
