//! A directory with a temporary name, beside the place where a copy will be: what is in it appears whole, by a rename.
//!
//! Its maker holds a lock on it (flock(2)) and removes it when it is dropped. The kernel frees the lock of a killed
//! maker; the next copy into the same directory of the caller removes what that left ([`sweep`]).
//!
//! Invariant: [`sweep`] removes only what this user has made. Names in a directory that others may write to, or in a
//! node, may be given by others to things of this user: there nothing is removed.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use netloom_sys::lookup::open_within;
use netloom_sys::random;
use rustix::fs::{
    AtFlags, Dir, FileType, FlockOperation, Mode, OFlags, ResolveFlags, Stat, fchmod, flock, fstat,
    mkdirat, openat, renameat, statat, unlinkat,
};
use rustix::io::Errno;

/// How names of holders begin; 16 hexadecimal digits follow.
const PREFIX: &str = ".netloom-cp-";

/// Attempts at finding an unused name.
const NAMES: usize = 16;

/// Maximum nesting of directories that are copied, and so removed. Each level costs two descriptors during the copy.
pub(super) const MAX_DEPTH: usize = 256;

/// The name of what a holder holds.
pub(super) const INNER: &CStr = c"copy";

/// The sticky bit, and the bits by which others write.
const STICKY: u32 = 0o1000;
const OTHERS_WRITE: u32 = 0o022;

const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// A directory of this copy's own in another.
pub(super) struct Holder<'a> {
    parent: BorrowedFd<'a>,
    name: CString,
    pub(super) dir: OwnedFd,
    placed: bool,
}

impl<'a> Holder<'a> {
    pub(super) fn make(parent: BorrowedFd<'a>) -> Result<Holder<'a>, Errno> {
        for _ in 0..NAMES {
            let random = random::number().map_err(|_| Errno::IO)?;
            let name = CString::new(format!("{PREFIX}{random:016x}")).map_err(|_| Errno::INVAL)?;
            match mkdirat(parent, &name, Mode::RWXU) {
                Ok(()) => {}
                Err(Errno::EXIST) => continue,
                Err(e) => return Err(e),
            }
            let dir = openat(parent, &name, DIRECTORY, Mode::empty())?;
            let holder = Holder { parent, name, dir, placed: false };
            // Another copy may have taken it for one that was left, before it was locked.
            if lock(&holder.dir) && holder.is_there() {
                return Ok(holder);
            }
        }
        Err(Errno::EXIST)
    }

    fn is_there(&self) -> bool {
        is_same(&self.dir, statat(self.parent, &self.name, AtFlags::SYMLINK_NOFOLLOW))
    }

    /// Puts what it holds in a place of its directory.
    pub(super) fn put(&self, name: &CStr) -> Result<(), Errno> {
        renameat(&self.dir, INNER, self.parent, name)
    }

    /// Puts the holder itself there.
    pub(super) fn put_itself(mut self, name: &CStr) -> Result<(), Errno> {
        renameat(self.parent, &self.name, self.parent, name)?;
        self.placed = true;
        Ok(())
    }
}

impl Drop for Holder<'_> {
    fn drop(&mut self) {
        if !self.placed {
            remove(self.parent, &self.name, &self.dir);
        }
    }
}

/// Locks a directory, unless another process has it. Where there are no locks nothing is ever taken for left.
fn lock(dir: &OwnedFd) -> bool {
    flock(dir, FlockOperation::NonBlockingLockExclusive) != Err(Errno::WOULDBLOCK)
}

fn is_same(dir: &OwnedFd, found: Result<Stat, Errno>) -> bool {
    let own = fstat(dir).map(|own| (own.st_dev, own.st_ino));
    own.is_ok() && own == found.map(|found| (found.st_dev, found.st_ino))
}

/// Removes holders that killed copies of this user have left in a directory of the caller.
pub(super) fn sweep(dir: BorrowedFd<'_>) {
    let own = rustix::process::geteuid().as_raw();
    // Where others may write without the sticky bit, they may also rename: a name says nothing of who gave it.
    let is_ours = |stat: &Stat| {
        let open = stat.st_mode & OTHERS_WRITE != 0 && stat.st_mode & STICKY == 0;
        (stat.st_uid == own || stat.st_uid == 0) && !open
    };
    if !fstat(dir).is_ok_and(|stat| is_ours(&stat)) {
        return;
    }
    let Ok(entries) = openat(dir, c".", DIRECTORY, Mode::empty()).and_then(Dir::new) else {
        return;
    };
    let names = entries.flatten().map(|entry| entry.file_name().to_owned());
    for name in names.filter(|name| is_holders(name)) {
        let stat = statat(dir, &name, AtFlags::SYMLINK_NOFOLLOW);
        let is_own = stat
            .is_ok_and(|stat| stat.st_uid == own && FileType::from_raw_mode(stat.st_mode).is_dir());
        let Some(left) = is_own.then(|| openat(dir, &name, DIRECTORY, Mode::empty())) else {
            continue;
        };
        let Ok(left) = left else { continue };
        // Its maker may have put it in place between the look and the lock: then the name is another's.
        let is_left = flock(&left, FlockOperation::NonBlockingLockExclusive).is_ok();
        if is_left && is_same(&left, statat(dir, &name, AtFlags::SYMLINK_NOFOLLOW)) {
            remove(dir, &name, &left);
        }
    }
}

fn is_holders(name: &CStr) -> bool {
    let digits = name.to_bytes().strip_prefix(PREFIX.as_bytes()).unwrap_or_default();
    digits.len() == 16 && digits.iter().all(u8::is_ascii_hexdigit)
}

/// Removes a holder: what is in it by its descriptor, whatever has its name by now.
fn remove(parent: BorrowedFd<'_>, name: &CStr, dir: &OwnedFd) {
    empty(dir.as_fd(), 0);
    let _ = unlinkat(parent, name, AtFlags::REMOVEDIR);
}

/// Empties a directory, as far as possible; what is mounted below stays.
fn empty(dir: BorrowedFd<'_>, level: usize) {
    // It may have its original's mode already, which need not allow to remove what is in it.
    let _ = fchmod(dir, Mode::RWXU);
    let Ok(entries) = openat(dir, c".", DIRECTORY, Mode::empty()).and_then(Dir::new) else {
        return;
    };
    let names: Vec<CString> = entries.flatten().map(|entry| entry.file_name().to_owned()).collect();
    for name in names.iter().filter(|name| !matches!(name.to_bytes(), b"." | b"..")) {
        if unlinkat(dir, name, AtFlags::empty()).is_ok() || level > MAX_DEPTH {
            continue;
        }
        if let Ok(inner) = open_within(dir, name.as_c_str(), DIRECTORY, ResolveFlags::NO_XDEV) {
            empty(inner.as_fd(), level + 1);
        }
        let _ = unlinkat(dir, name, AtFlags::REMOVEDIR);
    }
}
