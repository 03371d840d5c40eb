//! `images`: the cost of managing single nodes in a running lab, and the memory of a node.
//!
//! The operations are those of Zec's table for virtual images ("Implementing a Clonable Network Stack in the
//! FreeBSD Kernel", USENIX 2003, table 1): create, delete, start a process, move an interface, list. Each is
//! the wall time of a whole command, alternating with the same operation by `ip`, which makes only a node's
//! network namespace.

mod ip;

use std::time::Duration;

use anyhow::{Context, Result};

use crate::driver::Driver;
use crate::machine::{is_root, memory_kib};
use crate::rounds::rounds;
use crate::settle::settle;
use crate::{Options, Programs, Report};

const LAB: &str = "bench-images";
/// Nodes of the smaller lab.
const FEW: u32 = 10;
/// Nodes of the larger one.
const MANY: u32 = 1000;
/// Nodes of the labs whose memory is measured.
const WEIGHED: u32 = 400;
const SOURCE: &str = "the source's table 1 has its time, but not in the text at hand";

/// The operations, with their names in the rows.
const OPERATIONS: [(&str, &str); 5] = [
    ("create", "node create"),
    ("start_process", "exec of `true`"),
    ("move_interface", "node move-interface"),
    ("list", "node list"),
    ("delete", "node delete"),
];

/// Milliseconds of every round, per operation.
type Times = [Vec<f64>; OPERATIONS.len()];

pub(crate) fn run(options: Options, programs: &Programs) -> Result<Report> {
    let driver = Driver::new(programs)?;
    let mut report = Report::new("images");
    let seconds = |quick, full| Duration::from_secs(if options.quick { quick } else { full });
    few(&driver, seconds(20, 60), &mut report)?;
    memory(&driver, seconds(30, 60), &mut report)?;
    many(&driver, seconds(40, 90), &mut report)?;
    for (_, what) in OPERATIONS {
        report.left_out(what, "source (Zec 2003)", SOURCE);
    }
    Ok(report)
}

/// The operations in a small lab, compared with `ip`.
fn few(driver: &Driver, time: Duration, report: &mut Report) -> Result<()> {
    driver.up(&driver.lab_file(LAB, &lab_file(FEW, ""))?)?;
    let peer = ip::version().filter(|_| is_root());
    let work = if peer.is_some() { Some(ip::Work::new(FEW)?) } else { None };
    let mut all = (Times::default(), Times::default());
    let one_round = |round: usize, (ours, theirs): &mut (Times, Times)| {
        progress!("bench images: {FEW} nodes, round {}", round + 1);
        operations(driver, round, ours)?;
        if let Some(work) = &work {
            add(theirs, work.operations(round)?);
        }
        Ok(())
    };
    rounds(time, &mut all, one_round, |(ours, _), report| few_figures(ours, report))?;
    let (ours, theirs) = all;
    driver.down(LAB)?;
    rows(FEW, "netloom", &ours, "whole command", report);
    rows(FEW, "ip", &theirs, ip::SETTINGS, report);
    few_figures(&ours, report);
    for (_, what) in OPERATIONS.iter().filter(|_| work.is_none()) {
        report.left_out(what, "ip", "needs root and the `ip` program");
    }
    report.peers.insert("ip".to_owned(), peer);
    Ok(())
}

fn few_figures(ours: &Times, report: &mut Report) {
    for ((name, _), times) in OPERATIONS.iter().zip(ours) {
        report.value(&format!("{name}_ms"), times);
    }
}

/// Milliseconds of every round in a large lab.
#[derive(Default)]
struct Many {
    times: Times,
    status: Vec<f64>,
    json: Vec<f64>,
}

fn many_figures(many: &Many, report: &mut Report) {
    report.value("status_1000_ms", &many.status);
}

/// The operations and the status of a large lab.
fn many(driver: &Driver, time: Duration, report: &mut Report) -> Result<()> {
    driver.up(&driver.lab_file(LAB, &lab_file(MANY, ""))?)?;
    let one_round = |round: usize, many: &mut Many| {
        progress!("bench images: {MANY} nodes, round {}", round + 1);
        operations(driver, round, &mut many.times)?;
        many.status.push(1000.0 * driver.time(&["status", LAB])?);
        many.json.push(1000.0 * driver.time(&["status", LAB, "--json"])?);
        Ok(())
    };
    let mut many = Many::default();
    rounds(time, &mut many, one_round, many_figures)?;
    driver.down(LAB)?;
    rows(MANY, "netloom", &many.times, "whole command", report);
    let what = format!("status, {}", title(MANY));
    report.measured(&what, "netloom", "ms", &many.status, "whole command, its table");
    report.measured(&what, "netloom", "ms", &many.json, "whole command, --json");
    many_figures(&many, report);
    Ok(())
}

/// Nodes that are weighed: the name of the value, and their settings.
const KINDS: [(&str, &str); 2] =
    [("node_kib", ""), ("node_protected_kib", "protect: {packets: 200k/s}")];

/// KiB of a node in every round, per kind.
type Weights = [Vec<f64>; KINDS.len()];

/// Memory of an idle node, with and without protection.
fn memory(driver: &Driver, time: Duration, report: &mut Report) -> Result<()> {
    let mut all = Weights::default();
    let one_round = |round: usize, all: &mut Weights| {
        progress!("bench images: memory, round {}", round + 1);
        for ((_, settings), figures) in KINDS.iter().zip(all) {
            figures.push(weigh(driver, settings)?);
        }
        Ok(())
    };
    rounds(time, &mut all, one_round, memory_figures)?;
    for ((_, settings), figures) in KINDS.into_iter().zip(&all) {
        let note = "fall of MemAvailable while it is up, divided by nodes";
        let who = if settings.is_empty() { "netloom" } else { settings };
        report.measured(&format!("memory a node, {}", title(WEIGHED)), who, "KiB", figures, note);
    }
    memory_figures(&all, report);
    Ok(())
}

fn memory_figures(all: &Weights, report: &mut Report) {
    for ((name, _), figures) in KINDS.iter().zip(all) {
        report.value(name, figures);
    }
}

fn weigh(driver: &Driver, settings: &str) -> Result<f64> {
    let file = driver.lab_file(LAB, &lab_file(WEIGHED, settings))?;
    settle()?;
    let before = memory_kib("MemAvailable").context("read MemAvailable")?;
    driver.up(&file)?;
    let after = memory_kib("MemAvailable").context("read MemAvailable")?;
    driver.down(LAB)?;
    Ok((before - after) / f64::from(WEIGHED))
}

/// Each operation once. The interface moves back and forth, so it is home after two rounds.
fn operations(driver: &Driver, round: usize, times: &mut Times) -> Result<()> {
    let (from, to) = if round.is_multiple_of(2) { ("n0:moved", "n1") } else { ("n1:moved", "n0") };
    let commands: [&[&str]; OPERATIONS.len()] = [
        &["-l", LAB, "node", "create", "extra"],
        &["-l", LAB, "exec", "n0", "--", "true"],
        &["-l", LAB, "node", "move-interface", from, to, "--name", "moved"],
        &["-l", LAB, "node", "list"],
        &["-l", LAB, "node", "delete", "extra"],
    ];
    let mut seconds = [0.0; OPERATIONS.len()];
    for (command, time) in commands.iter().zip(&mut seconds) {
        *time = driver.time(command)?;
    }
    add(times, seconds);
    Ok(())
}

fn add(times: &mut Times, seconds: [f64; OPERATIONS.len()]) {
    for (all, one) in times.iter_mut().zip(seconds) {
        all.push(1000.0 * one);
    }
}

fn rows(nodes: u32, who: &str, times: &Times, note: &str, report: &mut Report) {
    for ((_, what), all) in OPERATIONS.iter().zip(times) {
        report.measured(&format!("{what}, {}", title(nodes)), who, "ms", all, note);
    }
}

fn title(nodes: u32) -> String {
    format!("{nodes} nodes + {} links", nodes / 2)
}

/// Nodes in pairs; the interface that moves is on the first link.
fn lab_file(nodes: u32, settings: &str) -> String {
    let mut text = format!("name: {LAB}\nnodes:\n");
    for node in 0..nodes {
        text += &format!("  n{node}: {{{settings}}}\n");
    }
    text += "links:\n  - [\"n0:moved\", n2]\n";
    for couple in 1..nodes / 2 {
        text += &format!("  - [n{}, n{}]\n", 2 * couple, 2 * couple + 1);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lab_has_as_many_links_as_it_says() {
        let text = lab_file(FEW, "");
        assert_eq!(text.lines().filter(|line| line.starts_with("  - ")).count(), 5);
        assert_eq!(title(FEW), "10 nodes + 5 links");
    }
}
