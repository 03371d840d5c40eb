//! Output of a capture: how each interface is captured, a line while it runs, the account at its end.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Result;
use netloom_capture::{Ledger, Pipeline, Report, Snapshot};
use netloom_session::capture::Choice;
use serde_json::json;

use crate::flags::Capture;
use crate::output::{ProgressLine, bytes, count, print, print_json, table};

/// Interval between updates of the line.
const LINE: Duration = Duration::from_secs(1);

/// Tells how interfaces are captured, a line for each way.
pub(super) fn choices(choices: &[Choice], args: &Capture) {
    if args.quiet {
        return;
    }
    let mut told: Vec<(&str, Vec<&str>)> = vec![];
    for Choice { interface, reason } in choices {
        match told.iter_mut().find(|(those, _)| those == reason) {
            Some((_, names)) => names.push(interface),
            None => told.push((reason, vec![interface])),
        }
    }
    told.iter().for_each(|(reason, names)| tell_line!("{}: {reason}", those(names, args.all)));
}

/// Interfaces captured in one way: the name, or their number.
fn those(names: &[&str], links: bool) -> String {
    match names {
        [one] => (*one).to_owned(),
        many => count(many.len(), if links { "link" } else { "interface" }),
    }
}

/// The line while a capture runs.
pub(super) struct Progress {
    line: ProgressLine,
    quiet: bool,
    last: Snapshot,
    shown: Instant,
}

impl Progress {
    pub(super) fn new(pipeline: &Pipeline, args: &Capture) -> Progress {
        let last = pipeline.snapshot();
        Progress { line: ProgressLine::new(), quiet: args.quiet, last, shown: Instant::now() }
    }

    /// Shows the line if it is time to.
    pub(super) fn look(&mut self, pipeline: &Pipeline) {
        if self.quiet || self.shown.elapsed() < LINE {
            return;
        }
        let now = pipeline.snapshot();
        self.line.show(&words(&self.last, &now));
        (self.last, self.shown) = (now, Instant::now());
    }

    pub(super) fn clear(&mut self) {
        self.line.clear();
    }
}

/// The line for one second.
fn words(last: &Snapshot, now: &Snapshot) -> String {
    let seconds = now.elapsed.saturating_sub(last.elapsed).as_secs_f64().max(1e-3);
    let rate = |of: fn(&Ledger) -> u64| {
        #[expect(clippy::cast_precision_loss, reason = "counts of a second are below 2^53")]
        let difference = of(&now.total).saturating_sub(of(&last.total)) as f64;
        difference / seconds
    };
    let mut text = format!(
        "{:.0} s: {:.3} Mpps, {:.3} Gb/s; written {}, lost {}; memory {}",
        now.elapsed.as_secs_f64(),
        rate(|ledger| ledger.captured) / 1e6,
        rate(|ledger| ledger.bytes) * 8e-9,
        now.total.written,
        now.total.lost.total(),
        bytes(now.memory),
    );
    if now.waits_for_space {
        text.push_str("; the disk is full, waiting for space");
    }
    text
}

/// Shows the fate of every frame.
pub(super) fn account(report: &Report, args: &Capture) -> Result<()> {
    let to_pipe = args.write.as_deref() == Some(Path::new("-"));
    if args.json {
        let value = json!({
            "end": report.end,
            "seconds": report.last.elapsed.as_secs_f64(),
            "interfaces": report.last.interfaces,
            "total": report.last.total,
            "difference": report.last.total.difference(),
            "late": report.last.late,
            "files": report.files,
            "removed_files": report.removed,
            "bytes": report.bytes,
        });
        if to_pipe {
            crate::output::as_is_to_stderr(format_args!("{value}\n"));
            return Ok(());
        }
        return print_json(&value);
    }
    if args.quiet {
        return Ok(());
    }
    let text = text(report, args);
    if to_pipe {
        tell!("{text}");
        return Ok(());
    }
    print(&text)
}

fn text(report: &Report, args: &Capture) -> String {
    let last = &report.last;
    let kept = if args.write.is_some() { "WRITTEN" } else { "COUNTED" };
    let head = ["INTERFACE", "OFFERED", "FILTERED", kept, "LOST: RING", "MEMORY", "DISK", "CUT"];
    let row = |name: &str, ledger: &Ledger| {
        let lost = &ledger.lost;
        let figures = [
            ledger.offered,
            ledger.filtered,
            ledger.written,
            lost.ring,
            lost.memory,
            lost.disk,
            ledger.truncated,
        ];
        let figures = figures.iter().map(ToString::to_string);
        std::iter::once(name.to_owned()).chain(figures).collect::<Vec<_>>()
    };
    let mut rows: Vec<_> = last.interfaces.iter().map(|i| row(&i.name, &i.ledger)).collect();
    if rows.len() > 1 {
        rows.push(row("total", &last.total));
    }
    let total = &last.total;
    let mut text = table(&head, rows);
    text.push_str(&format!(
        "{} offered = {} filtered + {} {} + {} lost; difference {}\n",
        total.offered,
        total.filtered,
        total.written,
        kept.to_lowercase(),
        total.lost.total(),
        total.difference()
    ));
    if last.late > 0 {
        text.push_str(&format!(
            "{} behind later ones: their interface was found too late to stand by time\n",
            count(usize::try_from(last.late).unwrap_or(usize::MAX), "frame"),
        ));
    }
    if !report.files.is_empty() {
        let how = report.how.as_ref().map(|how| format!(", {}", way(how))).unwrap_or_default();
        let length = |path: &PathBuf| std::fs::metadata(path).map_or(0, |found| found.len());
        let kept = report.files.iter().map(length).sum();
        let what = where_to(&report.files, report.removed, (report.bytes, kept));
        text.push_str(&format!("{what}{how}\n"));
    }
    text
}

/// What was written, and what of it is left, in bytes.
fn where_to(files: &[PathBuf], removed: usize, (written, kept): (u64, u64)) -> String {
    let (written, kept) = (bytes(written), bytes(kept));
    let newest = files.last().map_or_else(String::new, |path| path.display().to_string());
    match (files.len(), removed) {
        (1, 0) => format!("{written} in {newest}"),
        (many, 0) => format!("{written} in {}, the newest {newest}", count(many, "file")),
        (left, removed) => format!(
            "{written} in {}, of which {removed} gave way, frames and all; kept are {kept} in {}, the newest {newest}",
            count(left + removed, "file"),
            count(left, "file"),
        ),
    }
}

/// How a file was written.
fn way(how: &netloom_disk::How) -> &'static str {
    match (how.direct, how.uring) {
        (true, true) => "past the page cache by io_uring",
        (true, false) => "past the page cache",
        (false, _) => "through the page cache",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_gave_way_are_told() {
        let files = ["a_2".into(), "a_3".into()];
        let told = |files: &[PathBuf], removed| where_to(files, removed, (3072, 1024));
        assert_eq!(told(&files[..1], 0), "3.0 KiB in a_2");
        assert_eq!(told(&files, 0), "3.0 KiB in 2 files, the newest a_3");
        assert_eq!(
            told(&files, 4),
            "3.0 KiB in 6 files, of which 4 gave way, frames and all; kept are 1.0 KiB in 2 files, the newest a_3"
        );
    }
}
