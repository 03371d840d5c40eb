//! `bench --against FOLDER [--turns N] NAME...`: quick experiments of this build and of another one in alternating turns.
//!
//! A machine's speed drifts by more than a build's: two runs one after the other compare hours. So each turn runs both
//! builds, first the one and then the other, the next turn the other way round, and every row is compared turn by turn.
//! Rows of peers, which are the same programs in both, say how far turns differ without a change.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use netloom_stats::ratio_ci;
use serde_json::Value;

use crate::workspace;

/// What a change may cost at most: this share of a row's speed.
const MOST: f64 = 0.03;
/// Turns, unless it is told; the fewest that have an interval.
const TURNS: usize = 8;
const FEWEST: usize = 5;

/// What is compared with what.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Compare {
    /// Has the other build's `netloom` and `netloom-bench`.
    other: PathBuf,
    turns: usize,
    experiments: Vec<String>,
}

/// A row's means by turn: this build's and the other one's.
#[derive(Debug, Default, PartialEq)]
struct Pairs {
    unit: String,
    own: Vec<f64>,
    other: Vec<f64>,
}

/// What, and who.
type Rows = BTreeMap<(String, String), Pairs>;

/// What is known about a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// It loses less than [`MOST`], with the whole interval.
    Holds,
    /// It loses more, with the whole interval.
    Loses,
    /// The interval has both in it.
    Open,
}

impl Compare {
    /// `None` if the arguments ask for no comparison.
    pub(super) fn parse(args: &[String]) -> Result<Option<Compare>> {
        let mut args = args.iter().peekable();
        if args.next_if(|arg| *arg == "--against").is_none() {
            return Ok(None);
        }
        let other = args.next().context("--against: name the folder of the other build")?.into();
        let mut compare = Compare { other, turns: TURNS, experiments: vec![] };
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--turns" => {
                    let turns = args.next().and_then(|text| text.parse().ok());
                    let enough = turns.filter(|turns| *turns >= FEWEST);
                    compare.turns = enough.with_context(|| {
                        format!("--turns: write a number from {FEWEST} on, or there is no interval")
                    })?;
                }
                flag if flag.starts_with('-') => {
                    bail!("bench --against FOLDER [--turns N] NAME..., not `{flag}`")
                }
                name => compare.experiments.push(name.to_owned()),
            }
        }
        if compare.experiments.is_empty() {
            bail!("bench --against: name the experiments of the parts that have changed");
        }
        Ok(Some(compare))
    }

    /// Measures and prints a table; an error if a row of netloom's loses more than it may.
    pub(super) fn run(&self, own: &Path) -> Result<()> {
        let other = self.other.join("netloom");
        let mut lost = vec![];
        for name in &self.experiments {
            let mut rows = Rows::new();
            for turn in 0..self.turns {
                println!("bench {name}: turn {} of {}", turn + 1, self.turns);
                let mut sides = [(own, true), (other.as_path(), false)];
                sides.rotate_left(turn % 2);
                for (program, is_own) in sides {
                    take(&mut rows, &once(program, name)?, is_own);
                }
            }
            println!("\n{name}: this build / {}, {} turns\n", self.other.display(), self.turns);
            lost.extend(table(&rows, self.turns)?.into_iter().map(|row| format!("{name}: {row}")));
        }
        if lost.is_empty() {
            return Ok(());
        }
        bail!("more than {:.0} % are lost:\n  {}", MOST * 100.0, lost.join("\n  "))
    }
}

/// A report of one quick run.
fn once(program: &Path, name: &str) -> Result<Value> {
    let told = workspace::output(Command::new(program).args(["bench", name, "--quick", "--json"]))?;
    serde_json::from_slice(&told).with_context(|| format!("{}: bench {name}", program.display()))
}

/// Adds a run's rows.
fn take(rows: &mut Rows, report: &Value, is_own: bool) {
    for row in report["rows"].as_array().into_iter().flatten() {
        let text = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
        // A row that was left out, or taken from a source, has no rounds.
        let (Some(mean), false) = (row["mean"].as_f64(), row["rounds"] == 0) else { continue };
        let pairs = rows.entry((text("what"), text("who"))).or_default();
        pairs.unit = text("unit");
        if is_own { pairs.own.push(mean) } else { pairs.other.push(mean) }
    }
}

/// Whether more of this unit is better; `None` for shares and counts, of which it depends.
fn more_is_better(unit: &str) -> Option<bool> {
    let first = unit.split('/').next().unwrap_or_default();
    match (first, unit) {
        ("s" | "ms" | "us" | "ns" | "KiB" | "MiB", _) => Some(false),
        (_, "Mpps") => Some(true),
        (_, rate) if rate.ends_with("/s") => Some(true),
        _ => None,
    }
}

/// This build's speed / the other one's, from both figures.
fn speeds(pairs: &Pairs, more: bool) -> [&[f64]; 2] {
    if more { [&pairs.own, &pairs.other] } else { [&pairs.other, &pairs.own] }
}

fn verdict([low, high]: [f64; 2]) -> Verdict {
    if low >= 1.0 - MOST {
        Verdict::Holds
    } else if high < 1.0 - MOST {
        Verdict::Loses
    } else {
        Verdict::Open
    }
}

/// Prints the rows; returns those of netloom's that lose more than they may.
fn table(rows: &Rows, turns: usize) -> Result<Vec<String>> {
    let mut lost = vec![];
    for ((what, who), pairs) in rows {
        let Some(more) = more_is_better(&pairs.unit) else { continue };
        let [fast, slow] = speeds(pairs, more);
        let whole = fast.len() == turns && slow.len() == turns;
        if !whole || fast.iter().chain(slow).any(|figure| *figure <= 0.0) {
            println!("not every turn has it   {what}, {who}");
            continue;
        }
        let found = ratio_ci(fast, slow).with_context(|| format!("{what}, {who}"))?;
        let words = match (verdict(found.ci95), who.contains("netloom") || who.contains("core/")) {
            (Verdict::Holds, _) => "holds",
            (Verdict::Loses, true) => "LOSES",
            (Verdict::Loses, false) => "the machine",
            (Verdict::Open, _) => "open",
        };
        let [low, high] = found.ci95;
        println!("{:.3} ({low:.3} to {high:.3})   {words:<11}   {what}, {who}", found.ratio);
        if words == "LOSES" {
            lost.push(format!("{what}, {who}: {:.3} ({low:.3} to {high:.3})", found.ratio));
        }
    }
    Ok(lost)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parsed(text: &str) -> Result<Option<Compare>> {
        Compare::parse(&text.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn arguments_name_a_build_turns_and_experiments() {
        assert_eq!(parsed("lab --quick").unwrap(), None);
        let all = parsed("--against /old --turns 5 slice lab").unwrap().unwrap();
        assert_eq!((all.other, all.turns), (PathBuf::from("/old"), 5));
        assert_eq!(all.experiments, ["slice", "lab"]);
        for (wrong, told) in [
            ("--against", "name the folder"),
            ("--against /old", "name the experiments"),
            ("--against /old --turns 4 lab", "from 5 on"),
            ("--against /old lab --quick", "not `--quick`"),
        ] {
            let error = format!("{:#}", parsed(wrong).unwrap_err());
            assert!(error.contains(told), "{wrong}: {error}");
        }
    }

    /// Runs in which netloom takes `own` and `other` of a unit, by turn, and a peer the same in both.
    fn runs(unit: &str, own: f64, other: f64) -> Rows {
        let mut rows = Rows::new();
        for turn in 0..8 {
            let drift = 1.0 + f64::from(turn % 3) / 10.0;
            for (figure, is_own) in [(own, true), (other, false)] {
                let row = |who: &str, mean: f64| json!({"what": "w", "who": who, "unit": unit, "mean": mean, "rounds": 3});
                let left =
                    json!({"what": "x", "who": "netloom", "unit": "", "mean": null, "rounds": 0});
                let rows_of = [row("netloom", figure * drift), row("peer", drift), left];
                take(&mut rows, &json!({"rows": rows_of}), is_own);
            }
        }
        rows
    }

    #[test]
    fn a_loss_is_found_beside_a_machine_that_drifts_by_more() {
        for (unit, own, other, loses) in [
            ("us", 1.05, 1.0, true),
            ("us", 1.0, 1.05, false),
            ("us", 1.02, 1.0, false),
            ("Gb/s", 0.95, 1.0, true),
            ("Gb/s", 1.0, 0.95, false),
            ("s/GB", 1.05, 1.0, true),
            ("%", 2.0, 1.0, false),
        ] {
            let rows = runs(unit, own, other);
            assert_eq!(rows.len(), 2, "{rows:?}");
            let lost = table(&rows, 8).unwrap();
            assert_eq!(lost.len(), usize::from(loses), "{unit} {own} {other}: {lost:?}");
        }
    }

    #[test]
    fn an_interval_with_both_in_it_is_open() {
        assert_eq!(verdict([0.9, 1.1]), Verdict::Open);
        assert_eq!(verdict([0.97, 1.1]), Verdict::Holds);
        assert_eq!(verdict([0.9, 0.96]), Verdict::Loses);
        // A row that one turn lacks is not compared.
        let mut rows = runs("us", 1.05, 1.0);
        for pairs in rows.values_mut() {
            pairs.own.pop();
        }
        assert_eq!(table(&rows, 8).unwrap(), Vec::<String>::new());
    }
}
