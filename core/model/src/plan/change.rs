//! Changes of a running lab's plan: adding and removing nodes.
//!
//! Every index in a plan stays valid, parents precede their children, and an id is never
//! reused. The digest stays that of the plan made from the file.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::hosts;
use super::{
    DEFAULT_MTU, LinkId, LinkSlot, NextHop, Plan, PlannedEnd, PlannedLink, PlannedNode,
    PlannedSwitch, Route, Slot, SwitchSlot, ports, sysctl,
};
use crate::bounds::{MAX_DEPTH, MAX_NODES};
use crate::kinds::SwitchKind;
use crate::lab::{Node, NodeSpec};

impl PlannedNode {
    /// A node with default settings, and the id that [`Plan::add_node`] assigns next. `name` is
    /// the whole name, `parent` the node that contains it.
    pub fn fresh(plan: &Plan, name: &str, parent: Option<Slot>) -> PlannedNode {
        let around = parent.map(|at| (at, plan.node_at(at).and_then(|around| around.ids)));
        PlannedNode {
            id: plan.next_id,
            spec: Arc::new(NodeSpec::fresh(name, around)),
            sysctls: sysctl::sysctls(&Node::default()),
            interfaces: Vec::new(),
            routes: Vec::new(),
            internet: false,
        }
    }
}

impl Plan {
    /// Adds a switch without ports that is not in the kernel; returns its place. Its name must be free.
    pub fn add_switch(&mut self, name: &str, kind: SwitchKind) -> SwitchSlot {
        let switch = PlannedSwitch {
            name: name.to_owned(),
            // It has no interface in the core namespace.
            index: 0,
            bridge: String::new(),
            mac: [0; 6],
            mtu: DEFAULT_MTU,
            stp: false,
            kind: ports::with_number(&self.lab, name, kind),
        };
        self.switches.push(switch);
        SwitchSlot::new(self.switches.len() - 1)
    }

    /// Removes a switch in which no link ends.
    pub fn remove_switch(&mut self, slot: SwitchSlot) {
        if self.switch_at(slot).is_none() {
            return;
        }
        self.switches.remove(slot.get());
        for end in self.links.iter_mut().flat_map(|l| &mut l.ends) {
            if let PlannedEnd::Port { switch, .. } = end
                && *switch > slot
            {
                // Places behind the removed one move up.
                *switch = SwitchSlot::new(switch.get() - 1);
            }
        }
    }

    /// Adds a node without interfaces, whose parent, if any, is in the plan; gives it the next id and
    /// returns its slot.
    pub fn add_node(&mut self, mut node: PlannedNode) -> Slot {
        node.id = self.next_id;
        self.next_id = self.next_id.next();
        self.nodes.push(node);
        self.hosts = hosts::hosts(&self.nodes);
        Slot::new(self.nodes.len() - 1)
    }

    /// Removes these nodes as [`Plan::remove_nodes`] does, and decides the routes of the others again. A plan of an
    /// earlier version does not know how, and keeps the others' routes.
    pub fn delete_nodes(&mut self, which: &BTreeSet<Slot>) {
        // Looked at first: afterwards nothing tells of the gone nodes' links.
        let gone = self.with_descendants(which);
        let linked =
            self.nodes.iter().zip(gone).any(|(node, gone)| gone && !node.interfaces.is_empty());
        self.remove_nodes(which);
        if linked {
            // On a copy: a plan that cannot decide keeps its routes.
            let mut decided = self.clone();
            if decided.decide_routes().is_ok() {
                *self = decided;
            }
        }
    }

    /// Removes these nodes with their descendants and all links that end in one of them. Routes through them stay, unless
    /// their outgoing interface was removed as well.
    pub fn remove_nodes(&mut self, which: &BTreeSet<Slot>) {
        let gone = self.with_descendants(which);
        let ends_in_gone = |link: &PlannedLink| {
            link.ends.iter().any(|end| match end {
                PlannedEnd::Node { node, .. } => gone.get(node.get()).copied().unwrap_or(true),
                _ => false,
            })
        };
        let links = Renumbered::new(self.links.iter().map(|link| !ends_in_gone(link)));
        let nodes = Renumbered::new(gone.iter().map(|gone| !gone));
        self.drop_links(&links);
        for end in self.links.iter_mut().flat_map(|link| &mut link.ends) {
            if let PlannedEnd::Node { node, .. } = end {
                *node = nodes.slot(*node).unwrap_or(Slot::NOT_SHOWN);
            }
        }
        nodes.retain(&mut self.nodes);
        for node in &mut self.nodes {
            let parent = node.parent.and_then(|parent| nodes.slot(parent));
            // Only if it differs: writing would copy the node's shared description.
            if parent != node.parent {
                node.parent = parent;
            }
        }
        self.hosts = hosts::hosts(&self.nodes);
    }

    /// Removes these links with their interfaces and the routes that leave by them; nothing is decided again.
    pub fn forget_links(&mut self, which: &BTreeSet<LinkId>) {
        let links = Renumbered::new(self.links.iter().map(|link| !which.contains(&link.id)));
        self.drop_links(&links);
    }

    /// Removes links with their interfaces and routes; nodes stay.
    pub(super) fn drop_links(&mut self, links: &Renumbered) {
        let interfaces = self.drop_interfaces(links);
        links.retain(&mut self.links);
        for end in self.links.iter_mut().flat_map(|link| &mut link.ends) {
            if let PlannedEnd::Node { node, interface } = end {
                *interface = interfaces[node.get()].of(*interface).unwrap_or(usize::MAX);
            }
        }
    }

    /// Removes interfaces whose link is removed, with the routes that leave by them; returns by node the
    /// renumbering of its interfaces.
    fn drop_interfaces(&mut self, links: &Renumbered) -> Vec<Renumbered> {
        let drop = |node: &mut PlannedNode| {
            // A link that is not shown may be there all the same.
            let stays = |link: LinkSlot| link == LinkSlot::NOT_SHOWN || links.link(link).is_some();
            let kept = Renumbered::new(node.interfaces.iter().map(|i| stays(i.link)));
            kept.retain(&mut node.interfaces);
            for interface in &mut node.interfaces {
                interface.link = links.link(interface.link).unwrap_or(LinkSlot::NOT_SHOWN);
            }
            node.routes.retain_mut(|route| renumber(route, &kept));
            kept
        };
        self.nodes.iter_mut().map(drop).collect()
    }

    /// By node: whether it is one of these or a descendant of one.
    fn with_descendants(&self, which: &BTreeSet<Slot>) -> Vec<bool> {
        let mut inside = vec![false; self.nodes.len()];
        for (index, node) in self.nodes.iter().enumerate() {
            // Parents precede their children.
            let in_parent = node.parent.is_some_and(|p| p.get() < index && inside[p.get()]);
            inside[index] = in_parent || which.contains(&Slot::new(index));
        }
        inside
    }

    /// All descendants of a node, in the plan's order: parents before children.
    pub fn descendants(&self, node: Slot) -> Vec<Slot> {
        let inside = self.with_descendants(&BTreeSet::from([node]));
        self.slots().filter(|slot| inside[slot.get()] && *slot != node).collect()
    }

    /// Checks that one more node may be made in this one.
    ///
    /// # Errors
    /// The node or an ancestor allows no children or has reached its limit, at any
    /// depth; or names would have too many parts.
    pub fn room_for_child(&self, node: Slot) -> Result<(), String> {
        let mut at = Some(node);
        let mut depth = 1;
        // Ancestors have limits of their own, which count all descendants.
        while let Some(slot) = at {
            let Some(holder) = self.node_at(slot) else { return Err("no such node".into()) };
            let name = &holder.name;
            let Some(limit) = holder.children else {
                return Err(format!("node {name:?} has no `children`: no node can be made in it"));
            };
            let count = self.descendants(slot).len();
            if u32::try_from(count).is_ok_and(|count| count < limit) {
                // A parent comes first in the list; anything else could go round for ever.
                at = holder.parent.filter(|parent| *parent < slot);
                depth += 1;
                continue;
            }
            return Err(format!("node {name:?} has {count} nodes in it; its limit is {limit}"));
        }
        if depth > MAX_DEPTH {
            return Err(format!("nodes live in each other {MAX_DEPTH} deep at most"));
        }
        if self.nodes.len() >= MAX_NODES {
            return Err(format!("a lab has {MAX_NODES} nodes at most"));
        }
        Ok(())
    }
}

/// Renumbers the interfaces of a route's next hops, dropping removed ones; `false` when
/// none is left.
fn renumber(route: &mut Route, kept: &Renumbered) -> bool {
    let first = kept.of(route.interface);
    let left = route.also.iter().filter_map(|hop| {
        let interface = kept.of(hop.interface)?;
        Some(NextHop { interface, ..*hop })
    });
    let mut left: Vec<NextHop> = left.collect();
    match first {
        Some(interface) => route.interface = interface,
        None if left.is_empty() => return false,
        // The next of equal hops takes the first one's place.
        None => {
            let next = left.remove(0);
            (route.via, route.interface) = (Some(next.via), next.interface);
        }
    }
    route.also = left.into();
    true
}

/// New numbers for the items of a list from which some are removed.
pub(super) struct Renumbered(Vec<Option<usize>>);

impl Renumbered {
    /// By item, whether it stays.
    pub(super) fn new(stays: impl Iterator<Item = bool>) -> Renumbered {
        let mut next = 0;
        let number = |stays: bool| {
            stays.then(|| {
                next += 1;
                next - 1
            })
        };
        Renumbered(stays.map(number).collect())
    }

    /// The new number; `None` for a removed or missing item.
    pub(super) fn of(&self, old: usize) -> Option<usize> {
        self.0.get(old).copied().flatten()
    }

    /// The new slot of a node.
    pub(super) fn slot(&self, old: Slot) -> Option<Slot> {
        self.of(old.get()).map(Slot::new)
    }

    /// The new place of a link.
    pub(super) fn link(&self, old: LinkSlot) -> Option<LinkSlot> {
        self.of(old.get()).map(LinkSlot::new)
    }

    /// The items that stay.
    pub(super) fn select<T: Clone>(&self, items: &[T]) -> Vec<T> {
        items
            .iter()
            .zip(&self.0)
            .filter(|(_, new)| new.is_some())
            .map(|(item, _)| item.clone())
            .collect()
    }

    /// Keeps the items that stay.
    pub(super) fn retain<T>(&self, items: &mut Vec<T>) {
        let mut index = 0;
        items.retain(|_| {
            index += 1;
            self.of(index - 1).is_some()
        });
    }
}
