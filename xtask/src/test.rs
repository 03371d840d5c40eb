//! `test`: builds all tests once and runs them side by side, each as an ordinary user and, where the kernel
//! requires it, as root; counts every single test and prints `N passed, N failed, N skipped` last.
//!
//! Nothing runs twice in the same way. A test without a result (a crash) has failed. A skip is counted with
//! its reason, and is a failure unless what it lacks is missing indeed ([`skips`]).

mod attack;
mod execute;
mod flags;
mod kernel;
mod kill;
mod lacking;
mod load;
mod outcome;
mod plan;
mod room;
mod schedule;
pub(crate) mod skips;
pub(crate) mod stage;
pub(crate) mod user;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::workspace::{self, Artifacts};
use plan::{Rung, Selection};
use schedule::Done;

/// Flags, beside the choice of tests.
#[derive(Debug, Default)]
struct Flags {
    /// Only the names of the tests.
    list: bool,
    /// A missing peer is a failure.
    required: bool,
    /// Only tests of peers, and those that a run before lacked one for.
    only_peers: bool,
    /// How often each test runs; once if zero.
    times: u32,
    /// Beside how many busy processes.
    beside: u32,
}

impl Flags {
    /// Takes the flags out of the arguments.
    fn parse(args: &[String]) -> Result<(Flags, Vec<String>)> {
        let (mut flags, mut rest) = (Flags::default(), vec![]);
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--list" => flags.list = true,
                "--only-peers" => flags.only_peers = true,
                "--times" => flags.times = flags::small(arg, args.next())?,
                "--beside" => flags.beside = flags::small(arg, args.next())?,
                "--peers" => match args.next().map(String::as_str) {
                    Some("required") => flags.required = true,
                    other => {
                        bail!("--peers: expected `required`, not {}", other.unwrap_or("nothing"))
                    }
                },
                _ => rest.push(arg.clone()),
            }
        }
        Ok((flags, rest))
    }
}

pub(crate) fn run(args: &[String]) -> Result<()> {
    let (flags, args) = Flags::parse(args)?;
    if let Some(("kernel", rest)) = args.split_first().map(|(first, rest)| (first.as_str(), rest)) {
        return kernel::run(rest, flags.required);
    }
    let mut selection = Selection::parse(&args)?;
    if flags.only_peers {
        selection.only = Some(lacking::read()?);
    }
    if flags.list {
        return list(&selection);
    }
    let begin = Instant::now();
    println!("{}", machine());
    let built = Artifacts::build(&selection.build_args())?;
    let stage = stage::Stage::new()?;
    if selection.includes(Rung::EndToEnd) || selection.includes(Rung::Peers) {
        stage.add_binary(&built.netloom()?)?;
        stage.add_binary(&built.bench()?)?;
    }
    if selection.includes(Rung::Unit) || selection.includes(Rung::Peers) {
        stage.add_plugin(&built.plugin()?)?;
    }
    check_room(&stage, ROOM)?;
    let compiled = begin.elapsed();
    let judge = skips::Judge::new(&stage, flags.required)?;
    let jobs = plan::jobs(&built.tests(), &selection, stage.rights());
    let units = schedule::units(&jobs, &selection)?;
    let units = schedule::repeated(units, flags.times);
    let _load = load::Load::start(flags.beside)?;
    let ran: lacking::Names = units.iter().flat_map(schedule::Unit::names).collect();
    let with =
        schedule::With { built: &built, stage: &stage, selection: &selection, judge: &judge };
    let done = schedule::run(&units, with)?;
    if !flags.only_peers && !flags.required {
        let skipped = done.total.skipped.iter().filter(|(_, reason)| judge.is_for_peer(reason));
        lacking::update(&ran, &skipped.map(|(test, _)| test.clone()).collect())?;
    }
    if !done.total.failed.is_empty() {
        // Many of them in one way or another, which is not always told.
        check_room(&stage, FULL).unwrap_or_else(|full| println!("{full}"));
    }
    tell(done, compiled, begin.elapsed())
}

/// Bytes that tests need at once in the folder for temporary files.
const ROOM: u64 = 1 << 30;
/// With less than this it is as good as full.
const FULL: u64 = 64 << 20;

/// Says so where there is less room than this.
fn check_room(stage: &stage::Stage, room: u64) -> Result<()> {
    let (free, folder) = (stage.free()?, std::env::temp_dir());
    if free < room {
        let (free, room, folder) = (free >> 20, room >> 20, folder.display());
        bail!("{folder}: {free} MiB are free, and tests need {room}: free some, or set TMPDIR");
    }
    Ok(())
}

/// Prints the full names of all tests that a run would have here, sorted.
fn list(selection: &Selection) -> Result<()> {
    let built = Artifacts::build(&selection.build_args())?;
    let jobs = plan::jobs(&built.tests(), selection, stage::find_rights());
    let units = schedule::units(&jobs, selection)?;
    let mut names: lacking::Names = units.iter().flat_map(schedule::Unit::names).collect();
    if selection.has_examples() {
        names.extend(execute::doc_names()?);
    }
    names.iter().for_each(|name| println!("{name}"));
    Ok(())
}

/// Facts that affect times: the machine, its uptime, and its other load.
fn machine() -> String {
    let first = |file: &str| -> Option<f64> {
        std::fs::read_to_string(file).ok()?.split_whitespace().next()?.parse().ok()
    };
    let known = |number: Option<f64>, digits: usize| {
        number.map_or_else(|| "?".to_owned(), |number| format!("{number:.digits$}"))
    };
    let minutes = known(first("/proc/uptime").map(|seconds| seconds / 60.0), 0);
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    format!("machine: CPUs {cpus}, up {minutes} min, load {}", known(first("/proc/loadavg"), 2))
}

/// The file with the time of each test.
const TIMES: &str = "target/test-times.txt";

/// `seconds s, seconds s CPU title`.
fn line(took: &schedule::Took) -> String {
    let (time, cpu) = (took.time.as_secs_f64(), took.cpu.as_secs_f64());
    format!("{time:>7.1} s {cpu:>6.1} s CPU  {}", took.title)
}

/// Each test once, with the number of its failures.
fn counted(failed: &[String]) -> BTreeMap<&str, usize> {
    let mut counted = BTreeMap::new();
    for test in failed {
        *counted.entry(test.as_str()).or_default() += 1;
    }
    counted
}

/// Prints skips, failures, times and the totals.
fn tell(mut done: Done, compiled: Duration, whole: Duration) -> Result<()> {
    for (test, reason) in &done.total.skipped {
        println!("skipped: {test}: {reason}");
    }
    done.took.sort_by_key(|took| std::cmp::Reverse(took.time));
    let lines: Vec<String> = done.took.iter().map(line).collect();
    println!("longest, with their processor time ({TIMES} has all):");
    lines.iter().take(10).for_each(|line| println!("{line}"));
    let times = workspace::root().join(TIMES);
    // Cargo may have another target folder.
    times.parent().map_or(Ok(()), std::fs::create_dir_all).context("make the target folder")?;
    std::fs::write(&times, lines.join("\n") + "\n").with_context(|| format!("write {TIMES}"))?;
    let (compiled, whole) = (compiled.as_secs_f64(), whole.as_secs_f64());
    println!("total: {whole:.0} s, {compiled:.0} s of it to build");
    for (test, times) in counted(&done.total.failed) {
        let times = if times > 1 { format!(" ({times} times)") } else { String::new() };
        println!("failed: {test}{times}");
    }
    if done.total.tests() == 0 {
        bail!("no test matches");
    }
    println!("{}", done.total.tally());
    if !done.total.failed.is_empty() {
        bail!("tests failed");
    }
    Ok(())
}
