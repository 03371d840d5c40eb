//! UNIX sockets that are private from the start: files of mode 0600.
//!
//! unix(7): Linux gives a bound socket's file the mode of the socket itself less the umask. So a `fchmod` before `bind`
//! leaves no moment with wider permissions, without the umask that all threads share.

use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::Mode;
use rustix::io::Result;
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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

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
}
