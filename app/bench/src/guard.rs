//! `guard`: what asking costs: the time that a guarded program's calls take longer, and what established connections
//! keep; beside a tracer by ptrace, and beside sandboxes that ask about nothing.
//!
//! Calls go to loopback and are timed one by one by the program that makes them; the median of a round without guard
//! is subtracted from that with it. Program and supervisor share one core there, as the only way in which neither
//! the scheduler nor another core's sleep decides.

mod ways;

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::driver::{Driver, timed};
use crate::report::side;
use crate::rounds::rounds;
use crate::running::number;
use crate::{Options, Programs, Report};
use ways::{FEW, MANY, Way};

/// The core of programs that are timed.
const CORE: usize = 0;
/// Length of a stretch of traffic.
const SECONDS: &str = "0.3";
/// Stretches in a round: many short ones, so that other load on the machine hits both sides. Both ends share a core, so that
/// the scheduler has no part in it.
const PAIRS: usize = 3;
/// Processes under one guard.
const CROWD: &str = "1000";

/// A figure of a way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    /// A call, program and supervisor on one core.
    Call(&'static str),
    /// A call, wherever the scheduler puts them.
    Free(&'static str),
    /// Bytes through an established connection.
    Stream,
    /// Requests through an established connection.
    Requests,
    /// A program that does nothing.
    Start,
    /// Many processes that connect once.
    Crowd,
}

impl What {
    fn title(self) -> String {
        match self {
            What::Call(kind) => format!("{}, on one core", call(kind)),
            What::Free(kind) => format!("{}, on any core", call(kind)),
            What::Stream => "TCP throughput, established, on one core".to_owned(),
            What::Requests => "TCP requests, established, on one core".to_owned(),
            What::Start => "start and end of `true`".to_owned(),
            What::Crowd => "1,000 processes, until all have connected".to_owned(),
        }
    }

    fn unit(self) -> &'static str {
        match self {
            What::Call(_) | What::Free(_) => "us",
            What::Stream => "Gb/s",
            What::Requests => "/s",
            What::Start => "ms",
            What::Crowd => "s",
        }
    }
}

fn call(kind: &str) -> &'static str {
    match kind {
        "tcp" => "connect of TCP",
        "udp" => "connect of UDP",
        "bind" => "bind",
        "socket" => "socket of TCP",
        "socket-asked" => "socket of netlink",
        "sendto" => "sendto, again and again",
        _ => "sendto, each to another address",
    }
}

/// A measured call, and the way of making it.
type Cell = (What, Way);
type Results = BTreeMap<Cell, Vec<f64>>;

pub(crate) fn run(options: Options, programs: &Programs) -> Result<Report> {
    let driver = Driver::new(programs)?;
    let mut report = Report::new("guard");
    for (name, way) in
        [("strace", Way::Strace), ("bubblewrap", Way::Bubblewrap), ("firejail", Way::Firejail)]
    {
        report.peers.insert(name.to_owned(), way.version());
    }
    let missing: BTreeMap<Way, String> = [Way::Strace, Way::Bubblewrap, Way::Firejail]
        .into_iter()
        .filter_map(|way| way.missing(&driver).map(|why| (way, why)))
        .collect();
    let all = cells();
    let mut plan: Vec<Cell> =
        all.iter().copied().filter(|(_, way)| !missing.contains_key(way)).collect();
    let count = if options.quick { "10000" } else { "100000" };
    let time = Duration::from_secs(if options.quick { 80 } else { 300 });
    let mut results = Results::new();
    let one_round = |round: usize, results: &mut Results| {
        progress!("bench guard: round {}, {} cells", round + 1, plan.len());
        for cell in &plan {
            measure(&driver, *cell, count, results)?;
        }
        plan.reverse();
        Ok(())
    };
    rounds(time, &mut results, one_round, figures)?;
    rows(&results, &mut report);
    for (what, way) in &all {
        if let Some(why) = missing.get(way) {
            report.left_out(&what.title(), way.title(), why);
        }
    }
    figures(&results, &mut report);
    Ok(report)
}

/// All cells. Compared ones stand together.
fn cells() -> Vec<Cell> {
    let mut all = vec![];
    let few = Way::Guard(FEW);
    for kind in ["tcp", "udp", "bind", "socket", "socket-asked", "sendto", "sendto-first"] {
        all.extend([Way::Plain, few].map(|way| (What::Call(kind), way)));
        if kind == "tcp" {
            all.extend([Way::Guard(MANY), Way::Strace].map(|way| (What::Call(kind), way)));
        }
    }
    all.extend([Way::Plain, few, Way::Strace].map(|way| (What::Free("tcp"), way)));
    let sandboxes = [Way::Plain, few, Way::Bubblewrap, Way::Firejail];
    for what in [What::Stream, What::Requests, What::Start] {
        all.extend(sandboxes.map(|way| (what, way)));
    }
    all.extend([Way::Plain, few].map(|way| (What::Crowd, way)));
    all
}

/// Adds the figures of a round.
fn measure(driver: &Driver, (what, way): Cell, count: &str, results: &mut Results) -> Result<()> {
    let mut add = |figure| results.entry((what, way)).or_default().push(figure);
    match what {
        What::Call(kind) => add(calls(driver, way, Some(CORE), [kind, count])?),
        What::Free(kind) => add(calls(driver, way, None, [kind, count])?),
        What::Stream => {
            for _ in 0..PAIRS {
                add(figure(&way.peer(driver, Some(CORE), &["tcp", SECONDS])?)? * 8e-9);
            }
        }
        What::Requests => {
            for _ in 0..PAIRS {
                add(figure(&way.peer(driver, Some(CORE), &["requests", SECONDS])?)?);
            }
        }
        What::Start => add(timed(&mut way.command(driver, None, &["true"])?)? * 1e3),
        What::Crowd => {
            let said = object(&way.peer(driver, None, &["crowd", CROWD])?)?;
            add(number(&said, "seconds")?);
        }
    }
    Ok(())
}

/// The median time of a call.
fn calls(driver: &Driver, way: Way, core: Option<usize>, [kind, count]: [&str; 2]) -> Result<f64> {
    let said = object(&way.peer(driver, core, &["calls", kind, count])?)?;
    number(&said, "median_us")
}

fn figure(text: &str) -> Result<f64> {
    text.trim().parse().with_context(|| format!("not a figure: {text}"))
}

fn object(text: &str) -> Result<Value> {
    serde_json::from_str(text).with_context(|| format!("not an object: {text}"))
}

fn rows(results: &Results, report: &mut Report) {
    for ((what, way), rounds) in results {
        report.measured(&what.title(), way.title(), what.unit(), rounds, way.settings());
        let calls = matches!(what, What::Call(_) | What::Free(_));
        if calls && *way != Way::Plain {
            let added = added(results, *what, *way);
            let title = format!("{}: added", what.title());
            report.measured(&title, way.title(), what.unit(), &added, "without the plain call");
        }
    }
}

fn of(results: &Results, what: What, way: Way) -> &[f64] {
    results.get(&(what, way)).map_or(&[], Vec::as_slice)
}

/// What a way adds to a call, round by round.
fn added(results: &Results, what: What, way: Way) -> Vec<f64> {
    let pairs = of(results, what, way).iter().zip(of(results, what, Way::Plain));
    pairs.map(|(with, without)| with - without).collect()
}

fn figures(results: &Results, report: &mut Report) {
    let few = Way::Guard(FEW);
    let connect = added(results, What::Call("tcp"), few);
    let many = added(results, What::Call("tcp"), Way::Guard(MANY));
    report.median("connect_added_us", &connect);
    report.median("connect_added_us_10000_rules", &many);
    report.median("connect_ptrace_us", &added(results, What::Call("tcp"), Way::Strace));
    report.median("connect_added_any_core_us", &added(results, What::Free("tcp"), few));
    for (name, kind) in [
        ("connect_udp_added_us", "udp"),
        ("bind_added_us", "bind"),
        ("socket_added_us", "socket"),
        ("socket_asked_added_us", "socket-asked"),
        ("sendto_added_us", "sendto"),
        ("sendto_first_added_us", "sendto-first"),
    ] {
        report.median(name, &added(results, What::Call(kind), few));
    }
    let given = ["connect, 10,000 rules", "connect, 10 rules"];
    report.ratio("rules_10000_vs_10", side(given[0], &many), side(given[1], &connect));
    let mut worst: Option<(What, f64)> = None;
    for (name, what) in
        [("throughput_vs_plain", What::Stream), ("requests_vs_plain", What::Requests)]
    {
        established(name, what, results, report);
        if let Some(Some(ratio)) = report.ratios.get(name)
            && worst.is_none_or(|(_, least)| *ratio < least)
        {
            worst = Some((what, *ratio));
        }
    }
    established("established_vs_plain", worst.map_or(What::Stream, |(w, _)| w), results, report);
    report.median("start_ms", of(results, What::Start, few));
}

/// The ratio of what an established connection does with guard and without.
fn established(name: &str, what: What, results: &Results, report: &mut Report) {
    let given = [format!("{}, under guard", what.title()), what.title()];
    let (ours, theirs) = (of(results, what, Way::Guard(FEW)), of(results, what, Way::Plain));
    report.ratio(name, side(&given[0], ours), side(&given[1], theirs));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results() -> Results {
        let call = What::Call("tcp");
        Results::from([
            ((call, Way::Plain), vec![5.0; 6]),
            ((call, Way::Guard(FEW)), vec![9.0; 6]),
            ((call, Way::Guard(MANY)), vec![9.4; 6]),
            ((What::Stream, Way::Plain), vec![50.0; 6]),
            ((What::Stream, Way::Guard(FEW)), vec![49.0; 6]),
            ((What::Requests, Way::Plain), vec![100.0; 6]),
            ((What::Requests, Way::Guard(FEW)), vec![100.0; 6]),
        ])
    }

    #[test]
    fn no_cell_is_measured_twice_and_all_calls_have_a_plain_side() {
        let mut all = cells();
        let count = all.len();
        for (what, _) in &all {
            assert!(all.contains(&(*what, Way::Plain)), "{what:?}");
        }
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
    }

    #[test]
    fn the_plain_call_is_subtracted() {
        let mut report = Report::default();
        figures(&results(), &mut report);
        assert!((report.values["connect_added_us"] - 4.0).abs() < 1e-9, "{report:?}");
        assert!((report.ratios["rules_10000_vs_10"].unwrap() - 1.1).abs() < 1e-9);
        assert_eq!(report.values.get("connect_ptrace_us"), None);
    }

    #[test]
    fn the_worst_of_an_established_connection_is_told() {
        let mut report = Report::default();
        figures(&results(), &mut report);
        assert!((report.ratios["established_vs_plain"].unwrap() - 0.98).abs() < 1e-9);
        assert!(report.given["established_vs_plain"][0].contains("throughput"), "{report:?}");
    }
}
