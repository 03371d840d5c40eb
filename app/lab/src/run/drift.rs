//! Compares a running lab with the kernel: manual changes in a node, or in the core namespace, without netloom.
//!
//! Objects that netloom made must be there as they were made: interfaces, addresses, routes, sysctls, ports of switches. What was
//! added counts only where a person would have added it (module `of_node` has the rule). What the commands and programs of
//! the file left when the lab came up is theirs (`left`). [`find`] reads, `mending` undoes; nothing is stored in between,
//! so that a mend that was cut off is repeated by the next one.
//!
//! Rules of shared-memory switches are what their processes say, and the recorder holds the lock of the recording.
//!
//! Guests of virtual machines configure themselves: their nodes are left out.

mod disciplines;
mod left;
pub(super) mod of_core;
pub(super) mod of_node;
pub(crate) mod seen;

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::AsFd;

use netloom_model::difference::Kind;
use netloom_model::merging::{Act, KeyChange, Merged, Step};
use netloom_model::plan::{LinkId, LinkSlot, NodeId, PlannedLink, Slot};
use netloom_netlink::Socket;
use netloom_sys::namespace;
use rustix::process::Pid;
use serde::{Deserialize, Serialize};

pub(crate) use self::left::Left;
pub(crate) use self::seen::Seen;
use crate::stage::spaces::{in_parts, on_a_thread};
use crate::store::state::State;
use crate::{Error, Result};

/// The processes whose networks are read: living inits.
pub(crate) struct LivingInits {
    /// Of nodes, by slot.
    pub(crate) nodes: Vec<Option<Pid>>,
    pub(crate) core: Option<Pid>,
}

/// An object that differs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Object {
    Link(LinkId),
    Switch(String),
    Node(NodeId),
    /// The recorder that the file asks for.
    Recording,
}

/// What differs, by object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Differences {
    pub(super) changes: BTreeMap<Object, Vec<KeyChange>>,
    /// Links of which an interface is gone.
    pub(super) missing: BTreeSet<LinkId>,
    /// Links whose wire is gone.
    pub(super) wires: BTreeSet<LinkId>,
    /// Whether the host's side of doors differs.
    pub(super) doors: bool,
}

impl Differences {
    pub(crate) fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    pub(crate) fn objects(&self) -> impl Iterator<Item = &Object> {
        self.changes.keys()
    }

    /// What a process tells another, whose steps they become.
    pub(crate) fn to_stored(&self) -> Vec<(Object, Vec<KeyChange>)> {
        self.changes.clone().into_iter().collect()
    }

    pub(crate) fn from_stored(stored: Vec<(Object, Vec<KeyChange>)>) -> Differences {
        Differences { changes: stored.into_iter().collect(), ..Differences::default() }
    }

    fn add(&mut self, object: Object, key: &str, words: String) {
        let change = KeyChange { key: key.to_owned(), words };
        let known = self.changes.entry(object).or_default();
        // Both ends of a link say that it is gone.
        if !known.contains(&change) {
            known.push(change);
        }
    }

    fn lacks_interface(&mut self, link: LinkId, which: &str) {
        self.missing.insert(link);
        self.add(Object::Link(link), "ends", format!("interface {which}, was none"));
    }

    /// Adds what differs at doors on the host.
    pub(crate) fn with_doors(mut self, found: Vec<(LinkId, String)>) -> Differences {
        self.doors |= !found.is_empty();
        for (link, words) in found {
            self.add(Object::Link(link), "ends", words);
        }
        self
    }

    /// Adds rules of shared-memory switches that differ, and a recorder that is not there.
    pub(crate) fn with_processes(
        mut self,
        rules: Vec<(String, Vec<KeyChange>)>,
        recorder: Option<String>,
    ) -> Differences {
        for (switch, changes) in rules {
            self.changes.entry(Object::Switch(switch)).or_default().extend(changes);
        }
        if let Some(words) = recorder {
            self.add(Object::Recording, "recorder", words);
        }
        self
    }

    fn lacks_wire(&mut self, link: LinkId) {
        self.wires.insert(link);
        self.add(Object::Link(link), "impairments", "its wire, was none".to_owned());
    }

    /// Without objects that a merge removes or recreates.
    pub(crate) fn without_gone(mut self, state: &State, merged: &Merged) -> Differences {
        let gone = [&merged.early, &merged.late];
        self.changes.retain(|object, _| {
            let goes = gone.iter().any(|parts| match object {
                Object::Node(id) => parts.nodes.contains(id),
                Object::Link(id) => parts.links.contains(id),
                Object::Switch(name) => parts.switches.contains(name),
                Object::Recording => merged.target.record.is_none(),
            });
            // One that was made in part is not in this state, and removed before anything else.
            let stands = match object {
                Object::Node(id) => state.plan.slot_of(*id).is_some(),
                Object::Link(id) => state.plan.link_slot_of(*id).is_some(),
                Object::Switch(_) | Object::Recording => true,
            };
            stands && !goes
        });
        self
    }

    /// In words, an object a line.
    pub(crate) fn lines(&self, state: &State) -> Vec<String> {
        self.steps(state).iter().map(Step::words).collect()
    }

    /// As steps that take them back.
    pub(crate) fn steps(&self, state: &State) -> Vec<Step> {
        let plan = &state.plan;
        let step = |(object, changes): (&Object, &Vec<KeyChange>)| {
            let (kind, name) = match object {
                Object::Node(id) => (Kind::Node, plan.nodes[plan.slot_of(*id)?].name.clone()),
                Object::Link(id) => (Kind::Link, plan.links[plan.link_slot_of(*id)?].name.clone()),
                Object::Switch(name) => (Kind::Switch, name.clone()),
                Object::Recording => (Kind::Recording, plan.lab.clone()),
            };
            Some(Step {
                act: Act::Change,
                kind: Some(kind),
                name,
                changes: KeyChange::bounded(changes.clone()),
                with: vec![],
                ends: false,
                drift: true,
            })
        };
        self.changes.iter().filter_map(step).collect()
    }
}

/// Compares all living nodes and the core with the plan.
///
/// # Errors
/// A namespace cannot be read.
pub(crate) fn find(state: &State, inhabited: &LivingInits, left: &Left) -> Result<Differences> {
    let all: Vec<Slot> = state.plan.slots().collect();
    let nodes = in_parts(&all, |slot| node(state, inhabited, slot, left))?;
    Ok(gathered(state, core(state, inhabited.core)?, all.into_iter().zip(nodes)))
}

/// What differs in the core, and in these nodes.
pub(crate) fn gathered(
    state: &State,
    core: Differences,
    nodes: impl Iterator<Item = (Slot, OfNode)>,
) -> Differences {
    let mut found = core;
    for (slot, of_node) in nodes {
        for (link, end) in of_node.missing {
            found.lacks_interface(link, &end);
        }
        of_node.wires.into_iter().for_each(|link| found.lacks_wire(link));
        if !of_node.changes.is_empty() {
            found.changes.insert(Object::Node(state.plan.nodes[slot].id), of_node.changes);
        }
    }
    found
}

/// What differs in a node.
#[derive(Default)]
pub(crate) struct OfNode {
    /// Links without their interface here, with the end's name.
    missing: Vec<(LinkId, String)>,
    /// Links without their wire here.
    wires: Vec<LinkId>,
    changes: Vec<KeyChange>,
}

/// Reads a node from inside its namespace. The calling thread ends afterwards.
fn node(state: &State, inhabited: &LivingInits, slot: Slot, left: &Left) -> Result<OfNode> {
    let planned = &state.plan.nodes[slot];
    let pid = inhabited.nodes.get(slot.get()).copied().flatten();
    let Some(pid) = pid.filter(|_| planned.kind.as_vm().is_none()) else {
        return Ok(OfNode::default());
    };
    let object = format!("node {:?}", planned.name);
    // A node whose init ends meanwhile has no interfaces.
    let Ok(ns) = namespace::network_of(pid) else { return Ok(OfNode::default()) };
    namespace::enter_network(ns.as_fd()).map_err(Error::of(&object, "look into"))?;
    let seen = seen::node(planned, state.plan.fixes_neighbours(), &object)?;
    Ok(compared(state, slot, left, &seen))
}

/// Compares a node with what was read in its network.
pub(crate) fn compared(state: &State, slot: Slot, left: &Left, seen: &Seen) -> OfNode {
    let planned = &state.plan.nodes[slot];
    if planned.kind.as_vm().is_some() || seen.links.is_empty() {
        return OfNode::default();
    }
    let found = of_node::compare(state, slot, seen);
    let link_of = |at: &usize| state.plan.links[planned.interfaces[*at].link].id;
    let end = |at: &usize| format!("{}:{}", planned.name, planned.interfaces[*at].name);
    let changes = found.differences.iter().map(of_node::Difference::change);
    OfNode {
        missing: found.missing.iter().map(|at| (link_of(at), end(at))).collect(),
        wires: found.wires.iter().map(link_of).collect(),
        changes: changes.filter(|change| !left.has(planned.id, change)).collect(),
    }
}

/// Reads the core namespace.
pub(crate) fn core(state: &State, pid: Option<Pid>) -> Result<Differences> {
    let Some(pid) = pid else { return Ok(Differences::default()) };
    let Ok(ns) = namespace::network_of(pid) else { return Ok(Differences::default()) };
    let links = on_a_thread(|| {
        let object = "core namespace";
        namespace::enter_network(ns.as_fd()).map_err(Error::of(object, "look into"))?;
        let mut socket =
            Socket::open_to_ask().map_err(Error::of(object, "open a netlink socket"))?;
        socket.links_alone().map_err(Error::of(object, "read its interfaces"))
    })?;
    Ok(of_core::compare(state, &links))
}

/// Whether netloom itself has taken a link away, or is about to: nothing of it is compared.
fn is_untouched(state: &State, link: &PlannedLink) -> bool {
    !state.lost.contains_key(&link.id) && !state.unfinished.contains(&link.id)
}

/// The places of links, by id.
pub(super) fn slots_of<'i>(
    state: &State,
    links: impl Iterator<Item = &'i Object>,
) -> Vec<LinkSlot> {
    let id = |object: &Object| match object {
        Object::Link(id) => state.plan.link_slot_of(*id),
        _ => None,
    };
    links.filter_map(id).collect()
}
