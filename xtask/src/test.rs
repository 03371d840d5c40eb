//! `test`: builds all tests once and runs them side by side, each as an ordinary user and, where the kernel
//! requires it, as root; counts every single test and prints `N passed, N failed, N skipped` last.
//!
//! Nothing runs twice in the same way. A test without a result (a crash) has failed. A skip is counted with
//! its reason, and is a failure unless `tests/expected-skips.txt` expects it.

mod attack;
mod execute;
mod flags;
mod kernel;
mod kill;
mod outcome;
mod plan;
mod room;
mod schedule;
mod skips;
mod stage;
mod user;

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::workspace::Artifacts;
use plan::{Rung, Selection};
use schedule::Done;

pub(crate) fn run(args: &[String]) -> Result<()> {
    if let Some(("kernel", rest)) = args.split_first().map(|(first, rest)| (first.as_str(), rest)) {
        return kernel::run(rest);
    }
    let selection = Selection::parse(args)?;
    let begin = Instant::now();
    println!("{}", machine());
    let built = Artifacts::build(&selection.build_args())?;
    let stage = stage::Stage::new()?;
    if selection.includes(Rung::EndToEnd) || selection.includes(Rung::Peers) {
        stage.add_binary(&built.netloom()?)?;
    }
    if selection.includes(Rung::Unit) || selection.includes(Rung::Peers) {
        stage.add_plugin(&built.plugin()?)?;
    }
    let compiled = begin.elapsed();
    let expected = skips::Expected::read()?;
    let jobs = plan::jobs(&built.tests(), &selection, stage.rights());
    let units = schedule::units(&jobs, &selection)?;
    let mut done = schedule::run(&units, &stage, &selection, &expected)?;
    if selection.is_whole() {
        // Alone: a translated guest takes all that it gets.
        done.total.add(kernel::sample(&built, &expected)?);
    }
    tell(done, compiled, begin.elapsed())
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

/// Prints skips, failures, times and the totals.
fn tell(mut done: Done, compiled: Duration, whole: Duration) -> Result<()> {
    for (test, reason) in &done.total.skipped {
        println!("skipped: {test}: {reason}");
    }
    done.took.sort_by_key(|(took, _)| std::cmp::Reverse(*took));
    println!("longest:");
    for (took, title) in done.took.iter().take(10) {
        println!("{:>7.1} s {title}", took.as_secs_f64());
    }
    let (compiled, whole) = (compiled.as_secs_f64(), whole.as_secs_f64());
    println!("total: {whole:.0} s, {compiled:.0} s of it to build");
    for test in &done.total.failed {
        println!("failed: {test}");
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
