//! `disk`: write speed of a folder's storage: by hand, with O_DIRECT and through the page cache, and by the
//! writer that stores captures, in turn.
//!
//! A round writes one file in each way, in reverse order every second round. All ways write the same number
//! of bytes, and the clock runs until fsync(2) returns; deleting a file comes after that. The bytes are in
//! memory before the clock starts (the cost of filling chunks belongs to `capture`), and no writeback of
//! earlier files is pending. Files have no name while they are written, so that nothing is left behind in any
//! case.

mod write;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::report::side;
use crate::rounds::rounds;
use crate::{Options, Report};
use write::{Folder, Writing};

/// Bytes of a file.
const QUICK_TOTAL: u64 = 1 << 30;
const TOTAL: u64 = 4 << 30;
/// Bytes per write for the ratio.
const BLOCK: usize = 16 << 20;
/// Bytes per write for the table.
const BLOCKS: [usize; 5] = [64 << 10, 256 << 10, 1 << 20, 4 << 20, BLOCK];
/// The source's result with nine disks in GB/s: 11.09 to 11.23 Gb/s.
const SOURCE: [f64; 2] = [11.09 / 8.0, 11.23 / 8.0];

/// All rounds, in GB/s.
type Results = BTreeMap<Writing, Vec<f64>>;

/// Writes files in `folder`; by default in the system's folder for temporary files.
pub(crate) fn run(options: Options, folder: Option<&Path>) -> Result<Report> {
    let path = folder.map_or_else(std::env::temp_dir, PathBuf::from);
    let total = if options.quick { QUICK_TOTAL } else { TOTAL };
    let folder = Folder::open(&path, total, BLOCK)?;
    let mut report = Report::new("disk");
    report.machine.insert("folder".to_owned(), folder.described());
    let (all, quick) = (ways(false), ways(true));
    let mut chosen = if options.quick { quick } else { all.clone() };
    let (mut results, mut notes) = (Results::new(), BTreeMap::new());
    let time = Duration::from_secs(if options.quick { 90 } else { 300 });
    let one_round = |round: usize, results: &mut Results| {
        progress!("bench disk: round {}, {} ways", round + 1, chosen.len());
        for way in &chosen {
            let written =
                folder.write(*way).with_context(|| format!("{}: {way}", path.display()))?;
            results.entry(*way).or_default().push(written.gbytes_per_s);
            notes.insert(*way, written.note);
        }
        chosen.reverse();
        Ok(())
    };
    rounds(time, &mut results, one_round, figures)?;
    if results.is_empty() {
        bail!("{}: nothing was written", path.display());
    }
    let size = format!("files of {} MiB", total >> 20);
    for (way, figures) in &results {
        let note = notes.get(way).map(String::as_str).unwrap_or_default();
        let note = format!("{size}; {note}");
        report.measured(&way.title(), way.who(), "GB/s", figures, note.trim_end_matches("; "));
    }
    for way in all.iter().filter(|way| !results.contains_key(*way)) {
        report.left_out(&way.title(), way.who(), "--quick");
    }
    for figure in SOURCE {
        report.of_source("Figure 4.4: 9 disks, past the page cache", "source", "GB/s", figure);
    }
    figures(&results, &mut report);
    Ok(report)
}

/// Speed of direct writes to a folder, in GB/s: 1 GiB, 16 MiB each.
pub(crate) fn raw(folder: &Path) -> Result<f64> {
    let folder = Folder::open(folder, QUICK_TOTAL, BLOCK)?;
    Ok(folder.write(Writing::Raw(BLOCK)).context("write past the page cache")?.gbytes_per_s)
}

/// The ways of a round.
fn ways(quick: bool) -> Vec<Writing> {
    let mut ways =
        vec![Writing::Raw(BLOCK), Writing::Writer, Writing::Pwrite, Writing::Buffered(BLOCK)];
    if !quick {
        let smaller = BLOCKS.into_iter().filter(|block| *block != BLOCK);
        ways.extend(smaller.flat_map(|block| [Writing::Raw(block), Writing::Buffered(block)]));
        ways.extend(BLOCKS.map(Writing::Gathered));
    }
    ways
}

fn figures(results: &Results, report: &mut Report) {
    let of = |way| results.get(&way).map_or(&[][..], Vec::as_slice);
    let raw = of(Writing::Raw(BLOCK));
    let by_hand = side("O_DIRECT writes of 16 MiB", raw);
    let writer = side("the writer of captures, io_uring", of(Writing::Writer));
    report.ratio("writer_vs_raw", writer, by_hand);
    let pwrite = side("the writer of captures, pwrite", of(Writing::Pwrite));
    report.ratio("writer_pwrite_vs_raw", pwrite, by_hand);
    let buffered = side("writes of 16 MiB through the page cache", of(Writing::Buffered(BLOCK)));
    report.ratio("writer_vs_buffered", writer, buffered);
    report.value("raw_gb_per_s", raw);
    report.value("writer_gb_per_s", of(Writing::Writer));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_way_is_measured_twice_and_quick_ones_are_of_all() {
        let (mut all, quick) = (ways(false), ways(true));
        let count = all.len();
        assert!(quick.iter().all(|way| all.contains(way)), "{quick:?}");
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
    }

    #[test]
    fn the_ratio_is_of_the_writer_by_large_direct_writes() {
        let mut results = Results::new();
        results.insert(Writing::Raw(BLOCK), vec![2.0; 3]);
        results.insert(Writing::Raw(64 << 10), vec![1.0; 3]);
        results.insert(Writing::Writer, vec![1.8; 3]);
        let mut report = Report::default();
        figures(&results, &mut report);
        assert!((report.ratios["writer_vs_raw"].unwrap() - 0.9).abs() < 1e-9, "{report:?}");
        assert_eq!(report.ratios["writer_vs_buffered"], None);
        assert!((report.values["raw_gb_per_s"] - 2.0).abs() < 1e-9);
    }
}
