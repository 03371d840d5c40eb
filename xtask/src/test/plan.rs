//! What is run: rungs, and for each executable the users it runs as.

use std::path::Path;

use anyhow::{Context, Result, bail};

use super::kill::KillRun;
use super::stage::Rights;
use crate::workspace::Built;

/// A kind of tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rung {
    /// Beside the code.
    Unit,
    /// Against kernel objects in fresh namespaces.
    Netns,
    /// Runs of the binary.
    EndToEnd,
    /// Others' programs on our switches.
    Peers,
}

/// Whom a test executable runs as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum User {
    /// The one who called, with all rights that one has: for tests that touch no kernel object.
    Caller,
    /// One without any privilege.
    Ordinary,
    /// Root.
    Root,
}

/// What was asked for.
#[derive(Debug, Default)]
pub(super) struct Selection {
    rung: Option<Rung>,
    pub(super) filter: Option<String>,
    pub(super) kill: Option<KillRun>,
}

/// One executable to run as one user.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) built: Built,
    pub(super) rung: Rung,
    pub(super) user: User,
}

impl Selection {
    pub(super) fn parse(args: &[String]) -> Result<Selection> {
        let Some((first, rest)) = args.split_first() else { return Ok(Selection::default()) };
        let rung = match first.as_str() {
            "unit" => Rung::Unit,
            "netns" => Rung::Netns,
            "e2e" => Rung::EndToEnd,
            "peers" => Rung::Peers,
            "kill" => {
                let kill = Some(KillRun::parse(rest)?);
                return Ok(Selection { rung: Some(Rung::EndToEnd), filter: None, kill });
            }
            other => bail!("no rung `{other}`: unit, netns, e2e, peers or kill"),
        };
        if rest.len() > 1 {
            bail!("one filter at most, got {rest:?}");
        }
        Ok(Selection { rung: Some(rung), filter: rest.first().cloned(), kill: None })
    }

    pub(super) fn includes(&self, rung: Rung) -> bool {
        self.rung.is_none_or(|only| only == rung)
    }

    /// Arguments for cargo: only what the chosen rung needs is built.
    pub(super) fn build_args(&self) -> [&'static str; 3] {
        match self.rung {
            None | Some(Rung::Unit) => ["test", "--no-run", "--workspace"],
            Some(Rung::Netns) => ["test", "--no-run", "--package=netloom-tests-netns"],
            Some(Rung::EndToEnd) => ["test", "--no-run", "--package=netloom-tests-e2e"],
            Some(Rung::Peers) => ["test", "--no-run", "--package=netloom-tests-peers"],
        }
    }

    fn wants(&self, built: &Built, rung: Rung) -> bool {
        self.includes(rung) && (self.kill.is_none() || built.target == KillRun::TARGET)
    }

    /// What the names of an executable's tests are filtered by: nothing when it is chosen itself.
    pub(super) fn filter_in(&self, built: &Built) -> Option<&str> {
        self.filter.as_deref().filter(|filter| *filter != built.target)
    }
}

impl Job {
    /// `tests/e2e exec as root`.
    pub(super) fn title(&self) -> String {
        let user = match self.user {
            User::Caller => "",
            User::Ordinary => " as ordinary user",
            User::Root => " as root",
        };
        format!("{} {}{user}", self.built.dir.display(), self.built.target)
    }

    /// `tests-e2e/exec`, the first part of a test's name in the list of expected skips.
    pub(super) fn prefix(&self) -> String {
        format!("{}/{}", self.built.dir.to_string_lossy().replace('/', "-"), self.built.target)
    }
}

/// All jobs, cheap ones first.
pub(super) fn jobs(built: &[Built], selection: &Selection, rights: Rights) -> Vec<Job> {
    let mut jobs = vec![];
    let by_target = built.iter().any(|built| selection.filter.as_ref() == Some(&built.target));
    for rung in [Rung::Unit, Rung::Netns, Rung::EndToEnd, Rung::Peers] {
        let chosen = built.iter().filter(|built| built.is_test && rung_of(&built.dir) == rung);
        let chosen = chosen.filter(|built| selection.wants(built, rung));
        for built in chosen.filter(|built| !by_target || selection.filter_in(built).is_none()) {
            for user in users(&built.dir, rights) {
                jobs.push(Job { built: built.clone(), rung, user });
            }
        }
    }
    jobs
}

fn rung_of(dir: &Path) -> Rung {
    if dir.starts_with("tests/netns") {
        Rung::Netns
    } else if dir.starts_with("tests/e2e") {
        Rung::EndToEnd
    } else if dir.starts_with("tests/peers") {
        Rung::Peers
    } else {
        Rung::Unit
    }
}

/// Crates at the edge to Linux run both ways, pure ones once.
fn users(dir: &Path, rights: Rights) -> Vec<User> {
    let edge = ["host", "parts", "tests", "app/lab"].iter().any(|layer| dir.starts_with(layer));
    match (edge, rights) {
        (false, _) => vec![User::Caller],
        (true, Rights::NoRoot) => vec![User::Ordinary],
        (true, Rights::Root | Rights::Sudo) => vec![User::Ordinary, User::Root],
    }
}

/// A number after a flag.
pub(super) fn number(flag: &str, value: Option<&String>) -> Result<u64> {
    let value = value.with_context(|| format!("{flag} needs a number"))?;
    value.parse().with_context(|| format!("{flag}: `{value}` is no number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn built(dir: &str, target: &str) -> Built {
        Built { dir: dir.into(), target: target.into(), file: "x".into(), is_test: true }
    }

    #[test]
    fn edge_crates_run_both_ways_and_pure_ones_once() {
        let all = [built("core/model", "m"), built("host/sys", "s"), built("tests/e2e", "exec")];
        let titles: Vec<String> =
            jobs(&all, &Selection::default(), Rights::Root).iter().map(Job::title).collect();
        assert_eq!(
            titles,
            [
                "core/model m",
                "host/sys s as ordinary user",
                "host/sys s as root",
                "tests/e2e exec as ordinary user",
                "tests/e2e exec as root"
            ]
        );
        assert_eq!(jobs(&all, &Selection::default(), Rights::NoRoot).len(), 3);
    }

    #[test]
    fn kill_runs_its_own_executable_only() {
        let all =
            [built("tests/e2e", "kill"), built("tests/e2e", "exec"), built("core/model", "m")];
        let args = ["kill", "--seed", "3", "--n", "9"].map(str::to_owned);
        let selection = Selection::parse(&args).unwrap();
        assert_eq!(jobs(&all, &selection, Rights::Root).len(), 2);
    }

    #[test]
    fn unknown_words_are_refused() {
        for wrong in [&["all"][..], &["kill", "--n", "x"], &["kill", "--x"], &["unit", "a", "b"]] {
            let args: Vec<String> = wrong.iter().map(|word| (*word).to_owned()).collect();
            assert!(Selection::parse(&args).is_err(), "{wrong:?}");
        }
    }
}
