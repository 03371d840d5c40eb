//! Names of an exported lab: those of the lab where the other program takes them, else the nearest that it takes.
//!
//! Nodes and switches share one space of names in containerlab. Sources: containerlab 0.79 (`links/link_brief.go`, `nodes/linux/linux.go`);
//! labels of Kubernetes (RFC 1123, section 2.1).

use std::collections::{BTreeMap, BTreeSet};

use netloom_model::Plan;
use netloom_model::plan::PlannedNode;

use super::Runtime;

/// Names of ends other than nodes: `host:eth1` is an interface of the host.
const RESERVED: [&str; 3] = ["host", "macvlan", "mgmt-net"];

/// The interface that a management network has in each of its containers.
pub(super) const MANAGED: &str = "eth0";

/// Longest label of a name of DNS, which names of pods are.
const LONGEST: usize = 63;

pub(super) struct Names {
    /// Of nodes and switches, by theirs in the lab.
    objects: BTreeMap<String, String>,
    /// Of each node's interfaces, in their order.
    interfaces: BTreeMap<String, Vec<String>>,
}

impl Names {
    pub(super) fn new(plan: &Plan, runtime: Runtime) -> Self {
        let mut taken: BTreeSet<String> = RESERVED.map(str::to_owned).into();
        let nodes = plan.nodes.iter().map(|node| &node.name);
        let names: Vec<&String> =
            nodes.chain(plan.switches.iter().map(|switch| &switch.name)).collect();
        let mut objects = BTreeMap::new();
        // Those that stay as they are come first, so that no other takes their name.
        let (same, other): (Vec<_>, Vec<_>) = names
            .into_iter()
            .partition(|name| taken_as_is(name, runtime) && !RESERVED.contains(&name.as_str()));
        for name in same.into_iter().chain(other) {
            let free = free(&near(name, runtime), LONGEST, |name| !taken.contains(name));
            taken.insert(free.clone());
            objects.insert(name.clone(), free);
        }
        let own = |node: &PlannedNode| (node.name.clone(), interfaces(node, runtime));
        Self { objects, interfaces: plan.nodes.iter().map(own).collect() }
    }

    /// The name of a node or switch.
    pub(super) fn of<'a>(&'a self, name: &'a str) -> &'a str {
        self.objects.get(name).map_or(name, String::as_str)
    }

    /// The name of a node's interface, by its place among those of the node.
    pub(super) fn interface<'a>(&'a self, node: &'a PlannedNode, at: usize) -> &'a str {
        let own = node.interfaces.get(at).map_or("", |interface| interface.name.as_str());
        self.interfaces.get(&node.name).and_then(|names| names.get(at)).map_or(own, String::as_str)
    }
}

/// Whether a node has an interface of the management network beside those of the lab's links.
pub(super) fn is_managed(node: &PlannedNode, runtime: Runtime) -> bool {
    match runtime {
        // Docker publishes ports of its own networks alone.
        Runtime::Docker => !node.ports.is_empty(),
        Runtime::Kubernetes => true,
    }
}

fn interfaces(node: &PlannedNode, runtime: Runtime) -> Vec<String> {
    let mut names: Vec<String> = node.interfaces.iter().map(|own| own.name.clone()).collect();
    let at = names.iter().position(|name| name == MANAGED);
    if let Some(at) = at.filter(|_| is_managed(node, runtime)) {
        let next = (1..).map(|number| format!("eth{number}")).find(|name| !names.contains(name));
        names[at] = next.unwrap_or_default();
    }
    names
}

fn taken_as_is(name: &str, runtime: Runtime) -> bool {
    near(name, runtime) == name
}

/// The nearest name that the other program takes.
fn near(name: &str, runtime: Runtime) -> String {
    match runtime {
        // A child of a node stands beside it.
        Runtime::Docker => name.replace('/', "-"),
        Runtime::Kubernetes => label(name, LONGEST, "node"),
    }
}

/// A name as Kubernetes takes it: small letters, digits and `-`, at most `longest` of them; `nameless` if none is left.
pub(super) fn label(name: &str, longest: usize, nameless: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let label: String = name.chars().map(plain).take(longest).collect();
    match label.trim_matches('-') {
        "" => nameless.to_owned(),
        label => label.to_owned(),
    }
}

/// The name, or the name with the first number that makes it free.
fn free(name: &str, longest: usize, is_free: impl Fn(&str) -> bool) -> String {
    let numbered = |number: usize| {
        let end = format!("-{number}");
        let kept: String = name.chars().take(longest.saturating_sub(end.len())).collect();
        format!("{kept}{end}")
    };
    let mut names = std::iter::once(name.to_owned()).chain((1..).map(numbered));
    names.find(|name| is_free(name)).unwrap_or_default()
}
