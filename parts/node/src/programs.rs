//! A node's programs: started, watched, started again, their output written to the node's log.
//!
//! Owned by the node's init. Nothing here waits: the init calls in when a pipe is readable, a child
//! has ended or a time has come.

use std::fs::File;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use netloom_model::lab::{Program, Restart};
use netloom_sys::process::{Exit, with_open_mask};
use rustix::process::{Pid, Signal};

use crate::control::ProgramState;
use crate::log::{LINE_LIMIT, Writer};

/// Wait before a program is started again; doubled each time up to [`MAX_BACKOFF`].
const BACKOFF: Duration = Duration::from_millis(100);
const MAX_BACKOFF: Duration = Duration::from_secs(10);

/// One program.
struct Slot {
    program: Program,
    pid: Option<Pid>,
    output: Option<OwnedFd>,
    partial: Vec<u8>,
    exit: Option<Exit>,
    restarts: u32,
    start_at: Option<Instant>,
}

/// All programs of a node.
pub(crate) struct Programs {
    slots: Vec<Slot>,
    env: Vec<(String, String)>,
    log: Option<Writer>,
    last_lines: Vec<String>,
    stopping: bool,
}

impl Programs {
    /// Programs not started yet. `log` is `None` for a node without programs.
    pub(crate) fn new(
        programs: Vec<Program>,
        env: Vec<(String, String)>,
        log: Option<[File; 2]>,
    ) -> Programs {
        let slot = |program| Slot {
            program,
            pid: None,
            output: None,
            partial: Vec::new(),
            exit: None,
            restarts: 0,
            start_at: None,
        };
        Programs {
            slots: programs.into_iter().map(slot).collect(),
            env,
            log: log.map(Writer::new),
            last_lines: Vec::new(),
            stopping: false,
        }
    }

    /// The log's descriptors.
    pub(crate) fn log_files(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.log.iter().flat_map(Writer::descriptors)
    }

    /// Starts all, in order.
    ///
    /// # Errors
    /// The first that cannot be started, in words; the rest is not started.
    pub(crate) fn start(&mut self) -> Result<(), String> {
        (0..self.slots.len()).try_for_each(|i| self.launch(i))
    }

    fn launch(&mut self, index: usize) -> Result<(), String> {
        let slot = &mut self.slots[index];
        slot.start_at = None;
        let name = slot.program.command.first().cloned().unwrap_or_default();
        let started = spawn(&slot.program.command, &self.env);
        match started {
            Ok((pid, output)) => {
                slot.pid = Some(pid);
                slot.exit = None;
                slot.output = Some(output);
                Ok(())
            }
            Err(e) => {
                let words = format!("program {} ({name:?}): start: {e}", index + 1);
                self.note(index, &words);
                Err(words)
            }
        }
    }

    /// Starts again what is due, and tells when the next is.
    pub(crate) fn restart_due(&mut self, now: Instant) -> Option<Instant> {
        for i in 0..self.slots.len() {
            if self.slots[i].start_at.is_some_and(|at| at <= now) && self.launch(i).is_err() {
                self.plan_restart(i, now);
            }
        }
        self.slots.iter().filter_map(|s| s.start_at).min()
    }

    fn plan_restart(&mut self, index: usize, now: Instant) {
        let slot = &mut self.slots[index];
        let wait = BACKOFF.saturating_mul(1 << slot.restarts.min(10)).min(MAX_BACKOFF);
        slot.restarts += 1;
        slot.start_at = Some(now + wait);
    }

    /// Notes that a child ended; `false` when it is none of the programs.
    pub(crate) fn ended(&mut self, pid: Pid, exit: Exit, now: Instant) -> bool {
        let Some(index) = self.slots.iter().position(|s| s.pid == Some(pid)) else { return false };
        self.drain(index);
        let slot = &mut self.slots[index];
        slot.pid = None;
        slot.exit = Some(exit);
        let again = match slot.program.restart {
            Restart::Never => false,
            Restart::OnFailure => exit != Exit::Code(0),
            Restart::Always => true,
        };
        let words = match exit {
            Exit::Code(c) => format!("exited with status {c}"),
            Exit::Signal(s) => format!("ended by signal {s}"),
        };
        let name = slot.program.command.first().cloned().unwrap_or_default();
        self.note(index, &format!("netloom: program {} ({name:?}) {words}", index + 1));
        if again && !self.stopping {
            self.plan_restart(index, now);
        }
        true
    }

    /// Whether a program has failed for good, in words.
    pub(crate) fn failure(&self) -> Option<String> {
        let failed = |s: &&Slot| {
            s.pid.is_none() && s.start_at.is_none() && s.exit.is_some_and(|e| e != Exit::Code(0))
        };
        self.slots.iter().find(failed)?;
        Some(self.last_lines.join("\n    "))
    }

    /// Descriptors of output to watch, with the program's number.
    pub(crate) fn outputs(&self) -> impl Iterator<Item = (usize, &OwnedFd)> {
        self.slots.iter().enumerate().filter_map(|(i, s)| Some((i, s.output.as_ref()?)))
    }

    /// Takes what a program has written so far into the log.
    pub(crate) fn drain(&mut self, index: usize) {
        let mut buffer = [0u8; 16 << 10];
        loop {
            let Some(output) = &self.slots[index].output else { return };
            match rustix::io::read(output, &mut buffer) {
                Ok(0) => {
                    self.slots[index].output = None;
                    self.flush_partial(index);
                    return;
                }
                Ok(n) => self.take(index, &buffer[..n]),
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return,
            }
        }
    }

    fn take(&mut self, index: usize, bytes: &[u8]) {
        for byte in bytes {
            if *byte == b'\n' {
                self.flush_line(index);
            } else {
                self.slots[index].partial.push(*byte);
                if self.slots[index].partial.len() >= LINE_LIMIT {
                    self.flush_line(index);
                }
            }
        }
    }

    fn flush_partial(&mut self, index: usize) {
        if !self.slots[index].partial.is_empty() {
            self.flush_line(index);
        }
    }

    fn flush_line(&mut self, index: usize) {
        let line = std::mem::take(&mut self.slots[index].partial);
        self.write(index, &line);
    }

    fn note(&mut self, index: usize, text: &str) {
        self.flush_partial(index);
        self.write(index, text.as_bytes());
    }

    fn write(&mut self, index: usize, line: &[u8]) {
        self.last_lines.push(String::from_utf8_lossy(line).into_owned());
        if self.last_lines.len() > 6 {
            self.last_lines.remove(0);
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        if let Some(log) = &mut self.log {
            log.add(u64::try_from(now.as_nanos()).unwrap_or(u64::MAX), index, line);
        }
    }

    /// Asks every program to end.
    pub(crate) fn stop(&mut self) {
        self.stopping = true;
        for slot in &mut self.slots {
            slot.start_at = None;
            if let Some(pid) = slot.pid {
                // A program that is gone already needs no signal.
                let _ = rustix::process::kill_process_group(pid, Signal::TERM);
            }
        }
    }

    /// Whether none runs.
    pub(crate) fn all_ended(&self) -> bool {
        self.slots.iter().all(|s| s.pid.is_none())
    }

    /// How they are.
    pub(crate) fn states(&self) -> Vec<ProgramState> {
        let state = |s: &Slot| ProgramState {
            command: s.program.command.clone(),
            pid: s.pid.map(|p| p.as_raw_nonzero().get()),
            exit_code: s.exit.map(Exit::shell_code),
            restarts: s.restarts,
        };
        self.slots.iter().map(state).collect()
    }
}

/// A command with a node's environment, in a process group of its own, standard input empty.
pub(crate) fn command(argv: &[String], env: &[(String, String)]) -> Command {
    let mut command = Command::new(argv.first().map_or("", String::as_str));
    command.args(argv.iter().skip(1)).env_clear().envs(env.iter().map(|(k, v)| (k, v)));
    command.current_dir("/").process_group(0).stdin(Stdio::null());
    command
}

fn spawn(argv: &[String], env: &[(String, String)]) -> io::Result<(Pid, OwnedFd)> {
    let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    rustix::io::ioctl_fionbio(&read, true)?;
    let mut command = command(argv, env);
    command.stdout(Stdio::from(write.try_clone()?)).stderr(Stdio::from(write));
    let child = with_open_mask(|| command.spawn())?;
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    Ok((pid.ok_or(io::ErrorKind::InvalidData)?, read))
}
