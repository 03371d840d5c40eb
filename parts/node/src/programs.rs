//! A node's programs: start, supervision, restart, and logging of their output.
//!
//! The commands of `setup` run first, one after the other; then all of `run`. The node's init owns this
//! module's state. Nothing here blocks: the init calls in when a pipe is readable, a child has ended or a
//! timer is due.

mod command;
mod output;
mod slot;

use std::fs::File;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use netloom_model::lab::{Exec, Program, Restart};
use netloom_sys::process::Exit;
use rustix::process::{Pid, Signal};

use crate::control::ProgramState;
use crate::interpreter;
use crate::log::Writer;
pub(crate) use command::command;
use command::{signal_of, spawn};
pub(crate) use slot::ended_words;
use slot::{Slot, exit_words};

/// Delay before a restart; doubles each time up to [`MAX_BACKOFF`].
const BACKOFF: Duration = Duration::from_millis(100);
const MAX_BACKOFF: Duration = Duration::from_secs(10);

/// A program that has run for this long is started again as at first.
const STEADY: Duration = Duration::from_secs(10);

/// How long a program that is no longer wanted may take to end.
const GRACE: Duration = Duration::from_secs(2);

/// Progress of a node's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Nothing has been started.
    Waiting,
    /// This command of `setup` runs.
    Setup(usize),
    /// The programs have been started.
    Running,
    /// They have, and this command of `exec` runs.
    Exec(usize),
    /// Other programs are wanted: these start when those that are not have ended.
    Changing,
    /// A command of `setup` failed: no program is started.
    Failed,
}

/// The variable that tells a program that is started again how it ended before.
const ENDED: &str = "NETLOOM_ENDED";

/// How far the commands of `exec` are, with the failures since of those that may fail.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Execs {
    /// One runs, or none has been asked for.
    Running(Vec<String>),
    /// All are done.
    Done(Vec<String>),
}

/// All programs of a node.
pub(crate) struct Programs {
    /// The programs of `run`, then the commands of `setup`, then those of `exec`, then programs that are no longer wanted
    /// and have not ended.
    slots: Vec<Slot>,
    /// Number of programs in `run`.
    runs: usize,
    /// Number of commands in `setup`.
    setups: usize,
    /// By command of `exec`: whether its failure is one of the lab, and how long it may take.
    execs: Vec<(bool, Duration)>,
    /// When the command of `exec` that runs has taken too long.
    exec_until: Option<Instant>,
    /// The command of `exec` that runs while programs change.
    exec_beside: Option<usize>,
    /// When programs that are no longer wanted are killed.
    kill_at: Option<Instant>,
    stage: Stage,
    env: Vec<(String, String)>,
    log: Option<Writer>,
    stopping: bool,
}

impl Programs {
    /// Programs before their start. `log` is `None` for a node without programs.
    pub(crate) fn new(
        run: Vec<Program>,
        setup: Vec<Vec<String>>,
        exec: Vec<Exec>,
        env: Vec<(String, String)>,
        log: Option<[File; 2]>,
    ) -> Programs {
        let (runs, setups) = (run.len(), setup.len());
        let execs = exec.iter().map(|exec| (exec.fatal, exec.timeout)).collect();
        let titled = |(i, program)| Slot::new(format!("program {}", i + 1), program);
        let mut slots: Vec<Slot> = run.into_iter().enumerate().map(titled).collect();
        slots.extend(
            setup
                .into_iter()
                .enumerate()
                .map(|(i, command)| Slot::new(format!("setup {}", i + 1), Program::once(command))),
        );
        let titled = |(i, exec): (usize, Exec)| Slot::new(format!("exec {}", i + 1), exec.program);
        slots.extend(exec.into_iter().enumerate().map(titled));
        let (log, stage, exec_until) = (log.map(Writer::new), Stage::Waiting, None);
        let kill_at = None;
        Programs {
            slots,
            runs,
            setups,
            execs,
            exec_until,
            exec_beside: None,
            kill_at,
            stage,
            env,
            log,
            stopping: false,
        }
    }

    /// The log's descriptors.
    pub(crate) fn log_files(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.log.iter().flat_map(Writer::descriptors)
    }

    /// Starts the first command of `setup`, or all programs if there is none.
    ///
    /// # Errors
    /// Describes the first that cannot be started; the rest is not started.
    pub(crate) fn start(&mut self) -> Result<(), String> {
        match self.stage {
            Stage::Waiting => self.start_from(0),
            _ => Ok(()),
        }
    }

    /// Replaces the programs: equal ones in an equal environment go on as they are, the others are asked to end. What is
    /// new starts when those have ended, see [`Programs::go_on`]. A command of `exec` that runs goes on, with its deadline.
    pub(crate) fn change(&mut self, run: Vec<Program>, env: Vec<(String, String)>, log: [File; 2]) {
        self.log.get_or_insert_with(|| Writer::new(log));
        let same = env == self.env;
        self.env = env;
        let mut old: Vec<Slot> = self.slots.drain(..self.runs).collect();
        let mut all = Vec::new();
        for (i, program) in run.into_iter().enumerate() {
            let title = format!("program {}", i + 1);
            let is_it = |slot: &Slot| same && slot.has_begun() && slot.program == program;
            all.push(match old.iter().position(is_it) {
                Some(at) => Slot { title, ..old.remove(at) },
                None => Slot::new(title, program),
            });
        }
        self.runs = all.len();
        self.slots.splice(0..0, all);
        for mut slot in old {
            slot.start_at = None;
            slot.program.restart = Restart::Never;
            let Some(pid) = slot.pid else { continue };
            // A program that has ended needs no signal.
            let _ = rustix::process::kill_process_group(pid, signal_of(slot.program.stop_signal));
            // Behind all that are wanted, until it has ended.
            self.slots.push(slot);
        }
        self.kill_at = Some(Instant::now() + GRACE);
        self.exec_beside = self.running_exec();
        self.stage = Stage::Changing;
    }

    /// The command of `exec` that runs.
    fn running_exec(&self) -> Option<usize> {
        match self.stage {
            Stage::Exec(index) => Some(index),
            Stage::Changing => self.exec_beside,
            _ => None,
        }
    }

    /// Whether no program is left that is no longer wanted.
    fn have_left(&self) -> bool {
        self.slots.len() == self.wanted()
    }

    /// Number of programs and commands that the node has.
    fn wanted(&self) -> usize {
        self.runs + self.setups + self.execs.len()
    }

    /// Continues after the current command of `setup`, or a program that is no longer wanted, has ended.
    ///
    /// # Errors
    /// It failed, or the next cannot be started: a description.
    pub(crate) fn go_on(&mut self) -> Result<(), String> {
        if self.stage == Stage::Changing && self.have_left() {
            let exec = self.exec_beside.take();
            (self.stage, self.kill_at) = (exec.map_or(Stage::Running, Stage::Exec), None);
            let new = |i: &usize| !self.slots[*i].has_begun();
            let new: Vec<usize> = (0..self.runs).filter(new).collect();
            return new.into_iter().try_for_each(|i| self.launch(i));
        }
        let Stage::Setup(index) = self.stage else { return Ok(()) };
        let slot = &self.slots[self.runs + index];
        match slot.exit {
            None => Ok(()),
            Some(Exit::Code(0)) => self.start_from(index + 1),
            Some(exit) => {
                let words = format!("{} {}", slot.name(), ended_words(exit));
                self.stage = Stage::Failed;
                Err(words)
            }
        }
    }

    /// Starts this command of `setup`, or all programs after the last command.
    fn start_from(&mut self, setup: usize) -> Result<(), String> {
        let started = if setup < self.setups {
            self.stage = Stage::Setup(setup);
            self.launch(self.runs + setup)
        } else {
            self.stage = Stage::Running;
            (0..self.runs).try_for_each(|i| self.launch(i))
        };
        if started.is_err() {
            self.stage = Stage::Failed;
        }
        started
    }

    /// Starts the first command of `exec`, or tells that there is none.
    ///
    /// # Errors
    /// It cannot be started: a description.
    pub(crate) fn exec(&mut self) -> Result<Execs, String> {
        match self.stage {
            Stage::Running => self.exec_from(0),
            _ => Ok(Execs::Running(vec![])),
        }
    }

    /// Continues after the current command of `exec` has ended.
    ///
    /// # Errors
    /// It failed and must not, or the next cannot be started: a description.
    pub(crate) fn exec_on(&mut self) -> Result<Execs, String> {
        let Stage::Exec(index) = self.stage else { return Ok(Execs::Running(vec![])) };
        let at = self.runs + self.setups + index;
        let words = match self.slots[at].exit {
            None => return Ok(Execs::Running(vec![])),
            Some(Exit::Code(0)) => return self.exec_from(index + 1),
            // `end_late_exec` takes the deadline away when it kills the command, and so marks it as late.
            Some(exit) if self.exec_until.is_some() => ended_words(exit),
            Some(_) => format!(
                "took longer than {} ms; a server, which does not end, goes to `run`",
                self.execs[index].1.as_millis()
            ),
        };
        let words = format!("{} {words}", self.slots[at].name());
        let last: Vec<String> = self.slots[at].last_lines.iter().cloned().collect();
        self.missed(index, words, &last)
    }

    /// What follows when a command of `exec` failed, after which it wrote its `last` lines.
    fn missed(&mut self, index: usize, words: String, last: &[String]) -> Result<Execs, String> {
        if self.execs[index].0 {
            self.stage = Stage::Running;
            return Err(words);
        }
        let story = last.iter().fold(words, |story, line| format!("{story}\n    {line}"));
        let mut next = self.exec_from(index + 1)?;
        let (Execs::Running(stories) | Execs::Done(stories)) = &mut next;
        stories.insert(0, story);
        Ok(next)
    }

    fn exec_from(&mut self, index: usize) -> Result<Execs, String> {
        let Some((_, timeout)) = self.execs.get(index).copied() else {
            (self.stage, self.exec_until) = (Stage::Running, None);
            return Ok(Execs::Done(vec![]));
        };
        self.stage = Stage::Exec(index);
        self.exec_until = Some(Instant::now() + timeout);
        match self.launch(self.runs + self.setups + index) {
            Ok(()) => Ok(Execs::Running(vec![])),
            Err(words) => self.missed(index, words, &[]),
        }
    }

    /// When a command of `exec` has taken too long.
    pub(crate) fn exec_until(&self) -> Option<Instant> {
        self.exec_until
    }

    /// Ends a command of `exec` that has taken too long.
    pub(crate) fn end_late_exec(&mut self, now: Instant) {
        let Some(index) = self.running_exec() else { return };
        if self.exec_until.is_none_or(|until| now < until) {
            return;
        }
        self.exec_until = None;
        if let Some(pid) = self.slots[self.runs + self.setups + index].pid {
            // It has ended, where there is nobody to kill.
            let _ = rustix::process::kill_process_group(pid, Signal::KILL);
        }
    }

    /// Whether the programs have been started.
    pub(crate) fn are_started(&self) -> bool {
        matches!(self.stage, Stage::Running | Stage::Exec(_))
    }

    /// What must happen before programs can be ready.
    pub(crate) fn before_ready(&self) -> Option<String> {
        match self.stage {
            Stage::Waiting => Some("its network is made".to_owned()),
            Stage::Setup(index) => Some(format!("{} runs", self.slots[self.runs + index].name())),
            Stage::Exec(index) => {
                let slot = &self.slots[self.runs + self.setups + index];
                Some(format!("{} runs", slot.name()))
            }
            Stage::Changing => Some("programs that are no longer wanted have ended".to_owned()),
            Stage::Running | Stage::Failed => None,
        }
    }

    fn launch(&mut self, index: usize) -> Result<(), String> {
        let slot = &mut self.slots[index];
        slot.start_at = None;
        let mut env = self.env.clone();
        env.extend(slot.exit.map(|exit| (ENDED.to_owned(), exit_words(exit))));
        let started = spawn(&slot.program, &env);
        match started {
            Ok((pid, output)) => {
                slot.pid = Some(pid);
                slot.exit = None;
                slot.started = Some(Instant::now());
                slot.output = Some(output);
                Ok(())
            }
            Err(e) => {
                let program = slot.program.command.first().map_or("", String::as_str);
                let path = env.iter().find(|(key, _)| key == "PATH").map(|(_, path)| path.as_str());
                let why = interpreter::words(&e, program, path);
                let words = format!("{}: start: {why}", slot.name());
                self.note(index, &words);
                Err(words)
            }
        }
    }

    /// Restarts what is due, and returns the time of the next restart.
    pub(crate) fn restart_due(&mut self, now: Instant) -> Option<Instant> {
        if self.kill_at.is_some_and(|at| at <= now) {
            self.kill_at = None;
            for pid in self.slots[self.wanted()..].iter().filter_map(|s| s.pid) {
                // It may end at this moment.
                let _ = rustix::process::kill_process_group(pid, Signal::KILL);
            }
        }
        for i in 0..self.slots.len() {
            if self.slots[i].start_at.is_some_and(|at| at <= now) && self.launch(i).is_err() {
                self.plan_restart(i, now);
            }
        }
        self.slots.iter().filter_map(|s| s.start_at).chain(self.kill_at).min()
    }

    fn plan_restart(&mut self, index: usize, now: Instant) {
        let slot = &mut self.slots[index];
        if slot.started.take().is_some_and(|at| now.duration_since(at) >= STEADY) {
            slot.hasty = 0;
        }
        // Ten doublings are beyond the longest pause; more than 31 would overflow the shift.
        let wait = BACKOFF.saturating_mul(1 << slot.hasty.min(10)).min(MAX_BACKOFF);
        slot.hasty += 1;
        slot.restarts += 1;
        slot.start_at = Some(now + wait);
    }

    /// Records that a child ended; `None` if it is none of the programs. Describes the end of a program that
    /// failed and is not restarted.
    pub(crate) fn ended(&mut self, pid: Pid, exit: Exit, now: Instant) -> Option<Option<String>> {
        let index = self.slots.iter().position(|s| s.pid == Some(pid))?;
        // First: what it wrote stands in the log before its end.
        self.drain_so_far(index);
        let slot = &mut self.slots[index];
        slot.pid = None;
        slot.exit = Some(exit);
        let again = match slot.program.restart {
            Restart::Never => false,
            Restart::OnFailure => exit != Exit::Code(0),
            Restart::Always => true,
        };
        let note = format!("netloom: {} {}", slot.name(), ended_words(exit));
        self.flush_partial(index);
        self.log(index, note.as_bytes());
        if again && !self.stopping {
            self.plan_restart(index, now);
        }
        if index >= self.wanted() {
            self.slots.remove(index);
            return Some(None);
        }
        let failed = index < self.runs && !self.stopping && self.slots[index].has_failed();
        Some(failed.then(|| self.story(index)))
    }

    /// Whether a program has failed for good.
    pub(crate) fn has_failure(&self) -> bool {
        self.slots[..self.runs].iter().any(Slot::has_failed)
    }

    /// State of each started program, with the last lines of its output.
    pub(crate) fn stories(&self) -> String {
        let started = |i: &usize| self.slots[*i].pid.is_some() || self.slots[*i].exit.is_some();
        // Successful commands of `setup` and `exec` are left out.
        let telling = |i: &usize| *i < self.runs || self.slots[*i].exit != Some(Exit::Code(0));
        let all = (0..self.slots.len()).filter(|i| started(i) && telling(i));
        all.map(|i| format!("\n  {}", self.story(i))).collect()
    }

    /// State of a program, with the last lines of its output.
    fn story(&self, index: usize) -> String {
        let slot = &self.slots[index];
        let mut text = format!("{} {}", slot.name(), slot.state_words());
        if slot.last_lines.is_empty() {
            text.push_str(", and wrote nothing");
        }
        for line in &slot.last_lines {
            text.push_str("\n    ");
            text.push_str(line);
        }
        text
    }

    /// Asks every program to end, by its own signal.
    pub(crate) fn stop(&mut self) {
        self.stopping = true;
        for slot in &mut self.slots {
            slot.start_at = None;
            if let Some(pid) = slot.pid {
                // A program that has ended needs no signal.
                let signal = signal_of(slot.program.stop_signal);
                let _ = rustix::process::kill_process_group(pid, signal);
            }
        }
    }

    /// Whether no program runs.
    pub(crate) fn all_ended(&self) -> bool {
        self.slots.iter().all(|s| s.pid.is_none())
    }

    /// States of the programs of `run`.
    pub(crate) fn states(&self) -> Vec<ProgramState> {
        let now = Instant::now();
        let pause = |at: Instant| at.saturating_duration_since(now).as_millis();
        let state = |s: &Slot| ProgramState {
            restart_in_ms: s.start_at.map(|at| u64::try_from(pause(at)).unwrap_or(u64::MAX)),
            command: s.program.command.clone(),
            pid: s.pid.map(|p| p.as_raw_nonzero().get()),
            exit_code: s.exit.map(Exit::shell_code),
            signal: match s.exit {
                Some(Exit::Signal(signal)) => Some(signal),
                _ => None,
            },
            restarts: s.restarts,
            ended: s.has_ended(),
        };
        self.slots[..self.runs].iter().map(state).collect()
    }
}

#[cfg(test)]
mod tests;
