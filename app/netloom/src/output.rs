//! Putting things on the terminal: tables, sizes, errors with their causes.

use std::io::{IsTerminal, Write};

use anyhow::Result;
use comfy_table::{ContentArrangement, Table, presets};

/// Writes text to standard output, flushed. A broken pipe is an error that ends the program quietly.
pub(crate) fn print(text: &str) -> Result<()> {
    let mut out = anstream::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(())
}

/// Writes a value as pretty JSON.
pub(crate) fn print_json(value: &impl serde::Serialize) -> Result<()> {
    print(&format!("{}\n", serde_json::to_string_pretty(value)?))
}

/// A table without lines, one row a line.
pub(crate) fn table(head: &[&str], rows: Vec<Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(head.iter().copied());
    for row in rows {
        table.add_row(row);
    }
    let lines = table.to_string();
    let trimmed = lines.lines().map(|l| l.strip_prefix(' ').unwrap_or(l).trim_end());
    trimmed.fold(String::new(), |text, line| text + line + "\n")
}

/// Bytes in a form that is short to read: `1.5 MiB`.
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

/// What is not known.
pub(crate) fn or_dash<T>(value: Option<T>, show: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| "-".into(), show)
}

/// An error with its causes on one line, none repeated.
pub(crate) fn chain(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain() {
        let words = cause.to_string();
        if text.is_empty() {
            text = words;
        } else if !text.ends_with(&words) {
            text = format!("{text}: {words}");
        }
    }
    text
}

/// A line that is overwritten by the next, on a terminal only.
pub(crate) struct ProgressLine {
    on: bool,
    shown: usize,
}

impl ProgressLine {
    pub(crate) fn new() -> ProgressLine {
        ProgressLine { on: std::io::stderr().is_terminal(), shown: 0 }
    }

    pub(crate) fn show(&mut self, text: &str) {
        if self.on {
            let width = self.shown.max(text.len());
            eprint!("\r{text:<width$}");
            self.shown = text.len();
        }
    }

    pub(crate) fn clear(&mut self) {
        if self.on && self.shown > 0 {
            eprint!("\r{:width$}\r", "", width = self.shown);
            self.shown = 0;
        }
    }
}
