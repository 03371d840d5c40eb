//! Floods that hurt: four and eight flooders of several kinds against a service that the victim reads.
//!
//! A flood is hard enough if an unprotected victim answers at most half of what it answers unflooded, or if its
//! 99th percentile doubles. Where it is not, the row says that this machine cannot flood enough, and no ratio
//! rests on it. Main figures are of minimum frames by packet sockets, the worse of four and eight flooders. Frames made in
//! the kernel are more, but come in bursts: between them the victim's queue has room for others' frames.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use netloom_stats::Summary;

use super::storms::{Guard, Kind, MOST, Seen, Storms};
use crate::driver::Driver;
use crate::report::{FEWEST, side};
use crate::rounds::rounds;
use crate::{Options, Report};

/// A victim, and who floods it.
type Cell = (Guard, Option<(Kind, usize)>);
type Results = BTreeMap<Cell, Vec<Seen>>;

/// What an unprotected victim may keep of its answers for a flood to be hard enough.
const HARD: f64 = 0.5;
/// How much slower its answers may be for the same.
const SLOW: f64 = 2.0;
/// Numbers of flooders.
const COUNTS: [usize; 2] = [4, MOST];
/// The flood of the main figures.
const MAIN: Kind = Kind::Storm("datagrams");
/// Floods by packet sockets, with their words.
const STORMS: [(&str, &str); 7] = [
    ("datagrams", "minimum frames by packet sockets"),
    ("super", "super-frames"),
    ("syn", "SYN"),
    ("echo", "ICMP echo"),
    ("neighbours", "IPv6 neighbour solicitations"),
    ("broadcast", "broadcast"),
    ("multicast", "multicast"),
];

/// Measures, and adds rows and ratios.
pub(super) fn run(options: &Options, driver: &Driver, report: &mut Report) -> Result<()> {
    let window = Duration::from_millis(if options.quick { 600 } else { 1000 });
    let storms = Storms::up(driver, window)?;
    let time = Duration::from_secs(if options.quick { 55 } else { 150 });
    let mut results = Results::new();
    let round = |number: usize, results: &mut Results| {
        let mut cells = main_cells();
        if !options.quick && number < FEWEST {
            cells.extend(other_cells());
        }
        if number % 2 == 1 {
            cells.reverse();
        }
        progress!("bench flood: storms, round {}, {} cells", number + 1, cells.len());
        for (guard, flood) in cells {
            results.entry((guard, flood)).or_default().push(storms.measure(guard, flood)?);
        }
        Ok(())
    };
    rounds(time, &mut results, round, ratios)?;
    storms.down()?;
    rows(&results, report);
    for (guard, flood) in other_cells().iter().filter(|_| options.quick) {
        let what = format!("requests answered, {}", words(*flood));
        report.left_out(&what, guard.title(), "--quick");
    }
    ratios(&results, report);
    Ok(())
}

fn main_cells() -> Vec<Cell> {
    let floods = COUNTS.map(|n| Some((MAIN, n))).into_iter().chain([None]);
    let fixed = floods.flat_map(|f| [Guard::Plain, Guard::Fit].map(|guard| (guard, f)));
    fixed.chain([(Guard::Auto, Some((MAIN, MOST)))]).collect()
}

fn other_cells() -> Vec<Cell> {
    let storms = STORMS.into_iter().map(|(kind, _)| Kind::Storm(kind));
    let floods = [Kind::Kernel].into_iter().chain(storms).filter(|kind| *kind != MAIN);
    let both = [Guard::Plain, Guard::Fit];
    floods.flat_map(|kind| both.map(|guard| (guard, Some((kind, MOST))))).collect()
}

/// A figure of all rounds of a cell.
fn all(results: &Results, cell: Cell, figure: fn(&Seen) -> f64) -> Vec<f64> {
    results.get(&cell).into_iter().flatten().map(figure).collect()
}

fn mean(figures: &[f64]) -> f64 {
    Summary::of(figures).map_or(f64::NAN, |summary| summary.mean)
}

/// CPU time of the whole system per frame offered, in microseconds.
fn cost(seen: &Seen) -> f64 {
    1e6 * seen.busy / seen.offered
}

/// Whether a flood hurts an unprotected victim.
fn is_hard(results: &Results, flood: (Kind, usize)) -> bool {
    let of = |flood, figure: fn(&Seen) -> f64| mean(&all(results, (Guard::Plain, flood), figure));
    let answered = |flood| of(flood, |seen| seen.answered);
    let p99 = |flood| of(flood, |seen| seen.p99);
    answered(Some(flood)) <= HARD * answered(None) || p99(Some(flood)) >= SLOW * p99(None)
}

fn words(flood: Option<(Kind, usize)>) -> String {
    let Some((kind, count)) = flood else { return "no flood".to_owned() };
    let kind = match kind {
        Kind::Kernel => "minimum frames by the kernel",
        Kind::Storm(kind) => STORMS.iter().find(|(word, _)| *word == kind).map_or(kind, |s| s.1),
    };
    format!("{count} flooders, {kind}")
}

fn rows(results: &Results, report: &mut Report) {
    for ((guard, flood), seen) in results {
        let of = |figure| all(results, (*guard, *flood), figure);
        let mut note = format!("200 a second, p99 {:.1} ms", mean(&of(|s| s.p99)) / 1e3);
        if let Some(flood) = flood {
            let (offered, cost) = (mean(&of(|s| s.offered)) / 1e6, mean(&of(cost)));
            note += &format!(", offered {offered:.2} M/s, {cost:.2} us of CPU each in all");
            if !is_hard(results, *flood) {
                note += "; this machine cannot flood enough";
            }
        }
        let figures: Vec<f64> = seen.iter().map(|s| 100.0 * s.answered).collect();
        let what = format!("requests answered, {}", words(*flood));
        report.measured(&what, guard.title(), "%", &figures, &note);
    }
}

/// Ratios of one number of flooders.
struct Sides {
    count: usize,
    kept: [Vec<f64>; 2],
    unprotected: [Vec<f64>; 2],
    cost: [Vec<f64>; 2],
}

impl Sides {
    fn of(results: &Results, count: usize) -> Sides {
        let flood = Some((MAIN, count));
        let answered = |guard, flood| all(results, (guard, flood), |seen| seen.answered);
        Sides {
            count,
            kept: [answered(Guard::Fit, flood), answered(Guard::Fit, None)],
            unprotected: [answered(Guard::Plain, flood), answered(Guard::Plain, None)],
            cost: [Guard::Fit, Guard::Plain].map(|guard| all(results, (guard, flood), cost)),
        }
    }

    fn unprotected(&self) -> f64 {
        mean(&self.unprotected[0]) / mean(&self.unprotected[1])
    }

    fn kept(&self) -> f64 {
        mean(&self.kept[0]) / mean(&self.kept[1])
    }
}

fn ratios(results: &Results, report: &mut Report) {
    let mut sides = COUNTS.map(|count| Sides::of(results, count));
    // The flood that hurts most is what protection is measured by.
    sides.sort_by(|a, b| a.unprotected().total_cmp(&b.unprotected()));
    let [worst, other] = &sides;
    let flooded = |who: Guard| {
        let flood = words(Some((MAIN, worst.count)));
        [format!("{}, {flood}", who.title()), format!("{}, no flood", who.title())]
    };
    let (fit, plain) = (flooded(Guard::Fit), flooded(Guard::Plain));
    let put = |report: &mut Report, name: &str, given: [&str; 2], figures: &[Vec<f64>; 2]| {
        report.ratio(name, side(given[0], &figures[0]), side(given[1], &figures[1]));
    };
    let [given, base] = &plain;
    put(report, "paced_unprotected", [given, base], &worst.unprotected);
    let kept =
        if other.unprotected() <= HARD && other.kept() < worst.kept() { other } else { worst };
    put(report, "paced_kept", [&fit[0], &fit[1]], &kept.kept);
    put(report, "system_cpu_ratio", [&fit[0], given], &worst.cost);
    let auto = all(results, (Guard::Auto, Some((MAIN, MOST))), |seen| seen.answered);
    let of_auto = format!("{}, {}", Guard::Auto.title(), words(Some((MAIN, MOST))));
    report.ratio("paced_kept_auto", side(&of_auto, &auto), side(&fit[1], &worst.kept[1]));
    if worst.unprotected() > HARD {
        let left = 100.0 * worst.unprotected();
        let why = format!("this machine cannot flood enough: unprotected, {left:.0} % is kept");
        ["paced_kept", "paced_kept_auto", "system_cpu_ratio"]
            .iter()
            .for_each(|name| report.not_shown(name, &why));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(unprotected: f64) -> Results {
        let mut results = Results::new();
        let mut put = |guard, flood, answered, offered| {
            let seen = Seen { answered, p99: 100.0, offered, busy: 2.0 };
            results.insert((guard, flood), vec![seen; 5]);
        };
        for guard in Guard::ALL {
            put(guard, None, 1.0, 0.0);
        }
        for count in COUNTS {
            put(Guard::Plain, Some((MAIN, count)), unprotected, 0.5e6);
            put(Guard::Fit, Some((MAIN, count)), 0.995, 2e6);
        }
        put(Guard::Plain, Some((Kind::Storm("syn"), MOST)), 0.9, 0.5e6);
        results
    }

    #[test]
    fn ratios_are_those_by_hand() {
        let mut report = Report::default();
        ratios(&results(0.4), &mut report);
        let close = |name: &str, value: f64| {
            let found = report.ratios[name].unwrap();
            assert!((found - value).abs() < 1e-9, "{name}: {found}");
        };
        close("paced_unprotected", 0.4);
        close("paced_kept", 0.995);
        close("system_cpu_ratio", 0.25);
    }

    #[test]
    fn a_flood_that_does_not_hurt_shows_nothing() {
        let (mut report, results) = (Report::default(), results(0.8));
        ratios(&results, &mut report);
        assert_eq!(report.ratios["paced_kept"], None);
        assert_eq!(report.ratios["system_cpu_ratio"], None);
        assert!(report.not_shown["paced_kept"].contains("80 % is kept"), "{report:?}");
        assert!(report.ratios["paced_unprotected"].is_some());
        rows(&results, &mut report);
        let row = report.rows.iter().find(|row| row.what.contains("SYN")).unwrap();
        assert!(row.note.ends_with("this machine cannot flood enough"), "{row:?}");
        let idle = report.rows.iter().find(|row| row.what.ends_with("no flood")).unwrap();
        assert!(!idle.note.contains("enough"));
    }

    #[test]
    fn slow_answers_are_hurt_too() {
        let mut results = results(0.9);
        let flood = (MAIN, MOST);
        assert!(!is_hard(&results, flood));
        results
            .get_mut(&(Guard::Plain, Some(flood)))
            .unwrap()
            .iter_mut()
            .for_each(|s| s.p99 = 200.0);
        assert!(is_hard(&results, flood));
    }
}
