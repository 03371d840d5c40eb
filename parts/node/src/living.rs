//! The life of a node's init, after its birth ([`crate::init`]): it reaps children, runs the node's programs, writes their log,
//! finds out when the node is ready, and answers on its control socket, one message at a time.

use std::fs::File;
use std::io::{Read, Seek};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use netloom_control::{Desk, Incoming};
use netloom_model::lab::{Health, Ready};
use netloom_sys::caps::Grant;
use netloom_sys::process;
use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, Signal, kill_process_group};

use crate::by_init::deputy;
use crate::control::{Answer, Inits, MAX_MESSAGE, NodeReport, Request, Wanted};
use crate::figures::Figures;
use crate::health::Checking;
use crate::programs::{Execs, Programs, command};
use crate::ready;
use crate::settle;

/// First and longest pause between two checks for readiness.
const FIRST_LOOK: Duration = Duration::from_millis(2);
const SLOWEST_LOOK: Duration = Duration::from_millis(50);

/// Limits on the CPU time that a node's processes use, and on how long they are active, before the node
/// counts as busy instead of starting; see [`settle`].
const SETTLING_CPU: Duration = Duration::from_millis(250);
const SETTLING: Duration = Duration::from_secs(3);

/// The signals of an init.
const CHILD: i32 = Signal::CHILD.as_raw();
const TERM: i32 = Signal::TERM.as_raw();
/// Somebody opens one of its figures.
const IO: i32 = Signal::IO.as_raw();

/// Takes the signals that an init handles, as a descriptor, from now on.
pub(crate) fn signals() -> netloom_sys::Result<OwnedFd> {
    // The spawner ignores it to have inits reaped by the kernel; inherited, that would take the exit status
    // of programs from this init (wait(2)).
    process::set_ignored(CHILD, false);
    process::signalfd(&[CHILD, TERM, IO])
}

/// A node's init that lives.
pub(crate) struct Init {
    /// Capabilities of its programs.
    grant: Grant,
    desk: Desk<Inits>,
    signals: OwnedFd,
    programs: Programs,
    /// Those who requested the start and are told the result.
    starters: Vec<u64>,
    waiting: Option<Waiting>,
    /// Why the node failed to become ready.
    failed: Option<String>,
    env: Vec<(String, String)>,
    conditions: Conditions,
    figures: Figures,
    /// The check that repeats, once the node is ready.
    checking: Option<Checking>,
    stop_at: Option<Instant>,
}

/// When a node is ready, and how it is looked after from then on.
pub(crate) struct Conditions {
    pub(crate) ready: Ready,
    /// A file in which a program says what it waits for.
    pub(crate) told_in: Option<PathBuf>,
    pub(crate) health: Option<Health>,
}

/// Pending readiness: somebody waits for it.
struct Waiting {
    until: Instant,
    next: Instant,
    pause: Duration,
    probe: Option<Pid>,
    probe_ok: bool,
    /// The parts that are still missing.
    lacks: String,
    /// All conditions of `ready` were met: since when, and the CPU time used until then.
    fulfilled: Option<(Instant, Duration)>,
}

impl Waiting {
    fn new(ready: &Ready, now: Instant) -> Waiting {
        Waiting {
            until: now + ready.timeout,
            next: now,
            pause: FIRST_LOOK,
            probe: None,
            probe_ok: ready.exec.is_none(),
            lacks: String::new(),
            fulfilled: None,
        }
    }

    /// Runs the ready command unless it is running.
    fn probe(&mut self, argv: &[String], env: &[(String, String)]) {
        if self.probe.is_some() {
            return;
        }
        let quiet = std::process::Stdio::null;
        let mut command = command(argv, env);
        command.stdout(quiet()).stderr(quiet());
        let child = process::with_open_mask(|| command.spawn());
        self.probe = child.ok().and_then(|c| Pid::from_raw(i32::try_from(c.id()).ok()?));
    }
}

/// Ends a ready command that runs: nobody would take its result, and one that hangs would stay for ever.
impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(pid) = self.probe {
            // It has ended, where there is nobody to kill.
            let _ = kill_process_group(pid, Signal::KILL);
        }
    }
}

impl Init {
    /// An init that listens at its control socket, for programs with these capabilities, this environment and these
    /// conditions of being ready.
    pub(crate) fn new(
        (desk, signals): (Desk<Inits>, OwnedFd),
        programs: Programs,
        grant: Grant,
        env: Vec<(String, String)>,
        conditions: Conditions,
        figures: Figures,
    ) -> Init {
        Init {
            grant,
            desk,
            signals,
            programs,
            starters: vec![],
            waiting: None,
            failed: None,
            env,
            conditions,
            figures,
            checking: None,
            stop_at: None,
        }
    }

    /// Descriptors that stay open.
    pub(crate) fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        let own = self.desk.descriptors().chain([self.signals.as_fd()]);
        own.chain(self.programs.log_files()).chain(self.figures.descriptors()).collect()
    }

    /// Why `/proc` has figures of the machine for the node's own, if it does.
    pub(crate) fn has_figures_of_machine(&self) -> Option<&str> {
        self.figures.refused()
    }

    /// Serves until the node is to end.
    pub(crate) fn run(&mut self) -> ! {
        loop {
            // A child that ended while the signal mask was open for another caused no signal.
            self.on_signals();
            let timeout = self.next_time();
            let (asked, outputs) = self.wait(timeout);
            self.on_signals();
            for index in outputs {
                self.programs.drain(index);
            }
            if asked {
                self.desk.turn().into_iter().for_each(|asked| self.serve(asked));
            }
            self.look();
            self.keep_up();
            let late = |at: Instant| self.programs.all_ended() || Instant::now() >= at;
            if self.stop_at.is_some_and(late) {
                process::exit_now(0);
            }
        }
    }

    fn next_time(&mut self) -> Option<Instant> {
        let restart = self.programs.restart_due(Instant::now());
        let look = self.waiting.as_ref().map(|w| w.next);
        let check = self.checking.as_ref().and_then(Checking::due);
        let exec = self.programs.exec_until();
        let figures = self.figures.due();
        [restart, look, check, exec, figures, self.stop_at].into_iter().flatten().min()
    }

    /// Waits for an event: whether somebody asks, and the readable outputs.
    fn wait(&self, until: Option<Instant>) -> (bool, Vec<usize>) {
        let outputs: Vec<(usize, &OwnedFd)> = self.programs.outputs().collect();
        let mut fds =
            vec![PollFd::new(&self.signals, PollFlags::IN), PollFd::new(&self.desk, PollFlags::IN)];
        fds.extend(outputs.iter().map(|(_, o)| PollFd::new(*o, PollFlags::IN)));
        let timeout = until.map(|t| process::timespec(t.saturating_duration_since(Instant::now())));
        // Interrupted or refused: the loop checks everything again.
        let _ = rustix::event::poll(&mut fds, timeout.as_ref());
        let awake = |i: usize| !fds[i].revents().is_empty();
        let ready = outputs.iter().enumerate().filter(|(i, _)| awake(2 + i));
        (awake(1), ready.map(|(_, (index, _))| *index).collect())
    }

    fn on_signals(&mut self) {
        while let Some(signal) = process::next_signal(&self.signals) {
            if signal == TERM {
                self.begin_stop(Duration::from_secs(1));
            }
        }
        // Also without a signal: none is kept for an init while its mask is open for a program.
        self.figures.asked();
        let now = Instant::now();
        self.figures.keep_up(now);
        while let Ok(Some((pid, exit))) = process::reap() {
            if let Some(failure) = self.programs.ended(pid, exit, now) {
                if let Some(story) = failure {
                    self.answer_start(&Answer::Ended(story));
                }
                if let Err(words) = self.programs.go_on() {
                    self.fail(&words);
                } else {
                    // Also while other programs are waited for: a command of `exec` goes on beside a change.
                    let execs = self.programs.exec_on();
                    self.answer_exec(execs);
                    if let Some(waiting) = &mut self.waiting {
                        // The end of a program may be what it waits for, or what makes it never come.
                        waiting.next = now;
                    }
                }
                continue;
            }
            if self.checking.as_mut().is_some_and(|checking| checking.ended(pid, exit, now)) {
                continue;
            }
            if let Some(waiting) = self.waiting.as_mut().filter(|w| w.probe == Some(pid)) {
                waiting.probe = None;
                waiting.probe_ok = exit == process::Exit::Code(0);
                waiting.next = if waiting.probe_ok { now } else { now + waiting.pause };
            }
        }
    }

    fn serve(&mut self, asked: Incoming<Request>) {
        let Incoming { by, request, with } = asked;
        match request {
            Request::Run => deputy::fork(self.grant, with),
            Request::Start => {
                self.tell_result_to(by);
                self.start();
            }
            Request::Exec => {
                self.tell_result_to(by);
                let execs = self.programs.exec();
                self.answer_exec(execs);
            }
            Request::Change => match asked_change(with) {
                Some((wanted, log)) => {
                    self.tell_result_to(by);
                    self.change(wanted, log);
                }
                None => self.desk.close(by),
            },
            Request::Programs => {
                let answer = Answer::Programs(self.programs.states());
                self.desk.answer(by, &answer);
            }
            Request::Report => {
                let report = self.report();
                self.desk.answer(by, &Answer::Report(report));
            }
            Request::Gauges(names) => {
                self.figures.measure_by(names, with);
                self.desk.close(by);
            }
            Request::Stop { grace_ms } => self.begin_stop(Duration::from_millis(grace_ms)),
        }
    }

    fn tell_result_to(&mut self, caller: u64) {
        // Those that have gone leave the list here, where it would grow.
        self.starters.retain(|known| *known != caller && self.desk.has(*known));
        self.starters.push(caller);
    }

    /// Answers the connections that requested the start.
    fn answer_start(&mut self, answer: &Answer) {
        self.starters.iter().for_each(|caller| self.desk.answer(*caller, answer));
    }

    /// Tells how far the commands of `exec` are.
    fn answer_exec(&mut self, execs: Result<Execs, String>) {
        let (missed, done) = match execs {
            Err(words) => return self.fail(&words),
            Ok(Execs::Running(missed)) => (missed, false),
            Ok(Execs::Done(missed)) => (missed, true),
        };
        for story in missed {
            self.answer_start(&Answer::Missed(story));
        }
        // A caller that waits for programs is answered when these are ready.
        if done && self.waiting.is_none() {
            self.answer_start(&Answer::Ready);
        }
    }

    /// Does what is due once the node is ready: its check, and the end of a command that takes too long.
    fn keep_up(&mut self) {
        let now = Instant::now();
        self.programs.end_late_exec(now);
        let stopping = self.stop_at.is_some();
        if let Some(checking) = self.checking.as_mut().filter(|_| !stopping) {
            checking.act(now, &self.env);
        }
    }

    fn report(&self) -> NodeReport {
        let waiting = self.waiting.as_ref().map(|w| w.lacks.clone());
        let before = || self.programs.before_ready().filter(|_| self.failed.is_none());
        NodeReport {
            programs: self.programs.states(),
            waits_for: before().or(waiting),
            failed: self.failed.clone(),
            health: self.checking.as_ref().map(Checking::state),
        }
    }

    fn start(&mut self) {
        if self.waiting.is_some() {
            return;
        }
        // It starts again once the node is ready again.
        self.checking = None;
        if let Some(failed) = self.failed.clone() {
            return self.answer_start(&Answer::Failed(failed));
        }
        if let Err(words) = self.programs.start() {
            return self.fail(&words);
        }
        self.await_readiness();
    }

    /// Runs other programs from now on.
    fn change(&mut self, wanted: Wanted, log: [File; 2]) {
        let Wanted { run, env, ready, health } = wanted;
        self.env.clone_from(&env);
        self.conditions.ready = ready;
        if self.conditions.health != health {
            self.conditions.health = health;
            self.checking = None;
        }
        // What failed may be what is replaced.
        self.failed = None;
        self.programs.change(run, env, log);
        if let Err(words) = self.programs.go_on() {
            return self.fail(&words);
        }
        self.await_readiness();
    }

    fn await_readiness(&mut self) {
        let now = Instant::now();
        self.waiting = Some(Waiting::new(&self.conditions.ready, now));
    }

    /// The node cannot become ready: reports why, and the programs' last output.
    fn fail(&mut self, words: &str) {
        self.waiting = None;
        self.failed = Some(words.to_owned());
        self.programs.drain_all();
        let mut told = format!("{words}{}", self.programs.stories());
        // Messages are bounded, and JSON may need six bytes for one.
        while serde_json::to_vec(&told).is_ok_and(|json| json.len() > MAX_MESSAGE / 2) {
            told = told.chars().take(told.chars().count() / 2).collect();
        }
        self.answer_start(&Answer::Failed(told));
    }

    /// Checks for readiness when a check is due.
    fn look(&mut self) {
        let now = Instant::now();
        let Some(waiting) = self.waiting.as_mut().filter(|w| w.next <= now) else { return };
        waiting.pause = (waiting.pause * 3 / 2).min(SLOWEST_LOOK);
        waiting.next = now + waiting.pause;
        let late = now >= waiting.until;
        match self.lacking() {
            None if self.has_settled(now) => {
                self.waiting = None;
                // One that goes on has its results.
                let health = self.conditions.health.clone();
                let fresh = || health.map(|health| Checking::new(health, now));
                self.checking = self.checking.take().or_else(fresh);
                self.answer_start(&Answer::Ready);
            }
            None => {}
            Some(lack) if self.programs.are_started() && self.programs.has_failure() => {
                self.fail(&format!("not ready: {lack}"));
            }
            Some(lack) if late => self.fail(&format!("not ready in time: {lack}")),
            Some(lack) => {
                if let Some(waiting) = &mut self.waiting {
                    waiting.lacks = lack;
                }
            }
        }
    }

    /// The first unmet condition of `ready`; `None` once all were met.
    fn lacking(&mut self) -> Option<String> {
        let waiting = self.waiting.as_ref()?;
        if waiting.fulfilled.is_some() {
            return None;
        }
        if let Some(before) = self.programs.before_ready() {
            return Some(before);
        }
        if let Some(lack) = ready::lacking(&self.conditions.ready) {
            return Some(lack);
        }
        if let Some(lack) = self.conditions.told_in.as_deref().and_then(ready::told) {
            return Some(lack);
        }
        if !waiting.probe_ok {
            self.probe();
            return Some("its ready command does not succeed".to_owned());
        }
        None
    }

    /// Whether nothing in the node is active any more, so that a program that fails at once has failed. A
    /// node that stays active is not waited for beyond the limits.
    fn has_settled(&mut self, now: Instant) -> bool {
        let Some(waiting) = &mut self.waiting else { return true };
        if self.programs.all_ended() || settle::has_settled() {
            return true;
        }
        let (since, used) = *waiting.fulfilled.get_or_insert_with(|| {
            waiting.pause = FIRST_LOOK;
            waiting.next = now + FIRST_LOOK;
            (now, settle::cpu_time())
        });
        waiting.lacks = "its programs are at work".to_owned();
        now >= since + SETTLING || settle::cpu_time() >= used + SETTLING_CPU
    }

    /// Runs the ready command unless it is running.
    fn probe(&mut self) {
        if let (Some(waiting), Some(argv)) = (&mut self.waiting, &self.conditions.ready.exec) {
            waiting.probe(argv, &self.env);
        }
    }

    fn begin_stop(&mut self, grace: Duration) {
        if self.stop_at.is_none() {
            self.programs.stop();
            self.stop_at = Some(Instant::now() + grace);
        }
    }
}

/// What comes with [`Request::Change`].
fn asked_change(fds: Vec<OwnedFd>) -> Option<(Wanted, [File; 2])> {
    let [wanted, a, b] = <[OwnedFd; 3]>::try_from(fds).ok()?.map(File::from);
    let (mut wanted, mut bytes) = (wanted, Vec::new());
    // The caller's place in the file came along with it: at the end.
    wanted.rewind().ok()?;
    wanted.read_to_end(&mut bytes).ok()?;
    Some((serde_json::from_slice(&bytes).ok()?, [a, b]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ready_command_that_hangs_ends_with_the_wait() {
        let ready =
            Ready { exec: Some(["sleep", "600"].map(str::to_owned).into()), ..Ready::default() };
        let mut waiting = Waiting::new(&ready, Instant::now());
        let env = [("PATH".to_owned(), std::env::var("PATH").unwrap())];
        waiting.probe(ready.exec.as_deref().unwrap(), &env);
        let pid = waiting.probe.unwrap();
        drop(waiting);
        let status = rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty());
        assert_eq!(status.unwrap().unwrap().1.terminating_signal(), Some(9));
    }
}
