//! Processes: fork into namespaces, wait, signal by descriptor.
//!
//! [`fork`] is `fork(2)` with namespaces and a version 2 cgroup: the child continues with a copy of
//! the caller's memory. The process must have only one thread, which the caller guarantees; so it
//! is `unsafe`. See clone(2), pidfd_open(2), pid_namespaces(7).

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal};

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
/// child calls [`show`] or executes another program.
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
    let flags = namespaces.0 | libc::CLONE_PARENT as u64;
    let args = CloneArgs { flags, ..CloneArgs::default() };
    // SAFETY: this is a process just forked, with one thread.
    if let Forked::Parent(_) = unsafe { clone(args, cgroup) }? {
        exit_now(0);
    }
    Ok(())
}

/// Forbids tracing this process and reading its root, directory and descriptors, except with
/// `CAP_SYS_PTRACE` over the user namespace in which its program was started.
///
/// # Errors
/// The kernel's error.
pub fn hide() -> Result<()> {
    let not = rustix::process::DumpableBehavior::NotDumpable;
    rustix::process::set_dumpable_behavior(not)
        .map_err(|e| Failure::new("process", "hide", e).into())
}

/// Reverts [`hide`]: processes of this user that may trace its other processes with these capabilities may
/// trace this one.
///
/// # Errors
/// The kernel's error.
pub fn show() -> Result<()> {
    let normal = rustix::process::DumpableBehavior::Dumpable;
    rustix::process::set_dumpable_behavior(normal)
        .map_err(|e| Failure::new("process", "show", e).into())
}

/// Waits for the child behind a pidfd to end and returns how it did.
///
/// # Errors
/// ECHILD if it is no child of this process.
pub fn collect(child: BorrowedFd<'_>) -> Result<Exit> {
    use rustix::process::{WaitId, WaitIdOptions, waitid};
    loop {
        match waitid(WaitId::PidFd(child), WaitIdOptions::EXITED) {
            Ok(Some(status)) => {
                let code = status.exit_status().map(Exit::Code);
                let signal = status.terminating_signal().map(Exit::Signal);
                return Ok(code.or(signal).unwrap_or(Exit::Code(1)));
            }
            Ok(None) | Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(Failure::new("child", "wait", e).into()),
        }
    }
}

/// The process of a pidfd, by its id in this process's PID namespace (proc(5), `fdinfo`).
///
/// # Errors
/// It has ended and is reaped, or /proc belongs to another PID namespace.
pub fn pid_of(pidfd: BorrowedFd<'_>) -> Result<Pid> {
    let path = format!("/proc/self/fdinfo/{}", pidfd.as_raw_fd());
    let text = std::fs::read_to_string(&path).map_err(|e| Failure::path(&path, "read", e))?;
    let number = text.lines().find_map(|l| l.strip_prefix("Pid:")?.trim().parse().ok());
    number.and_then(Pid::from_raw).ok_or(Error::Content { path: path.into(), found: text })
}

/// A descriptor for the process `pid`.
pub fn pidfd(pid: Pid) -> Result<OwnedFd> {
    rustix::process::pidfd_open(pid, PidfdFlags::empty()).map_err(|e| {
        Failure::new(format!("process {}", pid.as_raw_nonzero()), "open a pidfd", e).into()
    })
}

/// Sends a signal to the process behind a pidfd; succeeds if it has ended.
pub fn signal(pidfd: impl AsFd, signal: Signal) -> Result<()> {
    match rustix::process::pidfd_send_signal(pidfd, signal) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(e) => Err(Failure::new("process", "send a signal", e).into()),
    }
}

/// How a child ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// By exit, with this status.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

impl Exit {
    /// As shown by a shell: the status, or 128 + the signal.
    pub fn shell_code(self) -> i32 {
        match self {
            Exit::Code(c) => c,
            Exit::Signal(s) => 128 + s,
        }
    }
}

/// Reaps one ended child of this process; `Ok(None)` if all still run or there are none.
///
/// # Errors
/// The kernel's error; ECHILD (no children) is `Ok(None)` instead.
pub fn reap() -> Result<Option<(Pid, Exit)>> {
    loop {
        match rustix::process::wait(rustix::process::WaitOptions::NOHANG) {
            Ok(Some((pid, status))) => {
                if let Some(exit) = exit_of(status) {
                    return Ok(Some((pid, exit)));
                }
            }
            Ok(None) | Err(rustix::io::Errno::CHILD) => return Ok(None),
            Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(Failure::new("children", "wait", e).into()),
        }
    }
}

fn exit_of(status: rustix::process::WaitStatus) -> Option<Exit> {
    status.exit_status().map(Exit::Code).or_else(|| status.terminating_signal().map(Exit::Signal))
}

/// Waits until the child `pid` ends or stops. `None` means that it stopped.
pub fn wait_or_stop(pid: Pid) -> Result<Option<Exit>> {
    loop {
        match rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::UNTRACED) {
            Ok(Some((_, status))) if status.stopped() => return Ok(None),
            Ok(Some((_, status))) => {
                if let Some(exit) = exit_of(status) {
                    return Ok(Some(exit));
                }
            }
            Ok(None) | Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(Failure::new("child", "wait", e).into()),
        }
    }
}

/// Waits up to `timeout` until data can be read or the peer has closed; returns whether either holds.
pub fn wait_readable(fd: impl AsFd, timeout: Duration) -> bool {
    let until = Instant::now() + timeout;
    loop {
        let left = timespec(until.saturating_duration_since(Instant::now()));
        let mut fds = [rustix::event::PollFd::new(&fd, rustix::event::PollFlags::IN)];
        match rustix::event::poll(&mut fds, Some(&left)) {
            Err(rustix::io::Errno::INTR) => {}
            polled => return polled.is_ok_and(|n| n > 0),
        }
    }
}

/// A duration as poll(2) takes it.
pub fn timespec(span: Duration) -> rustix::event::Timespec {
    rustix::event::Timespec {
        tv_sec: i64::try_from(span.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(span.subsec_nanos()),
    }
}

/// Whether the process behind a pidfd has ended (a zombie has).
pub fn has_ended(pidfd: BorrowedFd<'_>) -> bool {
    wait_readable(pidfd, Duration::ZERO)
}

/// Waits up to `timeout` for the process behind a pidfd to end; returns whether it has.
pub fn wait_end(pidfd: impl AsFd, timeout: Duration) -> bool {
    wait_readable(pidfd, timeout)
}

/// Sets this process's short name in the process list (15 bytes are kept).
pub fn set_name(name: &str) {
    if let Ok(name) = std::ffi::CString::new(name) {
        // Only cosmetic: a refusal changes nothing else.
        let _ = rustix::thread::set_name(&name);
    }
}

/// `struct sched_attr` of sched_setattr(2), first published size (48 bytes).
#[repr(C)]
#[derive(Default)]
struct SchedulingAttributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

/// The shortest slice of the fair scheduler, in ns.
const SHORT_SLICE: u64 = 100_000;

/// Asks the fair scheduler to run the calling thread in short slices: it gets no more time, but
/// runs sooner after a wake-up (since Linux 6.12; no effect before). For threads that must be on
/// time. Another scheduling policy is left unchanged.
pub fn prefer_short_slices() -> Result<()> {
    let fail = |operation| {
        move || Error::from(Failure::new("thread", operation, io::Error::last_os_error()))
    };
    #[allow(clippy::cast_possible_truncation, reason = "48 bytes")]
    let size = std::mem::size_of::<SchedulingAttributes>() as u32;
    let mut attributes = SchedulingAttributes { size, ..SchedulingAttributes::default() };
    let at = &raw mut attributes;
    // SAFETY: the kernel writes at most `size` bytes to the structure, which outlives the call.
    let got = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, at, size, 0) };
    if got != 0 {
        return Err(fail("read its scheduling")());
    }
    if attributes.policy != libc::SCHED_OTHER.unsigned_abs() {
        return Ok(());
    }
    attributes.size = size;
    attributes.runtime = SHORT_SLICE;
    let at = &raw mut attributes;
    // SAFETY: the kernel reads `size` bytes of the structure; on refusal it writes to its size field.
    let set = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, at, 0) };
    if set == 0 { Ok(()) } else { Err(fail("set its slice")()) }
}

/// Requests SIGKILL when the parent ends; `false` withdraws the request.
pub fn die_with_parent(on: bool) -> Result<()> {
    rustix::process::set_parent_process_death_signal(on.then_some(Signal::KILL))
        .map_err(|e| Failure::new("parent-death signal", "set", e).into())
}

/// Closes every descriptor above the standard three except `keep`.
pub fn close_all_but(keep: &[BorrowedFd<'_>]) {
    let mut kept: Vec<u32> =
        keep.iter().filter_map(|fd| u32::try_from(fd.as_raw_fd()).ok()).collect();
    kept.sort_unstable();
    let mut first = 3;
    for fd in kept {
        if fd >= first {
            if fd > first {
                close_range(first, fd - 1);
            }
            first = fd + 1;
        }
    }
    close_range(first, u32::MAX);
}

fn close_range(first: u32, last: u32) {
    // SAFETY: the callers are freshly forked processes that no longer use the descriptors in the
    // range: every owner of one has been forgotten or is never dropped.
    unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
}

/// Blocks every signal for this thread; programs started later must unblock them.
pub fn block_signals() {
    set_mask(libc::SIG_BLOCK);
}

/// Unblocks every signal for this thread.
pub fn unblock_signals() {
    set_mask(libc::SIG_UNBLOCK);
}

/// Runs `f` with no signal blocked, for starting a program: it inherits the mask.
pub fn with_open_mask<T>(f: impl FnOnce() -> T) -> T {
    let mut old = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    let mut none = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigemptyset initialises the set it is given.
    unsafe { libc::sigemptyset(none.as_mut_ptr()) };
    // SAFETY: none was initialised above; old is written by the kernel.
    unsafe { libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), old.as_mut_ptr()) };
    let result = f();
    // SAFETY: old was written by the call above, which cannot fail with these arguments.
    unsafe { libc::sigprocmask(libc::SIG_SETMASK, old.as_ptr(), std::ptr::null_mut()) };
    result
}

fn set_mask(how: i32) {
    let mut set = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigfillset initialises the set it is given.
    unsafe { libc::sigfillset(set.as_mut_ptr()) };
    // SAFETY: the set was initialised above; no old mask is asked for.
    unsafe { libc::sigprocmask(how, set.as_ptr(), std::ptr::null_mut()) };
}

/// A descriptor that becomes readable when one of `signals` is pending. They must be blocked.
pub fn signalfd(signals: &[i32]) -> Result<OwnedFd> {
    use std::os::fd::FromRawFd;
    let set = signal_set(signals);
    // SAFETY: the set is initialised and only read.
    let fd = unsafe { libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
    if fd < 0 {
        return Err(Failure::new("signalfd", "create", io::Error::last_os_error()).into());
    }
    // SAFETY: the kernel has just given us this descriptor and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn signal_set(signals: &[i32]) -> libc::sigset_t {
    let mut set = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigemptyset initialises the set it is given.
    unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    for signal in signals {
        // SAFETY: the set was initialised above; a wrong number is refused with EINVAL.
        unsafe { libc::sigaddset(set.as_mut_ptr(), *signal) };
    }
    // SAFETY: the set was initialised above.
    unsafe { set.assume_init() }
}

/// Sets this process's disposition of a signal: ignored, or the default.
pub fn set_ignored(signal: i32, ignore: bool) {
    // SAFETY: SIG_IGN and SIG_DFL install no code of ours.
    unsafe { libc::signal(signal, if ignore { libc::SIG_IGN } else { libc::SIG_DFL }) };
}

/// The number of the next pending signal of a [`signalfd`], without waiting.
pub fn next_signal(fd: impl AsFd) -> Option<i32> {
    let mut info = [0u8; 128];
    match rustix::io::read(fd, &mut info) {
        Ok(n) if n == info.len() => {
            let number = u32::from_ne_bytes([info[0], info[1], info[2], info[3]]);
            i32::try_from(number).ok()
        }
        _ => None,
    }
}

/// Blocks `signals`, so that they no longer act, and returns a [`signalfd`] that reports them.
pub fn catch(signals: &[i32]) -> Result<OwnedFd> {
    let set = signal_set(signals);
    // SAFETY: the set is initialised and only read; no old mask is asked for.
    unsafe { libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) };
    signalfd(signals)
}

/// CPU time of a task in nanoseconds, by its id in this PID namespace: the first field of its
/// `schedstat` (sched-stats.rst). `None` if it has ended or the kernel does not count.
pub fn cpu_time(tid: i32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{tid}/schedstat")).ok()?;
    text.split_ascii_whitespace().next()?.parse().ok()
}

/// Whether a process is stopped, by a signal or a tracer. An invisible one is not.
pub fn is_stopped(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name is in parentheses, and may contain any character.
    let state = stat.rsplit_once(')').map(|(_, rest)| rest.trim_start());
    state.is_some_and(|state| state.starts_with(['T', 't']))
}

/// Whether an id in this PID namespace is a kernel thread's: by `PF_KTHREAD` among the flags in
/// proc_pid_stat(5), the seventh field after the name. Always false inside a PID namespace, which shows none.
pub fn is_kernel_thread(tid: i32) -> bool {
    const PF_KTHREAD: u32 = 0x0020_0000;
    let stat = std::fs::read_to_string(format!("/proc/{tid}/stat")).unwrap_or_default();
    let flags = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(6));
    flags.and_then(|flags| flags.parse::<u32>().ok()).is_some_and(|f| f & PF_KTHREAD != 0)
}

/// Ends this process at once, without exit handlers: for forked children, which must not run their
/// parent's handlers or flush its buffers.
pub fn exit_now(code: i32) -> ! {
    // SAFETY: _exit only ends the process.
    unsafe { libc::_exit(code) }
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

/// Checks with the kernel that this process has only one thread.
///
/// # Errors
/// EINVAL if there are more.
pub(crate) fn has_one_thread() -> io::Result<()> {
    // SAFETY: with CLONE_THREAD alone unshare(2) changes nothing; it fails with EINVAL if the
    // process has several threads.
    if unsafe { libc::unshare(libc::CLONE_THREAD) } == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
