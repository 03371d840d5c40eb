//! Takes a caller's own process into a node: what `exec` and `shell` do.
//!
//! The caller brings its terminal or pipes. The program is its child, gets the same signals, and ends when
//! the caller does. The caller's process must be single-threaded and stays where it is: an intermediate
//! process enters the node, and the program's deputy is forked there with nothing of the caller that leads
//! out ([`process::fork_prepared`]).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use netloom_sys::cgroup::Join;
use netloom_sys::process::{self, Exit, Prepared, Ready};
use netloom_sys::terminal::Foreground;
use netloom_sys::{Failure, caps::Grant};
use netloom_sys::{disposition, keyring, namespace};
use rustix::process::{Pid, Signal};

use crate::error::failed;
use crate::interpreter;
use crate::users::Users;
use crate::{Error, Result};

/// Everything needed to enter a node, as the lab process hands it out.
#[derive(Debug)]
pub struct Entry {
    /// The node's name.
    pub node: String,
    /// The init's pidfd.
    pub init: OwnedFd,
    /// The node's cgroups.
    pub groups: Join,
    /// The node lives in a user namespace that does not contain the caller.
    pub user: bool,
    /// The node has a user namespace of its own below the caller's: programs enter it unless they keep the
    /// caller's files.
    pub own_user: bool,
    /// Environment of the node's programs.
    pub env: Vec<(String, String)>,
    /// The node may contain nodes, or is inside another one.
    pub nested: bool,
    /// Its programs have more capabilities than those of ordinary nodes.
    pub privileged: bool,
    /// What its programs get when they change owners and users.
    pub users: Users,
    /// The caller may not enter: the node's init starts programs for it ([`crate::by_init`]).
    pub by_init: bool,
    /// It is around a virtual machine: users mean its guest.
    pub machine: bool,
}

impl Entry {
    /// Refuses a caller that may not enter.
    ///
    /// # Errors
    /// The caller may only start programs by the node's init.
    pub fn check_entry(&self) -> Result<()> {
        if self.by_init { Err(Error::MayNotEnter { node: self.node.clone() }) } else { Ok(()) }
    }
}

/// What to run.
#[derive(Clone, Debug)]
pub struct Task {
    /// The argument list, not empty.
    pub argv: Vec<String>,
    /// Take the terminal for the program's own process group, as a shell wants.
    pub own_group: bool,
    /// Stay in the caller's file system; all other namespaces are the node's. For nodes whose root lacks the
    /// tools needed.
    pub keep_root: bool,
}

/// Exit statuses as a shell gives them: the program does not exist (127), or cannot be run (126).
const NOT_FOUND: i32 = 127;
const NOT_RUNNABLE: i32 = 126;

/// The shell that every system has.
const PLAIN_SHELL: &str = "/bin/sh";

/// Signals that the caller ignored: the program ignores them too, as with env(1).
#[derive(Clone, Copy)]
struct Ignored {
    keys: [bool; 2],
    terminal: bool,
}

impl Ignored {
    /// Reads the current state.
    fn now() -> Ignored {
        let of = |signal: Signal| disposition::is_ignored(signal.as_raw());
        Ignored { keys: process::OF_KEYS.map(of), terminal: of(Signal::TTOU) }
    }

    /// Restores it.
    fn restore(self) {
        for (key, ignored) in process::OF_KEYS.into_iter().zip(self.keys) {
            process::set_ignored(key.as_raw(), ignored);
        }
        process::set_ignored(Signal::TTOU.as_raw(), self.terminal);
    }
}

/// Refuses to show the caller's files to programs that others manage.
pub(crate) fn check_root(entry: &Entry, task: &Task) -> Result<()> {
    match task.keep_root && entry.nested {
        true => Err(Error::ShowsFiles { node: entry.node.clone() }),
        false => Ok(()),
    }
}

/// Runs a program in a node and waits for it.
///
/// # Errors
/// The node cannot be entered. A program that cannot be started yields exit status 126 or 127 and a line on
/// standard error, as in a shell.
pub fn run(entry: &Entry, task: &Task) -> Result<Exit> {
    check_root(entry, task)?;
    entry.check_entry()?;
    let directory = std::env::current_dir().ok();
    let passed: Vec<i32> = process::FOR_PROGRAMS.iter().map(|s| s.as_raw()).collect();
    // From here on they wait until they can be passed on. Keys still end this process until it lets the program start.
    let _waiting = process::catch(&passed).map_err(failed(&entry.node, "catch signals"))?;
    let ignored = Ignored::now();
    let stdin = io::stdin();
    let front = if task.own_group { Foreground::remember(&stdin) } else { None };
    // A byte lets the program start; the pipe's end closes when this process ends.
    let (caller, held) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
        .map_err(Failure::of("pipe", "make"))
        .map_err(failed(&entry.node, "enter"))?;
    let forked = process::fork_prepared(|maker| prepare(entry, task, maker, &[caller.as_fd()]))
        .map_err(failed(&entry.node, "fork"))?;
    match forked {
        Prepared::Child(()) => {
            let program = Program { entry, task, directory, front: front.as_ref(), ignored };
            child(program, caller.as_fd())
        }
        Prepared::Parent(birth) => {
            let stage = birth.stage;
            let deputy = birth.finish();
            // It has ended, or ends when its pipe closes.
            let _ = process::wait_or_stop(stage);
            let deputy = deputy.map_err(failed(&entry.node, "enter"))?;
            parent_wait(&entry.node, &deputy, ignored, &held)
        }
    }
}

/// The process in which [`fork_into`] returned.
#[derive(Debug)]
pub enum Entered {
    /// The caller's.
    Caller,
    /// The one in the node, with the program that it is to start.
    Inside(Command),
}

/// Forks a process into a node, for callers that start and attend to the program themselves: as [`run`] does, but
/// that it keeps `kept` besides the standard streams. All other descriptors are closed in it: the process that owns them
/// there must forget them. It cannot be traced or looked into until it calls [`process::show`].
///
/// # Errors
/// The node cannot be entered.
pub fn fork_into(entry: &Entry, task: &Task, kept: &[BorrowedFd<'_>]) -> Result<Entered> {
    check_root(entry, task)?;
    entry.check_entry()?;
    let directory = std::env::current_dir().ok();
    let forked = process::fork_prepared(|maker| prepare(entry, task, maker, kept))
        .map_err(failed(&entry.node, "fork"))?;
    match forked {
        Prepared::Child(()) => {
            entry.groups.enter_files().map_err(failed(&entry.node, "join cgroups"))?;
            process::close_all_but(kept);
            Ok(Entered::Inside(command(entry, task, directory)))
        }
        Prepared::Parent(birth) => {
            let stage = birth.stage;
            let deputy = birth.finish();
            let _ = process::wait_or_stop(stage);
            deputy.map_err(failed(&entry.node, "enter"))?;
            Ok(Entered::Caller)
        }
    }
}

/// Steps before the deputy becomes visible in the node: by then it keeps nothing of the caller but the
/// standard streams and, if requested, the root.
fn prepare(
    entry: &Entry,
    task: &Task,
    maker: &OwnedFd,
    kept: &[BorrowedFd<'_>],
) -> netloom_sys::Result<Ready<()>> {
    // First: the kernel copies only mounts of the caller's own mount namespace (open_tree(2)),
    // which this process leaves next.
    let group = entry.groups.v2.as_ref().map(AsFd::as_fd);
    let group = group.map(group_alone).transpose()?;
    let user = entry.user || (entry.own_user && !task.keep_root);
    namespace::enter_node(entry.init.as_fd(), user, !task.keep_root)?;
    if entry.privileged {
        // It may use keyrings, but not those of the caller's session, which it would inherit.
        keyring::leave_session();
    } else if !task.keep_root {
        keyring::forbid()?;
    }
    entry.users.begin()?;
    // With more capabilities than the node's programs, it cannot be traced by them, which would expose the
    // caller's files.
    Grant::of(entry.privileged || task.keep_root).limit()?;
    let own = std::iter::once(maker).chain(&group).chain(&entry.groups.tasks).map(AsFd::as_fd);
    process::close_all_but(&own.chain(kept.iter().copied()).collect::<Vec<_>>());
    Ok(Ready { value: (), inside: None, group, mortal: false })
}

/// The cgroup's directory without a path to its parent, if this process may create that.
fn group_alone(dir: BorrowedFd<'_>) -> netloom_sys::Result<OwnedFd> {
    // Who may not mount here gets the directory as it is.
    namespace::without_parents(dir)
        .or_else(|_| dir.try_clone_to_owned())
        .map_err(|e| Failure::new("cgroup", "copy", e).into())
}

/// The caller's deputy in the node: starts the program, forwards signals, and ends everything the program has
/// started when the caller is killed.
fn child(program: Program<'_>, caller: BorrowedFd<'_>) -> ! {
    let entry = program.entry;
    let refused = |what: &str, e: &netloom_sys::Error| -> ! {
        let why = netloom_sys::describe(e);
        netloom_sys::journal::line(format_args!("netloom: node {:?}: {what}: {why}", entry.node));
        process::exit_now(1)
    };
    if let Err(e) = entry.groups.enter_files() {
        refused("join cgroups", &e);
    }
    process::close_all_but(&[caller]);
    // Orphans of the program become children of the deputy, which can then find them.
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    // Signals of keys, too: the program decides what they end, not its deputy.
    let watched = process::FOR_PROGRAMS.iter().chain(&process::OF_KEYS).chain(&[Signal::CHILD]);
    let watched: Vec<i32> = watched.map(|s| s.as_raw()).collect();
    let signals = match process::catch(&watched) {
        Ok(signals) => signals,
        Err(e) => refused("catch signals", &e),
    };
    // From here on the caller passes signals on.
    let mut byte = [0];
    if rustix::io::retry_on_intr(|| rustix::io::read(caller, &mut byte)) != Ok(1) {
        process::exit_now(1);
    }
    match process::fork_to_execute(|| program.become_it()) {
        Err(e) => refused("fork", &e),
        Ok(pid) => attend(pid, &signals, caller),
    }
}

/// A program ready to start.
struct Program<'a> {
    entry: &'a Entry,
    task: &'a Task,
    directory: Option<std::path::PathBuf>,
    front: Option<&'a Foreground<'a>>,
    ignored: Ignored,
}

impl Program<'_> {
    /// Execs the program.
    fn become_it(self) -> ! {
        let Program { entry, task, directory, front, ignored } = self;
        let _ = process::die_with_parent(true);
        if task.own_group {
            let _ = rustix::process::setpgid(None, None);
            if let Some(front) = front {
                // tcsetpgrp(3) from a background group sends SIGTTOU, which would stop the program before it
                // begins.
                process::set_ignored(Signal::TTOU.as_raw(), true);
                front.give(rustix::process::getpid());
            }
        }
        ignored.restore();
        process::unblock_signals();
        let mut error = command(entry, task, directory).exec();
        if task.own_group && error.kind() == io::ErrorKind::NotFound {
            // An image need not have the caller's shell.
            error = Command::new(PLAIN_SHELL).envs(node_environment(entry)).exec();
        }
        let name = task.argv.first().map_or("", String::as_str);
        let words = interpreter::words(&error, name, std::env::var("PATH").ok().as_deref());
        netloom_sys::journal::line(format_args!("netloom: node {:?}: {name}: {words}", entry.node));
        let missing = error.kind() == io::ErrorKind::NotFound;
        process::exit_now(if missing { NOT_FOUND } else { NOT_RUNNABLE })
    }
}

/// The deputy's main loop: ends with the program.
fn attend(program: Pid, signals: &OwnedFd, caller: BorrowedFd<'_>) -> ! {
    loop {
        let mut fds = [
            rustix::event::PollFd::new(&caller, rustix::event::PollFlags::IN),
            rustix::event::PollFd::new(signals, rustix::event::PollFlags::IN),
        ];
        // Interrupted or not, check every source.
        let _ = rustix::event::poll(&mut fds, None);
        if process::wait_readable(caller, Duration::ZERO) {
            process::end_descendants();
            process::exit_now(1);
        }
        while let Some(sent) = process::next_sent(signals) {
            if let Some(signal) = passed_on(sent).filter(|s| *s != Signal::CHILD) {
                // A program that has ended needs no signal.
                let _ = rustix::process::kill_process(program, signal);
            }
        }
        while let Ok(Some((pid, exit))) = process::reap() {
            if pid == program {
                process::exit_now(exit.shell_code());
            }
        }
    }
}

/// The command: the node's environment over the caller's, in the caller's directory if the node has it.
fn command(entry: &Entry, task: &Task, directory: Option<std::path::PathBuf>) -> Command {
    let mut command = Command::new(task.argv.first().map_or("", String::as_str));
    command.args(task.argv.iter().skip(1)).envs(node_environment(entry));
    let directory = directory.filter(|d| d.is_dir()).unwrap_or_else(|| "/".into());
    // Change directory here so that a relative program path resolves there: `current_dir()` does not promise
    // it.
    let _ = std::env::set_current_dir(directory);
    command
}

/// The part of the node's environment that overrides the caller's.
pub(crate) fn node_environment(entry: &Entry) -> Vec<(String, String)> {
    let callers_path = std::env::var("PATH").unwrap_or_default();
    let has_language = std::env::var_os("LANG").is_some();
    let merged = entry.env.iter().filter(|(key, _)| key != "LANG" || !has_language);
    merged
        .map(|(key, value)| match key.as_str() {
            // Keep the caller's search path and append the node's directories.
            "PATH" if !callers_path.is_empty() => (key.clone(), format!("{callers_path}:{value}")),
            _ => (key.clone(), value.clone()),
        })
        .collect()
}

/// The signal that the program gets of one that came. The terminal signals its whole foreground group, so the program gets a
/// key's by itself; what a process sends to one process of the group comes to the program only if it is passed on.
fn passed_on(sent: process::Sent) -> Option<Signal> {
    let signal = Signal::from_named_raw(sent.number)?;
    (sent.by_process || !process::OF_KEYS.contains(&signal)).then_some(signal)
}

/// Lets the program start by `held`, passes signals on, and waits for the deputy's end.
fn parent_wait(node: &str, deputy: &OwnedFd, ignored: Ignored, held: &OwnedFd) -> Result<Exit> {
    // As in the deputy: a key must not end the caller before the program. What the caller ignores stays ignored.
    let keys = process::OF_KEYS.into_iter().zip(ignored.keys);
    let heard = keys.filter(|(_, ignored)| !ignored).map(|(key, _)| key);
    let heard: Vec<i32> =
        process::FOR_PROGRAMS.into_iter().chain(heard).map(Signal::as_raw).collect();
    let signals = process::catch(&heard).map_err(failed(node, "catch signals"))?;
    rustix::io::write(held, &[1])
        .map_err(Failure::of("pipe", "write to"))
        .map_err(failed(node, "enter"))?;
    loop {
        let mut fds = [
            rustix::event::PollFd::new(deputy, rustix::event::PollFlags::IN),
            rustix::event::PollFd::new(&signals, rustix::event::PollFlags::IN),
        ];
        // An unblocked signal may interrupt; the loop checks again.
        let _ = rustix::event::poll(&mut fds, None);
        while let Some(sent) = process::next_sent(&signals) {
            if let Some(signal) = passed_on(sent) {
                process::signal(deputy, signal).map_err(failed(node, "pass a signal on"))?;
            }
        }
        if process::has_ended(deputy.as_fd()) {
            return process::collect(deputy.as_fd()).map_err(failed(node, "wait for"));
        }
    }
}
