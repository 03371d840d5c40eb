//! Folders of labs: made for their owner alone, or so that others may pass, and removed where netloom made them.

use std::path::Path;

use netloom_sys::trusted::TrustedDir;
use rustix::fs::{Mode, OFlags};

use crate::{Error, Result};

/// The file in the common folder of labs that records that netloom made that folder.
const MADE_MARK: &str = ".made";

/// Makes the common folder of labs; marks a new one with [`MADE_MARK`].
pub(super) fn make_common_dir(path: &Path) -> Result<TrustedDir> {
    let failed = Error::in_runtime(path);
    // One that another process is making is marked by that.
    let (common, made) = TrustedDir::make(path).map_err(&failed)?;
    if made {
        mark(&common).map_err(failed)?;
    }
    Ok(common)
}

/// Removes the common folder if it is empty and netloom made it.
pub(super) fn remove_common_dir(path: &Path) {
    let Ok(Some(common)) = TrustedDir::open(path) else { return };
    let Ok(entries) = common.entries() else { return };
    let others = entries.iter().any(|(name, _)| name != MADE_MARK);
    if others || !common.remove_file(MADE_MARK).unwrap_or(false) {
        return;
    }
    if std::fs::remove_dir(path).is_err() {
        // Another lab was made meanwhile; the folder is removed with that one.
        let _ = mark(&common);
    }
}

fn mark(common: &TrustedDir) -> netloom_sys::Result<()> {
    common.open_file(MADE_MARK, OFlags::WRONLY | OFlags::CREATE).map(drop)
}

/// Makes the folder of a socket that other users may be given access to, and lets them enter it.
pub(crate) fn make_shared_dir(socket: &Path) -> Result<()> {
    let Some(folder) = socket.parent() else { return Ok(()) };
    make_private_dir(folder)?;
    for path in [Some(folder), folder.parent()].into_iter().flatten() {
        let failed = Error::in_runtime(path);
        if let Some(dir) = TrustedDir::open(path).map_err(&failed)? {
            dir.admit(Mode::XGRP | Mode::XOTH).map_err(failed)?;
        }
    }
    Ok(())
}

/// Makes a folder for its owner alone, with missing ones above it; refuses one that others could have prepared.
pub(crate) fn make_private_dir(path: &Path) -> Result<()> {
    TrustedDir::make(path).map(drop).map_err(Error::in_runtime(path))
}
