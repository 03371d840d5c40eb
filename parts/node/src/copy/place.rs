//! Source and destination of a copy: the given paths, each resolved on its own side.
//!
//! A node's path is always resolved from its root, so `..` and absolute links stay below it.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use netloom_config::printable;
use netloom_sys::lookup::open_within;
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::fail;
use crate::Result;

/// A side of the copy.
#[derive(Clone, Copy, Debug)]
pub(super) enum Side<'a> {
    /// The caller's own file system.
    Host,
    /// A node, given by its root directory.
    Node(BorrowedFd<'a>),
}

/// A path that the user gave.
#[derive(Debug)]
pub(super) struct Given<'a> {
    side: Side<'a>,
    path: OsString,
    /// The path as the user gave it, for errors.
    pub(super) shown: String,
}

impl<'a> Given<'a> {
    /// An empty path in a node means its root.
    pub(super) fn new(side: Side<'a>, path: &OsStr) -> Given<'a> {
        let root = matches!(side, Side::Node(_)) && path.is_empty();
        let path = if root { OsStr::new("/") } else { path };
        let shown = printable::line(&path.to_string_lossy()).into_owned();
        Given { side, path: path.to_owned(), shown }
    }

    /// Whether it is the caller's.
    pub(super) fn is_hosts(&self) -> bool {
        matches!(self.side, Side::Host)
    }

    /// Opens the path, following links on its own side.
    pub(super) fn open(&self, flags: OFlags) -> io::Result<OwnedFd> {
        self.side.open(&self.path, flags)
    }

    /// The name of a copy in a directory; `None` for `/`, `.` and `..`.
    pub(super) fn name(&self) -> Option<&OsStr> {
        Some(split(&self.path).1).filter(|name| !is_dots(name))
    }

    /// Destination of a copy called `name`: inside this path if it is a directory, else at this path. Without
    /// a name, the directory itself.
    pub(super) fn target(&self, name: Option<&OsStr>) -> Result<Target> {
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        match self.open(flags) {
            Ok(dir) => {
                let shown = name.map_or_else(|| self.shown.clone(), |n| below(&self.shown, n));
                Ok(Target { dir, name: name.map(OsStr::to_owned), shown })
            }
            // A path that ends as a directory's must not become a file.
            Err(e) if self.must_be_directory() || !is_missing(&e) => {
                Err(fail(&self.shown, "open directory")(e))
            }
            Err(_) => {
                let (parent, name) = split(&self.path);
                let dir = self.side.open(parent, flags);
                let dir = dir.map_err(fail(&self.shown, "open its directory"))?;
                Ok(Target { dir, name: Some(name.to_owned()), shown: self.shown.clone() })
            }
        }
    }

    fn must_be_directory(&self) -> bool {
        self.path.is_empty() || self.path.as_bytes().ends_with(b"/") || self.name().is_none()
    }
}

/// Destination of a copy.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) dir: OwnedFd,
    pub(super) name: Option<OsString>,
    pub(super) shown: String,
}

impl Side<'_> {
    fn open(self, path: &OsStr, flags: OFlags) -> io::Result<OwnedFd> {
        let flags = flags | OFlags::CLOEXEC;
        match self {
            Side::Host => Ok(rustix::fs::openat(CWD, path, flags, Mode::empty())?),
            Side::Node(root) => open_in_root(root, path, flags),
        }
    }
}

fn open_in_root(root: BorrowedFd<'_>, path: &OsStr, flags: OFlags) -> io::Result<OwnedFd> {
    // openat2(2) promises of IN_ROOT alone only that it refuses magic links, such as /proc/PID/root, for now.
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    match open_within(root, path, flags, resolve) {
        Err(Errno::NOSYS) => {
            let needs = "opening files below a node's root needs openat2, Linux 5.6 or later";
            Err(io::Error::new(io::ErrorKind::Unsupported, needs))
        }
        result => Ok(result?),
    }
}

/// A path below another, for messages.
pub(super) fn below(path: &str, name: &OsStr) -> String {
    let slash = if path.ends_with('/') { "" } else { "/" };
    format!("{path}{slash}{}", printable::line(&name.to_string_lossy()))
}

/// The directory part and the last name, without trailing slashes.
fn split(path: &OsStr) -> (&OsStr, &OsStr) {
    let bytes = path.as_bytes();
    let end = bytes.iter().rposition(|b| *b != b'/').map_or(0, |last| last + 1);
    let trimmed = &bytes[..end];
    match trimmed.iter().rposition(|b| *b == b'/') {
        Some(at) => (OsStr::from_bytes(&trimmed[..=at]), OsStr::from_bytes(&trimmed[at + 1..])),
        None => (OsStr::new("."), OsStr::from_bytes(trimmed)),
    }
}

fn is_dots(name: &OsStr) -> bool {
    name.is_empty() || name == "." || name == ".."
}

fn is_missing(e: &io::Error) -> bool {
    matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_a_directory_and_a_last_name() {
        for (path, parent, name) in [
            ("a", ".", "a"),
            ("a/b", "a/", "b"),
            ("a/b//", "a/", "b"),
            ("/a", "/", "a"),
            ("a/.", "a/", "."),
            ("/", ".", ""),
            ("", ".", ""),
        ] {
            let want = (OsStr::new(parent), OsStr::new(name));
            assert_eq!(split(OsStr::new(path)), want, "{path:?}");
        }
    }

    #[test]
    fn dots_and_root_have_no_name() {
        let name = |path: &str| {
            Given::new(Side::Host, OsStr::new(path))
                .name()
                .map(|n| n.to_string_lossy().into_owned())
        };
        assert_eq!(name("a/b/"), Some("b".into()));
        assert_eq!([name("/"), name("a/."), name("..")], [None, None, None]);
    }
}
