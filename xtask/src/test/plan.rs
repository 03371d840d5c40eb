//! What runs: rungs, and for each executable the users it runs as.

use std::path::Path;

use anyhow::{Result, bail};

use super::attack::Attack;
use super::kill::KillRun;
use super::lacking::Names;
use super::user::{Rights, User};
use crate::workspace::Built;

/// The full name of the guest with another kernel, which is skipped as a whole where there can be none.
pub(super) const GUEST: &str = "kernel: guest";

/// A rung of tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rung {
    /// Tests beside the code.
    Unit,
    /// Tests against kernel objects in fresh namespaces.
    Netns,
    /// Tests that run the binary.
    EndToEnd,
    /// Tests of other programs on netloom's switches.
    Peers,
}

/// The requested tests.
#[derive(Debug, Default)]
pub(super) struct Selection {
    rung: Option<Rung>,
    pub(super) filter: Option<String>,
    pub(super) kill: Option<KillRun>,
    pub(super) attack: Option<Attack>,
    /// With the browser, which other runs leave out.
    browser: bool,
    /// Only the rung of peers, and these tests, by their full names.
    pub(super) only: Option<Names>,
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
            "browser" => {
                let (rung, filter) = (Some(Rung::Peers), Some("browser".to_owned()));
                return Ok(Selection { rung, filter, browser: true, ..Selection::default() });
            }
            "kill" => {
                let kill = Some(KillRun::parse(rest)?);
                return Ok(Selection { rung: Some(Rung::EndToEnd), kill, ..Selection::default() });
            }
            "attack" => {
                let (attack, filter) = Attack::parse(rest)?;
                return Ok(Selection { attack: Some(attack), filter, ..Selection::default() });
            }
            other => {
                bail!("no rung `{other}`: unit, netns, e2e, peers, browser, kernel, kill or attack")
            }
        };
        if rest.len() > 1 {
            bail!("one filter at most, got {rest:?}");
        }
        let filter = rest.first().cloned();
        Ok(Selection { rung: Some(rung), filter, ..Selection::default() })
    }

    pub(super) fn includes(&self, rung: Rung) -> bool {
        self.rung.is_none_or(|only| only == rung)
    }

    /// Whether the sample under another kernel is requested: it is part of a run of all rungs.
    pub(super) fn has_kernel(&self) -> bool {
        let wanted = self.only.as_ref().is_none_or(|only| only.contains(GUEST));
        wanted && self.rung.is_none() && self.filter.is_none() && self.attack.is_none()
    }

    /// Whether the tests in doc comments are requested.
    pub(super) fn has_examples(&self) -> bool {
        self.includes(Rung::Unit)
            && self.filter.is_none()
            && self.attack.is_none()
            && self.only.is_none()
    }

    /// Arguments for cargo: only what the chosen rung needs is built.
    pub(super) fn build_args(&self) -> Vec<&'static str> {
        // Without the examples: they are measuring tools, and `make check` compiles them.
        let mut args = vec!["test", "--no-run", "--tests"];
        let what = match self.rung {
            None if self.attack.is_some() => {
                args.extend(Attack::PACKAGES);
                return args;
            }
            None | Some(Rung::Unit) => "--workspace",
            Some(Rung::Netns) => "--package=netloom-tests-netns",
            Some(Rung::EndToEnd) => "--package=netloom-tests-e2e",
            Some(Rung::Peers) => "--package=netloom-tests-peers",
        };
        args.push(what);
        args
    }

    /// Environment variables for tests.
    pub(super) fn variables(&self) -> Vec<(&'static str, String)> {
        let kill = self.kill.iter().flat_map(|kill| kill.variables());
        let attack = self.attack.iter().flat_map(|attack| attack.variables());
        kill.chain(attack).collect()
    }

    /// Whether a test is requested as this job's user.
    pub(super) fn wants_as(&self, job: &Job, test: &str) -> bool {
        let full = format!("{}: {test}", job.built.dir.display());
        if job.user == User::Root && ONCE.iter().any(|begin| full.starts_with(begin)) {
            return false;
        }
        let listed = |only: &Names| job.rung == Rung::Peers || only.contains(&job.full(test));
        self.only.as_ref().is_none_or(listed)
    }

    /// Whether a test is requested: its folder and name contain the filter, or it is a crash test or an
    /// attack.
    pub(super) fn wants(&self, job: &Job, test: &str) -> bool {
        let named = format!("{} {test}", job.built.dir.display());
        match (&self.filter, self.kill) {
            (_, Some(_)) => test.starts_with(KillRun::TESTS),
            _ if self.attack.is_some() && !Attack::includes(&job.built.dir, test) => false,
            _ if is_browser(job, test) && !self.browser => false,
            (filter, None) => filter.as_ref().is_none_or(|filter| named.contains(filter)),
        }
    }
}

/// Tests of a browser take long, and few machines have one.
fn is_browser(job: &Job, test: &str) -> bool {
    job.rung == Rung::Peers && test.starts_with("browser::")
}

impl Job {
    /// `tests/e2e as root`.
    pub(super) fn title(&self) -> String {
        let user = match self.user {
            User::Caller => "",
            User::Ordinary => " as ordinary user",
            User::Root => " as root",
        };
        format!("{}{user}", self.built.dir.display())
    }

    /// `tests/e2e as root: capture::x`.
    pub(super) fn full(&self, test: &str) -> String {
        format!("{}: {test}", self.title())
    }

    /// `tests-e2e`, the first part of a test's name in lists.
    pub(super) fn prefix(&self) -> String {
        self.built.dir.to_string_lossy().replace('/', "-")
    }
}

/// All jobs.
pub(super) fn jobs(built: &[Built], selection: &Selection, rights: Rights) -> Vec<Job> {
    let mut jobs = vec![];
    for built in built.iter().filter(|built| built.is_test) {
        let rung = rung_of(&built.dir);
        if selection.includes(rung) {
            let users = users(&built.dir, rights);
            jobs.extend(users.into_iter().map(|user| Job { built: built.clone(), rung, user }));
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

/// Tests that run as ordinary user alone: what a process does with messages on a socket, for minutes of processor time.
const ONCE: [&str; 4] = [
    "parts/flow: integration::work::",
    "parts/slice: integration::work::",
    "parts/slice: integration::storms::",
    "parts/slice: integration::crowds::",
];

/// Crates that touch Linux run as both users, pure ones once.
fn users(dir: &Path, rights: Rights) -> Vec<User> {
    let edge = ["host", "parts", "tests", "app/lab"].iter().any(|layer| dir.starts_with(layer));
    match (edge, rights) {
        (false, _) => vec![User::Caller],
        (true, Rights::NoRoot) => vec![User::Ordinary],
        (true, Rights::Root | Rights::Sudo) => vec![User::Ordinary, User::Root],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn built(dir: &str, target: &str) -> Built {
        Built { dir: dir.into(), target: target.into(), file: "x".into(), is_test: true }
    }

    #[test]
    fn edge_crates_run_both_ways_and_pure_ones_once() {
        let all = [built("core/model", "m"), built("host/sys", "s"), built("tests/e2e", "e2e")];
        let titles: Vec<String> =
            jobs(&all, &Selection::default(), Rights::Root).iter().map(Job::title).collect();
        assert_eq!(
            titles,
            [
                "core/model",
                "host/sys as ordinary user",
                "host/sys as root",
                "tests/e2e as ordinary user",
                "tests/e2e as root"
            ]
        );
        assert_eq!(jobs(&all, &Selection::default(), Rights::NoRoot).len(), 3);
    }

    fn parsed(args: &[&str]) -> Selection {
        let args: Vec<String> = args.iter().map(|word| (*word).to_owned()).collect();
        Selection::parse(&args).unwrap()
    }

    #[test]
    fn kill_runs_its_own_tests_only() {
        let all = [built("tests/e2e", "e2e"), built("core/model", "m")];
        let selection = parsed(&["kill", "--seed", "3", "--n", "9"]);
        let jobs = jobs(&all, &selection, Rights::Root);
        assert_eq!(jobs.len(), 2);
        assert!(selection.wants(&jobs[0], "kill::nothing_stays"));
        assert!(!selection.wants(&jobs[0], "exec::a_kill"));
    }

    #[test]
    fn a_filter_is_a_part_of_folder_and_name() {
        let all = [built("host/ebpf", "netloom_ebpf")];
        let job = &jobs(&all, &Selection::default(), Rights::Root)[0];
        for (filter, wanted) in [("ebpf", true), ("loss", true), ("gain", false)] {
            let selection = parsed(&["unit", filter]);
            assert_eq!(selection.wants(job, "integration::measure::loss"), wanted, "{filter}");
        }
    }

    #[test]
    fn unknown_words_are_refused() {
        for wrong in [&["all"][..], &["kill", "--n", "x"], &["kill", "--x"], &["unit", "a", "b"]] {
            let args: Vec<String> = wrong.iter().map(|word| (*word).to_owned()).collect();
            assert!(Selection::parse(&args).is_err(), "{wrong:?}");
        }
    }
}
