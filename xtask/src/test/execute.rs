//! Runs tests of one executable: run, parse, count. Their output is shown only on failure.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::attack::Attack;
use super::kill::KillRun;
use super::outcome::{self, Verdict};
use super::plan::{Job, Selection};
use super::stage::Stage;
use super::user::User;
use crate::workspace;

/// A process that takes longer hangs: it is killed, its labs are taken down, and its unfinished tests have failed. Repeated attacks and
/// many kills may take proportionally longer.
const BOUND: Duration = Duration::from_secs(30 * 60);

/// Results of the tests.
#[derive(Clone, Debug, Default)]
pub(super) struct Outcome {
    pub(super) passed: usize,
    /// Names with their executable.
    pub(super) failed: Vec<String>,
    /// Names with their executable, and reasons.
    pub(super) skipped: Vec<(String, String)>,
}

impl Outcome {
    pub(super) fn tally(&self) -> String {
        let (failed, skipped) = (self.failed.len(), self.skipped.len());
        format!("{} passed, {failed} failed, {skipped} skipped", self.passed)
    }

    /// Number of tests.
    pub(super) fn tests(&self) -> usize {
        self.passed + self.failed.len() + self.skipped.len()
    }

    pub(super) fn add(&mut self, other: Outcome) {
        self.passed += other.passed;
        self.failed.extend(other.failed);
        self.skipped.extend(other.skipped);
    }
}

/// Runs some tests of an executable in one process. With the processor time of that process and of those that it waited
/// for.
pub(super) fn run(
    job: &Job,
    names: &[String],
    worker: usize,
    stage: &Stage,
    selection: &Selection,
) -> Result<(Outcome, Duration)> {
    let mut extra = selection.variables();
    let log = stage.skip_log(job.user, worker);
    let _ = fs::remove_file(&log);
    extra.push(("NETLOOM_SKIP_LOG", log.to_string_lossy().into_owned()));
    let mut tests = stage.command(&job.built.file, job.user, worker, &extra)?;
    tests.args(["--exact", "--test-threads=1"]).args(names);
    if selection.kill.is_some() || selection.attack.is_some() {
        tests.arg("--show-output");
    }
    let longer = selection.attack.map_or(1, Attack::rounds);
    let bound = BOUND * longer.max(selection.kill.map_or(1, KillRun::parts));
    let Finished { status, text, killed, cpu } = captured(&mut tests, stage, worker, bound)?;
    if killed && job.user != User::Caller {
        println!("{}: killed after {} s", job.title(), bound.as_secs());
        stage.take_down(job.user, worker)?;
    }
    let skips = read_skips(&log);
    let outcome = count(&job.title(), names, &text, skips, status);
    if !outcome.failed.is_empty() || selection.kill.is_some() {
        println!("--- {}\n{text}", job.title());
    }
    if selection.attack.is_some() {
        // See `netloom_kit::done`.
        for line in text.lines().filter(|line| line.starts_with("done: ")) {
            println!("{line} ({})", job.title());
        }
    }
    Ok((outcome, cpu))
}

/// The full names of the tests in doc comments.
pub(super) fn doc_names() -> Result<Vec<String>> {
    let mut cargo = workspace::cargo(&["test", "--workspace", "--doc", "--quiet"]);
    let text = workspace::output(cargo.args(["--", "--list", "--format=terse"]))?;
    let names = outcome::listed(&String::from_utf8_lossy(&text));
    Ok(names.into_iter().map(|name| format!("documentation: {name}")).collect())
}

/// Tests in doc comments; rustdoc builds and runs them itself, as the caller.
pub(super) fn doc_tests() -> Result<Outcome> {
    let mut cargo =
        workspace::cargo(&["test", "--workspace", "--doc", "--quiet", "--", "--format=pretty"]);
    let out = cargo.stdin(Stdio::null()).output().context("start cargo test --doc")?;
    let text = String::from_utf8_lossy(&out.stdout);
    let outcome = count("documentation", &[], &text, vec![], out.status);
    if !outcome.failed.is_empty() {
        println!("{text}\n{}", String::from_utf8_lossy(&out.stderr));
    }
    Ok(outcome)
}

fn count(
    title: &str,
    names: &[String],
    text: &str,
    mut skips: Vec<(String, String)>,
    status: ExitStatus,
) -> Outcome {
    let verdicts = outcome::verdicts(text);
    let mut outcome = Outcome::default();
    for (name, verdict) in &verdicts {
        let full = format!("{title}: {name}");
        // A function that skips for the test that calls it has a name of its own.
        let of = |(test, _): &(String, String)| test == name || names.len() == 1;
        let skip = skips.iter().position(of).map(|at| skips.remove(at));
        match (verdict, skip) {
            (Verdict::Failed, _) => outcome.failed.push(full),
            (Verdict::Ignored(reason), _) => {
                outcome.skipped.push((full, format!("ignored: {reason}")));
            }
            (Verdict::Passed, Some((_, reason))) => outcome.skipped.push((full, reason)),
            (Verdict::Passed, None) => outcome.passed += 1,
        }
    }
    // A reason that belongs to no test of this process would be a skip that nobody counts.
    let nobodys =
        skips.into_iter().filter(|(test, _)| names.len() > 1 && !verdicts.contains_key(test));
    outcome.failed.extend(
        nobodys
            .map(|(by, reason)| format!("{title}: {by} (skips a test of another name: {reason})")),
    );
    let silent = names.iter().filter(|name| !verdicts.contains_key(*name));
    outcome.failed.extend(silent.map(|name| format!("{title}: {name} (no result, {status})")));
    if !status.success() && outcome.failed.is_empty() {
        outcome.failed.push(format!("{title}: the executable itself ({status})"));
    }
    outcome
}

/// A process that ended.
struct Finished {
    status: ExitStatus,
    /// Standard output, then standard error.
    text: String,
    /// Whether it took too long.
    killed: bool,
    cpu: Duration,
}

/// Runs a command; its output goes through files, so that no surviving process can block this one.
fn captured(
    command: &mut Command,
    stage: &Stage,
    worker: usize,
    bound: Duration,
) -> Result<Finished> {
    let out = stage.path().join(format!("out-{worker}"));
    let err = stage.path().join(format!("err-{worker}"));
    command.stdout(File::create(&out)?).stderr(File::create(&err)?);
    let mut child = command.spawn().with_context(|| format!("start {command:?}"))?;
    let mut killed = false;
    if !ends_within(&child, bound)? {
        child.kill().context("kill a test that hangs")?;
        killed = true;
        // SIGKILL takes effect when the kernel is done with what the process has asked for.
        ends_within(&child, bound)?;
    }
    // While it waits to be reaped.
    let cpu = cpu_time(&child);
    let status = child.wait()?;
    let text = |path: &Path| fs::read(path).map(|b| String::from_utf8_lossy(&b).into_owned());
    Ok(Finished { status, text: format!("{}\n{}", text(&out)?, text(&err)?), killed, cpu })
}

/// Waits until a child has ended; it can still be reaped. `false`: it runs on.
fn ends_within(child: &Child, bound: Duration) -> Result<bool> {
    let end = pidfd_open(Pid::from_child(child), PidfdFlags::empty()).context("open a test")?;
    let bound = Timespec::try_from(bound).context("bound of a test")?;
    let ready = poll(&mut [PollFd::new(&end, PollFlags::IN)], Some(&bound));
    Ok(ready.context("wait for a test")? > 0)
}

/// Processor time of a child and of the processes that it waited for; proc_pid_stat(5), fields 14 to 17.
fn cpu_time(child: &Child) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap_or_default();
    // The name in parentheses may have blanks and parentheses; field 3 follows it.
    let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields);
    let ticks = fields.split(' ').skip(11).take(4).filter_map(|field| field.parse::<u64>().ok());
    Duration::from_millis(ticks.sum::<u64>() * 1000 / rustix::param::clock_ticks_per_second())
}

fn read_skips(log: &Path) -> Vec<(String, String)> {
    let text = fs::read_to_string(log).unwrap_or_default();
    let split = |line: &str| line.split_once('\t').map(|(a, b)| (a.to_owned(), b.to_owned()));
    text.lines().filter_map(split).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    fn names(of: &[&str]) -> Vec<String> {
        of.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn a_test_without_result_has_failed() {
        let died = ExitStatus::from_raw(11);
        let text = "test a ... ok\ntest b ... ";
        let outcome = count("x", &names(&["a", "b"]), text, vec![], died);
        assert_eq!(outcome.tally(), "1 passed, 1 failed, 0 skipped");
        assert!(outcome.failed[0].starts_with("x: b (no result"));
    }

    #[test]
    fn a_logged_skip_is_no_pass() {
        for by in ["a", "function_of_a"] {
            let skips = vec![(by.to_owned(), "root-only: b".to_owned())];
            let text = "test a ... ok\n";
            let outcome = count("x", &names(&["a"]), text, skips, ExitStatus::from_raw(0));
            assert_eq!(outcome.tally(), "0 passed, 0 failed, 1 skipped");
        }
    }

    #[test]
    fn a_skip_whose_test_is_unknown_is_a_failure() {
        let skips = vec![("c".to_owned(), "root-only: b".to_owned())];
        let text = "test a ... ok\ntest b ... ok\n";
        let outcome = count("x", &names(&["a", "b"]), text, skips, ExitStatus::from_raw(0));
        assert_eq!(outcome.tally(), "2 passed, 1 failed, 0 skipped");
        assert!(outcome.failed[0].contains("x: c (skips a test"), "{}", outcome.failed[0]);
    }

    #[test]
    fn a_failure_after_all_tests_passed_is_told() {
        let outcome =
            count("x", &names(&["a"]), "test a ... ok\n", vec![], ExitStatus::from_raw(256));
        assert_eq!(outcome.tally(), "1 passed, 1 failed, 0 skipped");
    }
}
