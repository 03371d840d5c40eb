//! `fuzz [SECONDS [TARGET]]`: every target in `fuzz/` for that long, on its seeds in git. Before that:
//! attacks on labs, 25 times as often as in an ordinary test run; captures and recorders killed and files cut at a
//! thousand moments and places; the properties of `core/` in twenty thousand cases; the API against its document
//! by schemathesis.
//!
//! Uses the ordinary compiler: coverage comes from LLVM passes that a stable one also has.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::workspace;

/// Kills of a capture to a single file, and as many of one with rotating files.
const KILLS: &str = "1000";
/// Rounds of six kills of a recorder: a thousand.
const RECORDER_ROUNDS: &str = "167";
/// Cases per property.
const CASES: &str = "20000";
/// Requests for each operation of the API.
const REQUESTS: &str = "50";
/// Counters that libFuzzer reads.
const COVERAGE: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
                        -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
                        -Cllvm-args=-sanitizer-coverage-pc-table --cfg fuzzing";
/// An input that exceeds this time in seconds or memory in MiB is a finding.
const LIMITS: [&str; 3] = ["-timeout=20", "-rss_limit_mb=3000", "-max_len=4096"];

pub(crate) fn run(args: &[String]) -> Result<()> {
    let seconds: u32 = match args.first() {
        None => 60,
        Some(text) => {
            text.parse().with_context(|| format!("`{text}` is not a number of seconds"))?
        }
    };
    let folder = workspace::root().join("fuzz");
    let mut targets = targets(&folder)?;
    match args.get(1) {
        None => {
            crate::test::run(&["attack".to_owned()])?;
            kill_and_cut()?;
            properties()?;
            api()?;
        }
        Some(only) => targets.retain(|target| target == only),
    }
    if targets.is_empty() {
        bail!("no such target in {}", folder.display());
    }
    let built = build(&folder)?;
    for target in targets {
        println!("fuzz {target}: {seconds} s");
        fuzz(&built, &folder, &target, seconds)?;
    }
    Ok(())
}

fn targets(folder: &Path) -> Result<Vec<String>> {
    let mut targets: Vec<String> = vec![];
    for entry in fs::read_dir(folder.join("fuzz_targets")).context("list fuzz targets")? {
        let path = entry?.path();
        if path.extension().is_some_and(|ending| ending == "rs") {
            targets.extend(path.file_stem().map(|stem| stem.to_string_lossy().into_owned()));
        }
    }
    targets.sort();
    Ok(targets)
}

/// Builds all targets; returns their folder.
fn build(folder: &Path) -> Result<PathBuf> {
    let about = workspace::output(Command::new("rustc").arg("-vV"))?;
    let about = String::from_utf8_lossy(&about);
    // With an explicit target, build scripts are not instrumented.
    let host = about.lines().find_map(|line| line.strip_prefix("host: "));
    let host = host.context("rustc names no host")?;
    let into = workspace::root().join("target/fuzz");
    let mut cargo = workspace::cargo(&["build", "--release", "--target", host]);
    cargo.arg("--manifest-path").arg(folder.join("Cargo.toml")).arg("--target-dir").arg(&into);
    workspace::must(cargo.env("RUSTFLAGS", COVERAGE))?;
    Ok(into.join(host).join("release"))
}

fn fuzz(built: &Path, folder: &Path, target: &str, seconds: u32) -> Result<()> {
    // Findings go to target/; the seeds in git are only read.
    let work = workspace::root().join("target/fuzz-corpus").join(target);
    let findings = workspace::root().join("target/fuzz-findings").join(target);
    for folder in [&work, &findings] {
        fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
    }
    let mut command = Command::new(built.join(target));
    command.args(LIMITS).arg(format!("-max_total_time={seconds}"));
    command.arg(format!("-artifact_prefix={}/", findings.display()));
    if target == "lab_parse" {
        command.arg(format!("-dict={}", folder.join("lab.dict").display()));
    }
    // libFuzzer writes what it finds into the first folder and only reads the others.
    command.arg(work).arg(folder.join("seeds").join(target)).current_dir(workspace::root());
    workspace::must(&mut command).with_context(|| format!("see {}", findings.display()))
}

/// Failures that fuzzing of bytes cannot find: files of a killed writer, and truncated files.
fn kill_and_cut() -> Result<()> {
    let test = ["test", "--release", "--package"];
    println!("a capture killed at {KILLS} moments");
    let mut kills = workspace::cargo(&test);
    kills.args(["netloom-capture", "--lib", "integration::kill", "--", "--nocapture"]);
    kills.arg("--test-threads=1");
    workspace::must(kills.env("NETLOOM_CAPTURE_KILLS", KILLS))?;
    println!("a recorder killed at as many");
    let mut recorder = workspace::cargo(&test);
    recorder.args(["netloom-record", "--lib", "integration::kill::a_killed", "--", "--nocapture"]);
    workspace::must(recorder.env("NETLOOM_ROUNDS", RECORDER_ROUNDS))?;
    println!("files cut at a thousand places");
    let mut cuts = workspace::cargo(&test);
    workspace::must(cuts.args(["netloom-pcap", "--lib", "cut"]))
}

/// The API's document against its server.
fn api() -> Result<()> {
    println!("the API in {REQUESTS} cases for each operation");
    let mut test = workspace::cargo(&["test", "--release", "--package", "netloom-api", "--lib"]);
    test.args(["fuzzed", "--", "--nocapture"]);
    workspace::must(test.env("NETLOOM_API_CASES", REQUESTS))
}

/// Property tests of pure crates, with many more cases than usual.
fn properties() -> Result<()> {
    println!("properties of core/ in {CASES} cases each");
    let metadata = workspace::metadata()?;
    let core = metadata["packages"].as_array().into_iter().flatten().filter_map(|package| {
        let manifest = Path::new(package["manifest_path"].as_str()?);
        let ours = manifest.starts_with(workspace::root().join("core"));
        ours.then(|| package["name"].as_str().map(|name| format!("--package={name}")))?
    });
    let packages: Vec<String> = core.collect();
    let mut tests = workspace::cargo(&["test", "--release", "--lib"]);
    tests.args(packages).env("PROPTEST_CASES", CASES);
    workspace::must(tests.env(workspace::PROPERTIES_SEED, workspace::new_seed().to_string()))
}
