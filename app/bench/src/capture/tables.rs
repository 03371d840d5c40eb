//! Tables of captured frames: percent captured, and frames captured per second, by rate, size of frames, number of
//! interfaces, number of threads that share one, trace; stored or not. `source` has the source's own tables.

mod source;

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;

use super::capturers::{Run, Who, run};
use super::pair::{Pair, SMALL, To};
use super::search::Ask;
use super::traffic::{Made, Traffic, trace};
use super::{Case, Cell, FCS, missing};
use crate::Report;
use crate::driver::Driver;
use crate::rounds::rounds;

pub(super) use source::source;

/// Rates over one interface, in Mpps.
const RATES: [f64; 3] = [0.5, 1.0, 2.0];
/// Sizes at top speed, with the check sequence, as RFC 2544 has them.
const SIZES: [u32; 7] = [SMALL, 128, 256, 512, 1024, 1280, 1518];
/// Most interfaces, and most threads that share one.
pub(super) const MOST_LINKS: usize = 4;
/// Seconds of a run.
const SECONDS: f64 = 0.5;
/// Time of all rounds.
const MOST: Duration = Duration::from_secs(900);

/// The offered traffic, without its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Offer {
    /// Smallest frames, an index into [`RATES`].
    Paced(usize),
    /// Frames of a size at top speed.
    Top(u32),
    Trace,
}

/// A field of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Field {
    offer: Offer,
    interfaces: usize,
    who: Who,
    stored: bool,
}

/// All runs.
type Results = BTreeMap<Field, Vec<Run>>;

/// Two interfaces at top speed, once: what of the tables is looked at quickly.
pub(super) fn glance(pair: &Pair<'_>, report: &mut Report) -> Result<()> {
    for who in [Who::Sink, Who::Auto, Who::Tcpdump] {
        let field = Field { offer: Offer::Top(SMALL), interfaces: 2, who, stored: false };
        if let Some(made) = field.made().filter(|_| missing(field.cell()).is_none()) {
            let seen = run(pair, who, &Traffic::Made(made), 0..field.interfaces, None)?;
            field.show(&[seen], "", report);
        }
    }
    Ok(())
}

/// Fills netloom's tables.
pub(super) fn measure(driver: &Driver, pair: &Pair<'_>, report: &mut Report) -> Result<()> {
    let (file, what) = trace(driver)?;
    let mut fields = fields();
    fields.retain(|field| missing(field.cell()).is_none());
    let mut results = Results::new();
    let one_round = |round: usize, results: &mut Results| {
        progress!("bench capture: table, round {}, {} fields", round + 1, fields.len());
        for field in &fields {
            let traffic = match field.made() {
                Some(made) => Traffic::Made(made),
                None => Traffic::Trace(file.clone()),
            };
            let folder = field.stored.then(|| driver.folder());
            let seen = run(pair, field.who, &traffic, 0..field.interfaces, folder)?;
            results.entry(*field).or_default().push(seen);
        }
        fields.reverse();
        Ok(())
    };
    // The tables feed no figure: they have the fewest rounds that give intervals.
    rounds(MOST, &mut results, one_round, |_, _| ())?;
    for (field, runs) in &results {
        field.show(runs, &what, report);
    }
    Ok(())
}

/// All fields: rates over one interface, sizes at top speed, interfaces at top speed, the trace.
fn fields() -> Vec<Field> {
    let mut fields = vec![];
    for stored in [false, true] {
        for who in Who::ALL {
            let mut add = |offer, interfaces| fields.push(Field { offer, interfaces, who, stored });
            (0..RATES.len()).for_each(|at| add(Offer::Paced(at), 1));
            (1..=MOST_LINKS).for_each(|links| add(Offer::Top(SMALL), links));
            [1, 2].into_iter().for_each(|links| add(Offer::Trace, links));
        }
        for who in [Who::Sink, Who::Auto, Who::Tcpdump, Who::Dumpcap] {
            let sizes = SIZES.into_iter().filter(|size| *size != SMALL);
            fields.extend(sizes.map(|size| Field {
                offer: Offer::Top(size),
                interfaces: 1,
                who,
                stored,
            }));
        }
    }
    fields
}

impl Field {
    fn size(&self) -> u32 {
        if let Offer::Top(size) = self.offer { size } else { SMALL }
    }

    fn cell(&self) -> Cell {
        let case = Case { size: self.size(), to: To::Nobody, stored: self.stored };
        Cell { case, who: self.who }
    }

    /// Its generated frames, if it has such.
    fn made(&self) -> Option<Made> {
        let ask = match self.offer {
            Offer::Paced(at) => Ask::Rate(RATES.get(at)? * 1e6),
            Offer::Top(_) => Ask::Max,
            Offer::Trace => return None,
        };
        Some(Made { size: self.size(), to: To::Nobody, ask, seconds: SECONDS })
    }

    fn title(&self) -> String {
        let what = match self.offer {
            Offer::Trace => "trace at top speed".to_owned(),
            Offer::Paced(at) => format!("60 bytes at {} Mpps", RATES.get(at).unwrap_or(&0.0)),
            Offer::Top(size) => format!("{} bytes at top speed", size - FCS),
        };
        let plural = if self.interfaces == 1 { "" } else { "s" };
        format!("{what}, {} interface{plural}, {}", self.interfaces, self.kept())
    }

    fn kept(&self) -> &'static str {
        if self.stored { "stored" } else { "not stored" }
    }

    /// Its rows and points.
    fn show(&self, runs: &[Run], trace: &str, report: &mut Report) {
        let each = |of: fn(&Run) -> f64| runs.iter().map(of).collect::<Vec<f64>>();
        let mean = |of: fn(&Run) -> f64| {
            each(of).iter().sum::<f64>() / each(|_| 1.0).iter().sum::<f64>().max(1.0)
        };
        let [made, taken] = [mean(|run| run.load.made / 1e6), mean(|run| run.load.taken / 1e6)];
        let trace = if self.offer == Offer::Trace { format!("; {trace}") } else { String::new() };
        let (who, settings) = (self.who.title(), self.who.settings(self.size()));
        let note = format!("{taken:.3} Mpps offered, {made:.3} made; {settings}{trace}");
        let title = self.title();
        report.measured(&format!("captured, {title}"), who, "%", &each(Run::captured), &note);
        let rates = each(|run| run.rate() / 1e6);
        report.measured(&format!("rate, {title}"), who, "Mpps", &rates, "");
        let kept = self.kept();
        if let (Offer::Top(size), 1) = (self.offer, self.interfaces) {
            let title = format!("captured at top speed, {kept}");
            report.point(&title, ["bytes of a frame", "Mpps"], who, f64::from(size - FCS), &rates);
        }
        if self.offer == Offer::Top(SMALL) {
            let title = format!("captured at top speed, 60 bytes, {kept}");
            let links = f64::from(u8::try_from(self.interfaces).unwrap_or(u8::MAX));
            report.point(&title, ["interfaces", "Mpps"], who, links, &rates);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::search::Load;
    use super::*;

    #[test]
    fn no_field_is_measured_twice() {
        let mut all = fields();
        let count = all.len();
        assert_eq!(count, 2 * (Who::ALL.len() * (3 + 4 + 2) + 4 * 6));
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
    }

    #[test]
    fn fields_are_told_apart_by_their_words() {
        let field = Field { offer: Offer::Paced(0), interfaces: 1, who: Who::Sink, stored: true };
        assert_eq!(field.title(), "60 bytes at 0.5 Mpps, 1 interface, stored");
        let field = Field { offer: Offer::Trace, interfaces: 2, ..field };
        assert_eq!(field.title(), "trace at top speed, 2 interfaces, stored");
    }

    #[test]
    fn a_field_at_top_speed_is_in_rows_and_curves() {
        let field =
            Field { offer: Offer::Top(SMALL), interfaces: 1, who: Who::Sink, stored: false };
        let load = Load { made: 4e6, taken: 2e6 };
        let run = Run { offered: 1000, load, ..Run::default() };
        let mut report = Report::default();
        field.show(&[run; 5], "", &mut report);
        assert_eq!(report.rows.len(), 2);
        assert!(report.rows[0].note.starts_with("2.000 Mpps offered, 4.000 made"));
        assert_eq!(report.curves.len(), 2);
    }
}
