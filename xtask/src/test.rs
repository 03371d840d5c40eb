//! `test`: builds all tests once, runs each executable as an ordinary user and, where the kernel asks
//! for it, as root; counts every single test and prints `N passed, N failed, N skipped` last.
//!
//! Nothing is run twice in one way. A test that was listed but gave no result (a crash) has failed. A
//! skip is counted with its reason and has failed when `tests/expected-skips.txt` does not expect it.

mod execute;
mod kill;
mod outcome;
mod plan;
mod skips;
mod stage;

use std::time::Instant;

use anyhow::{Result, bail};

use crate::workspace::Artifacts;
use execute::Outcome;
use plan::{Rung, Selection};

pub(crate) fn run(args: &[String]) -> Result<()> {
    let selection = Selection::parse(args)?;
    let built = Artifacts::build(&selection.build_args())?;
    let stage = stage::Stage::new()?;
    if selection.includes(Rung::EndToEnd) || selection.includes(Rung::Peers) {
        stage.add_binary(&built.netloom()?)?;
    }
    if selection.includes(Rung::Unit) || selection.includes(Rung::Peers) {
        stage.add_plugin(&built.plugin()?)?;
    }
    if selection.includes(Rung::Unit) {
        stage.add_example(&built.example("netloom-switch", "switch-station")?)?;
    }
    let expected = skips::Expected::read()?;
    let mut total = Outcome::default();
    for job in plan::jobs(&built.tests(), &selection, stage.rights()) {
        let start = Instant::now();
        let mut outcome = execute::run(&job, &stage, &selection)?;
        expected.judge(&job, &mut outcome);
        if outcome.tests() > 0 {
            told(&job.title(), &outcome, start);
        }
        total.add(outcome);
    }
    if selection.includes(Rung::Unit) {
        let start = Instant::now();
        let outcome = execute::doc_tests(selection.filter.as_deref())?;
        told("documentation examples", &outcome, start);
        total.add(outcome);
    }
    for (test, reason) in &total.skipped {
        println!("skipped: {test}: {reason}");
    }
    for test in &total.failed {
        println!("failed: {test}");
    }
    if total.tests() == 0 {
        bail!("no test matches");
    }
    println!("{}", total.tally());
    if !total.failed.is_empty() {
        bail!("tests failed");
    }
    Ok(())
}

/// A line of those that came before the last.
fn told(title: &str, outcome: &Outcome, start: Instant) {
    let seconds = start.elapsed().as_secs_f64();
    println!("{title:<44} {}, {seconds:.1} s", outcome.tally());
}
