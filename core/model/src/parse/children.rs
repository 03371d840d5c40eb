//! Nodes in nodes: a tree in the file, a list in the lab, parents before their children.
//!
//! A child's name is `PARENT/NAME`, and `NAME.PARENT` in `/etc/hosts`, where names are
//! unique. No child exceeds the nodes around it, in number or in
//! limits.

use std::collections::HashMap;

use netloom_config::{Node as Yaml, Path, Report, quote};

use super::node;
use super::raw::{NodeBody, Origin};
use super::unroll::{Context, Scope, Stop};
use super::{check_count, named};
use crate::bounds::{MAX_DEPTH, MAX_NODES};
use crate::naming::{dotted, whole_name_problem};
use crate::plan::Slot;
use crate::setting::{excess, may_be_privileged};

/// A node whose children are being read.
#[derive(Clone, Copy)]
pub(crate) struct Parent {
    index: usize,
    /// 1 for a top-level node.
    depth: usize,
}

/// Reads a map of nodes, and the nodes in them.
pub(crate) fn nodes(
    yaml: Option<&Yaml>,
    path: &Path<'_>,
    scope: &Scope<'_>,
    parent: Option<Parent>,
    nodes: &mut Vec<Origin<NodeBody>>,
    context: &mut Context,
) -> Result<(), Stop> {
    named(yaml, path, scope, context, &mut |round, context| {
        let report = &mut context.report;
        check_count(nodes.len(), MAX_NODES, "nodes", round.place, report)?;
        let name = match parent {
            None => round.name.to_owned(),
            Some(parent) => format!("{}/{}", nodes[parent.index].value.node.name, round.name),
        };
        let path = path.key(round.name);
        let mut value = node::node(&name, round.body, &path, report);
        value.node.parent = parent.map(|p| Slot::new(p.index));
        let depth = parent.map_or(0, |p| p.depth) + 1;
        let this = Parent { index: nodes.len(), depth };
        let repetition = round.scope.repetition.clone();
        nodes.push(Origin { value, place: round.place, repetition });
        let too_long = whole_name_problem(&name);
        if let (Some(problem), Some(_)) = (&too_long, parent) {
            report.error(round.place, problem.as_str());
        }
        let inner = round.raw.get("children").and_then(|c| c.get("nodes"));
        let Some(inner) = inner.filter(|inner| !inner.is_null()) else { return Ok(()) };
        if depth >= MAX_DEPTH {
            report.error(inner.place, format!("nodes live in each other {MAX_DEPTH} deep at most"));
        } else if too_long.is_none() {
            // Below a name that is too long every name would be.
            let path = path.key("children");
            let path = path.key("nodes");
            self::nodes(Some(inner), &path, &round.scope, Some(this), nodes, context)?;
        }
        Ok(())
    })
}

/// Performs checks that need all nodes; sets the limit of nodes with `children` but no limit.
pub(crate) fn check(nodes: &mut [Origin<NodeBody>], report: &mut Report) {
    check_counts(nodes, report);
    if nodes.iter().all(|origin| origin.value.node.parent.is_none()) {
        return;
    }
    for origin in nodes.iter() {
        report.set_repetition(origin.repetition.clone());
        check_limits(nodes, &origin.value, report);
    }
    check_hosts(nodes, report);
    report.set_repetition(None);
}

fn check_counts(nodes: &mut [Origin<NodeBody>], report: &mut Report) {
    let mut counts = vec![0_u32; nodes.len()];
    // Children follow their parents, so going backwards theirs are complete first.
    for index in (0..nodes.len()).rev() {
        let count = counts[index];
        let body = &mut nodes[index].value;
        if let Some(parent) = body.node.parent {
            counts[parent.get()] += count + 1;
        }
        match (body.node.children, body.children) {
            (Some(limit), Some(place)) if limit < count => {
                let name = quote(&body.node.name);
                report.set_repetition(nodes[index].repetition.clone());
                report.error(
                    place,
                    format!("node {name}: the limit of children is {limit}, and {count} are given"),
                );
            }
            // Without a limit the children that the file gives are all that may be.
            (Some(_), None) => body.node.children = Some(count),
            _ => {}
        }
    }
    report.set_repetition(None);
}

/// A limit of a node is at most that of its nearest ancestor that has one.
fn check_limits(nodes: &[Origin<NodeBody>], body: &NodeBody, report: &mut Report) {
    let mut told = Vec::new();
    let mut around = body.node.parent;
    if let (Some(parent), Some(place)) = (around, body.privileged)
        && let Err(words) = may_be_privileged(
            (&body.node.name, body.node.privileged),
            (&nodes[parent.get()].value.node.name, nodes[parent.get()].value.node.privileged),
        )
    {
        report.error(place, words);
    }
    while let Some(index) = around {
        let outer = &nodes[index.get()].value.node;
        for excess in excess(&body.node.limits, &outer.limits) {
            let place = body.limits.iter().find(|(key, _)| *key == excess.key);
            // The nearest ancestor is enough: others would repeat it.
            if let Some((key, place)) = place.filter(|(key, _)| !told.contains(key)) {
                told.push(*key);
                report.error(*place, excess.told(&body.node.name, &outer.name));
            }
        }
        around = outer.parent;
    }
}

/// Names in `/etc/hosts` are unique, and none reads like an address.
fn check_hosts(nodes: &[Origin<NodeBody>], report: &mut Report) {
    let mut taken: HashMap<String, usize> = HashMap::new();
    let top_first = |child: bool| {
        nodes.iter().enumerate().filter(move |(_, o)| o.value.node.parent.is_some() == child)
    };
    // Nodes at the top keep their names; a child with the same one is at fault.
    for (index, origin) in top_first(false).chain(top_first(true)) {
        let name = &origin.value.node.name;
        let dotted = dotted(name);
        report.set_repetition(origin.repetition.clone());
        let shown = format!("node {}: its name in /etc/hosts, {},", quote(name), quote(&dotted));
        // A resolver would take it for an address, without asking for the name.
        if origin.value.node.parent.is_some() && dotted.parse::<std::net::IpAddr>().is_ok() {
            report.error(origin.place, format!("{shown} reads like an address"));
        }
        match taken.get(&dotted) {
            // The table of names reports equal names.
            Some(first) if nodes[*first].value.node.name == *name => {}
            Some(first) => {
                let first = &nodes[*first];
                let (other, line) = (quote(&first.value.node.name), first.place.line);
                let problem = format!("{shown} is that of node {other} on line {line}");
                report.error(origin.place, problem);
            }
            None => {
                taken.insert(dotted, index);
            }
        }
    }
}
