//! `test kernel [--kernel PACKAGE | --newer] [FILTER]`: tests under another kernel, in a virtual machine without KVM; a [`SAMPLE`]
//! of them is part of every whole run.
//!
//! `netloom image build` makes the guest, which is kept in `target/guest`; tests that are built already, the binary
//! and their data come as a second archive over its RAM disk. Each test is a process, as root, a few at a time. Times
//! there are some ten times those of this machine; skips are judged there, by the probes of `tests/needs.txt`.

mod guest;
mod newer;
mod said;

use std::time::Instant;

use anyhow::{Result, bail};

use super::execute::Outcome;
use super::skips::Judge;
use super::stage::Stage;
use crate::workspace::Artifacts;

/// Crates whose tests run there: the namespace rung, and what touches the kernel most.
const CRATES: [&str; 10] = [
    "tests/netns",
    "host/sys",
    "host/netlink",
    "host/ebpf",
    "parts/node",
    "parts/wire",
    "parts/switch",
    "parts/measure",
    "parts/capture",
    "parts/guard",
];
/// Their packages for cargo.
const PARTS: [&str; 10] = [
    "--package=netloom-tests-netns",
    "--package=netloom-sys",
    "--package=netloom-netlink",
    "--package=netloom-ebpf",
    "--package=netloom-node",
    "--package=netloom-wire",
    "--package=netloom-switch",
    "--package=netloom-measure",
    "--package=netloom-capture",
    "--package=netloom-guard",
];
/// Tests that a guest cannot have: a part of the name, and why. They are told as skips.
const LEFT_OUT: [(&str, &str); 0] = [];
/// Tests that set the guest's clock, measure times of microseconds, or hold a ring's reader to its bound: one by one, after
/// the others.
const ALONE: [&str; 6] = [
    "truth_clock::",
    "truth_delay::",
    "parts-switch integration::hostile::",
    "parts-switch integration::killing::",
    "parts-switch integration::stations::",
    "parts-switch integration::talking::",
];
/// What every whole run has, beside the demo: what kernels differ in most. By the beginning of folder and name. The other tests
/// of host/netlink only compute, which no kernel changes, and translated they took a third of the time.
const SAMPLE: [&str; 3] =
    ["host/netlink integration::", "host/netlink nat::", "host/netlink socket::"];
/// Debian's kernel, by its package.
const KERNEL: &str = "linux-image-cloud-amd64";

pub(crate) fn run(args: &[String], required: bool) -> Result<()> {
    let (kernels, filter) = match args {
        [flag, package, rest @ ..] if flag == "--kernel" => (vec![Some(package.clone())], rest),
        [flag, rest @ ..] if flag == "--newer" => {
            (newer::told()?.into_iter().map(|newer| Some(newer.package)).collect(), rest)
        }
        rest => (vec![None], rest),
    };
    let filter = match filter {
        [] => "",
        [filter] if !filter.starts_with('-') => filter.as_str(),
        other => bail!("test kernel: [--kernel PACKAGE | --newer] [FILTER], not {other:?}"),
    };
    if kernels.is_empty() {
        return Ok(());
    }
    let built = Artifacts::build(&build_args(filter))?;
    let stage = Stage::new()?;
    let judge = Judge::new(&stage, required)?;
    let mut failed = false;
    for kernel in kernels {
        let begin = Instant::now();
        let total = guest::run(&built, kernel.as_deref(), &judge, &|test| test.contains(filter))?;
        for (test, reason) in &total.skipped {
            println!("skipped: {test}: {reason}");
        }
        for test in &total.failed {
            println!("failed: {test}");
        }
        println!("total: {:.0} s", begin.elapsed().as_secs_f64());
        println!("{}", total.tally());
        failed |= !total.failed.is_empty();
    }
    if failed {
        bail!("tests failed");
    }
    Ok(())
}

/// Arguments for cargo. A filter that begins with a crate's folder needs no other crate.
fn build_args(filter: &str) -> Vec<&'static str> {
    let needed = |folder: &str| {
        !CRATES.iter().any(|of| filter.starts_with(of)) || filter.starts_with(folder)
    };
    let parts = CRATES.iter().zip(PARTS).filter(|(of, _)| needed(of)).map(|(_, part)| part);
    ["test", "--no-run", "--tests"].into_iter().chain(parts).collect()
}

/// Runs the sample of a whole run, whose tests are built.
pub(super) fn sample(built: &Artifacts, judge: &Judge<'_>) -> Result<Outcome> {
    let wanted = |test: &str| SAMPLE.iter().any(|begin| test.starts_with(begin));
    guest::run(built, None, judge, &wanted)
}
