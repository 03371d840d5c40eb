//! Errors of a file, with their places and suggestions.
//!
//! A [`Report`] collects errors while a file is read; [`Report::finish`] gives [`Diagnostics`], ordered
//! by place, each shown as `FILE:LINE:COLUMN: error: MESSAGE`. Lines and columns are never 0. At most
//! [`MAX_KEPT`] are kept, the rest is counted.
//!
//! An entry that is read repeatedly with different values reports an error at one place
//! once: for the first repetition that has it, whose values are in the message.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use crate::{Place, closest, printable, quote};

/// Errors beyond this number are only counted.
pub(crate) const MAX_KEPT: usize = 1000;

/// One error of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The file's name as the user gave it.
    pub file: Arc<str>,
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
    /// The fault: one line, lower case.
    pub message: String,
    /// What to do about it, one line.
    pub help: Option<String>,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (file, message) = (printable::line(&self.file), printable::line(&self.message));
        write!(f, "{file}:{}:{}: error: {message}", self.line, self.column)?;
        match &self.help {
            Some(help) => write!(f, "\n  help: {}", printable::line(help)),
            None => Ok(()),
        }
    }
}

/// All errors of a file, ordered by place. Its `Display` is the full text for the user: each error
/// and, last, `FILE: N errors`, without a line break at the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostics {
    /// The file's name as the user gave it.
    pub file: Arc<str>,
    /// The errors.
    pub list: Vec<Diagnostic>,
    /// How many more errors there were.
    pub more: usize,
}

impl Diagnostics {
    /// The number of errors, including those not kept.
    pub fn count(&self) -> usize {
        self.list.len() + self.more
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for diagnostic in &self.list {
            writeln!(f, "{diagnostic}")?;
        }
        let count = self.count();
        let plural = if count == 1 { "error" } else { "errors" };
        write!(f, "{}: {count} {plural}", printable::line(&self.file))?;
        match self.more {
            0 => Ok(()),
            _ => write!(f, ", {} shown", self.list.len()),
        }
    }
}

impl std::error::Error for Diagnostics {}

/// One repetition of an entry that is read many times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repetition {
    /// Which entry of the file: equal for all repetitions of one entry, unique among entries.
    pub entry: usize,
    /// Which repetition.
    pub round: usize,
    /// The values of this repetition, appended to the message: `x=3, y=0`.
    pub values: String,
}

/// Collects the errors of a file while it is read.
#[derive(Debug)]
pub struct Report {
    file: Arc<str>,
    list: Vec<Diagnostic>,
    more: usize,
    kept: HashSet<(Place, String)>,
    repetition: Option<Arc<Repetition>>,
    first_round: HashMap<(usize, Place), usize>,
    /// Comparisons left for suggestions, so that a file full of errors does not take minutes.
    comparisons: usize,
}

impl Report {
    /// An empty report on a file.
    pub fn new(file: &str) -> Report {
        Report {
            file: file.into(),
            list: Vec::new(),
            more: 0,
            kept: HashSet::new(),
            repetition: None,
            first_round: HashMap::new(),
            comparisons: 1_000_000,
        }
    }

    /// Records an error.
    pub fn error(&mut self, place: Place, message: impl Into<String>) {
        self.error_with(place, message, None);
    }

    /// Records an error with help on what to do.
    pub fn error_with(&mut self, place: Place, message: impl Into<String>, help: Option<String>) {
        let mut message = message.into();
        if let Some(repetition) = &self.repetition {
            // One entry that is repeated a thousand times would else report a thousand times.
            let first =
                self.first_round.entry((repetition.entry, place)).or_insert(repetition.round);
            if *first != repetition.round {
                return;
            }
            message = format!("{message} (with {})", repetition.values);
        }
        if self.list.len() >= MAX_KEPT {
            self.more += 1;
        } else if self.kept.insert((place, message.clone())) {
            let (line, column) = (place.line.max(1), place.column.max(1));
            self.list.push(Diagnostic { file: self.file.clone(), line, column, message, help });
        }
    }

    /// Sets the repetition that is read from here on; `None` for text that is read once.
    pub fn set_repetition(&mut self, repetition: Option<Arc<Repetition>>) {
        self.repetition = repetition;
    }

    /// Whether there is no error so far.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The number of errors so far.
    pub fn count(&self) -> usize {
        self.list.len() + self.more
    }

    /// Help for a misspelt word: `did you mean "forwarding"?`
    pub fn suggest<'a>(
        &mut self,
        word: &str,
        candidates: impl IntoIterator<Item = &'a str>,
    ) -> Option<String> {
        let left = &mut self.comparisons;
        // Comparing words is what costs: a file of a thousand unknown names has a bound.
        let bounded = candidates.into_iter().take_while(|_| {
            *left = left.saturating_sub(1);
            *left > 0
        });
        closest(word, bounded).map(|found| format!("did you mean {}?", quote(found)))
    }

    /// The errors in order of place.
    pub fn finish(mut self) -> Diagnostics {
        // Stable: errors of one place stay in the order in which they were found.
        self.list.sort_by_key(|d| (d.line, d.column));
        Diagnostics { file: self.file, list: self.list, more: self.more }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(line: u32, column: u32) -> Place {
        Place { line, column }
    }

    #[test]
    fn errors_are_shown_in_order_of_place_with_help_and_a_count() {
        let mut report = Report::new("a.yaml");
        report.error(at(4, 2), "second");
        let help = report.suggest("forwading", ["forwarding"]);
        report.error_with(at(2, 9), "first", help);
        report.error(at(4, 2), "second");
        let text = report.finish().to_string();
        assert_eq!(
            text,
            "a.yaml:2:9: error: first\n  help: did you mean \"forwarding\"?\n\
             a.yaml:4:2: error: second\na.yaml: 2 errors"
        );
    }

    #[test]
    fn an_error_of_a_repeated_entry_is_reported_once_with_its_values() {
        let mut report = Report::new("a.yaml");
        for round in 0..3 {
            let values = format!("x={round}");
            report.set_repetition(Some(Arc::new(Repetition { entry: 1, round, values })));
            if round > 0 {
                report.error(at(1, 1), format!("bad {round}"));
                report.error(at(1, 1), "also bad");
            }
        }
        let messages: Vec<_> = report.finish().list.into_iter().map(|d| d.message).collect();
        assert_eq!(messages, ["bad 1 (with x=1)", "also bad (with x=1)"]);
    }

    #[test]
    fn errors_beyond_the_bound_are_counted() {
        let mut report = Report::new("a.yaml");
        for line in 1..=1500 {
            report.error(at(line, 1), "bad");
        }
        let text = report.finish().to_string();
        assert!(
            text.ends_with("a.yaml:1000:1: error: bad\na.yaml: 1500 errors, 1000 shown"),
            "{text}"
        );
    }
}
