//! Whether a plan from elsewhere can be relied on: places that exist, parents before children, names that are names and
//! differ.

use std::collections::BTreeSet;

use crate::naming::{interface_name_problem, node_name_problem};
use crate::plan::{LinkSlot, Plan, PlannedEnd, PlannedNode};

/// What is wrong with a plan; `None` for every plan that was made of a lab.
pub(super) fn problem(plan: &Plan) -> Option<String> {
    let mut names = BTreeSet::new();
    for (at, node) in plan.nodes.iter().enumerate() {
        if node.parent.is_some_and(|parent| parent.get() >= at) {
            return Some(format!("node {:?} comes before the one that it lives in", node.name));
        }
        let parts = node.name.split('/').find_map(node_name_problem);
        if let Some(problem) = parts.or_else(|| of_node(plan, node)) {
            return Some(format!("node {:?}: {problem}", node.name));
        }
        if !names.insert(node.name.as_str()) {
            return Some(format!("there are two of the name {:?}", node.name));
        }
    }
    for switch in &plan.switches {
        if let Some(problem) = node_name_problem(&switch.name) {
            return Some(format!("switch {:?}: {problem}", switch.name));
        }
        if !names.insert(switch.name.as_str()) {
            return Some(format!("there are two of the name {:?}", switch.name));
        }
    }
    let mut names = BTreeSet::new();
    for (at, link) in plan.link_slots().zip(&plan.links) {
        let is_there = |end: &PlannedEnd| match end {
            PlannedEnd::Node { node, interface } => {
                let own = plan.node_at(*node).and_then(|node| node.interfaces.get(*interface));
                own.is_some_and(|own| own.link == at)
            }
            PlannedEnd::Port { switch, .. } => plan.switch_at(*switch).is_some(),
            PlannedEnd::Host { .. } | PlannedEnd::Internet { .. } | PlannedEnd::Nowhere { .. } => {
                true
            }
        };
        if !link.ends.iter().all(is_there) {
            return Some(format!("link {:?}: an end of it is not there", link.name));
        }
        if !names.insert(link.name.as_str()) {
            return Some(format!("there are two links of the name {:?}", link.name));
        }
    }
    None
}

fn of_node(plan: &Plan, node: &PlannedNode) -> Option<String> {
    let mut names = BTreeSet::new();
    for own in &node.interfaces {
        let known = own.link == LinkSlot::NOT_SHOWN || plan.link_at(own.link).is_some();
        if !known || !names.insert(own.name.as_str()) {
            return Some(format!("interface {:?} is there twice, or leads nowhere", own.name));
        }
        if let Some(problem) = interface_name_problem(&own.name) {
            return Some(problem);
        }
    }
    let count = node.interfaces.len();
    let leads = |at: usize| at < count;
    let lost = |route: &&crate::plan::Route| {
        !leads(route.interface) || !route.also.iter().all(|hop| leads(hop.interface))
    };
    node.routes.iter().find(lost).map(|route| format!("the route to {} leads nowhere", route.to))
}
