//! Terminal output: tables, sizes, errors with their causes.

use std::io::{IsTerminal, Write};

use anyhow::{Context, Result};
use comfy_table::{ContentArrangement, Table, presets};
use netloom_config::printable;
pub(crate) use netloom_lab::utc;

/// Writes text to standard output and flushes it. A broken pipe is an error that ends the program quietly.
pub(crate) fn print(text: &str) -> Result<()> {
    let mut out = anstream::stdout().lock();
    // `exit` runs no destructors, so what is buffered would be lost.
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).context("standard output: write")
}

/// Writes text for a person to standard output: what others have named or said in it changes no terminal.
pub(crate) fn show(text: &str) -> Result<()> {
    print(&printable::lines(text))
}

/// Writes text to standard error; what others have named or said in it changes no terminal. What cannot be written there,
/// because nobody reads it any more or a disk is full, is left out: it must not end what it tells of.
pub(crate) fn to_stderr(text: std::fmt::Arguments<'_>) {
    as_is_to_stderr(format_args!("{}", printable::lines(&text.to_string())));
}

/// The same as it is: JSON, which has escapes of its own, or what is drawn.
pub(crate) fn as_is_to_stderr(text: std::fmt::Arguments<'_>) {
    let _ = anstream::stderr().lock().write_fmt(text);
}

/// A line to standard error, see [`to_stderr`].
macro_rules! tell_line {
    ($($text:tt)*) => { $crate::output::to_stderr(format_args!("{}\n", format_args!($($text)*))) };
}

/// Text to standard error, see [`to_stderr`].
macro_rules! tell {
    ($($text:tt)*) => { $crate::output::to_stderr(format_args!($($text)*)) };
}

/// Writes a value as pretty JSON, in the form of the API.
pub(crate) fn print_json(value: &impl serde::Serialize) -> Result<()> {
    print(&format!("{}\n", netloom_form::to_string_pretty(value)?))
}

/// A table without borders.
pub(crate) fn table(head: &[&str], rows: Vec<Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(head.iter().copied());
    for row in rows {
        table.add_row(row.iter().map(|cell| printable::line(cell)));
    }
    let lines = table.to_string();
    let trimmed = lines.lines().map(|l| l.strip_prefix(' ').unwrap_or(l).trim_end());
    trimmed.fold(String::new(), |text, line| text + line + "\n")
}

/// Bytes in a short form: `1.5 MiB`.
#[allow(clippy::cast_precision_loss, reason = "two digits are shown")]
pub(crate) fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = count as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{count} B") } else { format!("{value:.1} {}", UNITS[unit]) }
}

/// A count with its noun: `1 link`, `2 links`, `2 switches`.
pub(crate) fn count(number: usize, noun: &str) -> String {
    let ending = match (number, noun.ends_with("ch")) {
        (1, _) => "",
        (_, true) => "es",
        (_, false) => "s",
    };
    format!("{number} {noun}{ending}")
}

/// Labels and values, one pair per line, values aligned.
pub(crate) fn facts(facts: &[(&str, String)]) -> String {
    let width = facts.iter().map(|(label, _)| label.len()).max().unwrap_or(0);
    let line =
        |(label, value): &(&str, String)| format!("{label:<width$}  {}\n", printable::line(value));
    facts.iter().map(line).collect()
}

/// Prints notes about a completed change to standard error.
pub(crate) fn notes(notes: &[String]) {
    for note in notes {
        tell_line!("note: {note}");
    }
}

/// How many warnings of a kind are printed.
const MOST_WARNINGS: usize = 8;

/// Prints what is probably not meant in a lab to standard error.
pub(crate) fn warnings(hints: &[String]) {
    for hint in hints.iter().take(MOST_WARNINGS) {
        tell_line!("warning: {hint}");
    }
    if let Some(more) = hints.len().checked_sub(MOST_WARNINGS).filter(|more| *more > 0) {
        tell_line!("warning: {more} more nodes like these");
    }
}

/// A value, or `-` if unknown.
pub(crate) fn or_dash<T>(value: Option<T>, show: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| "-".into(), show)
}

/// A line that the next one overwrites; on a terminal only.
pub(crate) struct ProgressLine {
    on: bool,
    shown: usize,
}

impl ProgressLine {
    pub(crate) fn new() -> ProgressLine {
        ProgressLine { on: ProgressLine::is_shown(), shown: 0 }
    }

    /// Whether anybody sees it.
    pub(crate) fn is_shown() -> bool {
        std::io::stderr().is_terminal()
    }

    pub(crate) fn show(&mut self, text: &str) {
        if self.on {
            // Blanks cover what is left of a longer line before.
            let width = self.shown.max(text.len());
            as_is_to_stderr(format_args!("\r{:<width$}", printable::line(text)));
            self.shown = text.len();
        }
    }

    pub(crate) fn clear(&mut self) {
        if self.on && self.shown > 0 {
            as_is_to_stderr(format_args!("\r{:width$}\r", "", width = self.shown));
            self.shown = 0;
        }
    }
}

/// Unix time in seconds, to the second.
pub(crate) fn moment(seconds: u64) -> String {
    let text = utc(seconds.saturating_mul(1_000_000_000));
    text.split_once('.').map_or(text.clone(), |(whole, _)| format!("{whole}Z"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_civil() {
        assert_eq!(utc(0), "1970-01-01T00:00:00.000000Z");
        assert_eq!(utc(951_782_400_000_001_000), "2000-02-29T00:00:00.000001Z");
        assert_eq!(utc(4_102_444_799_999_999_999), "2099-12-31T23:59:59.999999Z");
    }

    #[test]
    fn values_of_facts_stand_in_one_column() {
        let text = facts(&[("a", "1".into()), ("long", "2 3".into())]);
        assert_eq!(text, "a     1\nlong  2 3\n");
    }
}
