//! A plan as seen from inside one of its nodes: only its descendants.

use super::build::digest_of;
use super::change::Renumbered;
use super::hosts;
use super::{LinkSlot, Plan, PlannedEnd, PlannedLink, PlannedNode, Slot};

impl Plan {
    /// The descendants of a node, with names without its own, and the links with
    /// both ends in them. An interface of another link keeps its name and addresses, and its link is
    /// [`LinkSlot::NOT_SHOWN`]. No switches and doors. Ids are those of the whole plan. Empty without such
    /// a node.
    pub fn subtree(&self, node: Slot) -> Plan {
        let Some(root) = self.node_at(node) else { return Plan::default() };
        let prefix = format!("{}/", root.name);
        let mut inside = vec![false; self.nodes.len()];
        self.descendants(node).into_iter().for_each(|slot| inside[slot.get()] = true);
        let nodes = Renumbered::new(inside.iter().copied());
        let links = Renumbered::new(self.links.iter().map(|link| lies_in(link, &inside)));
        let mut plan = Plan {
            lab: root.last_name().to_owned(),
            links: self.links.iter().filter(|link| lies_in(link, &inside)).cloned().collect(),
            ..Plan::default()
        };
        for link in &mut plan.links {
            link.name = self.local_name(link, &prefix);
            for end in &mut link.ends {
                if let PlannedEnd::Node { node, .. } = end {
                    *node = nodes.slot(*node).unwrap_or(Slot::NOT_SHOWN);
                }
            }
        }
        let shown = self.nodes.iter().zip(&inside).filter(|(_, inside)| **inside);
        plan.nodes = shown.map(|(node, _)| local_node(node, &prefix, &nodes, &links)).collect();
        plan.next_id = plan.nodes.iter().map(|n| n.id.next()).max().unwrap_or_default();
        plan.hosts = hosts::hosts(&plan.nodes);
        plan.digest = format!("{:016x}", digest_of(&mut plan));
        plan
    }

    /// A link's name without the prefix. Names by hand contain no `/` and stay.
    fn local_name(&self, link: &PlannedLink, prefix: &str) -> String {
        if !link.name.contains('/') {
            return link.name.clone();
        }
        let ends = [0, 1].map(|side| self.end_name(&link.ends[side]));
        let local = ends.clone().map(|end| match end.strip_prefix(prefix) {
            Some(local) => local.to_owned(),
            None => end,
        });
        // The rest distinguishes links of the same ends: `#2`.
        let number = link.name.strip_prefix(&ends.join("--")).unwrap_or_default();
        format!("{}{number}", local.join("--"))
    }

    /// The text of a node's end in the name of a link.
    fn end_name(&self, end: &PlannedEnd) -> String {
        let PlannedEnd::Node { node, interface } = end else { return String::new() };
        let Some(node) = self.node_at(*node) else { return String::new() };
        let interface = node.interfaces.get(*interface).map_or("", |i| i.name.as_str());
        format!("{}:{interface}", node.name)
    }
}

/// Whether both ends belong to descendants.
fn lies_in(link: &PlannedLink, inside: &[bool]) -> bool {
    link.ends.iter().all(|end| match end {
        PlannedEnd::Node { node, .. } => inside.get(node.get()).copied().unwrap_or(false),
        _ => false,
    })
}

fn local_node(
    node: &PlannedNode,
    prefix: &str,
    nodes: &Renumbered,
    links: &Renumbered,
) -> PlannedNode {
    let mut local = node.clone();
    local.name = node.name.strip_prefix(prefix).unwrap_or(&node.name).to_owned();
    local.parent = node.parent.and_then(|parent| nodes.slot(parent));
    for interface in &mut local.interfaces {
        interface.link = links.link(interface.link).unwrap_or(LinkSlot::NOT_SHOWN);
    }
    local
}
