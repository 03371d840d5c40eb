//! Files of a foreign lab on disk.
//!
//! Links to files are followed, those to folders are not, so that no folder is walked in a circle.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use netloom_foreign::{Files, Found, MOST_BYTES};

/// The files below a folder, and some that are only in memory.
pub(super) struct Disk {
    folder: PathBuf,
    made: BTreeMap<String, Vec<u8>>,
}

/// A file's bytes, at most one more than are read.
pub(super) fn read(path: &Path) -> Option<Vec<u8>> {
    if !fs::metadata(path).ok()?.is_file() {
        return None;
    }
    let mut bytes = vec![];
    File::open(path).ok()?.take(MOST_BYTES + 1).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

impl Disk {
    pub(super) fn new(folder: &Path) -> Disk {
        Disk { folder: folder.to_owned(), made: BTreeMap::new() }
    }

    /// A file that is not on disk.
    pub(super) fn put(&mut self, path: &str, content: Vec<u8>) {
        self.made.insert(path.to_owned(), content);
    }
}

impl Files for Disk {
    fn look(&self, path: &str) -> Option<Found> {
        let path = self.folder.join(path);
        let here = fs::symlink_metadata(&path).ok()?;
        let there = fs::metadata(&path).ok();
        Some(match there {
            Some(meta) if meta.is_file() => Found::File { mode: meta.permissions().mode() & 0o777 },
            Some(meta) if meta.is_dir() && here.is_dir() => Found::Folder,
            _ => Found::Other,
        })
    }

    fn list(&self, folder: &str) -> Vec<String> {
        let entries = fs::read_dir(self.folder.join(folder)).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        names
    }

    fn read(&self, path: &str) -> Option<Vec<u8>> {
        self.made.get(path).cloned().or_else(|| read(&self.folder.join(path)))
    }
}
