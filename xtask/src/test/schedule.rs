//! Scheduling: suites are divided into units, and workers run units side by side, longest first.
//!
//! A test that touches the kernel is a unit with its own process, so nothing that it does to its process
//! affects another test. The tests of a pure crate are one unit. Twice as many units run at once as there are
//! CPUs, and more while they leave [`room`](super::room).

use std::collections::BTreeMap;
use std::fs;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};

use super::execute::{self, Outcome};
use super::plan::{GUEST, Job, Rung, Selection};
use super::room::{Limits, Room};
use super::skips::Judge;
use super::stage::Stage;
use super::user::User;
use super::{kernel, outcome};
use crate::workspace::{self, Artifacts};

/// A worker's unit of work.
#[derive(Clone, Debug)]
pub(super) struct Unit<'a> {
    what: What<'a>,
    /// Names of tests.
    tests: Vec<String>,
    rank: usize,
}

/// What a unit runs.
#[derive(Clone, Copy, Debug)]
enum What<'a> {
    /// Tests of an executable.
    Tests(&'a Job),
    /// The tests in doc comments.
    Documentation,
    /// The sample of tests under another kernel.
    Guest,
}

/// Results of all units.
#[derive(Debug, Default)]
pub(super) struct Done {
    pub(super) total: Outcome,
    /// What each unit took.
    pub(super) took: Vec<Took>,
    /// By job title: remaining units, results so far, time spent.
    jobs: BTreeMap<String, (usize, Outcome, Duration)>,
}

/// What a unit took.
#[derive(Debug)]
pub(super) struct Took {
    pub(super) time: Duration,
    /// Of the test's process and those that it waited for; detached ones are not in it.
    pub(super) cpu: Duration,
    pub(super) title: String,
}

impl Done {
    fn new(units: &[Unit]) -> Done {
        let mut done = Done::default();
        for unit in units {
            done.jobs.entry(unit.suite()).or_default().0 += 1;
        }
        done
    }

    /// Adds a unit's result; reports its job once complete.
    fn add(&mut self, unit: &Unit, outcome: Outcome, time: Duration, cpu: Duration) {
        let suite = unit.suite();
        if let Some((left, sum, spent)) = self.jobs.get_mut(&suite) {
            *left -= 1;
            *spent += time;
            sum.add(outcome.clone());
            if *left == 0 {
                println!("{suite:<44} {}, {:.1} s", sum.tally(), spent.as_secs_f64());
            }
        }
        self.total.add(outcome);
        self.took.push(Took { time, cpu, title: unit.title() });
    }
}

impl Unit<'_> {
    /// The full names of its tests, as far as these are known before.
    pub(super) fn names(&self) -> Vec<String> {
        match self.what {
            What::Tests(job) => self.tests.iter().map(|test| job.full(test)).collect(),
            What::Documentation => vec![],
            What::Guest => vec![GUEST.to_owned()],
        }
    }

    /// Its title for people.
    fn title(&self) -> String {
        match self.tests.as_slice() {
            [one] => format!("{}: {one}", self.suite()),
            _ => self.suite(),
        }
    }

    /// The suite that it belongs to.
    fn suite(&self) -> String {
        match self.what {
            What::Tests(job) => job.title(),
            What::Documentation => "documentation examples".to_owned(),
            What::Guest => "kernel".to_owned(),
        }
    }
}

/// All units, longest first.
pub(super) fn units<'a>(jobs: &'a [Job], selection: &Selection) -> Result<Vec<Unit<'a>>> {
    let longest = longest()?;
    let mut units = vec![];
    let mut listed: Vec<(&std::path::Path, Vec<String>)> = vec![];
    for job in jobs {
        let known = listed.iter().find(|(file, _)| *file == job.built.file);
        let names = match known {
            Some((_, names)) => names.clone(),
            None => list(job, selection)?,
        };
        listed.push((&job.built.file, names.clone()));
        let names: Vec<String> =
            names.into_iter().filter(|name| selection.wants_as(job, name)).collect();
        if job.user == User::Caller {
            if !names.is_empty() {
                let known = longest.iter().position(|line| *line == job.prefix());
                let rank = known.unwrap_or(longest.len() + 2);
                units.push(Unit { what: What::Tests(job), tests: names, rank });
            }
            continue;
        }
        for name in names {
            let rank = rank(job, &name, &longest);
            units.push(Unit { what: What::Tests(job), tests: vec![name], rank });
        }
    }
    // Each takes a minute or more.
    let more =
        [(selection.has_examples(), What::Documentation), (selection.has_kernel(), What::Guest)];
    for (_, what) in more.into_iter().filter(|(wanted, _)| *wanted) {
        units.push(Unit { what, tests: vec![], rank: 0 });
    }
    units.sort_by_key(|unit| unit.rank);
    Ok(units)
}

/// All units as often as requested, one round after the other.
pub(super) fn repeated(units: Vec<Unit<'_>>, times: u32) -> Vec<Unit<'_>> {
    (0..times.max(1)).flat_map(|_| units.iter().cloned()).collect()
}

/// The requested tests of an executable; ignored ones are helpers for other tests and do not count.
fn list(job: &Job, selection: &Selection) -> Result<Vec<String>> {
    let listed = |more: &[&str]| -> Result<Vec<String>> {
        let mut command = std::process::Command::new(&job.built.file);
        command.args(["--list", "--format", "terse"]).args(more);
        Ok(outcome::listed(&String::from_utf8_lossy(&workspace::output(&mut command)?)))
    };
    let ignored = listed(&["--ignored"])?;
    let mut names = listed(&[])?;
    names.retain(|name| !ignored.contains(name) && selection.wants(job, name));
    Ok(names)
}

/// Tests to start first: `tests/longest-first.txt`.
fn longest() -> Result<Vec<String>> {
    let path = workspace::root().join("tests/longest-first.txt");
    let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    Ok(lines.filter(|line| !line.starts_with('#')).map(str::to_owned).collect())
}

fn rank(job: &Job, name: &str, longest: &[String]) -> usize {
    let full = format!("{}/{name}", job.prefix());
    let known = longest.iter().position(|line| *line == full);
    // Of tests that nobody has listed those that start labs take longest.
    known.unwrap_or(longest.len() + usize::from(!matches!(job.rung, Rung::EndToEnd | Rung::Peers)))
}

/// Number of tests run side by side: a test mostly waits, for blocks, bounds and processes.
fn side_by_side() -> Limits {
    let cpus = std::thread::available_parallelism().map_or(2, usize::from);
    Limits { few: 2 * cpus, many: 6 * cpus }
}

/// What units are run with.
#[derive(Clone, Copy)]
pub(super) struct With<'a> {
    pub(super) built: &'a Artifacts,
    pub(super) stage: &'a Stage,
    pub(super) selection: &'a Selection,
    pub(super) judge: &'a Judge<'a>,
}

/// Runs all units.
pub(super) fn run(units: &[Unit], with: With<'_>) -> Result<Done> {
    let done = Mutex::new(Done::new(units));
    work_off(units, side_by_side(), with, &done)?;
    done.into_inner().map_err(|_| anyhow!("a worker panicked"))
}

fn work_off(units: &[Unit], limits: Limits, with: With<'_>, done: &Mutex<Done>) -> Result<()> {
    let (next, room) = (Mutex::new(0..units.len()), Room::new(limits));
    std::thread::scope(|scope| -> Result<()> {
        let work = |worker: usize| -> Result<()> {
            loop {
                // The place comes first: who waits for one must not hold a unit that others could
                // begin.
                let _place = room.enter();
                let taken = next.lock().map_err(|_| anyhow!("a worker panicked"))?.next();
                let Some(unit) = taken.map(|unit| &units[unit]) else { return Ok(()) };
                let start = Instant::now();
                let (outcome, cpu) = one(unit, worker, with)?;
                let mut done = done.lock().map_err(|_| anyhow!("a worker panicked"))?;
                done.add(unit, outcome, start.elapsed(), cpu);
            }
        };
        let started: Vec<_> =
            (0..limits.many).map(|worker| scope.spawn(move || work(worker))).collect();
        for worker in started {
            worker.join().map_err(|_| anyhow!("a worker panicked"))??;
        }
        Ok(())
    })
}

fn one(unit: &Unit, worker: usize, with: With<'_>) -> Result<(Outcome, Duration)> {
    match unit.what {
        What::Tests(job) => {
            let (mut outcome, cpu) =
                execute::run(job, &unit.tests, worker, with.stage, with.selection)?;
            with.judge.judge(job.user, &mut outcome)?;
            Ok((outcome, cpu))
        }
        // What these take is taken by processes that are not theirs alone.
        What::Documentation => Ok((execute::doc_tests()?, Duration::ZERO)),
        What::Guest => Ok((kernel::sample(with.built, with.judge)?, Duration::ZERO)),
    }
}
