//! A caller's deputy in a node: a child of the node's init that starts one program and attends to it.
//!
//! It keeps what the caller handed over and nothing of the init. The deputy, not the init, reads the caller's
//! messages, so a silent or misbehaving caller blocks only itself. Nobody in the node may trace the deputy.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use netloom_sys::process::{self, Forked, Namespaces};
use netloom_sys::{Error, Result, scm, terminal};
use netloom_sys::{Failure, caps::Grant};
use rustix::process::{Pid, Signal};
use rustix::termios::{Winsize, isatty, tcsetwinsize};

use super::{Event, MAX_MESSAGE, Order, Told, tell};
use crate::interpreter;

/// Exit statuses as a shell gives them: the program does not exist (127), or cannot be run (126).
const NOT_FOUND: i32 = 127;
const NOT_RUNNABLE: i32 = 126;

/// Longest order in bytes: several times what the kernel takes for a program's arguments and environment.
const MAX_ORDER: u64 = 16 << 20;

/// Forks a deputy for the caller with this socket, order and standard streams. If the fork fails, the
/// caller's socket closes.
pub(crate) fn fork(grant: Grant, fds: Vec<OwnedFd>) {
    let Ok([caller, order, input, output, errors]) = <[OwnedFd; 5]>::try_from(fds) else { return };
    if let Ok(Forked::Child) = process::fork_alone(Namespaces::NONE, None) {
        let streams = [input, output, errors];
        let deputy = Deputy { caller };
        match deputy.begin(grant, File::from(order), streams) {
            Ok(program) => deputy.attend(program),
            Err(e) => {
                let words = netloom_sys::describe(&e);
                // JSON may need six bytes for one, and the event has some of its own.
                let cut = words.chars().take(MAX_MESSAGE / 8).collect();
                tell(&deputy.caller, &Event::Failed(cut));
                process::exit_now(1)
            }
        }
    }
}

struct Deputy {
    caller: OwnedFd,
}

impl Deputy {
    /// Drops everything inherited from the init and starts the program.
    fn begin(&self, grant: Grant, order: File, streams: [OwnedFd; 3]) -> Result<Pid> {
        // First: until the init's descriptors are closed, no program of the node may look into this copy of
        // it.
        process::hide()?;
        process::set_name("netloom-exec");
        let kept = streams.iter().chain([&self.caller]).map(AsFd::as_fd);
        let kept: Vec<_> = kept.chain([order.as_fd()]).collect();
        process::close_all_but(&kept);
        grant.limit()?;
        let order = read(order)?;
        let streams = match order.terminal {
            Some(size) => self.terminal(size, streams)?,
            None => streams,
        };
        for (result, what) in [
            (rustix::stdio::dup2_stdin(&streams[0]), "standard input"),
            (rustix::stdio::dup2_stdout(&streams[1]), "standard output"),
            (rustix::stdio::dup2_stderr(&streams[2]), "standard error"),
        ] {
            result.map_err(|e| Failure::new(what, "take", e))?;
        }
        drop(streams);
        // Orphans of the program become children of this process, which can then find them.
        let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
        match process::fork_alone(Namespaces::NONE, None)? {
            Forked::Parent(program) => Ok(program),
            Forked::Child => self.become_program(&order),
        }
    }

    /// Replaces those standard streams that are the caller's terminal by a terminal of the node.
    fn terminal(&self, (rows, columns): (u16, u16), streams: [OwnedFd; 3]) -> Result<[OwnedFd; 3]> {
        let fail = |operation| {
            move |e: rustix::io::Errno| Error::from(Failure::new("terminal", operation, e))
        };
        let (outer, inner) = terminal::pair()?;
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&inner, size).map_err(fail("set the size of"))?;
        let event = serde_json::to_vec(&Event::Terminal).unwrap_or_default();
        scm::send(&self.caller, &event, &[outer.as_fd()])?;
        let [input, output, errors] =
            streams.map(|stream| if isatty(&stream) { inner.try_clone() } else { Ok(stream) });
        let copied = |e: io::Error| Error::from(Failure::new("terminal", "copy", e));
        Ok([input.map_err(copied)?, output.map_err(copied)?, errors.map_err(copied)?])
    }

    fn become_program(&self, order: &Order) -> ! {
        let _ = process::die_with_parent(true);
        // Only a session leader may take a controlling terminal (ioctl_tty(2)).
        let _ = rustix::process::setsid();
        if order.terminal.is_some() {
            // Without a controlling terminal the program gets no key signals, and says so if it matters to
            // it.
            let _ = rustix::process::ioctl_tiocsctty(rustix::stdio::stdin());
        }
        for signal in &order.ignored {
            process::set_ignored(*signal, true);
        }
        process::unblock_signals();
        let name = order.argv.first().map_or("", String::as_str);
        let directory = order.directory.as_deref().filter(|d| std::path::Path::new(d).is_dir());
        // Change directory before the program is looked up, so that a relative path resolves there.
        let _ = std::env::set_current_dir(directory.unwrap_or("/"));
        let mut command = Command::new(name);
        command.args(order.argv.iter().skip(1)).env_clear();
        let error = command.envs(order.env.iter().map(|(k, v)| (k, v))).exec();
        let path = order.env.iter().find(|(key, _)| key == "PATH").map(|(_, value)| value.as_str());
        let words = interpreter::words(&error, name, path);
        netloom_sys::journal::line(format_args!("netloom: node {:?}: {name}: {words}", order.node));
        let missing = error.kind() == io::ErrorKind::NotFound;
        process::exit_now(if missing { NOT_FOUND } else { NOT_RUNNABLE })
    }

    /// The deputy's main loop: ends with the program or with the caller.
    fn attend(&self, program: Pid) -> ! {
        let Ok(children) = process::catch(&[Signal::CHILD.as_raw()]) else {
            process::end_descendants();
            process::exit_now(1)
        };
        loop {
            while let Ok(Some((pid, exit))) = process::reap() {
                if pid == program {
                    tell(&self.caller, &Event::Ended(exit.shell_code()));
                    process::exit_now(0);
                }
            }
            let flags = rustix::event::PollFlags::IN;
            let mut fds = [
                rustix::event::PollFd::new(&self.caller, flags),
                rustix::event::PollFd::new(&children, flags),
            ];
            // Interrupted or not, check every source.
            let _ = rustix::event::poll(&mut fds, None);
            while process::next_signal(&children).is_some() {}
            if process::wait_readable(&self.caller, Duration::ZERO) {
                self.hear(program);
            }
        }
    }

    /// Forwards a signal; ends everything once the caller has ended.
    fn hear(&self, program: Pid) {
        let mut buffer = [0; MAX_MESSAGE];
        match scm::receive(&self.caller, &mut buffer) {
            Ok((n, _)) if n > 0 => {
                let told: Option<Told> = serde_json::from_slice(&buffer[..n]).ok();
                if let Some(signal) = told.and_then(|t| Signal::from_named_raw(t.signal)) {
                    // A program that has ended needs no signal.
                    let _ = rustix::process::kill_process(program, signal);
                }
            }
            _ => {
                process::end_descendants();
                process::exit_now(1)
            }
        }
    }
}

fn read(order: File) -> Result<Order> {
    let mut text = Vec::new();
    let read = order.take(MAX_ORDER).read_to_end(&mut text);
    let found = read.and_then(|_| Ok(serde_json::from_slice::<Order>(&text)?));
    found.map_err(|e| Failure::new("command", "read", e).into())
}
