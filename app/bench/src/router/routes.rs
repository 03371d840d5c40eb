//! A hundred thousand routes in a router: the time and memory they take, and the forwarding rate then; and how long until
//! a switch that forwards beside it has them.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::ground::{Ground, Load, Path};
use super::place::Place;
use super::way::{B, Way};
use crate::driver::{Driver, output};
use crate::machine::memory_kib;
use crate::processes::{memory, tree};
use crate::{Options, Report};

const COUNT: u32 = 100_000;
/// Their protocol number, for ip: no other program on the machine uses it.
const PROTOCOL: &str = "99";
/// What the kernel has routes in.
const KINDS: [&str; 3] = ["SUnreclaim", "VmallocUsed", "Percpu"];
const ROUNDS: usize = 5;
const TIME: &str = "100,000 routes made";
const MEMORY: &str = "memory of 100,000 routes";
const PROCESSES: &str = "memory of netloom's processes beside 100,000 routes";
const FOLLOWED: &str = "100,000 routes in the switch, after they are made";
const GONE: &str = "100,000 routes gone from the switch, after they are gone";
const RATE: &str = "64-byte frames, routed, beside 100,000 routes";
const WAYS: [Way; 3] = [Way::Kernel, Way::Node, Way::Separate];
/// How long the switch beside a router may take until it has what the router has.
const PATIENCE: Duration = Duration::from_secs(60);

/// The quantities measured in a round, in the order of the rows.
type Figures = Vec<(&'static str, &'static str, f64, &'static str)>;

/// Measures in both routers in turn, and adds rows.
pub(super) fn run(
    options: Options,
    driver: &Driver,
    grounds: &BTreeMap<Way, Ground<'_>>,
    report: &mut Report,
) -> Result<()> {
    if options.quick {
        for (what, way) in all() {
            report.left_out(what, way.title(), "--quick");
        }
        return Ok(());
    }
    let file = driver.folder().join("routes");
    std::fs::write(&file, batch()).context("write the routes")?;
    let mut seen: BTreeMap<Way, Vec<Figures>> = BTreeMap::new();
    for round in 0..ROUNDS {
        progress!("bench router: 100,000 routes, round {}", round + 1);
        for way in WAYS {
            let Some((ground, place)) = grounds.get(&way).and_then(|g| Some((g, g.router()?)))
            else {
                continue;
            };
            let figures = round_of(driver, way, place, ground, &file)?;
            seen.entry(way).or_default().push(figures);
        }
    }
    for (way, rounds) in &seen {
        for (at, (what, unit, _, note)) in rounds.first().into_iter().flatten().enumerate() {
            let figures: Vec<f64> = rounds.iter().map(|round| round[at].2).collect();
            report.measured(what, way.title(), unit, &figures, note);
        }
    }
    Ok(())
}

/// Which program has which row.
fn all() -> impl Iterator<Item = (&'static str, Way)> {
    let common = [TIME, MEMORY, RATE].into_iter().flat_map(|what| WAYS.map(|way| (what, way)));
    common.chain([FOLLOWED, GONE, PROCESSES].map(|what| (what, Way::Separate)))
}

/// Makes the routes, measures, and takes them away again.
fn round_of(
    driver: &Driver,
    way: Way,
    place: &Place,
    ground: &Ground<'_>,
    file: &std::path::Path,
) -> Result<Figures> {
    let kib = || KINDS.iter().filter_map(|kind| memory_kib(kind)).sum::<f64>();
    let beside = (way == Way::Separate).then(|| Beside::of(driver)).transpose()?;
    let (before, start) = (kib(), Instant::now());
    output(place.command("ip").arg("-batch").arg(file))?;
    let time = start.elapsed().as_secs_f64();
    let followed = beside.as_ref().map(|beside| beside.until(COUNT)).transpose()?;
    let mib = (kib() - before).max(0.0) / 1024.0;
    let mut figures: Figures = vec![
        (TIME, "s", time, "ip -batch, prefixes of 28 bits, one next hop"),
        (MEMORY, "MiB", mib, "by /proc/meminfo: slabs, vmalloc and memory of processors"),
    ];
    if let Some((beside, followed)) = beside.as_ref().zip(followed) {
        figures.push((PROCESSES, "MiB", beside.mib(), "Pss, all of the lab's"));
        figures.push((FOLLOWED, "s", followed, "netloom flow dump, its own time included"));
    }
    let rate = ground.measure(Path::Routed, Load::Frames(64))?.figure / 1e6;
    place.ip(&format!("route flush proto {PROTOCOL}"))?;
    if let Some(beside) = &beside {
        figures.push((GONE, "s", beside.until(0)?, "netloom flow dump, its own time included"));
    }
    figures.push((RATE, "Mpps", rate, ""));
    Ok(figures)
}

/// The switch that forwards beside a router.
struct Beside<'a> {
    driver: &'a Driver,
    /// The lab's process.
    lab: u32,
}

impl<'a> Beside<'a> {
    fn of(driver: &'a Driver) -> Result<Beside<'a>> {
        let shown = driver.json(&["-l", Way::Separate.lab(), "status", "--json"])?;
        let lab = shown["pid"].as_u64().context("the lab has no process")?;
        Ok(Beside { driver, lab: u32::try_from(lab)? })
    }

    /// Memory of the lab's processes.
    #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
    fn mib(&self) -> f64 {
        memory(&tree(self.lab)) as f64 / f64::from(1 << 20)
    }

    /// Seconds until the switch has this many of the routes.
    fn until(&self, count: u32) -> Result<f64> {
        let start = Instant::now();
        loop {
            let mut dump = self.driver.command();
            let shown = output(dump.args(["-l", Way::Separate.lab(), "flow", "dump", "r"]))?;
            let own = shown.lines().filter(|line| line.contains(",ipv4_dst=10.")).count();
            if own == usize::try_from(count)? {
                return Ok(start.elapsed().as_secs_f64());
            }
            anyhow::ensure!(start.elapsed() < PATIENCE, "the switch has {own} of {count} routes");
        }
    }
}

/// The routes, for `ip -batch`.
fn batch() -> String {
    let mut text = String::new();
    for number in 0..COUNT {
        let to = Ipv4Addr::from(u32::from(Ipv4Addr::new(10, 0, 0, 0)) + 16 * number);
        let _ = writeln!(text, "route add {to}/28 via {B} proto {PROTOCOL}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_are_as_many_and_do_not_overlap() {
        let text = batch();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 100_000);
        assert_eq!(lines[0], "route add 10.0.0.0/28 via 198.18.2.2 proto 99");
        assert_eq!(lines[99_999], "route add 10.24.105.240/28 via 198.18.2.2 proto 99");
    }
}
