//! Locks between processes, by flock(2): the kernel frees those of a process that was killed.

use std::fs::File;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use netloom_sys::Failure;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::Result;

/// How often a lock of another process is tried.
const LOOK: Duration = Duration::from_millis(20);

/// A lock that is held.
#[derive(Debug)]
pub(crate) struct Held(File);

impl Held {
    /// The locked file, for as long as this is held.
    pub(crate) fn file(&self) -> &File {
        &self.0
    }
}

/// Takes the lock file at `path`, alone or shared; `None` if another process has it for longer than `patience`.
pub(crate) fn take(path: &Path, alone: bool, patience: Option<Duration>) -> Result<Option<Held>> {
    let begin = Instant::now();
    loop {
        let file = File::options().create(true).truncate(false).write(true).mode(0o600).open(path);
        let file = file.map_err(|e| Failure::path(path, "open", e))?;
        match flock(&file, operation(alone)) {
            Ok(()) if is_still(&file, path) => return Ok(Some(Held(file))),
            // It was removed meanwhile: its successor counts.
            Ok(()) => continue,
            Err(Errno::AGAIN) => {}
            Err(Errno::INTR) => continue,
            Err(e) => return Err(Failure::path(path, "lock", e).into()),
        }
        if patience.is_some_and(|most| begin.elapsed() >= most) {
            return Ok(None);
        }
        // flock(2) knows no time limit, so that it is tried at intervals.
        std::thread::sleep(LOOK);
    }
}

/// Locks a folder or file that is there, alone; `None` if another process has it, or it is gone.
pub(crate) fn take_existing(path: &Path) -> Option<Held> {
    let found = File::open(path).ok()?;
    flock(&found, operation(true)).ok()?;
    is_still(&found, path).then_some(Held(found))
}

fn operation(alone: bool) -> FlockOperation {
    match alone {
        true => FlockOperation::NonBlockingLockExclusive,
        false => FlockOperation::NonBlockingLockShared,
    }
}

// A lock of a removed file locks nothing that others open.
fn is_still(file: &File, path: &Path) -> bool {
    let found = std::fs::symlink_metadata(path).map(|found| (found.dev(), found.ino()));
    let own = file.metadata().map(|own| (own.dev(), own.ino()));
    matches!((found, own), (Ok(found), Ok(own)) if found == own)
}
