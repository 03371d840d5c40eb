//! The source's tables of captured frames, and the same for netloom: percent captured of smallest frames at
//! several rates and of a trace, over one interface and two, stored or not.

use std::collections::BTreeMap;

use anyhow::Result;

use super::capturers::{Run, Who, run};
use super::pair::Pair;
use super::search::Ask;
use super::traffic::{Traffic, trace};
use super::{Cell, missing};
use crate::Report;
use crate::driver::Driver;
use crate::rounds::rounds;

/// Rates over one interface, in Mpps; the last one is top speed.
const RATES: [Option<f64>; 4] = [Some(0.5), Some(1.0), Some(2.0), None];
/// Seconds of a run.
const SECONDS: f64 = 1.0;
/// Time of all rounds.
const MOST: std::time::Duration = std::time::Duration::from_secs(2400);

/// The offered traffic, without its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Offer {
    /// An index into [`RATES`].
    Small(usize),
    Trace,
}

/// A cell of the table.
type Field = (Offer, usize, Cell);

/// All runs.
type Results = BTreeMap<Field, Vec<Run>>;

/// Fills netloom's table.
pub(super) fn measure(driver: &Driver, pair: &Pair<'_>, report: &mut Report) -> Result<()> {
    let (file, what) = trace(driver)?;
    let mut fields = fields();
    fields.retain(|(_, _, cell)| missing(*cell).is_none());
    let mut results = Results::new();
    let one_round = |round: usize, results: &mut Results| {
        eprintln!("bench capture: table, round {}, {} fields", round + 1, fields.len());
        for field in &fields {
            let (offer, interfaces, cell) = *field;
            let traffic = match offer {
                Offer::Trace => Traffic::Trace(file.clone()),
                Offer::Small(at) => {
                    let rate = RATES.get(at).copied().flatten();
                    let ask = rate.map_or(Ask::Max, |mpps| Ask::Rate(mpps * 1e6));
                    Traffic::Small(ask, SECONDS)
                }
            };
            let folder = cell.stored.then(|| driver.folder());
            let seen = run(pair, cell.who, &traffic, interfaces, folder)?;
            results.entry(*field).or_default().push(seen);
        }
        fields.reverse();
        Ok(())
    };
    // The table feeds no figure: it has the fewest rounds that give intervals.
    rounds(MOST, &mut results, one_round, |_, _| ())?;
    for (field, runs) in &results {
        let (offer, interfaces, cell) = *field;
        let captured: Vec<f64> = runs.iter().map(Run::captured).collect();
        let offered: f64 = runs.iter().map(|run| run.rate).sum();
        let offered = offered / f64::from(u32::try_from(runs.len())?.max(1)) / 1e6;
        let trace = if offer == Offer::Trace { format!("; {what}") } else { String::new() };
        let note = format!("offered {offered:.3} Mpps; {}{trace}", cell.who.settings());
        report.measured(&title(offer, interfaces, cell), cell.who.title(), "%", &captured, &note);
    }
    Ok(())
}

/// All cells: rates over one interface, top speed and the trace over both one and two.
fn fields() -> Vec<Field> {
    let mut fields = vec![];
    for who in Who::ALL {
        for stored in [false, true] {
            let cell = Cell { who, stored };
            fields.extend((0..RATES.len()).map(|at| (Offer::Small(at), 1, cell)));
            fields.push((Offer::Small(RATES.len() - 1), 2, cell));
            fields.extend([1, 2].map(|interfaces| (Offer::Trace, interfaces, cell)));
        }
    }
    fields
}

fn title(offer: Offer, interfaces: usize, cell: Cell) -> String {
    let what = match offer {
        Offer::Trace => "trace at top speed".to_owned(),
        Offer::Small(at) => match RATES.get(at).copied().flatten() {
            Some(rate) => format!("64 bytes at {rate} Mpps"),
            None => "64 bytes at top speed".to_owned(),
        },
    };
    let plural = if interfaces == 1 { "" } else { "s" };
    let stored = if cell.stored { "stored" } else { "not stored" };
    format!("captured, {what}, {interfaces} interface{plural}, {stored}")
}

/// The source's tables 4.1 and 4.2: at 14.88 Mpps, and a trace with a mean of 965 bytes at top speed.
pub(super) fn source(report: &mut Report) {
    let not_stored = [
        ("ixgbe", [2.7, 100.0, 3.7, 93.55]),
        ("PF_RING", [100.0, 100.0, 76.1, 100.0]),
        ("HPCAP", [97.9, 100.0, 97.8, 100.0]),
        ("DPDK", [100.0, 100.0, 100.0, 100.0]),
    ];
    let columns = [
        "64 bytes, 1 interface",
        "trace, 1 interface",
        "64 bytes, 2 interfaces",
        "trace, 2 interfaces",
    ];
    for (who, figures) in not_stored {
        for (what, figure) in columns.iter().zip(figures) {
            let what = format!("captured, {what}, not stored");
            report.of_source(&what, &format!("source: {who}"), "%", figure);
        }
    }
    let stored = [("ixgbe", [10.3, 91.9]), ("HPCAP", [95.7, 100.0]), ("DPDK", [95.8, 100.0])];
    for (who, figures) in stored {
        for (what, figure) in columns.iter().zip(figures) {
            let what = format!("captured, {what}, stored");
            report.of_source(&what, &format!("source: {who}"), "%", figure);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_field_is_measured_twice() {
        let mut all = fields();
        let count = all.len();
        assert_eq!(count, Who::ALL.len() * 2 * 7);
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
    }

    #[test]
    fn the_sources_tables_are_there() {
        let mut report = Report::default();
        source(&mut report);
        assert_eq!(report.rows.len(), 16 + 6);
    }

    #[test]
    fn fields_are_told_apart_by_their_words() {
        let cell = Cell { who: Who::Fast, stored: true };
        let shown = title(Offer::Small(0), 1, cell);
        assert_eq!(shown, "captured, 64 bytes at 0.5 Mpps, 1 interface, stored");
        let shown = title(Offer::Trace, 2, cell);
        assert_eq!(shown, "captured, trace at top speed, 2 interfaces, stored");
    }
}
