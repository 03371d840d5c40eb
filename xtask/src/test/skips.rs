//! Judges skips: a reason says what a test lacks, and a probe whether that is so.
//!
//! A test may be skipped as `root-only: …` if it ran as another user, as `ordinary-only: …` if it ran as root, and as
//! `missing:NAME: …` if the probe of that name in `tests/needs.txt` fails, which `tests/needs.sh` runs here and now as
//! the test's user. Any other skip is a failure. Where peers are required, so is a skip for one that set-up installs.

use std::collections::BTreeMap;
use std::fmt;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, bail};

use super::execute::Outcome;
use super::stage::Stage;
use super::user::User;
use crate::workspace;

/// Whether a user has what is needed by this name.
type Probe<'a> = dyn Fn(User, &str) -> Result<bool> + Send + Sync + 'a;

/// What tests need, and what of it is there.
pub(crate) struct Judge<'a> {
    /// By name, whether set-up installs it.
    needs: BTreeMap<String, bool>,
    /// Whether all that set-up installs has to be there.
    required: bool,
    probe: Box<Probe<'a>>,
    /// Answers of probes.
    asked: Mutex<BTreeMap<(User, String), bool>>,
}

impl fmt::Debug for Judge<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Judge").field("required", &self.required).finish_non_exhaustive()
    }
}

impl<'a> Judge<'a> {
    pub(crate) fn new(stage: &'a Stage, required: bool) -> Result<Judge<'a>> {
        let path = workspace::root().join("tests/needs.txt");
        let text = std::fs::read_to_string(&path).with_context(|| format!("read {path:?}"))?;
        let probe = |user, name: &str| probe(stage.needs(user)?, name);
        let probe: Box<Probe<'a>> = Box::new(probe);
        Ok(Judge { needs: needs(&text)?, required, probe, asked: Mutex::default() })
    }

    /// Turns every skip that is not justified for this user into a failure.
    pub(super) fn judge(&self, user: User, outcome: &mut Outcome) -> Result<()> {
        for (test, reason) in std::mem::take(&mut outcome.skipped) {
            match self.objection(user, &reason)? {
                None => outcome.skipped.push((test, reason)),
                Some(why) => outcome.failed.push(format!("{test} (skipped as {reason}; {why})")),
            }
        }
        Ok(())
    }

    /// Whether a reason is that something is missing which set-up installs.
    pub(super) fn is_for_peer(&self, reason: &str) -> bool {
        missing(reason).is_some_and(|name| self.needs.get(name) == Some(&true))
    }

    /// What is wrong with a skip.
    fn objection(&self, user: User, reason: &str) -> Result<Option<String>> {
        let is_root = match user {
            User::Root => true,
            User::Ordinary => false,
            User::Caller => rustix::process::geteuid().is_root(),
        };
        let Some(name) = missing(reason) else {
            return Ok(match reason.split_once(':').map(|(kind, _)| kind) {
                Some("root-only") if is_root => Some("but it ran as root".to_owned()),
                Some("ordinary-only") if !is_root => Some("but it did not run as root".to_owned()),
                Some("root-only" | "ordinary-only") => None,
                _ => Some("which is no reason: see tests/kit/src/skip.rs".to_owned()),
            });
        };
        Ok(match self.needs.get(name) {
            None => Some("which tests/needs.txt does not have".to_owned()),
            Some(_) if self.is_there(user, name)? => Some("but it is there".to_owned()),
            Some(true) if self.required => Some("and peers are required".to_owned()),
            Some(_) => None,
        })
    }

    /// Whether this user has what is needed by this name.
    pub(crate) fn is_there(&self, user: User, name: &str) -> Result<bool> {
        let key = (user, name.to_owned());
        // Held while the probe runs: others that ask the same
        // wait for its answer instead of running it, too.
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = asked.get(&key) {
            return Ok(*known);
        }
        let there = (self.probe)(user, name)?;
        asked.insert(key, there);
        Ok(there)
    }
}

/// Asks `tests/needs.sh`, which this command runs.
fn probe(mut script: Command, name: &str) -> Result<bool> {
    let out = script.arg(name).output().context("start tests/needs.sh")?;
    match out.status.code() {
        Some(0) => Ok(true),
        Some(1) => Ok(false),
        _ => {
            bail!("tests/needs.sh {name}: {} {}", out.status, String::from_utf8_lossy(&out.stderr))
        }
    }
}

/// The name in `missing:NAME: …`.
fn missing(reason: &str) -> Option<&str> {
    Some(reason.strip_prefix("missing:")?.split_once(':')?.0)
}

/// The names in `tests/needs.txt`, and whether set-up installs them.
fn needs(text: &str) -> Result<BTreeMap<String, bool>> {
    let mut all = BTreeMap::new();
    for (number, line) in text.lines().enumerate() {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let columns: Vec<&str> = line.splitn(6, '|').map(str::trim).collect();
        let installed = match columns.as_slice() {
            [_, "tools" | "peers", _, _, _, _] => true,
            // Few machines have a browser or the tools that pack, and need none.
            [_, "browser" | "packages", _, _, _, _] | [_, "machine", "", "", _, _] => false,
            _ => bail!(
                "tests/needs.txt:{}: not `NAME | FROM | APT | DNF | WHAT FOR | PROBE`",
                number + 1
            ),
        };
        if all.insert(columns[0].to_owned(), installed).is_some() {
            bail!("tests/needs.txt:{}: {} is there twice", number + 1, columns[0]);
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What becomes of a skip for this reason.
    fn judged(user: User, reason: &str, required: bool) -> Outcome {
        let skipped = vec![("tests/e2e: pipes".to_owned(), reason.to_owned())];
        let mut outcome = Outcome { skipped, ..Outcome::default() };
        let probe: Box<Probe<'_>> = Box::new(|_, name| Ok(name == "sh"));
        let needs = needs(LIST).unwrap();
        let judge = Judge { needs, required, probe, asked: Mutex::default() };
        judge.judge(user, &mut outcome).unwrap();
        outcome
    }

    const LIST: &str = "# a\n\nsh | tools | dash | dash | all |\nnosh | peers | no | no | none | false | true\n\
                        samples | machine | | | some |\n";

    #[test]
    fn a_skip_is_justified_by_its_user_or_by_what_is_missing() {
        for (user, reason) in [
            (User::Ordinary, "root-only: why"),
            (User::Root, "ordinary-only: why"),
            (User::Root, "missing:nosh: why"),
            (User::Ordinary, "missing:samples: why: more"),
        ] {
            assert_eq!(judged(user, reason, false).tally(), "0 passed, 0 failed, 1 skipped");
        }
    }

    #[test]
    fn any_other_skip_is_a_failure() {
        for (user, reason, why) in [
            (User::Root, "root-only: why", "but it ran as root"),
            (User::Ordinary, "ordinary-only: why", "but it did not run as root"),
            (User::Root, "missing:sh: why", "but it is there"),
            (User::Root, "missing:unheard-of: why", "does not have"),
            (User::Root, "busy: why", "no reason"),
            (User::Root, "missing", "no reason"),
        ] {
            let outcome = judged(user, reason, false);
            assert_eq!(outcome.tally(), "0 passed, 1 failed, 0 skipped", "{reason}");
            assert!(outcome.failed[0].contains(why), "{}", outcome.failed[0]);
        }
    }

    #[test]
    fn required_peers_are_those_that_are_installed() {
        assert_eq!(judged(User::Root, "missing:nosh: why", true).failed.len(), 1);
        assert_eq!(judged(User::Root, "missing:samples: why", true).skipped.len(), 1);
        assert_eq!(judged(User::Ordinary, "root-only: why", true).skipped.len(), 1);
    }

    #[test]
    fn a_wrong_list_is_told_with_its_line() {
        for (list, line) in [("a | peers | b\n", 1), ("# x\na | some | | | |\n", 2)] {
            let error = needs(list).unwrap_err().to_string();
            assert!(error.contains(&format!("needs.txt:{line}: not")), "{error}");
        }
        let twice = needs("a | machine | | | b |\na | machine | | | b |\n").unwrap_err();
        assert!(twice.to_string().contains("needs.txt:2: a is there twice"), "{twice}");
    }

    #[test]
    fn probes_are_asked_of_the_list_in_the_workspace() {
        let all =
            needs(&std::fs::read_to_string(workspace::root().join("tests/needs.txt")).unwrap());
        assert!(all.unwrap().contains_key("tshark"));
        let asked = |name| {
            let mut script = Command::new("/bin/sh");
            script.arg(workspace::root().join("tests/needs.sh"));
            probe(script, name)
        };
        assert_eq!(asked("subids").unwrap(), !asked("user-without-subids").unwrap());
        assert!(asked("unheard-of").is_err());
    }
}
