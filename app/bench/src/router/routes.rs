//! A hundred thousand routes in a router: how long they take, what memory, and what is forwarded then.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::Ipv4Addr;
use std::time::Instant;

use anyhow::{Context, Result};

use super::ground::{Ground, Load, Path};
use super::place::Place;
use super::way::{B, Way};
use crate::driver::{Driver, output};
use crate::machine::memory_kib;
use crate::{Options, Report};

const COUNT: u32 = 100_000;
/// Who has set them, for ip: nobody else on the machine.
const PROTOCOL: &str = "99";
/// What the kernel has routes in.
const KINDS: [&str; 3] = ["SUnreclaim", "VmallocUsed", "Percpu"];
const ROUNDS: usize = 5;
const TIME: &str = "100,000 routes made";
const MEMORY: &str = "memory of 100,000 routes";
const RATE: &str = "64-byte frames, routed, beside 100,000 routes";
const WAYS: [Way; 2] = [Way::Kernel, Way::Node];

/// Measures in both routers in turn, and adds rows.
pub(super) fn run(
    options: Options,
    driver: &Driver,
    grounds: &BTreeMap<Way, Ground<'_>>,
    report: &mut Report,
) -> Result<()> {
    if options.quick {
        for (what, way) in
            [TIME, MEMORY, RATE].into_iter().flat_map(|what| WAYS.map(|way| (what, way)))
        {
            report.left_out(what, way.title(), "--quick");
        }
        return Ok(());
    }
    let file = driver.folder().join("routes");
    std::fs::write(&file, batch()).context("write the routes")?;
    let mut seen: BTreeMap<Way, [Vec<f64>; 3]> = BTreeMap::new();
    for round in 0..ROUNDS {
        eprintln!("bench router: 100,000 routes, round {}", round + 1);
        for way in WAYS {
            let Some((ground, place)) = grounds.get(&way).and_then(|g| Some((g, g.router()?)))
            else {
                continue;
            };
            let [time, memory] = make(place, &file)?;
            let rate = ground.measure(Path::Routed, Load::Frames(64))?.figure / 1e6;
            place.ip(&format!("route flush proto {PROTOCOL}"))?;
            let all = seen.entry(way).or_default();
            all.iter_mut().zip([time, memory, rate]).for_each(|(all, figure)| all.push(figure));
        }
    }
    for (way, [times, memory, rates]) in &seen {
        report.measured(
            TIME,
            way.title(),
            "s",
            times,
            "ip -batch, prefixes of 28 bits, one next hop",
        );
        let note = "by /proc/meminfo: slabs, vmalloc and memory of processors";
        report.measured(MEMORY, way.title(), "MiB", memory, note);
        report.measured(RATE, way.title(), "Mpps", rates, "");
    }
    Ok(())
}

/// Makes them; seconds, and MiB.
fn make(place: &Place, file: &std::path::Path) -> Result<[f64; 2]> {
    let kib = || KINDS.iter().filter_map(|kind| memory_kib(kind)).sum::<f64>();
    let (before, start) = (kib(), Instant::now());
    output(place.command("ip").arg("-batch").arg(file))?;
    Ok([start.elapsed().as_secs_f64(), (kib() - before).max(0.0) / 1024.0])
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
