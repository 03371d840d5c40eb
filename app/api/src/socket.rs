//! UNIX sockets of a lab's folder: private from the start, with a check of the peer's user.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use netloom_sys::{Failure, private_socket, scm};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::{Error, Result};

/// Backlog of a listening socket.
pub(crate) const BACKLOG: i32 = 4096;

/// The file of a listening socket; [`Bound::remove`] removes it unless another socket has replaced it.
#[derive(Debug)]
pub(crate) struct Bound {
    path: PathBuf,
    identity: (u64, u64),
}

/// Binds a close-on-exec, non-blocking listening socket with mode 0600, replacing a stale one.
///
/// # Errors
/// [`Error::Busy`] when somebody listens there; errors of the kernel.
pub(crate) fn listen(path: &Path, kind: SocketType) -> Result<(OwnedFd, Bound)> {
    // So that a path that is too long is told from a file that cannot be made.
    address(path)?;
    remove_stale(path, kind)?;
    let socket = private_socket::bind(path, kind, SocketFlags::NONBLOCK)
        .map_err(|e| Failure::path(path, "bind", e))?;
    // By device and inode: a later process may have put a socket of its own at the path.
    let meta = std::fs::symlink_metadata(path).map_err(|e| Failure::path(path, "look at", e))?;
    let bound = Bound { path: path.to_owned(), identity: (meta.dev(), meta.ino()) };
    if let Err(e) = rustix::net::listen(&socket, BACKLOG) {
        bound.remove();
        return Err(Failure::path(path, "listen", e).into());
    }
    Ok((socket, bound))
}

impl Bound {
    /// Removes the file unless it is gone or another socket has replaced it.
    pub(crate) fn remove(&self) {
        let ours = std::fs::symlink_metadata(&self.path)
            .is_ok_and(|m| (m.dev(), m.ino()) == self.identity);
        if ours && let Err(e) = std::fs::remove_file(&self.path) {
            tracing::warn!("{:?}: remove: {e}", self.path);
        }
    }
}

/// Opens a blocking connection; `None` when nobody listens.
///
/// # Errors
/// [`Error::Stranger`] when the listener is neither root nor the caller's own user; errors of the kernel.
pub(crate) fn connect(path: &Path, kind: SocketType) -> Result<Option<OwnedFd>> {
    let socket = open(path, kind, SocketFlags::empty())?;
    match rustix::net::connect(&socket, &address(path)?) {
        Ok(()) => {}
        Err(Errno::NOENT | Errno::CONNREFUSED) => return Ok(None),
        Err(e) => return Err(Failure::path(path, "connect", e).into()),
    }
    let uid =
        scm::peer_uid(&socket).map_err(Error::system(path, "read the listener's credentials"))?;
    if is_trusted(uid) {
        Ok(Some(socket))
    } else {
        Err(Error::Stranger { path: path.to_owned(), uid })
    }
}

/// Whether the peer is root or the owner; logs a peer that is not.
pub(crate) fn peer_is_trusted(socket: impl AsFd, path: &Path) -> bool {
    match scm::peer_uid(socket) {
        Ok(uid) if is_trusted(uid) => true,
        Ok(uid) => {
            tracing::warn!("{path:?}: refused a process of the user with id {uid}");
            false
        }
        Err(e) => {
            tracing::warn!("{path:?}: refused a process: {e}");
            false
        }
    }
}

/// Root or this process's own user, both as seen in its user namespace.
fn is_trusted(uid: u32) -> bool {
    uid == 0 || uid == rustix::process::geteuid().as_raw()
}

fn open(path: &Path, kind: SocketType, flags: SocketFlags) -> Result<OwnedFd> {
    rustix::net::socket_with(AddressFamily::UNIX, kind, flags | SocketFlags::CLOEXEC, None)
        .map_err(|e| Failure::path(path, "open", e).into())
}

fn address(path: &Path) -> Result<SocketAddrUnix> {
    SocketAddrUnix::new(path)
        .map_err(|e| Failure::path(path, "use as the path of a socket", e).into())
}

fn remove_stale(path: &Path, kind: SocketType) -> Result<()> {
    let there = match std::fs::symlink_metadata(path) {
        // Not blocking, so that a listener with a full backlog does not hold up the start.
        Ok(_) => open(path, kind, SocketFlags::NONBLOCK)?,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(Failure::path(path, "look at", e).into()),
    };
    match rustix::net::connect(&there, &address(path)?) {
        Err(Errno::CONNREFUSED | Errno::NOENT) => {}
        // Somebody listens: with room, with a full backlog, or with another type of socket.
        Ok(()) | Err(Errno::AGAIN | Errno::PROTOTYPE) => return Err(Error::Busy(path.to_owned())),
        Err(e) => return Err(Failure::path(path, "look for a listener", e).into()),
    }
    match std::fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => {
            Err(Failure::path(path, "remove", e).into())
        }
        _ => Ok(()),
    }
}
