//! Whether the daemon that installed a route is away, so that what it takes back may come again.
//!
//! FRR's daemons listen on a socket each for `vtysh`. When one ends, zebra takes its routes out of the kernel at once;
//! a daemon that withdraws a route itself is there. The listener is not asked. No link of the node's leads out of
//! its root.

use std::io::ErrorKind;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

use netloom_sys::lookup::open_within;
use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

/// Where FRR's daemons listen, below the root directory.
const FOLDER: &str = "run/frr";

/// Daemons by the number of the routes that they have installed (`RTPROT_*`).
const BY_ORIGIN: [(u8, &[&str]); 7] = [
    (186, &["bgpd"]),
    (187, &["isisd"]),
    (188, &["ospfd", "ospf6d"]),
    (189, &["ripd", "ripngd"]),
    (192, &["eigrpd"]),
    (196, &["staticd"]),
    (42, &["babeld"]),
];

/// The file of this name in their folder; the folder itself, if there is no name.
pub(crate) fn open(root: &Path, name: &str) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let root = rustix::fs::open(root, flags | OFlags::DIRECTORY, Mode::empty())?;
    let how = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    open_within(&root, Path::new(FOLDER).join(name).as_path(), flags, how)
}

/// Whether the daemon of a route's origin is known and does not run, or zebra does not.
pub(crate) fn is_away(root: &Path, origin: u8, is_ipv4: bool) -> bool {
    let Some((_, names)) = BY_ORIGIN.iter().find(|(number, _)| *number == origin) else {
        return false;
    };
    let name = if is_ipv4 { names.first() } else { names.last() };
    let is_gone = |name: &str| {
        let socket = match open(root, &format!("{name}.vty")) {
            Err(e) => return e == Errno::NOENT,
            Ok(socket) => socket,
        };
        // By the descriptor: the path may be longer than an address of a socket (108 bytes).
        // A daemon that was killed leaves its file, where nobody listens (ECONNREFUSED).
        let asked = UnixStream::connect(format!("/proc/self/fd/{}", socket.as_raw_fd()));
        // One that may not be asked is there.
        let kind = asked.err().map(|e| e.kind());
        matches!(kind, Some(ErrorKind::NotFound | ErrorKind::ConnectionRefused))
    };
    is_gone("zebra") || name.is_none_or(|name| is_gone(name))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn a_daemon_is_away_when_nobody_listens() {
        let root = std::env::temp_dir().join(format!("netloom-daemons-{}", std::process::id()));
        let folder = root.join(FOLDER);
        std::fs::create_dir_all(&folder).unwrap();
        assert!(!is_away(&root, 4, true), "the writer of a static route is not a daemon");
        assert!(is_away(&root, 188, true));
        let listen = |name: &str| UnixListener::bind(folder.join(format!("{name}.vty"))).unwrap();
        let (_zebra, ospfd) = (listen("zebra"), listen("ospfd"));
        assert!(!is_away(&root, 188, true));
        assert!(is_away(&root, 188, false), "that of IPv6");
        drop(ospfd);
        assert!(is_away(&root, 188, true), "its socket stays");
        // Links of the node are its own: they lead to no socket outside.
        let elsewhere = root.join("elsewhere");
        std::fs::rename(&folder, &elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &folder).unwrap();
        let _ospfd = UnixListener::bind(elsewhere.join("ospf6d.vty")).unwrap();
        assert!(is_away(&root, 188, false));
        std::fs::remove_dir_all(&root).unwrap();
    }
}
