//! Copies a file or a tree from one directory descriptor to another.
//!
//! Below the given path, lookups use one name at a time and follow no link. Invariant: a directory that
//! others see holds only finished entries under their final names; inside one that still has a temporary name
//! (`staged`), entries are made in place.

use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use netloom_sys::random;
use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, Stat, fchmod, fstat, futimens, mkdirat, openat,
    readlinkat, renameat, statat, symlinkat, unlinkat, utimensat,
};
use rustix::io::Errno;

use super::place::{Given, below};
use super::{Summary, content, fail};
use crate::{Error, Result};

/// Maximum nesting of directories. Each level costs two descriptors during the copy.
const MAX_DEPTH: usize = 256;

/// Attempts at finding an unused temporary name.
const NAMES: usize = 16;

/// Copies the file or tree at `from`.
pub(super) fn copy(from: &Given<'_>, to: &Given<'_>) -> Result<Summary> {
    let found = from.open(OFlags::PATH).map_err(fail(&from.shown, "open"))?;
    let kind = kind_of(&fstat(&found).map_err(fail(&from.shown, "open"))?);
    let mut walk = Walk { summary: Summary::default(), made: None };
    let flags = match kind {
        FileType::RegularFile => OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY,
        FileType::Directory => OFlags::RDONLY | OFlags::DIRECTORY,
        other => return Err(refused(&from.shown, "copy", words(other))),
    };
    let source = from.open(flags).map_err(fail(&from.shown, "open"))?;
    let stat = fstat(&source).map_err(fail(&from.shown, "open"))?;
    let target = to.target(from.name())?;
    let Some(name) = &target.name else {
        if kind_of(&stat) != FileType::Directory {
            return Err(refused(&from.shown, "copy", "not a directory"));
        }
        walk.fill(source, &from.shown, target.dir.as_fd(), &target.shown, Depth::top())?;
        return Ok(walk.summary);
    };
    let name = CString::new(name.as_bytes()).map_err(fail(&target.shown, "create"))?;
    let spot =
        Landing { dir: target.dir.as_fd(), name: &name, shown: &target.shown, depth: Depth::top() };
    walk.put_opened(source, &stat, &from.shown, &spot)?;
    Ok(walk.summary)
}

/// Depth of a directory, and whether it still has a temporary name.
#[derive(Clone, Copy, Debug)]
struct Depth {
    level: usize,
    staged: bool,
}

impl Depth {
    fn top() -> Depth {
        Depth { level: 0, staged: false }
    }
}

/// Destination of an entry.
struct Landing<'a> {
    dir: BorrowedFd<'a>,
    name: &'a CStr,
    shown: &'a str,
    depth: Depth,
}

struct Walk {
    summary: Summary,
    /// The first directory created, which must not be copied into itself.
    made: Option<(u64, u64)>,
}

impl Walk {
    /// Copies all entries of a directory.
    fn fill(
        &mut self,
        from: OwnedFd,
        shown_from: &str,
        to: BorrowedFd<'_>,
        shown_to: &str,
        depth: Depth,
    ) -> Result<()> {
        if depth.level >= MAX_DEPTH {
            return Err(refused(shown_from, "copy", "directories are nested too deeply"));
        }
        let stat = fstat(&from).map_err(fail(shown_from, "open"))?;
        if self.made == Some((stat.st_dev, stat.st_ino)) {
            return Err(refused(shown_from, "copy", "it would be copied into itself"));
        }
        let mut entries = Dir::new(from).map_err(fail(shown_from, "read directory"))?;
        while let Some(entry) = entries.read() {
            let entry = entry.map_err(fail(shown_from, "read directory"))?;
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            let dir = entries.fd().map_err(fail(shown_from, "read directory"))?;
            let shown = OsStr::from_bytes(name.to_bytes());
            let (source, target) = (below(shown_from, shown), below(shown_to, shown));
            let spot = Landing { dir: to, name, shown: &target, depth };
            self.put_entry(dir, &source, &spot)?;
        }
        Ok(())
    }

    /// Copies a directory entry under the same name.
    fn put_entry(&mut self, from: BorrowedFd<'_>, shown: &str, spot: &Landing<'_>) -> Result<()> {
        let stat = statat(from, spot.name, AtFlags::SYMLINK_NOFOLLOW);
        let stat = stat.map_err(fail(shown, "look at"))?;
        let flags = match kind_of(&stat) {
            FileType::Symlink => return self.put_link(from, &stat, shown, spot),
            FileType::RegularFile => OFlags::NONBLOCK | OFlags::NOCTTY,
            FileType::Directory => OFlags::DIRECTORY,
            _ => {
                self.summary.skipped.push(shown.to_owned());
                return Ok(());
            }
        };
        let flags = flags | OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let source = openat(from, spot.name, flags, Mode::empty()).map_err(fail(shown, "open"))?;
        let stat = fstat(&source).map_err(fail(shown, "open"))?;
        self.put_opened(source, &stat, shown, spot)
    }

    /// Copies an open file or directory. Its type may have changed since it was examined.
    fn put_opened(
        &mut self,
        from: OwnedFd,
        stat: &Stat,
        shown: &str,
        spot: &Landing<'_>,
    ) -> Result<()> {
        match kind_of(stat) {
            FileType::RegularFile => self.put_file(&from, stat, shown, spot),
            FileType::Directory => self.put_directory(from, stat, shown, spot),
            other => Err(refused(shown, "copy", words(other))),
        }
    }

    fn put_file(
        &mut self,
        from: &OwnedFd,
        stat: &Stat,
        shown: &str,
        spot: &Landing<'_>,
    ) -> Result<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let make = |name: &CStr| openat(spot.dir, name, flags, Mode::RUSR | Mode::WUSR);
        let bytes = spot.put(FileType::RegularFile, make, |to, _| {
            let bytes = content::copy_bytes(from, &to).map_err(|(operation, e)| {
                fail(if operation == "read" { shown } else { spot.shown }, operation)(e)
            })?;
            set_marks(&to, stat, false).map_err(fail(spot.shown, "set mode and times"))?;
            Ok(bytes)
        })?;
        self.summary.files += 1;
        self.summary.bytes += bytes;
        Ok(())
    }

    fn put_link(
        &mut self,
        from: BorrowedFd<'_>,
        stat: &Stat,
        shown: &str,
        spot: &Landing<'_>,
    ) -> Result<()> {
        let to = readlinkat(from, spot.name, Vec::new()).map_err(fail(shown, "read link"))?;
        let make = |name: &CStr| symlinkat(&to, spot.dir, name);
        spot.put(FileType::Symlink, make, |(), name| {
            utimensat(spot.dir, name, &content::times(stat), AtFlags::SYMLINK_NOFOLLOW)
                .map_err(fail(spot.shown, "set times"))
        })?;
        self.summary.links += 1;
        Ok(())
    }

    fn put_directory(
        &mut self,
        from: OwnedFd,
        stat: &Stat,
        shown: &str,
        spot: &Landing<'_>,
    ) -> Result<()> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let open = |name: &CStr| openat(spot.dir, name, flags, Mode::empty());
        let level = spot.depth.level + 1;
        if !spot.depth.staged && spot.existing()?.is_some_and(|kind| kind == FileType::Directory) {
            let to = open(spot.name).map_err(fail(spot.shown, "open directory"))?;
            let depth = Depth { level, staged: false };
            self.fill(from, shown, to.as_fd(), spot.shown, depth)?;
        } else {
            let make = |name: &CStr| {
                mkdirat(spot.dir, name, Mode::RWXU)?;
                open(name)
            };
            spot.put(FileType::Directory, make, |to, _| {
                if self.made.is_none() {
                    let made = fstat(&to).map_err(fail(spot.shown, "open directory"))?;
                    self.made = Some((made.st_dev, made.st_ino));
                }
                let depth = Depth { level, staged: true };
                self.fill(from, shown, to.as_fd(), spot.shown, depth)?;
                set_marks(&to, stat, true).map_err(fail(spot.shown, "set mode and times"))
            })?;
        }
        self.summary.directories += 1;
        Ok(())
    }
}

impl Landing<'_> {
    /// Type of the entry that has the name now.
    fn existing(&self) -> Result<Option<FileType>> {
        match statat(self.dir, self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(kind_of(&stat))),
            Err(Errno::NOENT) => Ok(None),
            Err(e) => Err(fail(self.shown, "look at")(e)),
        }
    }

    /// Makes an entry, lets `finish` complete it and renames it into place; removes it on failure.
    fn put<T, R>(
        &self,
        kind: FileType,
        make: impl Fn(&CStr) -> std::result::Result<T, Errno>,
        finish: impl FnOnce(T, &CStr) -> Result<R>,
    ) -> Result<R> {
        if self.depth.staged {
            // On failure the whole tree is removed.
            let made = make(self.name).map_err(fail(self.shown, "create"))?;
            return finish(made, self.name);
        }
        match (self.existing()?, kind) {
            (Some(FileType::Directory), FileType::Directory) | (None, _) => {}
            (Some(FileType::Directory), _) => {
                return Err(refused(self.shown, "replace", "it is a directory"));
            }
            (Some(_), FileType::Directory) => {
                return Err(refused(self.shown, "replace", "it is not a directory"));
            }
            (Some(_), _) => {}
        }
        let (made, name) = self.make_temporary(make)?;
        let result = finish(made, &name).and_then(|done| {
            renameat(self.dir, &name, self.dir, self.name)
                .map(|()| done)
                .map_err(fail(self.shown, "put in place"))
        });
        if result.is_err() {
            remove(self.dir, &name, 0);
        }
        result
    }

    fn make_temporary<T>(
        &self,
        make: impl Fn(&CStr) -> std::result::Result<T, Errno>,
    ) -> Result<(T, CString)> {
        for _ in 0..NAMES {
            let random = random::number().map_err(fail(self.shown, "create"))?;
            let name = CString::new(format!(".netloom-cp-{random:016x}"))
                .map_err(fail(self.shown, "create"))?;
            match make(&name) {
                Ok(made) => return Ok((made, name)),
                Err(Errno::EXIST) => {}
                Err(e) => return Err(fail(self.shown, "create")(e)),
            }
        }
        Err(fail(self.shown, "create")(Errno::EXIST))
    }
}

/// Removes a partial copy, as far as possible.
fn remove(dir: BorrowedFd<'_>, name: &CStr, level: usize) {
    if unlinkat(dir, name, AtFlags::empty()).is_ok() || level > MAX_DEPTH {
        return;
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    if let Ok(mut entries) = openat(dir, name, flags, Mode::empty()).and_then(Dir::new) {
        let mut names = Vec::new();
        while let Some(Ok(entry)) = entries.read() {
            names.push(entry.file_name().to_owned());
        }
        if let Ok(inner) = entries.fd() {
            let _ = fchmod(inner, Mode::RWXU);
            for entry in names.iter().filter(|n| !matches!(n.to_bytes(), b"." | b"..")) {
                remove(inner, entry, level + 1);
            }
        }
    }
    let _ = unlinkat(dir, name, AtFlags::REMOVEDIR);
}

fn set_marks(fd: &OwnedFd, stat: &Stat, directory: bool) -> std::result::Result<(), Errno> {
    fchmod(fd, content::mode(stat, directory))?;
    futimens(fd, &content::times(stat))
}

fn kind_of(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

fn words(kind: FileType) -> &'static str {
    match kind {
        FileType::Fifo => "a pipe cannot be copied",
        FileType::Socket => "a socket cannot be copied",
        FileType::CharacterDevice | FileType::BlockDevice => "a device cannot be copied",
        _ => "what is not a file, directory or link cannot be copied",
    }
}

fn refused(path: &str, operation: &'static str, why: &'static str) -> Error {
    fail(path, operation)(io::Error::new(io::ErrorKind::InvalidInput, why))
}
