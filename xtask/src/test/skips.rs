//! Skips expected on each kind of machine: `tests/expected-skips.txt`.
//!
//! A line is `CONDITION TEST REASON`; `*` in test and reason matches anything. The condition is checked here
//! and now, so a skip on a machine that has what the test needs is a failure. `ordinary` and `root` are the
//! test's user; `missing:PROGRAM`, `no-module:NAME` (Python's), `no-library:NAME` (as the loader finds it),
//! `no-file:PATH`, `no-package:NAME` (in apt's lists), `no-uring`, `no-loop` and `older:VERSION` (of the kernel)
//! describe the machine; `no-userns`, `no-cgroups` and `cgroups` describe that user's rights; `any` always
//! holds. `+` combines several.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::execute::Outcome;
use super::plan::Job;
use super::user::User;
use crate::workspace;

/// The list.
#[derive(Debug)]
pub(super) struct Expected(Vec<Line>);

#[derive(Debug)]
struct Line {
    conditions: Vec<String>,
    test: String,
    reason: String,
}

impl Expected {
    pub(super) fn read() -> Result<Expected> {
        let path = workspace::root().join("tests/expected-skips.txt");
        let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        Self::parse(&text)
    }

    /// What such a file says.
    pub(super) fn parse(text: &str) -> Result<Expected> {
        parse(text)
    }

    /// All conditions, each once.
    pub(super) fn conditions(&self) -> Vec<&str> {
        let all = self.0.iter().flat_map(|line| line.conditions.iter().map(String::as_str));
        all.collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Turns every unexpected skip into a failure.
    pub(super) fn judge(&self, job: &Job, outcome: &mut Outcome) {
        self.judge_as(&job.prefix(), job.user, outcome);
    }

    /// The same of what is no job, by the first part of its tests' names.
    pub(super) fn judge_named(&self, prefix: &str, outcome: &mut Outcome) {
        self.judge_as(prefix, User::Caller, outcome);
    }

    /// The same where conditions hold as somebody says, by the tests' full names.
    pub(super) fn judge_where(&self, outcome: &mut Outcome, holds: impl Fn(&str) -> bool) {
        let test = |full: &str| full.replacen(": ", "/", 1);
        self.judge_each(outcome, test, holds);
    }

    fn judge_as(&self, prefix: &str, user: User, outcome: &mut Outcome) {
        let test = |full: &str| {
            let name = full.split_once(": ").map_or(full, |(_, name)| name);
            format!("{prefix}/{name}")
        };
        self.judge_each(outcome, test, |condition| holds(condition, user));
    }

    fn judge_each(
        &self,
        outcome: &mut Outcome,
        test: impl Fn(&str) -> String,
        holds: impl Fn(&str) -> bool,
    ) {
        let skipped = std::mem::take(&mut outcome.skipped);
        for (full, reason) in skipped {
            let test = test(&full);
            let expects = |line: &Line| {
                matches(&line.test, &test)
                    && matches(&line.reason, &reason)
                    && line.conditions.iter().all(|condition| holds(condition))
            };
            if self.0.iter().any(expects) {
                outcome.skipped.push((full, reason));
            } else {
                outcome.failed.push(format!("{full} (skipped unexpectedly: {reason})"));
            }
        }
    }
}

fn parse(text: &str) -> Result<Expected> {
    let mut lines = vec![];
    for (number, line) in text.lines().enumerate() {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let Some((conditions, test, reason)) = columns(line) else {
            bail!("tests/expected-skips.txt:{}: not `CONDITION TEST REASON`", number + 1);
        };
        let conditions: Vec<String> = conditions.split('+').map(str::to_owned).collect();
        if let Some(wrong) = conditions.iter().find(|condition| !known(condition)) {
            bail!("tests/expected-skips.txt:{}: no condition `{wrong}`", number + 1);
        }
        let (test, reason) = (test.to_owned(), reason.trim().to_owned());
        lines.push(Line { conditions, test, reason });
    }
    Ok(Expected(lines))
}

/// Two words and the rest, with any space between them.
fn columns(line: &str) -> Option<(&str, &str, &str)> {
    let (first, rest) = line.trim().split_once(char::is_whitespace)?;
    let (second, rest) = rest.trim_start().split_once(char::is_whitespace)?;
    Some((first, second, rest.trim_start()))
}

fn known(condition: &str) -> bool {
    const WORDS: [&str; 8] =
        ["any", "ordinary", "root", "no-userns", "no-cgroups", "cgroups", "no-uring", "no-loop"];
    const WITH_NAME: [&str; 6] =
        ["missing:", "no-module:", "no-library:", "no-file:", "no-package:", "older:"];
    WORDS.contains(&condition) || WITH_NAME.iter().any(|word| condition.starts_with(word))
}

fn holds(condition: &str, user: User) -> bool {
    match condition.split_once(':').unwrap_or((condition, "")) {
        // A test that runs as the caller has the caller's user.
        ("ordinary", _) => {
            user != User::Root && !rustix::process::geteuid().is_root() || user == User::Ordinary
        }
        ("root", _) => {
            user != User::Ordinary && rustix::process::geteuid().is_root() || user == User::Root
        }
        ("missing", program) => !installed(program),
        ("no-module", name) => !succeeds("python3", &["-c", &format!("import {name}")]),
        ("no-library", name) => !loads(name),
        ("older", version) => kernel() < numbers(version),
        ("no-uring", _) => !io_uring(),
        ("no-loop", _) => {
            !Path::new("/dev/loop-control").exists() && !Path::new("/dev/loop0").exists()
        }
        ("any", _) => true,
        ("no-file", path) => !Path::new(path).exists(),
        ("no-package", name) => !succeeds("apt-cache", &["show", name]),
        ("no-userns", _) => user != User::Root && !userns_allowed(),
        ("no-cgroups", _) => user == User::Ordinary && !delegated(),
        ("cgroups", _) => user == User::Root || delegated(),
        _ => false,
    }
}

fn installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let known = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    known.map(|dir| dir.join(program)).any(|file| file.is_file())
}

fn succeeds(program: &str, args: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Whether the loader's cache contains a library.
fn loads(name: &str) -> bool {
    let found = ["ldconfig", "/sbin/ldconfig"]
        .iter()
        .find_map(|program| Command::new(program).arg("-p").stderr(Stdio::null()).output().ok());
    found.is_some_and(|out| {
        String::from_utf8_lossy(&out.stdout).lines().any(|line| line.trim().starts_with(name))
    })
}

/// The first two numbers of a version.
pub(super) fn numbers(version: &str) -> (u32, u32) {
    let mut all = version.split(|c: char| !c.is_ascii_digit()).map(|n| n.parse().unwrap_or(0));
    (all.next().unwrap_or(0), all.next().unwrap_or(0))
}

fn kernel() -> (u32, u32) {
    numbers(&rustix::system::uname().release().to_string_lossy())
}

/// Whether io_uring exists and is enabled: kernels that have it list its symbols.
fn io_uring() -> bool {
    let off = fs::read_to_string("/proc/sys/kernel/io_uring_disabled");
    let built = fs::read_to_string("/proc/kallsyms")
        .is_ok_and(|all| all.contains(" io_uring_setup") || all.contains("sys_io_uring_setup"));
    built && off.map_or(true, |off| off.trim() == "0")
}

fn userns_allowed() -> bool {
    let mut unshare = Command::new("unshare");
    if rustix::process::geteuid().is_root() {
        unshare = Command::new("setpriv");
        unshare.args(["--reuid=65534", "--regid=65534", "--clear-groups", "unshare"]);
    }
    unshare.args(["--user", "--map-root-user", "--net", "true"]).stderr(Stdio::null());
    unshare.status().is_ok_and(|status| status.success())
}

/// Whether the caller's own cgroup2 folder is writable; `nobody` under root never owns one.
fn delegated() -> bool {
    if rustix::process::geteuid().is_root() {
        return false;
    }
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    own.lines().filter_map(|line| line.strip_prefix("0::")).any(|path| {
        let dir = format!("/sys/fs/cgroup{path}");
        rustix::fs::access(dir.as_str(), rustix::fs::Access::WRITE_OK).is_ok()
    })
}

/// Whether `text` is `pattern`, with `*` for anything.
fn matches(pattern: &str, text: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(text) = text.strip_prefix(head) else { return false };
    (0..=text.len()).filter(|at| text.is_char_boundary(*at)).any(|at| matches(rest, &text[at..]))
}

#[cfg(test)]
mod tests {
    use super::super::plan::Rung;
    use super::*;
    use crate::workspace::Built;

    fn judged(list: &str, user: User) -> Outcome {
        let built = Built {
            dir: "tests/e2e".into(),
            target: "exec".into(),
            file: "x".into(),
            is_test: true,
        };
        let job = Job { built, rung: Rung::EndToEnd, user };
        let full = format!("{}: pipes", job.title());
        let mut outcome =
            Outcome { skipped: vec![(full, "root-only: why".into())], ..Outcome::default() };
        parse(list).unwrap().judge(&job, &mut outcome);
        outcome
    }

    #[test]
    fn an_expected_skip_stays_one() {
        let outcome = judged("ordinary   tests-e2e/*  root-only: *\n", User::Ordinary);
        assert_eq!(outcome.tally(), "0 passed, 0 failed, 1 skipped");
    }

    #[test]
    fn any_other_fails() {
        for list in [
            "",
            "# ordinary * *\n",
            "ordinary tests-e2e/logs::* *",
            "ordinary * peer:*",
            "missing:sh * *",
            "ordinary+missing:sh * *",
        ] {
            assert_eq!(
                judged(list, User::Ordinary).tally(),
                "0 passed, 1 failed, 0 skipped",
                "{list}"
            );
        }
        assert_eq!(judged("ordinary * *", User::Root).failed.len(), 1);
    }

    #[test]
    fn a_wrong_list_is_told_with_its_line() {
        let error = parse("# a\nsometimes * *\n").unwrap_err().to_string();
        assert!(error.contains("txt:2: no condition `sometimes`"), "{error}");
        assert!(parse("ordinary *\n").is_err());
    }

    #[test]
    fn conditions_of_the_machine_are_checked() {
        for (condition, expected) in [
            ("any", true),
            ("missing:sh", false),
            ("no-library:libc.so.6", false),
            ("no-library:libnone.so.9", true),
            ("no-module:no_such_module", true),
            ("no-package:no-such-package-1", true),
            ("older:2.6", false),
            ("older:99.0", true),
        ] {
            assert!(known(condition), "{condition}");
            assert_eq!(holds(condition, User::Root), expected, "{condition}");
        }
        assert!(numbers("6.18.44-x") == (6, 18) && numbers("6.3") < numbers("6.12"));
        assert!(!known("no-such") && !known("some:sh"));
    }

    #[test]
    fn patterns_match_whole_texts() {
        assert!(matches("a*c", "abbc") && matches("*", "") && matches("a::*::b", "a::x::y::b"));
        assert!(!matches("a*c", "abcd") && !matches("a", "ab"));
    }
}
