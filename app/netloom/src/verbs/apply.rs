//! `apply`: turns a running lab into the one of a file.

use std::io::{IsTerminal, Write};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use netloom_lab::calls::ApplyPlan;
use netloom_lab::launch::previewing::{self, Standing};
use netloom_lab::launch::{Launch, has_lab_process};
use netloom_lab::view::{Applied, AppliedStep};
use netloom_lab::{Folder, runtime_dir, view};
use netloom_model::Plan;
use serde::Serialize;

use super::up;
use crate::flags::Apply;
use crate::output;
use crate::{
    Usage,
    labs::{self, Wish},
    source,
};

/// The exit code of `--check` where the lab is not as its file says.
pub(crate) const DIFFERS: i32 = 4;

/// `netloom apply --json`
#[derive(Serialize)]
struct ApplyReport<'a> {
    lab: &'a str,
    up: bool,
    #[serde(flatten)]
    applied: &'a Applied,
}

/// `netloom apply`
pub(crate) fn apply(wish: &Wish, args: &Apply) -> Result<i32> {
    let begun = Instant::now();
    // Fork the spawner while this process is small; a lab without a process needs it.
    let launch = Launch::begin()?;
    let name = wish.new_name(args.name.as_deref())?;
    // The claim is held to the end, so that no other lab gets these addresses meanwhile.
    let (mut plan, _, _claim) = source::plan_here(&args.file, name.as_deref(), &args.importing)?;
    let runtime = runtime_dir()?;
    previewing::absolute(&mut plan, &source::base(&args.file), &runtime)?;
    let folder = Folder::new(&runtime, &plan.lab);
    let only_looks = args.dry_run || args.check;
    // A look changes nothing, so it leaves a lab without a process as it is.
    let launch = if only_looks { launch } else { adopt(launch, &folder, args)? };
    let (standing, plan) = look(&folder, plan, args)?;
    match standing {
        Standing::Absent if only_looks => {
            tell_absent(&plan, args)?;
            Ok(if args.check { DIFFERS } else { 0 })
        }
        Standing::Absent if args.expected.is_some() => {
            bail!(
                "lab {:?}: not up, so that other steps are needed than the expected ones",
                plan.lab
            )
        }
        Standing::Absent => bring_up(launch, plan, args),
        Standing::Failed => bail!(
            "lab {:?}: could not come up and was kept; take it down with `netloom down` first",
            plan.lab
        ),
        Standing::Between => bail!(
            "lab {:?}: is being made or taken down just now; try again when that is done",
            plan.lab
        ),
        Standing::Up(applied) if only_looks => {
            tell_plan(&plan.lab, &applied, args)?;
            Ok(if args.check && !applied.steps.is_empty() { DIFFERS } else { 0 })
        }
        Standing::Up(applied) if args.expected.as_ref().is_some_and(|d| *d != applied.digest) => {
            bail!(
                "lab {:?}: other steps than the expected ones are needed by now; look again with --dry-run",
                plan.lab
            )
        }
        Standing::Up(applied) => {
            if !args.json {
                tell_plan(&plan.lab, &applied, args)?;
            }
            if applied.steps.is_empty() && !applied.stale {
                if args.json {
                    tell_json(&plan.lab, &applied)?;
                }
                return Ok(0);
            }
            if !may_go_on(&applied.steps, args)? {
                tell_line!("netloom: nothing was done");
                return Ok(1);
            }
            let quiet = applied.steps.is_empty();
            // The digest is that of the steps that were shown: another caller's change meanwhile is
            // noticed.
            let done = carry_out(&folder, plan, applied.digest, args)?;
            tell_done(&folder, &done, args, begun, quiet)
        }
    }
}

fn bring_up(launch: Launch, plan: Plan, args: &Apply) -> Result<i32> {
    let (name, nodes, links) = (plan.lab.clone(), plan.nodes.len(), plan.links.len());
    let begun = Instant::now();
    let troubles = up::of_plan(launch, plan, &args.file, args.ignore_limits)?;
    if args.json {
        let applied = Applied { done: true, troubles, ..Applied::default() };
        tell_json(&name, &applied)?;
        return Ok(i32::from(!applied.troubles.is_empty()));
    }
    let (nodes, links) = (output::count(nodes, "node"), output::count(links, "link"));
    let took = begun.elapsed().as_secs_f64() * 1000.0;
    output::print(&format!("lab {name}: {nodes}, {links} up in {took:.1} ms\n"))?;
    Ok(up::tell_troubles(&name, &troubles))
}

fn tell_absent(plan: &Plan, args: &Apply) -> Result<()> {
    if args.json {
        let told = ApplyReport { lab: &plan.lab, up: false, applied: &Applied::default() };
        return output::print_json(&told);
    }
    let (nodes, links) = (plan.nodes.len(), plan.links.len());
    let (nodes, links) = (output::count(nodes, "node"), output::count(links, "link"));
    output::print(&format!("lab {} is not up; this brings it up: {nodes}, {links}\n", plan.lab))
}

fn tell_json(lab: &str, applied: &Applied) -> Result<()> {
    output::print_json(&ApplyReport { lab, up: true, applied })
}

/// The steps, before anything is done.
fn tell_plan(lab: &str, applied: &Applied, args: &Apply) -> Result<()> {
    if args.json {
        return tell_json(lab, applied);
    }
    if applied.steps.is_empty() {
        return output::print(&format!("lab {lab} is as the file says\n"));
    }
    let lines: String = applied.steps.iter().map(|step| format!("{}\n", step.line)).collect();
    output::print(&lines)
}

/// Asks before anything that may be in use ends.
pub(crate) fn may_go_on(steps: &[AppliedStep], args: &Apply) -> Result<bool> {
    let ends = steps.iter().filter(|step| step.step.ends).count();
    if ends == 0 || args.yes {
        return Ok(true);
    }
    let what = output::count(ends, "step");
    if !std::io::stdin().is_terminal() || args.json {
        let first = steps.iter().find(|step| step.step.ends);
        let first = first.map_or("", |step| step.line.as_str());
        let words = format!(
            "{what} of these would end what may be in use ({first}); give --yes to do it, or --dry-run to look"
        );
        return Err(Usage(words).into());
    }
    let mut out = std::io::stderr();
    // A terminal that cannot be written to cannot be answered at either.
    let _ = write!(out, "{what} of these would end what may be in use. Go on? [y/N] ");
    let _ = out.flush();
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer).context("read the answer")?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// Starts a process for a lab whose own was killed; else gives the launch back. What this completes or undoes is not a step
/// any more.
fn adopt(launch: Launch, folder: &Folder, args: &Apply) -> Result<Launch> {
    if has_lab_process(folder) || !folder.is_up() {
        return Ok(launch);
    }
    let Some(state) = folder.read_state()? else { return Ok(launch) };
    up::adopt(launch, state, args.ignore_limits)?;
    Ok(Launch::begin()?)
}

/// What applying would do. A lab process has the lab in memory; where there is none, the lab's files and the kernel tell.
fn look(folder: &Folder, plan: Plan, args: &Apply) -> Result<(Standing, Plan)> {
    if !folder.is_up() || !has_lab_process(folder) {
        return Ok((previewing::preview(folder, &plan, args.keep_drift)?, plan));
    }
    let request = view::Apply { plan: Some(plan), dry_run: true, ..request(args) };
    let asked = ApplyPlan { request };
    let looked = labs::connect_to(folder)?.without_timeout().call(&asked);
    // Taken back instead of copied: a plan may have many megabytes.
    let plan = asked.request.plan.context("the plan was sent")?;
    match looked {
        // Both verbs report the files' warnings in the same words.
        Err(netloom_api::Error::Refused { status: 400, .. }) => {
            Ok((previewing::preview(folder, &plan, args.keep_drift)?, plan))
        }
        applied => Ok((Standing::Up(applied?), plan)),
    }
}

fn request(args: &Apply) -> view::Apply {
    view::Apply {
        plan: None,
        file: source::full(&args.file),
        expected: None,
        keep_drift: args.keep_drift,
        dry_run: false,
        across: None,
    }
}

fn carry_out(folder: &Folder, plan: Plan, digest: String, args: &Apply) -> Result<Applied> {
    let client = labs::connect_to(folder)?.without_timeout();
    let request = view::Apply { expected: Some(digest), ..request(args) };
    let mut asked = ApplyPlan { request };
    match client.call(&asked) {
        // Another caller has looked since, or the lab has another process.
        Err(netloom_api::Error::Refused { status: 400, .. }) => {
            asked.request.plan = Some(plan);
            Ok(client.call(&asked)?)
        }
        done => Ok(done?),
    }
}

/// Every step with the time when it was done.
fn tell_done(
    folder: &Folder,
    done: &Applied,
    args: &Apply,
    begun: Instant,
    quiet: bool,
) -> Result<i32> {
    let lab = folder.name();
    if args.json {
        tell_json(lab, done)?;
        return Ok(i32::from(!done.troubles.is_empty()));
    }
    if quiet {
        return Ok(0);
    }
    let mut lines = String::new();
    for step in &done.steps {
        let at = step.done_ms.unwrap_or(done.took_ms);
        lines.push_str(&format!("done after {at:.1} ms: {}\n", step.line));
    }
    let took = begun.elapsed().as_secs_f64() * 1000.0;
    lines.push_str(&format!("lab {lab} is as the file says, after {took:.1} ms\n"));
    output::print(&lines)?;
    Ok(up::tell_troubles(lab, &done.troubles))
}
