//! The folder that clients know a switch by, and its sockets.
//!
//! One without a server is taken over; one that is served, that is another user's, or that
//! holds other files of its own user is refused and left as it is. A user that may join may write there: owner and mode are set of
//! sockets that are held, the folder is sticky, and what others put there goes with it.

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use netloom_sys::private_socket::Named;
use netloom_sys::{Failure, namespace};
use netloom_vde::request;
use rustix::fs::{Gid, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::{Error, Result};

/// The name of the socket that clients connect to.
pub const CONTROL: &str = "ctl";
/// The name of the console's socket.
pub const CONSOLE: &str = "mgmt";

/// The operation on files here, in words.
const GIVE: &str = "give to its group";
const SET_MODE: &str = "set the mode of";

/// Connections that wait to be accepted.
const BACKLOG: i32 = 64;

/// A folder in service.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    mode: u32,
    group: Option<u32>,
    control: OwnedFd,
    console: OwnedFd,
    identity: (u64, u64),
}

impl Folder {
    /// Makes the folder and its sockets, or takes it over. `mode` and `group` are those of the socket that
    /// clients connect to; consoles are for the user alone.
    ///
    /// # Errors
    /// [`Error::Refused`] for a path that cannot be one; [`Error::Failed`] when the system refuses, with
    /// EADDRINUSE where a switch serves the folder.
    pub fn make(path: &Path, mode: u32, group: Option<u32>) -> Result<Folder> {
        check_path(path)?;
        match rustix::fs::mkdir(path, 0o700.into()) {
            Ok(()) => {}
            Err(Errno::EXIST) => {
                examine(path)?;
                // Until all is in place nobody else may write there.
                allow_folder(path, 0o700, None)?;
                // Clients remove their own sockets; theirs may still be in use, and harm nobody.
                sweep(path, is_known);
            }
            Err(e) => return Err(Failure::path(path, "make", e).into()),
        }
        let control = listen(&path.join(CONTROL), mode & 0o666, group)?;
        let console = listen(&path.join(CONSOLE), 0o600, None)?;
        // Sticky: users that may make sockets there cannot remove others'.
        // Set-group-ID: what clients make there has the folder's group (inode(7)).
        allow_folder(path, 0o3000 | searchable(mode), group)?;
        let identity = identity(&path.join(CONTROL)).unwrap_or_default();
        Ok(Folder { path: path.to_owned(), mode: mode & 0o666, group, control, console, identity })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its descriptors, which a process that closes all others has to keep.
    pub fn descriptors(&self) -> [std::os::fd::BorrowedFd<'_>; 2] {
        [self.control.as_fd(), self.console.as_fd()]
    }

    pub(super) fn control(&self) -> std::os::fd::BorrowedFd<'_> {
        self.control.as_fd()
    }

    pub(super) fn console(&self) -> Result<OwnedFd> {
        let copy = self.console.try_clone();
        Ok(copy.map_err(Failure::of("vde", "copy a descriptor"))?)
    }

    /// Names a data socket, for the client alone where that is possible, else for every user that may connect.
    pub(super) fn name_data(&self, socket: &OwnedFd, name: &str, uid: u32) -> io::Result<PathBuf> {
        let path = self.path.join(name);
        match rustix::fs::unlink(&path) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(e) => return Err(e.into()),
        }
        rustix::net::bind(socket, &SocketAddrUnix::new(&path)?)?;
        let named = Named::hold(&path)?;
        let own = !namespace::may_be_outside(uid) && named.give(Some(uid), self.group).is_ok();
        let mode = if own { self.mode & 0o700 } else { self.mode };
        named.set_mode(mode | 0o600)?;
        Ok(path)
    }

    /// Removes the folder, unless it is another's by now.
    pub fn remove(&self) {
        if identity(&self.path.join(CONTROL)) == Some(self.identity) {
            remove(&self.path);
        }
    }
}

/// Whether the folder can be made, or taken over: fails as [`Folder::make`] would.
///
/// # Errors
/// As [`Folder::make`].
pub fn check(path: &Path) -> Result<()> {
    check_path(path)?;
    match examine(path) {
        Err(e) if e.raw_os_error() == Some(Errno::NOENT.raw_os_error()) => Ok(()),
        other => other,
    }
}

/// Removes a folder that nobody serves, with its sockets.
pub fn clear(path: &Path) {
    if examine(path).is_ok() {
        remove(path);
    }
}

/// Removes a folder with its sockets, also those of clients.
fn remove(path: &Path) {
    sweep(path, |_| true);
    let _ = fs::remove_dir(path);
}

fn check_path(path: &Path) -> Result<()> {
    let length = path.as_os_str().as_bytes().len();
    let refused = |text: String| Err(Error::Refused(format!("vde: {}: {text}", path.display())));
    if !path.is_absolute() {
        return refused("not a path from the root".into());
    }
    if length > request::MOST_FOLDER {
        let most = request::MOST_FOLDER;
        return refused(format!("{length} bytes; sockets in it allow {most} at most"));
    }
    Ok(())
}

/// Refuses a folder that is another user's, that holds other files, or that somebody serves.
fn examine(path: &Path) -> Result<()> {
    let looked = |e: io::Error| Error::from(Failure::path(path, "take over", e));
    let refused = |text: &str| Err(Error::Refused(format!("vde: {}: {text}", path.display())));
    let found = fs::symlink_metadata(path).map_err(looked)?;
    if !found.is_dir() {
        return refused("exists, and is not a folder");
    }
    if found.uid() != rustix::process::geteuid().as_raw() {
        return refused(&format!("exists, and is user {}'s", found.uid()));
    }
    for entry in fs::read_dir(path).map_err(looked)? {
        let entry = entry.map_err(looked)?;
        // A user that may join may put anything there; that keeps nobody else out.
        if is_another_users(&entry) {
            continue;
        }
        let is_socket = entry.file_type().map_err(looked)?.is_socket();
        let name = entry.file_name();
        let known = name.to_str().is_some_and(|name| is_known(name) || name.starts_with('.'));
        if !is_socket || !known {
            return refused(&format!("exists, and holds {name:?}"));
        }
    }
    for name in [CONTROL, CONSOLE] {
        if is_served(&path.join(name)).map_err(looked)? {
            return Err(Failure::path(path, "take over", Errno::ADDRINUSE).into());
        }
    }
    Ok(())
}

fn is_known(name: &str) -> bool {
    name == CONTROL || name == CONSOLE || request::is_data_name(name)
}

/// Whether somebody listens.
fn is_served(path: &Path) -> io::Result<bool> {
    let socket = stream()?;
    match rustix::net::connect(&socket, &SocketAddrUnix::new(path)?) {
        Err(Errno::CONNREFUSED | Errno::NOENT) => Ok(false),
        // A full backlog is somebody's, too.
        Ok(()) | Err(Errno::AGAIN) => Ok(true),
        Err(e) => Err(e.into()),
    }
}

/// Removes sockets with such names, and other users' files there that are not sockets.
fn sweep(path: &Path, names: impl Fn(&str) -> bool) {
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        let Ok(kind) = entry.file_type() else { continue };
        let goes = match kind.is_socket() {
            true => entry.file_name().to_str().is_some_and(&names),
            false => is_another_users(&entry),
        };
        match kind.is_dir() {
            _ if !goes => {}
            true => drop(fs::remove_dir_all(entry.path())),
            false => drop(fs::remove_file(entry.path())),
        }
    }
}

fn is_another_users(entry: &fs::DirEntry) -> bool {
    let own = rustix::process::geteuid().as_raw();
    entry.metadata().is_ok_and(|found| found.uid() != own)
}

fn stream() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?)
}

fn listen(path: &Path, mode: u32, group: Option<u32>) -> Result<OwnedFd> {
    let failed = |e: io::Error| Failure::path(path, "listen at", e);
    let socket = stream().map_err(failed)?;
    let address = SocketAddrUnix::new(path).map_err(|e| failed(e.into()))?;
    // The folder is its user's alone until all is in place.
    rustix::net::bind(&socket, &address).map_err(|e| failed(e.into()))?;
    rustix::net::listen(&socket, BACKLOG).map_err(|e| failed(e.into()))?;
    allow(path, mode, group)?;
    Ok(socket)
}

fn allow(path: &Path, mode: u32, group: Option<u32>) -> Result<()> {
    let named = Named::hold(path).map_err(|e| Failure::path(path, SET_MODE, e))?;
    if group.is_some() {
        named.give(None, group).map_err(|e| Failure::path(path, GIVE, e))?;
    }
    Ok(named.set_mode(mode).map_err(|e| Failure::path(path, SET_MODE, e))?)
}

fn allow_folder(path: &Path, mode: u32, group: Option<u32>) -> Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = rustix::fs::open(path, flags, Mode::empty());
    let folder = folder.map_err(|e| Failure::path(path, "open", e))?;
    if let Some(group) = group {
        rustix::fs::fchown(&folder, None, Some(Gid::from_raw(group)))
            .map_err(|e| Failure::path(path, GIVE, e))?;
    }
    let mode = Mode::from_raw_mode(mode);
    Ok(rustix::fs::fchmod(&folder, mode).map_err(|e| Failure::path(path, SET_MODE, e))?)
}

/// The mode of a folder for sockets of this mode: a user that may use one may search the folder.
fn searchable(mode: u32) -> u32 {
    let of = |class: u32| {
        if mode & (0o6 << class) == 0 { 0 } else { mode & (0o6 << class) | 1 << class }
    };
    0o700 | of(6) | of(3) | of(0)
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    let found = fs::symlink_metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}

#[cfg(test)]
mod tests;
