//! The walk from `/` to a directory, and the conditions on each component.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::{TrustedDir, served, shown, stat_of, untrusted};
use crate::{Failure, Result};

/// As many links as the kernel follows in one path.
const MOST_LINKS: usize = 40;

/// The sticky bit, and the bits by which others write.
const STICKY: u32 = 0o1000;
const OTHERS_WRITE: u32 = 0o022;
const GROUP_WRITES: u32 = 0o020;

/// What a component that does not exist means.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Missing {
    IsNone,
    IsMade,
}

/// Whether members of this user's group, which is often the user's alone, may write to the user's folders on the path.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Group {
    MayWrite,
    MayNot,
}

/// A walk that has come to a directory.
pub(super) struct Walk {
    at: OwnedFd,
    path: PathBuf,
    /// The components that are left, the next one last.
    left: Vec<OsString>,
    missing: Missing,
    links: usize,
    /// The file system of the directory come to.
    device: u64,
    /// The owner of `/`, who has all rights here.
    above: u32,
    /// Whether the directory come to was made by this walk.
    made: bool,
    group: Group,
}

impl Walk {
    /// The directory at a path, and whether this made it.
    pub(super) fn to(
        path: &Path,
        missing: Missing,
        group: Group,
    ) -> Result<Option<(TrustedDir, bool)>> {
        let full = std::path::absolute(path).map_err(|e| Failure::path(path, "complete", e))?;
        let at = root()?;
        let found = stat_of(&at, Path::new("/"))?;
        let (above, left) = (found.st_uid, components(&full));
        let (path, device) = ("/".into(), found.st_dev);
        let mut walk =
            Walk { at, path, left, missing, links: 0, device, above, made: false, group };
        walk.judge(&found, Path::new("/"))?;
        while let Some(name) = walk.left.pop() {
            if !walk.step(name)? {
                return Ok(None);
            }
        }
        Ok(Some((TrustedDir { fd: walk.at, path: full }, walk.made)))
    }

    /// Goes into a component, or to what a link says; `false` if it does not exist.
    fn step(&mut self, name: OsString) -> Result<bool> {
        let path = self.path.join(&name);
        self.made = false;
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let open = |walk: &Walk| rustix::fs::openat(&walk.at, &name, flags, Mode::empty());
        let opened = match open(self) {
            Err(Errno::NOENT) if self.missing == Missing::IsMade => {
                self.made = self.make(&name, &path)?;
                open(self)
            }
            opened => opened,
        };
        let fd = match opened {
            Err(Errno::NOENT) => return Ok(false),
            opened => opened.map_err(Failure::of(shown(&path), "open"))?,
        };
        let found = stat_of(&fd, &path)?;
        // The owner of `/` is root outside, and has been asked there.
        if found.st_dev != self.device && self.above == 0 {
            served::judge(&fd, &path)?;
        }
        self.device = found.st_dev;
        if FileType::from_raw_mode(found.st_mode).is_symlink() && !self.left.is_empty() {
            return self.follow(fd, &found, &path).map(|()| true);
        }
        self.judge(&found, &path)?;
        (self.at, self.path) = (fd, path);
        Ok(true)
    }

    fn make(&self, name: &OsString, path: &Path) -> Result<bool> {
        match rustix::fs::mkdirat(&self.at, name, Mode::RWXU) {
            Ok(()) => Ok(true),
            Err(Errno::EXIST) => Ok(false),
            Err(e) => Err(Failure::path(path, "make folder", e).into()),
        }
    }

    /// Puts what a link says before what is left.
    fn follow(&mut self, link: OwnedFd, found: &Stat, path: &Path) -> Result<()> {
        self.judge_owner(found, path, "it is a symbolic link", "change where it leads")?;
        served::judge_link(&link, path)?;
        self.links += 1;
        if self.links > MOST_LINKS {
            return Err(Failure::path(path, "follow", Errno::LOOP).into());
        }
        let target = rustix::fs::readlinkat(&link, c"", Vec::new())
            .map_err(Failure::of(shown(path), "follow"))?;
        let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
        if target.is_absolute() {
            (self.at, self.path) = (root()?, "/".into());
        }
        self.left.extend(components(&target));
        Ok(())
    }

    /// Whether the next directory may be on the path, or at its end.
    fn judge(&self, found: &Stat, path: &Path) -> Result<()> {
        if self.left.is_empty() {
            return judge_end(found, path);
        }
        is_directory(found, path)?;
        self.judge_owner(found, path, "it is a folder", "exchange what is in it")?;
        let is_of_group = found.st_uid == rustix::process::geteuid().as_raw()
            && found.st_gid == rustix::process::getegid().as_raw()
            && found.st_mode & OTHERS_WRITE == GROUP_WRITES;
        match found.st_mode & STICKY {
            0 if self.group == Group::MayWrite && is_of_group => Ok(()),
            0 => is_closed(found, path),
            _ => Ok(()),
        }
    }

    fn judge_owner(&self, found: &Stat, path: &Path, what: &str, can: &str) -> Result<()> {
        if found.st_uid == self.above || is_own(found) {
            return Ok(());
        }
        Err(untrusted(path, format!("{what} of user {}, who can {can}", found.st_uid)))
    }
}

/// Whether a directory may be where things are read and written.
pub(super) fn judge_end(found: &Stat, path: &Path) -> Result<()> {
    is_directory(found, path)?;
    if !is_own(found) {
        let reason = format!("it is a folder of user {}, who can put anything there", found.st_uid);
        return Err(untrusted(path, reason));
    }
    is_closed(found, path)
}

fn is_directory(found: &Stat, path: &Path) -> Result<()> {
    match FileType::from_raw_mode(found.st_mode) {
        FileType::Directory => Ok(()),
        FileType::Symlink => {
            Err(untrusted(path, "it is a symbolic link, which leads elsewhere at any time".into()))
        }
        _ => Err(untrusted(path, "it is not a folder".into())),
    }
}

/// Whether the owner is this user or root.
fn is_own(found: &Stat) -> bool {
    found.st_uid == 0 || found.st_uid == rustix::process::geteuid().as_raw()
}

fn is_closed(found: &Stat, path: &Path) -> Result<()> {
    let mode = found.st_mode & 0o7777;
    match mode & OTHERS_WRITE {
        0 => Ok(()),
        _ => {
            Err(untrusted(path, format!("others may write there (mode {mode:04o}); chmod go-w it")))
        }
    }
}

fn root() -> Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = rustix::fs::open(c"/", flags, Mode::empty());
    Ok(opened.map_err(|e| Failure::path("/", "open", e))?)
}

/// The components of a path, the first one last.
fn components(path: &Path) -> Vec<OsString> {
    let named =
        path.components().filter(|c| matches!(c, Component::Normal(_) | Component::ParentDir));
    let mut names: Vec<OsString> = named.map(|c| c.as_os_str().to_owned()).collect();
    names.reverse();
    names
}
