//! Directories that nobody but this user and root can fill or exchange.
//!
//! [`TrustedDir::open`] walks from `/` by descriptors, one component at a time. Each directory on the path belongs to
//! root, this user or the owner of `/`, and is not writable by others unless it is sticky: there only the owner of
//! an entry moves it, and the next step checks that owner. Symbolic links on the path are followed if root or this user
//! made them. The last component, and every name below it, is never a link: a single component opened with
//! `O_NOFOLLOW` is what `RESOLVE_NO_SYMLINKS` of openat2(2) is for a path, also in sandboxes without that call.
//!
//! What a file system of another user's says of owners is not believed (FUSE).
//!
//! Invariant: no other user can change what a checked path leads to, so it stays true for calls that take a path. In a
//! user namespace without root's id, root's files and strangers' look alike on the path, never at its end. Does not
//! judge the content of files. See path_resolution(7).

mod served;
mod tree;
mod walk;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::{Error, Failure, Result};
pub(crate) use served::judge as judge_served;
use walk::{Group, Missing, Walk};

/// Longest file that is read: more than the state of the largest lab.
const MOST_CONTENT: u64 = 256 << 20;

/// A directory that only this user and root can fill or exchange; all names in it are single components.
#[derive(Debug)]
pub struct TrustedDir {
    fd: OwnedFd,
    path: PathBuf,
}

impl TrustedDir {
    /// The directory at a path; `None` if it, or one above it, does not exist.
    ///
    /// # Errors
    /// [`Error::Untrusted`] names what others can fill or exchange, before anything in it was read.
    pub fn open(path: &Path) -> Result<Option<TrustedDir>> {
        Ok(Walk::to(path, Missing::IsNone, Group::MayNot)?.map(|(found, _)| found))
    }

    /// The same, made with mode 0700 if missing, as are those above it. Also returns whether this call made it.
    ///
    /// # Errors
    /// As [`TrustedDir::open`].
    pub fn make(path: &Path) -> Result<(TrustedDir, bool)> {
        TrustedDir::make_as(path, Group::MayNot)
    }

    /// As [`TrustedDir::make`], for a folder in a home: those above it may be writable by this user's own group, as homes are
    /// where each user has a group.
    ///
    /// # Errors
    /// As [`TrustedDir::open`].
    pub fn make_in_home(path: &Path) -> Result<TrustedDir> {
        TrustedDir::make_as(path, Group::MayWrite).map(|(made, _)| made)
    }

    fn make_as(path: &Path, group: Group) -> Result<(TrustedDir, bool)> {
        let gone = || Failure::path(path, "make folder", Errno::NOENT).into();
        Walk::to(path, Missing::IsMade, group)?.ok_or_else(gone)
    }

    /// The directory of this name in it.
    ///
    /// # Errors
    /// [`Error::Untrusted`] for a link, and for one that others can fill.
    pub fn dir(&self, name: impl AsRef<OsStr>) -> Result<Option<TrustedDir>> {
        let (name, path) = (name.as_ref(), self.path_of(name.as_ref()));
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = match rustix::fs::openat(&self.fd, single(name)?, flags, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(None),
            opened => opened.map_err(Failure::of(shown(&path), "open"))?,
        };
        walk::judge_end(&stat_of(&fd, &path)?, &path)?;
        Ok(Some(TrustedDir { fd, path }))
    }

    /// The same, made with mode 0700 if missing.
    ///
    /// # Errors
    /// As [`TrustedDir::dir`].
    pub fn make_dir(&self, name: impl AsRef<OsStr>) -> Result<TrustedDir> {
        let path = self.path_of(name.as_ref());
        let failed = Failure::of(shown(&path), "make folder");
        match rustix::fs::mkdirat(&self.fd, single(name.as_ref())?, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(e) => return Err(failed(e).into()),
        }
        self.dir(name)?.ok_or_else(|| failed(Errno::NOENT).into())
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path of a name in it.
    pub fn path_of(&self, name: impl AsRef<OsStr>) -> PathBuf {
        self.path.join(name.as_ref())
    }

    /// The status of what has this name, itself and not what a link leads to.
    pub fn status(&self, name: impl AsRef<OsStr>) -> Option<Stat> {
        let name = single(name.as_ref()).ok()?;
        rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW).ok()
    }

    /// The object of this name, itself and not the target of a link.
    pub fn kind(&self, name: impl AsRef<OsStr>) -> Option<FileType> {
        Some(FileType::from_raw_mode(self.status(name)?.st_mode))
    }

    /// Whether anything has this name.
    pub fn has(&self, name: impl AsRef<OsStr>) -> bool {
        self.kind(name).is_some()
    }

    /// Whether the name is that of this very file.
    pub fn is(&self, name: impl AsRef<OsStr>, file: impl AsFd) -> bool {
        let there = self.status(name).zip(rustix::fs::fstat(file).ok());
        there.is_some_and(|(a, b)| identity(&a) == identity(&b))
    }

    /// A descriptor to list, lock and change the directory itself.
    pub fn readable(&self) -> Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(&self.fd, c".", flags, Mode::empty());
        Ok(opened.map_err(Failure::of(shown(&self.path), "open"))?)
    }

    /// The names in it, with what they are; links are links.
    pub fn entries(&self) -> Result<Vec<(OsString, FileType)>> {
        let failed = Failure::of(shown(&self.path), "list");
        let mut found = Vec::new();
        for entry in Dir::new(self.readable()?).map_err(&failed)? {
            let entry = entry.map_err(&failed)?;
            let name = text(entry.file_name());
            if name == "." || name == ".." {
                continue;
            }
            let kind = match entry.file_type() {
                FileType::Unknown => self.kind(&name).unwrap_or(FileType::Unknown),
                known => known,
            };
            found.push((name, kind));
        }
        Ok(found)
    }

    /// Lets the users of these bits of a mode into it, beside those who may enter already.
    pub fn admit(&self, bits: Mode) -> Result<()> {
        let failed = Failure::of(shown(&self.path), "let others pass");
        let directory = self.readable()?;
        let mode = Mode::from_raw_mode(stat_of(&directory, &self.path)?.st_mode);
        Ok(rustix::fs::fchmod(&directory, (mode & Mode::from_raw_mode(0o777)) | bits)
            .map_err(failed)?)
    }

    /// Opens a file in it; one that is made has mode 0600. Never follows a link, never waits for a FIFO's other end.
    pub fn open_file(&self, name: impl AsRef<OsStr>, flags: OFlags) -> Result<File> {
        let name = name.as_ref();
        let failed = Failure::of(shown(&self.path_of(name)), "open");
        let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.fd, single(name)?, flags, Mode::RUSR | Mode::WUSR);
        let file = File::from(file.map_err(failed)?);
        if !FileType::from_raw_mode(stat_of(&file, &self.path_of(name))?.st_mode).is_file() {
            return Err(
                Failure::path(self.path_of(name), "open", "it is not a regular file").into()
            );
        }
        Ok(file)
    }

    /// The content of a file; `None` if there is none.
    pub fn read(&self, name: impl AsRef<OsStr>) -> Result<Option<Vec<u8>>> {
        let name = name.as_ref();
        let mut file = match self.open_file(name, OFlags::RDONLY) {
            Err(e) if is_missing(&e) => return Ok(None),
            opened => opened?,
        };
        let failed = Failure::of(shown(&self.path_of(name)), "read");
        if file.metadata().map_err(&failed)?.len() > MOST_CONTENT {
            let why = format!("it is longer than {} MiB", MOST_CONTENT >> 20);
            return Err(Failure::path(self.path_of(name), "read", why).into());
        }
        let mut content = Vec::new();
        file.read_to_end(&mut content).map_err(failed)?;
        Ok(Some(content))
    }

    /// Writes a file of mode 0600 whole, by another name that is then renamed: a reader sees the old or the new content.
    pub fn write(&self, name: impl AsRef<OsStr>, content: &[u8]) -> Result<()> {
        let name = single(name.as_ref())?;
        let failed = Failure::of(shown(&self.path_of(name)), "write");
        let mut beside = name.to_owned();
        beside.push(".new");
        let mut file = self.open_file(&beside, OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC)?;
        file.write_all(content).map_err(Failure::of(shown(&self.path_of(name)), "write"))?;
        Ok(rustix::fs::renameat(&self.fd, &beside, &self.fd, name).map_err(failed)?)
    }

    /// Gives a file a second name; returns whether that was free.
    pub fn link(&self, name: &str, second: &str) -> Result<bool> {
        let failed = Failure::of(shown(&self.path_of(second)), "make");
        let (name, second) = (single(name.as_ref())?, single(second.as_ref())?);
        match rustix::fs::linkat(&self.fd, name, &self.fd, second, AtFlags::empty()) {
            Ok(()) => Ok(true),
            Err(Errno::EXIST) => Ok(false),
            Err(e) => Err(failed(e).into()),
        }
    }

    /// Removes a file, or a link itself; returns whether it was there.
    pub fn remove_file(&self, name: impl AsRef<OsStr>) -> Result<bool> {
        self.remove_as(name.as_ref(), AtFlags::empty())
    }

    /// Removes an empty directory; returns whether it was there.
    pub fn remove_dir(&self, name: impl AsRef<OsStr>) -> Result<bool> {
        self.remove_as(name.as_ref(), AtFlags::REMOVEDIR)
    }

    fn remove_as(&self, name: &OsStr, how: AtFlags) -> Result<bool> {
        match rustix::fs::unlinkat(&self.fd, single(name)?, how) {
            Ok(()) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(e) => Err(Failure::path(self.path_of(name), "remove", e).into()),
        }
    }
}

impl AsFd for TrustedDir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// What identifies a file: its device and its inode.
pub type Identity = (u64, u64);

/// What identifies the file of this status.
pub fn identity(found: &Stat) -> Identity {
    (found.st_dev, found.st_ino)
}

/// Whether an error says that a file is not there.
pub fn is_missing(error: &Error) -> bool {
    error.raw_os_error() == Some(Errno::NOENT.raw_os_error())
}

fn untrusted(path: &Path, reason: String) -> Error {
    Error::Untrusted { path: path.to_owned(), reason }
}

fn stat_of(fd: impl AsFd, path: &Path) -> Result<Stat> {
    Ok(rustix::fs::fstat(fd).map_err(Failure::of(shown(path), "look at"))?)
}

/// The name, if it is a single component: no path that leads elsewhere.
fn single(name: &OsStr) -> Result<&OsStr> {
    let odd =
        name.is_empty() || name == "." || name == ".." || name.as_encoded_bytes().contains(&b'/');
    match odd {
        true => Err(Failure::path(name, "use as a name in a folder", Errno::INVAL).into()),
        false => Ok(name),
    }
}

fn shown(path: &Path) -> String {
    format!("{path:?}")
}

fn text(name: &std::ffi::CStr) -> OsString {
    use std::os::unix::ffi::OsStrExt;
    OsStr::from_bytes(name.to_bytes()).to_owned()
}

#[cfg(test)]
mod tests;
