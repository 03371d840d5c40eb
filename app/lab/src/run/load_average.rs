//! Load averages of nodes: the number of their tasks that run or wait for a device, as the kernel computes it for
//! the whole machine (`/proc/loadavg`).
//!
//! Every [`LOOK`] one pass over the processes of the machine counts tasks in the states R and D by
//! PID namespace. Nodes without such tasks cost nothing in a pass.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use netloom_model::plan::NodeId;
use netloom_node::loads;
use netloom_procfs::Tasks;
use netloom_stats::Load;
use netloom_sys::population;

/// The kernel's own interval (`LOAD_FREQ` of linux/sched/loadavg.h, 5 s).
pub(crate) const LOOK: Duration = Duration::from_secs(5);

/// The load averages of a lab's nodes, by node's id.
#[derive(Default)]
pub(crate) struct Loads {
    nodes: Mutex<BTreeMap<NodeId, Load>>,
}

impl Loads {
    /// A node's load averages; zero before the first pass.
    pub(crate) fn of(&self, node: NodeId) -> [f64; 3] {
        let nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        nodes.get(&node).map_or([0.0; 3], Load::averages)
    }

    /// Those of nodes that had a task in any pass; of others nobody was ever told anything.
    pub(crate) fn to_tell(&self) -> Vec<(usize, [f64; 3])> {
        let nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        let busy = nodes.iter().filter(|(_, load)| load.fifteen > 0.0);
        busy.map(|(id, load)| (id.get(), load.averages())).collect()
    }

    /// Adds one pass: the number of tasks found in each of these nodes.
    pub(crate) fn observe(&self, found: &BTreeMap<NodeId, u32>, elapsed: Duration) {
        let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        // Nodes that are gone.
        nodes.retain(|id, _| found.contains_key(id));
        for (id, tasks) in found {
            nodes.entry(*id).or_default().observe(*tasks, elapsed);
        }
    }
}

/// What a look finds: how many tasks of each node run or wait, and the processes that have any.
pub(crate) type Found = (BTreeMap<NodeId, u32>, Vec<(NodeId, i32)>);

/// How many tasks of each node run or wait, by the pids of their inits.
pub(crate) fn look(inits: &[(NodeId, i32)]) -> Found {
    let space = |pid: i32| std::fs::read_link(format!("/proc/{pid}/ns/pid")).ok();
    let spaces: BTreeMap<_, NodeId> =
        inits.iter().filter_map(|(id, pid)| Some((space(*pid)?, *id))).collect();
    let mut found: BTreeMap<NodeId, u32> = inits.iter().map(|(id, _)| (*id, 0)).collect();
    let mut busy = Vec::new();
    for pid in population::pids().into_iter().flatten() {
        let mut tasks = Tasks::default();
        loads::add_process(&mut tasks, pid);
        let tasks = tasks.running + tasks.blocked;
        if tasks == 0 {
            // Most processes sleep: their namespace is not asked for.
            continue;
        }
        let node = space(pid).and_then(|s| spaces.get(&s));
        if let Some((node, count)) = node.and_then(|n| Some((*n, found.get_mut(n)?))) {
            *count += tasks;
            busy.push((node, pid));
        }
    }
    (found, busy)
}
