//! `flood`: how much throughput and latency a node keeps while its neighbours flood it.
//!
//! Two fields. In the first (`hurt`) the flood hurts: four and eight flooders send to a service that the victim
//! reads. In the second, one or two flooders send to a port that nobody reads, beside TCP.
//!
//! A flooder sends as many 60-byte frames to a packet socket as one core can. Neighbours that merely spin
//! separate the cost of a flood from that of any busy neighbour. All cells of a round alternate, forwards and
//! backwards. Root only: BPF programs enforce the budgets.

mod cells;
mod field;
mod hurt;
mod storms;

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use netloom_stats::{Summary, ratio_ci};

use crate::driver::Driver;
use crate::report::{FEWEST, side};
use crate::rounds::rounds;
use crate::{Options, Programs, Report};
use cells::{Cell, Measure, Others, Sending, Victim, cell};
use field::{Field, Measured};

/// All rounds of all cells.
type Results = BTreeMap<Cell, Vec<Measured>>;

pub(crate) fn run(options: Options, programs: &Programs) -> Result<Report> {
    let driver = Driver::new(programs)?;
    let mut report = Report::new("flood");
    let window = Duration::from_millis(if options.quick { 300 } else { 1000 });
    let field = Field::up(&driver, window)?;
    let mut results = Results::new();
    let time = Duration::from_secs(if options.quick { 60 } else { 200 });
    let one_round = |round: usize, results: &mut Results| {
        let plan = plan(round, options.quick);
        progress!("bench flood: round {}, {} cells", round + 1, plan.len());
        for cell in plan {
            results.entry(cell).or_default().push(field.measure(cell)?);
        }
        Ok(())
    };
    rounds(time, &mut results, one_round, ratios)?;
    field.down()?;
    rows(&results, window, &mut report);
    for cell in cells::rest().iter().filter(|_| options.quick) {
        report.left_out(&cell.to_string(), cell.victim.title(), "--quick");
    }
    ratios(&results, &mut report);
    hurt::run(&options, &driver, &mut report)?;
    Ok(report)
}

/// The cells of a round in order. Steady cells run in the first rounds, so that a slow machine gets enough of
/// them, and only now and then later.
fn plan(round: usize, quick: bool) -> Vec<Cell> {
    let mut plan = cells::noisy();
    if !quick {
        plan.extend(cells::rest());
    }
    if !quick || round < FEWEST || round.is_multiple_of(8) {
        plan.extend(cells::steady());
    }
    if round % 2 == 1 {
        plan.reverse();
    }
    plan
}

fn figures(results: &Results, cell: Cell) -> Vec<f64> {
    results.get(&cell).into_iter().flatten().map(|measured| measured.figure).collect()
}

fn rows(results: &Results, window: Duration, report: &mut Report) {
    for (cell, all) in results {
        let unit = match cell.measure {
            Measure::Unpaced | Measure::Paced => "Gb/s",
            Measure::Echo => "us",
            Measure::ReceiveCpu => "% of a core",
        };
        let who = cell.victim.title();
        let note = note(*cell, all, window);
        report.measured(&cell.to_string(), who, unit, &figures(results, *cell), &note);
    }
}

fn note(cell: Cell, all: &[Measured], window: Duration) -> String {
    let mean = |figure: fn(&Measured) -> f64| {
        let figures: Vec<f64> = all.iter().map(figure).collect();
        Summary::of(&figures).map_or(0.0, |summary| summary.mean)
    };
    let mut note = format!("{} s", window.as_secs_f64());
    if matches!(cell.others, Others::Flood(..)) {
        note += &format!(", offered {:.2} Mpps of 60 bytes", mean(|m| m.offered) / 1e6);
    }
    if cell.measure == Measure::Echo {
        let (median, lost) = (mean(|m| m.median), 100.0 * mean(|m| m.lost));
        note += &format!(", 10,000 a second, median {median:.0} us, {lost:.2} % lost");
    }
    note
}

/// A pair of series, with what each was given.
#[derive(Default)]
struct Kept {
    given: [String; 2],
    rounds: (Vec<f64>, Vec<f64>),
}

/// A cell in words: measurement, flooders and victim.
fn given(measure: Measure, victim: Victim, others: Others) -> String {
    format!("{}, {}", cell(measure, victim, others), victim.title())
}

fn ratios(results: &Results, report: &mut Report) {
    let of = |measure, victim, others| figures(results, cell(measure, victim, others));
    let flood = |n| Others::Flood(n, Sending::Direct);
    let kept = |victim: Victim, measure, base: fn(usize) -> Others| {
        let pairs = [1, 2].map(|n| Kept {
            given: [flood(n), base(n)].map(|others| given(measure, victim, others)),
            rounds: (of(measure, victim, flood(n)), of(measure, victim, base(n))),
        });
        pairs
            .into_iter()
            .min_by(|a, b| ratio(&a.rounds).total_cmp(&ratio(&b.rounds)))
            .unwrap_or_default()
    };
    let idle = |_| Others::Idle;
    for (name, kept) in [
        ("paced_tcp_kept", kept(Victim::Protected, Measure::Paced, idle)),
        ("goodput_kept", kept(Victim::Protected, Measure::Unpaced, Others::Spin)),
        ("goodput_unprotected", kept(Victim::Plain, Measure::Unpaced, Others::Spin)),
    ] {
        let (ours, theirs) = &kept.rounds;
        report.ratio(name, side(&kept.given[0], ours), side(&kept.given[1], theirs));
    }
    let unflooded = |victim| of(Measure::Unpaced, victim, Others::Idle);
    let (protected, plain) = (unflooded(Victim::Protected), unflooded(Victim::Plain));
    let given = [Victim::Protected, Victim::Plain]
        .map(|victim| given(Measure::Unpaced, victim, Others::Idle));
    let sides = (side(&given[0], &protected), side(&given[1], &plain));
    report.ratio("tcp_protected_vs_plain", sides.0, sides.1);
    let cpu = |victim, n| of(Measure::ReceiveCpu, victim, flood(n));
    let most = |victim| {
        let each = [1, 2].map(|n| cpu(victim, n)).into_iter();
        each.max_by(|a, b| mean(a).total_cmp(&mean(b))).unwrap_or_default()
    };
    report.value("victim_receive_cpu_percent", &most(Victim::Tight));
    report.value("victim_receive_cpu_unprotected_percent", &most(Victim::Charged));
    let echo = |victim, others| of(Measure::Echo, victim, others);
    report.value("echo_p99_us", &echo(Victim::Protected, Others::Idle));
    report.value("echo_p99_flooded_us", &echo(Victim::Protected, flood(2)));
    report.value("echo_p99_unprotected_us", &echo(Victim::Plain, flood(2)));
}

fn mean(figures: &[f64]) -> f64 {
    Summary::of(figures).map_or(0.0, |summary| summary.mean)
}

/// Ratio of a pair of series; infinite if they have no result.
fn ratio((ours, theirs): &(Vec<f64>, Vec<f64>)) -> f64 {
    ratio_ci(ours, theirs).map_or(f64::INFINITY, |summary| summary.ratio)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results() -> Results {
        let mut results = Results::new();
        let mut put = |measure, victim, others, figure: f64| {
            let measured = Measured { figure, offered: 1.5e6, ..Measured::default() };
            results.insert(cell(measure, victim, others), vec![measured; 3]);
        };
        let flood = |n| Others::Flood(n, Sending::Direct);
        for (others, figure) in [
            (Others::Idle, 30.0),
            (Others::Spin(1), 20.0),
            (flood(1), 19.0),
            (Others::Spin(2), 10.0),
            (flood(2), 9.2),
        ] {
            put(Measure::Unpaced, Victim::Protected, others, figure);
            put(Measure::Unpaced, Victim::Plain, others, figure + 2.0);
        }
        put(Measure::ReceiveCpu, Victim::Tight, flood(1), 8.0);
        put(Measure::ReceiveCpu, Victim::Tight, flood(2), 6.0);
        results
    }

    #[test]
    fn ratios_are_those_by_hand_and_the_worse_one_counts() {
        let mut report = Report::default();
        ratios(&results(), &mut report);
        let close = |name: &str, value: f64| (report.ratios[name].unwrap() - value).abs() < 1e-9;
        assert!(close("goodput_kept", 0.92), "{report:?}");
        assert!(close("tcp_protected_vs_plain", 30.0 / 32.0));
        assert!((report.values["victim_receive_cpu_percent"] - 8.0).abs() < 1e-9);
        assert_eq!(report.ratios["paced_tcp_kept"], None, "nothing was measured for it");
    }

    #[test]
    fn five_rounds_have_every_cell_and_every_round_the_noisy_ones() {
        let count = |cell: &Cell| (0..20).filter(|n| plan(*n, true).contains(cell)).count();
        assert!(cells::noisy().iter().all(|cell| count(cell) == 20));
        assert!(cells::steady().iter().all(|cell| (FEWEST..10).contains(&count(cell))));
        assert!(cells::rest().iter().all(|cell| count(cell) == 0));
        let full = plan(1, false);
        assert!(cells::rest().iter().all(|cell| full.contains(cell)));
    }

    #[test]
    fn the_offered_rate_stands_in_the_row() {
        let mut report = Report::default();
        rows(&results(), Duration::from_millis(500), &mut report);
        let row = |what: &str| report.rows.iter().find(|row| row.what == what).unwrap();
        assert_eq!(row("TCP, 2 flooders, direct").note, "0.5 s, offered 1.50 Mpps of 60 bytes");
        assert_eq!(row("TCP, no flood").note, "0.5 s");
    }
}
