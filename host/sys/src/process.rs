//! Processes: fork into namespaces, wait, signal by descriptor.
//!
//! [`fork()`] and its kin are in `fork`, masks and descriptors of signals in `signals`. See pidfd_open(2).

mod descendants;
mod fork;
mod identity;
mod signals;
mod status;

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal};

pub use self::descendants::end_descendants;
pub(crate) use self::fork::has_one_thread;
pub use self::fork::{
    Birth, Forked, Namespaces, Prepared, Ready, fork, fork_alone, fork_prepared, fork_to_execute,
};
pub use self::identity::{Identity, start_as};
pub use self::signals::{
    FOR_PROGRAMS, OF_KEYS, Sent, block_signals, catch, next_sent, next_signal, set_ignored,
    signalfd, unblock_signals, with_open_mask,
};
pub use self::status::Status;
use crate::{Error, Failure, Result};

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
/// ECHILD if it is not a child of this process.
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

/// The short name of a process in the process list; `None` if it has ended. Only the process itself sets it.
pub fn name_of(pid: Pid) -> Option<String> {
    let name = std::fs::read(format!("/proc/{}/comm", pid.as_raw_nonzero())).ok()?;
    Some(String::from_utf8_lossy(&name).trim_end_matches('\n').to_owned())
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
    // The kernel wrote the size that it knows, which may be another.
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

/// CPU time of a task in nanoseconds, by its id in this PID namespace: the first field of its
/// `schedstat` (sched-stats.rst). `None` if it has ended or the kernel does not count.
pub fn cpu_time(tid: i32) -> Option<u64> {
    cpu_time_and_wait(tid).map(|(ran, _)| ran)
}

/// The same, and for how long the task was ready and had no CPU.
pub fn cpu_time_and_wait(tid: i32) -> Option<(u64, u64)> {
    let text = std::fs::read_to_string(format!("/proc/{tid}/schedstat")).ok()?;
    let mut fields = text.split_ascii_whitespace().map(str::parse);
    fields.next()?.ok().zip(fields.next()?.ok())
}

/// When a task began, in ticks since the machine started, by its id in this PID namespace: the 22nd field of its `stat`
/// (proc_pid_stat(5)). `None` if it has ended. An id with another time is another task's.
pub fn began(tid: i32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{tid}/stat")).ok()?;
    // The name, the second field, is in parentheses, and may contain any character.
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
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
    has_flag(&stat, PF_KTHREAD)
}

/// Whether the task with this line of proc_pid_stat(5) has a flag of the kernel's (`PF_*`).
fn has_flag(stat: &str, flag: u32) -> bool {
    // The name in parentheses may contain any character.
    let flags = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(6));
    flags.and_then(|flags| flags.parse::<u32>().ok()).is_some_and(|flags| flags & flag != 0)
}

/// Ends this process at once, without exit handlers: for forked children, which must not run their
/// parent's handlers or flush its buffers.
pub fn exit_now(code: i32) -> ! {
    // SAFETY: _exit only ends the process.
    unsafe { libc::_exit(code) }
}
