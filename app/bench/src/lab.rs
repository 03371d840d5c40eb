//! `lab`: how long a lab takes to come up and go down, compared with `ip -batch` and Mininet.
//!
//! Hosts on per-link segments: 2 nodes + 1 link, 100 + 180, 1,000 + 2,000. Times are wall times of the whole
//! command; `exec` in the smallest is measured, too. `ip` makes the same namespaces, links and addresses (no
//! processes, file systems, names or limits). Each round starts after the kernel has finished cleaning up the
//! previous one.

mod ip_batch;
mod mininet;
pub(crate) mod shape;

use std::time::Duration;

use anyhow::{Context, Result};

use crate::driver::Driver;
use crate::machine::{is_root, memory_kib};
use crate::report::side;
use crate::rounds::rounds;
use crate::settle::settle;
use crate::{Options, Programs, Report};
use shape::Shape;

const PAIR: Shape = Shape { nodes: 2, links: 1, forwarding: false };
const HUNDRED: Shape = Shape { nodes: 100, links: 180, forwarding: false };
const ROUTED: Shape = Shape { nodes: 100, links: 180, forwarding: true };
const THOUSAND: Shape = Shape { nodes: 1000, links: 2000, forwarding: false };
/// Every node has one link.
const COUPLES: Shape = Shape { nodes: 1000, links: 500, forwarding: false };

/// Seconds of every round of one shape with one tool.
#[derive(Debug, Default)]
struct Times {
    up: Vec<f64>,
    down: Vec<f64>,
    /// KiB per node while the lab is up.
    node_kib: Vec<f64>,
}

/// Both tools' times of one shape.
#[derive(Debug, Default)]
struct Both {
    ours: Times,
    ip: Times,
}

impl Both {
    fn ratio(&self, name: &str, report: &mut Report) {
        let given = [("netloom", SETTINGS), ("ip -batch", ip_batch::SETTINGS)]
            .map(|(who, settings)| format!("{who}: {settings}"));
        report.ratio(name, side(&given[0], &self.ours.up), side(&given[1], &self.ip.up));
    }
}

/// What netloom was given.
const SETTINGS: &str = "whole `netloom up` and `down`";

pub(crate) fn run(options: Options, programs: &Programs) -> Result<Report> {
    let driver = Driver::new(programs)?;
    let mut report = Report::new("lab");
    let seconds = |quick, full| Duration::from_secs(if options.quick { quick } else { full });
    pair(&driver, seconds(8, 40), &mut report)?;
    exec(&driver, seconds(2, 10), &mut report)?;
    hundred(&driver, seconds(15, 40), &mut report)?;
    routed(&driver, seconds(8, 40), &mut report)?;
    memory(&driver, seconds(15, 40), &mut report)?;
    thousand(&driver, seconds(60, 120), &mut report)?;
    mininet::compare(options, &mut report)?;
    Ok(report)
}

fn pair(driver: &Driver, time: Duration, report: &mut Report) -> Result<()> {
    compare(driver, PAIR, time, report, |both, report| {
        let ms: Vec<f64> = both.ours.up.iter().map(|seconds| seconds * 1000.0).collect();
        report.value("up_2_ms", &ms);
    })
}

/// The shortest use of a lab that is up: a program that does nothing.
fn exec(driver: &Driver, time: Duration, report: &mut Report) -> Result<()> {
    let what = "exec, 2 nodes + 1 link";
    progress!("bench lab: {what}");
    driver.up(&driver.lab_file(shape::LAB, &PAIR.lab_file())?)?;
    let mut times = Vec::new();
    let one_round = |_: usize, times: &mut Vec<f64>| {
        times.push(driver.time(&["exec", "n0", "--", "true"])? * 1000.0);
        Ok(())
    };
    let figures = |times: &Vec<f64>, report: &mut Report| report.value("exec_ms", times);
    rounds(time, &mut times, one_round, figures)?;
    driver.down(shape::LAB)?;
    report.measured(what, "netloom", "ms", &times, "whole `netloom exec NODE -- true`");
    figures(&times, report);
    Ok(())
}

fn hundred(driver: &Driver, time: Duration, report: &mut Report) -> Result<()> {
    compare(driver, HUNDRED, time, report, |both, report| {
        report.value("up_100_s", &both.ours.up);
        report.value("down_100_s", &both.ours.down);
        both.ratio("up_100_vs_ip", report);
    })
}

fn routed(driver: &Driver, time: Duration, report: &mut Report) -> Result<()> {
    let mut times = Times::default();
    let one_round = |round: usize, times: &mut Times| {
        progress(ROUTED, round);
        ours(driver, ROUTED, times)
    };
    let figures = |times: &Times, report: &mut Report| report.value("up_100_routed_s", &times.up);
    rounds(time, &mut times, one_round, figures)?;
    rows(ROUTED, "netloom", &times, "all nodes forward, shortest-path routes", report);
    figures(&times, report);
    Ok(())
}

fn thousand(driver: &Driver, time: Duration, report: &mut Report) -> Result<()> {
    compare(driver, THOUSAND, time, report, |both, report| {
        report.value("up_1000_s", &both.ours.up);
        report.value("down_1000_s", &both.ours.down);
        both.ratio("up_1000_vs_ip", report);
    })
}

/// Runs before larger labs, and takes the largest round: memory freed by a lab stays in the kernel's caches
/// for a while, where the next lab finds it.
fn memory(driver: &Driver, time: Duration, report: &mut Report) -> Result<()> {
    let mut times = Times::default();
    let one_round = |round: usize, times: &mut Times| {
        progress(COUPLES, round);
        ours(driver, COUPLES, times)
    };
    rounds(time, &mut times, one_round, |_, _| ())?;
    rows(COUPLES, "netloom", &times, "every node has one link", report);
    let most = times.node_kib.iter().copied().fold(0.0, f64::max);
    report.of_all("node_kib", most);
    Ok(())
}

/// Alternates netloom and `ip`, whose times are empty if it cannot run.
fn compare(
    driver: &Driver,
    shape: Shape,
    time: Duration,
    report: &mut Report,
    figures: impl Fn(&Both, &mut Report),
) -> Result<()> {
    let mut both = Both::default();
    let peer = ip_batch::version();
    let usable = is_root() && peer.is_some();
    let one_round = |round: usize, both: &mut Both| {
        progress(shape, round);
        ours(driver, shape, &mut both.ours)?;
        if usable {
            settle()?;
            let seconds = ip_batch::round(shape)?;
            both.ip.up.push(seconds.0);
            both.ip.down.push(seconds.1);
        }
        Ok(())
    };
    rounds(time, &mut both, one_round, &figures)?;
    rows(shape, "netloom", &both.ours, SETTINGS, report);
    figures(&both, report);
    if usable {
        rows(shape, "ip -batch", &both.ip, ip_batch::SETTINGS, report);
    } else {
        report.left_out(&shape.title(), "ip -batch", "needs root and the `ip` program");
    }
    report.peers.insert("ip".to_owned(), peer.filter(|_| usable));
    Ok(())
}

fn ours(driver: &Driver, shape: Shape, times: &mut Times) -> Result<()> {
    let file = driver.lab_file(shape::LAB, &shape.lab_file())?;
    settle()?;
    let before = memory_kib("MemAvailable").context("read MemAvailable")?;
    times.up.push(driver.up(&file)?);
    let after = memory_kib("MemAvailable").context("read MemAvailable")?;
    times.node_kib.push((before - after) / f64::from(shape.nodes));
    times.down.push(driver.down(shape::LAB)?);
    Ok(())
}

fn rows(shape: Shape, who: &str, times: &Times, note: &str, report: &mut Report) {
    let title = shape.title();
    report.measured(&format!("up, {title}"), who, "s", &times.up, note);
    report.measured(&format!("down, {title}"), who, "s", &times.down, note);
    if shape.nodes >= 1000 {
        let note = "fall of MemAvailable while it is up, divided by nodes";
        report.measured(&format!("memory a node, {title}"), who, "KiB", &times.node_kib, note);
    }
}

fn progress(shape: Shape, round: usize) {
    progress!("bench lab: {}, round {}", shape.title(), round + 1);
}
