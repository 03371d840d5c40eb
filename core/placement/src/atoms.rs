//! What is placed as one: a node with the nodes in it; switches with the nodes that control them, or whose cards are theirs.

use std::collections::HashMap;

use netloom_config::closest;
use netloom_model::Pin;
use netloom_model::hosts::Hosts;
use netloom_model::kinds::openflow::Controller;
use netloom_model::plan::{Plan, PlannedEnd};

use crate::demand::{Demand, demand};
use crate::error::Error;

/// The weight of a node without a limit of CPU: as if it had a processor.
const WHOLE: u64 = 1000;

/// What is placed as one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Atom {
    /// Its nodes, and its switches behind them, as vertices: a switch's is its place after all nodes.
    pub(crate) members: Vec<usize>,
    /// How much of the lab it is.
    pub(crate) weight: u64,
    /// What it must be given.
    pub(crate) demand: Demand,
    /// The hosts that it may be on, by index; any if absent.
    pub(crate) allowed: Option<Vec<usize>>,
}

/// All of them, with the links between them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Atoms {
    pub(crate) list: Vec<Atom>,
    /// By vertex: its atom; none for a switch that is split.
    pub(crate) of: Vec<Option<usize>>,
    /// Between atoms, each link once.
    pub(crate) links: Vec<(usize, usize)>,
    /// By switch: the hosts of its pieces if it is split; an empty list is any.
    pub(crate) split: Vec<Option<Vec<usize>>>,
}

/// Two vertices that must be on one host.
struct Tie {
    vertices: [usize; 2],
    reason: String,
}

impl Atoms {
    /// # Errors
    /// Pins that name no host, and those that contradict each other; all of them.
    pub(crate) fn new(plan: &Plan, pins: &[Pin], hosts: &Hosts) -> Result<Atoms, Vec<Error>> {
        let mut errors = Vec::new();
        check_pins(pins, hosts, &mut errors);
        let nodes = plan.nodes.len();
        let count = nodes + plan.switches.len();
        let by_vertex = pins_of(plan, pins, hosts);
        let mut split: Vec<Option<Vec<usize>>> = Vec::with_capacity(plan.switches.len());
        for pin in &by_vertex[nodes..] {
            let pieces = pin.as_ref().filter(|pin| pin.split);
            split.push(pieces.map(|pin| pin.hosts.clone().unwrap_or_default()));
        }
        let ties = ties(plan);
        let mut root: Vec<usize> = (0..count).collect();
        for tie in &ties {
            let [a, b] = tie.vertices.map(|vertex| find(&mut root, vertex));
            root[a.max(b)] = a.min(b);
        }
        let mut atoms = Atoms { of: vec![None; count], split, ..Atoms::default() };
        let needs = demand(plan);
        for vertex in 0..count {
            if vertex >= nodes && atoms.split[vertex - nodes].is_some() {
                continue;
            }
            let first = find(&mut root, vertex);
            let at = match atoms.of[first] {
                Some(at) => at,
                None => {
                    atoms.list.push(Atom::default());
                    atoms.list.len() - 1
                }
            };
            // The first of an atom comes first, so that its others find it.
            atoms.of[first] = Some(at);
            atoms.of[vertex] = Some(at);
            let atom = &mut atoms.list[at];
            atom.members.push(vertex);
            if let Some(node) = plan.nodes.get(vertex) {
                let bounded = node.limits.cpu_milli.map(u64::from);
                // A child without a limit of its own is bounded by its parent's.
                let inside = node.parent.is_some() && bounded.is_none();
                atom.weight += if inside { 0 } else { bounded.unwrap_or(WHOLE) };
                atom.demand = atom.demand + needs[vertex];
            }
            let allowed = by_vertex[vertex].as_ref().and_then(|pin| pin.hosts.as_ref());
            if let Err(error) = atom.restrict(vertex, allowed, plan, &by_vertex, &ties) {
                errors.push(error);
            }
        }
        atoms.link(plan);
        if errors.is_empty() { Ok(atoms) } else { Err(errors) }
    }

    /// The atom that an end of a link belongs to; none for split switches and doors.
    pub(crate) fn of_end(&self, plan: &Plan, end: &PlannedEnd) -> Option<usize> {
        let vertex = match end {
            PlannedEnd::Node { node, .. } => node.get(),
            PlannedEnd::Port { switch, .. } => plan.nodes.len() + switch.get(),
            PlannedEnd::Host { .. } | PlannedEnd::Internet { .. } | PlannedEnd::Nowhere { .. } => {
                return None;
            }
        };
        self.of.get(vertex).copied().flatten()
    }

    fn link(&mut self, plan: &Plan) {
        for link in &plan.links {
            let ends = [0, 1].map(|side| self.of_end(plan, &link.ends[side]));
            if let [Some(a), Some(b)] = ends
                && a != b
            {
                self.links.push((a, b));
            }
        }
    }
}

impl Atom {
    /// Takes the pin of one more member into account.
    fn restrict(
        &mut self,
        vertex: usize,
        hosts: Option<&Vec<usize>>,
        plan: &Plan,
        pins: &[Option<Pinned>],
        ties: &[Tie],
    ) -> Result<(), Error> {
        let Some(hosts) = hosts else { return Ok(()) };
        let both: Vec<usize> = match &self.allowed {
            None => hosts.clone(),
            Some(known) => known.iter().copied().filter(|host| hosts.contains(host)).collect(),
        };
        if !both.is_empty() {
            self.allowed = Some(both);
            return Ok(());
        }
        let pinned = |other: &&usize| {
            let of = pins[**other].as_ref().and_then(|pin| pin.hosts.as_ref());
            of.is_some_and(|of| !of.iter().any(|host| hosts.contains(host)))
        };
        let other = self.members.iter().find(pinned).copied().unwrap_or(self.members[0]);
        let of = |tie: &&Tie| tie.vertices.contains(&vertex) || tie.vertices.contains(&other);
        let reason = ties.iter().rev().find(of).map(|tie| tie.reason.clone());
        Err(Error::Apart {
            first: vertex_name(plan, other).to_owned(),
            second: vertex_name(plan, vertex).to_owned(),
            reason: reason.unwrap_or_default(),
        })
    }
}

/// The name of a node or switch.
pub(crate) fn vertex_name(plan: &Plan, vertex: usize) -> &str {
    let switch = || plan.switches.get(vertex - plan.nodes.len()).map(|of| of.name.as_str());
    plan.nodes.get(vertex).map(|of| of.name.as_str()).or_else(switch).unwrap_or_default()
}

/// What a pin says of a vertex.
#[derive(Clone, Debug)]
struct Pinned {
    /// Hosts by index; any if absent.
    hosts: Option<Vec<usize>>,
    split: bool,
}

fn check_pins(pins: &[Pin], hosts: &Hosts, errors: &mut Vec<Error>) {
    for pin in pins {
        for host in pin.hosts.iter().filter(|host| hosts.find(host).is_none()) {
            let names = hosts.list.iter().map(|host| host.name.as_str());
            let meant = closest(host, names).map(str::to_owned);
            errors.push(Error::NoHost { of: pin.of.clone(), host: host.clone(), meant });
        }
    }
}

/// By vertex; nodes in others have none.
fn pins_of(plan: &Plan, pins: &[Pin], hosts: &Hosts) -> Vec<Option<Pinned>> {
    // A file may pin every node by its name.
    let by_name: HashMap<&str, &Pin> =
        pins.iter().filter(|pin| !pin.is_pattern()).map(|pin| (pin.of.as_str(), pin)).collect();
    let patterns: Vec<&Pin> = pins.iter().filter(|pin| pin.is_pattern()).collect();
    let places: HashMap<&str, usize> =
        hosts.list.iter().enumerate().map(|(at, host)| (host.name.as_str(), at)).collect();
    let pinned = |name: &str| {
        let pattern = || patterns.iter().find(|pin| pin.fits(name)).copied();
        let pin = by_name.get(name).copied().or_else(pattern)?;
        let known = pin.hosts.iter().filter_map(|host| places.get(host.as_str()).copied());
        let known: Vec<usize> = known.collect();
        Some(Pinned { hosts: Some(known).filter(|known| !known.is_empty()), split: pin.split })
    };
    let nodes = plan.nodes.iter().map(|node| match node.parent {
        None => pinned(&node.name),
        Some(_) => None,
    });
    nodes.chain(plan.switches.iter().map(|switch| pinned(&switch.name))).collect()
}

fn ties(plan: &Plan) -> Vec<Tie> {
    let nodes = plan.nodes.len();
    let mut ties = Vec::new();
    let mut tie = |a: usize, b: usize, reason: &str| {
        ties.push(Tie { vertices: [a, b], reason: reason.to_owned() });
    };
    for (at, node) in plan.nodes.iter().enumerate() {
        if let Some(parent) = node.parent {
            tie(parent.get(), at, "one is in the other");
        }
    }
    let node_of = |controller: &Controller| plan.node(controller.node()?).map(|slot| slot.get());
    for (at, switch) in plan.switches.iter().enumerate() {
        let controllers = switch.kind.as_openflow().map(|options| options.controllers.as_slice());
        for node in controllers.unwrap_or_default().iter().filter_map(node_of) {
            tie(node, nodes + at, "the node is the switch's controller");
        }
    }
    // A lab has one slicer, which is in front of all sliced switches.
    let mut sliced = plan.slices.iter().flat_map(|slice| slice.switches.keys());
    let first = sliced.next().and_then(|name| plan.switch(name)).map(|slot| nodes + slot.get());
    if let Some(first) = first {
        for slot in sliced.filter_map(|name| plan.switch(name)) {
            tie(first, nodes + slot.get(), "one slicer is in front of both");
        }
        let controllers = plan.slices.iter().flat_map(|slice| &slice.controllers);
        for node in controllers.filter_map(node_of) {
            tie(node, first, "the node is the controller of a slice");
        }
    }
    for link in &plan.links {
        for (near, far) in [(0, 1), (1, 0)] {
            let (PlannedEnd::Node { node, .. }, PlannedEnd::Port { switch, .. }) =
                (&link.ends[near], &link.ends[far])
            else {
                continue;
            };
            let is_port = plan.node_at(*node).and_then(|node| node.kind.as_vm());
            let is_port = is_port.is_some_and(|machine| machine.vhost_user);
            let is_shm = plan.switch_at(*switch).is_some_and(|of| of.kind.as_shm().is_some());
            if is_port && is_shm {
                tie(node.get(), nodes + switch.get(), "the machine's card is the switch's port");
            }
        }
    }
    ties
}

fn find(root: &mut [usize], mut at: usize) -> usize {
    while root[at] != at {
        root[at] = root[root[at]];
        at = root[at];
    }
    at
}
