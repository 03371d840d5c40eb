//! Namespaces: open a process's, enter them, run a function in one.
//!
//! A thread that entered another network namespace is never reused: [`run_in`] creates a thread
//! that enters, runs the function and ends. See namespaces(7), setns(2).

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::process::Pid;
use rustix::thread::{LinkNameSpaceType, ThreadNameSpaceType, UnshareFlags};

use crate::{Error, Failure, Result, clock, process};

/// Offsets of the clocks of the time namespace of the caller's next children.
const TIME_OFFSETS: &str = "/proc/self/timens_offsets";

/// Opens the network namespace of a process.
pub fn network_of(pid: Pid) -> Result<OwnedFd> {
    open(&format!("/proc/{}/ns/net", pid.as_raw_nonzero()))
}

/// Opens the network namespace of the calling thread.
pub fn current_network() -> Result<OwnedFd> {
    // `self` would be the first thread's.
    open("/proc/thread-self/ns/net")
}

/// Opens the user namespace of a process.
pub fn user_of(pid: Pid) -> Result<OwnedFd> {
    open(&format!("/proc/{}/ns/user", pid.as_raw_nonzero()))
}

/// Whether a process is in another user namespace than the caller. One that cannot be looked at is not.
pub fn has_other_user(pid: Pid) -> bool {
    is_elsewhere(pid, "user")
}

/// Whether a process is in another network namespace than the caller's first thread. One that cannot be looked at is not.
pub fn has_other_network(pid: Pid) -> bool {
    is_elsewhere(pid, "net")
}

fn is_elsewhere(pid: Pid, kind: &str) -> bool {
    let number = |process: &str| rustix::fs::stat(format!("/proc/{process}/ns/{kind}")).ok();
    let (own, its) = (number("self"), number(&pid.as_raw_nonzero().to_string()));
    own.zip(its).is_some_and(|(own, its)| own.st_ino != its.st_ino)
}

fn open(path: &str) -> Result<OwnedFd> {
    rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
        .map_err(|e| Failure::path(path, "open namespace", e).into())
}

/// Moves the calling thread into a network namespace. Only for threads that end soon after.
pub fn enter_network(ns: impl AsFd) -> Result<()> {
    rustix::thread::move_into_link_name_space(ns.as_fd(), Some(LinkNameSpaceType::Network))
        .map_err(|e| Failure::new("network namespace", "enter", e).into())
}

/// Moves the calling, single-threaded process into a user namespace.
pub fn enter_user(ns: impl AsFd) -> Result<()> {
    rustix::thread::move_into_link_name_space(ns.as_fd(), Some(LinkNameSpaceType::User))
        .map_err(|e| Failure::new("user namespace", "enter", e).into())
}

/// The PID namespace that `pid` is the init of.
pub fn processes_of(pid: Pid) -> Result<OwnedFd> {
    open(&format!("/proc/{}/ns/pid", pid.as_raw_nonzero()))
}

/// Moves the calling, single-threaded process into all namespaces of a node's init: those of
/// [`Namespaces::NODE`](crate::process::Namespaces::NODE), its time namespace if it has one and, if `user`, the user
/// namespace first.
/// Its later children are in the init's PID namespace; the process itself is not. Unless `root`, it
/// keeps its own mount namespace, and so its own root.
pub fn enter_node(pidfd: BorrowedFd<'_>, user: bool, root: bool) -> Result<()> {
    let mut kinds = ThreadNameSpaceType::NETWORK
        | ThreadNameSpaceType::PROCESS_ID
        | ThreadNameSpaceType::HOST_NAME_AND_NIS_DOMAIN_NAME
        | ThreadNameSpaceType::INTER_PROCESS_COMMUNICATION;
    if root {
        kinds |= ThreadNameSpaceType::MOUNT;
    }
    if user {
        kinds |= ThreadNameSpaceType::USER;
    }
    // Into one's own nobody may move who was not its maker.
    if process::pid_of(pidfd).is_ok_and(|init| is_elsewhere(init, "time")) {
        kinds |= ThreadNameSpaceType::TIME;
    }
    rustix::thread::move_into_thread_name_spaces(pidfd, kinds)
        .map_err(|e| Failure::new("namespaces of the node", "enter", e).into())
}

/// Gives the node of this init another host name.
///
/// # Errors
/// The init has ended, or is another user's; or the kernel refuses the name.
pub fn set_host_name(init: BorrowedFd<'_>, name: &str) -> Result<()> {
    apart("host name", || {
        rustix::thread::move_into_thread_name_spaces(
            init,
            ThreadNameSpaceType::HOST_NAME_AND_NIS_DOMAIN_NAME,
        )
        .map_err(|e| Failure::new("host name", "enter its namespace", e))?;
        rustix::system::sethostname(name.as_bytes())
            .map_err(|e| Failure::new(format!("host name {name:?}"), "set", e).into())
    })
}

/// Moves the calling thread, which is to end soon, into the mounts of a node's init, with `root` as its root.
pub(crate) fn enter_mounts(init: BorrowedFd<'_>, root: BorrowedFd<'_>) -> Result<()> {
    let fail = |operation| move |e| Failure::new("mounts of the node", operation, e);
    // A thread that shares its directories may not enter mounts (setns(2)).
    // SAFETY: a directory of its own shares no descriptor table; no other thread relies on this one's.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::FS) }.map_err(fail("prepare for"))?;
    rustix::thread::move_into_thread_name_spaces(init, ThreadNameSpaceType::MOUNT)
        .map_err(fail("enter"))?;
    rustix::process::fchdir(root).map_err(fail("go to the root of"))?;
    rustix::process::chroot(".").map_err(fail("take the root of"))?;
    Ok(())
}

/// Runs `f` on a fresh thread, and ends the thread.
pub(crate) fn apart<T: Send>(name: &str, f: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn_scoped(scope, f);
        let thread = thread.map_err(|e| Failure::new(format!("thread {name:?}"), "start", e))?;
        match thread.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// Gives the calling process its own mount namespace, with private mounts.
pub fn private_mounts() -> Result<()> {
    // SAFETY: a new mount namespace shares no descriptor table; no other thread relies on the old one.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS) }
        .map_err(|e| Failure::new("mount namespace", "unshare", e))?;
    // A copied namespace still shares mounts with the one that it was copied from.
    rustix::mount::mount_change(
        "/",
        rustix::mount::MountPropagationFlags::PRIVATE | rustix::mount::MountPropagationFlags::REC,
    )
    .map_err(|e| Failure::path("/", "make mounts private", e).into())
}

/// Gives the calling process a node's namespaces except PID: mount, UTS, IPC and, if `network`, network.
pub fn new_but_processes(network: bool) -> Result<()> {
    let mut kinds = UnshareFlags::NEWNS | UnshareFlags::NEWUTS | UnshareFlags::NEWIPC;
    if network {
        kinds |= UnshareFlags::NEWNET;
    }
    // SAFETY: new namespaces share no descriptor table; the callers are single-threaded processes.
    unsafe { rustix::thread::unshare_unsafe(kinds) }
        .map_err(|e| Failure::new("namespaces of a node", "unshare", e).into())
}

/// A substitute for the directory `dir` from which no path leads up: the root of a detached mount
/// (open_tree(2)).
///
/// # Errors
/// The caller may not mount in this mount namespace.
pub fn without_parents(dir: BorrowedFd<'_>) -> Result<OwnedFd> {
    use rustix::mount::{OpenTreeFlags, open_tree};
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH;
    open_tree(dir, "", flags).map_err(|e| Failure::new("directory", "detach", e).into())
}

/// How far the boot time of the caller's time namespace is ahead of the machine's, in nanoseconds. To be asked before
/// [`new_boot_time`]: later the kernel tells that of the next children.
pub fn boot_offset() -> i64 {
    // Without the file the kernel has no time namespaces.
    let offsets = std::fs::read_to_string(TIME_OFFSETS).unwrap_or_default();
    clock::offset_in(&offsets, "boottime").unwrap_or(0)
}

/// Gives the later children of the calling process, whose own [`boot_offset`] is this, a time namespace in which the
/// machine starts now: `/proc/uptime`, sysinfo(2), `btime` of `/proc/stat` and the start times of processes are by that. The
/// monotonic clock stays as it is.
///
/// # Errors
/// The kernel's refusal: EINVAL where it has none, EPERM, ENOSPC at `user.max_time_namespaces`.
pub fn new_boot_time(own: i64) -> Result<()> {
    // SAFETY: a new time namespace shares no descriptor table, and only children are in it.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWTIME) }
        .map_err(|e| Failure::new("time namespace", "unshare", e))?;
    // Offsets are from the machine's time, whatever namespace this one was made in.
    let offset = own.wrapping_sub_unsigned(clock::boot_time());
    // The kernel takes negative seconds, but no negative nanoseconds.
    let (seconds, rest) = (offset.div_euclid(1_000_000_000), offset.rem_euclid(1_000_000_000));
    std::fs::write(TIME_OFFSETS, format!("boottime {seconds} {rest}"))
        .map_err(|e| Failure::path(TIME_OFFSETS, "write", e).into())
}

/// Gives the calling thread its own network namespace.
pub fn new_network() -> Result<()> {
    // SAFETY: a new network namespace shares no descriptor table.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) }
        .map_err(|e| Failure::new("network namespace", "unshare", e).into())
}

/// Gives the calling, single-threaded process its own user namespace, without maps yet.
pub fn new_user() -> Result<()> {
    // SAFETY: a new user namespace shares no descriptor table.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWUSER) }
        .map_err(|e| Failure::new("user namespace", "unshare", e).into())
}

/// Maps user `uid` and group `gid` of the outer namespace to root in this process's.
pub fn map_self_to_root(uid: u32, gid: u32) -> Result<()> {
    let write = |path: &str, text: &str| {
        std::fs::write(path, text).map_err(|e| Failure::path(path, "write", e).into())
    };
    // Without this only a privileged process may write gid_map (user_namespaces(7)).
    write("/proc/self/setgroups", "deny")?;
    write("/proc/self/uid_map", &format!("0 {uid} 1"))?;
    write("/proc/self/gid_map", &format!("0 {gid} 1"))
}

/// [`map_self_to_root`] after a map was written only in part: an id that is mapped already stays.
pub fn map_what_is_left_to_root(uid: u32, gid: u32) -> Result<()> {
    let is_left = |path: &str| std::fs::read_to_string(path).is_ok_and(|map| map.trim().is_empty());
    let write = |path: &str, text: &str| {
        std::fs::write(path, text).map_err(|e| Error::from(Failure::path(path, "write", e)))
    };
    if is_left("/proc/self/gid_map") {
        write("/proc/self/setgroups", "deny")?;
        write("/proc/self/gid_map", &format!("0 {gid} 1"))?;
    }
    if is_left("/proc/self/uid_map") {
        write("/proc/self/uid_map", &format!("0 {uid} 1"))?;
    }
    Ok(())
}

/// The id of all users that are not in this process's user namespace (`/proc/sys/kernel/overflowuid`), which may be
/// one of its own users, too.
const OUTSIDE: u32 = 65_534;

/// Whether a user, as the kernel names it to this process, may be somebody outside of its user namespace.
pub fn may_be_outside(uid: u32) -> bool {
    const ALL: &str = "4294967295";
    let whole = |map: String| map.split_whitespace().eq(["0", "0", ALL]);
    uid == OUTSIDE && !std::fs::read_to_string("/proc/self/uid_map").is_ok_and(whole)
}

/// Runs `f` on a fresh thread inside the network namespace `ns`, and ends the thread.
///
/// # Errors
/// The namespace cannot be entered; otherwise the error of `f`.
pub fn run_in<T, E, F>(ns: BorrowedFd<'_>, name: &str, f: F) -> std::result::Result<T, E>
where
    T: Send,
    E: Send + From<Error>,
    F: FnOnce() -> std::result::Result<T, E> + Send,
{
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn_scoped(scope, move || {
                enter_network(ns).map_err(E::from)?;
                f()
            })
            .map_err(|e| E::from(Failure::new(format!("thread {name:?}"), "start", e).into()))?;
        match thread.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}
