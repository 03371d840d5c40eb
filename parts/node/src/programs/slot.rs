//! One program: what it is, how it runs and how it ended. It is started and watched by [`Programs`](super::Programs).

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::time::Instant;

use netloom_config::printable;
use netloom_model::lab::Program;
use netloom_sys::process::Exit;
use rustix::process::Pid;

/// How much of a command is shown in reports.
const COMMAND_TOLD: usize = 200;

/// One program.
pub(super) struct Slot {
    pub(super) program: Program,
    /// Its label: `program 2`, `setup 1`.
    pub(super) title: String,
    pub(super) last_lines: VecDeque<String>,
    pub(super) pid: Option<Pid>,
    pub(super) output: Option<OwnedFd>,
    pub(super) partial: Vec<u8>,
    pub(super) exit: Option<Exit>,
    pub(super) restarts: u32,
    /// How many of the last starts ended too soon.
    pub(super) hasty: u32,
    pub(super) started: Option<Instant>,
    pub(super) start_at: Option<Instant>,
}

impl Slot {
    pub(super) fn new(title: String, program: Program) -> Slot {
        Slot {
            program,
            title,
            last_lines: VecDeque::new(),
            pid: None,
            output: None,
            partial: Vec::new(),
            exit: None,
            restarts: 0,
            hasty: 0,
            started: None,
            start_at: None,
        }
    }

    /// Whether it was started, or is about to be started again.
    pub(super) fn has_begun(&self) -> bool {
        self.pid.is_some() || self.exit.is_some() || self.start_at.is_some()
    }

    /// `program 2 (nft -f rules)`
    pub(super) fn name(&self) -> String {
        let command = self.program.command.join(" ");
        let shown: String = command.chars().take(COMMAND_TOLD).collect();
        let rest = if shown.len() < command.len() { " …" } else { "" };
        let shown = printable::line(&shown);
        format!("{} ({shown}{rest})", self.title)
    }

    pub(super) fn state_words(&self) -> String {
        let mut words = match (self.pid, self.exit) {
            (Some(_), _) => "runs".to_owned(),
            (None, Some(exit)) => ended_words(exit),
            (None, None) => "does not run".to_owned(),
        };
        if self.restarts > 0 {
            words.push_str(&format!(", restarted {}", self.restarts));
        }
        words
    }

    /// Whether it has ended and is not restarted.
    pub(super) fn has_ended(&self) -> bool {
        self.pid.is_none() && self.start_at.is_none() && self.exit.is_some()
    }

    pub(super) fn has_failed(&self) -> bool {
        self.has_ended() && self.exit != Some(Exit::Code(0))
    }
}

pub(crate) fn ended_words(exit: Exit) -> String {
    match exit {
        Exit::Code(code) => format!("exited {code}"),
        Exit::Signal(signal) => format!("ended by signal {signal}"),
    }
}

pub(super) fn exit_words(exit: Exit) -> String {
    match exit {
        Exit::Code(code) => format!("code {code}"),
        Exit::Signal(signal) => format!("signal {signal}"),
    }
}
