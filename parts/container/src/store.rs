//! The folder of all images of a user.
//!
//! ```text
//! lock               held shared by fetchers and users, alone for removal
//! names/HASH.json    an image under a name: a Record
//! blobs/HEX          packed layers by digest
//! partial/HEX        the part of one that has come; continued by the next
//! layers.many/HEX/   unpacked layers by chain, with owners: root's, or of an ordinary user with many ids
//! layers.one/HEX/    the same where all files have one owner
//! staging/           layers being made or removed; locked by the process that does it
//! locks/HEX          held by the process that fetches or unpacks that
//! pins/HASH.json     a lab, and the layers that it uses
//! ```
//!
//! A file or folder outside of `staging` and `partial` is whole: it was renamed into its place.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use netloom_oci::Digest;
use netloom_sys::Failure;
use netloom_sys::trusted::TrustedDir;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::locks::{self, Held};
use crate::options::Owners;
use crate::{Error, Record, Result};

/// How long others may fetch before who removes gives up.
const PATIENCE: Duration = Duration::from_secs(2);

/// The largest document of the store.
const MOST_BYTES: u64 = 16 << 20;

const FOLDERS: [&str; 8] =
    ["names", "blobs", "partial", "layers.many", "layers.one", "staging", "locks", "pins"];

/// The store.
#[derive(Clone, Debug)]
pub struct Store {
    root: PathBuf,
}

impl Store {
    /// Where this user's store is: `images` in [`netloom_sys::data::folder`].
    ///
    /// # Errors
    /// An ordinary user without a home.
    pub fn folder() -> Result<PathBuf> {
        let none = || Failure::new("images", "find their folder", "there is no HOME");
        Ok(netloom_sys::data::folder().ok_or_else(none)?.join("images"))
    }

    /// Opens a store, and makes it if it is not there.
    ///
    /// # Errors
    /// It cannot be made, or is another user's.
    pub fn open(root: &Path) -> Result<Store> {
        // Others would put into it what is unpacked, and have removed what they want.
        TrustedDir::make_in_home(root).map_err(|e| Failure::path(root, "keep images in", e))?;
        let found = fs::symlink_metadata(root).map_err(|e| Failure::path(root, "look at", e))?;
        if found.uid() != rustix::process::geteuid().as_raw() || found.mode() & 0o077 != 0 {
            let why = "it must be this user's, and closed to others (mode 0700)";
            return Err(Failure::path(root, "keep images in", why).into());
        }
        for name in FOLDERS {
            let path = root.join(name);
            match fs::DirBuilder::new().mode(0o700).create(&path) {
                Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => {
                    return Err(Failure::path(path, "make folder", e).into());
                }
                _ => {}
            }
        }
        Ok(Store { root: root.to_owned() })
    }

    /// Its folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// The file of a packed layer.
    pub fn blob(&self, digest: &Digest) -> PathBuf {
        self.at("blobs").join(digest.hex())
    }

    pub(crate) fn partial(&self, digest: &Digest) -> PathBuf {
        self.at("partial").join(digest.hex())
    }

    /// The folder of an unpacked layer.
    pub fn layer(&self, chain: &Digest, owners: Owners) -> PathBuf {
        self.at(owners.folder()).join(chain.hex())
    }

    /// Holds the store for work that others may do, too.
    pub(crate) fn share(&self) -> Result<Held> {
        self.take(&self.at("lock"), false, Some(Duration::from_secs(60)))
    }

    /// Holds the store alone.
    pub(crate) fn alone(&self) -> Result<Held> {
        self.take(&self.at("lock"), true, Some(PATIENCE))
    }

    /// Holds one content, for as long as it takes.
    pub(crate) fn hold(&self, kind: &str, digest: &Digest) -> Result<Held> {
        let path = self.at("locks").join(format!("{kind}{}", digest.hex()));
        // Without a bound it never gives up.
        self.take(&path, true, None)
    }

    fn take(&self, path: &Path, alone: bool, patience: Option<Duration>) -> Result<Held> {
        locks::take(path, alone, patience)?.ok_or_else(|| Error::Busy(self.root.clone()))
    }

    /// A new folder in `staging`, locked: until that is dropped nobody removes it.
    pub(crate) fn stage(&self, name: &str) -> Result<(PathBuf, Held)> {
        for turn in 0_u32.. {
            let unique = format!("{name}.{}.{turn}", rustix::process::getpid().as_raw_nonzero());
            let path = self.at("staging").join(unique);
            match fs::DirBuilder::new().mode(0o700).create(&path) {
                Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => continue,
                Err(e) => return Err(Failure::path(path, "make folder", e).into()),
                Ok(()) => {}
            }
            // Swept between being made and being locked: another name is tried.
            if let Some(held) = locks::take_existing(&path) {
                return Ok((path, held));
            }
        }
        Err(Error::Busy(self.root.clone()))
    }

    /// Removes what killed processes have left in `staging`, as far as this process may.
    pub(crate) fn sweep(&self) {
        for entry in fs::read_dir(self.at("staging")).into_iter().flatten().flatten() {
            let path = entry.path();
            let Some(held) = locks::take_existing(&path) else { continue };
            match entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                true => remove_tree(&path),
                false => drop(fs::remove_file(&path)),
            }
            drop(held);
        }
    }

    /// The image under a name.
    pub fn record(&self, name: &str) -> Option<Record> {
        let record: Record = read(&self.named(name)).ok()?;
        // Hashes are cut: the name inside decides.
        (record.name == name).then_some(record)
    }

    /// All images, by name.
    pub fn records(&self) -> Vec<Record> {
        let files = fs::read_dir(self.at("names")).into_iter().flatten().flatten();
        let mut all: Vec<Record> = files.filter_map(|entry| read(&entry.path()).ok()).collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }

    /// Keeps an image under its name.
    pub(crate) fn keep(&self, record: &Record) -> Result<()> {
        self.write(&self.named(&record.name), record)
    }

    /// Forgets a name; what it named stays until nothing needs it.
    pub(crate) fn forget(&self, name: &str) -> Result<()> {
        let path = self.named(name);
        Ok(fs::remove_file(&path).map_err(|e| Failure::path(path, "remove", e))?)
    }

    fn named(&self, name: &str) -> PathBuf {
        let hash = Digest::of(name.as_bytes());
        self.at("names").join(format!("{}.json", &hash.hex()[..32]))
    }

    /// Writes a document as a whole: in `staging`, locked while it is made, then renamed into its place.
    pub(crate) fn write(&self, path: &Path, value: &impl Serialize) -> Result<()> {
        let text = serde_json::to_vec_pretty(value).unwrap_or_default();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let pid = rustix::process::getpid().as_raw_nonzero();
        let made = self.at("staging").join(format!("{name}.{pid}"));
        let held = self.take(&made, true, None)?;
        let write = || {
            let mut file = held.file();
            // A killed process of the same number may have left something.
            file.set_len(0)?;
            file.write_all(&text)?;
            // Renamed while locked: a sweep takes only what it can lock.
            fs::rename(&made, path)
        };
        Ok(write().map_err(|e| Failure::path(path, "write", e))?)
    }
}

/// Reads a document of bounded size.
pub(crate) fn read<T: DeserializeOwned>(path: &Path) -> std::io::Result<T> {
    let mut text = Vec::new();
    File::open(path)?.take(MOST_BYTES).read_to_end(&mut text)?;
    Ok(serde_json::from_slice(&text)?)
}

/// Removes a tree, whatever its directories' permissions, as far as this process may.
pub(crate) fn remove_tree(path: &Path) {
    // Best effort: remains are removed by the next sweep.
    let _ = fs::remove_dir_all(path);
}
