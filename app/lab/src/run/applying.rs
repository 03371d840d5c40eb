//! Turns a running lab into the one of a file, one part after the other.
//!
//! `core/model` says what that takes ([`merging`](netloom_model::merging)); this module does it: what is in the way goes
//! first, then parts are added, changed, started, and at last removed. Before the first step the state is kept as
//! `before.json`, and each step is in `state.json` before it is made. So a lab process that is killed leaves a lab that
//! the next one adopts, and the same request finishes: it compares with what stood before, too. The digest of the new
//! file is written last. Whatever no step names is not touched.

mod binding;
mod changing;
mod drifting;
mod linking;
mod moved;
mod parting;
mod programs;
mod switching;

use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Instant;

use netloom_model::Plan;
use netloom_model::difference::Kind;
use netloom_model::merging::{Act, Merged, Parts, Step, with_leftovers};
use netloom_model::plan::form::LinkForm;
use netloom_model::plan::{LinkId, LinkSlot, NodeId, PlannedNode, Slot};

use self::changing::Was;
use crate::build::maker::add_group;
use crate::build::{binds, machines, routers};
use crate::keep::ports;
use crate::keep::wires::expressions;
use crate::run::link_changes::nodes_of;
use crate::run::prospect::{Looked, Prospect};
use crate::run::running::{Phase, Running, Work};
use crate::stage::allowed::{self, allowed};
use crate::stage::{socket_paths, users};
use crate::store::across::Across;
use crate::store::state::State;
use crate::view::{Applied, Apply};
use crate::{Error, Result};

/// The longest plan that is kept for the next request, in bytes of JSON; longer ones, if the lab's own is.
const KEPT_PLAN: usize = 8 << 20;

/// Takes this many bytes, and keeps none.
struct Room(usize);

impl io::Write for Room {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.checked_sub(bytes.len()).ok_or(io::ErrorKind::StorageFull)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// When a group of steps was done, in milliseconds.
#[derive(Default)]
struct Times(Vec<(Stage, f64)>);

/// Groups of steps, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Add,
    Change,
    Start,
    Remove,
    Record,
}

impl Times {
    fn of(&self, stage: Stage) -> Option<f64> {
        self.0.iter().find(|(of, _)| *of == stage).map(|(_, at)| *at)
    }

    /// When a step was done: an object with programs only after they were started.
    fn of_step(&self, step: &Step) -> Option<f64> {
        let programs = step.kind == Some(Kind::Node) && step.act != Act::Remove;
        self.of(match step.act {
            _ if step.kind == Some(Kind::Slice) => Stage::Change,
            _ if step.kind == Some(Kind::Recording) => Stage::Record,
            Act::Remove => Stage::Remove,
            _ if programs => Stage::Start,
            Act::Add | Act::Recreate => Stage::Add,
            Act::Change => Stage::Change,
        })
    }
}

impl Running {
    /// See [`ApplyPlan`](crate::calls::ApplyPlan).
    pub(crate) fn apply_plan(&self, mut request: Apply) -> Result<Applied> {
        let begun = Instant::now();
        // A plan comes from outside: nothing of it is followed before all of it is known to be sound.
        if let Some(reason) = request.plan.as_ref().and_then(Plan::problem) {
            return Err(Error::Invalid { object: "plan".into(), reason });
        }
        let mut work = self.work();
        if work.spawner.is_none() {
            return Err(Error::NoLab(self.folder.name().to_owned()));
        }
        let busy = |reason: &str| Error::Conflict {
            lab: self.folder.name().to_owned(),
            reason: reason.to_owned(),
        };
        if self.phase() != Phase::Up {
            return Err(busy("is still coming up, or could not; apply the file when it is up"));
        }
        if !request.dry_run {
            // What could not be made when it was tried is tried again.
            self.drop_unfinished(&mut work)?;
        }
        let across = request.across.take();
        let state = self.part_of(&mut work, &request, across.as_ref(), &busy)?;
        let looked = self.looked(&work, &state, &mut request)?;
        if request.expected.as_ref().is_some_and(|expected| *expected != looked.found.digest) {
            let reason = "has changed since these steps were found; look at them again";
            return Err(busy(reason));
        }
        let mut applied = looked.found.shown(&state);
        drop(state);
        if request.dry_run {
            let room = Room(KEPT_PLAN.max(2 * looked.state.plan.weight()));
            let fits = serde_json::to_writer(room, &looked.found.wanted).is_ok();
            *self.looked_at() = fits.then_some(looked);
            return Ok(applied);
        }
        let found = looked.found;
        self.check_all(&found.merged)?;
        // Also that of an attempt that was cut off.
        let earlier = found.before.as_ref().and_then(|before| before.plan.record);
        let before = self.state();
        let recorded = before.plan.record.or(earlier);
        let made = self.carry_out(&mut work, found, (&request, across), begun);
        let (mut times, mut troubles) = made.map_err(|e| cut_off(self.folder.name(), &e))?;
        self.forget_moved(&work, &before.plan);
        drop(work);
        // One that is not there stays so, unless the file has changed what it asks for.
        if !(request.keep_drift && recorded == self.state().plan.record) {
            troubles.extend(self.follow_recording(recorded));
        }
        times.0.push((Stage::Record, begun.elapsed().as_secs_f64() * 1000.0));
        self.serve_scopes()?;
        // Processes have come and gone: the loop that waits for their ends has others to watch.
        self.kept.wake();
        (applied.done, applied.troubles) = (true, troubles);
        for of in &mut applied.steps {
            of.done_ms = times.of_step(&of.step);
        }
        applied.took_ms = begun.elapsed().as_secs_f64() * 1000.0;
        Ok(applied)
    }

    /// What the request would do: as it was found when it was asked for the last time, if nothing has changed since.
    fn looked(&self, work: &Work, state: &Arc<State>, request: &mut Apply) -> Result<Looked> {
        let there = |node| self.interfaces_there(work, node);
        let kept = self.looked_at().take();
        let plan = match request.plan.take() {
            Some(plan) => plan,
            None => {
                let asked = |kept: &Looked| {
                    kept.keep_drift == request.keep_drift
                        && request.expected.as_ref() == Some(&kept.found.digest)
                };
                let kept = kept.filter(asked).ok_or_else(|| Error::Invalid {
                    object: "plan".into(),
                    reason: "is missing, and these steps are not those that were shown last"
                        .to_owned(),
                })?;
                let same = |(node, found): &(NodeId, Vec<_>)| there(*node) == *found;
                if Arc::ptr_eq(&kept.state, state) && kept.there.iter().all(same) {
                    return Ok(kept);
                }
                kept.found.wanted
            }
        };
        let kernel = || self.differences(work, state);
        Looked::of(&self.folder, state, plan, request.keep_drift, &there, &kernel)
    }

    fn looked_at(&self) -> MutexGuard<'_, Option<Looked>> {
        self.looked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Names and indexes of the interfaces in a living node.
    fn interfaces_there(&self, work: &Work, node: NodeId) -> Vec<(String, u32)> {
        use std::os::fd::AsFd;
        let Some(init) = work.inits.get(&node).filter(|init| init.lives()) else { return vec![] };
        let object = format!("node {node}");
        let Ok(space) = init.network(&object) else { return vec![] };
        let all = crate::stage::spaces::inside(space.as_fd(), &object, |socket| {
            socket.links().map_err(Error::of(&object, "list its interfaces"))
        });
        let all = all.unwrap_or_default().into_iter();
        all.map(|link| (link.name, link.index)).collect()
    }

    /// Refuses what this machine or this lab cannot have, before anything is done.
    fn check_all(&self, merged: &Merged) -> Result<()> {
        let state = self.state();
        let touched =
            |id: &NodeId| merged.added.nodes.contains(id) || merged.changed.nodes.contains(id);
        let links = merged.target.links.iter().filter(|link| {
            merged.added.links.contains(&link.id) || merged.changed.links.contains(&link.id)
        });
        expressions::check_of(&merged.target, links)?;
        let nodes: Vec<&PlannedNode> =
            merged.target.nodes.iter().filter(|node| touched(&node.id)).collect();
        for node in &nodes {
            allowed::check_limits(&state.groups, node, state.user)?;
            ports::check_new(&self.folder, &state.plan, node)?;
            users::check_node(&state, node)?;
            binds::check(node, self.folder.runtime())?;
            for file in &node.files {
                if let netloom_model::lab::FileContent::From(path) = &file.content {
                    netloom_sys::setup::open_of_lab(path).map_err(Error::at(path, "open"))?;
                }
            }
        }
        for name in &merged.changed.switches {
            let of = |plan: &Plan| Some(plan.switches[plan.switch(name)?].kind.as_shm()?.clone());
            if let (Some(old), Some(new)) = (of(&state.plan), of(&merged.target)) {
                self.kept.keepers.switches.rule_changes(&self.folder, name, &[&old], &new)?;
            }
        }
        let doors = &self.kept.keepers.doors;
        doors.check(&self.folder, &state, &merged.target, merged.doors)?;
        machines::check(nodes.into_iter())?;
        routers::check(&merged.target)?;
        socket_paths::check(&self.folder, &merged.target)?;
        crate::keep::flows::check_tls(&merged.target.switches, &merged.target.slices)
    }

    /// All steps in order.
    fn carry_out(
        &self,
        work: &mut Work,
        found: Prospect,
        (request, across): (&Apply, Option<Across>),
        begun: Instant,
    ) -> Result<(Times, Vec<String>)> {
        let Prospect { merged: all, wanted, drift, before, .. } = found;
        let merged = &all;
        let mut times = Times::default();
        let mut note = |stage| times.0.push((stage, begun.elapsed().as_secs_f64() * 1000.0));
        self.folder.keep_before()?;
        let across = self.lead_to_hosts(work, across, &wanted, &merged.target)?;
        let was = Was { now: self.state(), before: before.as_ref() };
        self.take_drift_back(work, &drift)?;
        self.remove_parts(work, &merged.early)?;
        if merged.doors {
            self.kept.keepers.doors.close(&self.folder)?;
        }
        self.add_switches(work, merged, &was)?;
        // First what is between living nodes, then new ones: a process that adopts the lab meanwhile makes these by a plan
        // that the living ones follow already.
        self.take_plan(work, merged, false)?;
        self.raise_changed(work, merged, &was)?;
        self.change_loopbacks(work, merged, &was, true)?;
        self.lay_added(work, merged)?;
        self.follow(work, merged, &was)?;
        if !merged.changed.nodes.is_empty() && !self.state().unfinished.is_empty() {
            // A program that fails later shall not take them with it.
            self.change(work, |state| {
                state.unfinished.clear();
                Ok(())
            })?;
        }
        let made = self.add_nodes(work, merged)?;
        note(Stage::Add);
        self.change_parts(work, merged, &was)?;
        note(Stage::Change);
        if !made.slots.is_empty() || !merged.changed.nodes.is_empty() {
            // Programs may ask for names at once.
            self.settle_names();
        }
        let mut troubles = self.start_programs(work, merged, &was, &made)?;
        troubles.extend(made.lost);
        if !request.keep_drift {
            let changed = merged.changed.nodes.iter();
            let changed = changed.filter_map(|id| self.state().plan.slot_of(*id));
            let ready: Vec<Slot> = made.slots.iter().copied().chain(changed).collect();
            self.note_left(work, &ready)?;
        }
        note(Stage::Start);
        let last = self.state();
        self.remove_parts(work, &merged.late)?;
        self.follow_outside(&last.plan)?;
        let told = self.names_told();
        self.finish(work, all.target, wanted, request)?;
        self.follow_hosts(work, across)?;
        self.settle_names_of(told);
        note(Stage::Remove);
        Ok((times, troubles))
    }

    /// Writes the plan of the lab as it is from now on: with all parts that go last, and new nodes only if `nodes`.
    fn take_plan(&self, work: &mut Work, merged: &Merged, nodes: bool) -> Result<()> {
        let running = self.state();
        let mut plan = with_leftovers(&merged.target, &running.plan, &merged.late);
        plan.digest.clone_from(&running.plan.digest);
        let is_new = |plan: &Plan, slot: Slot| merged.added.nodes.contains(&plan.nodes[slot].id);
        // Links of new nodes are made with them, also on adoption.
        let of_new = |plan: &Plan| -> BTreeSet<LinkId> {
            let links = plan.links.iter();
            let links = links.filter(|link| nodes_of(link).any(|node| is_new(plan, node)));
            links.map(|link| link.id).collect()
        };
        let with_nodes = of_new(&plan);
        if !nodes && !merged.added.nodes.is_empty() {
            plan.forget_links(&with_nodes);
            let new = plan.slots().filter(|slot| is_new(&plan, *slot)).collect();
            plan.remove_nodes(&new);
        }
        self.change_plan(work, plan, |state| {
            let plan = &state.plan;
            for node in plan.nodes.iter().filter(|node| merged.added.nodes.contains(&node.id)) {
                add_group(&mut state.groups, plan, node);
            }
            for link in plan.links.iter().filter(|link| merged.added.links.contains(&link.id)) {
                let form = LinkForm::of(plan, link, allowed(state.user, plan));
                state.forms.set(link.id, form);
                if !nodes {
                    state.unfinished.insert(link.id);
                }
            }
            if nodes {
                state.unfinished.clear();
            }
        })
    }

    /// Makes the network of new nodes; their programs wait. Also recreates nodes whose init has ended.
    fn add_nodes(&self, work: &mut Work, merged: &Merged) -> Result<NewNodes> {
        let before = self.state();
        if !merged.added.nodes.is_empty() {
            self.take_plan(work, merged, true)?;
        }
        let (slots, lost) = self.make_network(work, &|_, _, _| {})?;
        if !merged.added.nodes.is_empty() {
            self.follow_routes(work, &before.plan)?;
        }
        Ok(NewNodes { slots, lost })
    }

    /// Removes parts of the lab.
    fn remove_parts(&self, work: &mut Work, parts: &Parts) -> Result<()> {
        self.drop_links(work, &parts.links)?;
        let state = self.state();
        // Parents before their children.
        let ids: Vec<NodeId> =
            state.plan.nodes.iter().map(|n| n.id).filter(|id| parts.nodes.contains(id)).collect();
        if !ids.is_empty() {
            self.forget(work, &ids)?;
        }
        self.drop_switches(work, &parts.switches)
    }

    /// Writes the digest of the file, and forgets what stood before.
    fn finish(
        &self,
        work: &mut Work,
        mut target: Plan,
        wanted: Plan,
        request: &Apply,
    ) -> Result<()> {
        target.digest.clone_from(&wanted.digest);
        if self.state().across.is_some() {
            target.scheme = None;
        }
        self.change_plan(work, target, |state| {
            state.unfinished.clear();
            if request.file.is_some() {
                state.file.clone_from(&request.file);
            }
        })?;
        let kept = request.keep_drift.then_some(wanted);
        self.folder.forget_before(kept, &self.state())
    }

    /// Removes links that could not be made.
    fn drop_unfinished(&self, work: &mut Work) -> Result<()> {
        let ids = self.state().unfinished.clone();
        self.drop_links(work, &ids)
    }
}

/// Nodes that were made, by slot, and links that could not be recreated.
struct NewNodes {
    slots: Vec<Slot>,
    lost: Vec<String>,
}

/// Places of links in a plan, by id.
fn places(plan: &Plan, ids: &BTreeSet<LinkId>) -> Vec<LinkSlot> {
    plan.link_slots().filter(|at| ids.contains(&plan.links[*at].id)).collect()
}

/// The living nodes' ids of a state whose plan has them.
fn is_there(state: &State, id: NodeId) -> bool {
    state.plan.slot_of(id).is_some()
}

/// A failure on the way, with what to do about it.
fn cut_off(lab: &str, error: &Error) -> Error {
    let reason = format!(
        "{}\nthe file is applied in part; when the cause is gone, the same command does the rest",
        netloom_sys::describe(error)
    );
    Error::Conflict { lab: lab.to_owned(), reason }
}
