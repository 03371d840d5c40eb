//! Starts a program under a filter, and gets the filter's listener.
//!
//! The filter is installed after the fork and before the program, so that no call of the program escapes. The new process
//! names its listener over a pipe and waits; this process takes it by pidfd_getfd(2). So the hand-over needs
//! no call but read(2) and write(2), which filters leave alone.
//!
//! Behind the filter stands a second wall where the kernel has one: see `landlock`.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

use rustix::fs::{Mode, OFlags};
use rustix::pipe::PipeFlags;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags};

use super::listener::{Listener, install};
use super::program::Filter;
use super::{keeper, landlock};
use crate::{Error, Failure, Result, Unsupported};

/// A program under a filter.
#[derive(Debug)]
pub struct Launched {
    /// The program, by the process that keeps it: it ends as the program does, hands on signals, and ends the
    /// program with all that it started when this process ends.
    pub child: Child,
    /// The filter's listener.
    pub listener: Listener,
    /// Whether received calls wait through signals that do not kill.
    pub waits: bool,
}

/// Maps of a user namespace that contains the caller's user and group alone, as themselves.
struct Maps {
    user: String,
    group: String,
}

impl Maps {
    fn own() -> Maps {
        let (user, group) =
            (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        Maps { user: format!("{user} {user} 1"), group: format!("{group} {group} 1") }
    }
}

/// Where a program lives.
#[derive(Debug, Default)]
pub struct Place {
    /// In a user namespace of its own, as the same user. Then this process may read its memory even if it forbids
    /// that (`PR_SET_DUMPABLE`), and it may trace no process outside.
    pub own_user: bool,
    /// Without a keeper: this process is one, and ends what the program has started when the supervisor ends.
    pub unkept: bool,
}

impl Place {
    /// Whether the kernel keeps the program from processes that are not under its filter: from their memory, their
    /// descriptors, and from tracing them.
    pub fn bars_others(&self) -> bool {
        self.own_user || landlock::is_available()
    }
}

/// Starts `command` under `filter`, without the means to gain privileges (`PR_SET_NO_NEW_PRIVS`).
///
/// # Errors
/// The program cannot be started (the source is the error of exec), or the kernel refuses filter or namespace.
pub fn launch(mut command: Command, filter: Filter, place: Place) -> Result<Launched> {
    let (told, tell) = pipe()?;
    let (acknowledged, acknowledge) = pipe()?;
    let maps = place.own_user.then(Maps::own);
    // The closure keeps its ends until `command` is dropped.
    let prepare = move || {
        if !place.unkept {
            keeper::stand_between()?;
        }
        prepare(&filter, maps.as_ref(), &tell, &acknowledged)
    };
    // SAFETY: after the fork the closure makes system calls, formats a number on the stack, and allocates only to
    // report an error.
    unsafe { command.pre_exec(prepare) };
    std::thread::scope(|scope| {
        // `spawn` returns only after the program was executed, and that waits for this thread.
        let taken = scope.spawn(|| take(told, acknowledge));
        let started = command.spawn();
        drop(command);
        let taken = taken.join().unwrap_or_else(|_| Err(error("take", io::Error::other("panic"))));
        let child = started.map_err(|source| match source.raw_os_error() {
            Some(libc::EBUSY) => second_supervisor(),
            _ => error("start a program under", source),
        })?;
        taken.map(|(listener, waits)| Launched { child, listener, waits })
    })
}

/// In the new process: enters its user namespace, installs the filter, names the listener, and waits.
fn prepare(
    filter: &Filter,
    maps: Option<&Maps>,
    tell: &OwnedFd,
    acknowledged: &OwnedFd,
) -> io::Result<()> {
    if let Some(maps) = maps {
        enter_own_user(maps)?;
    }
    rustix::thread::set_no_new_privs(true)?;
    if landlock::is_available() {
        landlock::enter()?;
    }
    let (listener, waits) = install(filter).map_err(|e| raw(&e))?;
    let listener = OwnedFd::from(listener);
    let mut message = [0; 9];
    message[..4].copy_from_slice(&rustix::process::getpid().as_raw_nonzero().get().to_ne_bytes());
    message[4..8].copy_from_slice(&listener.as_raw_fd().to_ne_bytes());
    message[8] = u8::from(waits);
    // Whole, as it is shorter than PIPE_BUF (pipe(7)).
    rustix::io::write(tell, &message)?;
    let mut taken = [0];
    match rustix::io::read(acknowledged, &mut taken)? {
        1 => Ok(()),
        _ => Err(io::Error::from_raw_os_error(libc::ECONNRESET)),
    }
}

/// Moves this process into a user namespace of its own, as the same user. It must have one thread.
///
/// # Errors
/// The kernel's error.
pub fn enter_user_as_oneself() -> io::Result<()> {
    enter_own_user(&Maps::own())
}

fn enter_own_user(maps: &Maps) -> io::Result<()> {
    // SAFETY: unshare(2) with CLONE_NEWUSER changes this process's credentials and no memory.
    if unsafe { libc::unshare(libc::CLONE_NEWUSER) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // Without this only a privileged process may write gid_map (user_namespaces(7)).
    put(c"/proc/self/setgroups", b"deny")?;
    put(c"/proc/self/uid_map", maps.user.as_bytes())?;
    put(c"/proc/self/gid_map", maps.group.as_bytes())
}

fn put(path: &std::ffi::CStr, bytes: &[u8]) -> io::Result<()> {
    let file = rustix::fs::open(path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::io::write(&file, bytes)?;
    Ok(())
}

/// In this process: takes the listener that the new one names.
fn take(told: OwnedFd, acknowledge: OwnedFd) -> Result<(Listener, bool)> {
    let mut message = [0; 9];
    File::from(told).read_exact(&mut message).map_err(|source| error("hear of", source))?;
    let word = |at: usize| [message[at], message[at + 1], message[at + 2], message[at + 3]];
    let pid = Pid::from_raw(i32::from_ne_bytes(word(0)));
    let pid = pid.ok_or_else(|| error("hear of", io::ErrorKind::InvalidData.into()))?;
    let process = rustix::process::pidfd_open(pid, PidfdFlags::empty())
        .map_err(|source| error("open the process of", source.into()))?;
    let fd = i32::from_ne_bytes(word(4));
    let listener = rustix::process::pidfd_getfd(process.as_fd(), fd, PidfdGetfdFlags::empty())
        .map_err(|source| error("take the listener of", source.into()))?;
    File::from(acknowledge).write_all(&[1]).map_err(|source| error("acknowledge", source))?;
    Ok((Listener::from(listener), message[8] != 0))
}

fn pipe() -> Result<(OwnedFd, OwnedFd)> {
    rustix::pipe::pipe_with(PipeFlags::CLOEXEC).map_err(|e| error("make a pipe for", e.into()))
}

fn error(operation: &'static str, source: io::Error) -> Error {
    Failure::new("system call filter", operation, source).into()
}

/// The kernel has one listener for each program.
fn second_supervisor() -> Error {
    let needs = "start the inner one outside of the other".to_owned();
    let reason = "another supervisor answers the calls of programs here".to_owned();
    Unsupported { feature: "guard", reason, needs }.into()
}

fn raw(error: &Error) -> io::Error {
    io::Error::from_raw_os_error(error.raw_os_error().unwrap_or(libc::EINVAL))
}
