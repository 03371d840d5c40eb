//! Programs that a node's init starts for callers that may not enter the node: `exec` and `shell` inside a
//! node, aimed at the nodes in it.
//!
//! Entering namespaces needs a capability that ordinary nodes lack. So the caller hands over its standard
//! streams, its order and one end of a socket. The lab process passes them to the node's init, which forks a
//! [`deputy`] for the caller. The deputy reports over the socket how the program ended, forwards the signals
//! that the caller gets, and ends everything the program has started once the caller has ended. For a caller
//! at a terminal, the program gets a terminal of the node, and the caller relays input and output.

pub(crate) mod deputy;
mod screen;

use std::fs::File;
use std::io::{self, Seek, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use netloom_sys::process::{self, Exit};
use netloom_sys::{Failure, disposition, scm};
use rustix::event::{PollFd, PollFlags};
use rustix::fs::MemfdFlags;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::process::Signal;
use rustix::termios::{isatty, tcgetwinsize};
use serde::{Deserialize, Serialize};

use self::screen::Screen;
use crate::entry::{Entry, Task, check_root, node_environment};
use crate::error::failed;
use crate::{Error, Result};

/// The program to start, passed in a file because a command line has no size limit.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Order {
    /// The node's name as the caller gave it.
    node: String,
    argv: Vec<String>,
    env: Vec<(String, String)>,
    directory: Option<String>,
    /// The program needs a terminal of the node: its rows and columns.
    terminal: Option<(u16, u16)>,
    /// Signals that the program ignores.
    ignored: Vec<i32>,
}

/// Message from the caller to the deputy: a signal for the program.
#[derive(Debug, Serialize, Deserialize)]
struct Told {
    signal: i32,
}

/// Message from the deputy to the caller.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Event {
    /// The other end of the program's terminal is attached as a descriptor.
    Terminal,
    /// The program has ended; its exit status as a shell reports it.
    Ended(i32),
    /// It could not be started.
    Failed(String),
}

/// Largest message over the socket, in bytes.
const MAX_MESSAGE: usize = 8 * 1024;

/// A program being started or running.
pub struct Call {
    node: String,
    ours: OwnedFd,
    theirs: OwnedFd,
    order: File,
    signals: OwnedFd,
}

impl Call {
    /// Prepares a program. The calling process must be single-threaded.
    ///
    /// # Errors
    /// The task would show the caller's files to the node, or the kernel refuses.
    pub fn prepare(entry: &Entry, task: &Task) -> Result<Call> {
        check_root(entry, task)?;
        let fail = |operation| failed(&entry.node, operation);
        let terminal = terminal_size();
        let keys_are_screens = terminal.is_some();
        let ignored = passed_on().map(|s| s.as_raw()).filter(|s| disposition::is_ignored(*s));
        let order = order(entry, task, terminal, ignored.collect())
            .map_err(|e| fail("write its command")(Failure::new("command", "write", e).into()))?;
        let mut caught: Vec<i32> = passed_on().map(|s| s.as_raw()).collect();
        if keys_are_screens {
            caught.push(Signal::WINCH.as_raw());
        }
        let signals = process::catch(&caught).map_err(fail("catch signals"))?;
        let (ours, theirs) = socket().map_err(fail("make a socket for"))?;
        Ok(Call { node: entry.node.clone(), ours, theirs, order, signals })
    }

    /// Descriptors to hand to the node's init.
    pub fn handed_over(&self) -> [BorrowedFd<'_>; 5] {
        let [input, output, errors] =
            [rustix::stdio::stdin(), rustix::stdio::stdout(), rustix::stdio::stderr()];
        [self.theirs.as_fd(), self.order.as_fd(), input, output, errors]
    }

    /// Waits for the program, once all descriptors are handed over.
    ///
    /// # Errors
    /// The program could not be started, or the node has ended.
    pub fn wait(self) -> Result<Exit> {
        let Call { node, ours, theirs, order, signals } = self;
        // As long as this process held the deputy's end, it would never see that end closed.
        drop((theirs, order));
        let mut screen: Option<Screen> = None;
        loop {
            wait(&ours, &signals, screen.as_ref());
            while let Some(number) = process::next_signal(&signals) {
                match &screen {
                    Some(screen) if number == Signal::WINCH.as_raw() => screen.fit(),
                    _ => tell(&ours, &Told { signal: number }),
                }
            }
            if let Some(screen) = &mut screen {
                screen.carry();
            }
            if !process::wait_readable(&ours, std::time::Duration::ZERO) {
                continue;
            }
            match hear(&ours) {
                Some((Event::Terminal, Some(terminal))) => screen = Screen::new(terminal),
                Some((Event::Terminal, None)) => {}
                Some((Event::Ended(code), _)) => {
                    if let Some(screen) = &mut screen {
                        screen.show_rest();
                    }
                    return Ok(Exit::Code(code));
                }
                Some((Event::Failed(report), _)) => return Err(Error::Init { node, report }),
                None => {
                    let report = "it ended, or its init does not start programs for callers: then it was made \
                                  by an earlier version, or may have no more processes"
                        .to_owned();
                    return Err(Error::Init { node, report });
                }
            }
        }
    }
}

/// Signals that are passed on from the caller to the program. Those of keys come from the node's own terminal instead.
fn passed_on() -> impl Iterator<Item = Signal> {
    process::FOR_PROGRAMS.into_iter().chain(process::OF_KEYS)
}

/// Size of the caller's terminal, if both its standard input and output are terminals.
fn terminal_size() -> Option<(u16, u16)> {
    let output = rustix::stdio::stdout();
    if !isatty(rustix::stdio::stdin()) || !isatty(output) {
        return None;
    }
    tcgetwinsize(output).ok().map(|size| (size.ws_row, size.ws_col))
}

fn socket() -> netloom_sys::Result<(OwnedFd, OwnedFd)> {
    // SEQPACKET keeps messages apart, and unlike datagrams it tells that the peer is gone.
    rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
        .map_err(|e| Failure::new("socket pair", "make", e).into())
}

/// Writes the order to an unnamed file. The node's environment overrides the caller's.
fn order(
    entry: &Entry,
    task: &Task,
    terminal: Option<(u16, u16)>,
    ignored: Vec<i32>,
) -> io::Result<File> {
    let text = |value: std::ffi::OsString| value.into_string().ok();
    let own = std::env::vars_os().filter_map(|(key, value)| Some((text(key)?, text(value)?)));
    let mut env: Vec<(String, String)> = own.collect();
    let node_env = node_environment(entry);
    env.retain(|(key, _)| !node_env.iter().any(|(of_node, _)| of_node == key));
    env.extend(node_env);
    let directory = std::env::current_dir().ok().and_then(|d| text(d.into_os_string()));
    let (node, argv) = (entry.node.clone(), task.argv.clone());
    let order = Order { node, argv, env, directory, terminal, ignored };
    let mut file = File::from(rustix::fs::memfd_create("netloom-order", MemfdFlags::CLOEXEC)?);
    file.write_all(&serde_json::to_vec(&order)?)?;
    file.rewind()?;
    Ok(file)
}

/// Waits until there is something to do.
fn wait(socket: &OwnedFd, signals: &OwnedFd, screen: Option<&Screen>) {
    let mut fds = vec![PollFd::new(socket, PollFlags::IN), PollFd::new(signals, PollFlags::IN)];
    fds.extend(screen.iter().flat_map(|screen| screen.waits_for()));
    // Interrupted or not, the caller checks every source.
    let _ = rustix::event::poll(&mut fds, None);
}

fn tell(socket: &OwnedFd, message: &impl Serialize) {
    if let Ok(bytes) = serde_json::to_vec(message) {
        // A peer that is gone needs no message; the next receive notices its end.
        let _ = scm::send(socket, &bytes, &[]);
    }
}

/// The deputy's next event, or `None` once it has ended.
fn hear(socket: &OwnedFd) -> Option<(Event, Option<OwnedFd>)> {
    let mut buffer = vec![0; MAX_MESSAGE];
    let (n, mut fds) = scm::receive(socket, &mut buffer).ok()?;
    let event = serde_json::from_slice(&buffer[..n]).ok()?;
    Some((event, fds.pop()))
}
