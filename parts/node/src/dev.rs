//! A node's own `/dev`: a directory in the memory that the lab's nodes share, with its own devices.
//!
//! Programs may create, remove and chown entries, as in a container. As root, each node gets its own device
//! nodes, so a changed owner or mode stays within the node. In a user namespace no device node can be made
//! (user_namespaces(7)): the host's are bind-mounted over empty files, and the kernel refuses changes to them
//! because the host owns them. The same is done for root without `CAP_MKNOD`, as in a privileged node of another lab.

use std::path::Path;

use netloom_sys::Result;
use netloom_sys::setup::Setup;
use rustix::io::Errno;

/// Character devices every node has: name, major, minor.
const DEVICES: [(&str, u32, u32); 7] = [
    ("null", 1, 3),
    ("zero", 1, 5),
    ("full", 1, 7),
    ("random", 1, 8),
    ("urandom", 1, 9),
    ("tty", 5, 0),
    ("net/tun", 10, 200),
];

/// Symbolic links every node has.
const LINKS: [(&str, &str); 5] = [
    // Each devpts has a ptmx of its own; 5:2 would lead to the host's (devpts.rst).
    ("ptmx", "pts/ptmx"),
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
];

/// Permission bits of a device.
const MODE: u32 = 0o666;

/// Makes the content of a node's `/dev` in the directory that becomes it.
pub(crate) fn make(setup: &impl Setup, dev: &Path, user: bool) -> Result<()> {
    for dir in ["", "pts", "shm", "net"] {
        setup.mkdir(&dev.join(dir), 0o755)?;
    }
    for (name, major, minor) in DEVICES {
        let path = dev.join(name);
        let stands_in = || match of_host(name).exists() {
            true => setup.write(&path, b"", MODE),
            false => Ok(()),
        };
        match user {
            true => stands_in()?,
            false => match setup.device(&path, major, minor, MODE) {
                Err(e) if e.raw_os_error() == Some(Errno::PERM.raw_os_error()) => stands_in()?,
                made => made?,
            },
        }
    }
    LINKS.iter().try_for_each(|(name, to)| setup.symlink(to, &dev.join(name)))
}

/// Mounts the directory at `at`; adds the host's devices where files stand for them.
pub(crate) fn show(setup: &impl Setup, dev: &Path, at: &Path, user: bool) -> Result<()> {
    setup.bind(dev, at, false)?;
    let is_file = |name: &str| dev.join(name).symlink_metadata().is_ok_and(|found| found.is_file());
    let names = DEVICES.iter().map(|(name, ..)| *name);
    let bound = names.filter(|name| (user || is_file(name)) && of_host(name).exists());
    bound.into_iter().try_for_each(|name| setup.bind(&of_host(name), &at.join(name), false))
}

fn of_host(name: &str) -> std::path::PathBuf {
    Path::new("/dev").join(name)
}
