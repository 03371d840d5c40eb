//! `conformance [DIRECTORY...] [OPTION...]`: os-ken's switch tests, each directory twice; see [`HELP`].

#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use netloom_conformance::{
    Allowed, Case, DIRECTORIES, Outcomes, OwnSwitch, Plane, SCTP, SLEEP, Setup, Suite, Switch,
    Verdict, sample,
};

const HELP: &str = "\
usage: cargo xtask conformance [DIRECTORY...] [OPTION...]

os-ken's switch tests on our OpenFlow switch, each directory twice; both runs must have the same results.
Exits with an error when a case fails that tests/conformance/allowed.txt does not allow to, or passes that it does.

  DIRECTORY                 of10, of13/action, of13/match, of13/group, of13/meter (all by default), or another
  --sample N                only N cases, always the same
  --runs N                  number of runs (2)
  --target ovs              Open vSwitch's userspace switch instead, for comparison: nothing is judged
  --assistant own           a second switch of ours beside the target instead of Open vSwitch's
  --plane kernel|packets    our switch's data plane: programs in the kernel, or packet sockets (the best there is)
  --correct-sctp            have os-ken compute the checksum of SCTP over bytes, not over their text
  --steady                  have os-ken send packets at a rate by the clock, not by sleeps that take longer
  --wait SECONDS            how long the tester waits for a message (3)
  --output FOLDER           where each run's results are written (target/conformance)
";

/// The hidden verb by which it is a switch itself.
const SWITCH: &str = "switch";

#[derive(Debug)]
struct Options {
    directories: Vec<String>,
    sample: Option<usize>,
    runs: usize,
    ovs: bool,
    own_assistant: bool,
    plane: String,
    /// The beginnings of reasons that do not hold in these runs.
    corrected: Vec<&'static str>,
    wait: Duration,
    output: PathBuf,
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.first().is_some_and(|word| word == SWITCH) {
        let plane = args.get(1).map_or(Ok(Plane::Best), |word| word.parse());
        return ended(plane.and_then(OwnSwitch::become_it).map(|()| true));
    }
    ended(parse(&args).and_then(|options| options.map_or(Ok(true), |options| run(&options))))
}

fn ended(how: Result<bool>) -> ExitCode {
    match how {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("conformance: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn parse(args: &[String]) -> Result<Option<Options>> {
    let mut options = Options {
        directories: vec![],
        sample: None,
        runs: 2,
        ovs: false,
        own_assistant: false,
        plane: "best".into(),
        corrected: vec![],
        wait: Duration::from_secs(3),
        output: "target/conformance".into(),
    };
    let mut words = args.iter().map(String::as_str);
    while let Some(word) = words.next() {
        let mut value = || words.next().with_context(|| format!("{word} needs a value\n{HELP}"));
        match word {
            "--help" | "-h" => {
                print!("{HELP}");
                return Ok(None);
            }
            "--sample" => options.sample = Some(number(value()?)?),
            "--runs" => options.runs = number(value()?)?.max(1),
            "--target" => options.ovs = ovs_or_own(value()?)?,
            "--assistant" => options.own_assistant = !ovs_or_own(value()?)?,
            "--plane" => options.plane = plane(value()?)?,
            "--correct-sctp" => options.corrected.push(SCTP),
            "--steady" => options.corrected.push(SLEEP),
            "--wait" => options.wait = Duration::from_secs(u64::try_from(number(value()?)?)?),
            "--output" => options.output = value()?.into(),
            _ if word.starts_with('-') => bail!("no option `{word}`\n{HELP}"),
            _ => options.directories.push(word.trim_end_matches('/').to_owned()),
        }
    }
    if options.directories.is_empty() {
        options.directories = DIRECTORIES.map(str::to_owned).to_vec();
    }
    Ok(Some(options))
}

fn number(text: &str) -> Result<usize> {
    text.parse().with_context(|| format!("`{text}` is not a number"))
}

/// The word of a plane that there is.
fn plane(text: &str) -> Result<String> {
    text.parse::<Plane>().map(|_| text.to_owned())
}

fn ovs_or_own(text: &str) -> Result<bool> {
    match text {
        "ovs" => Ok(true),
        "own" => Ok(false),
        _ => bail!("`{text}`: ovs or own"),
    }
}

/// Whether everything is as it is to be.
fn run(options: &Options) -> Result<bool> {
    let suite = Suite::find().context("os-ken is not installed: make peers")?;
    let mut all = vec![];
    for directory in &options.directories {
        all.extend(suite.cases(directory)?);
    }
    let cases = options.sample.map_or_else(|| all.clone(), |count| sample(&all, count));
    let allowed =
        if options.ovs { Allowed::default() } else { Allowed::of_ours(&options.corrected)? };
    for directory in &options.directories {
        if let Some(case) = allowed.unknown(directory, &all).first() {
            bail!("allowed.txt: {case}: the suite has no such case");
        }
    }
    let setup = setup(options, suite)?;
    let runs: Vec<Outcomes> = (1..=options.runs)
        .map(|number| one(&setup, options, &cases, number))
        .collect::<Result<_>>()?;
    let verdict = Verdict::new(&runs, &allowed);
    write(&verdict, options)?;
    Ok(tell(&verdict, options) || options.ovs)
}

fn setup(options: &Options, suite: Suite) -> Result<Setup> {
    let own = || {
        let program = std::env::current_exe().context("own path")?.into_os_string();
        let program = program.into_string();
        let program = program.map_err(|path| anyhow!("{}: not UTF-8", path.display()))?;
        Ok::<Switch, anyhow::Error>(Switch::Own(vec![
            program,
            SWITCH.to_owned(),
            options.plane.clone(),
        ]))
    };
    // It needs root also in a user namespace.
    let usable = netloom_kit::program("ovs-vswitchd").is_some() && netloom_kit::is_root();
    if !usable && options.ovs {
        bail!("Open vSwitch needs root, and to be installed: make peers");
    }
    let assistant = if options.own_assistant || !usable { own()? } else { Switch::Ovs };
    let target = if options.ovs { Switch::Ovs } else { own()? };
    let corrected = |reason| options.corrected.contains(&reason);
    let (correct_sctp, steady) = (corrected(SCTP), corrected(SLEEP));
    Ok(Setup { suite, target, assistant, wait: options.wait, correct_sctp, steady })
}

/// One run of all directories, each with switches of its own.
fn one(setup: &Setup, options: &Options, cases: &[Case], number: usize) -> Result<Outcomes> {
    let mut outcomes = Outcomes::new();
    for directory in &options.directories {
        let begin = Instant::now();
        let of_it: Vec<Case> = cases.iter().filter(|case| case.is_in(directory)).cloned().collect();
        let done = setup.run(&of_it).with_context(|| format!("{directory}, run {number}"))?;
        let passed = done.values().filter(|outcome| outcome.passed).count();
        let seconds = begin.elapsed().as_secs_f64();
        println!("run {number} {directory}: {passed} of {} passed, {seconds:.0} s", done.len());
        outcomes.extend(done);
    }
    Ok(outcomes)
}

fn write(verdict: &Verdict, options: &Options) -> Result<()> {
    let folder: &Path = &options.output;
    std::fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
    let target = match options.plane.as_str() {
        _ if options.ovs => "ovs".to_owned(),
        "best" => "own".to_owned(),
        plane => format!("own-{plane}"),
    };
    for run in 0..options.runs {
        let file = folder.join(format!("{target}-{}.txt", run + 1));
        std::fs::write(&file, verdict.text(run))
            .with_context(|| format!("write {}", file.display()))?;
    }
    Ok(())
}

/// Prints what is wrong, and counts; whether nothing is wrong.
fn tell(verdict: &Verdict, options: &Options) -> bool {
    let wrong = verdict.wrong();
    if !options.ovs {
        wrong.iter().for_each(|line| println!("{line}"));
    }
    for directory in &options.directories {
        let (each, any) = verdict.passed(directory);
        let each: Vec<String> = each.iter().map(usize::to_string).collect();
        let tally = verdict.tally(directory);
        println!("{directory}: {tally} (passed: {} in runs, {any} in any)", each.join(", "));
    }
    wrong.is_empty()
}
