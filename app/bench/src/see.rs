//! `see`: what it costs to be looked at.
//!
//! A lab of 200 nodes is open on the page in Chromium; one of 1,000 nodes and 2,000 links is clicked there, listened to by one
//! and by ten, watched by `netloom top` and scraped. On each link something passes every second. CPU time is that of the
//! processes named, as shares of one core, over a few seconds in each round.

mod browser;
mod labs;
mod listening;
mod page;
mod terminal;

use std::collections::BTreeMap;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::driver::Driver;
use crate::processes::{cpu_ns, percent};
use crate::rounds::rounds;
use crate::{Options, Programs, Report};
use labs::{LARGE, LARGE_LAB, SMALL_LAB};
use listening::{Listener, scrape};
use page::{Open, Page};
use terminal::Top;

/// How long CPU time is counted.
const WINDOW: Duration = Duration::from_secs(4);
/// Listeners at once, besides one alone.
const MANY: usize = 10;
/// Sizes of the terminal, in turns.
const TERMINALS: [(u16, u16); 2] = [(80, 24), (200, 60)];
/// Readings that a listener has heard before its costs count: the first one reads all.
const WARM: u64 = 3;

/// CPU time of processes from a moment on.
struct Spent(BTreeMap<u32, u64>);

impl Spent {
    fn begin(pids: Vec<u32>) -> Spent {
        Spent(pids.into_iter().map(|pid| (pid, cpu_ns(&[pid]))).collect())
    }

    /// Some were started since.
    fn also(&mut self, pids: Vec<u32>) {
        for pid in pids {
            self.0.entry(pid).or_insert(0);
        }
    }

    /// Their share of a core until now; what ended ones used is lost.
    fn percent(self, took: Duration) -> f64 {
        let used = self.0.iter().map(|(pid, before)| cpu_ns(&[*pid]).saturating_sub(*before));
        percent(used.sum(), took)
    }
}

/// What a process uses of a core from now on.
fn share(pid: u32) -> f64 {
    let (spent, start) = (Spent::begin(vec![pid]), Instant::now());
    sleep(WINDOW);
    spent.percent(start.elapsed())
}

/// A round on the large lab: percentages of a core, and milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Round {
    nobody: f64,
    one: f64,
    many: f64,
    top: f64,
    /// While one listens, so that the last reading is at most a second old.
    scrape_ms: f64,
    /// After nobody has asked for some time.
    scrape_alone_ms: f64,
    series: usize,
}

/// All rounds.
#[derive(Debug, Default)]
struct Results {
    open: Vec<Open>,
    clicks_ms: Vec<f64>,
    rounds: Vec<Round>,
}

/// Seconds that the rounds may take, and clicks.
struct Amount {
    page: u64,
    large: u64,
    clicks: usize,
}

const QUICK: Amount = Amount { page: 20, large: 20, clicks: 8 };
const FULL: Amount = Amount { page: 120, large: 240, clicks: 30 };

pub(crate) fn run(options: Options, programs: &Programs) -> Result<Report> {
    let driver = Driver::new(programs)?;
    let mut report = Report::new("see");
    let amount = if options.quick { QUICK } else { FULL };
    let browser = browser::version();
    let mut results = Results::default();
    if browser.is_some() {
        driver.up(&driver.lab_file(SMALL_LAB, &labs::small(&driver)?)?)?;
        all_open(&driver, amount.page, &mut results)?;
        driver.down(SMALL_LAB)?;
    }
    driver.up(&driver.lab_file(LARGE_LAB, &labs::large(&driver)?)?)?;
    all_rounds(&driver, amount.large, &mut results)?;
    if browser.is_some() {
        progress!("bench see: clicks, {}", LARGE.title());
        results.clicks_ms = Page::of(&driver, LARGE_LAB)?.clicks(amount.clicks)?;
    }
    driver.down(LARGE_LAB)?;
    rows(&results, &mut report);
    figures(&results, &mut report);
    if browser.is_none() {
        report.left_out("the page", "Chromium", "chromium or chromedriver is not installed");
    }
    report.peers.insert("chromium".to_owned(), browser);
    Ok(report)
}

/// The lab process.
fn process_of(driver: &Driver, lab: &str) -> Result<u32> {
    let status = driver.json(&["-l", lab, "status", "--json"])?;
    let pid = status["pid"].as_u64().context("no pid in the lab's status")?;
    u32::try_from(pid).context("a pid that is none")
}

fn all_open(driver: &Driver, seconds: u64, results: &mut Results) -> Result<()> {
    let pid = process_of(driver, SMALL_LAB)?;
    let page = Page::of(driver, SMALL_LAB)?;
    // The first start of a browser fills its caches.
    page.cost(pid)?;
    let one_round = |round: usize, results: &mut Results| {
        progress!("bench see: the page, round {}", round + 1);
        results.open.push(page.cost(pid)?);
        Ok(())
    };
    rounds(Duration::from_secs(seconds), results, one_round, page_figures)
}

fn all_rounds(driver: &Driver, seconds: u64, results: &mut Results) -> Result<()> {
    let pid = process_of(driver, LARGE_LAB)?;
    let socket = driver.runtime().join(LARGE_LAB).join("api.sock");
    // The first reading is of everything.
    Listener::start(&socket)?.until(WARM)?;
    let one_round = |round: usize, results: &mut Results| {
        progress!("bench see: {}, round {}", LARGE.title(), round + 1);
        results.rounds.push(measure(driver, pid, &socket, round)?);
        Ok(())
    };
    rounds(Duration::from_secs(seconds), results, one_round, large_figures)
}

fn measure(driver: &Driver, pid: u32, socket: &Path, round: usize) -> Result<Round> {
    let nobody = share(pid);
    let (scrape_alone_ms, _) = scrape(socket)?;
    let one = Listener::start(socket)?;
    one.until(WARM)?;
    let with_one = share(pid);
    let (scrape_ms, series) = scrape(socket)?;
    let others: Vec<Listener> =
        (1..MANY).map(|_| Listener::start(socket)).collect::<Result<_>>()?;
    others.iter().try_for_each(|other| other.until(WARM))?;
    let before = one.heard();
    let with_many = share(pid);
    // Each second something is told.
    one.until(before + WINDOW.as_secs() - 1)?;
    drop((one, others));
    let top = Top::start(driver, LARGE_LAB, TERMINALS[round % TERMINALS.len()])?;
    sleep(Duration::from_secs(WARM));
    let drawn = top.drawn();
    let of_top = share(top.pid());
    anyhow::ensure!(top.drawn() > drawn, "netloom top has drawn nothing in {WINDOW:?}");
    Ok(Round {
        nobody,
        one: with_one,
        many: with_many,
        top: of_top,
        scrape_ms,
        scrape_alone_ms,
        series,
    })
}

fn rows(results: &Results, report: &mut Report) {
    let title = LARGE.title();
    let open = |of: fn(&Open) -> f64| results.open.iter().map(of).collect::<Vec<f64>>();
    let small = "the page, 200 nodes, 24 switches + 224 links";
    let mut row = |what: &str, who: &str, unit: &str, rounds: &[f64], note: &str| {
        report.measured(what, who, unit, rounds, note);
    };
    row(
        small,
        "lab process",
        "%",
        &open(|o| o.lab),
        "of a core; the page open and nobody touching it",
    );
    row(small, "netloom serve", "%", &open(|o| o.server), "of a core, for the same");
    row(
        small,
        "Chromium",
        "%",
        &open(|o| o.browser),
        "of a core, all of its processes, no graphics card",
    );
    let from = "from the beginning of loading";
    row("first paint, 200 nodes", "Chromium", "ms", &open(|o| o.paint_ms), from);
    row("the map, 200 nodes", "Chromium", "ms", &open(|o| o.map_ms), from);
    let note = "from the mouse's release until the frame with the panel";
    row(&format!("a click, {title}"), "Chromium", "ms", &results.clicks_ms, note);
    let large = |of: fn(&Round) -> f64| results.rounds.iter().map(of).collect::<Vec<f64>>();
    let mut events = |who: &str, rounds: &[f64]| {
        row(&format!("events, {title}: {who} listening"), "lab process", "%", rounds, "of a core");
    };
    events("nobody", &large(|r| r.nobody));
    events("one", &large(|r| r.one));
    events("ten", &large(|r| r.many));
    let note = "of a core; 80x24 and 200x60 in turns";
    row(&format!("top, {title}"), "netloom top", "%", &large(|r| r.top), note);
    let series = results.rounds.last().map_or(0, |round| round.series);
    let note = format!("{series} series, from the lab's socket, while one listens to events");
    row(&format!("metrics, {title}"), "lab process", "ms", &large(|r| r.scrape_ms), &note);
    let note =
        "the same, 4 s after anybody asked last: what a node uses is read by turns for each second";
    let alone = large(|r| r.scrape_alone_ms);
    row(&format!("metrics alone, {title}"), "lab process", "ms", &alone, note);
}

fn figures(results: &Results, report: &mut Report) {
    page_figures(results, report);
    large_figures(results, report);
    report.median("click_1000_ms", &results.clicks_ms);
}

fn page_figures(results: &Results, report: &mut Report) {
    let open = |of: fn(&Open) -> f64| results.open.iter().map(of).collect::<Vec<f64>>();
    report.value("page_lab_percent", &open(|o| o.lab + o.server));
    report.value("page_browser_percent", &open(|o| o.browser));
    report.value("first_paint_ms", &open(|o| o.paint_ms));
    report.value("map_ms", &open(|o| o.map_ms));
}

fn large_figures(results: &Results, report: &mut Report) {
    let large = |of: fn(&Round) -> f64| results.rounds.iter().map(of).collect::<Vec<f64>>();
    report.value("events_1_percent", &large(|r| r.one));
    report.value("events_10_percent", &large(|r| r.many));
    report.value("top_percent", &large(|r| r.top));
    report.value("scrape_ms", &large(|r| r.scrape_ms));
    report.value("scrape_alone_ms", &large(|r| r.scrape_alone_ms));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_those_by_hand() {
        let open = Open { lab: 2.0, server: 1.0, browser: 7.0, paint_ms: 200.0, map_ms: 500.0 };
        let round = Round {
            nobody: 0.1,
            one: 2.0,
            many: 3.0,
            top: 1.5,
            scrape_ms: 80.0,
            scrape_alone_ms: 90.0,
            series: 9,
        };
        let results =
            Results { open: vec![open; 5], clicks_ms: vec![40.0; 6], rounds: vec![round; 5] };
        let mut report = Report::default();
        rows(&results, &mut report);
        figures(&results, &mut report);
        for (name, expected) in [
            ("page_lab_percent", 3.0),
            ("page_browser_percent", 7.0),
            ("first_paint_ms", 200.0),
            ("map_ms", 500.0),
            ("click_1000_ms", 40.0),
            ("events_1_percent", 2.0),
            ("events_10_percent", 3.0),
            ("top_percent", 1.5),
            ("scrape_ms", 80.0),
            ("scrape_alone_ms", 90.0),
        ] {
            assert!((report.values[name] - expected).abs() < 1e-9, "{name}: {report:?}");
        }
        assert_eq!(report.rows.len(), 12);
    }

    #[test]
    fn cpu_time_is_that_since_the_beginning() {
        let own = std::process::id();
        let (mut spent, start) = (Spent::begin(vec![own]), Instant::now());
        spent.also(vec![own]);
        while start.elapsed() < Duration::from_millis(30) {
            std::hint::black_box((0..10_000).sum::<u64>());
        }
        let used = spent.percent(start.elapsed());
        // The test runs beside others, in one process.
        assert!(used > 0.5, "{used}");
    }
}
