//! The folder of an image: its files, its lock, and the order in which it becomes whole.
//!
//! Work is done in a folder inside, whose name begins with a dot; the next builder removes what a killed one has
//! left. `image.json` goes before the files change and comes after them.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use netloom_sys::Failure;
use rustix::fs::{FlockOperation, Mode, OFlags, fcntl_lock};
use tempfile::TempDir;

use crate::{Built, Error, Image, Result};

pub(crate) const KERNEL: &str = "kernel";
pub(crate) const INITRD: &str = "initrd";
const IMAGE: &str = "image.json";
const LOCK: &str = ".lock";
const WORK: &str = ".building-";

#[derive(Debug)]
pub(crate) struct Store {
    folder: PathBuf,
    /// Held while it is open.
    _lock: File,
}

impl Store {
    /// Opens the folder, alone among processes.
    pub(crate) fn open(folder: &Path) -> Result<Store> {
        fs::create_dir_all(folder).map_err(|e| Failure::path(folder, "make", e))?;
        let folder = folder.canonicalize().map_err(|e| Failure::path(folder, "find", e))?;
        let path = folder.join(LOCK);
        // Other writers of the folder cannot make us create a file elsewhere by a link.
        let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let lock = rustix::fs::open(&path, flags, Mode::from_raw_mode(0o644)).map(File::from);
        let lock = lock.map_err(|e| Failure::path(&path, "open", e))?;
        // By process, not by open file: programs that a killed builder has started do not keep it.
        fcntl_lock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(|e| match e {
            rustix::io::Errno::AGAIN | rustix::io::Errno::ACCESS => Error::Busy(folder.clone()),
            e => Failure::path(path, "lock", e).into(),
        })?;
        Ok(Store { folder, _lock: lock })
    }

    /// A folder to work in, after what others have left is gone.
    pub(crate) fn work(&self) -> Result<TempDir> {
        let failed = |e| Failure::path(&self.folder, "make a folder in", e);
        self.sweep(None);
        Ok(tempfile::Builder::new().prefix(WORK).tempdir_in(&self.folder).map_err(failed)?)
    }

    /// Removes what killed builders have left. A program of theirs may still write there: the next builder removes it.
    fn sweep(&self, except: Option<&Path>) {
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let left = entry.file_name().to_string_lossy().starts_with(WORK);
            if left && except != Some(entry.path().as_path()) {
                let _ = fs::remove_dir_all(entry.path());
            }
        }
    }

    /// The image that is here, if it is whole and of these packages.
    pub(crate) fn image(&self, packages: &[String], way: u64) -> Option<Image> {
        let text = fs::read(self.folder.join(IMAGE)).ok()?;
        let image: Image = serde_json::from_slice(&text).ok()?;
        let size = |name: &str| fs::metadata(self.folder.join(name)).map(|about| about.len()).ok();
        let whole = size(KERNEL)? == image.kernel_bytes && size(INITRD)? == image.initrd_bytes;
        (whole && image.packages == packages && image.way == way).then_some(image)
    }

    /// Puts what was made in its place.
    pub(crate) fn keep(&self, work: &TempDir, image: &Image) -> Result<()> {
        let at = |name: &str| self.folder.join(name);
        match fs::remove_file(at(IMAGE)) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                return Err(Failure::path(at(IMAGE), "remove", e).into());
            }
            _ => {}
        }
        let text = serde_json::to_vec_pretty(image).unwrap_or_default();
        let made = work.path().join(IMAGE);
        fs::write(&made, text).map_err(|e| Failure::path(made, "write", e))?;
        // It comes last: where it is, the others are whole.
        for name in [KERNEL, INITRD, IMAGE] {
            let from = work.path().join(name);
            fs::rename(&from, at(name)).map_err(|e| Failure::path(at(name), "put", e))?;
        }
        self.sweep(Some(work.path()));
        Ok(())
    }

    pub(crate) fn built(&self, image: Image, took: Option<(Duration, Duration)>) -> Built {
        Built { image, kernel: self.folder.join(KERNEL), initrd: self.folder.join(INITRD), took }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_is_a_link_makes_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let (at, elsewhere) = (folder.path().join("at"), folder.path().join("elsewhere"));
        fs::create_dir(&at).unwrap();
        std::os::unix::fs::symlink(&elsewhere, at.join(LOCK)).unwrap();
        Store::open(&at).unwrap_err();
        assert!(!elsewhere.exists());
        fs::remove_file(at.join(LOCK)).unwrap();
        Store::open(&at).unwrap();
    }
}
