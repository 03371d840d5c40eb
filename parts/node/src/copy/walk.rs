//! Copies a file or a tree from one directory descriptor to another.
//!
//! Below the given path, lookups use one name at a time and follow no link. Invariant: a directory that
//! others see holds only finished entries under their final names; inside one that still has a temporary name
//! (`staged`), entries are made in place. A file has no name until it is finished (O_TMPFILE), where the file
//! system can do that; all else is finished in a [`Holder`].

use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use netloom_sys::lease;
use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat, fchmod, fstat, futimens, linkat, mkdirat,
    openat, readlinkat, statat, symlinkat, utimensat,
};
use rustix::io::Errno;

use super::content::Meter;
use super::holder::{self, Holder, INNER, MAX_DEPTH};
use super::place::{Given, below};
use super::{Bounds, Summary, content, fail};
use crate::{Error, Result};

/// Copies the file or tree at `from`.
pub(super) fn copy(from: &Given<'_>, to: &Given<'_>, bounds: Bounds<'_>) -> Result<Summary> {
    // Looked at before it is opened: that would wait at a pipe, and a device may act on it.
    let found = from.open(OFlags::PATH).map_err(fail(&from.shown, "open"))?;
    let kind = kind_of(&fstat(&found).map_err(fail(&from.shown, "open"))?);
    let mut walk = Walk {
        summary: Summary::default(),
        made: None,
        meter: Meter::new(bounds),
        sweeps: to.is_hosts(),
    };
    let flags = match kind {
        FileType::RegularFile => OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY,
        FileType::Directory => OFlags::RDONLY | OFlags::DIRECTORY,
        other => return Err(refused(&from.shown, "copy", words(other))),
    };
    let source = lease::open_past(|| from.open(flags)).map_err(fail(&from.shown, "open"))?;
    let stat = fstat(&source).map_err(fail(&from.shown, "open"))?;
    let target = to.target(from.name())?;
    let Some(name) = &target.name else {
        if kind_of(&stat) != FileType::Directory {
            return Err(refused(&from.shown, "copy", "not a directory"));
        }
        walk.fill(source, &from.shown, target.dir.as_fd(), &target.shown, Depth::top())?;
        return Ok(walk.summary);
    };
    if walk.sweeps {
        holder::sweep(target.dir.as_fd());
    }
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

struct Walk<'b> {
    summary: Summary,
    /// The first directory created, which must not be copied into itself.
    made: Option<(u64, u64)>,
    meter: Meter<'b>,
    /// Whether directories may be rid of what killed copies have left in them.
    sweeps: bool,
}

impl Walk<'_> {
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
        if self.sweeps && !depth.staged {
            holder::sweep(to);
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
        self.meter.go_on().map_err(|(operation, e)| fail(shown, operation)(e))?;
        let stat = statat(from, spot.name, AtFlags::SYMLINK_NOFOLLOW);
        let stat = stat.map_err(fail(shown, "look at"))?;
        let flags = match kind_of(&stat) {
            FileType::Symlink => return self.put_link(from, &stat, shown, spot),
            // By now it may be a FIFO, whose opening would wait, or a terminal, which this process would
            // take.
            FileType::RegularFile => OFlags::NONBLOCK | OFlags::NOCTTY,
            FileType::Directory => OFlags::DIRECTORY,
            _ => {
                self.summary.skipped.push(shown.to_owned());
                return Ok(());
            }
        };
        let flags = flags | OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let source = lease::open_past(|| Ok(openat(from, spot.name, flags, Mode::empty())?));
        let source = source.map_err(fail(shown, "open"))?;
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
        let flags = OFlags::WRONLY | OFlags::CLOEXEC;
        // Nobody else reads it before it is whole; its own mode comes last.
        let mode = Mode::RUSR | Mode::WUSR;
        let named = flags | OFlags::CREATE | OFlags::EXCL;
        if spot.depth.staged {
            let to = openat(spot.dir, spot.name, named, mode);
            self.fill_file(from, &to.map_err(fail(spot.shown, "create"))?, stat, (shown, spot))?;
        } else {
            spot.check(FileType::RegularFile)?;
            // Without a name nothing is left of it, however this process ends.
            match openat(spot.dir, c".", flags | OFlags::TMPFILE, mode) {
                Ok(to) => {
                    self.fill_file(from, &to, stat, (shown, spot))?;
                    spot.name_file(&to)?;
                }
                Err(_) => {
                    let holder = spot.holder()?;
                    let to = openat(&holder.dir, INNER, named, mode);
                    let to = to.map_err(fail(spot.shown, "create"))?;
                    self.fill_file(from, &to, stat, (shown, spot))?;
                    holder.put(spot.name).map_err(fail(spot.shown, "put in place"))?;
                }
            }
        }
        self.summary.files += 1;
        Ok(())
    }

    fn fill_file(
        &mut self,
        from: &OwnedFd,
        to: &OwnedFd,
        stat: &Stat,
        (shown, spot): (&str, &Landing<'_>),
    ) -> Result<()> {
        let copied = content::copy_bytes(from, to, stat, &mut self.meter);
        self.summary.bytes += copied.map_err(|(operation, e)| {
            fail(if operation == "write" { spot.shown } else { shown }, operation)(e)
        })?;
        set_marks(to, stat, false).map_err(fail(spot.shown, "set mode and times"))
    }

    fn put_link(
        &mut self,
        from: BorrowedFd<'_>,
        stat: &Stat,
        shown: &str,
        spot: &Landing<'_>,
    ) -> Result<()> {
        let to = readlinkat(from, spot.name, Vec::new()).map_err(fail(shown, "read link"))?;
        let make = |dir: BorrowedFd<'_>, name: &CStr| {
            symlinkat(&to, dir, name).map_err(fail(spot.shown, "create"))?;
            utimensat(dir, name, &content::times(stat), AtFlags::SYMLINK_NOFOLLOW)
                .map_err(fail(spot.shown, "set times"))
        };
        if spot.depth.staged {
            make(spot.dir, spot.name)?;
        } else {
            spot.check(FileType::Symlink)?;
            let holder = spot.holder()?;
            make(holder.dir.as_fd(), INNER)?;
            holder.put(spot.name).map_err(fail(spot.shown, "put in place"))?;
        }
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
        } else if spot.depth.staged {
            mkdirat(spot.dir, spot.name, Mode::RWXU).map_err(fail(spot.shown, "create"))?;
            let to = open(spot.name).map_err(fail(spot.shown, "open directory"))?;
            self.fill_directory((from, shown), &to, stat, (spot, level))?;
        } else {
            spot.check(FileType::Directory)?;
            let holder = spot.holder()?;
            self.fill_directory((from, shown), &holder.dir, stat, (spot, level))?;
            holder.put_itself(spot.name).map_err(fail(spot.shown, "put in place"))?;
        }
        self.summary.directories += 1;
        Ok(())
    }

    fn fill_directory(
        &mut self,
        (from, shown): (OwnedFd, &str),
        to: &OwnedFd,
        stat: &Stat,
        (spot, level): (&Landing<'_>, usize),
    ) -> Result<()> {
        if self.made.is_none() {
            let made = fstat(to).map_err(fail(spot.shown, "open directory"))?;
            self.made = Some((made.st_dev, made.st_ino));
        }
        let depth = Depth { level, staged: true };
        self.fill(from, shown, to.as_fd(), spot.shown, depth)?;
        // Last: filling it changes its times, and its mode may forbid to fill it.
        set_marks(to, stat, true).map_err(fail(spot.shown, "set mode and times"))
    }
}

impl<'a> Landing<'a> {
    /// Type of the entry that has the name now.
    fn existing(&self) -> Result<Option<FileType>> {
        match statat(self.dir, self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(kind_of(&stat))),
            Err(Errno::NOENT) => Ok(None),
            Err(e) => Err(fail(self.shown, "look at")(e)),
        }
    }

    /// Refuses to put something in the place of what cannot be replaced by it.
    fn check(&self, kind: FileType) -> Result<()> {
        match (self.existing()?, kind) {
            (Some(FileType::Directory), kind) if kind != FileType::Directory => {
                Err(refused(self.shown, "replace", "it is a directory"))
            }
            (Some(found), FileType::Directory) if found != FileType::Directory => {
                Err(refused(self.shown, "replace", "it is not a directory"))
            }
            _ => Ok(()),
        }
    }

    fn holder(&self) -> Result<Holder<'a>> {
        Holder::make(self.dir).map_err(fail(self.shown, "create"))
    }

    /// Gives a file without a name its own.
    fn name_file(&self, file: &OwnedFd) -> Result<()> {
        // AT_EMPTY_PATH needs CAP_DAC_READ_SEARCH; this is the other way of linkat(2).
        let own = format!("/proc/self/fd/{}", file.as_raw_fd());
        let link = |dir: BorrowedFd<'_>, name: &CStr| {
            linkat(CWD, own.as_str(), dir, name, AtFlags::SYMLINK_FOLLOW)
        };
        let put = match link(self.dir, self.name) {
            // A link replaces nothing, a rename does.
            Err(Errno::EXIST) => {
                let holder = self.holder()?;
                link(holder.dir.as_fd(), INNER).and_then(|()| holder.put(self.name))
            }
            linked => linked,
        };
        put.map_err(fail(self.shown, "put in place"))
    }
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
        _ => "only files, directories and links can be copied",
    }
}

fn refused(path: &str, operation: &'static str, why: &'static str) -> Error {
    fail(path, operation)(io::Error::new(io::ErrorKind::InvalidInput, why))
}
