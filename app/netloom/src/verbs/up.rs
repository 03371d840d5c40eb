//! `up` and `run`: from a file to a running lab.

use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use netloom_lab::Event;
use netloom_lab::call::Within;
use netloom_lab::calls::Repair;
use netloom_lab::launch::{Launch, Options, Outcome};
use netloom_lab::view::LabState;
use netloom_lab::{Folder, Service, State, UNRECORDED, runtime_dir};
use netloom_model::Plan;
use netloom_model::plan::{Neighbours, PlannedNode};
use netloom_sys::process;

use super::{figures, logs::Reader};
use crate::flags::{Run, Up};
use crate::output::{self, ProgressLine};
use crate::{
    foreign,
    labs::{self, Wish},
    source,
};

/// Interval between checks for program output of a lab in the foreground.
const LOG_LOOK: Duration = Duration::from_millis(100);

/// Starts the API of a running lab.
pub(crate) fn serve(
    folder: &std::path::Path,
    service: std::sync::Arc<dyn Service>,
) -> Result<Box<dyn std::any::Any + Send>, String> {
    match netloom_api::serve(folder, service) {
        Ok(server) => Ok(Box::new(server)),
        Err(e) => Err(netloom_sys::describe(&e)),
    }
}

/// `netloom up`
pub(crate) fn up(wish: &Wish, args: &Up) -> Result<i32> {
    let begun = Instant::now();
    // Fork the spawner while this process is small.
    let launch = Launch::begin()?;
    let name = wish.new_name(args.name.as_deref())?;
    let (plan, hints, _claim) = source::plan_here(&args.file, name.as_deref(), &args.importing)?;
    let (name, nodes, links) = (plan.lab.clone(), plan.nodes.len(), plan.links.len());
    let neighbours = plan.neighbours();
    let took = || format!("{:.1} ms", begun.elapsed().as_secs_f64() * 1000.0);
    let said;
    match bring_up(launch, plan, args, false)? {
        Outcome::Up { adopted: false, troubles, notes, .. } => {
            said = troubles;
            tell_notes(&name, &notes);
            output::warnings(&hints);
            let (nodes, links) = (output::count(nodes, "node"), output::count(links, "link"));
            output::print(&format!("lab {name}: {nodes}, {links} up in {}\n", took()))?;
            tell_lacking(&name, neighbours);
        }
        Outcome::Up { made, changed, troubles, notes, .. } => {
            said = troubles;
            tell_notes(&name, &notes);
            let words = format!("adopted, {made} of {nodes} nodes recreated in {}", took());
            let folder = Folder::new(&runtime_dir()?, &name);
            let mended = labs::connect_to(&folder)?
                .call(&Repair { keep_drift: args.keep_drift, from: Within::ALL })?;
            let drift = drift_words(&mended.drift, args.keep_drift);
            output::print(&format!("lab {name}: {words}{}{drift}", changed_words(&changed)))?;
            return tell_standing(&name, &said);
        }
        Outcome::Runs { changed } => {
            let folder = Folder::new(&runtime_dir()?, &name);
            let repaired = match labs::connect_to(&folder)
                .map(|c| c.call(&Repair { keep_drift: args.keep_drift, from: Within::ALL }))
            {
                Ok(Ok(repaired)) => repaired,
                // Its process was killed just now: the lab can be adopted, or is gone.
                _ if !netloom_lab::launch::has_lab_process(&folder) => return up(wish, args),
                // It hangs: its nodes live on without it and are adopted.
                Ok(Err(netloom_api::Error::Silent { .. })) if !folder.is_scope() => {
                    netloom_lab::orphan::kill_lab_process(&folder, &labs::tell)?;
                    return up(wish, args);
                }
                Ok(Err(e)) => return Err(e.into()),
                Err(e) => return Err(e),
            };
            let made = match repaired.nodes.as_slice() {
                [] => String::new(),
                nodes => format!(", recreated: {}", nodes.join(", ")),
            };
            said = repaired.troubles;
            tell_notes(&name, &repaired.notes);
            let changed = changed_words(&changed);
            let drift = drift_words(&repaired.drift, args.keep_drift);
            output::print(&format!("lab {name}: already running{made}{changed}{drift}"))?;
            return tell_standing(&name, &said);
        }
    }
    Ok(tell_troubles(&name, &said))
}

/// [`tell_troubles`] for a lab that was up already, and may be degraded since; returns the exit code.
fn tell_standing(lab: &str, troubles: &[String]) -> Result<i32> {
    if !troubles.is_empty() {
        return Ok(tell_troubles(lab, troubles));
    }
    let folder = Folder::new(&runtime_dir()?, lab);
    // A lab that ends at this moment is not this verb's failure.
    let Ok(client) = labs::connect_to(&folder) else { return Ok(0) };
    let Ok(all) = labs::counts(&client) else { return Ok(0) };
    if !matches!(all.state, LabState::Degraded | LabState::Failed) {
        return Ok(0);
    }
    tell_line!("netloom: lab {lab:?} is up, but degraded; `netloom up --replace` recreates it");
    all.troubled.iter().filter_map(figures::trouble).for_each(|line| tell!("{line}"));
    Ok(1)
}

/// Reports programs that ended with an error in a running lab, and links that could not be restored; returns
/// the exit code.
pub(crate) fn tell_troubles(lab: &str, troubles: &[String]) -> i32 {
    let (unrecorded, others): (Vec<&String>, Vec<&String>) =
        troubles.iter().partition(|story| story.starts_with(UNRECORDED));
    let (links, programs): (Vec<&String>, Vec<_>) =
        others.into_iter().partition(|story| story.starts_with("link "));
    let tell = |what: &str, how: &str, stories: &[&String]| {
        if !stories.is_empty() {
            let count = output::count(stories.len(), what);
            tell_line!("netloom: lab {lab:?} is up, but {count} {how}");
            stories.iter().for_each(|story| tell_line!("{story}"));
        }
    };
    tell("link", "could not be recreated", &links);
    tell("program", "ended with an error", &programs);
    for story in unrecorded {
        tell_line!("netloom: lab {lab:?} is up, but not recorded as its file says");
        tell_line!("{story}");
    }
    i32::from(!troubles.is_empty())
}

/// Reports commands of `exec` that failed and may: the lab is as good as without them.
pub(crate) fn tell_notes(lab: &str, notes: &[String]) {
    if !notes.is_empty() {
        let count = output::count(notes.len(), "command");
        tell_line!("netloom: lab {lab:?}: {count} of `exec` failed");
        notes.iter().for_each(|story| tell_line!("{story}"));
    }
}

/// Warns of nodes that may not reach each other, since the kernel has no room for all neighbours.
pub(crate) fn tell_lacking(lab: &str, neighbours: Neighbours) {
    if let Some(why) = netloom_lab::lacking_neighbours(neighbours) {
        tell_line!("netloom: warning: lab {lab:?}: {why}");
    }
}

/// Manual changes made without netloom: reverted, or kept.
fn drift_words(drift: &[String], kept: bool) -> String {
    let what = if kept { "kept" } else { "mended" };
    drift.iter().map(|line| format!("{what}: {line}\n")).collect()
}

/// Changes made by hand since the lab came up, and how to undo them; otherwise the end of the line.
fn changed_words(changed: &[String]) -> String {
    if changed.is_empty() {
        return "\n".to_owned();
    }
    let lines: String = changed.iter().map(|line| format!("  {line}\n")).collect();
    format!("; has manual changes:\n{lines}`netloom up --replace` recreates it\n")
}

/// Brings a lab up. On request a running lab of the same name is taken down first, but only after every
/// possible check of the new one has passed.
fn bring_up(launch: Launch, plan: Plan, args: &Up, foreground: bool) -> Result<Outcome> {
    let options = options(args, foreground)?;
    let folder = Folder::new(&options.runtime, &plan.lab);
    let replaces = args.replace && folder.exists()?;
    if replaces {
        netloom_lab::launch::check(&plan, &options)?;
        if super::down::in_own_process(&folder) != 0 && folder.exists()? {
            anyhow::bail!("lab {:?}: not replaced: it could not be taken down", plan.lab);
        }
    }
    let outcome = start(launch, plan, &options);
    if replaces {
        return outcome
            .context("the lab that ran before has been taken down, and this one did not come up");
    }
    outcome
}

fn options(args: &Up, foreground: bool) -> Result<Options> {
    Ok(Options {
        runtime: runtime_dir()?,
        base: source::base(&args.file),
        file: source::full(&args.file),
        foreground,
        ignore_limits: args.ignore_limits,
        keep: args.keep,
        progress: ProgressLine::is_shown(),
        tell: labs::tell,
        across: None,
    })
}

/// Brings up an empty lab; succeeds if it is already running.
pub(crate) fn up_empty(name: &str) -> Result<()> {
    let launch = Launch::begin()?;
    let options = plain("/".into(), None, false)?;
    start(launch, source::empty_plan(name)?, &options).map(drop)
}

/// Brings up a lab that is not up; returns its troubles.
pub(crate) fn of_plan(
    launch: Launch,
    plan: Plan,
    file: &std::path::Path,
    ignore_limits: bool,
) -> Result<Vec<String>> {
    let (base, file) = (source::base(file), source::full(file));
    match start(launch, plan, &plain(base, file, ignore_limits)?)? {
        Outcome::Up { troubles, .. } => Ok(troubles),
        Outcome::Runs { .. } => Ok(vec![]),
    }
}

/// Starts a process for a lab that lives without one, as it is.
pub(crate) fn adopt(launch: Launch, state: State, ignore_limits: bool) -> Result<()> {
    let options = plain("/".into(), state.file, ignore_limits)?;
    start(launch, state.plan, &options).map(drop)
}

fn plain(base: PathBuf, file: Option<PathBuf>, ignore_limits: bool) -> Result<Options> {
    Ok(Options {
        runtime: runtime_dir()?,
        base,
        file,
        foreground: false,
        ignore_limits,
        keep: false,
        progress: ProgressLine::is_shown(),
        tell: labs::tell,
        across: None,
    })
}

/// Brings up a lab, and shows the progress on a terminal.
pub(super) fn start(launch: Launch, plan: Plan, options: &Options) -> Result<Outcome> {
    let mut line = ProgressLine::new();
    let outcome = launch.up(plan, options, serve, &mut |event| {
        if let Event::Progress { what, done, total } = event {
            line.show(&format!("{what}: {done} of {total}"));
        }
    });
    line.clear();
    Ok(outcome?)
}

/// Whether a node has programs or commands with output.
fn talks(node: &PlannedNode) -> bool {
    !node.run.is_empty() || !node.setup.is_empty() || !node.exec.is_empty()
}

/// `netloom run`
pub(crate) fn run(wish: &Wish, run: &Run) -> Result<i32> {
    let args = &run.up;
    if args.on.is_some() {
        let words = "a lab over hosts does not end with its terminal; use `netloom up --on`";
        return Err(crate::Usage(words.into()).into());
    }
    if let Some(script) = foreign::find(&args.file).filter(|lab| lab.file.ends_with(".py")) {
        let name = wish.new_name(args.name.as_deref())?;
        let name = name.unwrap_or_else(|| script.usual_name());
        return foreign::run(&script, &name, run);
    }
    if !run.args.is_empty() {
        return Err(
            crate::Usage("only a script for Mininet has arguments after `--`".into()).into()
        );
    }
    let launch = Launch::begin()?;
    let name = wish.new_name(args.name.as_deref())?;
    let (plan, hints, claim) = source::plan_here(&args.file, name.as_deref(), &args.importing)?;
    output::warnings(&hints);
    let name = plan.lab.clone();
    let neighbours = plan.neighbours();
    let talkers: Vec<String> =
        plan.nodes.iter().filter(|n| talks(n)).map(|n| n.name.clone()).collect();
    let signals = super::ending()?;
    let Outcome::Up { life, troubles, notes, .. } = bring_up(launch, plan, args, true)? else {
        anyhow::bail!("lab {name:?}: already running; take it down first, or use `netloom up`");
    };
    drop(claim);
    tell_notes(&name, &notes);
    tell_troubles(&name, &troubles);
    tell_lacking(&name, neighbours);
    tell_line!("lab {name}: up; Ctrl-C takes it down");
    let folder = Folder::new(&runtime_dir()?, &name);
    let shown = show_logs(&folder, &talkers, &signals, &life);
    // The lab ends whether or not its output could be shown.
    super::down::take_down(&folder)?;
    drop(life);
    shown.map(|()| 0)
}

/// Shows program output until a signal comes or the lab ends by itself.
fn show_logs(
    folder: &Folder,
    nodes: &[String],
    signals: &impl AsFd,
    life: &impl AsFd,
) -> Result<()> {
    use rustix::event::{PollFd, PollFlags};
    let mut reader = Reader::of_several(nodes.to_vec());
    let pause = process::timespec(LOG_LOOK);
    loop {
        let client = match labs::connect_to(folder) {
            Ok(client) => client,
            // Somebody took it down.
            Err(_) => return Ok(()),
        };
        let Ok(lines) = reader.read(&client, Duration::ZERO) else { return Ok(()) };
        for line in &lines {
            output::print(&reader.text(line, false))?;
        }
        let mut fds = [PollFd::new(signals, PollFlags::IN), PollFd::new(life, PollFlags::HUP)];
        if rustix::event::poll(&mut fds, Some(&pause)).is_ok_and(|n| n > 0) {
            return Ok(());
        }
    }
}
