//! What becomes a process: commands, their users and signals.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use netloom_model::lab::Program;
use netloom_model::signal::StopSignal;
use netloom_sys::process::{start_as, with_open_mask};
use rustix::process::{Pid, Signal};

use crate::people;

/// A command with a node's environment, in its own process group, with empty standard input.
pub(crate) fn command(argv: &[String], env: &[(String, String)]) -> Command {
    let mut command = Command::new(argv.first().map_or("", String::as_str));
    command.args(argv.iter().skip(1)).env_clear().envs(env.iter().map(|(k, v)| (k, v)));
    // A group of its own: a stop reaches what it has started, too, and never the init.
    command.current_dir("/").process_group(0).stdin(Stdio::null());
    command
}

/// A program's command, as its user, where it starts.
fn command_of(
    program: &Program,
    env: &[(String, String)],
    output: &OwnedFd,
) -> io::Result<Command> {
    let mut command = command(&program.command, env);
    if let Some(directory) = &program.workdir {
        if program.makes_workdir {
            // Where it cannot be made, it is missing to the program, too, and said so.
            let _ = std::fs::create_dir_all(directory);
        }
        command.current_dir(directory);
    }
    if program.user.is_none() && program.group.is_none() {
        return Ok(command);
    }
    let user = program.user.as_deref().unwrap_or("0");
    let person = people::find(user, program.group.as_deref()).map_err(io::Error::other)?;
    let is_default = |(key, value): &(String, String)| key == "HOME" && value == people::HOME;
    if let (Some(home), true) = (&person.home, env.iter().any(is_default)) {
        command.env("HOME", home);
    }
    if (person.identity.user, person.identity.group) == (0, 0) {
        // It is root, also where nobody may change.
        return Ok(command);
    }
    // Programs that open /dev/stdout need it to be theirs; where that is refused it is root's.
    let uid = rustix::fs::Uid::from_raw(person.identity.user);
    let _ = rustix::fs::fchown(output, Some(uid), None);
    start_as(&mut command, person.identity);
    Ok(command)
}

pub(super) fn signal_of(signal: StopSignal) -> Signal {
    match signal {
        StopSignal::Hup => Signal::HUP,
        StopSignal::Int => Signal::INT,
        StopSignal::Kill => Signal::KILL,
        StopSignal::Quit => Signal::QUIT,
        StopSignal::Term => Signal::TERM,
        StopSignal::Usr1 => Signal::USR1,
        StopSignal::Usr2 => Signal::USR2,
        StopSignal::Winch => Signal::WINCH,
    }
}

/// Starts a program, with a pipe of its output that does not block.
pub(super) fn spawn(program: &Program, env: &[(String, String)]) -> io::Result<(Pid, OwnedFd)> {
    let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    // Only this end: the init must not wait for output, but a program waits while its pipe is full, as
    // elsewhere.
    rustix::io::ioctl_fionbio(&read, true)?;
    let mut command = command_of(program, env, &write)?;
    command.stdout(Stdio::from(write.try_clone()?)).stderr(Stdio::from(write));
    // The init blocks the signals that it takes by descriptor; a mask is kept by execve (signal(7)).
    let child = with_open_mask(|| command.spawn())?;
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    Ok((pid.ok_or(io::ErrorKind::InvalidData)?, read))
}
