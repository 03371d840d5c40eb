//! `node`: what a node costs its programs: loopback TCP throughput by MTU, packet rate.
//!
//! The same program (`peer`) runs in a node and on the host, alternating. At the MTU of the host's `lo`
//! the host side is the host itself. At another MTU it is a plain namespace made by `unshare`, because the
//! host's `lo` stays unchanged; the same holds for an ordinary user, who has no raw sockets on the host.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::driver::{Driver, output};
use crate::machine::is_root;
use crate::report::side;
use crate::rounds::rounds;
use crate::{Options, Programs, Report};

const LAB: &str = "bench-node";
const LAB_FILE: &str = "name: bench-node\nnodes:\n  a: {}\n  b: {}\nlinks:\n  - [a, b]\n";
/// The MTUs of the source's figure.
const MTUS: &[u32] = &[128, 256, 512, 1024, 1500, 2048, 4096, 8192, 16384];
/// MTUs compared in a quick run, besides the host's own.
const QUICK: &[u32] = &[1500];
/// Pairs of measurements in a round: many short ones, so that other load on the machine hits both sides.
const PAIRS: usize = 4;
/// Time of the rounds of one comparison.
const TIME: Duration = Duration::from_secs(30);
/// Length of a round.
const SECONDS: &str = "0.3";
const PLAIN: &str = "a plain namespace on the host (unshare), not the host itself";

pub(crate) fn run(options: Options, programs: &Programs) -> Result<Report> {
    let driver = Driver::new(programs)?;
    let mut report = Report::new("node");
    driver.up(&driver.lab_file(LAB, LAB_FILE)?)?;
    let own = host_mtu()?;
    let mtus = if options.quick { QUICK } else { MTUS };
    let mut all = (vec![], vec![]);
    for mtu in mtus.iter().copied().filter(|mtu| *mtu != own).chain([own]) {
        let (node, host) = throughput(&driver, mtu, own, &mut report)?;
        all.0.extend(node);
        all.1.extend(host);
    }
    let given = ["in a node, TCP over lo, all MTUs", "outside, TCP over lo, all MTUs"];
    report.ratio("loopback_vs_host", side(given[0], &all.0), side(given[1], &all.1));
    for mtu in MTUS.iter().filter(|mtu| options.quick && !QUICK.contains(mtu)) {
        report.left_out(&format!("TCP over lo, MTU {mtu}"), "both", "--quick");
    }
    packets(&driver, own, &mut report)?;
    driver.down(LAB)?;
    Ok(report)
}

/// Gb/s of every round, node and host.
fn throughput(
    driver: &Driver,
    mtu: u32,
    own: u32,
    report: &mut Report,
) -> Result<(Vec<f64>, Vec<f64>)> {
    progress!("bench node: TCP over lo, MTU {mtu}");
    let what = format!("TCP over lo, MTU {mtu}");
    let plain = mtu != own;
    let (node, host) = alternate(
        || in_node(driver, mtu, "tcp"),
        || if plain { in_plain(driver, mtu, "tcp") } else { on_host(driver, "tcp") },
    )?;
    let gigabits = |rounds: Vec<f64>| rounds.into_iter().map(|bytes| bytes * 8e-9).collect();
    let (node, host): (Vec<f64>, Vec<f64>) = (gigabits(node), gigabits(host));
    report.measured(&what, "node", "Gb/s", &node, "one sender, one receiver, 128 KiB writes");
    let note = if plain { PLAIN } else { "the host's own lo" };
    report.measured(&what, "host", "Gb/s", &host, note);
    for (who, figures) in [("node", &node), ("host", &host)] {
        report.point("TCP over lo", ["bytes of MTU", "Gb/s"], who, f64::from(mtu), figures);
    }
    Ok((node, host))
}

fn packets(driver: &Driver, own: u32, report: &mut Report) -> Result<()> {
    progress!("bench node: ICMP echo flood");
    let (node, host) = alternate(
        || in_node(driver, own, "flood"),
        || if is_root() { on_host(driver, "flood") } else { in_plain(driver, own, "flood") },
    )?;
    let what = "ICMP echo over lo, replies";
    report.measured(what, "node", "/s", &node, "64-byte messages, raw socket, 32 in flight");
    report.measured(what, "host", "/s", &host, if is_root() { "the host's own lo" } else { PLAIN });
    let given = ["in a node, ICMP echo over lo", "outside, ICMP echo over lo"];
    report.ratio("packet_rate_vs_host", side(given[0], &node), side(given[1], &host));
    Ok(())
}

/// Figures of every pair: node and host.
type Pairs = (Vec<f64>, Vec<f64>);

/// Runs each side once per pair, alternating which is first. One uncounted pair comes before.
fn alternate(node: impl Fn() -> Result<f64>, host: impl Fn() -> Result<f64>) -> Result<Pairs> {
    node()?;
    host()?;
    let mut all = Pairs::default();
    let one_round = |_: usize, (in_node, on_host): &mut Pairs| {
        for pair in 0..PAIRS {
            if pair % 2 == 0 {
                in_node.push(node()?);
                on_host.push(host()?);
            } else {
                on_host.push(host()?);
                in_node.push(node()?);
            }
        }
        Ok(())
    };
    let ratio = |(in_node, on_host): &Pairs, report: &mut Report| {
        report.ratio("node_vs_host", side("node", in_node), side("host", on_host));
    };
    rounds(TIME, &mut all, one_round, ratio)?;
    Ok(all)
}

fn in_node(driver: &Driver, mtu: u32, program: &str) -> Result<f64> {
    driver.exec("a", &["ip", "link", "set", "lo", "mtu", &mtu.to_string()])?;
    figure(&driver.exec("a", &[driver.own_text()?, "peer", program, SECONDS])?)
}

fn on_host(driver: &Driver, program: &str) -> Result<f64> {
    figure(&output(driver.peer_command().args([program, SECONDS]))?)
}

fn in_plain(driver: &Driver, mtu: u32, program: &str) -> Result<f64> {
    let mut command = Command::new("unshare");
    if !is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    let script = "ip link set lo mtu \"$1\" up && exec \"$2\" peer \"$3\" \"$4\"";
    command.args(["--net", "sh", "-c", script, "sh", &mtu.to_string()]);
    figure(&output(command.arg(driver.own()).args([program, SECONDS]))?)
}

fn figure(text: &str) -> Result<f64> {
    text.trim().parse().with_context(|| format!("not a figure: {text}"))
}

fn host_mtu() -> Result<u32> {
    let text = std::fs::read_to_string("/sys/class/net/lo/mtu").context("read lo's MTU")?;
    text.trim().parse().context("lo's MTU is not a number")
}
