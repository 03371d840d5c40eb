//! A path and its way back together: round-trip time and two-way jitter, as a table and as JSON.

use netloom_marking::{Completeness, TwoWay};
use netloom_session::measure::{Book, Flow, Measured, Paths};
use serde_json::{Value, json};

use super::json::{merged, reasons};
use crate::output::or_dash;

/// Columns of the table.
const HEAD: [&str; 2] = ["ARTT ms", "TWAJ ms"];

/// Each path that has a way back for the same families, with its flow, and what `all` has of the two.
///
/// `all` is by the entries of the book, and may end before them.
pub(super) fn pairs<'a, T>(
    ways: &'a Paths,
    book: &'a Book,
    all: &'a [T],
) -> impl Iterator<Item = (&'a Measured, usize, [&'a T; 2])> {
    let entries = move || book.entries.iter().zip(all);
    entries().filter_map(move |(entry, there)| {
        let way = ways.all.get(entry.way).filter(|way| !way.back)?;
        let (_, back) = entries().find(|(other, _)| {
            let back = ways.all.get(other.way).filter(|back| back.back);
            other.flow == entry.flow && back.is_some_and(|back| back.versions().eq(way.versions()))
        })?;
        Some((way, entry.flow, [there, back]))
    })
}

/// The figures as a table.
pub(super) fn table(figures: &TwoWay) -> String {
    let cell = |value: Option<f64>| or_dash(value, |ns| format!("{:.3}", ns / 1e6));
    crate::output::table(&HEAD, vec![vec![cell(figures.artt()), cell(figures.twaj())]])
}

/// The figures as an object.
pub(super) fn object(
    way: &Measured,
    flow: &Flow,
    parts: [Value; 2],
    figures: &TwoWay,
    complete: Completeness,
) -> Value {
    let families: Vec<u8> = way.versions().collect();
    let (from, to) = (&way.way.from, &way.way.to);
    let about = json!({ "from": from, "to": to, "families": families, "flow": flow.name });
    let [kind, clock] = parts;
    merged([kind, clock, about, reasons(complete), json!(figures)])
}
