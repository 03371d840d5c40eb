//! `wire`: accuracy of link delay, loss and rate, and link throughput; compared with netem.
//!
//! Two nodes with a link for each setting and a plain one, all in one lab. A delay's error is a packet's time
//! minus the setting and minus the plain link's median in the same round. A loss's error is in standard
//! deviations of the binomial distribution, over all rounds. A rate counts whole Ethernet frames while 25 %
//! more is offered.

mod cells;
mod paths;
mod probe;

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Result;
use netloom_stats::{Summary, percentile};

use crate::driver::Driver;
use crate::report::side;
use crate::rounds::rounds;
use crate::{Options, Programs, Report};
use cells::Trait;
use paths::{Paths, Who};
use probe::Lost;

const DELAYS: [u32; 4] = [1, 10, 50, 100];
/// In thousandths.
const LOSSES: [u32; 3] = [1, 10, 100];
/// In Mb/s.
const RATES: [u32; 3] = [10, 100, 1000];
/// The delay with guaranteed throughput, and delays shown for comparison, in milliseconds.
const TCP: u32 = 1;
const TCP_MORE: [u32; 2] = [10, 50];
/// A connection that reaches this share of its buffers' limit counts as limited by them.
const BY_WINDOW: f64 = 0.4;

/// All rounds, by setting and implementation.
#[derive(Default)]
struct Results {
    /// Seed of the random losses.
    seed: u32,
    /// Milliseconds: the 99th percentile of absolute errors in each round.
    delay: BTreeMap<(Trait, Who), Vec<f64>>,
    /// The same for the plain link: the machine's own share.
    spread: Vec<f64>,
    /// Median error, which shows a systematic error.
    median: BTreeMap<(Trait, Who), Vec<f64>>,
    loss: BTreeMap<(Trait, Who), Vec<Lost>>,
    /// Percent of the setting.
    rate: BTreeMap<(Trait, Who), Vec<f64>>,
    /// Gb/s.
    tcp: BTreeMap<(Trait, Who), Vec<f64>>,
    /// Gb/s that the buffers allow.
    window: BTreeMap<Trait, f64>,
}

pub(crate) fn run(options: Options, programs: &Programs) -> Result<Report> {
    let driver = Driver::new(programs)?;
    let mut report = Report::new("wire");
    let netem = paths::netem();
    let mut who = vec![Who::Netloom];
    who.extend(netem.is_ok().then_some(Who::Netem));
    let all: Vec<Trait> = (DELAYS.map(Trait::Delay).into_iter())
        .chain(LOSSES.map(Trait::Loss))
        .chain(RATES.map(Trait::Rate))
        .collect();
    // Each run draws another sample of losses; the row states the seed for reproduction.
    let seed = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.subsec_nanos());
    let paths = Paths::up(&driver, &all, seed)?;
    for what in &all {
        // Longer where the first request may be lost: it is repeated every second.
        let patience = if matches!(what, Trait::Loss(_)) { 2500 } else { 50 };
        paths.on(Who::Netloom, *what, |p| probe::greet(p, Duration::from_millis(patience)))?;
    }
    let mut results = Results { seed, ..Results::default() };
    let time = Duration::from_secs(if options.quick { 80 } else { 200 });
    let round = |round: usize, results: &mut Results| {
        progress!("bench wire: round {}", round + 1);
        one_round(&paths, &who, options, results)
    };
    rounds(time, &mut results, round, values)?;
    driver.down(paths::LAB)?;
    rows(&results, &mut report);
    values(&results, &mut report);
    if options.quick {
        for ms in TCP_MORE {
            report.left_out(&tcp_title(Trait::Delay(ms)), "netloom", "--quick");
        }
    }
    if let Err(why) = &netem {
        report.left_out("all of these", "netem", why);
    }
    report.peers.insert("netem".to_owned(), netem.ok());
    Ok(report)
}

fn one_round(
    paths: &Paths<'_>,
    who: &[Who],
    options: Options,
    results: &mut Results,
) -> Result<()> {
    let plain = paths.on(Who::Netloom, Trait::Nothing, |p| probe::delays(p, 1))?;
    let spread = delay_errors(&plain, percentile(&plain, 50.0)?, Trait::Nothing)?;
    results.spread.push(spread.0);
    let plain = percentile(&plain, 50.0)?;
    for who in who.iter().copied() {
        for what in DELAYS.map(Trait::Delay) {
            let taken = paths.on(who, what, |p| probe::delays(p, 1))?;
            let (p99, median) = delay_errors(&taken, plain, what)?;
            results.delay.entry((what, who)).or_default().push(p99);
            results.median.entry((what, who)).or_default().push(median);
        }
        for what in LOSSES.map(Trait::Loss) {
            let lost = paths.on(who, what, probe::losses)?;
            results.loss.entry((what, who)).or_default().push(lost);
        }
        for mbit in RATES {
            let what = Trait::Rate(mbit);
            let got = paths.on(who, what, |p| probe::rate(p, mbit, 1.2))?;
            let error = 100.0 * (got / f64::from(mbit) - 1.0);
            results.rate.entry((what, who)).or_default().push(error);
        }
        throughput(paths, who, options, results)?;
    }
    Ok(())
}

fn throughput(paths: &Paths<'_>, who: Who, options: Options, results: &mut Results) -> Result<()> {
    let more = TCP_MORE.iter().filter(|_| !options.quick);
    for ms in [TCP].iter().chain(more) {
        let what = Trait::Delay(*ms);
        // At longer delays, slow start takes more round trips than half a second allows.
        let skip = if *ms == TCP { 0.5 } else { 2.5 };
        let (got, window) = paths
            .on(who, what, |p| Ok((probe::tcp(p, skip, 1.0)?, probe::window_limit(p, what)?)))?;
        results.tcp.entry((what, who)).or_default().push(got);
        results.window.extend(window.map(|window| (what, window)));
    }
    let got = paths.on(Who::Netloom, Trait::Nothing, |p| probe::tcp(p, 0.2, 0.5))?;
    if who == Who::Netloom {
        results.tcp.entry((Trait::Nothing, who)).or_default().push(got);
    }
    Ok(())
}

/// 99th percentile of absolute errors, and median error, in milliseconds.
fn delay_errors(taken: &[f64], plain: f64, what: Trait) -> Result<(f64, f64)> {
    let set = if let Trait::Delay(ms) = what { f64::from(ms) } else { 0.0 };
    let errors: Vec<f64> = taken.iter().map(|ns| (ns - plain) / 1e6 - set).collect();
    let sizes: Vec<f64> = errors.iter().map(|error| error.abs()).collect();
    Ok((percentile(&sizes, 99.0)?, percentile(&errors, 50.0)?))
}

fn name(who: Who) -> &'static str {
    match who {
        Who::Netloom => "netloom",
        Who::Netem => "netem",
    }
}

fn mean(figures: &[f64]) -> f64 {
    Summary::of(figures).map_or(0.0, |summary| summary.mean)
}

fn rows(results: &Results, report: &mut Report) {
    let note = "500 packets in 1 s, against their median: what of the rows below is the machine's";
    report.measured("error p99, plain link", "no wire", "ms", &results.spread, note);
    for ((what, who), all) in &results.delay {
        let median = results.median.get(&(*what, *who)).map_or(0.0, |all| mean(all));
        let note = format!("500 packets in 1 s; median error {:.1} us", 1000.0 * median);
        let title = format!("error p99, {}", what.settings());
        report.measured(&title, name(*who), "ms", all, &note);
    }
    for ((what, who), all) in &results.loss {
        let shares: Vec<f64> = all.iter().map(|lost| 100.0 * lost.count / lost.of).collect();
        let unexplained: f64 = all.iter().filter_map(|lost| lost.unexplained).sum();
        let off = sigmas(*what, all);
        let mut note = format!("{off:+.2} standard deviations off, seed {}", results.seed);
        if *who == Who::Netloom {
            let otherwise: f64 = all.iter().map(|lost| lost.otherwise).sum();
            note += &format!("; for another cause {otherwise}, not in the ledger {unexplained}");
        }
        report.measured(&format!("lost, {}", what.settings()), name(*who), "%", &shares, &note);
    }
    for ((what, who), all) in &results.rate {
        let title = format!("rate error, {}", what.settings());
        let note = "frames of 1442 bytes, a quarter more offered, 1.2 s";
        report.measured(&title, name(*who), "%", all, note);
    }
    for ((what, who), all) in &results.tcp {
        let note = limit(mean(all), results.window.get(what).copied());
        report.measured(&tcp_title(*what), name(*who), "Gb/s", all, &note);
    }
}

fn tcp_title(what: Trait) -> String {
    match what {
        Trait::Nothing => "TCP, plain link".to_owned(),
        _ => format!("TCP, {} each way", what.settings()),
    }
}

/// Which of the two limits a connection has reached.
fn limit(got: f64, window: Option<f64>) -> String {
    match window {
        None => "1 connection".to_owned(),
        Some(window) if got >= BY_WINDOW * window => {
            format!("1 connection; limited by its window: buffers allow at most {window:.2} Gb/s")
        }
        Some(window) => {
            format!("1 connection; limited by the path: buffers would allow up to {window:.2} Gb/s")
        }
    }
}

/// Deviation of all rounds' losses together, in standard deviations.
fn sigmas(what: Trait, all: &[Lost]) -> f64 {
    let Trait::Loss(thousandths) = what else { return 0.0 };
    let share = f64::from(thousandths) / 1000.0;
    let (of, count) =
        all.iter().fold((0.0, 0.0), |(of, count), lost| (of + lost.of, count + lost.count));
    (count - of * share) / (of * share * (1.0 - share)).sqrt()
}

/// Each value is that of the worst setting.
fn values(results: &Results, report: &mut Report) {
    let ours = |series: &BTreeMap<(Trait, Who), Vec<f64>>| -> Vec<Vec<f64>> {
        let ours = series.iter().filter(|((_, who), _)| *who == Who::Netloom);
        ours.map(|(_, all)| all.iter().map(|error| error.abs()).collect()).collect()
    };
    let median = |all: &[f64]| percentile(all, 50.0).unwrap_or(0.0);
    let worst = |all: Vec<Vec<f64>>| {
        all.into_iter().max_by(|a, b| median(a).total_cmp(&median(b))).unwrap_or_default()
    };
    report.median("delay_error_p99_ms", &worst(ours(&results.delay)));
    report.median("rate_error_percent", &worst(ours(&results.rate)));
    let losses = results.loss.iter().filter(|((_, who), _)| *who == Who::Netloom);
    let sizes = losses.map(|((what, _), all)| sigmas(*what, all).abs());
    report.of_all("loss_error_sigmas", sizes.fold(0.0, f64::max));
    let tcp = results.tcp.get(&(Trait::Delay(TCP), Who::Netloom));
    report.value("tcp_gbps", tcp.map_or(&[], Vec::as_slice));
    for what in DELAYS.map(Trait::Delay) {
        let of = |who| results.delay.get(&(what, who)).map_or(&[][..], Vec::as_slice);
        let given = [Who::Netloom, Who::Netem]
            .map(|who| format!("{}, error p99 of {}", name(who), what.settings()));
        let sides = (side(&given[0], of(Who::Netloom)), side(&given[1], of(Who::Netem)));
        report.ratio(&format!("{}_error_vs_netem", what.link()), sides.0, sides.1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_delays_are_against_the_plain_path() {
        let taken: Vec<f64> = (0..101).map(|i| 10_000_000.0 + 30_000.0 + f64::from(i)).collect();
        let (p99, median) = delay_errors(&taken, 30_000.0, Trait::Delay(10)).unwrap();
        assert!((p99 - 99e-6).abs() < 1e-9 && (median - 50e-6).abs() < 1e-9, "{p99} {median}");
    }

    #[test]
    fn losses_are_summed_over_rounds() {
        // 20,000 packets at 1 %: 200 expected, deviation sqrt(198).
        let rounds = [120.0, 110.0].map(|count| Lost { of: 10_000.0, count, ..Lost::default() });
        assert!((sigmas(Trait::Loss(10), &rounds) - 30.0 / 198_f64.sqrt()).abs() < 1e-9);
    }

    #[test]
    fn the_worst_setting_counts_and_netem_does_not() {
        let mut results = Results::default();
        for (ms, who, error) in
            [(1, Who::Netloom, 0.1), (10, Who::Netloom, 0.15), (1, Who::Netem, 0.9)]
        {
            results.delay.insert((Trait::Delay(ms), who), vec![error; 3]);
        }
        results.rate.insert((Trait::Rate(10), Who::Netloom), vec![-0.5, -0.7]);
        results.tcp.insert((Trait::Delay(1), Who::Netloom), vec![6.0, 8.0]);
        let mut report = Report::default();
        values(&results, &mut report);
        let close = |name: &str, value: f64| (report.values[name] - value).abs() < 1e-9;
        assert!(close("delay_error_p99_ms", 0.15) && close("rate_error_percent", 0.6));
        assert!(close("tcp_gbps", 7.0) && close("loss_error_sigmas", 0.0), "{report:?}");
        assert!((report.ratios["delay-1ms_error_vs_netem"].unwrap() - 0.1 / 0.9).abs() < 1e-9);
    }

    #[test]
    fn the_limit_is_told() {
        assert!(limit(0.3, Some(0.5)).contains("by its window"));
        assert!(limit(0.1, Some(0.5)).contains("by the path"));
    }
}
