//! Forks into namespaces, and by go-betweens into a PID namespace that must not reach the caller.
//!
//! [`fork`] is `fork(2)` with namespaces and a version 2 cgroup: the child continues with a copy of
//! the caller's memory. The process must have only one thread, which the caller guarantees; so it
//! is `unsafe`. See clone(2), pid_namespaces(7).

use std::convert::Infallible;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::process::Pid;

use super::{die_with_parent, exit_now, has_flag, hide, pidfd, wait_readable};
use crate::{Error, Failure, Result};

/// The new namespaces of a forked child.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Namespaces(u64);

impl Namespaces {
    /// A node's: network, mount, PID, UTS and IPC.
    pub const NODE: Namespaces = Namespaces(
        (libc::CLONE_NEWNET
            | libc::CLONE_NEWNS
            | libc::CLONE_NEWPID
            | libc::CLONE_NEWUTS
            | libc::CLONE_NEWIPC) as u64,
    );
    /// A node's without its network, which it gets otherwise.
    pub const NODE_BUT_NETWORK: Namespaces =
        Namespaces(Namespaces::NODE.0 & !(libc::CLONE_NEWNET as u64));
    /// None: a plain fork.
    pub const NONE: Namespaces = Namespaces(0);
}

/// The process in which a fork returned.
#[derive(Debug)]
pub enum Forked {
    /// The parent, with the child's id in the parent's PID namespace.
    Parent(Pid),
    /// The child.
    Child,
}

/// `struct clone_args` of clone3(2), first published size with `cgroup` (88 bytes).
#[repr(C)]
#[derive(Default)]
struct CloneArgs {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
    set_tid: u64,
    set_tid_size: u64,
    cgroup: u64,
}

/// `CLONE_INTO_CGROUP` of linux/sched.h.
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// Forks into new `namespaces` and, if given, into the v2 cgroup whose directory is `cgroup`.
///
/// # Safety
/// The calling process must have exactly one thread: locks held by other threads would stay locked
/// in the child for ever.
///
/// # Errors
/// The kernel's error, e.g. EPERM without privilege or ENOSPC at a limit on namespaces.
pub unsafe fn fork(namespaces: Namespaces, cgroup: Option<BorrowedFd<'_>>) -> Result<Forked> {
    #[allow(clippy::cast_sign_loss, reason = "SIGCHLD is a small positive constant")]
    let exit_signal = libc::SIGCHLD as u64;
    let args = CloneArgs { flags: namespaces.0, exit_signal, ..CloneArgs::default() };
    // SAFETY: the conditions of this function.
    unsafe { clone(args, cgroup) }
}

/// clone3(2) without a separate stack.
///
/// # Safety
/// As [`fork`]; a descriptor that `args.pidfd` points to must live until this returns.
unsafe fn clone(mut args: CloneArgs, cgroup: Option<BorrowedFd<'_>>) -> Result<Forked> {
    if let Some(dir) = cgroup {
        args.flags |= CLONE_INTO_CGROUP;
        #[allow(clippy::cast_sign_loss, reason = "an open descriptor is never negative")]
        let fd = dir.as_raw_fd() as u64;
        args.cgroup = fd;
    }
    // SAFETY: args is a valid clone_args of the given size and outlives the call; no stack is given
    // and CLONE_VM is not set, so the child runs on its own copy of this stack, as after fork(2).
    // The caller guarantees a single thread.
    let ret =
        unsafe { libc::syscall(libc::SYS_clone3, &raw mut args, std::mem::size_of::<CloneArgs>()) };
    match ret {
        0 => Ok(Forked::Child),
        pid if pid > 0 => {
            #[allow(clippy::cast_possible_truncation, reason = "a pid fits in i32")]
            let pid = Pid::from_raw(pid as i32);
            Ok(pid.map_or(Forked::Child, Forked::Parent))
        }
        _ => Err(Failure::new("child process", "clone", io::Error::last_os_error()).into()),
    }
}

/// What `prepare` hands to the child of [`fork_prepared`].
pub struct Ready<T> {
    /// The child's value.
    pub value: T,
    /// The PID namespace that contains the child's new one; `None`: the child is in that of this process's
    /// children.
    pub inside: Option<OwnedFd>,
    /// The v2 cgroup in which the child starts.
    pub group: Option<OwnedFd>,
    /// Whether the child ends with the caller, as by [`die_with_parent`].
    pub mortal: bool,
}

/// The process in which [`fork_prepared`] returned.
pub enum Prepared<T> {
    /// The caller.
    Parent(Birth),
    /// The child.
    Child(T),
}

/// A child being created.
pub struct Birth {
    maker: OwnedFd,
    /// The first go-between, a child of the caller that ends at once.
    pub stage: Pid,
}

impl Birth {
    /// Waits until the child exists; returns its pidfd.
    ///
    /// # Errors
    /// The error that a go-between met.
    pub fn finish(self) -> Result<OwnedFd> {
        let mut text = [0; 4096];
        let (n, mut fds) = crate::scm::receive(&self.maker, &mut text)?;
        if let Some(child) = fds.pop() {
            return Ok(child);
        }
        let words = String::from_utf8_lossy(&text[..n]).into_owned();
        Err(Failure::new("new process", "make ready", io::Error::other(words)).into())
    }
}

/// Forks a child into a PID namespace whose processes can see it but must not reach the caller's
/// resources. The caller is its parent, from its own PID namespace.
///
/// Such processes see the child's root, directory and descriptors in `/proc` from its first moment.
/// So a go-between, invisible to them, does everything that needs the caller's view in `prepare`:
/// it enters namespaces, changes its root, gives up capabilities, and closes descriptors except the
/// child's and the socket it is given. The child is its sibling (clone(2), `CLONE_PARENT`) and
/// inherits all of this. Tracing or inspecting any of them takes `CAP_SYS_PTRACE` over the user
/// namespace in which the caller's program was started (prctl(2), `PR_SET_DUMPABLE`), until the
/// child calls [`show`](super::show) or executes another program.
///
/// A process can create a PID namespace only inside its own, and one that has entered another for its
/// children may not be allowed back. So [`Ready::inside`] needs one more go-between: it starts in that
/// namespace and creates the child. A caller whose children the kernel reaps need not wait for go-betweens.
///
/// # Errors
/// The first go-between cannot be forked.
pub fn fork_prepared<T>(prepare: impl FnOnce(&OwnedFd) -> Result<Ready<T>>) -> Result<Prepared<T>> {
    let (ours, theirs) = rustix::net::socketpair(
        rustix::net::AddressFamily::UNIX,
        rustix::net::SocketType::SEQPACKET,
        rustix::net::SocketFlags::CLOEXEC,
        None,
    )
    .map_err(|e| Failure::new("new process", "make a socket for", e))?;
    match fork_alone(Namespaces::NONE, None)? {
        Forked::Parent(stage) => Ok(Prepared::Parent(Birth { maker: ours, stage })),
        Forked::Child => {
            drop(ours);
            match go_between(&theirs, prepare) {
                Ok(value) => Ok(Prepared::Child(value)),
                Err(e) => {
                    let words = crate::describe(&e);
                    let cut = &words.as_bytes()[..words.len().min(4000)];
                    // A caller that is gone needs no answer.
                    let _ = crate::scm::send(&theirs, cut, &[]);
                    exit_now(1)
                }
            }
        }
    }
}

/// The work of the go-betweens; returns only in the child.
fn go_between<T>(maker: &OwnedFd, prepare: impl FnOnce(&OwnedFd) -> Result<Ready<T>>) -> Result<T> {
    use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
    hide()?;
    let Ready { value, inside, group, mortal } = prepare(maker)?;
    let mut namespaces = Namespaces::NONE;
    if let Some(outer) = inside {
        move_into_link_name_space(outer.as_fd(), Some(LinkNameSpaceType::ProcessID))
            .map_err(|e| Failure::new("PID namespace", "enter", e))?;
        // The next process would inherit it.
        drop(outer);
        become_sibling(Namespaces::NONE, None)?;
        namespaces = Namespaces(libc::CLONE_NEWPID as u64);
    }
    become_sibling(namespaces, group.as_ref().map(AsFd::as_fd))?;
    drop(group);
    die_with_parent(mortal)?;
    // Only the caller has the other end, and keeps it until it has the answer; readable now means that it is
    // gone.
    if wait_readable(maker, Duration::ZERO) {
        exit_now(1);
    }
    let own = pidfd(rustix::process::getpid())?;
    // If the caller has just ended, this process ends with it.
    let _ = crate::scm::send(maker, b"ok", &[own.as_fd()]);
    Ok(value)
}

/// Continues in a new child of this process's parent; the process itself ends.
fn become_sibling(namespaces: Namespaces, cgroup: Option<BorrowedFd<'_>>) -> Result<()> {
    #[allow(clippy::cast_sign_loss, reason = "flags are bits")]
    // Without an exit signal: with CLONE_PARENT the kernel takes this process's, and refuses
    // another.
    let flags = namespaces.0 | libc::CLONE_PARENT as u64;
    let args = CloneArgs { flags, ..CloneArgs::default() };
    // SAFETY: this is a process just forked, with one thread.
    if let Forked::Parent(_) = unsafe { clone(args, cgroup) }? {
        exit_now(0);
    }
    Ok(())
}

/// [`fork`] for callers without `unsafe`: asks the kernel whether the process has one thread.
///
/// # Errors
/// EINVAL if there is more than one thread; else as [`fork`].
pub fn fork_alone(namespaces: Namespaces, cgroup: Option<BorrowedFd<'_>>) -> Result<Forked> {
    if let Err(source) = has_one_thread() {
        return Err(Failure::new("process with several threads", "fork", source).into());
    }
    // SAFETY: the kernel has just confirmed a single thread, and only it could start another.
    unsafe { fork(namespaces, cgroup) }
}

/// The stack of a child of [`fork_to_execute`].
const STACK: usize = 256 << 10;

/// Forks a child that executes a program, without a copy of this process's memory: the child shares it, and this
/// process stands still until the child has executed or ended (clone(2), `CLONE_VM` and `CLONE_VFORK`). Working
/// directory, descriptors, signal dispositions and masks are the child's own. What `run` changes in memory stays
/// changed for this process, environment variables too.
///
/// # Errors
/// EINVAL if the process has more than one thread; else the kernel's error.
pub fn fork_to_execute<F: FnOnce() -> Infallible>(run: F) -> Result<Pid> {
    let fail = |e| Error::from(Failure::new("child process", "clone", e));
    has_one_thread().map_err(fail)?;
    // Not initialised, so untouched pages are never made; words of 16 bytes, as stacks are aligned.
    let mut stack: Vec<u128> = Vec::with_capacity(STACK / size_of::<u128>());
    let top = stack.spare_capacity_mut().as_mut_ptr_range().end;
    let mut run = Some(run);
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    // SAFETY: `enter` gets a valid `Option<F>`, and the child has a stack of its own; both outlive the child's use of
    // this memory, because the kernel suspends this process, which has no other thread, until the child has
    // executed or ended. The child never returns to code of this process.
    let pid = unsafe { libc::clone(enter::<F>, top.cast(), flags, (&raw mut run).cast()) };
    match Pid::from_raw(pid) {
        Some(pid) if pid.as_raw_nonzero().get() > 0 => Ok(pid),
        _ => Err(fail(io::Error::last_os_error())),
    }
}

/// The start of such a child.
extern "C" fn enter<F: FnOnce() -> Infallible>(run: *mut libc::c_void) -> libc::c_int {
    // SAFETY: it is the pointer that `fork_to_execute` passes on, whose frame lives.
    let run = unsafe { &mut *run.cast::<Option<F>>() };
    match run.take().map(|run| run()) {
        Some(never) => match never {},
        None => 1,
    }
}

/// How long a thread that is on its way out is waited for. The kernel takes microseconds; a debugger may hold it.
const LEAVING: Duration = Duration::from_secs(2);

/// Checks with the kernel that this process has only one thread. One that has been joined may still be in the
/// kernel's list, because joining waits for its memory to be let go (`CLONE_CHILD_CLEARTID`) and not for its end;
/// such a thread runs no code of this process any more, and is waited for.
///
/// # Errors
/// EINVAL if there are more.
pub(crate) fn has_one_thread() -> io::Result<()> {
    let begin = Instant::now();
    loop {
        // SAFETY: with CLONE_THREAD alone unshare(2) changes nothing; it fails with EINVAL if the
        // process has several threads.
        if unsafe { libc::unshare(libc::CLONE_THREAD) } == 0 {
            return Ok(());
        }
        let refused = io::Error::last_os_error();
        if begin.elapsed() > LEAVING || !others_are_leaving() {
            return Err(refused);
        }
        std::thread::yield_now();
    }
}

/// Whether all threads but the calling one are ending in the kernel, or have ended.
fn others_are_leaving() -> bool {
    let own = rustix::thread::gettid().to_string();
    let Ok(threads) = std::fs::read_dir("/proc/self/task") else { return false };
    threads.flatten().filter(|thread| thread.file_name() != *own).all(|thread| {
        // One that has ended since has no such file.
        std::fs::read_to_string(thread.path().join("stat")).map_or(true, |stat| is_leaving(&stat))
    })
}

/// Whether a thread with this line of proc_pid_stat(5) is ending.
fn is_leaving(stat: &str) -> bool {
    const PF_EXITING: u32 = 0x4;
    has_flag(stat, PF_EXITING)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_leaving_by_its_flags_alone() {
        assert!(is_leaving("7 (a) 4) R 1 7 7 0 -1 4194628 1 0"));
        assert!(!is_leaving("7 (a) 4) R 1 7 7 0 -1 4194368 1 0"));
        assert!(!is_leaving("7"));
    }

    #[test]
    fn a_thread_just_joined_does_not_count() {
        // SAFETY: fork(2) of the C library leaves its memory and its locks usable in the child, which uses no
        // others and never returns.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let joined = || std::thread::scope(|scope| scope.spawn(|| ()).join()).is_ok();
            let all = (0..500).all(|_| joined() && has_one_thread().is_ok());
            exit_now(i32::from(!all));
        }
        let mut status = 0;
        // SAFETY: the pointer is to a local number.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0);
    }

    #[test]
    fn memory_is_shared_with_no_child_while_other_threads_use_it() {
        let (hold, held) = std::sync::mpsc::channel::<()>();
        let other = std::thread::spawn(move || held.recv());
        assert!(fork_to_execute(|| exit_now(1)).is_err());
        drop(hold);
        assert!(other.join().expect("no panic").is_err());
    }
}
