//! Brings a lab up, plants a fault in it, asks, and takes the lab down.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::list::{Fault, Step};
use crate::test::stage::Stage;
use crate::test::user::User;

/// How long a command, or what a fault waits for, may take on a busy machine.
const BOUND: Duration = Duration::from_secs(180);

/// What `why` said, and how long it took.
#[derive(Debug)]
pub(super) struct Answers {
    pub(super) report: Value,
    pub(super) took: Duration,
    /// Of flows that do not suffer.
    pub(super) sound: Vec<Value>,
}

struct Done {
    success: bool,
    out: String,
    errors: String,
}

struct Lab<'a> {
    stage: &'a Stage,
    user: User,
    worker: usize,
    runtime: String,
    name: String,
    started: Vec<Child>,
}

impl Drop for Lab<'_> {
    fn drop(&mut self) {
        // Those that are started end with their nodes.
        if let Err(error) = self.netloom(&["down", &self.name.clone()]) {
            eprintln!("faults: {error:#}");
        }
        for child in &mut self.started {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// What `why` says when a fault is planted.
pub(super) fn ask(
    stage: &Stage,
    user: User,
    worker: usize,
    fault: &Fault,
    show: bool,
) -> Result<Answers> {
    let file = lab_file(stage, user, worker, fault)?;
    let runtime = stage.runtime(user, worker)?.to_string_lossy().into_owned();
    let mut lab = Lab { stage, user, worker, runtime, name: fault.lab.clone(), started: vec![] };
    let path = file.to_string_lossy().into_owned();
    lab.must(&["up", &path])?;
    for step in &fault.steps {
        lab.step(step).with_context(|| format!("{step:?}"))?;
    }
    let begin = Instant::now();
    let report = lab.why(&fault.ask, show)?;
    let took = begin.elapsed();
    let sound = fault.sound.iter().map(|flow| lab.why(flow, show)).collect::<Result<_>>()?;
    Ok(Answers { report, took, sound })
}

/// The lab's file with the fault's edits, where every user can read it.
fn lab_file(stage: &Stage, user: User, worker: usize, fault: &Fault) -> Result<PathBuf> {
    let folder = stage.path().join("root/tests/faults");
    let path = folder.join(format!("{}.yaml", fault.lab));
    let mut text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
    for (old, new) in &fault.edits {
        if text.matches(old.as_str()).count() != 1 {
            bail!("{} does not have {old:?} once", path.display());
        }
        text = text.replace(old.as_str(), new);
    }
    let file = folder.join(format!("{user:?}-{worker}.yaml"));
    fs::write(&file, text).with_context(|| format!("write {}", file.display()))?;
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644))?;
    Ok(file)
}

impl Lab<'_> {
    fn command(&self, words: &[&str]) -> Result<Command> {
        let binary = self.stage.path().join("netloom");
        let runtime = [("NETLOOM_RUNTIME_DIR", self.runtime.clone())];
        let mut command = self.stage.command(&binary, self.user, self.worker, &runtime)?;
        command.args(words);
        Ok(command)
    }

    fn netloom(&self, words: &[&str]) -> Result<Done> {
        finish(self.command(words)?).with_context(|| format!("netloom {}", words.join(" ")))
    }

    fn must(&self, words: &[&str]) -> Result<String> {
        let done = self.netloom(words)?;
        if !done.success {
            bail!("netloom {}: {}{}", words.join(" "), done.out, done.errors);
        }
        Ok(done.out)
    }

    fn step(&mut self, step: &Step) -> Result<()> {
        match step {
            Step::Run { node, command } => self.must(&self.exec(node, command)).map(drop),
            Step::Start { node, command } => {
                let mut command = self.command(&self.exec(node, command))?;
                let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
                self.started.push(child);
                Ok(())
            }
            Step::Netloom(words) => {
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                self.must(&words).map(drop)
            }
            Step::Until { node, command, text } => {
                let end = Instant::now() + BOUND;
                loop {
                    let done = self.netloom(&self.exec(node, command))?;
                    if done.out.contains(text.as_str()) {
                        return Ok(());
                    }
                    if Instant::now() > end {
                        bail!("still: {}{}", done.out, done.errors);
                    }
                    std::thread::sleep(Duration::from_millis(50));
                }
            }
            Step::End(node) => self.end(node),
        }
    }

    fn exec<'b>(&'b self, node: &'b str, command: &'b str) -> [&'b str; 8] {
        ["-l", &self.name, "exec", node, "--", "sh", "-c", command]
    }

    /// Kills a node's init.
    fn end(&self, node: &str) -> Result<()> {
        let status: Value =
            serde_json::from_str(&self.must(&["-l", &self.name, "status", "--json"])?)?;
        let nodes = status["nodes"].as_array().cloned().unwrap_or_default();
        let found = nodes.iter().find(|n| n["name"] == node).and_then(|n| n["pid"].as_i64());
        let pid = found.and_then(|pid| i32::try_from(pid).ok());
        let pid = pid.and_then(rustix::process::Pid::from_raw).context("a process id")?;
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).context("kill it")
    }

    fn why(&self, flow: &[String], show: bool) -> Result<Value> {
        let mut words = vec!["-l", &self.name, "why"];
        words.extend(flow.iter().map(String::as_str));
        words.extend(["-4", "--json"]);
        let done = self.netloom(&words)?;
        let report: Value = serde_json::from_str(&done.out)
            .with_context(|| format!("why {}: {}", flow.join(" "), done.errors))?;
        if show {
            println!("{report:#}");
        }
        Ok(report)
    }
}

/// Runs a command within the bound. Its output goes to files, which nothing that it leaves behind keeps open.
fn finish(mut command: Command) -> Result<Done> {
    let (out, errors) = (tempfile::tempfile()?, tempfile::tempfile()?);
    command.stdout(out.try_clone()?).stderr(errors.try_clone()?);
    let mut child = command.spawn()?;
    let end = Instant::now() + BOUND;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if Instant::now() > end {
            child.kill()?;
            child.wait()?;
            bail!("has not ended after {BOUND:?}");
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    Ok(Done { success: status.success(), out: text(out)?, errors: text(errors)? })
}

fn text(mut file: File) -> Result<String> {
    use std::io::Seek;
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
