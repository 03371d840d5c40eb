//! `lab`: how long a lab takes to come up and go down, compared with `ip -batch` and Mininet.
//!
//! Hosts on per-link segments: 2 nodes + 1 link, 100 + 180, 1,000 + 2,000. Times are wall times of the whole
//! command. `ip` makes the same namespaces, links and addresses (no processes, file systems, names or
//! limits). Each round starts after the kernel has finished cleaning up the previous one.

mod ip_batch;
mod mininet;
mod shape;

use std::path::Path;

use anyhow::{Context, Result};

use crate::driver::Driver;
use crate::machine::{is_root, memory_kib};
use crate::settle::settle;
use crate::{Options, Report};
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

pub(crate) fn run(options: Options, exe: &Path) -> Result<Report> {
    let driver = Driver::new(exe)?;
    let mut report = Report::new("lab");
    let (small, large) = if options.quick { (5, 3) } else { (20, 10) };
    pair(&driver, small * 2, &mut report)?;
    hundred(&driver, small, &mut report)?;
    routed(&driver, small, &mut report)?;
    memory(&driver, large, &mut report)?;
    thousand(&driver, large, &mut report)?;
    mininet::compare(options, &mut report)?;
    Ok(report)
}

fn pair(driver: &Driver, rounds: usize, report: &mut Report) -> Result<()> {
    let (ours, _) = compare(driver, PAIR, rounds, report)?;
    let ms: Vec<f64> = ours.up.iter().map(|seconds| seconds * 1000.0).collect();
    report.value("up_2_ms", &ms);
    Ok(())
}

fn hundred(driver: &Driver, rounds: usize, report: &mut Report) -> Result<()> {
    let (ours, ip) = compare(driver, HUNDRED, rounds, report)?;
    report.value("up_100_s", &ours.up);
    report.value("down_100_s", &ours.down);
    report.ratio("up_100_vs_ip", &ours.up, &ip.up);
    Ok(())
}

fn routed(driver: &Driver, rounds: usize, report: &mut Report) -> Result<()> {
    let mut times = Times::default();
    for round in 0..rounds {
        progress(ROUTED, round, rounds);
        ours(driver, ROUTED, &mut times)?;
    }
    rows(ROUTED, "netloom", &times, "all nodes forward, shortest-path routes", report);
    report.value("up_100_routed_s", &times.up);
    Ok(())
}

fn thousand(driver: &Driver, rounds: usize, report: &mut Report) -> Result<()> {
    let (ours, ip) = compare(driver, THOUSAND, rounds, report)?;
    report.value("up_1000_s", &ours.up);
    report.value("down_1000_s", &ours.down);
    report.ratio("up_1000_vs_ip", &ours.up, &ip.up);
    Ok(())
}

/// Runs before larger labs, and takes the largest round: memory freed by a lab stays in the kernel's caches
/// for a while, where the next lab finds it.
fn memory(driver: &Driver, rounds: usize, report: &mut Report) -> Result<()> {
    let mut times = Times::default();
    for round in 0..rounds {
        progress(COUPLES, round, rounds);
        ours(driver, COUPLES, &mut times)?;
    }
    rows(COUPLES, "netloom", &times, "every node has one link", report);
    let most = times.node_kib.iter().copied().fold(0.0, f64::max);
    report.value("node_kib", &[most]);
    Ok(())
}

/// Alternates netloom and `ip`, whose times are empty if it cannot run.
fn compare(
    driver: &Driver,
    shape: Shape,
    rounds: usize,
    report: &mut Report,
) -> Result<(Times, Times)> {
    let (mut our_times, mut ip_times) = (Times::default(), Times::default());
    let peer = ip_batch::version();
    let usable = is_root() && peer.is_some();
    for round in 0..rounds {
        progress(shape, round, rounds);
        ours(driver, shape, &mut our_times)?;
        if usable {
            settle()?;
            let seconds = ip_batch::round(shape)?;
            ip_times.up.push(seconds.0);
            ip_times.down.push(seconds.1);
        }
    }
    rows(shape, "netloom", &our_times, "whole `netloom up` and `down`", report);
    if usable {
        rows(shape, "ip -batch", &ip_times, ip_batch::SETTINGS, report);
    } else {
        report.left_out(&shape.title(), "ip -batch", "needs root and the `ip` program");
    }
    report.peers.insert("ip".to_owned(), peer.filter(|_| usable));
    Ok((our_times, ip_times))
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

fn progress(shape: Shape, round: usize, rounds: usize) {
    eprintln!("bench lab: {}, round {} of {rounds}", shape.title(), round + 1);
}
