//! `capture`: how many frames per second are captured without loss, and how many of those offered, compared
//! with tcpdump, dumpcap and netsniff-ng.
//!
//! A sender's core makes frames; on the other core a kernel thread receives them (threaded NAPI) and the capturer
//! runs, for all capturers alike. The interface refuses frames that this core does not take; what reaches it is
//! offered to the capturer. So where frames are refused and none is lost, the rate is the most that receiving and
//! capturing allow together. Where nothing is refused, the generator is the limit, and the rate is not known.
//!
//! A rate is loss-free if three of three runs lose nothing. The search begins at top speed; where that loses frames,
//! it is a bisection. The capturers take turns, with the same generator, the same cores and 64 MiB buffers.
//!
//! Cases: frames for others (a station that does not exist) and for the receiving node, thrown away and stored; and what
//! a disk takes of frames of 1,514 bytes, whole. netloom lets all frames pass, by default and with `--fast`, or ends
//! those for others (`--sink`).

mod capturers;
pub(crate) mod pair;
pub(crate) mod program;
mod said;
mod search;
mod tables;
mod traffic;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::disk::raw;
use crate::driver::Driver;
use crate::report::side;
use crate::{Options, Programs, Report};
use capturers::{Who, run as run_once};
use pair::{LARGE, Pair, SMALL, To};
use search::{Ask, Found, Search};
use traffic::{Made, Traffic};

pub(crate) use capturers::version;

/// A search: the frames, the capturer, and whether frames are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Cell {
    case: Case,
    who: Who,
}

/// Frames of which bytes, for whom, and whether they are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Case {
    size: u32,
    to: To,
    stored: bool,
}

const OTHERS: Case = Case { size: SMALL, to: To::Nobody, stored: false };
const OWN: Case = Case { to: To::Node, ..OTHERS };
const STORED: Case = Case { stored: true, ..OTHERS };

/// Names of figures: of netloom in which mode, and the case. The first two share their figures: the definition of
/// the older name was that of a sink.
const KINDS: [(&str, Who, Case); 7] = [
    ("lossfree60", Who::Sink, OTHERS),
    ("sink60", Who::Sink, OTHERS),
    ("passing60", Who::Auto, OTHERS),
    ("passing_fast60", Who::Fast, OTHERS),
    ("own60", Who::Auto, OWN),
    ("stored60", Who::Sink, STORED),
    ("stored_passing60", Who::Auto, STORED),
];

/// Parameters of the searches.
struct Manner {
    /// Seconds per run.
    run: f64,
    tolerance: f64,
    /// No run starts after this time.
    most: Duration,
}

/// The measured values.
#[derive(Default)]
struct Results {
    searches: BTreeMap<Cell, Search>,
    /// Runs at top speed with large frames that are stored.
    stored: BTreeMap<Who, Stored>,
}

/// Large frames, whole, stored at top speed.
#[derive(Default)]
struct Stored {
    /// GB/s until all is on the disk.
    rates: Vec<f64>,
    /// Percent of frames captured.
    captured: Vec<f64>,
    /// GB/s of direct writes to the same folder, after each run.
    direct: Vec<f64>,
}

pub(crate) fn run(options: Options, programs: &Programs) -> Result<Report> {
    let driver = Driver::new(programs)?;
    let mut report = Report::new("capture");
    for peer in Who::ALL {
        report.peers.extend(peer.peer().map(|name| (name.to_owned(), peer.version())));
    }
    report.peers.insert("capinfos".to_owned(), version("capinfos"));
    let (all, quick) = (cells(false), cells(true));
    let chosen = if options.quick { &quick } else { &all };
    let there: Vec<Cell> = chosen.iter().copied().filter(|cell| missing(*cell).is_none()).collect();
    let manner = match options.quick {
        true => Manner { run: 0.6, tolerance: 0.1, most: Duration::from_secs(110) },
        false => Manner { run: 1.5, tolerance: 0.05, most: Duration::from_secs(600) },
    };
    let links = if options.quick { 2 } else { tables::MOST_LINKS };
    // One more, which is received as it is.
    let pair = Pair::up(&driver, "bench-capture", links + 1)?;
    pair.receive_apart(links).context("receive on a core of its own")?;
    let results = search(&pair, &there, &manner)?;
    rows(&results, &manner, &mut report);
    for cell in &all {
        let why = missing(*cell).or_else(|| (!chosen.contains(cell)).then_some("--quick"));
        if let Some(why) = why {
            report.left_out(&title(cell.case), cell.who.title(), why);
        }
    }
    if options.quick {
        let what = "captured of what is offered, by rate, size, trace, interfaces and threads";
        report.left_out(what, "all others", "--quick");
        tables::glance(&pair, &mut report)?;
    } else {
        tables::measure(&driver, &pair, &mut report)?;
    }
    pair.down()?;
    tables::source(&mut report);
    figures(&results, &mut report);
    Ok(report)
}

/// All searches.
fn cells(quick: bool) -> Vec<Cell> {
    use Who::{Auto, Dumpcap, Sink, Tcpdump, Whole};
    let chosen: [(Case, &[Who]); 3] = match quick {
        true => [
            (OTHERS, &[Sink, Auto, Whole, Tcpdump, Dumpcap]),
            (OWN, &[Auto, Tcpdump]),
            (STORED, &[Sink, Tcpdump]),
        ],
        false => [(OTHERS, &Who::ALL), (OWN, &Who::ALL), (STORED, &Who::ALL)],
    };
    let of = |(case, who): (Case, &[Who])| {
        who.iter().map(move |who| Cell { case, who: *who }).collect::<Vec<_>>()
    };
    let nobody = Cell { case: OTHERS, who: Who::Nobody };
    [nobody].into_iter().chain(chosen.into_iter().flat_map(of)).collect()
}

/// Why a cell cannot be measured here.
fn missing(cell: Cell) -> Option<&'static str> {
    match cell.who.peer() {
        Some(_) if cell.who.version().is_none() => Some("not installed"),
        _ if cell.case.stored && version("capinfos").is_none() => Some("no capinfos to count with"),
        _ => None,
    }
}

fn title(case: Case) -> String {
    let where_to = if case.stored { "stored" } else { "not stored" };
    let station = if case.to == To::Nobody { "others" } else { "the node" };
    format!("loss-free, {} bytes for {station}, {where_to}", case.size - FCS)
}

/// The check sequence, which interfaces do not count.
const FCS: u32 = 4;

/// Runs all searches in turn until they are complete or the time is over.
fn search(pair: &Pair<'_>, cells: &[Cell], manner: &Manner) -> Result<Results> {
    let start = Instant::now();
    let mut results = Results::default();
    for cell in cells {
        results.searches.insert(*cell, Search::new(manner.tolerance));
    }
    let mut round = 0;
    while results.searches.values().any(|search| search.next().is_some()) {
        round += 1;
        progress!("bench capture: round {round}");
        for cell in cells {
            one(pair, *cell, manner, start, &mut results)?;
        }
        if round <= search::WANTED {
            store(pair, pair.links() - 1, 2.0 * manner.run, &mut results)?;
        }
    }
    Ok(results)
}

/// The next run of a search, if there is one.
fn one(
    pair: &Pair<'_>,
    cell: Cell,
    manner: &Manner,
    start: Instant,
    results: &mut Results,
) -> Result<()> {
    let Some(search) = results.searches.get_mut(&cell) else { return Ok(()) };
    let Some(ask) = search.next() else { return Ok(()) };
    if start.elapsed() > manner.most {
        search.end();
        return Ok(());
    }
    let Case { size, to, stored } = cell.case;
    let folder = stored.then(|| pair.driver().folder());
    let traffic = Traffic::Made(Made { size, to, ask, seconds: manner.run });
    let run = run_once(pair, cell.who, &traffic, 0..1, folder)?;
    search.told(ask, run.load, run.lost() > 0);
    Ok(())
}

/// A round of large frames that are stored. They are received on the sender's core, so that the capturer's has only to
/// store them.
fn store(pair: &Pair<'_>, link: usize, seconds: f64, results: &mut Results) -> Result<()> {
    let folder = pair.driver().folder();
    for who in LARGE_BY.into_iter().filter(|who| missing(large(*who)).is_none()) {
        let made = Made { size: LARGE, to: To::Nobody, ask: Ask::Max, seconds };
        let run = run_once(pair, who, &Traffic::Made(made), link..link + 1, Some(folder))?;
        let stored = results.stored.entry(who).or_default();
        stored.rates.push(run.gbytes_per_s());
        stored.captured.push(run.captured());
        stored.direct.push(raw(folder)?);
    }
    Ok(())
}

/// Who stores large frames.
const LARGE_BY: [Who; 2] = [Who::Auto, Who::Sink];

fn large(who: Who) -> Cell {
    Cell { case: Case { size: LARGE, ..STORED }, who }
}

fn rows(results: &Results, manner: &Manner, report: &mut Report) {
    for (cell, search) in &results.searches {
        let (what, who) = (title(cell.case), cell.who.title());
        let settings = cell.who.settings(cell.case.size);
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
    let what = "stored at top speed, 1514 bytes whole";
    for (who, stored) in &results.stored {
        let captured =
            stored.captured.iter().sum::<f64>() / stored.captured.iter().map(|_| 1.0).sum::<f64>();
        let note = format!("{captured:.1} % captured; {}", who.settings(LARGE));
        report.measured(what, who.title(), "GB/s", &stored.rates, &note);
        report.measured(what, "by hand", "GB/s", &stored.direct, "O_DIRECT, writes of 16 MiB");
    }
}

/// What limited a rate.
fn limit(found: &Found) -> String {
    match (found.asked, found.lost_at) {
        _ if found.is_generators_limit() => {
            "the capturer's limit is not known: the generator could do no more; ".to_owned()
        }
        (Ask::Max, _) => {
            let refused = 100.0 * found.refused();
            format!("the receiving core's limit: nothing lost, {refused:.0} % refused before it; ")
        }
        (_, Some(lost)) => format!("a loss at {:.3} Mpps; ", lost / 1e6),
        (_, None) => String::new(),
    }
}

fn mpps(rates: &[f64]) -> Vec<f64> {
    rates.iter().map(|rate| rate / 1e6).collect()
}

/// Values and ratios of the highest loss-free offered rates. A ratio is null where the generator was a side's limit.
fn figures(results: &Results, report: &mut Report) {
    for (kind, netloom, case) in KINDS {
        for (who, name) in [
            (netloom, "netloom"),
            (Who::Tcpdump, "tcpdump"),
            (Who::Dumpcap, "dumpcap"),
            (Who::Netsniff, "netsniff"),
        ] {
            let measured = |who| results.searches.contains_key(&Cell { case, who });
            if measured(who) && measured(netloom) {
                figure(results, report, (kind, case), [(netloom, "netloom"), (who, name)]);
            }
        }
    }
    ceiling(results, report);
    for (who, name) in [(Who::Auto, "stored1500"), (Who::Sink, "stored_sink1500")] {
        let Some(Stored { rates, direct, .. }) = results.stored.get(&who) else { continue };
        report.value(&format!("{name}_gb_per_s"), rates);
        let ours = who.given(LARGE);
        let [ours, direct] = [side(&ours, rates), side("O_DIRECT writes of 16 MiB", direct)];
        report.ratio(&format!("{name}_vs_raw"), ours, direct);
    }
}

/// What the core receives without a capturer, by how much a capturer without any cost would exceed tcpdump, which share
/// netloom leaves, and what a captured frame costs the core. The last two carry over to other machines.
fn ceiling(results: &Results, report: &mut Report) {
    let found = |who| results.searches.get(&Cell { case: OTHERS, who }).and_then(Search::found);
    let rates = |who| found(who).map_or(vec![], |found: Found| mpps(&found.offered));
    if !results.searches.contains_key(&Cell { case: OTHERS, who: Who::Nobody }) {
        return;
    }
    let all = [Who::Nobody, Who::Tcpdump, Who::Auto, Who::Whole];
    let [nobody, tcpdump, ours, whole] = all.map(rates);
    let [given, of_tcpdump, of_ours, of_whole] = all.map(|who| who.given(SMALL));
    report.value("passing60_ceiling_mpps", &nobody);
    report.ratio(
        "passing60_ceiling_vs_tcpdump",
        side(&given, &nobody),
        side(&of_tcpdump, &tcpdump),
    );
    report.ratio("passing60_vs_ceiling", side(&of_ours, &ours), side(&given, &nobody));
    report.ratio("passing60_vs_own", side(&of_ours, &ours), side(&of_whole, &whole));
    for (name, rates) in [("netloom", &ours), ("own", &whole), ("tcpdump", &tcpdump)] {
        // Nanoseconds of the core for a frame, with a capturer and without.
        let costs: Vec<f64> =
            rates.iter().zip(&nobody).map(|(with, without)| 1e3 / with - 1e3 / without).collect();
        report.value(&format!("passing60_{name}_ns"), &costs);
    }
}

/// The value of one capturer, and the ratio if it is a peer.
fn figure(
    results: &Results,
    report: &mut Report,
    (kind, case): (&str, Case),
    [(netloom, _), (who, name)]: [(Who, &str); 2],
) {
    let found = |who| results.searches.get(&Cell { case, who }).and_then(Search::found);
    let rates = |found: &Option<Found>| found.as_ref().map_or(vec![], |f| mpps(&f.offered));
    let (ours, theirs) = (found(netloom), found(who));
    report.value(&format!("{kind}_{name}_mpps"), &rates(&theirs));
    if who.peer().is_none() {
        return;
    }
    let ratio = format!("{kind}_vs_{name}");
    let [given, peer] = [netloom, who].map(|who| who.given(case.size));
    report.ratio(&ratio, side(&given, &rates(&ours)), side(&peer, &rates(&theirs)));
    let limited = |found: &Option<Found>| found.as_ref().is_some_and(Found::is_generators_limit);
    let least = report.ratios.get(&ratio).copied().flatten();
    match (limited(&ours), limited(&theirs), least) {
        (false, false, _) => {}
        (true, false, Some(least)) => {
            let who = netloom.title();
            let why =
                format!("not known, but at least {least:.1}: the generator was the limit of {who}");
            report.not_shown(&ratio, &why);
        }
        _ => report.not_shown(&ratio, "not known: the generator was the limit"),
    }
}

#[cfg(test)]
mod tests {
    use super::search::Load;
    use super::*;

    /// A search that ended at this rate, at top speed or below a loss; `made` for each frame taken.
    fn searched(rate: f64, top: bool, made: f64) -> Search {
        let mut search = Search::new(0.05);
        let load = |taken: f64| Load { made: made * taken, taken };
        let ask = if top { Ask::Max } else { Ask::Rate(rate) };
        if !top {
            search.told(Ask::Max, load(rate * 1.04), true);
        }
        for _ in 0..search::WANTED {
            search.told(ask, load(rate), false);
        }
        search
    }

    #[test]
    fn quick_cells_are_of_all_and_feed_the_promised_ratios() {
        let (all, quick) = (cells(false), cells(true));
        assert!(quick.iter().all(|cell| all.contains(cell)));
        let searches = quick.into_iter().map(|cell| (cell, searched(1e6, false, 1.0))).collect();
        let stored = Stored { rates: vec![1.8; 5], captured: vec![99.0; 5], direct: vec![2.0; 5] };
        let stored = BTreeMap::from([(Who::Auto, stored)]);
        let results = Results { searches, stored };
        let mut report = Report::default();
        figures(&results, &mut report);
        for name in [
            "lossfree60_vs_tcpdump",
            "lossfree60_vs_dumpcap",
            "sink60_vs_tcpdump",
            "passing60_vs_tcpdump",
            "passing60_vs_dumpcap",
            "passing60_vs_ceiling",
            "passing60_vs_own",
            "own60_vs_tcpdump",
            "stored60_vs_tcpdump",
        ] {
            assert!((report.ratios[name].unwrap() - 1.0).abs() < 1e-9, "{name}: {report:?}");
        }
        assert!((report.ratios["stored1500_vs_raw"].unwrap() - 0.9).abs() < 1e-9);
        assert!((report.values["lossfree60_netloom_mpps"] - 1.0).abs() < 1e-9);
        assert!(report.values["passing60_netloom_ns"].abs() < 1e-9, "equal rates cost nothing");
        assert!(!report.ratios.contains_key("passing60_vs_netsniff"), "it was not measured");
    }

    #[test]
    fn the_generators_limit_is_told_and_gives_no_ratio() {
        let cell = |who| Cell { case: OTHERS, who };
        let mut lost = Search::new(0.05);
        lost.told(Ask::Max, Load { made: 1e6, taken: 1e6 }, true);
        lost.end();
        let searches = BTreeMap::from([
            (cell(Who::Sink), searched(4e6, true, 1.0)),
            (cell(Who::Auto), searched(2e6, true, 3.0)),
            (cell(Who::Tcpdump), searched(1e6, false, 1.0)),
            (cell(Who::Dumpcap), lost),
        ]);
        let results = Results { searches, ..Results::default() };
        let manner = Manner { run: 1.0, tolerance: 0.1, most: Duration::ZERO };
        let mut report = Report::default();
        rows(&results, &manner, &mut report);
        let note = |who: &str| &report.rows.iter().find(|row| row.who == who).unwrap().note;
        assert!(note("netloom --sink").starts_with("the capturer's limit is not known"));
        assert!(note("netloom").starts_with("the receiving core's limit: nothing lost, 67 %"));
        assert!(note("tcpdump").starts_with("a loss at 1.040 Mpps"), "{}", note("tcpdump"));
        assert!(note("dumpcap").contains("unknown, one at 1.000 Mpps"), "{}", note("dumpcap"));
        figures(&results, &mut report);
        assert!((report.ratios["passing60_vs_tcpdump"].unwrap() - 2.0).abs() < 1e-9);
        assert_eq!(report.ratios["sink60_vs_tcpdump"], None);
        let why = &report.not_shown["sink60_vs_tcpdump"];
        assert!(why.contains("at least 4.0") && why.contains("generator"), "{why}");
        assert_eq!(report.ratios["passing60_vs_dumpcap"], None);
        assert!((report.values["lossfree60_netloom_mpps"] - 4.0).abs() < 1e-9);
    }

    #[test]
    fn cases_are_told_apart_by_their_words() {
        assert_eq!(title(OTHERS), "loss-free, 60 bytes for others, not stored");
        assert_eq!(title(OWN), "loss-free, 60 bytes for the node, not stored");
        assert_eq!(title(STORED), "loss-free, 60 bytes for others, stored");
    }
}
