//! Result of an experiment: one JSON object, a table for people ([`table`]), a picture ([`picture`]).
//!
//! A figure is a ratio or a value with a name. It has an interval only where enough rounds allow one, and says
//! whether its rounds ended because the interval was narrow or because the time was up. A ratio that could not
//! be measured is there by name, without a number.

mod picture;
mod table;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use netloom_stats::{StatsError, Summary, median_ci, percentile, ratio_ci};
use serde::{Deserialize, Serialize};

/// Fewest rounds that have an interval.
pub(crate) const FEWEST: usize = 5;
/// An interval is narrow if no end is further from the figure than this share of it.
pub(crate) const NARROW: f64 = 0.1;

/// The result of an experiment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Report {
    /// Its name.
    pub(crate) experiment: String,
    /// Facts of the machine and the run: `kernel`, `cpu`, `cpus`, `memory_gib`, `user`, `load`, `date`, `netloom`.
    pub(crate) machine: BTreeMap<String, String>,
    /// Smallest number of rounds of any row.
    pub(crate) rounds: usize,
    /// All measured cells, and those left out.
    pub(crate) rows: Vec<Row>,
    /// netloom's figure divided by the peer's, by name; null where it could not be measured.
    pub(crate) ratios: BTreeMap<String, Option<f64>>,
    /// What each side of a ratio was given: netloom's settings, the peer's settings.
    pub(crate) given: BTreeMap<String, [String; 2]>,
    /// Why a ratio is null.
    pub(crate) not_shown: BTreeMap<String, String>,
    /// Absolute figures; each name ends with the unit.
    pub(crate) values: BTreeMap<String, f64>,
    /// 95 % confidence intervals of ratios and values.
    pub(crate) ci: BTreeMap<String, [f64; 2]>,
    /// Why there were no more rounds, by ratio and value.
    pub(crate) ended: BTreeMap<String, Ended>,
    /// Lines over a parameter.
    pub(crate) curves: Vec<Curve>,
    /// Version of each peer; `None` when it is missing.
    pub(crate) peers: BTreeMap<String, Option<String>>,
}

/// A measured cell, or one left out (no rounds, and a note with the reason).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Row {
    /// The cell: `up, 100 nodes + 180 links`.
    pub(crate) what: String,
    /// The candidate: `netloom`, `ip -batch`, `host`.
    pub(crate) who: String,
    /// Unit of mean and interval.
    pub(crate) unit: String,
    /// Mean over the rounds.
    pub(crate) mean: Option<f64>,
    /// Its 95 % confidence interval, from five rounds on.
    pub(crate) ci95: Option<[f64; 2]>,
    /// Number of rounds.
    pub(crate) rounds: usize,
    /// Every round.
    pub(crate) samples: Vec<f64>,
    /// Settings, or the reason why it was left out.
    pub(crate) note: String,
}

/// Why a figure has no more rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Ended {
    /// Its interval lies within 10 % of it.
    Narrow,
    /// The time was up before.
    TimeUp,
    /// The time was up before there were enough rounds for an interval.
    TooFewRounds,
    /// It is one figure of all rounds together, without an interval.
    AllRounds,
}

/// A figure over a parameter, a line for each candidate.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Curve {
    /// The title of the plot.
    pub(crate) title: String,
    /// The parameter, with its unit.
    pub(crate) x: String,
    /// The figure, with its unit.
    pub(crate) y: String,
    /// Points by candidate.
    pub(crate) lines: BTreeMap<String, Vec<Point>>,
}

/// A point of a line: the mean of its rounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Point {
    /// The parameter.
    pub(crate) x: f64,
    /// The mean.
    pub(crate) y: f64,
    /// Its 95 % confidence interval, from five rounds on.
    pub(crate) ci95: Option<[f64; 2]>,
}

/// One side of a ratio.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Side<'a> {
    given: &'a str,
    rounds: &'a [f64],
}

/// One side of a ratio: what it was given (program and settings), and its rounds.
pub(crate) fn side<'a>(given: &'a str, rounds: &'a [f64]) -> Side<'a> {
    Side { given, rounds }
}

impl Report {
    /// An empty report with the facts of this machine.
    pub(crate) fn new(experiment: &str) -> Report {
        Report {
            experiment: experiment.to_owned(),
            machine: crate::machine::facts(),
            ..Report::default()
        }
    }

    /// Adds a measured row, unless there are no rounds.
    pub(crate) fn measured(
        &mut self,
        what: &str,
        who: &str,
        unit: &str,
        rounds: &[f64],
        note: &str,
    ) {
        let Ok(summary) = Summary::of(rounds) else { return };
        self.rounds = match self.rounds {
            0 => summary.n,
            least => least.min(summary.n),
        };
        self.rows.push(Row {
            what: what.to_owned(),
            who: who.to_owned(),
            unit: unit.to_owned(),
            mean: Some(summary.mean),
            ci95: interval(&summary),
            rounds: summary.n,
            samples: rounds.to_vec(),
            note: note.to_owned(),
        });
    }

    /// Adds a row for a cell that was not measured.
    pub(crate) fn left_out(&mut self, what: &str, who: &str, why: &str) {
        let (what, who) = (what.to_owned(), who.to_owned());
        self.rows.push(Row { what, who, note: format!("left out: {why}"), ..Row::default() });
    }

    /// Adds a figure that a source published for its own system on its own machine.
    pub(crate) fn of_source(&mut self, what: &str, who: &str, unit: &str, figure: f64) {
        self.rows.push(Row {
            what: what.to_owned(),
            who: who.to_owned(),
            unit: unit.to_owned(),
            mean: Some(figure),
            note: "the source's own figure, of its machine".to_owned(),
            ..Row::default()
        });
    }

    /// Adds a value, the mean of rounds, unless there are none.
    pub(crate) fn value(&mut self, name: &str, rounds: &[f64]) {
        let Ok(summary) = Summary::of(rounds) else { return };
        self.values.insert(name.to_owned(), summary.mean);
        self.settle(name, summary.mean, interval(&summary));
    }

    /// Adds a value as the median of rounds, for figures that one pause of the machine would distort.
    pub(crate) fn median(&mut self, name: &str, rounds: &[f64]) {
        let (Ok(median), Ok(ci)) = (percentile(rounds, 50.0), median_ci(rounds)) else { return };
        self.values.insert(name.to_owned(), median);
        self.settle(name, median, ci);
    }

    /// Adds a value that is one figure of all rounds together: a sum, an extreme.
    pub(crate) fn of_all(&mut self, name: &str, figure: f64) {
        self.values.insert(name.to_owned(), figure);
        self.ended.insert(name.to_owned(), Ended::AllRounds);
    }

    /// Adds the ratio of paired rounds, ours divided by theirs; null if a side has no usable rounds.
    pub(crate) fn ratio(&mut self, name: &str, ours: Side<'_>, theirs: Side<'_>) {
        self.given.insert(name.to_owned(), [ours.given.to_owned(), theirs.given.to_owned()]);
        match ratio_ci(ours.rounds, theirs.rounds) {
            Ok(found) => {
                self.ratios.insert(name.to_owned(), Some(found.ratio));
                self.settle(name, found.ratio, (found.n >= FEWEST).then_some(found.ci95));
            }
            Err(error) => self.not_shown(name, &why_not(ours, theirs, error)),
        }
    }

    /// Withdraws a ratio, or notes one that cannot be measured: it becomes null, with the reason.
    pub(crate) fn not_shown(&mut self, name: &str, why: &str) {
        self.ratios.insert(name.to_owned(), None);
        self.not_shown.insert(name.to_owned(), why.to_owned());
        self.ci.remove(name);
        self.ended.remove(name);
    }

    /// Adds a point to the line of a candidate, unless there are no rounds. `axes` name x and y with their units.
    pub(crate) fn point(
        &mut self,
        title: &str,
        axes: [&str; 2],
        who: &str,
        x: f64,
        rounds: &[f64],
    ) {
        let Ok(summary) = Summary::of(rounds) else { return };
        let at = self.curves.iter().position(|curve| curve.title == title);
        let at = at.unwrap_or_else(|| {
            let [x, y] = axes.map(str::to_owned);
            let title = title.to_owned();
            self.curves.push(Curve { title, x, y, lines: BTreeMap::new() });
            self.curves.len() - 1
        });
        let point = Point { x, y: summary.mean, ci95: interval(&summary) };
        if let Some(curve) = self.curves.get_mut(at) {
            let line = curve.lines.entry(who.to_owned()).or_default();
            line.push(point);
            line.sort_by(|a, b| a.x.total_cmp(&b.x));
        }
    }

    /// Whether more rounds are not needed: every interval is narrow.
    pub(crate) fn is_settled(&self) -> bool {
        self.ended.values().all(|ended| matches!(ended, Ended::Narrow | Ended::AllRounds))
    }

    /// Whether a figure has too few rounds for an interval.
    pub(crate) fn lacks_intervals(&self) -> bool {
        self.ended.values().any(|ended| *ended == Ended::TooFewRounds)
    }

    /// As one JSON object.
    pub(crate) fn json(&self) -> Result<String> {
        let json = serde_json::to_string_pretty(self).context("write the report as JSON")?;
        Ok(json + "\n")
    }

    /// Writes table, JSON and picture into a folder, named after the experiment, and gives their paths.
    ///
    /// # Errors
    /// A file cannot be written.
    pub(crate) fn save(&self, folder: &Path) -> Result<[PathBuf; 3]> {
        let texts = [("txt", self.to_string()), ("json", self.json()?), ("svg", self.svg()?)];
        let paths = texts
            .each_ref()
            .map(|(ending, _)| folder.join(&self.experiment).with_extension(ending));
        for (path, (_, text)) in paths.iter().zip(&texts) {
            std::fs::write(path, text).with_context(|| format!("write {}", path.display()))?;
        }
        Ok(paths)
    }

    fn settle(&mut self, name: &str, figure: f64, ci: Option<[f64; 2]>) {
        let ended = match ci {
            None => Ended::TooFewRounds,
            Some(ci) if half_width(figure, ci) <= NARROW => Ended::Narrow,
            Some(_) => Ended::TimeUp,
        };
        self.ended.insert(name.to_owned(), ended);
        match ci {
            Some(ci) => self.ci.insert(name.to_owned(), ci),
            None => self.ci.remove(name),
        };
        self.not_shown.remove(name);
    }
}

/// The interval of a mean, from enough rounds on.
fn interval(summary: &Summary) -> Option<[f64; 2]> {
    (summary.n >= FEWEST).then_some(summary.ci95)
}

/// Distance of the further end from the figure, as a share of the figure; 0 for an interval without width.
fn half_width(figure: f64, [low, high]: [f64; 2]) -> f64 {
    let far = (high - figure).max(figure - low);
    if far > 0.0 { far / figure.abs() } else { 0.0 }
}

fn why_not(ours: Side<'_>, theirs: Side<'_>, error: StatsError) -> String {
    let absent = [ours, theirs].into_iter().find(|side| side.rounds.is_empty());
    match absent {
        Some(side) => format!("{}: not measured", side.given),
        None => format!("{} / {}: {error}", ours.given, theirs.given),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn report() -> Report {
        let mut report = Report { experiment: "lab".into(), ..Report::default() };
        report.measured("up", "netloom", "s", &[1.0, 2.0, 3.0], "a note");
        report.left_out("up", "mininet", "not installed");
        let (ours, theirs) = ([1.0, 2.0, 1.5, 1.0, 2.0], [2.0, 4.0, 3.0, 2.0, 4.0]);
        report.ratio("up_vs_ip", side("netloom up", &ours), side("ip -batch", &theirs));
        report.ratio("up_vs_mininet", side("netloom up", &ours), side("mininet", &[]));
        report.value("up_s", &[1.0; 5]);
        report.peers.insert("mininet".into(), None);
        report
    }

    #[test]
    fn the_json_object_has_the_promised_keys_only() {
        let json = serde_json::to_value(report()).unwrap();
        let keys: Vec<&String> = json.as_object().unwrap().keys().collect();
        let promised = [
            "ci",
            "curves",
            "ended",
            "experiment",
            "given",
            "machine",
            "not_shown",
            "peers",
            "ratios",
            "rounds",
            "rows",
            "values",
        ];
        assert_eq!(keys, promised);
        assert!((json["ratios"]["up_vs_ip"].as_f64().unwrap() - 0.5).abs() < 1e-12);
        assert_eq!(json["ci"]["up_s"], serde_json::json!([1.0, 1.0]));
        assert!(json["peers"]["mininet"].is_null());
        assert_eq!(json["rounds"], 3);
    }

    #[test]
    fn a_ratio_without_a_peer_is_null_and_says_why() {
        let json = serde_json::to_value(report()).unwrap();
        assert!(json["ratios"]["up_vs_mininet"].is_null(), "{json}");
        assert_eq!(json["not_shown"]["up_vs_mininet"], "mininet: not measured");
        assert_eq!(json["given"]["up_vs_mininet"], serde_json::json!(["netloom up", "mininet"]));
        let mut report = report();
        report.ratio("zero", side("netloom", &[1.0]), side("peer", &[0.0]));
        assert_eq!(report.ratios["zero"], None);
        report.not_shown("up_vs_ip", "both reached the limit of the sender");
        assert!(!report.ci.contains_key("up_vs_ip") && !report.ended.contains_key("up_vs_ip"));
    }

    #[test]
    fn an_interval_needs_rounds_and_says_why_they_ended() {
        let mut report = Report::default();
        report.value("few", &[1.0; 4]);
        report.median("few_for_a_median", &[1.0; 5]);
        assert!(report.lacks_intervals() && report.ci.is_empty());
        let mut report = Report::default();
        report.value("narrow", &[1.0, 1.01, 0.99, 1.0, 1.0]);
        report.median("median", &[1.0, 1.0, 1.0, 1.0, 1.0, 9.0]);
        report.of_all("sum", 5.0);
        assert_eq!(report.ended["narrow"], Ended::Narrow);
        assert_eq!(report.ended["median"], Ended::TimeUp);
        assert!(report.ci["median"][1] < 9.0, "not the largest round: {report:?}");
        assert!(!report.is_settled() && !report.lacks_intervals());
        report.median("median", &[1.0; 6]);
        assert!(report.is_settled(), "{report:?}");
    }

    #[test]
    fn rows_of_few_rounds_have_no_interval() {
        let row = &report().rows[0];
        assert_eq!((row.mean, row.ci95, row.rounds), (Some(2.0), None, 3));
        assert_eq!(row.samples, [1.0, 2.0, 3.0]);
    }

    #[test]
    fn points_of_a_line_are_in_order() {
        let mut report = Report::default();
        for (x, y) in [(4.0, 1.0), (2.0, 3.0)] {
            report.point("TCP", ["stations", "Gb/s"], "netloom", x, &[y; 5]);
        }
        report.point("TCP", ["stations", "Gb/s"], "peer", 2.0, &[]);
        let line: Vec<f64> = report.curves[0].lines["netloom"].iter().map(|p| p.x).collect();
        assert_eq!((report.curves.len(), line), (1, vec![2.0, 4.0]));
    }

    #[test]
    fn a_folder_gets_table_json_and_picture() {
        let folder = tempfile::tempdir().unwrap();
        let paths = report().save(folder.path()).unwrap();
        let read = |at: usize| std::fs::read_to_string(&paths[at]).unwrap();
        assert!(read(0).starts_with("experiment lab"));
        assert_eq!(serde_json::from_str::<Report>(&read(1)).unwrap(), report());
        assert!(read(2).starts_with("<svg "));
        assert!(paths[2].ends_with("lab.svg"));
        assert!(report().save(Path::new("/nowhere/at/all")).is_err());
    }
}
