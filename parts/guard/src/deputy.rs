//! The process between the supervisor and the program. It leads the session of the program's terminal, so that the
//! program can stop and continue; it reports how the program fares, passes signals on, and ends everything that
//! the program has started when the program or the supervisor has ended.
//!
//! It is not under the filter. It does nothing but what the supervisor tells it.
//!
//! Where a program has a user namespace of its own, the deputy is in mounts above it: files that the program may only read,
//! and no terminal but the program's.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::process::Command;

use netloom_control::envelope::{self, Received};
use netloom_sys::seccomp::Sight;
use netloom_sys::seccomp::launch::{Place, launch};
use netloom_sys::{
    disposition, inherited, isolated_netns, own_terminals, process, sealed, terminal,
};
use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, Signal, WaitOptions};
use rustix::termios::{ioctl_tiocexcl, ioctl_tiocnxcl, isatty, tcgetwinsize, tcsetwinsize};
use serde::{Deserialize, Serialize};

use crate::accept::Gate;
use crate::calls;
use crate::names::home::Files;

/// What the deputy reports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Event {
    /// The program runs. With this come the filter's listener, the root and mounts of its place, and this side of its
    /// terminal if that is one of its own.
    Started(Startup),
    /// It was not started: the error's number, and in words.
    Refused(Option<i32>, String),
    /// It has stopped by a signal.
    Stopped,
    /// It has ended, and so has all that it started; the exit status as a shell gives it.
    Ended(i32),
}

/// How a program began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct Startup {
    /// Files are sealed that are to be.
    pub(crate) sealed: bool,
    /// The program can open no terminal but its own.
    pub(crate) own_terminal: bool,
    /// By which files names are resolved.
    pub(crate) files: Files,
}

/// What the supervisor tells the deputy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Notice {
    /// A signal for the program.
    Signal(i32),
    /// The program goes on after a stop.
    Continue,
}

/// The socket's name in errors.
pub(crate) const SOCKET: &str = "socket of guard's deputy";

/// A deputy before it is one: made in the supervisor, run in a process forked from it.
#[derive(Debug)]
pub struct Deputy {
    pub(crate) socket: OwnedFd,
    /// Where the supervisor asks for sockets of the program's network.
    pub(crate) maker: OwnedFd,
    pub(crate) place: Place,
    pub(crate) gate: Gate,
    /// The caller's terminal, and the program's side of its own.
    pub(crate) terminals: Option<(OwnedFd, OwnedFd)>,
    /// Files and folders that the program may only read.
    pub(crate) sealed: Vec<PathBuf>,
}

impl Deputy {
    /// Descriptors that it needs besides the standard streams.
    pub fn kept(&self) -> Vec<BorrowedFd<'_>> {
        [self.socket.as_fd(), self.maker.as_fd()]
            .into_iter()
            .chain(self.terminals.iter().flat_map(|(outer, inner)| [outer.as_fd(), inner.as_fd()]))
            .collect()
    }

    /// Starts `command` and attends to it; ends this process.
    pub fn run(self, mut command: Command) -> ! {
        let (socket, maker) = (self.socket, self.maker);
        // Orphans of the program become children of the deputy, which can then find them.
        let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
        let own_group = self.terminals.is_some();
        let (outer, inner) = self.terminals.unzip();
        let (sealed, own) = alone(&self.sealed, inner.as_ref(), &self.place);
        let (own, inner) = match own {
            Some((ours, theirs)) => (Some(ours), Some(theirs)),
            None => (None, inner),
        };
        if let Some(terminal) = inner
            && let Err(e) = take_terminal(terminal, &mut command)
        {
            refuse(&socket, &e);
        }
        // A signal meant for the program does not end the deputy. It stops with its group, and goes on with it.
        let meant = process::FOR_PROGRAMS.into_iter().filter(|signal| *signal != Signal::CONT);
        let watched = meant.chain(process::OF_KEYS).chain([Signal::CHILD]).map(Signal::as_raw);
        let signals = match process::catch(&watched.collect::<Vec<_>>()) {
            Ok(signals) => signals,
            Err(e) => refuse(&socket, &e),
        };
        disposition::start_mortal(&mut command);
        let files = Files::read();
        // Only now: the mounts that it records must be those in which the program starts.
        let sight = match Sight::here() {
            Ok(sight) => sight,
            Err(e) => refuse(&socket, &e),
        };
        // Of a program that starts, its listener is taken: for that it must be seen, and see, like any other.
        let _ = process::show();
        let outer = keep(outer.filter(|_| own.is_none()));
        let filter = calls::filter(self.place.bars_others(), self.gate.watches());
        match launch(command, filter, self.place) {
            Err(e) => {
                give_back(outer.as_ref());
                refuse(&socket, &e)
            }
            Ok(launched) => {
                let pid = i32::try_from(launched.child.id()).ok().and_then(Pid::from_raw);
                let listener = OwnedFd::from(launched.listener);
                let [root, mounts] = sight.parts();
                let fds = [listener.as_fd(), root, mounts].into_iter();
                let fds: Vec<_> = fds.chain(own.as_ref().map(AsFd::as_fd)).collect();
                let began = Startup { sealed, own_terminal: own.is_some(), files };
                report(&socket, &Event::Started(began), &fds);
                // The supervisor alone holds the listener: when it is killed, the calls that wait
                // fail at once.
                drop((listener, sight, own));
                let Some(pid) = pid else { process::exit_now(1) };
                RunningProgram { pid, own_group, socket, maker, signals, outer }.attend()
            }
        }
    }
}

/// Both sides of a terminal: the supervisor's, and the program's.
type Pair = (OwnedFd, OwnedFd);

/// Moves this process into mounts where the program is to have a user namespace of its own, below which it cannot change
/// them: whether files are sealed there, and a terminal that is the only one there, with the size of `inner`.
fn alone(paths: &[PathBuf], inner: Option<&OwnedFd>, place: &Place) -> (bool, Option<Pair>) {
    let wanted = place.own_user && (!paths.is_empty() || inner.is_some());
    let others = if inner.is_some() { own_terminals::of_user() } else { vec![] };
    let inside = wanted && sealed::enter().is_ok();
    let is_sealed =
        paths.is_empty() || (inside && paths.iter().all(|path| sealed::seal(path).is_ok()));
    let own = inner.filter(|_| inside).and_then(|inner| own_terminal(inner, &others));
    if inside {
        inherited::reopen_folders();
    }
    (is_sealed, own)
}

fn own_terminal(like: &OwnedFd, others: &[PathBuf]) -> Option<Pair> {
    own_terminals::enter(others).ok()?;
    let pair = terminal::pair().ok()?;
    if let Ok(size) = tcgetwinsize(like) {
        let _ = tcsetwinsize(&pair.0, size);
    }
    Some(pair)
}

/// Leads a session on the terminal, and puts it in the place of those of the caller's streams that are terminals.
fn take_terminal(inner: OwnedFd, command: &mut Command) -> netloom_sys::Result<()> {
    use rustix::stdio;
    let failed = |e: rustix::io::Errno| {
        netloom_sys::Error::from(netloom_sys::Failure::new("terminal of the program", "take", e))
    };
    rustix::process::setsid().map_err(failed)?;
    rustix::process::ioctl_tiocsctty(&inner).map_err(failed)?;
    if isatty(stdio::stdin()) {
        stdio::dup2_stdin(&inner).map_err(failed)?;
    }
    if isatty(stdio::stdout()) {
        stdio::dup2_stdout(&inner).map_err(failed)?;
    }
    if isatty(stdio::stderr()) {
        stdio::dup2_stderr(&inner).map_err(failed)?;
    }
    inherited::replace_terminals(&inner);
    terminal::start_in_foreground(command, inner);
    Ok(())
}

/// Where the program can open the caller's terminal, that is the supervisor's alone until either ends.
fn keep(outer: Option<OwnedFd>) -> Option<OwnedFd> {
    if let Some(outer) = &outer {
        // Nobody draws on a terminal that is gone.
        let _ = ioctl_tiocexcl(outer);
    }
    outer
}

/// Lets others open the caller's terminal again.
fn give_back(outer: Option<&OwnedFd>) {
    if let Some(outer) = outer {
        // A terminal that is gone needs nothing.
        let _ = ioctl_tiocnxcl(outer);
    }
}

fn report(socket: &OwnedFd, event: &Event, fds: &[BorrowedFd<'_>]) {
    // A supervisor that is gone shows at the next look.
    let _ = envelope::send(SOCKET, socket, event, fds);
}

fn refuse(socket: &OwnedFd, error: &netloom_sys::Error) -> ! {
    let event = Event::Refused(error.raw_os_error(), netloom_sys::describe(error));
    report(socket, &event, &[]);
    process::exit_now(1)
}

/// A program that runs.
struct RunningProgram {
    pid: Pid,
    own_group: bool,
    socket: OwnedFd,
    maker: OwnedFd,
    signals: OwnedFd,
    /// The caller's terminal, if the program could open it by its name.
    outer: Option<OwnedFd>,
}

impl RunningProgram {
    fn attend(self) -> ! {
        loop {
            let mut fds = [
                PollFd::new(&self.socket, PollFlags::IN),
                PollFd::new(&self.maker, PollFlags::IN),
                PollFd::new(&self.signals, PollFlags::IN),
            ];
            // Interrupted or not, check every source.
            let _ = rustix::event::poll(&mut fds, None);
            if process::wait_readable(&self.socket, std::time::Duration::ZERO) {
                self.obey();
            }
            if process::wait_readable(&self.maker, std::time::Duration::ZERO) {
                // A process that no longer asks has ended, as the other socket shows.
                let _ = isolated_netns::make(self.maker.as_fd());
            }
            while let Some(number) = process::next_signal(&self.signals) {
                // The terminal's end reaches its session's leader alone; others come to the program by themselves.
                if self.own_group && number == Signal::HUP.as_raw() {
                    self.signal(number);
                    // A stopped program takes its SIGHUP only when it goes on; the kernel sends
                    // both, too.
                    self.signal(Signal::CONT.as_raw());
                }
            }
            self.look();
        }
    }

    fn obey(&self) {
        match envelope::receive(SOCKET, &self.socket) {
            Ok(Received::Value(Notice::Signal(number), _)) => self.signal(number),
            Ok(Received::Value(Notice::Continue, _)) => self.signal(Signal::CONT.as_raw()),
            Ok(Received::Malformed(_)) => {}
            Ok(Received::Ended) | Err(_) => {
                // The listener has closed with the supervisor: what still runs gets no new
                // connection.
                self.end_all();
                process::exit_now(1)
            }
        }
    }

    /// Ends all that the program has started, and then lets others open the caller's terminal again. A supervisor that was
    /// killed cannot, and whether it was is not known: its end also hangs up the program's terminal, so the program may
    /// be seen to end first.
    fn end_all(&self) {
        process::end_descendants();
        give_back(self.outer.as_ref());
    }

    /// To the program; that it stops and continues is about all of its group.
    fn signal(&self, number: i32) {
        let Some(signal) = Signal::from_named_raw(number) else { return };
        // A program that has ended needs no signal.
        let _ = match self.own_group && matches!(signal, Signal::CONT | Signal::HUP) {
            true => rustix::process::kill_process_group(self.pid, signal),
            false => rustix::process::kill_process(self.pid, signal),
        };
    }

    /// Reaps, and reports what became of the program.
    fn look(&self) {
        while let Ok(Some((pid, status))) =
            rustix::process::wait(WaitOptions::NOHANG | WaitOptions::UNTRACED)
        {
            if pid != self.pid {
                continue;
            }
            if status.stopped() {
                // In the caller's group the key that stops the program stops the supervisor by
                // itself.
                if self.own_group {
                    report(&self.socket, &Event::Stopped, &[]);
                }
                continue;
            }
            let signal = status.terminating_signal().map(|signal| 128 + signal);
            let code = status.exit_status().or(signal).unwrap_or(1);
            self.end_all();
            report(&self.socket, &Event::Ended(code), &[]);
            process::exit_now(0)
        }
    }
}
