//! Files of a foreign lab on disk.
//!
//! Everything below the lab's folder is opened from that folder's descriptor, and nothing of it leads out
//! (`open_beneath`). Links to files that stay below are followed, those to folders are not, so that no folder is walked in
//! a circle. Paths that a lab file names outside of its folder are the caller's, who sees them in the account; links of
//! another user on them are not followed.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use netloom_foreign::{Files, Found, MOST_BYTES};
use netloom_sys::lookup::{open_beneath, open_by_own_links};
use netloom_sys::setup::open_regular;
use rustix::fs::{CWD, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

/// The files below a folder, and some that are only in memory.
pub(super) struct Disk {
    folder: PathBuf,
    /// `None` if there is no such folder.
    root: Option<OwnedFd>,
    made: BTreeMap<String, Vec<u8>>,
}

/// The bytes of a file that the caller has named, at most one more than are read.
pub(super) fn read(path: &Path) -> Option<Vec<u8>> {
    bounded(open_regular(path).ok()?)
}

fn bounded(file: File) -> Option<Vec<u8>> {
    let mut bytes = vec![];
    file.take(MOST_BYTES + 1).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

impl Disk {
    pub(super) fn new(folder: &Path) -> Disk {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(folder, flags, Mode::empty()).ok();
        Disk { folder: folder.to_owned(), root, made: BTreeMap::new() }
    }

    /// A file that is not on disk, or that the caller has named.
    pub(super) fn put(&mut self, path: &str, content: Vec<u8>) {
        self.made.insert(path.to_owned(), content);
    }

    fn open(&self, path: &str, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        let outside = path.starts_with('/') || path.split('/').next() == Some("..");
        match &self.root {
            None => Err(Errno::NOENT),
            Some(root) if !outside => open_beneath(root, Path::new(path), flags),
            Some(_) => {
                let flags = flags | OFlags::CLOEXEC;
                let full = self.folder.join(path);
                if flags.contains(OFlags::PATH | OFlags::NOFOLLOW) {
                    return rustix::fs::openat(CWD, full, flags, Mode::empty());
                }
                // One of another user leads where that wants.
                open_by_own_links(&full, flags)
                    .map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::XDEV))
            }
        }
    }

    /// The object at a path itself, even if it is a link.
    fn kind(&self, path: &str) -> Option<FileType> {
        let found = self.open(path, OFlags::PATH | OFlags::NOFOLLOW).ok()?;
        Some(FileType::from_raw_mode(rustix::fs::fstat(found).ok()?.st_mode))
    }
}

impl Files for Disk {
    fn look(&self, path: &str) -> Option<Found> {
        let found = match self.open(path, OFlags::PATH) {
            Err(Errno::XDEV) => return Some(Found::Away),
            Err(_) => return self.kind(path).map(|_| Found::Other),
            Ok(found) => rustix::fs::fstat(found).ok()?,
        };
        Some(match FileType::from_raw_mode(found.st_mode) {
            FileType::RegularFile => Found::File { mode: found.st_mode & 0o777 },
            FileType::Directory if self.kind(path).is_some_and(FileType::is_dir) => Found::Folder,
            _ => Found::Other,
        })
    }

    fn list(&self, folder: &str) -> Vec<String> {
        let opened = self.open(folder, OFlags::RDONLY | OFlags::DIRECTORY);
        let entries = opened.and_then(Dir::new).into_iter().flatten().flatten();
        // A name that is not text is left out by this one, which nothing has.
        let name = |entry: rustix::fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
        let mut names: Vec<String> = entries.map(name).collect();
        names.retain(|name| name != "." && name != "..");
        names.sort();
        names
    }

    fn read(&self, path: &str) -> Option<Vec<u8>> {
        if let Some(content) = self.made.get(path) {
            return Some(content.clone());
        }
        // Opening a device may have any effect.
        self.look(path).filter(|found| matches!(found, Found::File { .. }))?;
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = File::from(self.open(path, flags).ok()?);
        // The path may lead to something else meanwhile.
        file.metadata().ok().filter(fs::Metadata::is_file)?;
        bounded(file)
    }

    fn target(&self, path: &str) -> Option<String> {
        let is_link = self.kind(path).is_some_and(FileType::is_symlink);
        if !is_link && self.look(path) != Some(Found::Away) {
            return None;
        }
        let full = self.folder.join(path);
        // A link that leads nowhere has no canonical path; its own text still tells the reader
        // something.
        let target = fs::canonicalize(&full).or_else(|_| fs::read_link(&full)).ok()?;
        Some(target.to_string_lossy().into_owned())
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn no_link_below_the_folder_leads_out_of_it() {
        let scratch = netloom_kit::Scratch::new();
        let lab = scratch.path().join("lab");
        fs::create_dir_all(lab.join("r1/etc")).expect("make folders");
        fs::write(scratch.path().join("secret"), "secret").expect("write a file");
        fs::write(lab.join("r1/own"), "own").expect("write a file");
        symlink("../../../secret", lab.join("r1/etc/up")).expect("make a link");
        symlink(scratch.path(), lab.join("shared")).expect("make a link");
        symlink("../own", lab.join("r1/etc/near")).expect("make a link");
        symlink("etc", lab.join("r1/again")).expect("make a link");
        fs::write(lab.join("r1").join(OsStr::from_bytes(b"\xff")), "").expect("write a file");
        let disk = Disk::new(&lab);
        let secret = scratch.path().join("secret").to_string_lossy().into_owned();
        assert_eq!(disk.look("r1/etc/up"), Some(Found::Away));
        assert_eq!(disk.read("r1/etc/up"), None);
        assert_eq!(disk.target("r1/etc/up"), Some(secret.clone()));
        assert_eq!((disk.look("shared"), disk.list("shared")), (Some(Found::Away), vec![]));
        assert_eq!(disk.look("shared/secret"), Some(Found::Away));
        assert_eq!(disk.target("shared/secret"), Some(secret));
        assert_eq!(disk.read("r1/etc/near").as_deref(), Some(&b"own"[..]));
        assert_eq!((disk.look("r1/again"), disk.look("r1/none")), (Some(Found::Other), None));
        assert_eq!(disk.list("r1"), ["again", "etc", "own", "\u{fffd}"]);
        assert_eq!(disk.look("r1/\u{fffd}"), None);
        // What a lab file names outside is the host's.
        assert_eq!(disk.read("../secret").as_deref(), Some(&b"secret"[..]));
        symlink("secret", scratch.path().join("own")).expect("make a link");
        assert_eq!(disk.read("../own").as_deref(), Some(&b"secret"[..]));
    }

    #[test]
    fn no_link_of_another_user_is_followed_outside_of_the_folder() {
        netloom_kit::root_only!("makes a link of another user");
        let scratch = netloom_kit::Scratch::new();
        let (lab, link) = (scratch.path().join("lab"), scratch.path().join("link"));
        fs::create_dir(&lab).expect("make a folder");
        let secret = scratch.file("secret", "secret");
        symlink(&secret, &link).expect("make a link");
        std::os::unix::fs::lchown(&link, Some(1), Some(1)).expect("give it away");
        let disk = Disk::new(&lab);
        for path in ["../link", link.to_str().expect("a path in UTF-8")] {
            assert_eq!((disk.look(path), disk.read(path)), (Some(Found::Away), None), "{path}");
            assert_eq!(disk.target(path), Some(secret.to_string_lossy().into_owned()));
        }
    }
}
