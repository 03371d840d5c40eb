//! `record`: what TCP keeps while all links of a lab are recorded, what the recorder keeps of it, and how long a question
//! takes.
//!
//! Two nodes with ten links. One connection as fast as it goes, and ten of 1 Gb/s each, a link each; with the recorder and
//! without in turns. Nothing is pinned: the recorder shares the processors with both ends, as it does for users. Questions are
//! about one flow of a million in a [`large`] recording, which is made first.

mod large;

use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::capture::pair::Pair;
use crate::driver::{Driver, output};
use crate::record::large::Large;
use crate::report::side;
use crate::rounds::rounds;
use crate::running::{Running, number};
use crate::{Options, Programs, Report};

/// The lab.
const LAB: &str = "bench-record";
/// Its links, and the first port of connections.
const LINKS: u16 = 10;
const PORT: u16 = 7500;
/// Bytes per second of a paced connection.
const PACED: f64 = 125e6;
/// Most bytes of the recording.
const KEEP: &str = "2GiB";
/// Seconds of a connection before it counts, and those that count.
const SKIP: &str = "0.5";
const TIME: &str = "1.5";
/// Seconds after which a forgotten source gives up.
const MOST: &str = "60";

/// Seconds that the rounds may take.
const QUICK: u64 = 70;
const FULL: u64 = 240;

/// A round: bytes per second, and the share of frames that the recorder kept.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Round {
    one: Turn,
    ten: Turn,
}

/// The same connections without and with the recorder.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Turn {
    without: f64,
    with: f64,
    kept: f64,
}

pub(crate) fn run(options: Options, programs: &Programs) -> Result<Report> {
    let driver = Driver::new(programs)?;
    let mut report = Report::new("record");
    progress!("bench record: a large recording");
    let large = large::measure(&driver)?;
    let pair = Pair::up(&driver, LAB, LINKS.into())?;
    let seconds = if options.quick { QUICK } else { FULL };
    let mut results = vec![];
    let one_round = |round: usize, results: &mut Vec<Round>| {
        progress!("bench record: round {}", round + 1);
        results.push(measure(&pair, round.is_multiple_of(2))?);
        Ok(())
    };
    rounds(Duration::from_secs(seconds), &mut results, one_round, |results, report| {
        figures(results, &large, report);
    })?;
    pair.down()?;
    rows(&results, &large, &mut report);
    figures(&results, &large, &mut report);
    Ok(report)
}

fn measure(pair: &Pair<'_>, recorded_first: bool) -> Result<Round> {
    let one = turn(pair, (1, 0.0), recorded_first)?;
    let ten = turn(pair, (LINKS, PACED), recorded_first)?;
    Ok(Round { one, ten })
}

fn turn(pair: &Pair<'_>, how: (u16, f64), recorded_first: bool) -> Result<Turn> {
    let plain = |pair: &Pair<'_>| connections(pair, how);
    let recorded = |pair: &Pair<'_>| -> Result<(f64, f64)> {
        netloom(pair, &["record", "start", "--keep", KEEP])?;
        let rate = connections(pair, how)?;
        let told = netloom(pair, &["record", "stop", "--json"])?;
        Ok((rate, kept(&serde_json::from_str(&told).context("read what `record stop` printed")?)?))
    };
    let (without, (with, kept)) = if recorded_first {
        let recorded = recorded(pair)?;
        (plain(pair)?, recorded)
    } else {
        (plain(pair)?, recorded(pair)?)
    };
    Ok(Turn { without, with, kept })
}

/// Bytes per second of connections at once, each on a link of its own.
fn connections(pair: &Pair<'_>, (count, rate): (u16, f64)) -> Result<f64> {
    let (driver, lab) = (pair.driver(), pair.lab());
    let port = |link: u16| (PORT + link).to_string();
    let sinks = (0..count)
        .map(|link| driver.peer(lab, "b", &["tcp-sink", &port(link), SKIP, TIME])?.ready());
    let sinks = sinks.collect::<Result<Vec<Running>>>()?;
    let sources = (0..count).map(|link| {
        let to = format!("{}:{}", pair.address(link.into())?, port(link));
        driver.peer(lab, "a", &["tcp-source", &to, &rate.to_string(), MOST])
    });
    let sources = sources.collect::<Result<Vec<Running>>>()?;
    let mut sum = 0.0;
    for sink in sinks {
        sum += number(&sink.result()?, "bytes_per_s")?;
    }
    drop(sources);
    Ok(sum)
}

/// The share of frames seen that are in the recording.
fn kept(told: &Value) -> Result<f64> {
    let books = &told["books"];
    let seen = number(books, "seen")?;
    let in_it = number(books, "stored")? + number(books, "again")?;
    Ok(if seen > 0.0 { in_it / seen } else { 0.0 })
}

fn netloom(pair: &Pair<'_>, words: &[&str]) -> Result<String> {
    output(pair.driver().command().args(["-l", pair.lab()]).args(words))
}

/// Which connections of a round, by a name.
type Which = (&'static str, fn(&Round) -> &Turn);

fn rows(results: &[Round], large: &Large, report: &mut Report) {
    let turns: [Which; 2] = [
        ("one TCP connection, unpaced", |round| &round.one),
        ("ten TCP connections of 1 Gb/s", |round| &round.ten),
    ];
    for (what, of) in turns {
        let gbps = |of_turn: fn(&Turn) -> f64| -> Vec<f64> {
            results.iter().map(|round| of_turn(of(round)) * 8.0 / 1e9).collect()
        };
        report.measured(what, "netloom", "Gb/s", &gbps(|turn| turn.without), "not recorded");
        let name = format!("{what}, recorded");
        report.measured(&name, "netloom", "Gb/s", &gbps(|turn| turn.with), "all links");
        let kept: Vec<f64> = results.iter().map(|round| 100.0 * of(round).kept).collect();
        let name = format!("{what}, frames kept");
        report.measured(&name, "netloom", "%", &kept, "of those that passed the links");
    }
    let times: Vec<f64> = large.seconds.iter().map(|seconds| seconds * 1e3).collect();
    let gib = f64::from(1 << 30);
    let note = format!(
        "one of {:.0} flows in {:.2} GiB, of which {:.2} are indexes; with the start of the program",
        large.flows,
        large.bytes / gib,
        large.indexes / gib
    );
    report.measured("question about a flow", "netloom", "ms", &times, &note);
}

fn figures(results: &[Round], large: &Large, report: &mut Report) {
    let turns: [Which; 2] =
        [("record_tcp_ratio", |round| &round.one), ("record_paced_ratio", |round| &round.ten)];
    for (name, of) in turns {
        let rates = |of_turn: fn(&Turn) -> f64| -> Vec<f64> {
            results.iter().map(|round| of_turn(of(round))).collect()
        };
        let (with, without) = (rates(|turn| turn.with), rates(|turn| turn.without));
        report.ratio(name, side("recorded", &with), side("not recorded", &without));
    }
    let kept = |of: fn(&Round) -> &Turn| -> Vec<f64> {
        results.iter().map(|round| of(round).kept).collect()
    };
    report.value("record_kept", &kept(|round| &round.one));
    report.value("record_paced_kept", &kept(|round| &round.ten));
    report.value("question_s", &large.seconds);
    report.value("question_gib", &[large.bytes / f64::from(1 << 30)]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_those_by_hand() {
        let turn = |with| Turn { without: 2e9, with, kept: 0.5 };
        let round = Round { one: turn(1.8e9), ten: turn(1.9e9) };
        let large = Large { bytes: 1e9, indexes: 1e8, seconds: vec![0.1, 0.3], flows: 1e6 };
        let mut report = Report::default();
        figures(&[round; 3], &large, &mut report);
        rows(&[round], &large, &mut report);
        let near = |found: f64, expected: f64| assert!((found - expected).abs() < 1e-9);
        near(report.ratios["record_tcp_ratio"].unwrap(), 0.9);
        near(report.ratios["record_paced_ratio"].unwrap(), 0.95);
        near(report.values["record_kept"], 0.5);
        near(report.values["question_s"], 0.2);
        assert_eq!(report.rows.len(), 7);
        let told = serde_json::json!({"books": {"seen": 10, "stored": 4, "again": 2}});
        near(kept(&told).unwrap(), 0.6);
    }
}
