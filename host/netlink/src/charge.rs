//! Charges a node for its receive work: kernel threads of its own do the work.
//!
//! A veth end hands frames to the receiver on the sender's CPU time. With GRO (of UDP, too) they
//! queue at the receiving end, and with threaded NAPI a kernel thread `napi/NAME-ID` takes them
//! from there; in the node's group, its CPU time is the node's. TCP super-frames keep their short
//! path, and the sender its segmentation offload. Setting the interface down and up creates new
//! threads. Groups are not known here; everything concerns the calling thread's network namespace.
//! Specification: napi.rst, `linux/netdev.h`, sysfs-class-net.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use netloom_sys::{Failure, population, process::is_kernel_thread};
use rustix::mount::{MountFlags, mount};

use crate::decode::{Message, u32_at};
use crate::error::{Error, Result, SOCKET};
use crate::generic::{self, Family, body, object};
use crate::link::LinkRef;
use crate::offload::Offloads;
use crate::query::LinkInfo;
use crate::socket::Socket;
use crate::uapi::{DUMP, REQUEST};

const NAPI_GET: u8 = 11;
const NAPI_INDEX: u16 = 1;
const NAPI_ID: u16 = 2;
const NAPI_PID: u16 = 4;

/// The first kernel thread, where the PID namespace shows any.
const KTHREADD: i32 = 2;

/// Features to enable; the first makes a veth end queue, the second lets it queue UDP.
const FEATURES: [&str; 2] = ["rx-gro", "rx-udp-gro-forwarding"];

/// Enables charging on an interface that is up, and returns its threads' ids in the first PID
/// namespace. If enabled already, only returns the ids.
///
/// # Errors
/// [`Error::Refused`] if there is no such interface, it is down (`ENETDOWN`), or lacks a feature;
/// [`Error::Failed`] if sysfs refuses; [`Error::Unsupported`] before Linux 5.12, before 6.8 if it was
/// enabled already, or if this PID namespace shows no kernel threads (then it is disabled again).
pub fn enable<'a>(link: impl Into<LinkRef<'a>>) -> Result<Vec<i32>> {
    let link = link.into();
    let info = find(link)?;
    if !info.up {
        let why = "it must be up to have threads".to_owned();
        return Err(generic::refused(object(link), "charge", libc::ENETDOWN, why));
    }
    // GRO first: without it a veth end has no queue for a thread.
    Offloads::open()?.set(link, &FEATURES.map(|name| (name, true)))?;
    let before = named_threads(&info.name);
    set_threaded(&info.name, true)?;
    let found = match threads_of(info.index) {
        Err(Error::Unsupported { .. }) => appeared(&before, &info.name),
        found => found,
    };
    // Without the list of Linux 6.8, the threads of a container are not found at all.
    let hidden = matches!(found, Err(Error::Unsupported { .. })) && !is_kernel_thread(KTHREADD);
    let found = if hidden { vec![] } else { found? };
    // The ids are the first PID namespace's: in a container's they mean other processes.
    if !hidden && found.iter().all(|thread| is_kernel_thread(*thread)) {
        return Ok(found);
    }
    disable(info.index)?;
    let missing = std::io::Error::from_raw_os_error(libc::ESRCH);
    let needs = "the first PID namespace: a container's shows no kernel threads";
    Err(Error::unsupported("threads of receiving", &missing, needs))
}

/// Disables charging: threads end, and frames are received on the sender's CPU time again.
///
/// # Errors
/// As [`enable`].
pub fn disable<'a>(link: impl Into<LinkRef<'a>>) -> Result<()> {
    let link = link.into();
    let info = find(link)?;
    // Down or without GRO, it has no queue for a thread.
    if !threads_of(info.index).is_ok_and(|threads| threads.is_empty()) {
        set_threaded(&info.name, false)?;
    }
    Offloads::open()?.set(link, &FEATURES.map(|name| (name, false)))
}

/// An interface's receive threads, by their ids in the first PID namespace; none if it is not
/// charged or is down.
///
/// # Errors
/// [`Error::Refused`] if there is no such interface; [`Error::Unsupported`] before Linux 6.8.
pub fn threads<'a>(link: impl Into<LinkRef<'a>>) -> Result<Vec<i32>> {
    threads_of(find(link.into())?.index)
}

/// Sets whether kernel threads do an interface's receive work. It must be up and must queue, as a
/// veth end with GRO does.
///
/// This is set in sysfs, since netlink demands privilege over the first user namespace and forgets
/// the setting when the interface goes down. /sys shows the namespace of its mounter, so a thread
/// mounts its own in its own mount namespace, and ends.
///
/// # Errors
/// [`Error::Failed`]; [`Error::Unsupported`] before Linux 5.12.
pub fn set_threaded(name: &str, on: bool) -> Result<()> {
    // The name becomes part of a path.
    if name.contains('/') || name.starts_with('.') {
        let object = format!("link {name:?}");
        return Err(generic::refused(object, "charge", libc::EINVAL, "no such name".to_owned()));
    }
    let body = || {
        netloom_sys::namespace::private_mounts()
            .map_err(|e| Failure::path("/", "make a mount namespace", e))?;
        let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
        mount("sysfs", "/sys", "sysfs", flags, None)
            .map_err(|e| Failure::path("/sys", "mount sysfs", e))?;
        let path = PathBuf::from(format!("/sys/class/net/{name}/threaded"));
        let text = if on { "1" } else { "0" };
        fs::write(&path, text).map_err(|source| match source.kind() {
            std::io::ErrorKind::NotFound => {
                Error::unsupported("threaded receiving", &source, "Linux 5.12")
            }
            _ => Failure::path(path, "set threaded receiving", source).into(),
        })
    };
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("netloom-sysfs".to_owned());
        let thread = thread.spawn_scoped(scope, body);
        let thread = thread.map_err(|e| Failure::new(SOCKET, "start thread", e))?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn find(link: LinkRef<'_>) -> Result<LinkInfo> {
    let none = || generic::refused(object(link), "find", libc::ENODEV, "no such link".to_owned());
    Socket::open()?.link(link)?.ok_or_else(none)
}

/// From the kernel's list of receive queues.
fn threads_of(index: u32) -> Result<Vec<i32>> {
    let unsupported = |source| Error::unsupported("list of receive threads", &source, "Linux 6.8");
    let missing = || unsupported(std::io::Error::from_raw_os_error(libc::ENOENT));
    let mut family = Family::find("netdev")?.ok_or_else(missing)?;
    let mut question = generic::message(family.number, NAPI_GET, REQUEST | DUMP, |encoder| {
        encoder.u32(NAPI_INDEX, index);
    });
    let listed = family.socket.dump(&mut question, "receive queues", |m| read_queue(m, index));
    match listed {
        Ok(found) => Ok(found.into_iter().flatten().collect()),
        // The family existed before its queue lists.
        Err(Error::Refused(refusals)) if refusals[0].errno == libc::EOPNOTSUPP => {
            Err(unsupported(std::io::Error::from_raw_os_error(libc::EOPNOTSUPP)))
        }
        Err(error) => Err(error),
    }
}

/// A queue of this interface, and the thread that empties it, if any.
fn read_queue(message: &Message<'_>, index: u32) -> Option<Option<i32>> {
    let (mut of, mut id, mut pid) = (None, None, None);
    for (kind, value) in body(message) {
        match kind {
            NAPI_INDEX => of = u32_at(value, 0),
            NAPI_ID => id = u32_at(value, 0),
            NAPI_PID => pid = u32_at(value, 0).and_then(|pid| i32::try_from(pid).ok()),
            _ => {}
        }
    }
    id?;
    (of == Some(index)).then_some(pid)
}

/// Before Linux 6.8 threads are known only by name, which other namespaces' threads may share: the
/// interface's are those that were not there before.
fn appeared(before: &BTreeSet<i32>, name: &str) -> Result<Vec<i32>> {
    let new: Vec<i32> = named_threads(name).difference(before).copied().collect();
    if new.is_empty() {
        let missing = std::io::Error::from_raw_os_error(libc::ENOENT);
        let needs = "Linux 6.8 where they were made before";
        return Err(Error::unsupported("list of receive threads", &missing, needs));
    }
    Ok(new)
}

/// The kernel threads whose name matches an interface's; older kernels keep 15 bytes.
fn named_threads(name: &str) -> BTreeSet<i32> {
    let pids = population::pids().into_iter().flatten();
    let fits = |pid: &i32| {
        let comm = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        is_named(comm.trim_end(), name)
    };
    pids.filter(fits).collect()
}

fn is_named(comm: &str, name: &str) -> bool {
    let whole = format!("napi/{name}-");
    comm.starts_with(&whole) || (comm.len() == 15 && whole.starts_with(comm))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_of_threads_fit_their_interfaces_only() {
        assert!(is_named("napi/eth0-8193", "eth0"));
        assert!(is_named("napi/tenant-a-e", "tenant-a-eth0"));
        assert!(!is_named("napi/eth0-8193", "eth"));
        assert!(!is_named("napi/eth01-9", "eth0"));
        assert!(!is_named("napi", "eth0"));
    }

    #[test]
    fn names_that_are_paths_are_refused() {
        for name in ["..", "a/b", "../../x"] {
            assert!(set_threaded(name, true).is_err());
        }
    }

    proptest! {
        #[test]
        fn no_answer_panics(bytes: Vec<u8>) {
            let message = Message { kind: 20, flags: 0, sequence: 0, payload: &bytes };
            read_queue(&message, 1);
        }
    }
}
