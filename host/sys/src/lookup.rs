//! Opens paths that must not lead out of a directory (openat2(2)), or where another user wants.
//!
//! While mounts or renames go on elsewhere on the machine, the kernel cannot be sure that a `..` stayed within, and answers
//! EAGAIN: the lookup is started again then.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::path::Arg;

use crate::trusted;

/// Attempts at a lookup that others disturb.
const LOOKUPS: usize = 1024;

/// Opens `path` from the directory `root`, within the bounds of `resolve`; the descriptor is closed on exec.
///
/// # Errors
/// As openat2(2): EAGAIN only if every one of many attempts was disturbed, ENOSYS before Linux 5.6.
pub fn open_within(
    root: impl AsFd,
    path: impl Arg + Copy,
    flags: OFlags,
    resolve: ResolveFlags,
) -> rustix::io::Result<OwnedFd> {
    let root = root.as_fd();
    for _ in 0..LOOKUPS {
        match rustix::fs::openat2(root, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve) {
            Err(Errno::AGAIN) => std::thread::yield_now(),
            result => return result,
        }
    }
    Err(Errno::AGAIN)
}

/// Opens `path` from the directory `root` as far as it stays below it: a `..` or a link that leads out is EXDEV. Where
/// the kernel has no openat2(2), no link is followed at all (ELOOP, or ENOTDIR before the last name).
///
/// # Errors
/// As open(2).
pub fn open_beneath(root: impl AsFd, path: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let root = root.as_fd();
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    let how = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    match open_within(root, path, flags, how) {
        Err(Errno::NOSYS) => open_step_by_step(root, path, flags),
        opened => opened,
    }
}

fn open_step_by_step(
    root: BorrowedFd<'_>,
    path: &Path,
    flags: OFlags,
) -> rustix::io::Result<OwnedFd> {
    let directory = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut at = rustix::fs::openat(root, c".", directory, Mode::empty())?;
    let mut parts = path.components().filter(|part| *part != Component::CurDir).peekable();
    while let Some(part) = parts.next() {
        // Where a `..` leads may change between two steps.
        let Component::Normal(name) = part else { return Err(Errno::XDEV) };
        if parts.peek().is_none() {
            let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let opened = rustix::fs::openat(&at, name, flags, Mode::empty())?;
            // With O_PATH, O_NOFOLLOW opens a link itself (open(2)).
            let kind = FileType::from_raw_mode(rustix::fs::fstat(&opened)?.st_mode);
            return if kind.is_symlink() { Err(Errno::LOOP) } else { Ok(opened) };
        }
        at = rustix::fs::openat(&at, name, directory, Mode::empty())?;
    }
    rustix::fs::openat(&at, c".", flags | OFlags::CLOEXEC, Mode::empty())
}

/// As many links as the kernel follows in one path.
const MOST_LINKS: usize = 40;

/// Opens a path like open(2), but follows no symbolic link of another user: the owner of a link can change where it
/// leads, and this process may read what its maker may not. Links of root and of the owner of `/` are followed, and where
/// sudo(8) gave the rights, those of its caller: a lab of one's own is brought up by `sudo netloom up`.
///
/// # Errors
/// As open(2); a link of another user is named, with its owner.
pub fn open_by_own_links(path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let full = std::path::absolute(path)?;
    match open_within(CWD, full.as_path(), flags, ResolveFlags::NO_SYMLINKS) {
        Err(Errno::LOOP | Errno::NOSYS) => follow(&full, flags),
        opened => Ok(opened?),
    }
}

/// Who called sudo(8), if root's rights are from there. Nobody but root or the caller chooses root's environment.
fn caller(own: u32, sudo: Option<&str>) -> Option<u32> {
    (own == 0).then_some(sudo?)?.parse().ok()
}

/// The walk of [`open_by_own_links`], a name at a time.
fn follow(full: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let directory = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = || rustix::fs::open(c"/", directory, Mode::empty());
    let names = |path: &Path| -> Vec<OsString> {
        let named = path.components().rev();
        let named = named.filter(|c| matches!(c, Component::Normal(_) | Component::ParentDir));
        named.map(|component| component.as_os_str().to_owned()).collect()
    };
    let (mut at, mut shown, mut left, mut links) = (root()?, PathBuf::from("/"), names(full), 0);
    let above = rustix::fs::fstat(&at)?.st_uid;
    let own = rustix::process::geteuid().as_raw();
    let caller = caller(own, std::env::var("SUDO_UID").ok().as_deref());
    while let Some(name) = left.pop() {
        let found = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let found = rustix::fs::openat(&at, &name, found, Mode::empty())?;
        let stat = rustix::fs::fstat(&found)?;
        match name == ".." {
            true => _ = shown.pop(),
            false => shown.push(&name),
        }
        if !FileType::from_raw_mode(stat.st_mode).is_symlink() {
            if left.is_empty() {
                let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                return Ok(rustix::fs::openat(&at, &name, flags, Mode::empty())?);
            }
            at = found;
            continue;
        }
        if ![0, above, own].contains(&stat.st_uid) && caller != Some(stat.st_uid) {
            let why = "who can change where it leads; name what it leads to";
            let uid = stat.st_uid;
            return Err(io::Error::other(format!("{shown:?} is a link of user {uid}, {why}")));
        }
        // Whose it is says the file system, unless another user serves that; in a user namespace nobody is named.
        if above == 0 {
            trusted::judge_served(&found, &shown)
                .map_err(|e| io::Error::other(crate::describe(&e)))?;
        }
        links += 1;
        if links > MOST_LINKS {
            return Err(Errno::LOOP.into());
        }
        let target = rustix::fs::readlinkat(&found, c"", Vec::new())?;
        let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
        // A relative target begins at the link's folder.
        shown.pop();
        if target.is_absolute() {
            (at, shown) = (root()?, "/".into());
        }
        left.extend(names(&target));
    }
    Ok(rustix::fs::openat(&at, c".", flags | OFlags::CLOEXEC, Mode::empty())?)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn only_root_has_its_rights_from_sudo() {
        assert_eq!(caller(0, Some("1000")), Some(1000));
        assert_eq!(caller(1001, Some("1000")), None);
        assert_eq!([caller(0, None), caller(0, Some("x"))], [None, None]);
    }

    #[test]
    fn renames_elsewhere_disturb_no_lookup() {
        let folder = tempfile::tempdir().unwrap();
        let [a, b, inner] = ["a", "b", "inner"].map(|name| folder.path().join(name));
        std::fs::create_dir(&a).unwrap();
        std::fs::create_dir_all(inner.join("x/y")).unwrap();
        std::fs::write(inner.join("x/file"), "").unwrap();
        let root = std::fs::File::open(&inner).unwrap();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    std::fs::rename(&a, &b).unwrap();
                    std::fs::rename(&b, &a).unwrap();
                }
            });
            for _ in 0..2000 {
                let found = open_within(&root, "x/y/../file", OFlags::PATH, ResolveFlags::IN_ROOT);
                found.unwrap();
            }
            let outside = open_within(&root, "../a", OFlags::PATH, ResolveFlags::BENEATH);
            assert_eq!(outside.unwrap_err(), Errno::XDEV);
            done.store(true, Ordering::Relaxed);
        });
    }

    #[test]
    fn nothing_below_a_folder_leads_out_of_it() {
        use std::os::unix::fs::symlink;
        let folder = tempfile::tempdir().unwrap();
        let lab = folder.path().join("lab");
        std::fs::create_dir_all(lab.join("d")).unwrap();
        std::fs::write(folder.path().join("secret"), "").unwrap();
        std::fs::write(lab.join("d/file"), "").unwrap();
        symlink("d", lab.join("near")).unwrap();
        symlink("../secret", lab.join("up")).unwrap();
        symlink(folder.path(), lab.join("away")).unwrap();
        let root = std::fs::File::open(&lab).unwrap();
        let whole = |path: &str| open_beneath(&root, Path::new(path), OFlags::PATH).map(drop);
        let step =
            |path: &str| open_step_by_step(root.as_fd(), Path::new(path), OFlags::PATH).map(drop);
        for path in ["", ".", "d", "d/file", "./d/./file"] {
            assert_eq!((whole(path), step(path)), (Ok(()), Ok(())), "{path}");
        }
        assert_eq!((whole("near/file"), step("near/file")), (Ok(()), Err(Errno::NOTDIR)));
        for path in ["up", "away/secret", "d/../../secret", "/etc/passwd", ".."] {
            assert_eq!(whole(path), Err(Errno::XDEV), "{path}");
            assert!(step(path).is_err(), "{path}");
        }
    }

    #[test]
    fn links_are_followed_unless_another_user_has_made_them() {
        use std::os::unix::fs::{lchown, symlink};
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::create_dir(path("d")).unwrap();
        std::fs::write(path("d/file"), "text").unwrap();
        symlink(path("d"), path("absolute")).unwrap();
        symlink("d/../absolute/./file", path("relative")).unwrap();
        symlink("round", path("round")).unwrap();
        let read = |name: &str| {
            let file = std::fs::File::from(open_by_own_links(&path(name), OFlags::RDONLY)?);
            io::read_to_string(file)
        };
        for name in ["d/file", "absolute/file", "relative", "d/../relative"] {
            assert_eq!(read(name).unwrap(), "text", "{name}");
        }
        let directory = open_by_own_links(&path("absolute"), OFlags::PATH).unwrap();
        assert!(std::fs::File::from(directory).metadata().unwrap().is_dir());
        let code = |name: &str| read(name).unwrap_err().raw_os_error();
        assert_eq!(code("round"), Some(Errno::LOOP.raw_os_error()));
        assert_eq!(code("none/file"), Some(Errno::NOENT.raw_os_error()));
        // Only root can give things away.
        if lchown(path("absolute"), Some(1), Some(1)).is_ok() {
            let shown = path("absolute");
            let why = format!("{shown:?} is a link of user 1, who can change where it leads");
            for name in ["absolute/file", "relative"] {
                assert!(read(name).unwrap_err().to_string().starts_with(&why), "{name}");
            }
        }
    }
}
