//! What a platform costs programs: digits of π and STREAM's triad, on the host, in a node and in a guest.
//!
//! The same binary computes everywhere, in turn. Digits are compared with those of another program. The guest is a User-mode
//! Linux machine with the node's files. Memory is placed by numactl where a machine has several NUMA nodes.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::rounds;
use crate::capture::pair::cores;
use crate::driver::Driver;
use crate::report::side;
use crate::running::{Running, number};
use crate::vm::guest::UML;
use crate::vm::image::program;
use crate::{Options, Report};

/// One takes a minute, and its figures differ little from those of the next.
const ROUNDS: usize = 5;

const LAB: &str = "bench-platform";
/// Decimals, and their digest: FNV-1a of `3` and these as GNU MPFR 4.2 gives them (`mpfr_const_pi`).
const FULL: (u32, &str) = (1 << 22, "d0dc16a4ed2f64f3");
const QUICK: (u32, &str) = (1 << 17, "a26546f800af4e8b");
const TEN: &str = "df5ecb1542350367";
/// Turns of a triad, the first of which is not counted.
const TURNS: [&str; 2] = ["100", "20"];
/// MiB of an array: four times the caches, within what a guest of 1 GiB has room for.
const LEAST: u64 = 64;
const MOST: u64 = 256;

/// Where a program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Where {
    Host,
    Node,
    Guest,
    /// On the host, with memory of the processor's NUMA node, and of another one.
    Near,
    Far,
}

impl Where {
    fn title(self) -> &'static str {
        match self {
            Where::Host => "host",
            Where::Node => "node",
            Where::Guest => "machine, User-mode Linux",
            Where::Near => "host, memory of its own NUMA node",
            Where::Far => "host, memory of another NUMA node",
        }
    }
}

/// Measures in turn, and adds rows and ratios.
pub(super) fn run(options: Options, driver: &Driver, report: &mut Report) -> Result<()> {
    let lost = guest(driver)?;
    let mut places = vec![Where::Host, Where::Node];
    places.extend(lost.is_none().then_some(Where::Guest));
    let mut apart = places.clone();
    if numa_nodes() > 1 && program("numactl").is_ok() {
        apart.extend([Where::Near, Where::Far]);
    }
    let (digits, digest) = if options.quick { QUICK } else { FULL };
    let mebibytes = mebibytes();
    let (mut times, mut rates) =
        (BTreeMap::<Where, Vec<f64>>::new(), BTreeMap::<Where, Vec<f64>>::new());
    rounds(options, ROUNDS, Duration::from_secs(8), |round| {
        progress!("bench router: round {}, pi and triad", round + 1);
        for at in &places {
            times.entry(*at).or_default().push(pi(driver, *at, digits, digest)?);
        }
        for at in &apart {
            let turns = TURNS[usize::from(options.quick)];
            rates.entry(*at).or_default().push(triad(driver, *at, mebibytes, turns)?);
        }
        places.reverse();
        apart.reverse();
        Ok(())
    })?;
    driver.down(LAB)?;
    let (pi, triad) = (format!("pi, {digits} digits, one core"), "STREAM triad".to_owned());
    for (at, times) in &times {
        let note = "Chudnovsky's series by netloom-bench peer pi; the digits are those of GNU MPFR";
        report.measured(&pi, at.title(), "s", times, note);
    }
    for (at, rates) in &rates {
        let note = format!("three arrays of {mebibytes} MiB, one core, the best turn");
        report.measured(&triad, at.title(), "MB/s", rates, &note);
    }
    if options.quick {
        report.left_out("pi, 4194304 digits, one core", "all", "--quick, which computes fewer");
    }
    if let Some(why) = lost {
        for what in [&pi, &triad] {
            report.left_out(what, Where::Guest.title(), &why);
        }
    }
    if numa_nodes() < 2 {
        report.left_out(&triad, Where::Far.title(), "the machine has one NUMA node");
    } else if !apart.contains(&Where::Far) {
        report.left_out(&triad, Where::Far.title(), "no numactl");
    }
    ratios(&times, &rates, report);
    Ok(())
}

/// Brings the lab up, with a guest or, if none runs this binary, without; then the reason is returned.
fn guest(driver: &Driver) -> Result<Option<String>> {
    let up = |guest| driver.up(&driver.lab_file(LAB, &lab_file(guest))?).map(drop);
    let lost = program(UML)
        .and_then(|_| up(true))
        .and_then(|()| pi(driver, Where::Guest, 10, TEN).map(drop));
    let Err(why) = lost else { return Ok(None) };
    // It may not be up.
    let _ = driver.down(LAB);
    up(false)?;
    Ok(Some(format!("{why:#}")))
}

/// Speeds compared with the host's.
fn ratios(
    times: &BTreeMap<Where, Vec<f64>>,
    rates: &BTreeMap<Where, Vec<f64>>,
    report: &mut Report,
) {
    let speeds: BTreeMap<Where, Vec<f64>> = times
        .iter()
        .map(|(at, times)| (*at, times.iter().map(|time| 1.0 / time).collect()))
        .collect();
    for (what, all) in [("pi", &speeds), ("triad", rates)] {
        for (name, at) in [("node", Where::Node), ("vm", Where::Guest)] {
            let of = |at| all.get(&at).map_or(&[][..], Vec::as_slice);
            let given = [at, Where::Host].map(|at| format!("{}, {what}", at.title()));
            let name = format!("{what}_{name}_vs_host");
            report.ratio(&name, side(&given[0], of(at)), side(&given[1], of(Where::Host)));
        }
    }
}

fn lab_file(guest: bool) -> String {
    let machine = if guest { "  g: {kind: vm, accel: uml, memory: 1GiB}\n" } else { "" };
    format!("name: {LAB}\nnodes:\n  n: {{}}\n{machine}")
}

/// Seconds.
fn pi(driver: &Driver, at: Where, digits: u32, digest: &str) -> Result<f64> {
    let told = start(driver, at, &["pi", &digits.to_string()])?.result()?;
    let found = told["digest"].as_str().context("digits without a digest")?;
    ensure!(
        found == digest,
        "{}: {digits} digits of pi are wrong: {found}, not {digest}",
        at.title()
    );
    number(&told, "seconds")
}

/// MB/s.
fn triad(driver: &Driver, at: Where, mebibytes: u64, turns: &str) -> Result<f64> {
    let told = start(driver, at, &["triad", &mebibytes.to_string(), turns])?.result()?;
    ensure!(told["wrong"] == 0, "{}: sums of the triad are wrong: {told}", at.title());
    number(&told, "mb_per_s")
}

fn start(driver: &Driver, at: Where, words: &[&str]) -> Result<Running> {
    let pinned = [&["on", cores()[1]], words].concat();
    let here = |mut command: Command| {
        Running::start(command.arg(driver.own()).arg("peer").args(words), &words.join(" "))
    };
    let placed = |memory: &str| {
        let mut command = Command::new("numactl");
        command.args(["--cpunodebind=0", memory]);
        command
    };
    match at {
        Where::Host => Running::start(driver.peer_command().args(&pinned), &words.join(" ")),
        Where::Node => driver.peer(LAB, "n", &pinned),
        // It has one processor.
        Where::Guest => driver.peer(LAB, "g", words),
        Where::Near => here(placed("--membind=0")),
        Where::Far => here(placed("--membind=1")),
    }
}

fn numa_nodes() -> usize {
    let all = std::fs::read_dir("/sys/devices/system/node").into_iter().flatten().flatten();
    let is_node =
        |name: &str| name.strip_prefix("node").is_some_and(|rest| rest.parse::<u32>().is_ok());
    all.filter(|entry| entry.file_name().to_str().is_some_and(is_node)).count()
}

/// Of an array.
fn mebibytes() -> u64 {
    let all =
        std::fs::read_dir("/sys/devices/system/cpu/cpu0/cache").into_iter().flatten().flatten();
    let sizes = all.filter_map(|entry| std::fs::read_to_string(entry.path().join("size")).ok());
    of_caches(
        sizes.filter_map(|size| size.trim().strip_suffix('K')?.parse().ok()).max().unwrap_or(0),
    )
}

fn of_caches(largest_kib: u64) -> u64 {
    (4 * largest_kib).div_ceil(1024).clamp(LEAST, MOST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_are_beyond_the_caches() {
        assert_eq!([0, 1024, 33_792, 1 << 20].map(of_caches), [64, 64, 132, 256]);
    }

    #[test]
    fn speeds_are_compared_and_not_times() {
        let times = BTreeMap::from([(Where::Host, vec![2.0; 5]), (Where::Node, vec![4.0; 5])]);
        let mut report = Report::default();
        ratios(&times, &BTreeMap::new(), &mut report);
        assert!((report.ratios["pi_node_vs_host"].unwrap() - 0.5).abs() < 1e-9, "{report:?}");
        assert_eq!(report.ratios["triad_vm_vs_host"], None);
    }
}
