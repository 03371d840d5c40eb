//! The folder that a process serves: when it is gone, nobody can find the process any more, and it ends.

use std::path::{Path, PathBuf};
use std::time::Duration;

/// How often a process looks whether its folder is still there.
pub const LOOK: Duration = Duration::from_secs(5);

/// A folder as it was when a process began.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    /// Device and inode.
    identity: Option<(u64, u64)>,
}

impl Folder {
    /// The folder that is at this path now.
    pub fn of(path: &Path) -> Folder {
        Folder { path: path.to_owned(), identity: identity(path) }
    }

    /// Whether it is gone, or another has its path.
    pub fn is_gone(&self) -> bool {
        identity(&self.path) != self.identity
    }
}

fn identity(folder: &Path) -> Option<(u64, u64)> {
    let stat = rustix::fs::stat(folder).ok()?;
    Some((stat.st_dev, stat.st_ino))
}
