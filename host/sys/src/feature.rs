//! Features of this machine and this user: probed by trying, never guessed from a version.
//!
//! Each probe runs in a child process that ends at once, so nothing remains. `doctor`, the tests
//! and the code that needs a feature share the list. Probes of links are with netlink's users.

use std::path::Path;

use crate::own_user::Helper;
use crate::process::{self, Exit, Forked, Namespaces};
use crate::setup::{Real, Setup};
use crate::{Failure, Unsupported, caps, cgroup, describe, lease, namespace};

/// The name of [`own_figures`].
pub const OWN_FIGURES: &str = "/proc of nodes";

/// A probed feature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Feature {
    /// Its name.
    pub name: &'static str,
    /// What netloom uses it for.
    pub purpose: &'static str,
    /// What works without it; empty if nothing does, or nothing is lost.
    pub instead: &'static str,
    /// The finding, or why it is missing and what would provide it.
    pub state: Result<String, Unsupported>,
}

/// Whether this process can create namespaces: as root, or in a user namespace of its own.
///
/// # Errors
/// The refusal, and the command that would allow it.
pub fn namespaces() -> Result<(), Unsupported> {
    if caps::is_privileged() {
        let tried = in_child(|| {
            // SAFETY: in_child runs this in a process with one thread.
            match unsafe { process::fork(Namespaces::NODE, None) }? {
                Forked::Child => process::exit_now(0),
                Forked::Parent(pid) => process::wait_or_stop(pid).map(drop),
            }
        });
        return tried.map_err(|reason| Unsupported {
            feature: "namespaces",
            reason,
            needs: "run on a kernel with network, mount, PID, UTS and IPC namespaces, outside \
                    containers that forbid them"
                .to_owned(),
        });
    }
    in_child(enter_own_user_namespace).map_err(|reason| Unsupported {
        feature: "user namespaces",
        reason,
        needs: user_namespace_remedy(),
    })
}

/// Creates a user namespace in which this user is root. The process must have one thread.
pub fn enter_own_user_namespace() -> crate::Result<()> {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    namespace::new_user()?;
    namespace::map_self_to_root(uid, gid)
}

/// Whether nodes of root's labs get user namespaces of their own.
///
/// # Errors
/// The refusal, and what would allow it.
pub fn own_user_namespaces() -> Result<(), Unsupported> {
    let tried = in_child(|| match Helper::start(None)?.enter_network()?.finish()? {
        Some(user) => namespace::enter_user(user),
        None => namespace::new_user().and_then(|()| {
            let now = "it is allowed by now";
            Err(Failure::new("user namespace", "make with a network", now).into())
        }),
    });
    tried.map_err(|reason| Unsupported {
        feature: "user namespaces of nodes",
        reason,
        needs: match std::fs::read_to_string("/proc/sys/user/max_user_namespaces") {
            Ok(most) if most.trim() == "0" => {
                "allow it with: sudo sysctl -w user.max_user_namespaces=10000".into()
            }
            _ => "run on a kernel with user namespaces, outside containers that forbid them".into(),
        },
    })
}

/// Whether nodes get an age, loads and memory of their own in `/proc`.
///
/// # Errors
/// The refusal, and what would allow it.
pub fn own_figures() -> Result<(), Unsupported> {
    let tried = in_child(|| {
        if !caps::is_privileged() {
            enter_own_user_namespace()?;
        }
        let own = namespace::boot_offset();
        // The second is made by a process that has made one.
        namespace::new_boot_time(own).and_then(|()| namespace::new_boot_time(own))?;
        Ok(lease::file().and_then(lease::take).map_err(Failure::of("lease", "take"))?)
    });
    tried.map_err(|reason| Unsupported {
        feature: OWN_FIGURES,
        reason,
        needs: match std::fs::read_to_string("/proc/sys/fs/leases-enable") {
            Ok(on) if on.trim() == "0" => "allow it with: sudo sysctl -w fs.leases-enable=1".into(),
            _ => "run on a kernel with time namespaces (CONFIG_TIME_NS), outside containers that \
                  forbid them"
                .into(),
        },
    })
}

fn user_namespace_remedy() -> String {
    let read = |p: &str| std::fs::read_to_string(p).unwrap_or_default().trim().to_owned();
    if read("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == "1" {
        return "install netloom's package, whose AppArmor profile allows it to /usr/bin/netloom; or allow \
                it to all programs with: sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"
            .into();
    }
    if read("/proc/sys/kernel/unprivileged_userns_clone") == "0" {
        return "allow it with: sudo sysctl -w kernel.unprivileged_userns_clone=1".into();
    }
    if read("/proc/sys/user/max_user_namespaces") == "0" {
        return "allow it with: sudo sysctl -w user.max_user_namespaces=10000".into();
    }
    "run as root: sudo netloom …".into()
}

/// Whether nodes can see the host's file system under a private overlay.
pub fn overlay() -> Result<(), Unsupported> {
    let privileged = caps::is_privileged();
    in_child(move || {
        if !privileged {
            enter_own_user_namespace()?;
        }
        namespace::private_mounts()?;
        try_overlay(privileged)
    })
    .map_err(|reason| Unsupported {
        feature: "overlay file system",
        reason,
        needs: "load it with: sudo modprobe overlay (in a user namespace it needs Linux 5.11)"
            .into(),
    })
}

fn try_overlay(privileged: bool) -> crate::Result<()> {
    use rustix::mount::MountFlags;
    let at = Path::new("/tmp");
    // In a user namespace the root directory cannot be a layer: its mounts are locked.
    let lower = if privileged { "/" } else { "/usr" };
    let option = if privileged { "" } else { ",userxattr" };
    Real.mount("tmpfs", at, MountFlags::empty(), "mode=0755")?;
    for dir in ["upper", "work", "merged"] {
        Real.mkdir(&at.join(dir), 0o755)?;
    }
    let data = format!("lowerdir={lower},upperdir=/tmp/upper,workdir=/tmp/work{option}");
    Real.mount("overlay", &at.join("merged"), MountFlags::empty(), &data)
}

/// The limits that can be set here, and the version of cgroups that sets them.
pub fn limits() -> Result<String, Unsupported> {
    let privileged = caps::is_privileged();
    let found =
        if privileged { cgroup::hierarchies_of_root() } else { cgroup::hierarchies_of_user() };
    let found = found.unwrap_or_default();
    let words: Vec<String> = found
        .iter()
        .flat_map(|h| {
            let version = if h.version == cgroup::Version::V1 { "v1" } else { "v2" };
            h.controllers
                .iter()
                .filter(|c| *c != "cpuacct" && *c != cgroup::SOCKETS)
                .map(move |c| format!("{c} ({version})"))
        })
        .collect();
    if words.is_empty() { Err(no_limits(privileged)) } else { Ok(words.join(", ")) }
}

/// The reason why no limits can be set.
pub fn no_limits(privileged: bool) -> Unsupported {
    Unsupported {
        feature: "limits",
        reason: if privileged {
            "no cgroup controller is mounted".into()
        } else {
            "no cgroup is delegated to this user".into()
        },
        needs: if privileged {
            "mount it with: mount -t cgroup2 none /sys/fs/cgroup".into()
        } else {
            "start it with: systemd-run --user --scope -p Delegate=yes netloom …, or as root".into()
        },
    }
}

/// Runs `f` in a child process and returns its error as text. The caller must have one thread.
pub fn in_child(f: impl FnOnce() -> crate::Result<()>) -> Result<(), String> {
    let (read, write) = rustix::pipe::pipe().map_err(|e| format!("pipe: {e}"))?;
    // SAFETY: doctor and the start of a lab call this before they create any thread.
    match unsafe { process::fork(Namespaces::NONE, None) } {
        Err(e) => Err(describe(&e)),
        Ok(Forked::Child) => {
            drop(read);
            let code = match f() {
                Ok(()) => 0,
                Err(e) => {
                    // If even this fails, the parent sees an empty reason.
                    let _ = rustix::io::write(&write, describe(&e).as_bytes());
                    1
                }
            };
            process::exit_now(code)
        }
        Ok(Forked::Parent(pid)) => {
            // Ours would keep the read below waiting.
            drop(write);
            let mut text = [0u8; 1024];
            let n = rustix::io::read(&read, &mut text).unwrap_or(0);
            match process::wait_or_stop(pid) {
                Ok(Some(Exit::Code(0))) => Ok(()),
                _ => Err(String::from_utf8_lossy(&text[..n]).into_owned()),
            }
        }
    }
}
