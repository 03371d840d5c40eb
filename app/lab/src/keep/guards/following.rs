//! Lets budgets follow what nodes keep up with: reads what passed and what nodes wasted, and sets the budgets.
//!
//! The lab process looks every quarter of a second ([`pause`]); in a large lab under load less often, so that looking
//! costs at most a fiftieth of a CPU. Where little comes it reads counters of programs, and no node's.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use netloom_ebpf::protect::Budget;
use netloom_model::plan::NodeId;

use super::follow::{LOOK, Reading};
use super::points::points_of;
use super::{Guards, Inner, doors, number, waste};
use crate::store::state::State;

/// Looking takes at most this part of the time.
const PART: u32 = 50;
/// How often it is looked whether there is something to follow.
const SELDOM: Duration = Duration::from_secs(1);
/// Frames a second that every node keeps up with.
const LITTLE: u128 = 1000;
/// At a door one frame is one datagram, but counters are not read at one instant; a node's neighbours send super-frames of up to 64.
const AT_DOORS: f64 = 1.5;
const AT_NODES: f64 = 64.0;

/// One of those that follow.
struct Subject {
    number: u32,
    /// Namespaces of its programs.
    spaces: Vec<NodeId>,
    /// The most that it may have.
    packets: Option<u64>,
    bytes: Option<u64>,
    /// The node whose waste counts; at a door that of all nodes,
    node: Option<NodeId>,
    /// but of those with other doors.
    others: Vec<NodeId>,
    name: String,
}

/// How long to wait before the next look: there is something to follow or not, and the last look took so long.
pub(crate) fn pause(any: bool, took: Duration) -> Duration {
    if any { LOOK.max(took * PART) } else { SELDOM }
}

impl Guards {
    /// Looks once; whether there is something to follow. `inits` gives the pids of living nodes' inits.
    pub(crate) fn follow(&self, state: &State, inits: impl FnOnce() -> Vec<(NodeId, i32)>) -> bool {
        let subjects = subjects(state);
        let mut inner = self.inner();
        if subjects.is_empty() {
            inner.followed.clear();
            return false;
        }
        // Nodes and doors that are no longer in the plan.
        inner.followed.retain(|number, _| subjects.iter().any(|s| s.number == *number));
        let busy: Vec<bool> = subjects.iter().map(|s| inner.is_busy(s)).collect();
        let mut wasted = BTreeMap::new();
        // Reading every node's counters costs most: only while something is busy.
        if busy.contains(&true) {
            let each = inits().into_iter().filter_map(|(id, pid)| Some((id, waste::of(pid)?)));
            wasted.extend(each);
        }
        for (subject, busy) in subjects.iter().zip(busy) {
            let wasted = busy.then(|| match subject.node {
                Some(node) => wasted.get(&node).copied().unwrap_or(0),
                None => {
                    // A node with a door of its own is that door's.
                    let own = wasted.iter().filter(|(node, _)| !subject.others.contains(node));
                    own.map(|(_, wasted)| wasted).sum()
                }
            });
            inner.follow(subject, wasted);
        }
        true
    }
}

fn subjects(state: &State) -> Vec<Subject> {
    let plan = &state.plan;
    let nodes = plan.slots().zip(&plan.nodes).filter(|(_, node)| node.protect.follows());
    let node = |(slot, node): (_, &netloom_model::plan::PlannedNode)| {
        let mut spaces: Vec<NodeId> =
            points_of(state, slot).iter().map(|point| point.at.space).collect();
        spaces.sort_unstable();
        spaces.dedup();
        Subject {
            number: number(node),
            spaces,
            packets: node.protect.packets,
            bytes: node.protect.bytes,
            node: Some(node.id),
            others: vec![],
            name: format!("node {:?}", node.name),
        }
    };
    let links = || plan.links.iter().filter_map(|l| Some((l, doors::of(state, l, None)?)));
    let at_doors: Vec<NodeId> = links().map(|(_, door)| door.at.space).collect();
    let doors = links().map(|(link, door)| {
        let other = |space: &NodeId| *space != door.at.space;
        Subject {
            number: door.number,
            spaces: vec![door.at.space],
            packets: None,
            bytes: None,
            node: None,
            others: at_doors.iter().copied().filter(other).collect(),
            name: format!("door {:?}", link.name),
        }
    });
    nodes.map(node).chain(doors).collect()
}

impl Inner {
    /// What passed of a subject in all.
    fn passed(&self, subject: &Subject) -> Option<u64> {
        let shields = subject.spaces.iter().filter_map(|space| self.shields.get(space));
        let passed = shields.filter_map(|s| Some(s.read(subject.number).ok()?.passed.frames));
        passed.reduce(|a, b| a + b)
    }

    /// Whether so much came to a subject since the last look that it may not have kept up. Notes what came.
    fn is_busy(&mut self, subject: &Subject) -> bool {
        let Some(passed) = self.passed(subject) else { return false };
        let known = self.followed.entry(subject.number).or_default();
        let came = passed.saturating_sub(std::mem::replace(&mut known.passed, passed));
        let time = known.at.map_or(Duration::ZERO, |at| at.elapsed());
        // The first look has no earlier time to compare with.
        known.at.is_some() && u128::from(came) * 1000 > LITTLE * time.as_millis()
    }

    /// Takes what was wasted, or that little came, and sets the budget.
    fn follow(&mut self, subject: &Subject, wasted: Option<u64>) {
        let Some(known) = self.followed.get_mut(&subject.number) else { return };
        let time = known.at.replace(Instant::now()).map_or(Duration::ZERO, |at| at.elapsed());
        let before = known.follower.budget();
        let most = if subject.node.is_some() { AT_NODES } else { AT_DOORS };
        let budget = match wasted {
            Some(wasted) => {
                known.follower.look(Reading { passed: known.passed, wasted }, time, most)
            }
            None => known.follower.rest(time),
        };
        if let (None, Some(budget)) = (before, budget) {
            netloom_sys::journal::line(format_args!(
                "netloom: {}: more comes than is read; at most {budget} packets/s pass for now",
                subject.name
            ));
        }
        let frames = budget.into_iter().chain(subject.packets).min();
        // A call to the kernel is saved, as mostly nothing changes.
        if known.set == Some(frames) {
            return;
        }
        known.set = Some(frames);
        for shield in subject.spaces.iter().filter_map(|space| self.shields.get(space)) {
            // A node that is going has no budget.
            let _ = shield.change(subject.number, &Budget { frames, bytes: subject.bytes });
        }
    }
}
