//! Kernel settings by their paths below `/proc/sys`; network settings are the calling thread's.
//!
//! Invariant: a value that is already right is not written, since many writes spin on the kernel's
//! one lock for all networks. Specification: proc_sys(5).

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

/// Reads a setting; `None` if the kernel has none of this name.
pub fn get(path: &str) -> Option<String> {
    View::shared().get(path)
}

/// The mount of `/proc` through which settings are read and written.
///
/// The kernel keeps what was looked up, and finds `/proc/sys/net/ipv4` of one network among those of all networks that were
/// looked up through the same mount, one after the other. So work in many networks takes a view of its own now and then.
#[derive(Debug)]
pub struct View(Option<OwnedFd>);

impl View {
    /// The machine's `/proc`.
    pub fn shared() -> View {
        View(None)
    }

    /// A mount that nobody else has, in no mount namespace; the machine's where this process may not have one, as in an
    /// ordinary user's lab.
    pub fn own() -> View {
        View(mount().ok())
    }

    /// See [`get`].
    pub fn get(&self, path: &str) -> Option<String> {
        let mut text = String::new();
        self.open(path, OFlags::RDONLY).ok()?.read_to_string(&mut text).ok()?;
        Some(text.trim().to_owned())
    }

    /// See [`set`].
    ///
    /// # Errors
    /// The kernel's error.
    pub fn set(&self, path: &str, value: &str) -> io::Result<()> {
        let (path, optional) = path.strip_prefix('-').map_or((path, false), |path| (path, true));
        if self.get(path).as_deref() == Some(value) {
            return Ok(());
        }
        let write = || self.open(path, OFlags::WRONLY)?.write_all(value.as_bytes());
        match write() {
            Err(_) if optional || (path.starts_with("net/ipv6/") && !has_ipv6()) => Ok(()),
            written => written,
        }
    }

    /// See [`set_in_node`].
    ///
    /// # Errors
    /// The kernel's error.
    pub fn set_in_node(&self, path: &str, value: &str, privileged: bool) -> io::Result<()> {
        self.set(path, value).map_err(|e| match e.kind() {
            io::ErrorKind::NotFound if !privileged => {
                io::Error::new(io::ErrorKind::NotFound, format!("{e}; {HIDDEN}"))
            }
            _ => e,
        })
    }

    fn open(&self, path: &str, how: OFlags) -> io::Result<File> {
        let how = how | OFlags::CLOEXEC;
        let opened = match &self.0 {
            Some(proc) => rustix::fs::openat(proc, format!("sys/{path}"), how, Mode::empty()),
            None => rustix::fs::open(full(path), how, Mode::empty()),
        };
        Ok(opened?.into())
    }
}

/// A new mount of `/proc` that is attached nowhere, and goes with its descriptor.
fn mount() -> rustix::io::Result<OwnedFd> {
    let context = fsopen("proc", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&context)?;
    let closed = MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, closed)
}

/// The network settings of the thread that opened it, for many questions: the folders in which the kernel would look among
/// those of all network namespaces are found once ([`View`]).
#[derive(Debug)]
pub struct NetworkSettings {
    net: OwnedFd,
    /// By their names below it.
    families: Vec<(&'static str, OwnedFd)>,
}

impl NetworkSettings {
    /// Opens those of the calling thread.
    ///
    /// # Errors
    /// `/proc/sys/net` cannot be opened.
    pub fn open() -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let net = rustix::fs::open("/proc/sys/net", flags, Mode::empty())?;
        let family = |name: &'static str| {
            // A kernel may lack one.
            let folder = rustix::fs::openat(&net, name, flags, Mode::empty()).ok()?;
            Some((name, folder))
        };
        let families = ["ipv4", "ipv6"].into_iter().filter_map(family).collect();
        Ok(Self { net, families })
    }

    /// Reads a setting by its path, `net/ipv4/ip_forward`; `None` if the kernel has none of this name.
    pub fn get(&self, path: &str) -> Option<String> {
        let below = path.strip_prefix("net/")?;
        let known = self.families.iter().find_map(|(name, folder)| {
            Some((folder, below.strip_prefix(name)?.strip_prefix('/')?))
        });
        let (folder, below) = known.unwrap_or((&self.net, below));
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let file = rustix::fs::openat(folder, below, flags, Mode::empty()).ok()?;
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
    View::shared().set(path, value)
}

/// The same for a node's setting. The error of a missing one tells an ordinary node's what may help: kernels
/// hide some where a user namespace other than the host's owns the network.
///
/// # Errors
/// The kernel's error.
pub fn set_in_node(path: &str, value: &str, privileged: bool) -> io::Result<()> {
    View::shared().set_in_node(path, value, privileged)
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
    fn a_view_of_its_own_shows_the_same_and_shares_nothing() {
        let (own, other) = (View::own(), View::own());
        for path in ["net/ipv4/ip_forward", "net/ipv4/conf/all/rp_filter", "kernel/ostype"] {
            assert_eq!(own.get(path), get(path), "{path}");
        }
        own.set("kernel/ostype", "Linux").unwrap();
        own.set("kernel/ostype", "other").unwrap_err();
        assert_eq!(own.get("net/no-such"), None);
        // What the kernel looked up belongs to a file system: each view is one, except for an ordinary user.
        let device = |view: &View| {
            let file = view.open("net/ipv4/ip_forward", OFlags::RDONLY).unwrap();
            rustix::fs::fstat(file).unwrap().st_dev
        };
        let all = [device(&own), device(&other), device(&View::shared())];
        match mount() {
            Ok(_) => assert!(all[0] != all[1] && all[0] != all[2] && all[1] != all[2], "{all:?}"),
            Err(_) => assert!(!rustix::process::getuid().is_root() && all[0] == all[2], "{all:?}"),
        }
    }

    #[test]
    fn network_settings_are_read_as_by_their_paths() {
        let all = NetworkSettings::open().unwrap();
        for path in [
            "net/ipv4/ip_forward",
            "net/ipv4/tcp_rmem",
            "net/ipv4/conf/all/rp_filter",
            "net/ipv6/conf/all/forwarding",
            "net/core/somaxconn",
        ] {
            assert_eq!(all.get(path), get(path), "{path}");
        }
        assert!(all.get("net/core/somaxconn").is_some());
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
