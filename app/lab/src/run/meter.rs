//! Waits of processes and what the machine counts, sampled every five seconds by the thread that looks for load averages: waits of
//! the lab's own processes and of those programs that it finds busy in nodes. What the figures mean is in [`netloom_fidelity`].

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use netloom_fidelity::machine::{self, Machine};
use netloom_fidelity::{LATE_NS, Waits};
use netloom_model::Plan;
use netloom_model::plan::{NodeId, Slot};
use netloom_sys::process;
use rustix::process::{Pid, getpid};

use crate::stage::lab_process::now_ns;
use crate::stage::role;
use crate::store::state::Folder;
use crate::view::{BehindKind, BehindView, WaitsView, dropped, stolen, waited};

/// Looks after which helpers are searched for again: a minute.
const SEARCH: u32 = 12;

/// Most processes of nodes whose waits are followed.
const MOST_FOLLOWED: usize = 4096;

/// What is known of waits and of the machine.
#[derive(Default)]
pub(crate) struct Meter(Mutex<Known>);

#[derive(Default)]
struct Known {
    looks: u32,
    /// The lab's own processes.
    helpers: Vec<(i32, String)>,
    /// Waits of their tasks at the last look, and all together by name.
    tasks: BTreeMap<(i32, i32), Waits>,
    own: BTreeMap<String, Waits>,
    /// Processes of nodes that were busy once, with when they began and their waits at the last look; and all together by
    /// node.
    followed: BTreeMap<i32, (NodeId, u64, Waits)>,
    nodes: BTreeMap<NodeId, Waits>,
    /// Both as of the last look.
    before: (BTreeMap<String, Waits>, BTreeMap<NodeId, Waits>, Machine),
    /// What the last look found behind: since when.
    behind: Vec<BehindView>,
}

impl Meter {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at everything, every five seconds. `busy` are processes of nodes that run or wait now.
    pub(crate) fn look(&self, folder: &Folder, plan: &Plan, busy: &[(NodeId, i32)]) {
        let mut known = self.known();
        if known.looks.is_multiple_of(SEARCH) {
            known.search(folder);
        }
        known.read_own();
        known.read_nodes(plan, busy);
        let now = Behind { machine: machine(), own: known.own.clone(), nodes: known.nodes.clone() };
        // What came before the first look is not of its time.
        if known.looks > 0 {
            let found = now.since(&known.before, plan);
            known.behind = carried_on(&known.behind, found, now_ns());
        }
        known.before = (now.own, now.nodes, now.machine);
        known.looks += 1;
    }

    /// What the last look found behind.
    pub(super) fn behind(&self) -> Vec<BehindView> {
        self.known().behind.clone()
    }

    /// Waits up to now: of the lab's own processes by name, and of nodes.
    pub(super) fn waits(&self, folder: &Folder, plan: &Plan) -> Vec<WaitsView> {
        let mut known = self.known();
        // The first look is five seconds after the start of the lab process.
        if known.helpers.is_empty() {
            known.search(folder);
        }
        known.read_own();
        known.read_nodes(plan, &[]);
        let view = |kind, name: &str, waits: &Waits| {
            let Waits { wait_ns, turns } = *waits;
            WaitsView { kind, name: name.to_owned(), wait_ns, turns }
        };
        let own = known.own.iter().map(|(name, waits)| view(BehindKind::Process, name, waits));
        let nodes = known.nodes.iter().filter_map(|(id, waits)| {
            Some(view(BehindKind::Node, &plan.nodes[plan.slot_of(*id)?].name, waits))
        });
        own.chain(nodes).collect()
    }
}

/// What was found is behind since it was found first.
fn carried_on(before: &[BehindView], found: Vec<BehindView>, now: u64) -> Vec<BehindView> {
    let since = |new: &BehindView| {
        let same = |old: &&BehindView| {
            (old.kind, &old.name, old.cause) == (new.kind, &new.name, new.cause)
        };
        before.iter().find(same).and_then(|old| old.since_ns).or(Some(now))
    };
    found.into_iter().map(|new| BehindView { since_ns: since(&new), ..new }).collect()
}

/// Totals at a look.
struct Behind {
    machine: Machine,
    own: BTreeMap<String, Waits>,
    nodes: BTreeMap<NodeId, Waits>,
}

impl Behind {
    fn since(
        &self,
        before: &(BTreeMap<String, Waits>, BTreeMap<NodeId, Waits>, Machine),
        plan: &Plan,
    ) -> Vec<BehindView> {
        let mut all = Vec::new();
        for (name, now) in &self.own {
            let waits = now.since(before.0.get(name).copied().unwrap_or(*now));
            all.extend(waited(BehindKind::Process, name, waits, LATE_NS));
        }
        for (id, now) in &self.nodes {
            let waits = now.since(before.1.get(id).copied().unwrap_or(*now));
            let Some(slot) = plan.slot_of(*id) else { continue };
            all.extend(waited(BehindKind::Node, &plan.nodes[slot].name, waits, LATE_NS));
        }
        let machine = (self.machine, before.2);
        if let (Some(now), Some(before)) = (machine.0.backlog_drops, machine.1.backlog_drops) {
            all.extend(dropped(now.saturating_sub(before)));
        }
        if let (Some(now), Some(before)) = (machine.0.ticks, machine.1.ticks) {
            all.extend(now.stolen_since(before).map(stolen));
        }
        all
    }
}

impl Known {
    /// Finds the lab's own processes.
    fn search(&mut self, folder: &Folder) {
        let helpers = role::of_lab(folder).into_iter();
        let number = |pid: Pid| pid.as_raw_nonzero().get();
        let named = helpers.map(|found| (number(found.pid), found.role.process().to_owned()));
        let own = process::name_of(getpid()).map(|name| (number(getpid()), name));
        self.helpers = named.chain(own).collect();
    }

    /// Adds what tasks of the lab's own processes waited since they were read last.
    fn read_own(&mut self) {
        let mut tasks = BTreeMap::new();
        for (pid, name) in &self.helpers {
            // A number that is used again is somebody else's.
            if Pid::from_raw(*pid).and_then(process::name_of).as_ref() != Some(name) {
                continue;
            }
            let total = self.own.entry(name.clone()).or_default();
            // What a process waited before it was seen first may be of any time; what a new thread of a known one did is new.
            let is_known = self.tasks.range((*pid, 0)..=(*pid, i32::MAX)).next().is_some();
            for (task, waits) in tasks_of(*pid) {
                let unseen = if is_known { Waits::default() } else { waits };
                let before = self.tasks.get(&(*pid, task)).copied().unwrap_or(unseen);
                total.add(waits.since(before));
                tasks.insert((*pid, task), waits);
            }
        }
        self.tasks = tasks;
    }

    /// Adds what busy processes of nodes waited since they were read last.
    fn read_nodes(&mut self, plan: &Plan, busy: &[(NodeId, i32)]) {
        let mut followed = BTreeMap::new();
        for (pid, (node, began, before)) in &self.followed {
            // A number that is used again is another process's.
            if let Some((now, waits)) = of_process(*pid).filter(|(now, _)| now == began) {
                self.nodes.entry(*node).or_default().add(waits.since(*before));
                followed.insert(*pid, (*node, now, waits));
            }
        }
        for (node, pid) in busy {
            let judged = plan.slot_of(*node).is_some_and(|slot| !is_held_back(plan, slot));
            if followed.len() < MOST_FOLLOWED
                && judged
                && !followed.contains_key(pid)
                && let Some((began, waits)) = of_process(*pid)
            {
                self.nodes.entry(*node).or_default();
                followed.insert(*pid, (*node, began, waits));
            }
        }
        self.nodes.retain(|id, _| plan.slot_of(*id).is_some());
        self.followed = followed;
    }
}

/// Whether the file holds a node's programs back: then their waits say nothing of the machine.
fn is_held_back(plan: &Plan, slot: Slot) -> bool {
    let mut around = std::iter::successors(Some(slot), |slot| plan.nodes[*slot].parent);
    around.any(|slot| plan.nodes[slot].limits.cpu_milli.is_some())
}

/// Waits of each task of a process.
fn tasks_of(pid: i32) -> Vec<(i32, Waits)> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let one = |task: std::fs::DirEntry| {
        let number = task.file_name().to_str()?.parse().ok()?;
        let text = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        Some((number, Waits::parse(&text)?))
    };
    tasks.filter_map(one).collect()
}

/// When a process began, in ticks since the machine started, and the waits of all its tasks together; `None` if it has ended.
fn of_process(pid: i32) -> Option<(u64, Waits)> {
    let began = process::began(pid)?;
    let tasks = tasks_of(pid);
    let mut all = Waits::default();
    tasks.iter().for_each(|(_, waits)| all.add(*waits));
    (!tasks.is_empty()).then_some((began, all))
}

pub(super) fn machine() -> Machine {
    let read = |path| std::fs::read_to_string(path).ok();
    Machine {
        backlog_drops: read("/proc/net/softnet_stat").and_then(|t| machine::backlog_drops(&t)),
        ticks: read("/proc/stat").and_then(|text| machine::ticks(&text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_found_with_its_tasks() {
        let own = getpid().as_raw_nonzero().get();
        let tasks = tasks_of(own);
        assert!(tasks.iter().any(|(task, waits)| *task == own && waits.turns > 0), "{tasks:?}");
        let (began, _) = of_process(own).expect("it lives");
        assert_eq!(of_process(own).map(|(again, _)| again), Some(began));
        assert!(began > 0);
        assert_eq!(of_process(i32::MAX), None);
    }

    #[test]
    fn what_stays_behind_keeps_its_time() {
        let one = |name: &str| waited(BehindKind::Node, name, Waits { wait_ns: 9, turns: 1 }, 1);
        let first = carried_on(&[], one("a").into_iter().collect(), 100);
        let then = carried_on(&first, one("a").into_iter().chain(one("b")).collect(), 200);
        let since: Vec<_> = then.iter().map(|b| (b.name.as_str(), b.since_ns)).collect();
        assert_eq!(since, [("a", Some(100)), ("b", Some(200))]);
        assert!(carried_on(&then, vec![], 300).is_empty());
        let again = carried_on(&[], one("a").into_iter().collect(), 400);
        assert_eq!(again[0].since_ns, Some(400));
    }
}
