//! `switch`: the shared-memory switch between processes and between nodes, compared with vde_switch, the
//! kernel's bridge and Open vSwitch's userspace datapath.
//!
//! Frames between processes use the same program on both sides, which joins by libvdeplug and counts received
//! frames. Stations are nodes, in pairs, as in the source's tables. The datagrams of `n` stations are sent at
//! `B / (2n)` each, in both directions. `B` is vde_switch's TCP throughput in the same round, but at least
//! that of the source's own switch: the same for all. Every cell runs once per round, forwards and backwards
//! in turn.

mod frames;
pub(crate) mod source;
mod stations;
mod vswitch;

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use netloom_stats::{Summary, ratio_ci};

use crate::capture::version;
use crate::driver::Driver;
use crate::report::side;
use crate::rounds::rounds;
use crate::vde;
use crate::{Options, Programs, Report};
use frames::{Announced, BALL, Flow, How, Joining, Switches};
use stations::{DATA, Datagrams, Kind, Stations, Streams};

/// Frame sizes in bytes, Ethernet header included.
const SIZES: [u32; 5] = [60, 512, 1500, 9000, 65535];
/// Sizes that feed ratios.
const QUICK_SIZES: [u32; 2] = [60, 1500];
/// vde_switch truncates longer frames and forwards them truncated.
const VDE_LIMIT: u32 = 1518;
/// Numbers of stations.
const COUNTS: [usize; 4] = [2, 4, 6, 8];
/// Numbers that feed ratios in a quick run.
const QUICK_COUNTS: [usize; 2] = [2, 8];
/// Stations of the lab, and of the long transfer.
const MOST: usize = 8;
/// Seconds of that transfer, and of the datagrams with fewer stations.
const LONG: f64 = 5.0;
const SHORT: f64 = 1.0;

/// A cell of the experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Cell {
    Flow(u32, Joining),
    /// To a station that announced itself before the sender joined.
    Announced(Joining),
    Ping(How, Joining),
    /// The cost of sleeping on this machine, independent of any switch.
    Bells(How),
    Edge,
    Streams(usize, Kind),
    Datagrams(usize, Kind),
}

/// All rounds.
#[derive(Default)]
struct Results {
    flows: BTreeMap<(u32, Joining), Vec<Flow>>,
    announced: BTreeMap<Joining, Vec<Announced>>,
    /// Median and 99th percentile.
    pings: BTreeMap<(How, Joining), Vec<(f64, f64)>>,
    bells: BTreeMap<How, Vec<(f64, f64)>>,
    edges: Vec<f64>,
    streams: BTreeMap<(usize, Kind), Vec<Streams>>,
    datagrams: BTreeMap<(usize, Kind), Vec<Datagrams>>,
}

pub(crate) fn run(options: Options, programs: &Programs) -> Result<Report> {
    let driver = Driver::new(programs)?;
    let mut report = Report::new("switch");
    report.peers.insert("vde_switch".to_owned(), vde::version());
    report.peers.insert("openvswitch".to_owned(), version("ovs-vswitchd"));
    let switches = Switches::start(&driver, vde::version().is_some())?;
    let kinds = [Kind::Shm, Kind::Vde, Kind::Bridge, Kind::Vswitch];
    let kinds = kinds.into_iter().filter(|kind| !options.quick || *kind != Kind::Vswitch);
    let up = kinds.filter(|kind| stations::missing(*kind).is_none());
    let up = up.map(|kind| Ok((kind, Stations::up(&driver, kind, MOST)?)));
    let labs = up.collect::<Result<BTreeMap<_, _>>>()?;
    for lab in labs.values() {
        lab.greet(MOST)?;
    }
    let (all, quick) = (plan(false), plan(true));
    let chosen = if options.quick { &quick } else { &all };
    let there = |cell: &&Cell| why_not(**cell, &switches).is_none();
    let mut cells: Vec<Cell> = chosen.iter().filter(there).copied().collect();
    let mut results = Results::default();
    let time = Duration::from_secs(if options.quick { 85 } else { 250 });
    let one_round = |round: usize, results: &mut Results| {
        progress!("bench switch: round {}, {} cells", round + 1, cells.len());
        cells.iter().try_for_each(|cell| measure(*cell, &switches, &labs, results))?;
        cells.reverse();
        // Datagrams are paced by the streams of the same round.
        cells.sort_by_key(|cell| matches!(cell, Cell::Datagrams(..)));
        Ok(())
    };
    rounds(time, &mut results, one_round, figures)?;
    rows(&results, &mut report);
    for cell in &all {
        let why = why_not(*cell, &switches)
            .or_else(|| (!chosen.contains(cell)).then(|| "--quick".to_owned()));
        if let Some(why) = why {
            report.left_out(&title(*cell), who(*cell), &why);
        }
    }
    source::rows(&mut report);
    figures(&results, &mut report);
    Ok(report)
}

/// Cells of each round, datagrams last.
fn plan(quick: bool) -> Vec<Cell> {
    let (sizes, ways): (&[u32], &[Joining]) = if quick {
        (&QUICK_SIZES, &[Joining::Plugin, Joining::Vde])
    } else {
        (&SIZES, &Joining::ALL)
    };
    let counts: &[usize] = if quick { &QUICK_COUNTS } else { &COUNTS };
    let mut cells = vec![];
    for size in sizes {
        cells.extend(ways.iter().map(|way| Cell::Flow(*size, *way)));
    }
    cells.extend([Joining::Plugin, Joining::Vde].map(Cell::Announced));
    let pings = [
        (How::Block, Joining::Plugin),
        (How::Apart, Joining::Plugin),
        (How::Wait, Joining::Library),
    ];
    cells.extend(pings.map(|(how, way)| Cell::Ping(how, way)));
    if !quick {
        cells.extend([Joining::Vde, Joining::Library].map(|way| Cell::Ping(How::Block, way)));
        let ways = [Joining::Plugin, Joining::Vde, Joining::Library];
        cells.extend(ways.map(|way| Cell::Ping(How::Spin, way)));
    }
    cells.extend([How::Block, How::Apart].map(Cell::Bells));
    cells.push(Cell::Edge);
    for count in counts {
        let kinds = [Kind::Shm, Kind::Vde, Kind::Bridge, Kind::Vswitch];
        let kinds = kinds.into_iter().filter(|kind| !quick || *kind != Kind::Vswitch);
        cells.extend(kinds.map(|kind| Cell::Streams(*count, kind)));
    }
    for count in counts {
        let kinds = [Kind::Shm, Kind::Vde, Kind::Bridge];
        let kinds = kinds.into_iter().filter(|kind| !quick || *kind != Kind::Bridge);
        cells.extend(kinds.map(|kind| Cell::Datagrams(*count, kind)));
    }
    cells
}

/// Why a cell cannot be measured here.
fn why_not(cell: Cell, switches: &Switches<'_>) -> Option<String> {
    match cell {
        Cell::Flow(_, way) | Cell::Announced(way) | Cell::Ping(_, way) => switches.missing(way),
        Cell::Bells(_) | Cell::Edge => None,
        Cell::Streams(_, kind) | Cell::Datagrams(_, kind) => {
            stations::missing(kind).map(str::to_owned)
        }
    }
}

fn measure(
    cell: Cell,
    switches: &Switches<'_>,
    labs: &BTreeMap<Kind, Stations<'_>>,
    results: &mut Results,
) -> Result<()> {
    match cell {
        Cell::Flow(size, way) => {
            let flow = switches.flow(way, size, 0.5)?;
            results.flows.entry((size, way)).or_default().push(flow);
        }
        Cell::Announced(way) => {
            let announced = switches.announced(way, 0.5)?;
            results.announced.entry(way).or_default().push(announced);
        }
        Cell::Ping(how, way) => {
            let times = switches.ping(way, how, 0.5)?;
            results.pings.entry((how, way)).or_default().push(times);
        }
        Cell::Bells(how) => {
            results.bells.entry(how).or_default().push(switches.bells(how, 0.3)?);
        }
        Cell::Edge => results.edges.push(switches.edge()?),
        Cell::Streams(count, kind) => {
            let Some(lab) = labs.get(&kind) else { return Ok(()) };
            let streams = lab.streams(count, 0.8)?;
            results.streams.entry((count, kind)).or_default().push(streams);
        }
        Cell::Datagrams(count, kind) => {
            let Some(lab) = labs.get(&kind) else { return Ok(()) };
            let vde = results.streams.get(&(count, Kind::Vde)).and_then(|all| all.last());
            let rate = pace(count, vde.map_or(0.0, |streams| streams.gbps));
            let time = if (count, kind) == (MOST, Kind::Shm) { LONG } else { SHORT };
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "< 10^7")]
            let each = (rate * time).ceil() as u64;
            let datagrams = lab.datagrams(count, each, rate)?;
            results.datagrams.entry((count, kind)).or_default().push(datagrams);
        }
    }
    Ok(())
}

/// Datagrams per second and station after TCP has carried this many Gb/s.
fn pace(count: usize, gbps: f64) -> f64 {
    let most = gbps.max(source::most(count)) * 1e9;
    let count = u32::try_from(count).map_or(1.0, f64::from);
    most / (2.0 * count) / f64::from(8 * DATA)
}

fn who(cell: Cell) -> &'static str {
    match cell {
        Cell::Flow(_, way) | Cell::Announced(way) | Cell::Ping(_, way) => way.title(),
        Cell::Bells(_) => "machine",
        Cell::Edge => "netloom",
        Cell::Streams(_, kind) | Cell::Datagrams(_, kind) => kind.title(),
    }
}

fn title(cell: Cell) -> String {
    match cell {
        Cell::Flow(size, _) => format!("process to process, {size} bytes"),
        Cell::Announced(_) => format!("to a station announced before, {BALL} bytes"),
        Cell::Ping(how, _) => format!("ping-pong, {BALL} bytes, {}", how.title()),
        Cell::Bells(how) => format!("ping-pong, two eventfds, {}", how.title()),
        Cell::Edge => "memory of one more edge".to_owned(),
        Cell::Streams(count, _) => format!("TCP sum, {count} stations"),
        Cell::Datagrams(count, _) => format!("UDP lost, {count} stations"),
    }
}

fn rows(results: &Results, report: &mut Report) {
    for ((size, way), all) in &results.flows {
        let what = title(Cell::Flow(*size, *way));
        let cut = mean(&each(all, |flow| 100.0 * flow.cut));
        let mut note = way.settings().to_owned();
        if *way == Joining::Vde && *size > VDE_LIMIT {
            note += &format!(
                "; it cuts frames at {VDE_LIMIT} bytes and passes on the rest: {cut:.0} % came \
                 cut, no comparison"
            );
        } else if cut > 0.0 {
            note += &format!("; {cut:.3} % came with another length");
        }
        report.measured(&what, way.title(), "Mpps", &each(all, |flow| flow.mpps), &note);
        report.measured(&what, way.title(), "Gb/s", &each(all, |flow| flow.gbps), &note);
        let axes = ["bytes of a frame", "Mpps"];
        let mpps = each(all, |flow| flow.mpps);
        report.point("process to process", axes, way.title(), f64::from(*size), &mpps);
    }
    for (way, all) in &results.announced {
        let what = title(Cell::Announced(*way));
        let elsewhere: f64 = all.iter().map(|announced| announced.elsewhere).sum();
        let note = format!("{}; {elsewhere:.0} frames came to a bystander", way.settings());
        report.measured(&what, way.title(), "Mpps", &each(all, |a| a.mpps), &note);
        report.measured(&format!("{what}, lost"), way.title(), "%", &each(all, |a| a.lost), &note);
    }
    for ((how, way), all) in &results.pings {
        let what = title(Cell::Ping(*how, *way));
        let note = format!("there and back; {}", way.settings());
        report.measured(&format!("{what}, p50"), way.title(), "us", &each(all, |p| p.0), &note);
        report.measured(&format!("{what}, p99"), way.title(), "us", &each(all, |p| p.1), &note);
    }
    for (how, all) in &results.bells {
        let (what, note) = (title(Cell::Bells(*how)), "two threads, poll(2): the machine's part");
        report.measured(&format!("{what}, p50"), "machine", "us", &each(all, |p| p.0), note);
        report.measured(&format!("{what}, p99"), "machine", "us", &each(all, |p| p.1), note);
    }
    let note = "of its memories, once it has been used all through";
    report.measured(&title(Cell::Edge), "netloom", "KiB", &results.edges, note);
    for ((count, kind), all) in &results.streams {
        let note = format!("{} streams, one way each; {}", count / 2, kind.settings());
        let what = title(Cell::Streams(*count, *kind));
        report.measured(&what, kind.title(), "Gb/s", &each(all, |s| s.gbps), &note);
        let stations = u32::try_from(*count).map_or(0.0, f64::from);
        let axes = ["stations", "Gb/s"];
        report.point("TCP sum", axes, kind.title(), stations, &each(all, |s| s.gbps));
        let cpu = format!("while TCP, {count} stations");
        let of = |report: &mut Report, what: &str, figures: &[f64]| {
            report.measured(&format!("{what} {cpu}"), kind.title(), "% of a core", figures, "");
        };
        of(report, "CPU of stations", &each(all, |s| s.cpu.stations));
        let switch: Vec<f64> = all.iter().filter_map(|s| s.cpu.switch).collect();
        of(report, "CPU of switch", &switch);
    }
    for ((count, kind), all) in &results.datagrams {
        let sent: f64 = all.iter().map(|d| d.sent).sum();
        let lost: f64 = all.iter().map(|d| d.lost).sum();
        let mut note = format!(
            "{lost:.0} of {sent:.0}, {DATA} bytes each, both ways at B/(2n), B of vde_switch in \
             the same round and no less than the source's; {}",
            kind.settings()
        );
        for (cause, count) in all.iter().flat_map(|datagrams| &datagrams.dropped) {
            note += &format!("; ports count {count} {cause}");
        }
        let what = title(Cell::Datagrams(*count, *kind));
        report.measured(&what, kind.title(), "%", &each(all, lost_percent), &note);
    }
}

fn lost_percent(datagrams: &Datagrams) -> f64 {
    100.0 * datagrams.lost / datagrams.sent.max(1.0)
}

fn each<T>(all: &[T], figure: impl Fn(&T) -> f64) -> Vec<f64> {
    all.iter().map(figure).collect()
}

fn mean(figures: &[f64]) -> f64 {
    Summary::of(figures).map_or(0.0, |summary| summary.mean)
}

/// Ratios and values; with several numbers of stations, the worst.
fn figures(results: &Results, report: &mut Report) {
    let flows = |size, way, figure: fn(&Flow) -> f64| {
        results.flows.get(&(size, way)).map_or(vec![], |all| each(all, figure))
    };
    for (name, size, figure) in [
        ("pps60_vs_vde", 60, (|f| f.mpps) as fn(&Flow) -> f64),
        ("gbps1500_vs_vde", 1500, |f| f.gbps),
    ] {
        let given = [Joining::Plugin, Joining::Vde]
            .map(|way| format!("{}, {size} bytes, {}", way.title(), way.settings()));
        let (ours, theirs) =
            (flows(size, Joining::Plugin, figure), flows(size, Joining::Vde, figure));
        report.ratio(name, side(&given[0], &ours), side(&given[1], &theirs));
    }
    for (name, peer) in [("tcp_vs_vde", Kind::Vde), ("tcp_vs_bridge", Kind::Bridge)] {
        let of = |count, kind| {
            results.streams.get(&(count, kind)).map_or(vec![], |all| each(all, |s| s.gbps))
        };
        let pairs = COUNTS.map(|count| (count, (of(count, Kind::Shm), of(count, peer))));
        let known = pairs.into_iter().filter(|(_, (ours, theirs))| ratio_ci(ours, theirs).is_ok());
        let worst = known.min_by(|(_, a), (_, b)| ratio(a).total_cmp(&ratio(b)));
        let (count, (ours, theirs)) = worst.unwrap_or_default();
        let given = [Kind::Shm, peer]
            .map(|kind| format!("{}, {count} stations, {}", kind.title(), kind.settings()));
        report.ratio(name, side(&given[0], &ours), side(&given[1], &theirs));
    }
    let ping = |how, way| results.pings.get(&(how, way)).map_or(vec![], |all| each(all, |p| p.0));
    report.value("pingpong_block_us", &ping(How::Block, Joining::Plugin));
    report.value("pingpong_two_cores_us", &ping(How::Apart, Joining::Plugin));
    report.value("pingpong_spin_us", &ping(How::Wait, Joining::Library));
    let bells = |how| results.bells.get(&how).map_or(vec![], |all| each(all, |p| p.0));
    report.value("eventfd_pingpong_us", &bells(How::Block));
    report.value("eventfd_two_cores_us", &bells(How::Apart));
    let apart = (ping(How::Apart, Joining::Plugin), bells(How::Apart));
    let given = [Joining::Plugin.settings(), "two threads that wake each other by eventfds"];
    let sides = (side(given[0], &apart.0), side(given[1], &apart.1));
    report.ratio("pingpong_two_cores_vs_eventfd", sides.0, sides.1);
    let announced = |way, figure: fn(&Announced) -> f64| {
        results.announced.get(&way).map_or(vec![], |all| each(all, figure))
    };
    let both = [Joining::Plugin, Joining::Vde].map(|way| announced(way, |a| a.mpps));
    let given =
        [Joining::Plugin, Joining::Vde].map(|way| format!("{}: {}", way.title(), way.settings()));
    report.ratio("announced60_vs_vde", side(&given[0], &both[0]), side(&given[1], &both[1]));
    let lost = announced(Joining::Plugin, |a| a.lost);
    if let Some(worst) = lost.into_iter().reduce(f64::max) {
        report.of_all("announced60_lost_percent", worst);
    }
    report.value("kib_per_edge", &results.edges);
    let long = results.datagrams.get(&(MOST, Kind::Shm));
    let switch = |d: &Datagrams| d.cpu.switch.unwrap_or(0.0);
    report.value("switch_cpu_percent", &long.map_or(vec![], |all| each(all, switch)));
    let ours = results.datagrams.iter().filter(|((_, kind), _)| *kind == Kind::Shm);
    let ours: Vec<&Datagrams> = ours.flat_map(|(_, all)| all).collect();
    let sum = |figure: fn(&Datagrams) -> f64| ours.iter().map(|d| figure(d)).sum::<f64>();
    if !ours.is_empty() {
        report.of_all("udp_loss_percent", 100.0 * sum(|d| d.lost) / sum(|d| d.sent).max(1.0));
        report.of_all("udp_datagrams", sum(|d| d.sent));
    }
}

fn ratio(pair: &(Vec<f64>, Vec<f64>)) -> f64 {
    ratio_ci(&pair.0, &pair.1).map_or(f64::INFINITY, |found| found.ratio)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_cell_is_measured_twice_and_quick_ones_are_of_all() {
        let (mut all, quick) = (plan(false), plan(true));
        let count = all.len();
        assert!(quick.iter().all(|cell| all.contains(cell)), "{quick:?}");
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
        assert!(quick.is_sorted_by_key(|cell| matches!(cell, Cell::Datagrams(..))));
    }

    #[test]
    fn datagrams_are_sent_at_the_sources_share() {
        // Half of 1.2 Gb/s over two stations, in datagrams of 1,470 bytes.
        assert!((pace(2, 1.2) - 1.2e9 / 4.0 / 11_760.0).abs() < 1e-6);
        // At least the source's own 720 Mb/s.
        assert!((pace(8, 0.1) - 0.72e9 / 16.0 / 11_760.0).abs() < 1e-6);
    }

    #[test]
    fn ratios_are_those_of_the_worst_number_of_stations() {
        let mut results = Results::default();
        let streams = |gbps| vec![Streams { gbps, ..Streams::default() }; 3];
        for (count, ours, vde) in [(2, 16.0, 1.0), (8, 9.0, 1.0)] {
            results.streams.insert((count, Kind::Shm), streams(ours));
            results.streams.insert((count, Kind::Vde), streams(vde));
        }
        let flow = |mpps| vec![Flow { mpps, gbps: mpps, cut: 0.0 }; 3];
        results.flows.insert((60, Joining::Plugin), flow(20.0));
        results.flows.insert((60, Joining::Vde), flow(0.5));
        let lost = Datagrams { sent: 1000.0, lost: 1.0, ..Datagrams::default() };
        results.datagrams.insert((2, Kind::Shm), vec![lost; 2]);
        let mut report = Report::default();
        figures(&results, &mut report);
        let close = |figure: f64, value: f64| (figure - value).abs() < 1e-9;
        assert!(close(report.ratios["tcp_vs_vde"].unwrap(), 9.0), "{report:?}");
        assert!(close(report.ratios["pps60_vs_vde"].unwrap(), 40.0), "{report:?}");
        assert!(close(report.values["udp_loss_percent"], 0.1), "{report:?}");
        assert_eq!(report.ratios["tcp_vs_bridge"], None);
    }
}
