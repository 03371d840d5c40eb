//! What a merge does, in words.

use std::collections::{BTreeSet, HashMap};

use serde::{Deserialize, Serialize};

use super::Fates;
use crate::difference::{Change, Kind};
use crate::plan::{Plan, PlannedEnd, PlannedNode};

/// What is done to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum Act {
    /// It is made.
    Add,
    /// It is changed where it is.
    Change,
    /// It is removed and recreated.
    #[serde(alias = "anew")]
    Recreate,
    /// It is removed.
    Remove,
}

/// One step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Step {
    /// What is done.
    pub act: Act,
    /// To what type of object; absent for routes that follow from other changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<Kind>,
    /// Its name; of routes the nodes.
    pub name: String,
    /// The keys that change, or for which it is recreated: 100 at most, then one with an empty key that tells how many more
    /// there are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<KeyChange>,
    /// What goes and comes with an object that is recreated: nodes in it, links that end there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub with: Vec<String>,
    /// Whether something that may be in use ends: an object, or a program that is restarted or ended.
    pub ends: bool,
    /// Whether it reverts manual changes made since the file was last applied.
    #[serde(default, skip_serializing_if = "crate::lab::is_not")]
    pub drift: bool,
}

/// A key that changes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct KeyChange {
    /// As in the lab file, `limits.memory`.
    pub key: String,
    /// In words, `limits.memory 64MiB, was none`.
    pub words: String,
}

impl KeyChange {
    /// Those of an object.
    fn all(changes: &[Change]) -> Vec<KeyChange> {
        let told = changes.iter().take(MOST_CHANGES);
        let told = told.map(|c| KeyChange { key: c.key.clone(), words: c.words() });
        told.chain(KeyChange::more(changes.len())).collect()
    }

    /// The same list, no longer than one of an object is.
    #[must_use]
    pub fn bounded(mut all: Vec<KeyChange>) -> Vec<KeyChange> {
        let more = KeyChange::more(all.len());
        all.truncate(MOST_CHANGES);
        all.extend(more);
        all
    }

    /// How many of `all` are not named.
    fn more(all: usize) -> Option<KeyChange> {
        let more = all.saturating_sub(MOST_CHANGES);
        (more > 0).then(|| KeyChange { key: String::new(), words: format!("and {more} more") })
    }
}

/// The most keys of one object that are named.
const MOST_CHANGES: usize = 100;

/// The most nodes whose routes are named.
const MOST_ROUTED: usize = 3;

impl Step {
    /// A line: `+ node h3`, `~ node h1: limits.memory 64MiB, was none`.
    pub fn words(&self) -> String {
        let object = match self.kind {
            Some(kind) => format!("{} {}", kind.word(), self.name),
            None => format!("routes of {}", self.name),
        };
        let keys = || -> Vec<&str> { self.changes.iter().map(|c| c.words.as_str()).collect() };
        let mut line = match self.act {
            Act::Add => format!("+ {object}"),
            Act::Remove => format!("- {object}"),
            Act::Change if self.changes.is_empty() => format!("~ {object}"),
            Act::Change => format!("~ {object}: {}", keys().join("; ")),
            Act::Recreate => format!("! {object} recreated: {}", keys().join("; ")),
        };
        if !self.with.is_empty() {
            line.push_str(&format!(" (with {})", self.with.join(", ")));
        }
        if self.drift {
            line.push_str(" (changed by hand)");
        }
        line
    }
}

/// Whether a step reverts a manual change, by its object and the keys that it changes.
pub(super) type IsDrift<'a> = dyn Fn(Kind, &str, &[Change]) -> bool + 'a;

/// The steps: added, changed, recreated, removed; nodes, switches, links, slices and the recording of each in the order of their plan.
pub(super) fn steps(
    fates: &Fates<'_>,
    running: &Plan,
    wanted: &Plan,
    routed: &[String],
    drift: &IsDrift<'_>,
) -> Vec<Step> {
    let step = |act, kind, name: &str, changes: &[Change], with| Step {
        act,
        kind: Some(kind),
        name: name.to_owned(),
        changes: KeyChange::all(changes),
        with,
        // What was recorded stays.
        ends: kind != Kind::Recording && matches!(act, Act::Remove | Act::Recreate),
        drift: drift(kind, name, changes),
    };
    let (here, there) = (objects(running), objects(wanted));
    let (old, new) = (by_name(running), by_name(wanted));
    let mut steps = Vec::new();
    for (kind, name) in there.iter().filter(|key| fates.added.contains(key)) {
        steps.push(step(Act::Add, *kind, name, &[], vec![]));
    }
    for key in &there {
        if let Some(changes) = fates.changes.get(key) {
            let ends = match key.0 {
                Kind::Node => ends_programs(old.get(key.1), new.get(key.1)),
                // Rules that are in it no more go.
                Kind::Slice => changes.iter().any(|c| c.key.starts_with("switches.")),
                Kind::Switch | Kind::Link | Kind::Recording => false,
            };
            steps.push(Step { ends, ..step(Act::Change, key.0, key.1, changes, vec![]) });
        }
    }
    steps.extend(of_routes(routed));
    let companions = companions(fates, wanted);
    for key in &there {
        // What goes with another object is named there.
        if let Some(why) = fates.recreated.get(key).filter(|why| !why.is_empty()) {
            let with = companions.get(key).cloned().unwrap_or_default();
            steps.push(step(Act::Recreate, key.0, key.1, why, with));
        }
    }
    // Removed in the opposite order of making: links before what they end at.
    for (kind, name) in here.iter().rev().filter(|key| fates.removed.contains(key)) {
        steps.push(step(Act::Remove, *kind, name, &[], vec![]));
    }
    steps
}

/// Whether a program of a node ends when the node becomes the wanted one, or what is connected to a port of it.
fn ends_programs(old: Option<&&PlannedNode>, new: Option<&&PlannedNode>) -> bool {
    let (Some(old), Some(new)) = (old, new) else { return false };
    // A running program keeps its environment, so a new one means a restart of all.
    let goes = |program| old.env != new.env || !new.run.contains(program);
    old.run.iter().any(goes) || (old.ports != new.ports && !old.ports.is_empty())
}

fn by_name(plan: &Plan) -> HashMap<&str, &PlannedNode> {
    plan.nodes.iter().map(|node| (node.name.as_str(), node)).collect()
}

/// The step of routes that follow from others, if there are any.
pub(super) fn of_routes(routed: &[String]) -> Option<Step> {
    if routed.is_empty() {
        return None;
    }
    let (act, name) = (Act::Change, routed_words(routed));
    Some(Step { act, kind: None, name, changes: vec![], with: vec![], ends: false, drift: false })
}

/// All objects of a plan by type and name.
pub(super) fn objects(plan: &Plan) -> Vec<(Kind, &str)> {
    let nodes = plan.nodes.iter().map(|n| (Kind::Node, n.name.as_str()));
    let switches = plan.switches.iter().map(|s| (Kind::Switch, s.name.as_str()));
    let links = plan.links.iter().map(|l| (Kind::Link, l.name.as_str()));
    let slices = plan.slices.iter().map(|s| (Kind::Slice, s.name.as_str()));
    let recording = plan.record.iter().map(|_| (Kind::Recording, plan.lab.as_str()));
    nodes.chain(switches).chain(links).chain(slices).chain(recording).collect()
}

fn routed_words(names: &[String]) -> String {
    if names.len() <= MOST_ROUTED {
        return names.join(", ");
    }
    let (first, rest) = names.split_at(MOST_ROUTED);
    format!("{} and {} more nodes", first.join(", "), rest.len())
}

/// By object that is recreated: what goes with it, and has no reason of its own.
fn companions<'p>(fates: &Fates<'_>, plan: &'p Plan) -> HashMap<(Kind, &'p str), Vec<String>> {
    let goes = |kind, name: &str| fates.recreated.get(&(kind, name)).is_some_and(Vec::is_empty);
    let mut all: HashMap<(Kind, &str), Vec<String>> = HashMap::new();
    for node in plan.nodes.iter().filter(|node| goes(Kind::Node, &node.name)) {
        for around in around(&node.name) {
            all.entry((Kind::Node, around)).or_default().push(format!("node {}", node.name));
        }
    }
    for link in plan.links.iter().filter(|link| goes(Kind::Link, &link.name)) {
        let holders = link.ends.iter().flat_map(|end| match end {
            PlannedEnd::Node { node, .. } => {
                let names = plan.node_at(*node).into_iter().flat_map(|node| around(&node.name));
                names.map(|name| (Kind::Node, name)).collect()
            }
            PlannedEnd::Port { switch, .. } => {
                let switch = plan.switch_at(*switch);
                switch.map(|switch| (Kind::Switch, switch.name.as_str())).into_iter().collect()
            }
            _ => vec![],
        });
        for holder in holders.collect::<BTreeSet<_>>() {
            all.entry(holder).or_default().push(format!("link {}", link.name));
        }
    }
    all
}

/// A node's name, and those of the nodes around it.
fn around(name: &str) -> impl Iterator<Item = &str> {
    let outer = name.match_indices('/').map(|(at, _)| &name[..at]);
    std::iter::once(name).chain(outer)
}
