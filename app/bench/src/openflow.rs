//! `openflow`: the OpenFlow switch of labs beside Open vSwitch's userspace switch and the kernel's bridge.
//!
//! Each switch joins two nodes of a lab of its own; the labs are up at once and idle but for the one that is measured.
//! The same programs make the flow entries, send, count and control on both switches. Every cell runs once per round,
//! forwards and backwards in turn.

pub(crate) mod field;
pub(crate) mod vswitch;

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use netloom_stats::ratio_ci;

use crate::capture::version;
use crate::driver::Driver;
use crate::report::side;
use crate::rounds::rounds;
use crate::{Options, Programs, Report};
use field::{Controlled, Field, Kind, Obeyed};

/// Numbers of flow entries, of which each frame in turn uses another.
const RULES: [u32; 3] = [1, 1000, 100_000];
/// Those of a quick run.
const QUICK_RULES: [u32; 2] = [1, 1000];

/// A cell of the experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Cell {
    /// Smallest frames through this many entries.
    Forward(u32, Kind),
    /// TCP from node to node.
    Tcp(Kind),
    /// Flows that a controller sets up, and the delay of their first packets.
    Controller(Kind),
    /// Time until a change of the entries is obeyed.
    Obey(Kind),
}

/// All rounds.
#[derive(Default)]
struct Results {
    /// Frames a second, TCP's Gb/s, flows a second, microseconds.
    figures: BTreeMap<Cell, Vec<f64>>,
    obeyed: BTreeMap<Kind, Vec<Obeyed>>,
    controlled: BTreeMap<Kind, Vec<Controlled>>,
    /// Entries a second that are made.
    filled: BTreeMap<(u32, Kind), Vec<f64>>,
}

impl Cell {
    fn kind(self) -> Kind {
        match self {
            Cell::Forward(_, kind)
            | Cell::Tcp(kind)
            | Cell::Controller(kind)
            | Cell::Obey(kind) => kind,
        }
    }

    fn title(self) -> String {
        match self {
            Cell::Forward(1, _) => "64-byte frames forwarded, 1 entry".to_owned(),
            Cell::Forward(rules, _) => {
                format!("64-byte frames forwarded, {rules} entries and flows")
            }
            Cell::Tcp(_) => "TCP, one stream".to_owned(),
            Cell::Controller(_) => "flows by ovs-testcontroller".to_owned(),
            Cell::Obey(_) => "a changed entry".to_owned(),
        }
    }

    fn unit(self) -> &'static str {
        match self {
            Cell::Forward(..) => "Mpps",
            Cell::Tcp(_) => "Gb/s",
            Cell::Controller(_) => "1/s",
            Cell::Obey(_) => "us",
        }
    }

    fn note(self) -> String {
        let how = match self {
            Cell::Forward(..) => {
                "offered by live-frames as many as a core makes, counted where they arrive"
            }
            Cell::Tcp(_) => "iperf-like, one sender and one receiver",
            Cell::Controller(_) => "every frame a new flow",
            Cell::Obey(_) => "100,000 frames a second pass meanwhile",
        };
        format!("{how}; {}", self.kind().settings())
    }
}

pub(crate) fn run(options: Options, programs: &Programs) -> Result<Report> {
    let driver = Driver::new(programs)?;
    let mut report = Report::new("openflow");
    let controller = version("ovs-testcontroller");
    report.peers.insert("openvswitch".to_owned(), version("ovs-vswitchd"));
    report.peers.insert("ovs-testcontroller".to_owned(), controller.clone());
    let mut labs = BTreeMap::new();
    for kind in [Kind::Own, Kind::Vswitch, Kind::Bridge] {
        if kind != Kind::Vswitch || version("ovs-vswitchd").is_some() {
            labs.insert(kind, Field::up(&driver, kind)?);
        }
    }
    let (all, quick) = (plan(false), plan(true));
    let chosen = if options.quick { &quick } else { &all };
    let missing = |cell: &Cell| match cell {
        cell if !labs.contains_key(&cell.kind()) => Some("not installed"),
        Cell::Controller(_) if controller.is_none() => Some("no ovs-testcontroller"),
        cell if !chosen.contains(cell) => Some("--quick"),
        _ => None,
    };
    let mut cells: Vec<Cell> = all.iter().filter(|cell| missing(cell).is_none()).copied().collect();
    let mut results = Results::default();
    let time = Duration::from_secs(if options.quick { 100 } else { 200 });
    let one_round = |round: usize, results: &mut Results| {
        progress!("bench openflow: round {}, {} cells", round + 1, cells.len());
        cells.iter().try_for_each(|cell| measure(*cell, &labs, results))?;
        cells.reverse();
        Ok(())
    };
    rounds(time, &mut results, one_round, figures)?;
    rows(&results, &mut report);
    for cell in &all {
        if let Some(why) = missing(cell) {
            report.left_out(&cell.title(), cell.kind().title(), why);
        }
    }
    figures(&results, &mut report);
    Ok(report)
}

/// The cells of a round.
fn plan(quick: bool) -> Vec<Cell> {
    let rules: &[u32] = if quick { &QUICK_RULES } else { &RULES };
    let both = [Kind::Own, Kind::Vswitch];
    let mut cells = vec![];
    for rules in rules {
        cells.extend(both.map(|kind| Cell::Forward(*rules, kind)));
    }
    cells.extend([Kind::Own, Kind::Bridge, Kind::Vswitch].map(Cell::Tcp));
    cells.extend(both.map(Cell::Controller));
    cells.extend(both.map(Cell::Obey));
    cells
}

fn measure(cell: Cell, labs: &BTreeMap<Kind, Field<'_>>, results: &mut Results) -> Result<()> {
    let Some(lab) = labs.get(&cell.kind()) else { return Ok(()) };
    let figure = match cell {
        Cell::Forward(rules, kind) => {
            results.filled.entry((rules, kind)).or_default().push(lab.fill(rules)?);
            lab.forward(rules)? / 1e6
        }
        Cell::Tcp(kind) => {
            if kind != Kind::Bridge {
                lab.pass()?;
            }
            lab.tcp()?
        }
        Cell::Controller(kind) => {
            results.controlled.entry(kind).or_default().push(lab.controller()?);
            return Ok(());
        }
        Cell::Obey(kind) => {
            lab.fill(1)?;
            results.obeyed.entry(kind).or_default().push(lab.obey()?);
            return Ok(());
        }
    };
    results.figures.entry(cell).or_default().push(figure);
    Ok(())
}

fn rows(results: &Results, report: &mut Report) {
    for (cell, figures) in &results.figures {
        let (what, who) = (cell.title(), cell.kind().title());
        report.measured(&what, who, cell.unit(), figures, &cell.note());
        if let Cell::Forward(rules, _) = cell {
            let axes = ["flow entries", "Mpps"];
            report.point("64-byte frames forwarded", axes, who, f64::from(*rules), figures);
        }
    }
    for ((rules, kind), figures) in results.filled.iter().filter(|((rules, _), _)| *rules > 1) {
        let note = "up to the reply to a barrier behind them";
        report.measured(&format!("{rules} entries made"), kind.title(), "1/s", figures, note);
    }
    for (kind, all) in &results.controlled {
        let cell = Cell::Controller(*kind);
        for (what, unit, figure) in CONTROLLED {
            let figures: Vec<f64> = all.iter().filter_map(figure).collect();
            let what = format!("{}: {what}", cell.title());
            report.measured(&what, kind.title(), unit, &figures, &cell.note());
        }
    }
    for (kind, all) in &results.obeyed {
        let cell = Cell::Obey(*kind);
        for (what, unit, figure) in OBEYED {
            let figures: Vec<f64> = all.iter().filter_map(figure).collect();
            let what = format!("{}: {what}", cell.title());
            report.measured(&what, kind.title(), unit, &figures, &cell.note());
        }
    }
}

/// A figure: what it is, its unit, where it stands.
type Told<T> = (&'static str, &'static str, fn(&T) -> Option<f64>);

/// The report of a controller's flows.
const CONTROLLED: [Told<Controlled>; 3] = [
    ("set up, the most at 20,000 to 80,000 offered", "1/s", |c| Some(c.setups)),
    ("set up while 80,000 are offered", "1/s", |c| Some(c.overload)),
    ("delay of the first packet at 500 a second, median", "us", |c| c.first),
];

/// The report of changed entries.
const OBEYED: [Told<Obeyed>; 4] = [
    ("the reply to a barrier behind it, median", "us", |o| Some(o.answered)),
    ("the last frame that disobeys, median", "us", |o| Some(o.obeyed)),
    ("the last frame that disobeys, worst", "us", |o| Some(o.worst)),
    ("frames after the reply", "frames", |o| Some(o.late)),
];

fn figures(results: &Results, report: &mut Report) {
    let of = |cell: Cell| results.figures.get(&cell).map_or(&[][..], Vec::as_slice);
    let given = |cell: fn(Kind) -> Cell, kinds: [Kind; 2]| {
        kinds.map(|kind| format!("{}, {}: {}", kind.title(), cell(kind).title(), cell(kind).note()))
    };
    let both = [Kind::Own, Kind::Vswitch];
    let names = ["forward_1_vs_ovs", "forward_1k_vs_ovs", "forward_100k_vs_ovs"];
    let mut worst: Option<(f64, u32)> = None;
    for (name, rules) in names.into_iter().zip(RULES) {
        let sides = both.map(|kind| of(Cell::Forward(rules, kind)));
        let given = both.map(|kind| {
            let cell = Cell::Forward(rules, kind);
            format!("{}, {}: {}", kind.title(), cell.title(), cell.note())
        });
        report.ratio(name, side(&given[0], sides[0]), side(&given[1], sides[1]));
        let found = ratio_ci(sides[0], sides[1]).map(|found| (found.ratio, rules));
        worst = found.ok().into_iter().chain(worst).min_by(|a, b| a.0.total_cmp(&b.0));
    }
    // Of all numbers of entries, the worst.
    let rules = worst.map_or(1, |(_, rules)| rules);
    let sides = both.map(|kind| of(Cell::Forward(rules, kind)));
    let told = both.map(|kind| format!("{}, the worst: {rules} entries", kind.title()));
    report.ratio("forward_vs_ovs", side(&told[0], sides[0]), side(&told[1], sides[1]));
    for (name, cell, kinds) in [
        ("tcp_vs_bridge", Cell::Tcp as fn(Kind) -> Cell, [Kind::Own, Kind::Bridge]),
        ("tcp_vs_ovs", Cell::Tcp, both),
    ] {
        let given = given(cell, kinds);
        let sides = kinds.map(|kind| of(cell(kind)));
        report.ratio(name, side(&given[0], sides[0]), side(&given[1], sides[1]));
    }
    let controlled = |kind, figure: fn(&Controlled) -> Option<f64>| -> Vec<f64> {
        results.controlled.get(&kind).into_iter().flatten().filter_map(figure).collect()
    };
    let told = given(Cell::Controller, both);
    for (name, figure) in [
        ("setups_vs_ovs", (|c| Some(c.setups)) as fn(&Controlled) -> Option<f64>),
        ("setups_overload_vs_ovs", |c| Some(c.overload)),
    ] {
        let sides = both.map(|kind| controlled(kind, figure));
        report.ratio(name, side(&told[0], &sides[0]), side(&told[1], &sides[1]));
    }
    report.value("setups_per_s", &controlled(Kind::Own, |c| Some(c.setups)));
    for (kind, end) in [(Kind::Own, ""), (Kind::Vswitch, "_ovs")] {
        report.median(&format!("first_packet{end}_us"), &controlled(kind, |c| c.first));
        let obeyed = results.obeyed.get(&kind).map_or(&[][..], Vec::as_slice);
        let each = |figure: fn(&Obeyed) -> f64| obeyed.iter().map(figure).collect::<Vec<_>>();
        report.median(&format!("barrier{end}_us"), &each(|o| o.answered));
        report.median(&format!("obeyed{end}_us"), &each(|o| o.obeyed));
        let extreme = |figures: Vec<f64>| figures.into_iter().reduce(f64::max);
        if let Some(worst) = extreme(each(|o| o.worst)) {
            report.of_all(&format!("obeyed{end}_worst_us"), worst);
        }
        if let Some(late) = extreme(each(|o| o.late)) {
            report.of_all(&format!("late{end}_frames"), late);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_cell_is_measured_twice_and_quick_ones_are_of_all() {
        let (mut all, quick) = (plan(false), plan(true));
        let count = all.len();
        assert!(quick.iter().all(|cell| all.contains(cell)));
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
    }

    #[test]
    fn forwarding_is_that_of_the_worst_number_of_entries() {
        let mut results = Results::default();
        for (rules, own, ovs) in [(1, 9.0, 1.0), (1000, 4.0, 1.0)] {
            results.figures.insert(Cell::Forward(rules, Kind::Own), vec![own; 3]);
            results.figures.insert(Cell::Forward(rules, Kind::Vswitch), vec![ovs; 3]);
        }
        results.figures.insert(Cell::Tcp(Kind::Own), vec![18.0; 3]);
        results.figures.insert(Cell::Tcp(Kind::Bridge), vec![20.0; 3]);
        let mut report = Report::default();
        figures(&results, &mut report);
        let ratio = |name: &str| report.ratios[name];
        assert!((ratio("forward_vs_ovs").unwrap() - 4.0).abs() < 1e-9, "{report:?}");
        assert!((ratio("tcp_vs_bridge").unwrap() - 0.9).abs() < 1e-9, "{report:?}");
        assert_eq!((ratio("forward_100k_vs_ovs"), ratio("setups_vs_ovs")), (None, None));
    }
}
