//! `router`: what routers of several kinds forward, beside the kernel's own forwarding; what a hostile virtual network costs
//! another one on the same data plane; and what a platform costs programs.
//!
//! All routers are up at once, and idle but for the one that is measured. The same programs send and count at all of them, on
//! the same cores. Every cell runs once per round, forwards and backwards in turn, 15 rounds (5 of what takes minutes); a
//! quick run has the cells of ratios and values, at least 3 rounds, and as many of 15 as fit. One that cannot be measured is
//! there with the reason.

mod bare;
mod ground;
mod guest;
mod hostile;
mod losses;
mod place;
mod platform;
mod received;
mod routes;
mod shared;
mod source;
mod way;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::capture::version;
use crate::driver::Driver;
use crate::report::side;
use crate::{Options, Programs, Report};
use ground::{Ground, Load, Path, Seen};
use way::Way;

/// Rounds of a full run, and the fewest of a quick one.
const ROUNDS: usize = 15;
const FEWEST: usize = 3;
/// How often in a round a stream passes each router of the promised ratios whose packets stay in this kernel, in turn; the mean
/// counts. Its rate differs more from one second to the next than such routers do.
const TURNS: usize = 3;
/// What flows, in the order of the rows.
const LOADS: [Load; 3] = [Load::Frames(64), Load::Frames(1500), Load::Tcp];
/// Ratios of routed traffic: their names, and the compared programs. Those of frames are beside the promised ones.
const RATIOS: [(&str, Load, Way, Way); 12] = [
    ("routed_vs_kernel", Load::Tcp, Way::Node, Way::Kernel),
    ("routed64_vs_kernel", Load::Frames(64), Way::Node, Way::Kernel),
    ("separate_vs_kernel", Load::Tcp, Way::Separate, Way::Kernel),
    ("separate64_vs_kernel", Load::Frames(64), Way::Separate, Way::Kernel),
    ("openflow_vs_kernel", Load::Tcp, Way::OpenFlow, Way::Kernel),
    ("openflow64_vs_kernel", Load::Frames(64), Way::OpenFlow, Way::Kernel),
    ("openflow_vs_ovs", Load::Tcp, Way::OpenFlow, Way::Vswitch),
    ("vm_separate_vs_vm", Load::Tcp, Way::VirtioApart, Way::Virtio),
    ("vm_separate64_vs_vm", Load::Frames(64), Way::VirtioApart, Way::Virtio),
    ("uml_separate_vs_uml", Load::Tcp, Way::UmlApart, Way::Uml),
    ("uml_separate64_vs_uml", Load::Frames(64), Way::UmlApart, Way::Uml),
    ("virtio_vs_e1000", Load::Tcp, Way::Virtio, Way::E1000),
];
/// Those of a quick run.
const QUICK: [&str; 3] = ["routed_vs_kernel", "separate_vs_kernel", "vm_separate_vs_vm"];

/// A measurement.
type Cell = (Path, Load, Way);
type Results = BTreeMap<Cell, Vec<Seen>>;
/// Why something is not measured.
type Failed = BTreeMap<Cell, String>;

pub(crate) fn run(options: Options, programs: &Programs) -> Result<Report> {
    let driver = Driver::new(programs)?;
    let mut report = Report::new("router");
    for (peer, found) in [
        ("openvswitch", version("ovs-vswitchd")),
        ("qemu", version(crate::vm::guest::QEMU)),
        ("user-mode-linux", version(crate::vm::guest::UML)),
    ] {
        report.peers.insert(peer.to_owned(), found);
    }
    forwarding(options, &driver, &mut report)?;
    hostile::run(options, &driver, &mut report)?;
    platform::run(options, &driver, &mut report)?;
    source::rows(&mut report);
    Ok(report)
}

/// Runs rounds with their numbers: `most`, or in a quick run at least the fewest, and as many as `time` allows.
fn rounds(
    options: Options,
    most: usize,
    time: Duration,
    mut round: impl FnMut(usize) -> Result<()>,
) -> Result<()> {
    let start = Instant::now();
    for number in 0..most {
        let each = start.elapsed().checked_div(u32::try_from(number)?).unwrap_or_default();
        if options.quick && number >= FEWEST && start.elapsed() + each > time {
            break;
        }
        round(number)?;
    }
    Ok(())
}

/// What routers forward, and how they fare with many routes.
fn forwarding(options: Options, driver: &Driver, report: &mut Report) -> Result<()> {
    let mut cells = plan(options.quick);
    let (mut grounds, mut failed) = (BTreeMap::new(), Failed::new());
    for way in Way::ALL {
        if !cells.iter().any(|cell| cell.2 == way) {
            continue;
        }
        progress!("bench router: {} comes up", way.title());
        match Ground::up(driver, way) {
            Ok(ground) => drop(grounds.insert(way, ground)),
            Err(why) => {
                let of_way = plan(false).into_iter().filter(|cell| cell.2 == way);
                failed.extend(of_way.map(|cell| (cell, format!("{why:#}"))));
            }
        }
    }
    let mut results = Results::new();
    rounds(options, ROUNDS, Duration::from_secs(24), |number| {
        progress!("bench router: round {}, {} cells", number + 1, cells.len());
        let mut turns = Results::new();
        for cell in in_turn(&cells) {
            let Some(ground) = grounds.get(&cell.2).filter(|_| !failed.contains_key(&cell)) else {
                continue;
            };
            match ground.measure(cell.0, cell.1) {
                Ok(seen) => turns.entry(cell).or_default().push(seen),
                Err(why) => drop(failed.insert(cell, format!("{why:#}"))),
            }
        }
        for (cell, seen) in turns {
            results.entry(cell).or_default().push(Seen::mean(&seen));
        }
        cells.reverse();
        Ok(())
    })?;
    // With a failed round, the others' rounds are not paired with its.
    results.retain(|cell, _| !failed.contains_key(cell));
    let notes = grounds.iter().map(|(way, ground)| (*way, ground.note().to_owned())).collect();
    rows(&results, &notes, report);
    missing(options, &failed, report);
    figures(&results, report);
    routes::run(options, driver, &grounds, report)?;
    losses::run(options, driver, &grounds, report);
    Ok(())
}

/// The cells of a round.
fn plan(quick: bool) -> Vec<Cell> {
    let mut all = vec![];
    for path in [Path::Routed, Path::Point] {
        for load in LOADS {
            all.extend(Way::ALL.map(|way| (path, load, way)));
        }
    }
    if quick {
        let chosen = RATIOS.iter().filter(|ratio| QUICK.contains(&ratio.0));
        let chosen: Vec<Cell> = chosen
            .flat_map(|(_, load, own, other)| [*own, *other].map(|way| (Path::Routed, *load, way)))
            .collect();
        all.retain(|cell| chosen.contains(cell));
    }
    all
}

/// The order in which cells are measured in a round: those of [`TURNS`] several times, forwards and backwards.
fn in_turn(cells: &[Cell]) -> Vec<Cell> {
    let near = |way| matches!(way, Way::Kernel | Way::Node | Way::Separate);
    let is_turned = |cell: &&Cell| cell.0 == Path::Routed && cell.1 == Load::Tcp && near(cell.2);
    let (turned, once): (Vec<&Cell>, Vec<&Cell>) = cells.iter().partition(is_turned);
    let mut all: Vec<Cell> = once.into_iter().copied().collect();
    for turn in 0..TURNS {
        let mut turned: Vec<Cell> = turned.iter().map(|cell| **cell).collect();
        if turn % 2 == 1 {
            turned.reverse();
        }
        all.extend(turned);
    }
    all
}

fn what(path: Path, load: Load) -> String {
    let load = match load {
        Load::Frames(size) => format!("{size}-byte frames"),
        Load::Tcp => "TCP, one stream".to_owned(),
    };
    match path {
        Path::Point => format!("{load}, to the router"),
        Path::Routed => format!("{load}, routed"),
    }
}

/// Figures of a cell in its unit.
fn scaled(load: Load, seen: &[Seen]) -> (&'static str, Vec<f64>) {
    match load {
        Load::Frames(_) => ("Mpps", seen.iter().map(|seen| seen.figure / 1e6).collect()),
        Load::Tcp => ("Gb/s", seen.iter().map(|seen| seen.figure / 1e9).collect()),
    }
}

/// CPU time of the whole machine for what it carried: microseconds a frame, seconds a gigabyte.
fn spent(load: Load, seen: &[Seen]) -> (&'static str, Vec<f64>) {
    let seen = seen.iter().filter(|seen| seen.figure > 0.0);
    match load {
        Load::Frames(_) => ("us/frame", seen.map(|seen| 1e6 * seen.busy / seen.figure).collect()),
        Load::Tcp => ("s/GB", seen.map(|seen| 8e9 * seen.busy / seen.figure).collect()),
    }
}

fn rows(results: &Results, notes: &BTreeMap<Way, String>, report: &mut Report) {
    for ((path, load, way), seen) in results {
        let note = notes.get(way).map_or("", String::as_str);
        let (what, (unit, figures)) = (what(*path, *load), scaled(*load, seen));
        report.measured(&what, way.title(), unit, &figures, note);
    }
    for ((path, load, way), seen) in results {
        let (what, (unit, figures)) = (what(*path, *load), spent(*load, seen));
        let note = "of the whole machine, sender and receiver included";
        report.measured(&format!("CPU: {what}"), way.title(), unit, &figures, note);
    }
}

/// Rows of what was not measured.
fn missing(options: Options, failed: &Failed, report: &mut Report) {
    let chosen = plan(options.quick);
    for cell in plan(false) {
        let what = what(cell.0, cell.1);
        match failed.get(&cell) {
            Some(why) => report.left_out(&what, cell.2.title(), why),
            None if !chosen.contains(&cell) => report.left_out(&what, cell.2.title(), "--quick"),
            None => {}
        }
    }
}

fn figures(results: &Results, report: &mut Report) {
    for (name, load, own, other) in RATIOS {
        let rates = [own, other].map(|way| {
            let seen = results.get(&(Path::Routed, load, way)).map_or(&[][..], Vec::as_slice);
            seen.iter().map(|seen| seen.figure).collect::<Vec<f64>>()
        });
        let given = [own, other].map(|way| {
            format!("{}, {}: {}", way.title(), what(Path::Routed, load), way.settings())
        });
        report.ratio(name, side(&given[0], &rates[0]), side(&given[1], &rates[1]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quick_run_has_the_cells_of_the_promised_ratios() {
        let (all, quick) = (plan(false), plan(true));
        assert_eq!(all.len(), 2 * 3 * Way::ALL.len());
        assert!(quick.iter().all(|cell| all.contains(cell)));
        for way in [Way::Kernel, Way::Node, Way::Separate, Way::Virtio, Way::VirtioApart] {
            assert!(quick.contains(&(Path::Routed, Load::Tcp, way)), "{way:?}");
        }
        assert_eq!(quick.len(), 5);
    }

    #[test]
    fn streams_of_close_routers_take_turns() {
        let order = in_turn(&plan(true));
        let ways: Vec<Way> = order.iter().map(|cell| cell.2).collect();
        let [k, n, s] = [Way::Kernel, Way::Node, Way::Separate];
        assert_eq!(ways[2..], [k, n, s, s, n, k, k, n, s], "{ways:?}");
        assert_eq!(in_turn(&plan(false)).len(), plan(false).len() + 3 * (TURNS - 1));
    }

    #[test]
    fn ratios_and_costs_are_those_by_hand() {
        let mut results = Results::new();
        let mut put = |load, way, figure| {
            results.insert((Path::Routed, load, way), vec![Seen { figure, busy: 2.0 }; 5]);
        };
        put(Load::Tcp, Way::Node, 19e9);
        put(Load::Tcp, Way::Kernel, 20e9);
        put(Load::Frames(64), Way::Node, 1e6);
        let mut report = Report::default();
        figures(&results, &mut report);
        assert!((report.ratios["routed_vs_kernel"].unwrap() - 0.95).abs() < 1e-9, "{report:?}");
        assert_eq!(report.ratios["vm_separate_vs_vm"], None);
        rows(&results, &BTreeMap::new(), &mut report);
        let mean =
            |what: &str| report.rows.iter().find(|row| row.what == what).unwrap().mean.unwrap();
        assert!((mean("CPU: 64-byte frames, routed") - 2.0).abs() < 1e-9);
        assert!((mean("CPU: TCP, one stream, routed") - 0.8).abs() < 0.05);
        assert!((mean("64-byte frames, routed") - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_router_that_fails_is_left_out_with_its_reason() {
        let mut report = Report::default();
        let cell = (Path::Routed, Load::Tcp, Way::Vswitch);
        let failed = Failed::from([(cell, "no ovs-vswitchd".to_owned())]);
        missing(Options { quick: false }, &failed, &mut report);
        assert_eq!(report.rows.len(), 1);
        assert!(report.rows[0].note.ends_with("no ovs-vswitchd"), "{report:?}");
        let mut report = Report::default();
        missing(Options { quick: true }, &Failed::new(), &mut report);
        assert_eq!(report.rows.len(), 2 * 3 * Way::ALL.len() - 5);
    }

    #[test]
    fn a_quick_run_has_few_rounds_and_a_full_one_all() {
        let count = |quick, time| {
            let mut count = 0;
            let round = |number| {
                assert_eq!(number, count);
                count += 1;
                Ok(())
            };
            rounds(Options { quick }, ROUNDS, time, round).unwrap();
            count
        };
        assert_eq!(count(true, Duration::ZERO), FEWEST);
        assert_eq!(count(true, Duration::from_secs(60)), ROUNDS);
        assert_eq!(count(false, Duration::ZERO), ROUNDS);
    }
}
