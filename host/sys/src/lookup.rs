//! Opens paths that must not lead out of a directory (openat2(2)).
//!
//! While mounts or renames go on elsewhere on the machine, the kernel cannot be sure that a `..` stayed within, and answers
//! EAGAIN: the lookup is begun anew then.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::path::Arg;

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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

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
}
