//! Output of a capture: a line while it runs, the account at its end.

use std::os::fd::AsFd;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Result;
use netloom_capture::{Ledger, Pipeline, Report, Snapshot};
use netloom_sys::process;
use serde_json::json;

use crate::flags::Capture;
use crate::output::{self, ProgressLine, bytes, print, print_json, table};
use crate::spaces::Spaces;

/// Interval between checks whether the capture has ended, and between updates of the line.
const LOOK: Duration = Duration::from_millis(50);
const LINE: Duration = Duration::from_secs(1);

/// Shows progress until the capture ends; ends it when all its sources have ended, and returns whether they
/// did.
pub(super) fn watch(pipeline: &Pipeline, spaces: &Spaces, args: &Capture) -> bool {
    let mut gone = false;
    let mut line = ProgressLine::new();
    let (mut last, mut shown) = (pipeline.snapshot(), Instant::now());
    while !pipeline.is_ending() {
        sleep(LOOK);
        if spaces.only_nodes() && spaces.inits().all(|init| process::has_ended(init.as_fd())) {
            pipeline.stopper().stop();
            gone = true;
        }
        if !args.quiet && shown.elapsed() >= LINE {
            let now = pipeline.snapshot();
            line.show(&words(&last, &now));
            (last, shown) = (now, Instant::now());
        }
    }
    line.clear();
    gone
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
            "bytes": report.bytes,
        });
        if to_pipe {
            eprintln!("{value}");
            return Ok(());
        }
        return print_json(&value);
    }
    if args.quiet {
        return Ok(());
    }
    let text = text(report, args);
    if to_pipe {
        eprint!("{text}");
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
            output::count(usize::try_from(last.late).unwrap_or(usize::MAX), "frame"),
        ));
    }
    if !report.files.is_empty() {
        let names: Vec<String> = report.files.iter().map(|p| p.display().to_string()).collect();
        let how = report.how.as_ref().map(|how| format!(", {}", way(how))).unwrap_or_default();
        text.push_str(&format!(
            "{} in {}{how}\n",
            bytes(report.bytes),
            match names.as_slice() {
                [one] => one.clone(),
                many => format!(
                    "{}, the newest {}",
                    output::count(many.len(), "file"),
                    many[many.len() - 1]
                ),
            }
        ));
    }
    text
}

/// How a file was written.
fn way(how: &netloom_disk::How) -> &'static str {
    match (how.direct, how.uring) {
        (true, true) => "past the page cache by io_uring",
        (true, false) => "past the page cache",
        (false, _) => "through the page cache",
    }
}
