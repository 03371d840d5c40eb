//! Result of an experiment: one JSON object, or a table for people.

use std::collections::BTreeMap;
use std::fmt;

use netloom_stats::{Summary, percentile, ratio_ci};
use serde::{Deserialize, Serialize};

/// The result of an experiment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Its name.
    pub experiment: String,
    /// Facts of the machine: `kernel`, `cpu`, `cpus`, `memory_gib`, `user`.
    pub machine: BTreeMap<String, String>,
    /// Smallest number of rounds of any row.
    pub rounds: usize,
    /// All measured cells, and those left out.
    pub rows: Vec<Row>,
    /// netloom's figure divided by the peer's, by name.
    pub ratios: BTreeMap<String, f64>,
    /// Absolute figures; each name ends with the unit.
    pub values: BTreeMap<String, f64>,
    /// 95 % confidence intervals of ratios and values.
    pub ci: BTreeMap<String, [f64; 2]>,
    /// Version of each peer; `None` when it is missing.
    pub peers: BTreeMap<String, Option<String>>,
}

/// A measured cell, or one left out (no rounds, and a note with the reason).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The cell: `up, 100 nodes + 180 links`.
    pub what: String,
    /// The candidate: `netloom`, `ip -batch`, `host`.
    pub who: String,
    /// Unit of mean and interval.
    pub unit: String,
    /// Mean over the rounds.
    pub mean: Option<f64>,
    /// Its 95 % confidence interval.
    pub ci95: Option<[f64; 2]>,
    /// Number of rounds.
    pub rounds: usize,
    /// Settings, or the reason why it was left out.
    pub note: String,
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
            ci95: Some(summary.ci95),
            rounds: summary.n,
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

    /// Adds a value with its interval, unless there are no rounds.
    pub(crate) fn value(&mut self, name: &str, rounds: &[f64]) {
        let Ok(summary) = Summary::of(rounds) else { return };
        self.values.insert(name.to_owned(), summary.mean);
        self.ci.insert(name.to_owned(), summary.ci95);
    }

    /// Adds a value as the median of rounds, for figures that one pause of the machine would distort. Its
    /// interval spans from the smallest to the largest round.
    pub(crate) fn median(&mut self, name: &str, rounds: &[f64]) {
        let Ok(median) = percentile(rounds, 50.0) else { return };
        let [low, high] = [f64::min, f64::max].map(|of| rounds.iter().copied().reduce(of));
        self.values.insert(name.to_owned(), median);
        self.ci.insert(name.to_owned(), [low.unwrap_or(median), high.unwrap_or(median)]);
    }

    /// Adds the ratio of paired rounds, ours divided by theirs, unless a side has no rounds.
    pub(crate) fn ratio(&mut self, name: &str, ours: &[f64], theirs: &[f64]) {
        let Ok(summary) = ratio_ci(ours, theirs) else { return };
        self.ratios.insert(name.to_owned(), summary.ratio);
        self.ci.insert(name.to_owned(), summary.ci95);
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "experiment {}", self.experiment)?;
        let facts: Vec<String> =
            self.machine.iter().map(|(name, fact)| format!("{name} {fact}")).collect();
        writeln!(f, "machine: {}\n", facts.join(", "))?;
        table(f, &self.rows)?;
        for (title, figures) in [("ratios", &self.ratios), ("values", &self.values)] {
            writeln!(f, "\n{title}")?;
            for (name, figure) in figures {
                let [low, high] = self.ci.get(name).copied().unwrap_or([*figure; 2]);
                writeln!(
                    f,
                    "  {name:<22} {:>10}   95 % {} .. {}",
                    short(*figure),
                    short(low),
                    short(high)
                )?;
            }
        }
        for (peer, version) in &self.peers {
            let shown = version.as_deref().unwrap_or("missing: not compared");
            writeln!(f, "peer {peer}: {shown}")?;
        }
        Ok(())
    }
}

fn table(f: &mut fmt::Formatter<'_>, rows: &[Row]) -> fmt::Result {
    let width = |cell: fn(&Row) -> &str, title: &str| {
        rows.iter().map(|row| cell(row).chars().count()).max().unwrap_or(0).max(title.len())
    };
    let (what, who) = (width(|row| &row.what, "what"), width(|row| &row.who, "who"));
    let head =
        format!("{:<what$}  {:<who$}  {:>10}  {:>23}  rounds  note", "what", "who", "mean", "95 %");
    writeln!(f, "{head}")?;
    for row in rows {
        let mean = row.mean.map_or(String::new(), |mean| format!("{} {}", short(mean), row.unit));
        let ci = row
            .ci95
            .map_or(String::new(), |[low, high]| format!("{} .. {}", short(low), short(high)));
        let (name, by, rounds, note) = (&row.what, &row.who, row.rounds, &row.note);
        let line = format!("{name:<what$}  {by:<who$}  {mean:>10}  {ci:>23}  {rounds:>6}  {note}");
        writeln!(f, "{}", line.trim_end())?;
    }
    Ok(())
}

/// Four significant digits.
fn short(figure: f64) -> String {
    match figure.abs() {
        size if size >= 1000.0 => format!("{figure:.0}"),
        size if size >= 100.0 => format!("{figure:.1}"),
        size if size >= 10.0 => format!("{figure:.2}"),
        size if size >= 1.0 => format!("{figure:.3}"),
        _ => format!("{figure:.4}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let mut report = Report { experiment: "lab".into(), ..Report::default() };
        report.measured("up", "netloom", "s", &[1.0, 2.0, 3.0], "a note");
        report.left_out("up", "mininet", "not installed");
        report.ratio("up_vs_ip", &[1.0, 2.0], &[2.0, 4.0]);
        report.value("up_s", &[1.0, 1.0]);
        report.peers.insert("mininet".into(), None);
        report
    }

    #[test]
    fn the_json_object_has_the_promised_keys_only() {
        let json = serde_json::to_value(report()).unwrap();
        let keys: Vec<&String> = json.as_object().unwrap().keys().collect();
        let promised =
            ["ci", "experiment", "machine", "peers", "ratios", "rounds", "rows", "values"];
        assert_eq!(keys, promised);
        assert!((json["ratios"]["up_vs_ip"].as_f64().unwrap() - 0.5).abs() < 1e-12);
        assert_eq!(json["ci"]["up_s"], serde_json::json!([1.0, 1.0]));
        assert!(json["peers"]["mininet"].is_null());
        assert_eq!(json["rounds"], 3);
    }

    #[test]
    fn the_table_shows_rows_and_what_was_left_out() {
        let text = report().to_string();
        assert!(text.contains("2.000 s") && text.contains("a note"), "{text}");
        assert!(text.contains("left out: not installed"), "{text}");
        assert!(text.contains("peer mininet: missing: not compared"), "{text}");
    }
}
