//! UNIX sockets that are private from the start: files of mode 0600.
//!
//! unix(7): Linux gives a bound socket's file the mode of the socket itself less the umask. So a `fchmod` before `bind`
//! leaves no moment with wider permissions, without the umask that all threads share. Where others may write beside it,
//! they may put a link in its place: owner and mode are set of a file that is held ([`Named`]).

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, Uid};
use rustix::io::{Errno, Result};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

/// Makes a close-on-exec socket and binds it to `path`. It does not listen yet.
///
/// # Errors
/// The kernel's: `EADDRINUSE` if there is a file already.
pub fn bind(path: &Path, kind: SocketType, flags: SocketFlags) -> Result<OwnedFd> {
    let flags = flags | SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, kind, flags, None)?;
    rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

/// The file of a bound socket, held: whatever has its name by now.
#[derive(Debug)]
pub struct Named(OwnedFd);

impl Named {
    /// Holds the socket that this user has bound to `path`.
    ///
    /// # Errors
    /// `EPERM`: something else has the name by now. Those of open(2).
    pub fn hold(path: &Path) -> Result<Named> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let held = rustix::fs::open(path, flags, Mode::empty())?;
        let found = rustix::fs::fstat(&held)?;
        let own = found.st_uid == rustix::process::geteuid().as_raw();
        match own && FileType::from_raw_mode(found.st_mode) == FileType::Socket {
            true => Ok(Named(held)),
            false => Err(Errno::PERM),
        }
    }

    /// Gives it to a user, a group, or both.
    ///
    /// # Errors
    /// Those of chown(2).
    pub fn give(&self, user: Option<u32>, group: Option<u32>) -> Result<()> {
        let (user, group) = (user.map(Uid::from_raw), group.map(Gid::from_raw));
        rustix::fs::chownat(&self.0, c"", user, group, AtFlags::EMPTY_PATH)
    }

    /// Sets its permissions.
    ///
    /// # Errors
    /// Those of chmod(2).
    pub fn set_mode(&self, mode: u32) -> Result<()> {
        // fchmod(2) takes no descriptor that was opened by path alone.
        let path = format!("/proc/self/fd/{}", self.0.as_raw_fd());
        rustix::fs::chmod(path, Mode::from_raw_mode(mode))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn the_file_is_private_and_never_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        for kind in [SocketType::STREAM, SocketType::SEQPACKET] {
            let bound = bind(&path, kind, SocketFlags::empty()).unwrap();
            let mode = path.symlink_metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
            let again = bind(&path, kind, SocketFlags::empty());
            assert_eq!(again.unwrap_err(), rustix::io::Errno::ADDRINUSE);
            drop(bound);
            std::fs::remove_file(&path).unwrap();
        }
    }

    #[test]
    fn what_has_taken_its_name_is_not_changed() {
        let folder = tempfile::tempdir().unwrap();
        let (path, file) = (folder.path().join("socket"), folder.path().join("file"));
        let mode = |path: &Path| path.symlink_metadata().unwrap().permissions().mode() & 0o777;
        std::fs::write(&file, "").unwrap();
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o640)).unwrap();
        let _bound = bind(&path, SocketType::STREAM, SocketFlags::empty()).unwrap();
        let held = Named::hold(&path).unwrap();
        let aside = folder.path().join("aside");
        std::fs::rename(&path, &aside).unwrap();
        symlink(&file, &path).unwrap();
        held.give(None, Some(rustix::process::getegid().as_raw())).unwrap();
        held.set_mode(0o666).unwrap();
        assert_eq!((mode(&aside), mode(&file)), (0o666, 0o640));
        assert_eq!(Named::hold(&path).unwrap_err(), Errno::PERM);
        assert_eq!(Named::hold(&file).unwrap_err(), Errno::PERM);
    }
}
