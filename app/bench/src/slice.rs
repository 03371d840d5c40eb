//! `slice`: what a slicer costs between a switch and its controller, beside the same switch without one.
//!
//! The two labs of `openflow`, one of them with two slices: rules are made over the switch's own socket or over that of a
//! slice, and a controller has one flow after another set up. Proofs are timed alone, without a switch, too. Every cell runs
//! once per round, forwards and backwards in turn.

mod proofs;

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;

use crate::capture::version;
use crate::driver::Driver;
use crate::openflow::field::{Controlled, Field, Kind, Obeyed};
use crate::report::side;
use crate::rounds::rounds;
use crate::{Options, Programs, Report};

/// Rules that are made.
const RULES: u32 = 10_000;

/// New flows a second that are offered to a controller, one after another.
const OFFERED: [u32; 2] = [20_000, 40_000];

/// A cell of the experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Cell {
    /// Rules a second.
    Fill(Kind),
    /// Flows that a controller sets up, and the delay of their first packets.
    Controller(Kind),
    /// Time until a changed rule is confirmed.
    Obey(Kind),
}

/// All rounds.
#[derive(Default)]
struct Results {
    filled: BTreeMap<Kind, Vec<f64>>,
    controlled: BTreeMap<Kind, Vec<Controlled>>,
    obeyed: BTreeMap<Kind, Vec<Obeyed>>,
    /// MiB of the slicer before and with all rules, and its CPU time for each in microseconds.
    memory: [Vec<f64>; 2],
    cpu_us: Vec<f64>,
    /// Of a proof beside all rules, and of making a rule, in microseconds.
    proofs: Vec<f64>,
    worst: f64,
}

const BOTH: [Kind; 2] = [Kind::Own, Kind::Sliced];

pub(crate) fn run(options: Options, programs: &Programs) -> Result<Report> {
    let driver = Driver::new(programs)?;
    let mut report = Report::new("slice");
    let controller = version("ovs-testcontroller");
    report.peers.insert("ovs-testcontroller".to_owned(), controller.clone());
    let mut labs = BTreeMap::new();
    for kind in BOTH {
        labs.insert(kind, Field::up(&driver, kind)?);
    }
    let all: Vec<Cell> =
        [BOTH.map(Cell::Fill), BOTH.map(Cell::Obey), BOTH.map(Cell::Controller)].concat();
    let missing = |cell: &Cell| matches!(cell, Cell::Controller(_)) && controller.is_none();
    let mut cells: Vec<Cell> = all.iter().filter(|cell| !missing(cell)).copied().collect();
    let mut results = Results::default();
    let time = Duration::from_secs(if options.quick { 35 } else { 150 });
    let one_round = |round: usize, results: &mut Results| {
        progress!("bench slice: round {}, {} cells", round + 1, cells.len());
        let proved = proofs::time(RULES)?;
        results.proofs.push(proved.median);
        results.worst = results.worst.max(proved.worst);
        cells.iter().try_for_each(|cell| measure(*cell, &labs, results))?;
        cells.reverse();
        Ok(())
    };
    rounds(time, &mut results, one_round, figures)?;
    rows(&results, &mut report);
    for cell in all.iter().filter(|cell| missing(cell)) {
        if let Cell::Controller(kind) = cell {
            report.left_out("flows by ovs-testcontroller", kind.title(), "no ovs-testcontroller");
        }
    }
    figures(&results, &mut report);
    Ok(report)
}

fn measure(cell: Cell, labs: &BTreeMap<Kind, Field<'_>>, results: &mut Results) -> Result<()> {
    match cell {
        Cell::Fill(kind) => {
            let Some(lab) = labs.get(&kind) else { return Ok(()) };
            lab.fill(1)?;
            let before = if kind == Kind::Sliced { Some(lab.slicer()?) } else { None };
            results.filled.entry(kind).or_default().push(lab.fill(RULES)?);
            if let Some((memory, cpu)) = before {
                let (with, then) = lab.slicer()?;
                results.memory[0].push(memory);
                results.memory[1].push(with);
                results.cpu_us.push((then - cpu) * 1e6 / f64::from(RULES));
            }
        }
        Cell::Controller(kind) => {
            let Some(lab) = labs.get(&kind) else { return Ok(()) };
            results.controlled.entry(kind).or_default().push(lab.controller_of(&OFFERED)?);
        }
        Cell::Obey(kind) => {
            let Some(lab) = labs.get(&kind) else { return Ok(()) };
            lab.fill(1)?;
            results.obeyed.entry(kind).or_default().push(lab.obey()?);
        }
    }
    Ok(())
}

/// A figure of a controller: what it is, its unit, where it stands.
type Told = (&'static str, &'static str, fn(&Controlled) -> Option<f64>);

const CONTROLLED: [Told; 3] = [
    ("flows set up, the most at 20,000 and 40,000 offered", "1/s", |c| Some(c.setups)),
    ("flows set up while 40,000 are offered", "1/s", |c| Some(c.overload)),
    ("delay of a flow's first packet at 500 a second, median", "us", |c| c.first),
];

fn rows(results: &Results, report: &mut Report) {
    for (kind, figures) in &results.filled {
        let note = "up to the reply to a barrier behind them";
        report.measured(&format!("{RULES} rules made"), kind.title(), "1/s", figures, note);
    }
    for (kind, all) in &results.obeyed {
        let figures: Vec<f64> = all.iter().map(|one| one.answered).collect();
        let note = "100,000 frames a second pass meanwhile";
        report.measured(
            "a changed rule, until its barrier's reply",
            kind.title(),
            "us",
            &figures,
            note,
        );
    }
    for (kind, all) in &results.controlled {
        for (what, unit, figure) in CONTROLLED {
            let figures: Vec<f64> = all.iter().filter_map(figure).collect();
            let note = "by ovs-testcontroller: packet-in, flow mod, packet-out";
            report.measured(what, kind.title(), unit, &figures, note);
        }
    }
    let who = Kind::Sliced.title();
    let [without, with] = &results.memory;
    report.measured("resident memory of the slicer", who, "MiB", without, "one rule");
    let note = format!("{RULES} rules");
    report.measured("resident memory of the slicer", who, "MiB", with, &note);
    report.measured("CPU time of the slicer for a rule", who, "us", &results.cpu_us, &note);
    let note = format!("in a slice with {RULES} rules, median; no switch behind it");
    report.measured("a rule proved and narrowed", "core/slicing", "us", &results.proofs, &note);
}

fn figures(results: &Results, report: &mut Report) {
    let filled = |kind| results.filled.get(&kind).map_or(&[][..], Vec::as_slice);
    let controlled = |kind, figure: fn(&Controlled) -> Option<f64>| -> Vec<f64> {
        results.controlled.get(&kind).into_iter().flatten().filter_map(figure).collect()
    };
    let given = |what: &str| BOTH.map(|kind| format!("{}: {what}", kind.title()));
    let told = given("rules made");
    let [own, sliced] = BOTH.map(filled);
    report.ratio("rules_vs_direct", side(&told[1], sliced), side(&told[0], own));
    let told = given("flows set up");
    let [own, sliced] = BOTH.map(|kind| controlled(kind, |c| Some(c.setups)));
    report.ratio("setups_vs_direct", side(&told[1], &sliced), side(&told[0], &own));
    report.value("rules_per_s", filled(Kind::Sliced));
    for (kind, end) in [(Kind::Own, "_direct"), (Kind::Sliced, "")] {
        report.median(&format!("first_packet{end}_us"), &controlled(kind, |c| c.first));
        let obeyed = results.obeyed.get(&kind).map_or(&[][..], Vec::as_slice);
        let answered: Vec<f64> = obeyed.iter().map(|one| one.answered).collect();
        report.median(&format!("barrier{end}_us"), &answered);
    }
    report.median("proof_us", &results.proofs);
    if results.worst > 0.0 {
        report.of_all("proof_worst_us", results.worst);
    }
    report.value("memory_10k_mib", &results.memory[1]);
}
