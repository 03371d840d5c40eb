//! `apply` with `--on HOSTS`: turns a lab on several hosts into the one of a file.
//!
//! Nodes stay on their hosts unless a pin or a bound forbids that. All hosts say first what their part takes, and nothing is
//! done if one cannot. Then hosts that had no part prepare it, the others change theirs, new parts go, and parts that nothing is
//! left of are taken down. What fails on one host is taken back on all; only removed parts are not made again, so they go last.

use std::collections::HashMap;
use std::path::Path;
use std::time::Instant;

use anyhow::Result;
use netloom_lab::view::{Applied, AppliedStep, LabState, LabStatus};
use netloom_placement::Earlier;
use serde::Serialize;

use super::driver::{claim, each};
use super::message::{Ask, Prepare, Told};
use super::remote::{Remote, Trouble};
use super::verbs::{Wanted, connect, read, refusal, twice};
use crate::flags::Apply;
use crate::labs::Wish;
use crate::output::{self, count};
use crate::verbs::apply::{DIFFERS, may_go_on};
use crate::verbs::up;

/// What becomes of a host.
#[derive(Debug)]
enum Fate {
    /// It has no part, and gets none.
    Stays,
    /// Its part changes into this one.
    Changes(Box<Prepare>),
    /// It gets this part.
    Begins(Box<Prepare>),
    /// Its part goes.
    Ends,
}

/// `netloom apply --on HOSTS --json`
#[derive(Serialize)]
struct Report<'a> {
    lab: &'a str,
    /// By host; one that gets or loses a part has no steps.
    hosts: Vec<OfHost<'a>>,
    /// Whether it was done, and not only looked at.
    done: bool,
}

#[derive(Serialize)]
struct OfHost<'a> {
    host: &'a str,
    /// `changes`, `begins` or `ends`.
    part: &'static str,
    steps: &'a [AppliedStep],
}

/// Hosts with what becomes of them.
struct Change {
    lab: String,
    remotes: Vec<Remote>,
    fates: Vec<Fate>,
}

/// `netloom apply FILE --on HOSTS`
pub(crate) fn apply(wish: &Wish, args: &Apply, on: &Path) -> Result<i32> {
    let begun = Instant::now();
    let wanted = read(wish, &args.file, args.name.as_deref(), on)?;
    let mut change = Change::find(&wanted, args)?;
    let found = change.look(args.keep_drift)?;
    let steps: Vec<AppliedStep> = found.iter().flatten().flat_map(|a| a.steps.clone()).collect();
    let differs = change.begins_or_ends()
        || found.iter().flatten().any(|of| of.stale || !of.steps.is_empty());
    if args.dry_run || args.check {
        change.tell(&found, args.json, false)?;
        // A digest alone is nothing to do.
        let to_do = !steps.is_empty() || change.begins_or_ends();
        return Ok(if args.check && to_do { DIFFERS } else { 0 });
    }
    if !args.json {
        change.tell(&found, false, false)?;
    }
    if !differs {
        return if args.json { change.tell(&found, true, true).map(|()| 0) } else { Ok(0) };
    }
    if !may_go_on(&steps, args)? {
        tell_line!("netloom: nothing was done");
        return Ok(1);
    }
    let troubles = change.carry_out(args.keep_drift)?;
    if args.json {
        change.tell(&found, true, true)?;
        return Ok(i32::from(!troubles.is_empty()));
    }
    let ms = begun.elapsed().as_secs_f64() * 1000.0;
    let hosts = count(change.fates.iter().filter(|f| !matches!(f, Fate::Stays)).count(), "host");
    output::print(&format!(
        "lab {} is as the file says on {hosts}, after {ms:.1} ms\n",
        change.lab
    ))?;
    Ok(up::tell_troubles(&change.lab, &troubles))
}

impl Change {
    /// Asks all hosts what they have, and keeps other drivers away.
    fn find(wanted: &Wanted, args: &Apply) -> Result<Change> {
        let lab = wanted.plan.lab.clone();
        let (mut remotes, mut troubles) = (vec![], vec![]);
        for found in connect(&wanted.hosts.list.iter().collect::<Vec<_>>()) {
            match found {
                Ok(remote) => remotes.push(remote),
                Err(trouble) => troubles.push(trouble),
            }
        }
        troubles.extend(twice(&remotes));
        if troubles.is_empty() {
            troubles.extend(claim_all(&mut remotes, &lab));
        }
        let asked = Ask::Status { lab: lab.clone() };
        let had = match troubles.is_empty() {
            true => each(&mut remotes, |_, remote| match remote.ask(&asked)? {
                Told::Status(status) => part_of(&remote.host, *status).map(Some),
                Told::NoLab {} => Ok(None),
                _ => Err(remote.odd()),
            }),
            false => vec![],
        };
        let mut parts = vec![];
        for one in had {
            match one {
                Ok(status) => parts.push(status),
                Err(trouble) => troubles.push(trouble),
            }
        }
        if !troubles.is_empty() {
            return Err(refusal(&troubles, "\nnothing was changed"));
        }
        if parts.iter().all(Option::is_none) {
            let words = format!(
                "lab {lab:?} is on none of these hosts; `netloom up` with --on brings it up"
            );
            return Err(crate::Usage(words).into());
        }
        let earlier = earlier(&remotes, &parts);
        let (used, new) = wanted.parts(Some(&earlier), args.ignore_limits)?;
        let mut fates: Vec<Fate> = parts
            .iter()
            .map(|part| if part.is_some() { Fate::Ends } else { Fate::Stays })
            .collect();
        for (at, part) in used.into_iter().zip(new) {
            let part = Box::new(part);
            fates[at] = match fates[at] {
                Fate::Ends => Fate::Changes(part),
                _ => Fate::Begins(part),
            };
        }
        Ok(Change { lab, remotes, fates })
    }

    fn begins_or_ends(&self) -> bool {
        self.fates.iter().any(|fate| matches!(fate, Fate::Begins(_) | Fate::Ends))
    }

    /// What it takes on each host whose part changes.
    fn look(&mut self, keep_drift: bool) -> Result<Vec<Option<Applied>>> {
        let fates = &self.fates;
        let found = each(&mut self.remotes, |at, remote| match &fates[at] {
            Fate::Changes(part) => change(remote, part, keep_drift, true).map(Some),
            _ => Ok(None),
        });
        let (found, troubles) = sorted(found);
        match troubles.is_empty() {
            true => Ok(found),
            false => Err(refusal(&troubles, "\nnothing was changed")),
        }
    }

    /// The steps, before anything is done, or all of it as JSON.
    fn tell(&self, found: &[Option<Applied>], json: bool, done: bool) -> Result<()> {
        let all = self.remotes.iter().zip(&self.fates).zip(found);
        if json {
            let hosts = all.filter_map(|((remote, fate), found)| {
                let part = match fate {
                    Fate::Stays => return None,
                    Fate::Changes(_) => "changes",
                    Fate::Begins(_) => "begins",
                    Fate::Ends => "ends",
                };
                let steps = found.as_ref().map_or(&[][..], |of| of.steps.as_slice());
                Some(OfHost { host: &remote.host, part, steps })
            });
            return output::print_json(&Report { lab: &self.lab, hosts: hosts.collect(), done });
        }
        let mut lines = String::new();
        for ((remote, fate), found) in all {
            let host = &remote.host;
            match fate {
                Fate::Begins(_) => lines += &format!("host {host:?}: gets a part\n"),
                Fate::Ends => lines += &format!("host {host:?}: its part goes\n"),
                Fate::Stays | Fate::Changes(_) => {}
            }
            for step in found.iter().flat_map(|of| &of.steps) {
                lines += &format!("host {host:?}: {}\n", step.line);
            }
        }
        if lines.is_empty() {
            lines = format!("lab {} is as the file says\n", self.lab);
        }
        output::print(&lines)
    }

    /// Does it. Returns programs that ended with an error, each with its host.
    fn carry_out(&mut self, keep_drift: bool) -> Result<Vec<String>> {
        let fates = &self.fates;
        let prepared = each(&mut self.remotes, |at, remote| match &fates[at] {
            Fate::Begins(part) => match remote.ask(&Ask::Prepare(part.clone()))? {
                Told::Prepared { .. } => Ok(()),
                _ => Err(remote.odd()),
            },
            _ => Ok(()),
        });
        let failed = |done: Vec<Result<(), Trouble>>| sorted(done).1;
        let why = failed(prepared);
        if !why.is_empty() {
            return Err(self.undo(&why, false));
        }
        let changed = each(&mut self.remotes, |at, remote| match &fates[at] {
            Fate::Changes(part) => change(remote, part, keep_drift, false).map(Some),
            _ => Ok(None),
        });
        let (applied, why) = sorted(changed);
        if !why.is_empty() {
            return Err(self.undo(&why, true));
        }
        let up = each(&mut self.remotes, |at, remote| match &fates[at] {
            Fate::Begins(_) => match remote.ask(&Ask::Go {})? {
                Told::Up { troubles, .. } => Ok(troubles),
                _ => Err(remote.odd()),
            },
            _ => Ok(vec![]),
        });
        let (started, why) = sorted(up);
        if !why.is_empty() {
            return Err(self.undo(&why, true));
        }
        let lab = &self.lab;
        let ended = each(&mut self.remotes, |at, remote| match &fates[at] {
            Fate::Ends => match remote.ask(&Ask::Down { lab: lab.clone() })? {
                Told::Down {} | Told::NoLab {} => Ok(()),
                _ => Err(remote.odd()),
            },
            _ => Ok(()),
        });
        let why = failed(ended);
        if !why.is_empty() {
            let more = "\nthe others are as the file says; the same command again takes down what is left there";
            return Err(refusal(&why, more));
        }
        let changed = applied.into_iter().map(|of| of.map_or_else(Vec::new, |of| of.troubles));
        let all = changed.zip(started).zip(&self.remotes);
        let named = all.flat_map(|((a, b), remote)| {
            a.into_iter().chain(b).map(|line| format!("host {:?}: {line}", remote.host))
        });
        Ok(named.collect())
    }

    /// Takes everything back. Parts that had begun to change are also turned back where that failed.
    fn undo(&mut self, why: &[Trouble], changed: bool) -> anyhow::Error {
        let (fates, lab) = (&self.fates, &self.lab);
        let undone = each(&mut self.remotes, |at, remote| {
            let failed = why.iter().any(|trouble| trouble.host == remote.host);
            let asked = match &fates[at] {
                // One that failed has undone its own, or is lost.
                Fate::Begins(_) if failed => return Ok(()),
                Fate::Begins(_) => Ask::Undo {},
                Fate::Changes(_) if changed => Ask::Revert { lab: lab.clone() },
                _ => return Ok(()),
            };
            match remote.ask(&asked)? {
                Told::Undone {} => Ok(()),
                Told::NoLab {} => Err(Trouble::of(&remote.host, "its lab has ended")),
                _ => Err(remote.odd()),
            }
        });
        let left = sorted(undone).1;
        if left.is_empty() {
            return refusal(why, "\nall hosts have what they had");
        }
        let left: Vec<String> = left.iter().map(ToString::to_string).collect();
        let more = format!(
            "\nand these hosts may have changed; the file of before, applied again, turns them back:\n{}",
            left.join("\n")
        );
        refusal(why, &more)
    }
}

/// Keeps other drivers away on every host, one after the other in the order of names, so that two never wait for each other.
fn claim_all(remotes: &mut [Remote], lab: &str) -> Option<Trouble> {
    let mut order: Vec<&mut Remote> = remotes.iter_mut().collect();
    order.sort_by(|a, b| a.host.cmp(&b.host));
    order.into_iter().find_map(|remote| claim(remote, lab).err())
}

/// A part that can change.
fn part_of(host: &str, status: LabStatus) -> Result<LabStatus, Trouble> {
    if status.across.is_none() {
        let reason = "its lab of that name is not a part of a lab over several hosts";
        return Err(Trouble::of(host, reason));
    }
    match status.state {
        LabState::Up | LabState::Degraded => Ok(status),
        _ => Err(Trouble::of(host, "its part is not up")),
    }
}

/// Where nodes and switches are.
fn earlier(remotes: &[Remote], parts: &[Option<LabStatus>]) -> Earlier {
    let mut hosts = HashMap::new();
    for (remote, part) in remotes.iter().zip(parts) {
        let nodes = part.iter().flat_map(|part| part.nodes.iter().map(|node| &node.name));
        let switches = part.iter().flat_map(|part| part.switches.iter().map(|s| &s.name));
        for name in nodes.chain(switches) {
            // Of a split switch the first piece.
            hosts.entry(name.clone()).or_insert_with(|| remote.host.clone());
        }
    }
    Earlier { hosts }
}

fn change(
    remote: &mut Remote,
    part: &Prepare,
    keep_drift: bool,
    dry_run: bool,
) -> Result<Applied, Trouble> {
    let asked = Ask::Apply { part: Box::new(part.clone()), keep_drift, dry_run };
    match remote.ask(&asked)? {
        Told::Applied(applied) => Ok(*applied),
        Told::NoLab {} => Err(Trouble::of(&remote.host, "its lab has ended")),
        _ => Err(remote.odd()),
    }
}

/// What came, and what did not.
fn sorted<T>(all: Vec<Result<T, Trouble>>) -> (Vec<T>, Vec<Trouble>) {
    let (mut good, mut bad) = (vec![], vec![]);
    for one in all {
        match one {
            Ok(one) => good.push(one),
            Err(trouble) => bad.push(trouble),
        }
    }
    (good, bad)
}
