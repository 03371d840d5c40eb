//! `generate`: how many smallest frames per second each engine and trafgen send, and how exactly they are
//! paced.
//!
//! Frames are counted by the receiving interface over a window in the middle of a run; all senders are pinned
//! to the same core. Receiving is part of that core's work, so two receivers are measured: one drops frames
//! on arrival in a program (the generator's limit), one processes them as any node does (the load it can put
//! on a node).

mod sink;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::capture::pair::{NOBODY, Pair, cores};
use crate::capture::program::Program;
use crate::capture::version;
use crate::driver::Driver;
use crate::report::side;
use crate::rounds::rounds;
use crate::running::{Running, number};
use crate::{Options, Programs, Report};
use sink::{End, Sink};

/// Time after the first frame, and until the count ends.
const SETTLE: Duration = Duration::from_millis(300);
const WINDOW: Duration = Duration::from_millis(800);
/// Seconds of a run: the above, and time to start.
const RUN: f64 = 2.0;
/// Frame rate at which pacing is measured, and seconds.
const PACE: &str = "100kpps";
const PACED: f64 = 1.0;
/// Longest wait for the first frame.
const PATIENCE: Duration = Duration::from_secs(10);

/// The generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Maker {
    LiveFrames,
    Ring,
    Trafgen,
}

/// A cell of the experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Cell {
    Top(Maker, End),
    /// Lateness of departures with the ring, on a core that nothing else uses.
    Pacing,
    /// The same beside a program on each core that uses all of it.
    PacingBusy,
    /// Lateness with calls of many frames, which share one departure time.
    PacingLive,
}

/// Microseconds late against the schedule of the rate: median, 99th and 99.9th percentile, maximum. The 99th
/// percentile against the sender's plan, and the percentage of time that the sender was interrupted.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Late {
    p50: f64,
    p99: f64,
    p999: f64,
    most: f64,
    plan: f64,
    interrupted: f64,
}

/// All rounds.
#[derive(Default)]
struct Results {
    top: BTreeMap<(Maker, End), Vec<f64>>,
    late: BTreeMap<Cell, Vec<Late>>,
}

pub(crate) fn run(options: Options, programs: &Programs) -> Result<Report> {
    let driver = Driver::new(programs)?;
    let mut report = Report::new("generate");
    let trafgen = version("trafgen");
    report.peers.insert("trafgen".to_owned(), trafgen.clone());
    let pair = Pair::up(&driver, "bench-generate", 1)?;
    let config = trafgen_config(&pair)?;
    let (all, quick) = (cells(false), cells(true));
    let chosen = if options.quick { &quick } else { &all };
    let missing = |cell: &Cell| match cell {
        Cell::Top(Maker::Trafgen, _) if trafgen.is_none() => Some("not installed"),
        cell if !chosen.contains(cell) => Some("--quick"),
        _ => None,
    };
    let mut cells: Vec<Cell> = all.iter().filter(|cell| missing(cell).is_none()).copied().collect();
    let mut results = Results::default();
    let time = Duration::from_secs(if options.quick { 95 } else { 300 });
    let one_round = |round: usize, results: &mut Results| {
        progress!("bench generate: round {}, {} cells", round + 1, cells.len());
        cells.iter().try_for_each(|cell| measure(*cell, &pair, &config, results))?;
        cells.reverse();
        Ok(())
    };
    rounds(time, &mut results, one_round, figures)?;
    pair.down()?;
    rows(&results, &mut report);
    for cell in &all {
        if let Some(why) = missing(cell) {
            report.left_out(&cell.to_string(), who(*cell), why);
        }
    }
    figures(&results, &mut report);
    Ok(report)
}

/// The cells of a round. Cells with the same receiver are adjacent.
fn cells(quick: bool) -> Vec<Cell> {
    let mut cells = vec![
        Cell::Top(Maker::LiveFrames, End::Node),
        Cell::Top(Maker::Trafgen, End::Node),
        Cell::Top(Maker::Ring, End::Node),
        Cell::Top(Maker::LiveFrames, End::Drop),
        Cell::Top(Maker::Trafgen, End::Drop),
        Cell::Pacing,
        Cell::PacingBusy,
    ];
    if !quick {
        cells.extend([Cell::Top(Maker::Ring, End::Drop), Cell::PacingLive]);
    }
    cells
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cell::Top(_, end) => write!(f, "64 bytes at top speed, {}", end.title()),
            Cell::Pacing | Cell::PacingLive => write!(f, "late by, at {PACE}"),
            Cell::PacingBusy => write!(f, "late by, at {PACE} beside load"),
        }
    }
}

impl Maker {
    fn settings(self) -> &'static str {
        match self {
            Maker::LiveFrames => "--engine live-frames",
            Maker::Ring => "--engine ring",
            Maker::Trafgen => "--cpus 1, mapped ring, past the queueing discipline",
        }
    }
}

fn who(cell: Cell) -> &'static str {
    match cell {
        Cell::Top(Maker::LiveFrames, _) | Cell::PacingLive => "netloom, live-frames",
        Cell::Top(Maker::Ring, _) | Cell::Pacing | Cell::PacingBusy => "netloom, ring",
        Cell::Top(Maker::Trafgen, _) => "trafgen",
    }
}

fn measure(cell: Cell, pair: &Pair<'_>, config: &Path, results: &mut Results) -> Result<()> {
    match cell {
        Cell::Top(maker, end) => {
            let sink = Sink::attach(pair, end)?;
            let rate = top(maker, pair, config)?;
            sink.detach(pair)?;
            results.top.entry((maker, end)).or_default().push(rate / 1e6);
        }
        Cell::Pacing | Cell::PacingBusy | Cell::PacingLive => {
            let engine = if cell == Cell::PacingLive { "live-frames" } else { "ring" };
            let load = if cell == Cell::PacingBusy { load(pair)? } else { vec![] };
            let report = pair.generate(0, engine, PACE, PACED)?.result()?;
            drop(load);
            let us = |name: &str| Ok::<_, anyhow::Error>(number(&report["pacing"], name)? / 1e3);
            let time = number(&report, "elapsed_ns")?;
            let late = Late {
                p50: us("schedule_p50_ns")?,
                p99: us("schedule_p99_ns")?,
                p999: us("schedule_p999_ns")?,
                most: us("schedule_max_ns")?,
                plan: us("plan_p99_ns")?,
                interrupted: number(&report["pacing"], "interrupted_ns")? / time * 100.0,
            };
            results.late.entry(cell).or_default().push(late);
        }
    }
    Ok(())
}

/// A program on each core that uses all of it, until dropped.
fn load(pair: &Pair<'_>) -> Result<Vec<Running>> {
    let spin = |core: &&'static str| {
        let mut command = Command::new("taskset");
        command.args(["--cpu-list", core]).arg(pair.driver().own());
        command.args(["peer", "spin", &(4.0 * PACED).to_string()]);
        Running::start(&mut command, "spin")?.ready()
    };
    cores().iter().map(spin).collect()
}

/// Frames per second that arrive.
fn top(maker: Maker, pair: &Pair<'_>, config: &Path) -> Result<f64> {
    let first = pair.received(0)?;
    match maker {
        Maker::LiveFrames | Maker::Ring => {
            let engine = if maker == Maker::Ring { "ring" } else { "live-frames" };
            let running = pair.generate(0, engine, "max", RUN)?;
            let rate = window(pair, first)?;
            running.result()?;
            Ok(rate)
        }
        Maker::Trafgen => {
            // It has a child that only its group's signals reach; `timeout` sends those.
            let mut command = pair.program("a", cores()[0], "timeout")?;
            command.args(["--signal", "INT", &RUN.to_string(), "trafgen"]);
            command.args(["--dev", pair.sender(0)?.0, "--conf"]).arg(config);
            command.args(["--cpus", "1", "--notouch-irq", "--no-cpu-stats"]);
            let running = Program::start(pair.driver().folder(), &mut command, "trafgen")?;
            let rate = window(pair, first);
            let said = running.end()?;
            rate.with_context(|| format!("trafgen: {}", said.err.trim()))
        }
    }
}

/// Frames per second that arrive over a window, some time after more than `first` have arrived.
fn window(pair: &Pair<'_>, first: u64) -> Result<f64> {
    let end = Instant::now() + PATIENCE;
    // Some frames of the kernel itself may arrive before the generator's.
    while pair.received(0)? < first + 1000 {
        if Instant::now() > end {
            bail!("no frame arrived in {PATIENCE:?}");
        }
    }
    sleep(SETTLE);
    let (before, start) = (pair.received(0)?, Instant::now());
    sleep(WINDOW);
    let (after, time) = (pair.received(0)?, start.elapsed());
    #[expect(clippy::cast_precision_loss, reason = "counts of a second are below 2^53")]
    let frames = after.saturating_sub(before) as f64;
    Ok(frames / time.as_secs_f64())
}

/// A trafgen configuration for frames like netloom's: UDP of 60 bytes for no station.
fn trafgen_config(pair: &Pair<'_>) -> Result<PathBuf> {
    let path = pair.driver().folder().join("trafgen.cfg");
    let bytes = |mac: &str| {
        let bytes: Vec<String> = mac.split(':').map(|byte| format!("0x{byte}")).collect();
        bytes.join(", ")
    };
    let (to, from) = (bytes(NOBODY), bytes(pair.sender(0)?.1));
    // Ethernet, IPv4 (46 bytes, UDP, from and to a benchmarking network), UDP to port 9.
    let text = format!(
        "{{ {to}, {from}, c16(0x0800),\n  0x45, 0x00, c16(46), c16(0), c16(0x4000), 64, 17, \
         csumip(14, 33), 198, 18, 0, 1, 198, 18, 0, 2,\n  c16(49152), c16(9), c16(26), c16(0), \
         fill(0x00, 18) }}\n"
    );
    std::fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
    Ok(path)
}

fn rows(results: &Results, report: &mut Report) {
    // The smaller figures first: those of a receiver that does something with the frames.
    let mut top: Vec<_> = results.top.iter().collect();
    top.sort_by_key(|((maker, end), _)| (*end, *maker));
    for ((maker, end), figures) in top {
        let cell = Cell::Top(*maker, *end);
        let note = format!("{}; one core, counted where they arrive", maker.settings());
        report.measured(&cell.to_string(), who(cell), "Mpps", figures, &note);
    }
    for (cell, all) in &results.late {
        let each = |figure: fn(&Late) -> f64| all.iter().map(figure).collect::<Vec<_>>();
        let note = match cell {
            Cell::PacingLive => "of calls, each of which makes what is due within 50 us or more",
            _ => {
                "of every frame, when it is given to the interface, against the schedule of the rate; \
                 the plan moves after an interruption, and gaps are shorter until it is met again"
            }
        };
        for (what, unit, figures) in [
            ("p50", "us", each(|l| l.p50)),
            ("p99", "us", each(|l| l.p99)),
            ("p99.9", "us", each(|l| l.p999)),
            ("worst", "us", each(|l| l.most)),
            ("p99 against the plan", "us", each(|l| l.plan)),
            ("interrupted", "%", each(|l| l.interrupted)),
        ] {
            report.measured(&format!("{cell}, {what}"), who(*cell), unit, &figures, note);
        }
    }
}

fn figures(results: &Results, report: &mut Report) {
    let of = |maker, end| results.top.get(&(maker, end)).map_or(&[][..], Vec::as_slice);
    let (live, trafgen) = (Maker::LiveFrames, Maker::Trafgen);
    for (name, end) in [("pps60_vs_trafgen", End::Drop), ("pps60_to_node_vs_trafgen", End::Node)] {
        let given = [live, trafgen].map(|maker| {
            let title = who(Cell::Top(maker, end));
            format!("{title} {}, one core, {}", maker.settings(), end.title())
        });
        report.ratio(name, side(&given[0], of(live, end)), side(&given[1], of(trafgen, end)));
    }
    for (name, maker, end) in [
        ("live_frames_mpps", live, End::Drop),
        ("live_frames_to_node_mpps", live, End::Node),
        ("ring_to_node_mpps", Maker::Ring, End::Node),
        ("trafgen_mpps", trafgen, End::Drop),
        ("trafgen_to_node_mpps", trafgen, End::Node),
    ] {
        report.value(name, of(maker, end));
    }
    for (cell, kind) in [(Cell::Pacing, "schedule"), (Cell::PacingBusy, "schedule_busy")] {
        let late = results.late.get(&cell).map_or(&[][..], Vec::as_slice);
        let each = |figure: fn(&Late) -> f64| late.iter().map(figure).collect::<Vec<_>>();
        report.median(&format!("{kind}_p50_us"), &each(|late| late.p50));
        report.median(&format!("{kind}_p99_us"), &each(|late| late.p99));
        report.median(&format!("{kind}_p999_us"), &each(|late| late.p999));
        report.median(&format!("{kind}_plan_p99_us"), &each(|late| late.plan));
        // The worst frame of all rounds.
        let worst = late.iter().map(|late| late.most).reduce(f64::max);
        if let Some(worst) = worst {
            report.of_all(&format!("{kind}_worst_us"), worst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_cell_is_measured_twice_and_quick_ones_are_of_all() {
        let (mut all, quick) = (cells(false), cells(true));
        let count = all.len();
        assert!(quick.iter().all(|cell| all.contains(cell)));
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
    }

    #[test]
    fn ratios_are_of_the_same_receiving_end() {
        let mut results = Results::default();
        let mut put = |maker, end, figure: f64| {
            results.top.insert((maker, end), vec![figure; 3]);
        };
        put(Maker::LiveFrames, End::Drop, 10.0);
        put(Maker::LiveFrames, End::Node, 2.0);
        put(Maker::Trafgen, End::Drop, 1.25);
        put(Maker::Trafgen, End::Node, 1.0);
        let late = [3.0, 1.0, 90.0].map(|p99| Late {
            p50: 0.1,
            p99,
            p999: 2.0 * p99,
            most: 3.0 * p99,
            plan: 0.2,
            interrupted: 1.0,
        });
        results.late.insert(Cell::Pacing, late.to_vec());
        let mut report = Report::default();
        figures(&results, &mut report);
        assert!((report.ratios["pps60_vs_trafgen"].unwrap() - 8.0).abs() < 1e-9, "{report:?}");
        assert!((report.ratios["pps60_to_node_vs_trafgen"].unwrap() - 2.0).abs() < 1e-9);
        assert!((report.values["schedule_p99_us"] - 3.0).abs() < 1e-9);
        assert!((report.values["schedule_worst_us"] - 270.0).abs() < 1e-9);
        assert!(!report.values.contains_key("schedule_busy_p99_us"), "it was not measured");
        rows(&results, &mut report);
        assert!(report.rows[0].what.contains("to a node"), "{report:?}");
        assert_eq!(report.rows.len(), 4 + 6);
    }
}
