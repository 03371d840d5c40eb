//! `measure`: what alternate marking costs per packet and per path, and how exact its delays are.
//!
//! Three parts, each in its own rounds: the cost of a point per packet, by test runs of its program
//! ([`costs`]); the rate that two points leave to sockets over a link ([`rates`]); the error of the mean
//! delay between two points relative to per-packet stamps ([`delays`]). Programs are compared with the empty
//! one at the same places. The source's figures are in the rows.

mod asked;
mod costs;
mod delays;
mod rates;
mod source;
mod unmeasured;

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;

use crate::capture::pair::Pair;
use crate::driver::Driver;
use crate::report::side;
use crate::rounds::rounds;
use crate::{Options, Programs, Report};
use asked::{ALL, DUMMY, FIXED, Kind};
use costs::{Cost, PointKind, Seen, Trials, cost, egress};
use delays::{Delay, Told};
use rates::{Ends, Rate, SIZES};
use unmeasured::Turns;

/// The lab.
const LAB: &str = "bench-measure";

/// Seconds that the rounds may take.
struct Amount {
    costs: u64,
    rates: u64,
    delays: u64,
    turns: u64,
}

const QUICK: Amount = Amount { costs: 12, rates: 48, delays: 28, turns: 30 };
const FULL: Amount = Amount { costs: 60, rates: 150, delays: 60, turns: 60 };

/// All rounds.
#[derive(Default)]
struct Results {
    costs: BTreeMap<Cost, Vec<f64>>,
    rates: BTreeMap<rates::Path, Vec<Rate>>,
    delays: BTreeMap<Delay, Vec<Told>>,
    turns: Vec<Turns>,
}

pub(crate) fn run(options: Options, programs: &Programs) -> Result<Report> {
    let driver = Driver::new(programs)?;
    let mut report = Report::new("measure");
    let mut results = Results::default();
    let (mut costs, mut paths) = (costs::quick(), rates::quick());
    if !options.quick {
        costs.extend(costs::rest());
        paths.extend(rates::rest());
    }
    let amount = if options.quick { QUICK } else { FULL };
    all_costs(costs, amount.costs, &mut results)?;
    let pair = Pair::with(&driver, LAB, &delays::LINKS)?;
    all_turns(&pair, amount.turns, &mut results)?;
    all_rates(&pair, paths, amount.rates, &mut results)?;
    all_delays(&pair, amount.delays, &mut results)?;
    pair.down()?;
    rows(&results, &mut report);
    if options.quick {
        let (costs, paths) = (costs::rest(), rates::rest());
        costs.iter().for_each(|cost| report.left_out(&cost.to_string(), "netloom", "--quick"));
        paths.iter().for_each(|path| report.left_out(&path.to_string(), "netloom", "--quick"));
    }
    source::rows(&mut report);
    figures(&results, &mut report);
    Ok(report)
}

fn all_costs(mut costs: Vec<Cost>, seconds: u64, results: &mut Results) -> Result<()> {
    let mut trials = Trials::load(&costs)?;
    let one_round = |round: usize, results: &mut Results| {
        progress!("bench measure: costs, round {}, {} cells", round + 1, costs.len());
        for cost in &costs {
            let ns = trials.measure(*cost)?;
            results.costs.entry(*cost).or_default().push(ns);
        }
        costs.reverse();
        trials.check()
    };
    rounds(Duration::from_secs(seconds), results, one_round, costs_figures)
}

fn all_turns(pair: &Pair<'_>, seconds: u64, results: &mut Results) -> Result<()> {
    let one_round = |round: usize, results: &mut Results| {
        progress!("bench measure: unmeasured TCP, round {}", round + 1);
        results.turns.push(unmeasured::measure(pair)?);
        Ok(())
    };
    rounds(Duration::from_secs(seconds), results, one_round, turns_figures)
}

fn all_rates(
    pair: &Pair<'_>,
    mut paths: Vec<rates::Path>,
    seconds: u64,
    results: &mut Results,
) -> Result<()> {
    let one_round = |round: usize, results: &mut Results| {
        progress!("bench measure: rates, round {}, {} cells", round + 1, paths.len());
        for path in &paths {
            let rate = rates::measure(pair, *path)?;
            results.rates.entry(*path).or_default().push(rate);
        }
        paths.reverse();
        Ok(())
    };
    rounds(Duration::from_secs(seconds), results, one_round, rates_figures)
}

fn all_delays(pair: &Pair<'_>, seconds: u64, results: &mut Results) -> Result<()> {
    let mut delays = delays::all();
    let one_round = |round: usize, results: &mut Results| {
        progress!("bench measure: delays, round {}, {} cells", round + 1, delays.len());
        for delay in delays {
            let told = delays::measure(pair, delay)?;
            results.delays.entry(delay).or_default().push(told);
        }
        delays.reverse();
        Ok(())
    };
    rounds(Duration::from_secs(seconds), results, one_round, delays_figures)
}

fn rows(results: &Results, report: &mut Report) {
    for (cost, rounds) in &results.costs {
        let note =
            "1,000,000 test runs a round in five parts, the quickest, less the empty program's";
        report.measured(&cost.to_string(), "netloom", "ns", rounds, note);
    }
    turn_rows(&results.turns, report);
    for (path, rounds) in &results.rates {
        rate_rows(*path, rounds, report);
    }
    for (delay, rounds) in &results.delays {
        let mean = |of: fn(&Told) -> f64| {
            let sum: f64 = rounds.iter().map(of).sum();
            sum / f64::from(u32::try_from(rounds.len()).unwrap_or(1).max(1))
        };
        let note = format!(
            "error of a block's mean; its sign {:+.2} us, delay {:.1} us, {:.1} blocks a round",
            mean(|told| told.bias),
            mean(|told| told.delay),
            mean(|told| told.blocks),
        );
        let errors: Vec<f64> = rounds.iter().map(|told| told.error).collect();
        report.measured(&delay.to_string(), "netloom", "us", &errors, &note);
    }
}

fn turn_rows(rounds: &[Turns], report: &mut Report) {
    let mut row = |what: &str, rates: fn(&Turns) -> &[f64]| {
        let rates = rounds.iter().flat_map(rates);
        let gbps: Vec<f64> = rates.map(|bytes| bytes * 8.0 / 1e9).collect();
        report.measured(what, "netloom", "Gb/s", &gbps, "one connection, super-frames, in turns");
    };
    row("TCP of another flow", |turns| &turns.without);
    row("TCP of another flow, marking point", |turns| &turns.with);
}

fn rate_rows(path: rates::Path, rounds: &[Rate], report: &mut Report) {
    let sum = |of: fn(&Rate) -> f64| rounds.iter().map(of).sum::<f64>();
    let waited = 100.0 * sum(|r| r.waited) / f64::from(u32::try_from(rounds.len()).unwrap_or(1));
    let settings = match path.ends {
        Ends::Nothing => "nothing attached",
        Ends::Points(kind) => kind.settings(),
    };
    let note = format!(
        "{settings}; lost {:.0}, not counted alike {:.0}, of all rounds; senders waited {waited:.0} %",
        sum(|r| r.lost),
        sum(|r| r.astray),
    );
    let mpps: Vec<f64> = rounds.iter().map(|r| r.per_s / 1e6).collect();
    report.measured(&path.to_string(), "netloom", "Mpps", &mpps, &note);
    let gbps: Vec<f64> = rounds.iter().map(|r| r.per_s * path.bits() / 1e9).collect();
    report.measured(&path.to_string(), "netloom", "Gb/s", &gbps, "the same as throughput");
}

fn figures(results: &Results, report: &mut Report) {
    costs_figures(results, report);
    turns_figures(results, report);
    rates_figures(results, report);
    delays_figures(results, report);
}

fn costs_figures(results: &Results, report: &mut Report) {
    let of = |kind, filters, seen| {
        results.costs.get(&cost(kind, filters, seen)).map_or(&[][..], Vec::as_slice)
    };
    report.value("unmatched_ns", of(ALL, 1, Seen::Unmatched));
    report.value("matched_ns", of(ALL, 1, Seen::Matched));
    report.value("matched_ns_10000", of(ALL, 10_000, Seen::Matched));
    let of_egress =
        |place, seen| results.costs.get(&egress(place, seen)).map_or(&[][..], Vec::as_slice);
    report.value("egress_unmatched_ns", of_egress(PointKind::Marks, Seen::Unmatched));
    report.value("egress_ns", of_egress(PointKind::Marks, Seen::Matched));
    report.value("egress_rewriting_ns", of_egress(PointKind::Rewrites, Seen::Matched));
    let [sampling, all] = [FIXED, ALL].map(|kind| of(kind, 1, Seen::Mixed));
    report.value("sampling_ns", sampling);
    let [one, other] = [FIXED, ALL].map(|kind| format!("{}, cost of a packet", kind.settings()));
    report.ratio("sampling_vs_all", side(&one, sampling), side(&other, all));
}

fn turns_figures(results: &Results, report: &mut Report) {
    let turns: Vec<f64> = results.turns.iter().filter_map(Turns::ratio).collect();
    let without = vec![1.0; turns.len()];
    let with = side("TCP past a marking point that does not measure it", &turns);
    report.ratio("marking_tcp_ratio", with, side("the same without the point, as 1", &without));
}

fn rates_figures(results: &Results, report: &mut Report) {
    let rate = |kind: Kind| -> Vec<f64> {
        let rounds = results.rates.get(&rates::path(1, SIZES[0], kind));
        rounds.into_iter().flatten().map(|rate| rate.per_s).collect()
    };
    let [dummy, all, sampling] = [DUMMY, ALL, FIXED].map(rate);
    let given = [DUMMY, ALL, FIXED].map(|kind| format!("{}, packets a second", kind.settings()));
    let nothing = side(&given[0], &dummy);
    report.ratio("kept_vs_dummy", side(&given[1], &all), nothing);
    report.ratio("sampling_kept_vs_dummy", side(&given[2], &sampling), nothing);
}

fn delays_figures(results: &Results, report: &mut Report) {
    let names = ["owd_error_us", "owd_error_plain_us", "owd_error_sampled_us"];
    for (name, delay) in names.into_iter().zip(delays::all()) {
        let rounds = results.delays.get(&delay).into_iter().flatten();
        report.value(name, &rounds.map(|told| told.error).collect::<Vec<_>>());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results() -> Results {
        let mut results = Results::default();
        for (cost, ns) in
            costs::quick().into_iter().zip([20.0, 60.0, 66.0, 60.0, 45.0, 21.0, 61.0, 62.0])
        {
            results.costs.insert(cost, vec![ns; 3]);
        }
        for (path, per_s) in rates::quick().into_iter().zip([1e6, 0.9e6, 0.95e6]) {
            results.rates.insert(path, vec![Rate { per_s, ..Rate::default() }; 3]);
        }
        for (delay, error) in delays::all().into_iter().zip([1.0, 2.0, 3.0]) {
            results.delays.insert(delay, vec![Told { error, ..Told::default() }; 3]);
        }
        results.turns = vec![Turns { with: vec![2.97e9; 3], without: vec![3e9; 3] }; 3];
        results
    }

    #[test]
    fn figures_are_those_by_hand() {
        let mut report = Report::default();
        figures(&results(), &mut report);
        let near =
            |found: f64, expected: f64| assert!((found - expected).abs() < 1e-9, "{report:?}");
        near(report.values["unmatched_ns"], 20.0);
        near(report.values["matched_ns_10000"], 66.0);
        near(report.values["owd_error_us"], 1.0);
        near(report.values["owd_error_sampled_us"], 3.0);
        near(report.values["egress_unmatched_ns"], 21.0);
        near(report.values["egress_ns"], 61.0);
        near(report.values["egress_rewriting_ns"], 62.0);
        near(report.ratios["marking_tcp_ratio"].unwrap(), 0.99);
        near(report.ratios["sampling_vs_all"].unwrap(), 0.75);
        near(report.ratios["kept_vs_dummy"].unwrap(), 0.9);
        near(report.ratios["sampling_kept_vs_dummy"].unwrap(), 0.95);
    }

    #[test]
    fn each_cell_has_a_row_and_rates_have_two() {
        let mut report = Report::default();
        rows(&results(), &mut report);
        assert_eq!(report.rows.len(), 8 + 2 + 2 * 3 + 3);
        let frames = &report.rows[11];
        assert!((frames.mean.unwrap() - 1e6 * 64.0 * 8.0 / 1e9).abs() < 1e-9, "{frames:?}");
    }
}
