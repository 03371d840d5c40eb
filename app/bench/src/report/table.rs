//! A report as a table for people.

use std::fmt;

use super::{Ended, Report, Row, half_width};

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "experiment {}", self.experiment)?;
        let facts: Vec<String> =
            self.machine.iter().map(|(name, fact)| format!("{name} {fact}")).collect();
        writeln!(f, "machine: {}\n", facts.join(", "))?;
        table(f, &self.rows)?;
        writeln!(f, "\nratios")?;
        for (name, figure) in &self.ratios {
            writeln!(f, "  {name:<22} {}", self.shown(name, *figure))?;
            if let Some([ours, theirs]) = self.given.get(name) {
                writeln!(f, "    {ours}  /  {theirs}")?;
            }
        }
        writeln!(f, "\nvalues")?;
        for (name, figure) in &self.values {
            writeln!(f, "  {name:<22} {}", self.shown(name, Some(*figure)))?;
        }
        for (peer, version) in &self.peers {
            let shown = version.as_deref().unwrap_or("missing: not compared");
            writeln!(f, "peer {peer}: {shown}")?;
        }
        Ok(())
    }
}

impl Report {
    /// A figure with its interval, and why its rounds ended.
    fn shown(&self, name: &str, figure: Option<f64>) -> String {
        let Some(figure) = figure else {
            let why = self.not_shown.get(name).map_or("no reason given", String::as_str);
            return format!("{:>10}   {why}", "not shown");
        };
        let short_figure = short(figure);
        let end = match self.ended.get(name) {
            Some(Ended::AllRounds) => "of all rounds together",
            Some(Ended::TooFewRounds) => "no interval: time was up after too few rounds",
            Some(Ended::TimeUp) => ", time was up",
            Some(Ended::Narrow) | None => "",
        };
        match self.ci.get(name) {
            None => format!("{short_figure:>10}   {end}").trim_end().to_owned(),
            Some([low, high]) => {
                let percent = 100.0 * half_width(figure, [*low, *high]);
                let (low, high) = (short(*low), short(*high));
                format!("{short_figure:>10}   95 % {low} .. {high}, ± {percent:.0} %{end}")
            }
        }
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
pub(super) fn short(figure: f64) -> String {
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
    use crate::report::tests::report;

    #[test]
    fn the_table_shows_rows_and_what_was_left_out() {
        let text = report().to_string();
        assert!(text.contains("2.000 s") && text.contains("a note"), "{text}");
        assert!(text.contains("left out: not installed"), "{text}");
        assert!(text.contains("peer mininet: missing: not compared"), "{text}");
    }

    #[test]
    fn a_ratio_names_both_sides_and_says_what_was_not_shown() {
        let text = report().to_string();
        assert!(text.contains("netloom up  /  ip -batch"), "{text}");
        assert!(text.contains("0.5000   95 % 0.5000 .. 0.5000, ± 0 %\n"), "{text}");
        assert!(text.contains("not shown   mininet: not measured\n"), "{text}");
    }

    #[test]
    fn the_end_of_the_rounds_is_told() {
        let mut report = report();
        report.value("wide", &[1.0, 2.0, 1.0, 2.0, 1.0]);
        report.value("few", &[1.0; 2]);
        report.of_all("sum", 3.0);
        let text = report.to_string();
        assert!(text.contains("1.400   95 % 0.7199 .. 2.080, ± 49 %, time was up"), "{text}");
        assert!(text.contains("1.000   no interval: time was up after too few"), "{text}");
        assert!(text.contains("3.000   of all rounds together"), "{text}");
    }
}
