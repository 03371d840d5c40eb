//! Places a lab's files into a node that lives, from outside.
//!
//! As in [`copy`](crate::copy), the caller holds the node's root directory, every path is resolved below it (openat2 with
//! RESOLVE_IN_ROOT), and a file appears whole or not at all. Directories that lead to it are made like those of a new
//! node that the lab file names for the first time: root's, 0755. Owner names are looked up in the node's own lists.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Component, Path};

use netloom_model::lab::{FileContent, FileSpec};
use netloom_sys::lookup::open_within;
use netloom_sys::setup::{bounded_text, copy_of_lab};
use netloom_sys::{Failure, random};
use rustix::fs::{AtFlags, Gid, Mode, OFlags, ResolveFlags, Uid};
use rustix::io::Errno;

use crate::people::{GROUPS, USERS, number_in};
use crate::{Result, Users};

/// Places a file; replaces one that has its name.
///
/// # Errors
/// Its path with the failed operation; nothing was replaced then.
pub fn place(root: BorrowedFd<'_>, file: &FileSpec, users: Users) -> Result<()> {
    let fail = |operation| Failure::of(format!("file {:?}", file.path), operation);
    let (directory, name) = way(root, Path::new(&file.path)).map_err(fail("make its directory"))?;
    let number = random::number().map_err(|e| fail("write")(io::Error::other(e.to_string())))?;
    let temporary = format!(".netloom-file-{number:016x}");
    let written = write(root, &directory, &temporary, file, users);
    let moved = written.map_err(fail("write")).and_then(|()| {
        let moved = rustix::fs::renameat(&directory, &temporary, &directory, name.as_str());
        moved.map_err(|e| fail("put in place")(e.into()))
    });
    if moved.is_err() {
        // It may not exist.
        let _ = rustix::fs::unlinkat(&directory, &temporary, AtFlags::empty());
    }
    Ok(moved?)
}

/// Removes a file that was placed; one that is gone, or is a directory by now, is left as it is.
///
/// # Errors
/// Its path with the failed operation.
pub fn remove(root: BorrowedFd<'_>, path: &str) -> Result<()> {
    let fail = |e: Errno| Failure::new(format!("file {path:?}"), "remove", e);
    let way = Path::new(path);
    let (Some(parent), Some(name)) = (way.parent(), way.file_name()) else { return Ok(()) };
    let directory = match open(root, parent, OFlags::PATH | OFlags::DIRECTORY) {
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(()),
        found => found.map_err(fail)?,
    };
    match rustix::fs::unlinkat(&directory, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT | Errno::ISDIR) => Ok(()),
        Err(e) => Err(fail(e).into()),
    }
}

fn open(root: BorrowedFd<'_>, path: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    open_within(root, path, flags, resolve)
}

/// The directory of a path, made if it is missing, and the last name.
fn way(root: BorrowedFd<'_>, path: &Path) -> io::Result<(OwnedFd, String)> {
    let invalid = || io::Error::from(io::ErrorKind::InvalidInput);
    let name = path.file_name().and_then(|name| name.to_str()).ok_or_else(invalid)?;
    let flags = OFlags::PATH | OFlags::DIRECTORY;
    let mut so_far = Path::new("/").to_owned();
    let mut at = open(root, &so_far, flags)?;
    for part in path.parent().into_iter().flat_map(Path::components) {
        let Component::Normal(part) = part else { continue };
        so_far.push(part);
        at = match open(root, &so_far, flags) {
            Err(Errno::NOENT) => match rustix::fs::mkdirat(&at, part, Mode::from_raw_mode(0o755)) {
                Ok(()) | Err(Errno::EXIST) => open(root, &so_far, flags)?,
                Err(e) => return Err(e.into()),
            },
            found => found?,
        };
    }
    Ok((at, name.to_owned()))
}

fn write(
    root: BorrowedFd<'_>,
    directory: &OwnedFd,
    name: &str,
    file: &FileSpec,
    users: Users,
) -> io::Result<()> {
    // 0600 until it has its content, owner and mode: a secret must not be readable meanwhile.
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    let made = rustix::fs::openat(directory, name, flags, Mode::from_raw_mode(0o600))?;
    let mut made = File::from(made);
    match &file.content {
        FileContent::Text(text) => made.write_all(text.as_bytes())?,
        FileContent::From(path) => {
            copy_of_lab(path, &mut made)?;
        }
    }
    let number = |name: &Option<String>, list| match name {
        None => Ok(None),
        Some(name) => number_of(root, name, list).map(Some),
    };
    let (user, group) = (number(&file.owner, USERS)?, number(&file.group, GROUPS)?);
    let asked = user.is_some() || group.is_some();
    if asked && !matches!(users, Users::Pretended) {
        let (user, group) = (user.unwrap_or(0), group.unwrap_or(0));
        rustix::fs::fchown(&made, Some(Uid::from_raw(user)), Some(Gid::from_raw(group)))?;
    }
    // After the owner: a change of that drops set-id bits.
    rustix::fs::fchmod(&made, Mode::from_raw_mode(file.mode))?;
    Ok(())
}

/// The id of a user or group given as a number or as a name that the node defines.
fn number_of(root: BorrowedFd<'_>, name: &str, list: &str) -> io::Result<u32> {
    if let Ok(number) = name.parse() {
        return Ok(number);
    }
    let text = bounded_text(|flags| open(root, Path::new(list), flags))?;
    let none = || io::Error::other(format!("no {name:?} in the node's {list}"));
    number_in(&text, name).ok_or_else(none)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    fn spec(path: &str, text: &str) -> FileSpec {
        FileSpec {
            path: path.into(),
            content: FileContent::Text(text.into()),
            mode: 0o640,
            owner: None,
            group: None,
        }
    }

    #[test]
    fn a_file_is_placed_below_the_root_whatever_links_say() {
        use std::os::unix::fs::PermissionsExt;
        let folder = netloom_kit::Scratch::new();
        let root = folder.path().join("root");
        std::fs::create_dir(&root).unwrap();
        std::os::unix::fs::symlink("/etc", root.join("link")).unwrap();
        std::fs::create_dir(root.join("etc")).unwrap();
        let opened = rustix::fs::open(&root, OFlags::PATH, Mode::empty()).unwrap();
        for text in ["one", "two"] {
            place(opened.as_fd(), &spec("/link/a/b", text), Users::Kernel).unwrap();
            let at = root.join("etc/a/b");
            assert_eq!(std::fs::read_to_string(&at).unwrap(), text);
            assert_eq!(at.metadata().unwrap().permissions().mode() & 0o7777, 0o640);
        }
        std::fs::create_dir(root.join("etc/a/c")).unwrap();
        for path in ["/link/a/b", "/link/a/b", "/link/a/c", "/none/x"] {
            remove(opened.as_fd(), path).unwrap();
        }
        assert!(!root.join("etc/a/b").exists() && root.join("etc/a/c").exists());
        std::fs::write(root.join("file"), "").unwrap();
        let refused = place(opened.as_fd(), &spec("/file/x", ""), Users::Kernel).unwrap_err();
        assert!(netloom_sys::describe(&refused).contains("/file/x"));
        let left = std::fs::read_dir(root.join("etc/a")).unwrap().count();
        assert_eq!(left, 1, "no temporary file is left");
    }

    /// What a node's programs make of its lists keeps nobody waiting outside, and takes no memory there.
    #[test]
    fn lists_that_are_no_files_are_not_read() {
        let folder = netloom_kit::Scratch::new();
        let root = folder.path();
        std::fs::create_dir(root.join("etc")).unwrap();
        let opened = rustix::fs::open(root, OFlags::PATH, Mode::empty()).unwrap();
        let file = FileSpec { owner: Some("somebody".to_owned()), ..spec("/x", "text") };
        let refused = |why: &str| {
            let refused = place(opened.as_fd(), &file, Users::Pretended).unwrap_err();
            let words = netloom_sys::describe(&refused);
            assert!(words.contains(why), "{words}");
        };
        let list = root.join("etc/passwd");
        rustix::fs::mkfifoat(rustix::fs::CWD, &list, Mode::RUSR | Mode::WUSR).unwrap();
        refused("it is not a regular file");
        std::fs::remove_file(&list).unwrap();
        File::create(&list).unwrap().set_len(1 << 40).unwrap();
        refused("it is larger than 4 MiB");
        std::fs::write(&list, "somebody:x:7:7::/:\n").unwrap();
        place(opened.as_fd(), &file, Users::Pretended).unwrap();
    }
}
