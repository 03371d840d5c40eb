//! The process of one tested lab: brings it up, takes its steps, and takes it down, whatever happens. It reports by lines
//! of JSON on standard output.
//!
//! The lab is one in the foreground: should this process be killed, its lab process takes it down.

use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Instant;

use anyhow::Result;
use netloom_lab::calls::ReadLog;
use netloom_lab::launch::{Launch, Options, Outcome};
use netloom_lab::view::LogLine;
use netloom_lab::{Folder, runtime_dir};
use netloom_model::expect::What;
use netloom_model::{Lab, Plan};
use netloom_session::probe::Question;

use super::checker::Checker;
use super::command::Cut;
use super::late::Late;
use super::recording::Recording;
use super::report::{Line, Step};
use crate::verbs::{down, record, roles, up};
use crate::{labs, output, source};

/// How many of the last lines of programs are reported.
const LINES: usize = 40;

/// `netloom test-lab`
pub(crate) fn lab(
    starter: i32,
    file: &Path,
    name: &str,
    ignore_limits: bool,
    captures: Option<&Path>,
) -> Result<i32> {
    roles::begin(starter)?;
    let launch = Launch::begin()?;
    let signals = super::super::ending()?;
    let lab = source::lab(file, Some(name))?;
    let (plan, claim) = source::with_free_addresses(&lab, netloom_model::plan::plan(&lab)?)?;
    let options = Options {
        runtime: runtime_dir()?,
        base: source::base(file),
        file: source::full(file),
        foreground: true,
        ignore_limits,
        keep: false,
        progress: false,
        tell: labs::tell,
        across: None,
    };
    let begun = Instant::now();
    let up = up::start(launch, plan.clone(), &options);
    // By now the lab's doors have the addresses, or it has failed.
    drop(claim);
    let life = match up {
        Ok(outcome) => {
            let (step, life) = came_up(outcome, &plan, begun);
            tell(&Line::Step(step))?;
            life
        }
        Err(error) => {
            tell(&Line::Error { reason: netloom_sys::describe(&*error) })?;
            return Ok(crate::exit_code(&error));
        }
    };
    let folder = Folder::new(&runtime_dir()?, name);
    let tested = take_steps(&folder, (&plan, &lab), &signals, captures);
    let down = down::take_down(&folder);
    // Only after it was asked to go: a foreground lab ends with its maker anyway.
    drop(life);
    record::forget(&folder);
    let all_hold = match tested {
        Ok(all_hold) => all_hold,
        Err(error) => {
            tell(&Line::Error { reason: netloom_sys::describe(&*error) })?;
            false
        }
    };
    if let Err(error) = down {
        tell(&Line::Error { reason: netloom_sys::describe(&*error) })?;
        return Ok(1);
    }
    Ok(i32::from(!all_hold))
}

/// The first step: the lab is up.
fn came_up(
    outcome: Outcome,
    plan: &Plan,
    begun: Instant,
) -> (Step, Option<std::os::unix::net::UnixStream>) {
    let (troubles, notes, life) = match outcome {
        Outcome::Up { troubles, notes, life, .. } => (troubles, notes, Some(life)),
        Outcome::Runs { .. } => {
            (vec!["a lab of this name is already running".to_owned()], vec![], None)
        }
    };
    let (nodes, links) = (plan.nodes.len(), plan.links.len());
    let counts = format!("{}, {}", output::count(nodes, "node"), output::count(links, "link"));
    let mut seen = vec![counts];
    seen.extend(troubles.iter().cloned());
    seen.extend(notes);
    let name = "comes up".to_owned();
    let step = Step {
        expected: name.clone(),
        name,
        holds: troubles.is_empty(),
        seen: seen.join("\n"),
        ms: since(begun),
    };
    (step, life)
}

fn since(begun: Instant) -> u64 {
    u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// Takes all steps; returns whether all hold. `captures` is what the files with frames of steps that do not hold begin with.
fn take_steps(
    folder: &Folder,
    (plan, lab): (&Plan, &Lab),
    signals: &OwnedFd,
    captures: Option<&Path>,
) -> Result<bool> {
    let client = labs::connect_to(folder)?;
    let checker = Checker::new(&client, plan, signals);
    let mut late = Late::begin(&client);
    let mut all_hold = true;
    for (step, number) in lab.expect.iter().zip(1..) {
        let recording = captures.map(|prefix| Recording::begin(&plan.lab, prefix, number));
        let begun = Instant::now();
        let taken = match &step.what {
            What::Fidelity(limit) => late.judge(&client, *limit),
            _ => checker.take(step),
        };
        let (holds, seen) = match taken {
            Ok(found) => found,
            Err(Cut::Failed(words)) => (false, words),
            Err(Cut::Interrupted) => anyhow::bail!("interrupted"),
        };
        all_hold &= holds;
        let ms = since(begun);
        let mut notes = if holds { vec![] } else { hints(lab, &step.what) };
        notes.extend(late.during(&client, &step.what));
        notes.extend(recording.and_then(|recording| recording.end(!holds)));
        let seen = notes.iter().fold(seen, |seen, note| format!("{seen}\n{note}"));
        let (name, expected) = (step.title(), step.what.words());
        tell(&Line::Step(Step { name, holds, expected, seen, ms }))?;
    }
    if !all_hold {
        let lines = last_lines(&client, plan);
        if !lines.is_empty() {
            tell(&Line::Logs(lines))?;
        }
    }
    Ok(all_hold)
}

/// Why nodes may not reach each other.
fn hints(lab: &Lab, what: &What) -> Vec<String> {
    match what {
        What::Reaches(_) => netloom_model::plan::hints(lab),
        _ => vec![],
    }
}

/// The last lines of all programs, by time.
fn last_lines(client: &netloom_api::Client, plan: &Plan) -> String {
    let mut all = Vec::new();
    for node in &plan.nodes {
        // A node that has ended has no lines to tell.
        let asked = ReadLog::of(&node.name, 0, std::time::Duration::ZERO);
        let log = client.call(&asked).unwrap_or_default();
        all.extend(
            log.into_iter()
                .map(|LogLine { record, .. }| (record.time_ns, node.name.clone(), record)),
        );
    }
    all.sort_by_key(|(time, ..)| *time);
    let begin = all.len().saturating_sub(LINES);
    let line = |(_, node, record): &(u64, String, netloom_node::log::Record)| match &record.name {
        Some(program) => format!("{node} {program} | {}\n", record.text),
        None => format!("{node} | {}\n", record.text),
    };
    all[begin..].iter().map(line).collect()
}

fn tell(line: &Line) -> Result<()> {
    let mut text = serde_json::to_vec(line)?;
    text.push(b'\n');
    let mut out = std::io::stdout().lock();
    // Without a reader the lab is taken down all the same.
    let _ = out.write_all(&text).and_then(|()| out.flush());
    Ok(())
}

/// `netloom probe`: answers a question inside a node.
pub(crate) fn probe(asked: &str) -> Result<i32> {
    let asked: Question = serde_json::from_str(asked)?;
    netloom_session::probe::answer(&asked, &mut |answer| {
        let mut text = serde_json::to_vec(answer)?;
        text.push(b'\n');
        let mut out = std::io::stdout().lock();
        out.write_all(&text).and_then(|()| out.flush())
    })?;
    Ok(0)
}
