//! Turns a running lab into the one of a file: the steps, and the plan that holds afterwards.
//!
//! [`merge`] compares the plan of what runs with the wanted one. Objects are matched by name. One whose facts are equal,
//! or differ only in what it can change while it lives, stays, and the *target* has its identity: ids, indexes, port
//! numbers, names in the core namespace. Everything else in the target is the wanted plan's. An object that must be made
//! again gets a new identity; what lives in it or ends at it goes with it.
//!
//! [`with_leftovers`] is the plan in between: the target, followed by objects that are removed last. Nothing here touches a
//! machine; [`Machine`] has the little that depends on one.

mod blockers;
mod drift;
mod how;
mod identities;
mod leftovers;
mod steps;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use crate::difference::{self, Change, How, Item, Kind};
use crate::plan::form::{Allowed, LinkForm};
use crate::plan::{LinkId, NodeId, Plan, PlannedEnd, PlannedLink, PlannedNode, Slot};

pub use self::drift::merge_over;
pub use self::leftovers::with_leftovers;
pub use self::steps::{Act, KeyChange, Step};

/// What a merge needs to know of the machine.
pub struct Machine<'a> {
    /// Names and indexes of the interfaces in a living node, whichever program made them.
    pub there: &'a dyn Fn(NodeId) -> Vec<(String, u32)>,
    /// How a link of the running plan is made.
    pub form: &'a dyn Fn(&PlannedLink) -> LinkForm,
    /// What links can be.
    pub allowed: Allowed,
    /// Whether a file at this path of a node hides one that would be there without it.
    pub hides: &'a dyn Fn(&PlannedNode, &str) -> bool,
}

/// Parts of a lab, by what identifies them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// Nodes.
    pub nodes: BTreeSet<NodeId>,
    /// Links.
    pub links: BTreeSet<LinkId>,
    /// Switches, by name.
    pub switches: BTreeSet<String>,
}

impl Parts {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty() && self.links.is_empty() && self.switches.is_empty()
    }
}

/// How a running lab becomes the wanted one.
#[derive(Clone, Debug)]
pub struct Merged {
    /// The steps, in order.
    pub steps: Vec<Step>,
    /// The plan afterwards.
    pub target: Plan,
    /// Parts of the running plan that must go before anything is added: they are recreated, or hold a name or an
    /// address that an added part gets.
    pub early: Parts,
    /// Parts of the running plan that go last.
    pub late: Parts,
    /// Parts of the target that are new.
    pub added: Parts,
    /// Parts of both that change where they are.
    pub changed: Parts,
    /// Whether doors come, go or change. Then all of the running plan go early, and all of the target are new.
    pub doors: bool,
}

/// Why a lab cannot become the wanted one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It has another name.
    #[error("the file is of lab {wanted:?}, and this is lab {running:?}")]
    OtherLab {
        /// The running one's.
        running: String,
        /// The file's.
        wanted: String,
    },
    /// The wanted plan contradicts itself.
    #[error("the plan cannot be used: {problem}")]
    Unsound {
        /// How.
        problem: String,
    },
    /// Manual changes conflict with the file.
    #[error("manual changes conflict with the file: {reason}")]
    Drift {
        /// Why not.
        reason: String,
    },
    /// The running plan has no scheme.
    #[error(
        "the lab was brought up by an earlier version of netloom, so that its links cannot be changed; run `netloom up --replace` with its file"
    )]
    NoScheme,
}

/// What becomes of the objects of the two plans.
#[derive(Default)]
struct Fates<'p> {
    /// Changes in place, by kind and name; absent where nothing changes.
    changes: BTreeMap<(Kind, &'p str), Vec<Change>>,
    /// Objects of both plans that are recreated, with the changes that require it; none where it goes with another one.
    recreated: BTreeMap<(Kind, &'p str), Vec<Change>>,
    /// Objects of the wanted plan alone.
    added: BTreeSet<(Kind, &'p str)>,
    /// Objects of the running plan alone.
    removed: BTreeSet<(Kind, &'p str)>,
}

/// Compares what runs with what is wanted.
///
/// `before`: the plan before a merge that was cut off, which the machine may still follow in part.
///
/// # Errors
/// Why the lab cannot become the wanted one while it lives.
pub fn merge(
    running: &Plan,
    before: Option<&Plan>,
    wanted: &Plan,
    machine: &Machine<'_>,
) -> Result<Merged, Refusal> {
    merge_with(running, before, wanted, machine, &|_, _, _| false)
}

/// [`merge`], with steps marked as drift that are.
fn merge_with(
    running: &Plan,
    before: Option<&Plan>,
    wanted: &Plan,
    machine: &Machine<'_>,
    drift: &steps::IsDrift<'_>,
) -> Result<Merged, Refusal> {
    // Names of namespaces and MACs derive from the lab's name: nothing would stay.
    if running.lab != wanted.lab {
        let (running, wanted) = (running.lab.clone(), wanted.lab.clone());
        return Err(Refusal::OtherLab { running, wanted });
    }
    // Everything below follows places in the plan without looking whether they exist.
    if let Some(problem) = wanted.problem() {
        return Err(Refusal::Unsound { problem });
    }
    if running.scheme.is_none() || wanted.scheme.is_none() {
        return Err(Refusal::NoScheme);
    }
    let found = difference::difference(running, wanted);
    let earlier = before.map(|before| difference::difference(before, wanted));
    let mut fates = Fates::default();
    for item in &found.items {
        fates.note(item, &how::changes(item, running, wanted, machine));
    }
    fates.note_told(running, wanted);
    fates.note_numbers(running, wanted);
    // What an earlier merge may not have done yet.
    let there: HashSet<(Kind, &str)> = steps::objects(running).into_iter().collect();
    for item in earlier.iter().flat_map(|earlier| &earlier.items) {
        fates.note_earlier(item, &there);
    }
    // After all reasons of their own: parts follow those that are recreated for any of these.
    fates.spread(&there, wanted);
    // After `spread`, which may recreate a door with its node.
    let doors = fates.spread_doors(running, wanted);
    let named = identities::Named::of(&fates, running, wanted);
    let target = identities::target(&named, running, wanted, machine);
    let mut merged = parts(&fates, running, target);
    merged.doors = doors;
    blockers::clear(&mut merged, running);
    let routes = routes(&merged, running, before);
    merged.steps = steps::steps(&fates, running, wanted, &routes, drift);
    Ok(merged)
}

impl<'p> Fates<'p> {
    fn note(&mut self, item: &'p Item, changes: &[(How, Change)]) {
        let key = (item.kind, item.name.as_str());
        match (item.old, item.new) {
            (None, _) => {
                self.added.insert(key);
            }
            (_, None) => {
                self.removed.insert(key);
            }
            // One such change is enough; the others are made on the way.
            _ if changes.iter().any(|(how, _)| *how == How::Recreate) => {
                let why = changes.iter().filter(|(how, _)| *how == How::Recreate);
                self.recreated.insert(key, why.map(|(_, change)| change.clone()).collect());
            }
            _ => {
                let all = changes.iter().map(|(_, change)| change.clone()).collect();
                self.changes.insert(key, all);
            }
        }
    }

    /// Changes in place that the running plan has, and perhaps not the machine. An object of other identity was made
    /// since, as it is wanted.
    fn note_earlier(&mut self, item: &'p Item, there: &HashSet<(Kind, &str)>) {
        let key = (item.kind, item.name.as_str());
        let known = self.added.contains(&key)
            || self.removed.contains(&key)
            || self.recreated.contains_key(&key);
        let live: Vec<Change> =
            item.changes.iter().filter(|c| c.how == How::InPlace).cloned().collect();
        if known || live.is_empty() || live.len() < item.changes.len() || !there.contains(&key) {
            return;
        }
        self.changes.entry(key).or_insert(live);
    }

    /// Recreates nodes that are told of their links when they start.
    fn note_told(&mut self, running: &'p Plan, wanted: &'p Plan) {
        let known: HashMap<&str, Slot> = running
            .slots()
            .zip(&running.nodes)
            .map(|(at, node)| (node.name.as_str(), at))
            .collect();
        let special = |node: &&PlannedNode| how::is_special(node);
        for (new, node) in wanted.slots().zip(&wanted.nodes).filter(|(_, node)| special(node)) {
            let Some(old) = known.get(node.name.as_str()).copied() else { continue };
            if self.is_recreated(Kind::Node, &node.name) {
                continue;
            }
            if how::is_told_otherwise(running, old, wanted, new) {
                let (key, how) = ("links".to_owned(), How::Recreate);
                let links = |told: &str| Some(told.to_owned());
                let (old, new) = (links("old"), links("new"));
                let change = Change { key, old, new, shown: false, how };
                self.recreated.insert((Kind::Node, node.name.as_str()), vec![change]);
                self.changes.remove(&(Kind::Node, node.name.as_str()));
            }
        }
    }

    /// Recreates links whose port has a number that the file gives to another link's port.
    fn note_numbers(&mut self, running: &'p Plan, wanted: &Plan) {
        let mut given: HashMap<(&str, u32), &str> = HashMap::new();
        for (link, end) in wanted.links.iter().flat_map(|l| l.ends.iter().map(move |end| (l, end)))
        {
            let at = wanted.port_number(end).filter(|_| end.given_number().is_some());
            given.extend(at.map(|at| (at, link.name.as_str())));
        }
        // Most labs give no numbers; then no link need be looked at.
        for link in running.links.iter().filter(|_| !given.is_empty()) {
            let ends = link.ends.iter().filter_map(|end| running.port_number(end));
            let mut ends = ends.filter(|at| given.get(at).is_some_and(|name| *name != link.name));
            let Some((switch, number)) = ends.next() else { continue };
            let key = (Kind::Link, link.name.as_str());
            if self.stays(key.0, key.1) {
                let (old, new) = (Some(number.to_string()), Some("another".to_owned()));
                let key_of_port = format!("port.{switch}");
                let change = Change { key: key_of_port, old, new, shown: true, how: How::Recreate };
                self.changes.remove(&key);
                self.recreated.insert(key, vec![change]);
            }
        }
    }

    /// Recreates what lives in, or ends at, something that is removed or recreated.
    fn spread(&mut self, there: &HashSet<(Kind, &str)>, wanted: &'p Plan) {
        // Parents precede their children.
        for node in &wanted.nodes {
            let parent = node.parent.and_then(|parent| wanted.node_at(parent));
            let goes = parent.is_some_and(|p| self.is_recreated(Kind::Node, &p.name));
            if goes && there.contains(&(Kind::Node, node.name.as_str())) {
                self.goes_with(Kind::Node, &node.name);
            }
        }
        for link in &wanted.links {
            let goes = link.ends.iter().any(|end| match end {
                PlannedEnd::Node { node, .. } => {
                    wanted.node_at(*node).is_some_and(|n| self.is_recreated(Kind::Node, &n.name))
                }
                PlannedEnd::Port { switch, .. } => wanted
                    .switch_at(*switch)
                    .is_some_and(|s| self.is_recreated(Kind::Switch, &s.name)),
                PlannedEnd::Host { .. }
                | PlannedEnd::Internet { .. }
                | PlannedEnd::Nowhere { .. } => false,
            });
            if goes && !self.added.contains(&(Kind::Link, link.name.as_str())) {
                self.goes_with(Kind::Link, &link.name);
            }
        }
    }

    /// Recreates all doors if one comes, goes or changes, because the host's side of them is made as a whole. Returns
    /// whether that is so.
    fn spread_doors(&mut self, running: &'p Plan, wanted: &'p Plan) -> bool {
        let moves = |link: &&PlannedLink| is_door(link) && !self.stays(Kind::Link, &link.name);
        let touched = running.links.iter().chain(&wanted.links).any(|link| moves(&link));
        for link in wanted.links.iter().filter(|link| touched && is_door(link)) {
            let key = (Kind::Link, link.name.as_str());
            if self.stays(key.0, key.1) {
                let (old, new) = (Some("old".to_owned()), Some("new".to_owned()));
                let how = How::Recreate;
                let change = Change { key: "doors".to_owned(), old, new, shown: false, how };
                self.changes.remove(&key);
                self.recreated.insert(key, vec![change]);
            }
        }
        touched
    }

    fn is_recreated(&self, kind: Kind, name: &str) -> bool {
        self.recreated.contains_key(&(kind, name))
    }

    fn goes_with(&mut self, kind: Kind, name: &'p str) {
        self.changes.remove(&(kind, name));
        self.recreated.entry((kind, name)).or_default();
    }

    /// Whether an object of both plans stays.
    fn stays(&self, kind: Kind, name: &str) -> bool {
        let key = (kind, name);
        !self.recreated.contains_key(&key)
            && !self.added.contains(&key)
            && !self.removed.contains(&key)
    }
}

/// Whether a link leads out of the lab, to the host.
fn is_door(link: &PlannedLink) -> bool {
    let outside =
        |end: &PlannedEnd| matches!(end, PlannedEnd::Host { .. } | PlannedEnd::Internet { .. });
    link.ends.iter().any(outside)
}

/// Which parts come, go and change.
fn parts(fates: &Fates<'_>, running: &Plan, target: Plan) -> Merged {
    let recreated = |kind, name: &str| fates.is_recreated(kind, name);
    let gone = |kind, name: &str| !fates.stays(kind, name) && !fates.is_recreated(kind, name);
    let new = |kind, name: &str| !fates.stays(kind, name);
    let differs =
        |kind, name: &str| fates.stays(kind, name) && fates.changes.contains_key(&(kind, name));
    Merged {
        steps: vec![],
        early: parts_of(running, recreated),
        late: parts_of(running, gone),
        added: parts_of(&target, new),
        changed: parts_of(&target, differs),
        doors: false,
        target,
    }
}

/// The parts of a plan of which something holds, by type and name.
fn parts_of(plan: &Plan, holds: impl Fn(Kind, &str) -> bool) -> Parts {
    let switches = plan.switches.iter().filter(|s| holds(Kind::Switch, &s.name));
    Parts {
        nodes: plan.nodes.iter().filter(|n| holds(Kind::Node, &n.name)).map(|n| n.id).collect(),
        links: plan.links.iter().filter(|l| holds(Kind::Link, &l.name)).map(|l| l.id).collect(),
        switches: switches.map(|switch| switch.name.clone()).collect(),
    }
}

/// Names of nodes that stay and whose routes change.
fn routes(merged: &Merged, running: &Plan, before: Option<&Plan>) -> Vec<String> {
    let by_id = |plan: &Plan| -> HashMap<NodeId, usize> {
        plan.nodes.iter().enumerate().map(|(at, node)| (node.id, at)).collect()
    };
    let plans: Vec<(&Plan, HashMap<NodeId, usize>)> =
        std::iter::once(running).chain(before).map(|plan| (plan, by_id(plan))).collect();
    let differs = |node: &&PlannedNode| {
        plans.iter().any(|(plan, by_id)| {
            let old = by_id.get(&node.id).map(|at| &plan.nodes[*at]);
            old.is_some_and(|old| !difference::same_routes(old, node))
        })
    };
    merged.target.nodes.iter().filter(differs).map(|node| node.name.clone()).collect()
}

#[cfg(test)]
mod tests;
