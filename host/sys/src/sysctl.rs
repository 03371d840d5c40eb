//! Kernel settings by their paths below `/proc/sys`; network settings are the calling thread's.
//!
//! Invariant: a value that is already right is not written, since many writes spin on the kernel's
//! one lock for all networks. Specification: proc_sys(5).

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{Mode, OFlags};

/// Reads a setting; `None` if the kernel has none of this name.
pub fn get(path: &str) -> Option<String> {
    std::fs::read_to_string(full(path)).ok().map(|text| text.trim().to_owned())
}

/// The network settings of the thread that opened it, for many questions. The kernel looks up a name below `/proc/sys` among those
/// of all network namespaces; relative to this it does so once.
#[derive(Debug)]
pub struct NetworkSettings(OwnedFd);

impl NetworkSettings {
    /// Opens those of the calling thread.
    ///
    /// # Errors
    /// `/proc/sys/net` cannot be opened.
    pub fn open() -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self(rustix::fs::open("/proc/sys/net", flags, Mode::empty())?))
    }

    /// Reads a setting by its path, `net/ipv4/ip_forward`; `None` if the kernel has none of this name.
    pub fn get(&self, path: &str) -> Option<String> {
        let below = path.strip_prefix("net/")?;
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.0, below, flags, Mode::empty()).ok()?;
        // The kernel gives a value whole, and none is as long.
        let mut text = [0; 4096];
        let length = rustix::io::read(&file, &mut text).ok()?;
        Some(String::from_utf8_lossy(text.get(..length)?).trim().to_owned())
    }
}

/// Writes a setting. Failure is ignored for a path with a leading `-`, and for IPv6 settings if the
/// kernel has no IPv6.
///
/// # Errors
/// The kernel's error.
pub fn set(path: &str, value: &str) -> io::Result<()> {
    let (path, optional) = path.strip_prefix('-').map_or((path, false), |path| (path, true));
    let full = full(path);
    if get(path).as_deref() == Some(value) {
        return Ok(());
    }
    match std::fs::write(&full, value) {
        Err(_) if optional || (path.starts_with("net/ipv6/") && !has_ipv6()) => Ok(()),
        written => written,
    }
}

/// The same for a node's setting. The error of a missing one tells an ordinary node's what may help: kernels
/// hide some where a user namespace other than the host's owns the network.
///
/// # Errors
/// The kernel's error.
pub fn set_in_node(path: &str, value: &str, privileged: bool) -> io::Result<()> {
    set(path, value).map_err(|e| match e.kind() {
        io::ErrorKind::NotFound if !privileged => {
            io::Error::new(io::ErrorKind::NotFound, format!("{e}; {HIDDEN}"))
        }
        _ => e,
    })
}

/// What to do about a setting that the kernel does not show.
const HIDDEN: &str =
    "if this kernel has it, then only in nodes with `privileged: true` in labs of root";

/// The full path of a setting, for messages.
pub fn full(path: &str) -> String {
    format!("/proc/sys/{}", path.strip_prefix('-').unwrap_or(path))
}

/// A kernel without IPv6 has none of its settings.
fn has_ipv6() -> bool {
    Path::new("/proc/sys/net/ipv6").exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_that_is_not_there_is_refused_unless_it_may_be_missing() {
        assert_eq!(set("kernel/no-such", "1").unwrap_err().kind(), io::ErrorKind::NotFound);
        set("-kernel/no-such", "1").unwrap();
        assert_eq!(full("-kernel/no-such"), "/proc/sys/kernel/no-such");
    }

    #[test]
    fn network_settings_are_read_as_by_their_paths() {
        let all = NetworkSettings::open().unwrap();
        for path in ["net/ipv4/ip_forward", "net/ipv4/tcp_rmem", "net/ipv4/conf/all/rp_filter"] {
            assert_eq!(all.get(path), get(path), "{path}");
        }
        assert_eq!(all.get("net/no-such"), None);
        assert_eq!(all.get("kernel/ostype"), None);
    }

    #[test]
    fn a_node_that_lacks_a_setting_is_told_of_privileged() {
        let of = |privileged| set_in_node("kernel/no-such", "1", privileged).unwrap_err();
        assert_eq!(of(false).kind(), io::ErrorKind::NotFound);
        assert!(of(false).to_string().contains("`privileged: true`"), "{}", of(false));
        assert!(!of(true).to_string().contains("privileged"), "{}", of(true));
        set_in_node("-kernel/no-such", "1", false).unwrap();
    }

    #[test]
    fn a_value_that_is_right_is_not_written() {
        // Nobody can write this setting.
        set("kernel/ostype", "Linux").unwrap();
        set("kernel/ostype", "other").unwrap_err();
    }
}
