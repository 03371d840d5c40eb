//! One run of cases: two switches and the tester in namespaces of their own, which end with this process.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::{Case, Suite};

const SESSION: &str = include_str!("../session.sh");
const LAUNCHER: &str = include_str!("../launcher.py");
/// The longest time from one case's result to the next; a case that fails takes some waits of the tester.
const PATIENCE: Duration = Duration::from_secs(180);
/// Pause between two looks.
const LOOK: Duration = Duration::from_millis(50);
/// Of a log, so much is shown.
const SHOWN: usize = 3000;

/// A switch of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Switch {
    /// Open vSwitch's, in userspace.
    Ovs,
    /// Ours: a command that calls [`crate::OwnSwitch::become_it`].
    Own(Vec<String>),
}

/// How cases are run.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The installed suite.
    pub suite: Suite,
    /// The switch that is tested.
    pub target: Switch,
    /// The switch that sends the tests' frames to it and takes its answers.
    pub assistant: Switch,
    /// How long the tester waits for a message, at most.
    pub wait: Duration,
    /// Whether the tester computes SCTP's checksum over bytes instead of their text.
    pub correct_sctp: bool,
    /// Whether the tester sends packets at a rate by the clock, not by sleeps.
    pub steady: bool,
}

/// What became of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Its heading and description.
    pub title: String,
    /// Whether it passed.
    pub passed: bool,
    /// Why not.
    pub detail: String,
}

/// What became of all cases of a run.
pub type Outcomes = BTreeMap<Case, Outcome>;

impl Switch {
    fn word(&self) -> &str {
        match self {
            Switch::Ovs => "ovs",
            Switch::Own(_) => "own",
        }
    }

    /// A shell script that starts it.
    fn script(&self) -> String {
        let Switch::Own(words) = self else { return String::new() };
        let quoted = words.iter().map(|word| format!(" '{}'", word.replace('\'', r"'\''")));
        format!("exec{}\n", quoted.collect::<String>())
    }
}

/// Ends what runs in the namespaces when it is dropped.
struct Tree(Child);

impl Drop for Tree {
    fn drop(&mut self) {
        // `unshare --kill-child`: the first process of the PID namespace goes with it, and so all others.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Setup {
    /// Runs cases of one version of OpenFlow, in their order.
    ///
    /// # Errors
    /// The switches or the tester do not start or stop working; the message has what they said.
    pub fn run(&self, cases: &[Case]) -> Result<Outcomes> {
        let Some(first) = cases.first() else { return Ok(Outcomes::new()) };
        if cases.iter().any(|case| case.is_of10() != first.is_of10()) {
            bail!("cases of two versions of OpenFlow in one run");
        }
        let folder = tempfile::Builder::new().prefix("nlc-").tempdir().context("make a folder")?;
        let folder = folder.path();
        let lines: String = cases.iter().map(|case| format!("{case}\n")).collect();
        let scripts = [("target.sh", &self.target), ("assistant.sh", &self.assistant)];
        let scripts = scripts.map(|(name, switch)| (name, switch.script()));
        let files = [("cases", lines.as_str()), ("s.sh", SESSION), ("l.py", LAUNCHER)];
        for (name, text) in files.into_iter().chain(scripts.iter().map(|(n, t)| (*n, t.as_str()))) {
            fs::write(folder.join(name), text).with_context(|| format!("write {name}"))?;
        }
        let results = folder.join("results");
        let mut tree =
            Tree(self.command(folder, first.is_of10()).spawn().context("start unshare")?);
        let ended = watch(&mut tree, &results);
        let outcomes = read(&results)?;
        let missing = cases.iter().find(|case| !outcomes.contains_key(case));
        match (ended, missing) {
            (Ok(()), None) => Ok(outcomes),
            (Ok(()), Some(case)) => bail!("no result of {case}: {}", logs(folder)),
            (Err(error), _) => Err(error.context(logs(folder))),
        }
    }

    fn command(&self, folder: &Path, of10: bool) -> Command {
        let (option, version) = if of10 { ("1.0", "openflow10") } else { ("1.3", "openflow13") };
        // The signal ends all when this process is killed.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "unshare"]);
        if !netloom_kit::is_root() {
            command.args(["--user", "--map-root-user"]);
        }
        command.args(["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh"]);
        command.arg(folder.join("s.sh")).arg(folder);
        command.arg(self.target.word()).arg(self.assistant.word()).arg(option);
        command.arg(&self.suite.python).arg(folder.join("l.py")).arg(&self.suite.folder);
        command.arg(version).arg(folder.join("cases")).arg(folder.join("results"));
        command.arg("--wait").arg(self.wait.as_secs_f64().to_string());
        command.args(self.correct_sctp.then_some("--correct-sctp"));
        command.args(self.steady.then_some("--steady"));
        let log = fs::File::create(folder.join("session.log")).map_or(Stdio::null(), Stdio::from);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        command
    }
}

/// Waits for the end, as long as results come.
fn watch(tree: &mut Tree, results: &Path) -> Result<()> {
    let (mut seen, mut since) = (0, Instant::now());
    loop {
        if let Some(status) = tree.0.try_wait().context("wait for unshare")? {
            if !status.success() {
                bail!("the run ended early: {status}");
            }
            return Ok(());
        }
        let size = fs::metadata(results).map_or(0, |meta| meta.len());
        if size != seen {
            (seen, since) = (size, Instant::now());
        }
        if since.elapsed() > PATIENCE {
            bail!("no result for {PATIENCE:?}");
        }
        std::thread::sleep(LOOK);
    }
}

fn read(results: &Path) -> Result<Outcomes> {
    let text = fs::read_to_string(results).unwrap_or_default();
    // A killed launcher may leave half a line.
    let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    whole.map(outcome).collect()
}

fn outcome(line: &str) -> Result<(Case, Outcome)> {
    let value: Value = serde_json::from_str(line).context("read the launcher's results")?;
    let text = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
    let passed = value["passed"].as_bool().context("a result says whether its case passed")?;
    Ok((text("case").parse()?, Outcome { title: text("title"), passed, detail: text("detail") }))
}

/// The ends of all logs.
fn logs(folder: &Path) -> String {
    let mut said = String::new();
    for name in ["session", "launcher", "target", "assistant", "vswitchd", "ovsdb"] {
        let text = fs::read(folder.join(format!("{name}.log"))).unwrap_or_default();
        let end = text.get(text.len().saturating_sub(SHOWN)..).unwrap_or_default();
        if !end.is_empty() {
            said += &format!("--- {name}\n{}\n", String::from_utf8_lossy(end).trim_end());
        }
    }
    said
}
