//! The check of a node that repeats as long as it lives, and what its results say.
//!
//! The node's init drives it: it asks when something is due, tells which child has ended, and never waits here. A check
//! is one look at ports and files, then at most one run of the command, which is killed when it takes too long. The next
//! check begins `interval` after the end of one. A node is healthy after one good check, and unhealthy after `retries`
//! bad ones in a row; in between it stays what it was. Nothing is started again because of a bad check.

use std::process::Stdio;
use std::time::Instant;

use netloom_config::printable;
use netloom_model::lab::Health;
use netloom_sys::process::{Exit, with_open_mask};
use rustix::process::{Pid, Signal, kill_process_group};

use crate::control::HealthState;
use crate::programs::{command, ended_words};
use crate::ready;

/// A check that repeats.
pub(crate) struct Checking {
    health: Health,
    state: HealthState,
    /// When the next check begins, while none runs.
    next: Instant,
    /// The command that runs, and until when it may.
    running: Option<(Pid, Instant)>,
    late: bool,
}

impl Checking {
    /// The first check begins now.
    pub(crate) fn new(health: Health, now: Instant) -> Checking {
        Checking { health, state: HealthState::default(), next: now, running: None, late: false }
    }

    /// The results so far.
    pub(crate) fn state(&self) -> HealthState {
        self.state.clone()
    }

    /// When to call [`Checking::act`] again.
    pub(crate) fn due(&self) -> Option<Instant> {
        match self.running {
            None => Some(self.next),
            Some((_, until)) => (!self.late).then_some(until),
        }
    }

    /// Begins a check, or ends a command that takes too long.
    pub(crate) fn act(&mut self, now: Instant, env: &[(String, String)]) {
        match self.running {
            Some((pid, until)) if now >= until && !self.late => {
                self.late = true;
                // It has ended, where there is nobody to kill.
                let _ = kill_process_group(pid, Signal::KILL);
            }
            None if now >= self.next => self.begin(now, env),
            _ => {}
        }
    }

    fn begin(&mut self, now: Instant, env: &[(String, String)]) {
        if let Some(lack) = ready::lacking(&self.health.check) {
            return self.result(Err(lack), now);
        }
        let Some(argv) = &self.health.check.exec else { return self.result(Ok(()), now) };
        let mut command = command(argv, env);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let started = with_open_mask(|| command.spawn());
        match started.map(|child| i32::try_from(child.id()).ok().and_then(Pid::from_raw)) {
            Ok(Some(pid)) => self.running = Some((pid, now + self.health.check.timeout)),
            Ok(None) => self.result(Err(format!("{}: start", self.name())), now),
            Err(e) => self.result(Err(format!("{}: start: {e}", self.name())), now),
        }
    }

    /// Takes the end of the command; `false` if the child is another.
    pub(crate) fn ended(&mut self, pid: Pid, exit: Exit, now: Instant) -> bool {
        if self.running.is_none_or(|(running, _)| running != pid) {
            return false;
        }
        self.running = None;
        let result = match (std::mem::take(&mut self.late), exit) {
            (true, _) => Err(format!(
                "{} took longer than {} ms",
                self.name(),
                self.health.check.timeout.as_millis()
            )),
            (false, Exit::Code(0)) => Ok(()),
            (false, exit) => Err(format!("{} {}", self.name(), ended_words(exit))),
        };
        self.result(result, now);
        true
    }

    fn name(&self) -> String {
        let words = self.health.check.exec.as_deref().unwrap_or_default().join(" ");
        printable::line(&words.chars().take(200).collect::<String>()).into_owned()
    }

    fn result(&mut self, result: Result<(), String>, now: Instant) {
        self.next = now + self.health.interval;
        match result {
            Ok(()) => {
                self.state = HealthState { healthy: Some(true), ..HealthState::default() };
            }
            Err(reason) => {
                self.state.failures = self.state.failures.saturating_add(1);
                self.state.reason = Some(reason);
                if self.state.failures >= self.health.retries {
                    self.state.healthy = Some(false);
                }
            }
        }
    }
}

/// Ends a command that runs: nobody would take its result, nor end it when it takes too long.
impl Drop for Checking {
    fn drop(&mut self) {
        if let Some((pid, _)) = self.running {
            // It has ended, where there is nobody to kill.
            let _ = kill_process_group(pid, Signal::KILL);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use netloom_model::lab::Ready;

    use super::*;

    fn of_file(path: &str) -> Health {
        let check = Ready { files: vec![path.to_owned()], ..Ready::default() };
        Health { check, interval: Duration::from_secs(1), retries: 2 }
    }

    #[test]
    fn it_is_unhealthy_after_so_many_in_a_row_and_healthy_after_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let now = Instant::now();
        let mut checking = Checking::new(of_file(path.to_str().unwrap()), now);
        assert_eq!(checking.state(), HealthState::default());
        let mut look = |second: u64| {
            checking.act(now + Duration::from_secs(second), &[]);
            let state = checking.state();
            (state.healthy, state.failures)
        };
        assert_eq!(look(0), (None, 1));
        // Too early.
        assert_eq!(look(0), (None, 1));
        assert_eq!(look(1), (Some(false), 2));
        std::fs::write(&path, "").unwrap();
        assert_eq!(look(2), (Some(true), 0));
        std::fs::remove_file(&path).unwrap();
        assert_eq!(look(3), (Some(true), 1));
        assert_eq!(look(4), (Some(false), 2));
    }

    #[test]
    fn a_command_that_takes_too_long_is_ended_and_named() {
        let exec = ["sleep", "600"].map(str::to_owned).to_vec();
        let check = Ready { exec: Some(exec), timeout: Duration::ZERO, ..Ready::default() };
        let now = Instant::now();
        let health = Health { check, interval: Duration::from_secs(1), retries: 1 };
        let mut checking = Checking::new(health, now);
        let env = [("PATH".to_owned(), std::env::var("PATH").unwrap())];
        checking.act(now, &env);
        let (pid, until) = checking.running.unwrap();
        assert_eq!(checking.due(), Some(until));
        checking.act(until, &env);
        assert_eq!(checking.due(), None);
        let status = rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty());
        assert_eq!(status.unwrap().unwrap().1.terminating_signal(), Some(9));
        assert!(checking.ended(pid, Exit::Signal(9), until));
        assert!(!checking.ended(pid, Exit::Signal(9), until));
        assert_eq!(checking.state().healthy, Some(false));
        assert!(checking.state().reason.unwrap().contains("sleep 600 took longer than 0 ms"));
    }

    #[test]
    fn a_command_ends_with_its_check() {
        let exec = ["sleep", "600"].map(str::to_owned).to_vec();
        let check = Ready { exec: Some(exec), ..Ready::default() };
        let now = Instant::now();
        let health = Health { check, interval: Duration::from_secs(1), retries: 1 };
        let mut checking = Checking::new(health, now);
        checking.act(now, &[("PATH".to_owned(), std::env::var("PATH").unwrap())]);
        let (pid, _) = checking.running.unwrap();
        drop(checking);
        let status = rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty());
        assert_eq!(status.unwrap().unwrap().1.terminating_signal(), Some(9));
    }
}
