//! `why --try`: does what a report proposes in a copy of the lab, and looks whether it helps.
//!
//! The copy is a lab in the foreground, so that its own process takes it down should this one be killed. It is made of the running lab's plan,
//! shares nothing with it, and is given what the networks of its nodes were given since. Mends are those that `why` proposes in the
//! copy: handles of rules are others there. They are tried only if packets are lost there as they are in the lab.

use std::io::Write;
use std::os::fd::OwnedFd;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use netloom_api::Client;
use netloom_lab::calls::{self, ListLinks, SetLink};
use netloom_lab::launch::{Launch, Options, Outcome};
use netloom_lab::view::{AskWhy, LinkSettings};
use netloom_lab::{Folder, runtime_dir};
use netloom_model::Plan;
use netloom_model::kinds::SwitchKind;
use netloom_sys::process::wait_readable;
use netloom_why::{Cause, Report};
use serde::Serialize;

use crate::labs;
use crate::verbs::{down, saved, up};

/// How long the copy may take until packets are lost there as in the lab, and until a mend shows.
const SETTLES: Duration = Duration::from_secs(6);

/// The same where routers learn from each other.
const CONVERGES: Duration = Duration::from_secs(60);

const PAUSE: Duration = Duration::from_millis(200);

/// What a trial found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Finding {
    /// With the mends the packets arrive.
    Helps,
    /// They do not.
    DoesNotHelp,
    /// Nothing was tried.
    NotTried,
}

/// A trial.
#[derive(Debug, Serialize)]
pub(super) struct Trial {
    pub(super) found: Finding,
    /// Why nothing was tried.
    reason: Option<String>,
    /// The copy, which is gone.
    lab: Option<String>,
    /// The commands, as they were done in the copy.
    mends: Vec<String>,
    /// What the copy did not have of the lab.
    not_copied: Vec<String>,
    /// What `why` says in the copy after the mends.
    after: Option<Report>,
}

impl Trial {
    fn none(reason: impl Into<String>) -> Trial {
        Trial {
            found: Finding::NotTried,
            reason: Some(reason.into()),
            lab: None,
            mends: vec![],
            not_copied: vec![],
            after: None,
        }
    }

    /// For people.
    pub(super) fn text(&self) -> String {
        let mut lines = Vec::new();
        match (&self.found, &self.lab) {
            (Finding::NotTried, _) => {
                lines.push(format!("not tried: {}", self.reason.as_deref().unwrap_or_default()))
            }
            (_, lab) => {
                lines.push(format!(
                    "tried in {}, a copy of the lab:",
                    lab.as_deref().unwrap_or("-")
                ));
                lines.extend(self.mends.iter().map(|mend| format!("  {mend}")));
            }
        }
        if let Some(after) = &self.after {
            let helped = if self.found == Finding::Helps { "it helps" } else { "it does not help" };
            lines.push(format!("  {helped}: the flow {}", after.verdict.words()));
            lines.extend(after.causes.iter().map(|cause| {
                format!("  still: {} at {}: {}", cause.name, cause.place, cause.text)
            }));
        }
        lines.extend(self.not_copied.iter().map(|what| format!("not copied: {what}")));
        lines.join("\n") + "\n"
    }
}

/// Tries what a report of a lab proposes.
pub(super) fn attempt(launch: Launch, lab: &str, asked: &AskWhy, report: &Report) -> Result<Trial> {
    if report.verdict.arrives() {
        return Ok(Trial::none("the flow arrives"));
    }
    if report.causes.iter().all(|cause| cause.mend.is_none()) {
        return Ok(Trial::none("no single command is known that would let it pass"));
    }
    let client = labs::connect(Some(lab))?;
    let plan = saved::now(&client)?;
    let name = name_of_copy(&plan.lab);
    let (copy, not_copied) = match plan.isolated(&name) {
        Ok(made) => made,
        Err(reason) => return Ok(Trial::none(format!("the lab cannot be copied: {reason}"))),
    };
    let signals = super::super::ending()?;
    let patience = match copy.nodes.iter().any(|node| node.kind.as_router().is_some()) {
        true => CONVERGES,
        false => SETTLES,
    };
    let life = match start(launch, copy)? {
        Ok(life) => life,
        Err(reason) => return Ok(Trial::none(reason)),
    };
    let folder = Folder::new(&runtime_dir()?, &name);
    let mut trial = Trial { lab: Some(name.clone()), not_copied, ..Trial::none("") };
    let run = Run { lab, copy: &name, plan: &plan, asked, signals: &signals, patience };
    let tried = run.run(&client, report, &mut trial);
    let down = down::take_down(&folder);
    // Only after it was asked to go: a foreground lab ends with its maker anyway.
    drop(life);
    tried?;
    down?;
    Ok(trial)
}

/// A name that no other lab has.
fn name_of_copy(lab: &str) -> String {
    let ending = format!("-try-{}", std::process::id());
    // Names of labs are ASCII, and have 63 bytes at most.
    format!("{}{ending}", lab.get(..lab.len().min(63 - ending.len())).unwrap_or("lab"))
}

/// Brings the copy up; why it does not come up.
fn start(launch: Launch, plan: Plan) -> Result<Result<std::os::unix::net::UnixStream, String>> {
    let options = Options {
        runtime: runtime_dir()?,
        base: "/".into(),
        file: None,
        foreground: true,
        ignore_limits: true,
        keep: false,
        progress: false,
        tell: labs::tell,
        across: None,
    };
    match up::start(launch, plan, &options) {
        // Programs that fail there may fail in the lab, too.
        Ok(Outcome::Up { life, .. }) => Ok(Ok(life)),
        Ok(Outcome::Runs { .. }) => bail!("a lab of the copy's name is already running"),
        Err(error) => {
            Ok(Err(format!("the copy did not come up: {}", netloom_sys::describe(&*error))))
        }
    }
}

struct Run<'a> {
    lab: &'a str,
    copy: &'a str,
    plan: &'a Plan,
    asked: &'a AskWhy,
    signals: &'a OwnedFd,
    patience: Duration,
}

impl Run<'_> {
    fn run(&self, lab: &Client, report: &Report, trial: &mut Trial) -> Result<()> {
        let copy = labs::connect(Some(self.copy))?;
        self.bring_links(lab, &copy)?;
        trial.not_copied.extend(self.bring_state()?);
        for switch in &self.plan.switches {
            if matches!(switch.kind, SwitchKind::Openflow(_)) {
                trial.not_copied.extend(self.bring_entries(&switch.name)?);
            }
        }
        let wanted = causes(report);
        let found = self.until(&copy, |found| causes(found) == wanted)?;
        if causes(&found) != wanted {
            let words: Vec<String> = match found.causes.as_slice() {
                [] => vec![format!("the flow {}", found.verdict.words())],
                all => {
                    all.iter().map(|cause| format!("{} at {}", cause.name, cause.place)).collect()
                }
            };
            trial.reason = Some(format!(
                "in a copy of the lab packets are not lost as they are here, but: {}",
                words.join(", ")
            ));
            return Ok(());
        }
        let mends: Vec<&str> = found.causes.iter().filter_map(|c| c.mend.as_deref()).collect();
        for mend in mends {
            for command in mend.split(" && ") {
                trial.mends.push(command.to_owned());
                let done = own(command.split_whitespace().skip(1), None)?;
                if !done.status.success() {
                    let said = String::from_utf8_lossy(&done.stderr);
                    trial.reason = Some(format!("`{command}` failed: {}", said.trim()));
                    return Ok(());
                }
            }
        }
        let after = self.until(&copy, |found| found.verdict.arrives())?;
        trial.found = match after.verdict.arrives() {
            true => Finding::Helps,
            false => Finding::DoesNotHelp,
        };
        trial.reason = None;
        trial.after = Some(after);
        Ok(())
    }

    /// Asks `why` in the copy until its answer is as wanted, or the time is over.
    fn until(&self, copy: &Client, is_so: impl Fn(&Report) -> bool) -> Result<Report> {
        let until = Instant::now() + self.patience;
        loop {
            let found = copy.call(&calls::Why { request: self.asked.clone() })?;
            if is_so(&found) || Instant::now() >= until {
                return Ok(found);
            }
            if wait_readable(self.signals, PAUSE) {
                bail!("interrupted");
            }
        }
    }

    /// Links that were taken down are down there, too.
    fn bring_links(&self, lab: &Client, copy: &Client) -> Result<()> {
        let there = copy.call(&ListLinks::whole())?;
        for link in lab.call(&ListLinks::whole())?.into_iter().filter(|link| link.down) {
            if there.iter().any(|found| found.name == link.name) {
                let change = LinkSettings { up: Some(false), ..LinkSettings::default() };
                copy.call(&SetLink { link: link.name.as_str().into(), change })?;
            }
        }
        Ok(())
    }

    fn bring_state(&self) -> Result<Vec<String>> {
        let read = own(["network-state", "read", self.lab], None)?;
        let read = succeeded("read what networks of the lab have", read)?;
        let put = own(["network-state", "put", self.copy], Some(&read))?;
        let notes = succeeded("give that to the copy", put)?;
        serde_json::from_slice(&notes).context("what the copy was given")
    }

    /// The entries of an OpenFlow switch, in place of those that it has; what it refuses, in words.
    fn bring_entries(&self, switch: &str) -> Result<Vec<String>> {
        let dump = own(["-l", self.lab, "flow", "dump", switch, "--plain"], None)?;
        if !dump.status.success() {
            return Ok(vec![format!("entries of switch {switch}")]);
        }
        succeeded("empty a switch", own(["-l", self.copy, "flow", "del", switch, "--all"], None)?)?;
        if dump.stdout.is_empty() {
            return Ok(vec![]);
        }
        let add = own(["-l", self.copy, "flow", "add", switch, "-"], Some(&dump.stdout))?;
        let refused = String::from_utf8_lossy(&add.stderr).trim().to_owned();
        Ok(match add.status.success() {
            true => vec![],
            false => vec![format!("entries of switch {switch}: {refused}")],
        })
    }
}

/// What tells whether packets are lost in the same way.
fn causes(report: &Report) -> Vec<(String, String, netloom_why::Direction)> {
    let key = |cause: &Cause| (cause.name.to_string(), cause.place.clone(), cause.direction);
    report.causes.iter().map(key).collect()
}

fn succeeded(what: &str, done: Output) -> Result<Vec<u8>> {
    if !done.status.success() {
        bail!("{what}: {}", String::from_utf8_lossy(&done.stderr).trim());
    }
    Ok(done.stdout)
}

/// This program with other words.
fn own<'w>(words: impl IntoIterator<Item = &'w str>, input: Option<&[u8]>) -> Result<Output> {
    let mut command = Command::new("/proc/self/exe");
    command.args(words).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() });
    let mut child = command.spawn().context("start netloom")?;
    if let (Some(mut pipe), Some(input)) = (child.stdin.take(), input) {
        // It writes nothing before it has read all of it. One that has failed says why.
        let _ = pipe.write_all(input);
    }
    child.wait_with_output().context("wait for netloom")
}
