//! `fuzz [SECONDS]`: every target in `fuzz/` for that long, on its seeds in git; and before, captures killed
//! and files cut at a thousand moments and places.

use std::fs;

use anyhow::{Context, Result, bail};

use crate::workspace;

/// Kills of a capture into one file, and as many of one whose files change.
const KILLS: &str = "1000";

pub(crate) fn run(args: &[String]) -> Result<()> {
    let seconds: u32 = match args.first() {
        None => 60,
        Some(text) => text.parse().with_context(|| format!("`{text}` is no number of seconds"))?,
    };
    let folder = workspace::root().join("fuzz");
    let mut targets: Vec<String> = vec![];
    for entry in fs::read_dir(folder.join("fuzz_targets")).context("list fuzz targets")? {
        let path = entry?.path();
        if path.extension().is_some_and(|ending| ending == "rs") {
            targets.extend(path.file_stem().map(|stem| stem.to_string_lossy().into_owned()));
        }
    }
    targets.sort();
    if targets.is_empty() {
        bail!("no targets in {}", folder.display());
    }
    kill_and_cut()?;
    for target in targets {
        println!("fuzz {target}: {seconds} s");
        let limit = format!("-max_total_time={seconds}");
        // What is found goes to target/, the seeds in git are only read.
        let work = workspace::root().join("target/fuzz-corpus").join(&target);
        fs::create_dir_all(&work)?;
        let seeds = folder.join("seeds").join(&target);
        let mut cargo = std::process::Command::new("cargo");
        cargo.args(["+nightly", "fuzz", "run", &target]).arg(work).arg(seeds);
        workspace::must(cargo.args(["--", &limit]).current_dir(workspace::root()))?;
    }
    Ok(())
}

/// What fuzzing of bytes cannot find: what is left of a file whose writer is killed, or that is cut.
fn kill_and_cut() -> Result<()> {
    let test = ["test", "--release", "--package"];
    println!("a capture killed at {KILLS} moments");
    let mut kills = workspace::cargo(&test);
    kills.args(["netloom-capture", "--test", "kill", "--", "--nocapture", "--test-threads=1"]);
    workspace::must(kills.env("NETLOOM_CAPTURE_KILLS", KILLS))?;
    println!("files cut at a thousand places");
    let mut cuts = workspace::cargo(&test);
    workspace::must(cuts.args(["netloom-pcap", "--test", "files", "cut"]))
}
