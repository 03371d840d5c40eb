//! `capture`: how many frames per second are captured without loss, and how many of those offered, compared
//! with tcpdump, dumpcap and netsniff-ng.
//!
//! A rate is loss-free if three of three runs lose nothing. The search is a bisection in which the capturers
//! take turns. All use the same generator, the same cores and 64 MiB buffers. The offered rate is what
//! reaches the interface. On a veth, kernel receive work, including the capturer's, runs on the sender's
//! core. So a more expensive capturer is offered less. If nothing is lost at top speed, that core limits the
//! rate: the row then says "at least", because the limit of the capturer's own core stays unknown.

mod capturers;
pub(crate) mod pair;
pub(crate) mod program;
mod said;
mod search;
mod tables;
mod traffic;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::driver::Driver;
use crate::report::side;
use crate::{Options, Report};
use capturers::{Who, run as run_once};
use pair::Pair;
use search::{Ask, Search};
use traffic::Traffic;

pub(crate) use capturers::version;

/// A search: the capturer, and whether frames are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Cell {
    who: Who,
    stored: bool,
}

/// Parameters of the searches.
struct Manner {
    /// Seconds per run.
    run: f64,
    tolerance: f64,
    /// No run starts after this time.
    most: Duration,
}

pub(crate) fn run(options: Options, exe: &Path) -> Result<Report> {
    let driver = Driver::new(exe)?;
    let mut report = Report::new("capture");
    for peer in Who::ALL {
        report.peers.extend(peer.peer().map(|name| (name.to_owned(), peer.version())));
    }
    report.peers.insert("capinfos".to_owned(), version("capinfos"));
    let (all, quick) = (cells(false), cells(true));
    let chosen = if options.quick { &quick } else { &all };
    let there = chosen.iter().copied().filter(|cell| missing(*cell).is_none());
    let manner = match options.quick {
        true => Manner { run: 1.0, tolerance: 0.1, most: Duration::from_secs(95) },
        false => Manner { run: 2.0, tolerance: 0.05, most: Duration::from_secs(1800) },
    };
    let pair = Pair::up(&driver, "bench-capture", 2)?;
    let searches = search(&pair, there.collect(), &manner)?;
    rows(&searches, &manner, &mut report);
    for cell in &all {
        let why = missing(*cell).or_else(|| (!chosen.contains(cell)).then_some("--quick"));
        if let Some(why) = why {
            report.left_out(&title(*cell), cell.who.title(), why);
        }
    }
    if options.quick {
        let what = "captured of what is offered, by rate, trace and interfaces";
        report.left_out(what, "all", "--quick");
    } else {
        tables::measure(&driver, &pair, &mut report)?;
    }
    pair.down()?;
    tables::source(&mut report);
    figures(&searches, &mut report);
    Ok(report)
}

/// All searches.
fn cells(quick: bool) -> Vec<Cell> {
    let cell = |who, stored| Cell { who, stored };
    if quick {
        let thrown = [Who::Fast, Who::Tcpdump, Who::Dumpcap].map(|who| cell(who, false));
        let stored = [Who::Fast, Who::Tcpdump].map(|who| cell(who, true));
        return [&thrown[..], &stored].concat();
    }
    Who::ALL.into_iter().flat_map(|who| [cell(who, false), cell(who, true)]).collect()
}

/// Why a cell cannot be measured here.
fn missing(cell: Cell) -> Option<&'static str> {
    match cell.who.peer() {
        Some(_) if cell.who.version().is_none() => Some("not installed"),
        _ if cell.stored && version("capinfos").is_none() => Some("no capinfos to count with"),
        _ => None,
    }
}

fn title(cell: Cell) -> String {
    let where_to = if cell.stored { "stored" } else { "not stored" };
    format!("loss-free, 64 bytes, {where_to}")
}

/// Runs all searches in turn until they are complete or the time is over.
fn search(pair: &Pair<'_>, cells: Vec<Cell>, manner: &Manner) -> Result<BTreeMap<Cell, Search>> {
    let start = Instant::now();
    let mut all: BTreeMap<Cell, Search> =
        cells.into_iter().map(|cell| (cell, Search::new(manner.tolerance))).collect();
    let mut round = 0;
    while all.values().any(|search| search.next().is_some()) {
        round += 1;
        eprintln!("bench capture: round {round}");
        for (cell, search) in &mut all {
            let Some(ask) = search.next() else { continue };
            if start.elapsed() > manner.most {
                search.end();
                continue;
            }
            let folder = cell.stored.then(|| pair.driver().folder());
            let traffic = Traffic::Small(ask, manner.run);
            let run = run_once(pair, cell.who, &traffic, 1, folder)?;
            search.told(ask, run.rate, run.lost() > 0);
        }
    }
    Ok(all)
}

fn rows(searches: &BTreeMap<Cell, Search>, manner: &Manner, report: &mut Report) {
    for (cell, search) in searches {
        let (what, who) = (title(*cell), cell.who.title());
        let settings = cell.who.settings();
        match search.found() {
            Some(found) => {
                let note = format!(
                    "{}{settings}; runs of {} s, to {:.0} %",
                    limit(&found),
                    manner.run,
                    100.0 * manner.tolerance
                );
                report.measured(&what, who, "Mpps", &mpps(&found.offered), &note);
            }
            None => {
                let shown = |rate: Option<f64>| {
                    rate.map_or("unknown".to_owned(), |rate| format!("{:.3} Mpps", rate / 1e6))
                };
                let (low, high) = search.bounds();
                let (low, high) = (shown(low), shown(high));
                let why = format!(
                    "no rate without a loss in three runs: none in one at {low}, one at {high}; {settings}"
                );
                report.left_out(&what, who, &why);
            }
        }
    }
}

/// Qualification of a rate that is not the capturer's own limit.
fn limit(found: &search::Found) -> String {
    match (found.asked, found.lost_at) {
        (Ask::Max, _) => {
            "at least: the sender's core could do no more, and nothing was lost; ".to_owned()
        }
        (Ask::Rate(_), _) if found.is_generators_limit() => {
            "at least: the generator gave less than was asked for; ".to_owned()
        }
        (_, Some(lost)) => format!("a loss at {:.3} Mpps; ", lost / 1e6),
        (_, None) => String::new(),
    }
}

fn mpps(rates: &[f64]) -> Vec<f64> {
    rates.iter().map(|rate| rate / 1e6).collect()
}

/// Values and ratios of the highest loss-free offered rates. The rows tell which of them the sender's core
/// limited instead of a loss above them.
fn figures(searches: &BTreeMap<Cell, Search>, report: &mut Report) {
    let found = |who, stored| searches.get(&Cell { who, stored }).and_then(Search::found);
    for (stored, kind) in [(false, "lossfree60"), (true, "stored60")] {
        let offered = |who| found(who, stored).map_or(vec![], |found| mpps(&found.offered));
        let ours = offered(Who::Fast);
        let given = |who: Who| format!("{}, {}", who.title(), who.settings());
        for (who, name) in [
            (Who::Fast, "netloom"),
            (Who::Auto, "netloom_auto"),
            (Who::Tcpdump, "tcpdump"),
            (Who::Dumpcap, "dumpcap"),
            (Who::Netsniff, "netsniff"),
        ] {
            let theirs = offered(who);
            report.value(&format!("{kind}_{name}_mpps"), &theirs);
            if who.peer().is_none() || !searches.contains_key(&Cell { who, stored }) {
                continue;
            }
            let (netloom, peer) = (given(Who::Fast), given(who));
            let ratio = format!("{kind}_vs_{name}");
            report.ratio(&ratio, side(&netloom, &ours), side(&peer, &theirs));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn searched(rate: f64, top: bool) -> Search {
        let mut search = Search::new(0.05);
        let ask = if top { Ask::Max } else { Ask::Rate(rate) };
        if !top {
            search.told(Ask::Max, rate * 1.04, true);
        }
        for _ in 0..search::WANTED {
            search.told(ask, rate, false);
        }
        search
    }

    #[test]
    fn quick_cells_are_of_all_and_feed_every_ratio() {
        let (all, quick) = (cells(false), cells(true));
        assert!(quick.iter().all(|cell| all.contains(cell)));
        let searches: BTreeMap<Cell, Search> =
            quick.into_iter().map(|cell| (cell, searched(1e6, false))).collect();
        let mut report = Report::default();
        figures(&searches, &mut report);
        for name in ["lossfree60_vs_tcpdump", "lossfree60_vs_dumpcap", "stored60_vs_tcpdump"] {
            assert!((report.ratios[name].unwrap() - 1.0).abs() < 1e-9, "{report:?}");
        }
        assert!((report.values["lossfree60_netloom_mpps"] - 1.0).abs() < 1e-9);
    }

    #[test]
    fn the_generators_limit_is_told_before_anything_else() {
        let cell = |who| Cell { who, stored: false };
        let mut lost = Search::new(0.05);
        lost.told(Ask::Max, 1e6, true);
        lost.end();
        let searches = BTreeMap::from([
            (cell(Who::Fast), searched(4e6, true)),
            (cell(Who::Tcpdump), searched(1e6, false)),
            (cell(Who::Dumpcap), lost),
        ]);
        let manner = Manner { run: 1.0, tolerance: 0.1, most: Duration::ZERO };
        let mut report = Report::default();
        rows(&searches, &manner, &mut report);
        let note = |who: &str| &report.rows.iter().find(|row| row.who == who).unwrap().note;
        assert!(note("netloom --fast").starts_with("at least: the sender's core"));
        assert!(note("tcpdump").starts_with("a loss at 1.040 Mpps"), "{}", note("tcpdump"));
        assert!(note("dumpcap").contains("unknown, one at 1.000 Mpps"), "{}", note("dumpcap"));
        figures(&searches, &mut report);
        assert!((report.ratios["lossfree60_vs_tcpdump"].unwrap() - 4.0).abs() < 1e-9);
        assert_eq!(report.ratios["lossfree60_vs_dumpcap"], None);
        assert!((report.values["lossfree60_netloom_mpps"] - 4.0).abs() < 1e-9);
    }
}
