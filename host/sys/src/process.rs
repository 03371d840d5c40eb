//! Processes: fork into namespaces, wait, signal by descriptor.
//!
//! [`fork`] is `fork(2)` with namespaces and a cgroup of the v2 hierarchy: the child goes on with a
//! copy of the caller's memory. It must only be called while the process has one thread, which is
//! the caller's duty and why it is `unsafe`. See clone(2), pidfd_open(2), pid_namespaces(7).

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal};

use crate::{Error, Result};

/// Which namespaces a forked child gets of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Namespaces(u64);

impl Namespaces {
    /// Those of a node: network, mount, PID, UTS and IPC.
    pub const NODE: Namespaces = Namespaces(
        (libc::CLONE_NEWNET
            | libc::CLONE_NEWNS
            | libc::CLONE_NEWPID
            | libc::CLONE_NEWUTS
            | libc::CLONE_NEWIPC) as u64,
    );
    /// None: a plain fork.
    pub const NONE: Namespaces = Namespaces(0);
}

/// In which of the two processes a fork returned.
#[derive(Debug)]
pub enum Forked {
    /// In the parent, with the child's id in the parent's PID namespace.
    Parent(Pid),
    /// In the child.
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

/// Forks into `namespaces` and, where given, into the v2 cgroup whose directory is `cgroup`.
///
/// # Safety
/// The calling process must have exactly one thread: locks held by other threads would stay locked
/// in the child for ever.
///
/// # Errors
/// The kernel's refusal, e.g. EPERM without privilege or ENOSPC at a limit on namespaces.
pub unsafe fn fork(namespaces: Namespaces, cgroup: Option<BorrowedFd<'_>>) -> Result<Forked> {
    #[allow(clippy::cast_sign_loss, reason = "SIGCHLD is a small positive constant")]
    let exit_signal = libc::SIGCHLD as u64;
    let args = CloneArgs { flags: namespaces.0, exit_signal, ..CloneArgs::default() };
    // SAFETY: as this function's.
    unsafe { clone(args, cgroup) }
}

/// clone3(2) without a stack of its own.
///
/// # Safety
/// As [`fork`]; a descriptor that `args.pidfd` points to must live until it returns.
unsafe fn clone(mut args: CloneArgs, cgroup: Option<BorrowedFd<'_>>) -> Result<Forked> {
    if let Some(dir) = cgroup {
        args.flags |= CLONE_INTO_CGROUP;
        #[allow(clippy::cast_sign_loss, reason = "an open descriptor is never negative")]
        let fd = dir.as_raw_fd() as u64;
        args.cgroup = fd;
    }
    // SAFETY: args is a valid clone_args of the size given and outlives the call; no stack is given
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
        _ => Err(Error::call("child process", "clone", io::Error::last_os_error())),
    }
}

/// What a process has made ready for its sibling that is born where others see it.
pub struct Ready<T> {
    /// What the sibling gets.
    pub value: T,
    /// The PID namespace in which it gets one of its own; `None`: that of this process's children.
    pub inside: Option<OwnedFd>,
    /// The v2 cgroup that it is born in.
    pub group: Option<OwnedFd>,
    /// It ends with the caller, as by [`die_with_parent`].
    pub mortal: bool,
}

/// In which process [`fork_prepared`] returned.
pub enum Prepared<T> {
    /// In the caller.
    Parent(Birth),
    /// In the child.
    Child(T),
}

/// A child that is on its way.
pub struct Birth {
    maker: OwnedFd,
    /// The go-between, a child of the caller that ends at once.
    pub stage: Pid,
}

impl Birth {
    /// Waits until the child is there: its pidfd.
    ///
    /// # Errors
    /// What a go-between was refused.
    pub fn finish(self) -> Result<OwnedFd> {
        let mut text = [0; 4096];
        let (n, mut fds) = crate::scm::receive(&self.maker, &mut text)?;
        if let Some(child) = fds.pop() {
            return Ok(child);
        }
        let words = String::from_utf8_lossy(&text[..n]).into_owned();
        Err(Error::call("new process", "make ready", io::Error::other(words)))
    }
}

/// Forks a child that is born where processes that must not reach what the caller has can see it: in a
/// PID namespace of theirs. It is a child of the caller, in the caller's own PID namespace.
///
/// What such a process shows in `/proc` (its root, its directory, its descriptors) is shown from its first
/// moment. So a go-between, whom nobody there sees, does all that needs the caller's view in `prepare`:
/// it enters namespaces, changes its root, gives up capabilities, lets go of descriptors but those that
/// are the child's and the socket it is given. The child is its sibling (clone(2), `CLONE_PARENT`), with all
/// of that from birth. None of them can be traced or looked into without `CAP_SYS_PTRACE` over the user
/// namespace that the caller's program was started in (prctl(2), `PR_SET_DUMPABLE`), until the child calls
/// [`show`] or becomes another program.
///
/// A PID namespace is made inside the maker's own one only, and who has entered one for his children may
/// not be allowed back. So there is one more go-between for [`Ready::inside`]: it is born in that namespace
/// and makes the child. A caller that lets the kernel reap its children need not wait for go-betweens.
///
/// # Errors
/// The kernel's refusal of the go-between.
pub fn fork_prepared<T>(prepare: impl FnOnce(&OwnedFd) -> Result<Ready<T>>) -> Result<Prepared<T>> {
    let (ours, theirs) = rustix::net::socketpair(
        rustix::net::AddressFamily::UNIX,
        rustix::net::SocketType::SEQPACKET,
        rustix::net::SocketFlags::CLOEXEC,
        None,
    )
    .map_err(|e| Error::call("new process", "make a socket for", e))?;
    match fork_alone(Namespaces::NONE, None)? {
        Forked::Parent(stage) => Ok(Prepared::Parent(Birth { maker: ours, stage })),
        Forked::Child => {
            drop(ours);
            match go_between(&theirs, prepare) {
                Ok(value) => Ok(Prepared::Child(value)),
                Err(e) => {
                    let words = crate::error::with_source(&e);
                    let cut = &words.as_bytes()[..words.len().min(4000)];
                    // A maker that is gone needs no answer.
                    let _ = crate::scm::send(&theirs, cut, &[]);
                    exit_now(1)
                }
            }
        }
    }
}

/// What the go-betweens do; returns in the child only.
fn go_between<T>(maker: &OwnedFd, prepare: impl FnOnce(&OwnedFd) -> Result<Ready<T>>) -> Result<T> {
    use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
    hide()?;
    let Ready { value, inside, group, mortal } = prepare(maker)?;
    let mut namespaces = Namespaces::NONE;
    if let Some(outer) = inside {
        move_into_link_name_space(outer.as_fd(), Some(LinkNameSpaceType::ProcessID))
            .map_err(|e| Error::call("PID namespace", "enter", e))?;
        drop(outer);
        become_sibling(Namespaces::NONE, None)?;
        namespaces = Namespaces(libc::CLONE_NEWPID as u64);
    }
    become_sibling(namespaces, group.as_ref().map(AsFd::as_fd))?;
    drop(group);
    die_with_parent(mortal)?;
    // Only the maker has the other end, and keeps it until it is answered.
    if wait_readable(maker, Duration::ZERO) {
        exit_now(1);
    }
    let own = pidfd(rustix::process::getpid())?;
    // One that has just gone takes this process with it.
    let _ = crate::scm::send(maker, b"ok", &[own.as_fd()]);
    Ok(value)
}

/// Goes on in a new child of this process's parent; the process itself ends.
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

/// From here on nobody may trace this process or look at its root, directory and descriptors, but who has
/// `CAP_SYS_PTRACE` over the user namespace that its program was started in.
///
/// # Errors
/// The kernel's refusal.
pub fn hide() -> Result<()> {
    let not = rustix::process::DumpableBehavior::NotDumpable;
    rustix::process::set_dumpable_behavior(not).map_err(|e| Error::call("process", "hide", e))
}

/// Takes [`hide`] back: who may trace others of this user and these capabilities may trace this process.
///
/// # Errors
/// The kernel's refusal.
pub fn show() -> Result<()> {
    let normal = rustix::process::DumpableBehavior::Dumpable;
    rustix::process::set_dumpable_behavior(normal).map_err(|e| Error::call("process", "show", e))
}

/// How the child behind a pidfd ended; waits for that.
///
/// # Errors
/// ECHILD when it is no child of this process.
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
            Err(e) => return Err(Error::call("child", "wait", e)),
        }
    }
}

/// The process of a pidfd, as numbered in this process's PID namespace (proc(5), `fdinfo`).
///
/// # Errors
/// When it has ended and is reaped, or /proc is that of another PID namespace.
pub fn pid_of(pidfd: BorrowedFd<'_>) -> Result<Pid> {
    let path = format!("/proc/self/fdinfo/{}", pidfd.as_raw_fd());
    let text = std::fs::read_to_string(&path).map_err(|e| Error::path(&path, "read", e))?;
    let number = text.lines().find_map(|l| l.strip_prefix("Pid:")?.trim().parse().ok());
    number.and_then(Pid::from_raw).ok_or(Error::Content { path: path.into(), found: text })
}

/// A descriptor for the process `pid`.
pub fn pidfd(pid: Pid) -> Result<OwnedFd> {
    rustix::process::pidfd_open(pid, PidfdFlags::empty())
        .map_err(|e| Error::call(format!("process {}", pid.as_raw_nonzero()), "open a pidfd", e))
}

/// Sends a signal to the process behind a pidfd; that it is gone already is success.
pub fn signal(pidfd: impl AsFd, signal: Signal) -> Result<()> {
    match rustix::process::pidfd_send_signal(pidfd, signal) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(e) => Err(Error::call("process", "send a signal", e)),
    }
}

/// How a child ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// With this status.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

impl Exit {
    /// As a shell shows it: the status, or 128 + the signal.
    pub fn shell_code(self) -> i32 {
        match self {
            Exit::Code(c) => c,
            Exit::Signal(s) => 128 + s,
        }
    }
}

/// Reaps one ended child of this process, if there is one; `Ok(None)` when all still run.
///
/// # Errors
/// ECHILD when there are no children at all is reported as `Ok(None)`.
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
            Err(e) => return Err(Error::call("children", "wait", e)),
        }
    }
}

fn exit_of(status: rustix::process::WaitStatus) -> Option<Exit> {
    status.exit_status().map(Exit::Code).or_else(|| status.terminating_signal().map(Exit::Signal))
}

/// Waits until the child `pid` ends or stops. A stop is given as `None`.
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
            Err(e) => return Err(Error::call("child", "wait", e)),
        }
    }
}

/// Waits up to `timeout` until something can be read, or the other end is gone; whether it is so.
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

/// A time span as poll(2) wants it.
pub fn timespec(span: Duration) -> rustix::event::Timespec {
    rustix::event::Timespec {
        tv_sec: i64::try_from(span.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(span.subsec_nanos()),
    }
}

/// Whether the process behind a pidfd has ended (a zombie counts as ended).
pub fn has_ended(pidfd: BorrowedFd<'_>) -> bool {
    wait_readable(pidfd, Duration::ZERO)
}

/// Waits up to `timeout` for the process behind a pidfd to end; whether it has.
pub fn wait_end(pidfd: impl AsFd, timeout: Duration) -> bool {
    wait_readable(pidfd, timeout)
}

/// Gives this process a short name in the process list (15 bytes are kept).
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

/// The shortest slice that the fair scheduler gives, in ns.
const SHORT_SLICE: u64 = 100_000;

/// Asks the fair scheduler to run the calling thread in short slices: it gets no more time, but
/// gets it sooner after it wakes up (since Linux 6.12; without effect before). For threads that
/// must be on time. Another scheduling policy is left as it is.
pub fn prefer_short_slices() -> Result<()> {
    let fail = |operation| move || Error::call("thread", operation, io::Error::last_os_error());
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
    // SAFETY: the kernel reads `size` bytes of the structure; a refusal writes into its size.
    let set = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, at, 0) };
    if set == 0 { Ok(()) } else { Err(fail("set its slice")()) }
}

/// Asks for SIGKILL when the parent ends; `false` withdraws it.
pub fn die_with_parent(on: bool) -> Result<()> {
    rustix::process::set_parent_process_death_signal(on.then_some(Signal::KILL))
        .map_err(|e| Error::call("parent-death signal", "set", e))
}

/// Closes every descriptor above the standard three but `keep`.
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
    // SAFETY: the callers are processes just forked, which use none of the descriptors in the range
    // again: every owner of one has been forgotten or is never dropped.
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
        return Err(Error::call("signalfd", "create", io::Error::last_os_error()));
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

/// Sets what this process does on a signal: ignore it, or the default.
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

/// Blocks `signals` and gives a [`signalfd`] that tells of them: they act no more.
pub fn catch(signals: &[i32]) -> Result<OwnedFd> {
    let set = signal_set(signals);
    // SAFETY: the set is initialised and only read; no old mask is asked for.
    unsafe { libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) };
    signalfd(signals)
}

/// CPU time of a task in nanoseconds, by its id as seen from here: the first field of its `schedstat`
/// (sched-stats.rst). `None` when it has ended, or the kernel does not count.
pub fn cpu_time(tid: i32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{tid}/schedstat")).ok()?;
    text.split_ascii_whitespace().next()?.parse().ok()
}

/// Whether a process is stopped, by a signal or by who traces it. One that cannot be seen is not.
pub fn is_stopped(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name stands in brackets, and may have any character.
    let state = stat.rsplit_once(')').map(|(_, rest)| rest.trim_start());
    state.is_some_and(|state| state.starts_with(['T', 't']))
}

/// Whether an id, as seen from here, is that of a kernel thread: by `PF_KTHREAD` among the flags in
/// proc_pid_stat(5), which come seventh after the name. A PID namespace shows none, so there it is always false.
pub fn is_kernel_thread(tid: i32) -> bool {
    const PF_KTHREAD: u32 = 0x0020_0000;
    let stat = std::fs::read_to_string(format!("/proc/{tid}/stat")).unwrap_or_default();
    let flags = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(6));
    flags.and_then(|flags| flags.parse::<u32>().ok()).is_some_and(|f| f & PF_KTHREAD != 0)
}

/// Ends this process at once, without running anything registered for exit: for forked children,
/// whose parent's buffers and handlers are not theirs.
pub fn exit_now(code: i32) -> ! {
    // SAFETY: _exit only ends the process.
    unsafe { libc::_exit(code) }
}

/// [`fork`] for callers without `unsafe`: it asks the kernel whether the process has one thread.
///
/// # Errors
/// EINVAL when there is more than one thread; else as [`fork`].
pub fn fork_alone(namespaces: Namespaces, cgroup: Option<BorrowedFd<'_>>) -> Result<Forked> {
    if let Err(source) = has_one_thread() {
        return Err(Error::call("process with several threads", "fork", source));
    }
    // SAFETY: there is one thread, as the kernel has just said, and only it could start another.
    unsafe { fork(namespaces, cgroup) }
}

/// Whether this process has one thread only, as the kernel says.
///
/// # Errors
/// EINVAL when there are more.
pub(crate) fn has_one_thread() -> io::Result<()> {
    // SAFETY: with CLONE_THREAD alone unshare(2) changes nothing; it is refused with EINVAL when the
    // process has several threads.
    if unsafe { libc::unshare(libc::CLONE_THREAD) } == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
