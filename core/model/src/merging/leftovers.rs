//! The plan in between: the target, followed by objects that are removed last.

use std::collections::HashMap;

use super::Parts;
use crate::plan::{LinkSlot, NodeId, Plan, PlannedEnd, PlannedNode, Slot, SwitchSlot};

/// A target with parts of a running plan at the end of its lists: places in the target stay valid, and removing these
/// parts gives the target again. A part whose holder is in neither is left out.
pub fn with_leftovers(target: &Plan, running: &Plan, left: &Parts) -> Plan {
    let mut plan = target.clone();
    for switch in running.switches.iter().filter(|s| left.switches.contains(&s.name)) {
        plan.switches.push(switch.clone());
    }
    let mut slots: HashMap<NodeId, Slot> =
        plan.slots().zip(&plan.nodes).map(|(slot, node)| (node.id, slot)).collect();
    for node in running.nodes.iter().filter(|node| left.nodes.contains(&node.id)) {
        let parent = node.parent.and_then(|parent| running.node_at(parent)).map(|p| p.id);
        let mut node = node.clone();
        node.parent = parent.and_then(|parent| slots.get(&parent).copied());
        for interface in &mut node.interfaces {
            // Its place in the running plan means nothing here; links that are left over set it
            // below.
            interface.link = LinkSlot::NOT_SHOWN;
        }
        slots.insert(node.id, Slot::new(plan.nodes.len()));
        plan.nodes.push(node);
    }
    let mut places = Places::of(&plan, slots);
    for link in running.links.iter().filter(|link| left.links.contains(&link.id)) {
        let at = LinkSlot::new(plan.links.len());
        let ends = [0, 1].map(|side| moved(&mut plan, running, &mut places, &link.ends[side], at));
        // Its holder has gone, and the kernel removed the link with it.
        let [Some(a), Some(b)] = ends else { continue };
        let mut link = link.clone();
        link.ends = [a, b];
        plan.links.push(link);
    }
    plan
}

/// Where parts are in the plan in between.
struct Places {
    nodes: HashMap<NodeId, Slot>,
    /// By node and index.
    interfaces: HashMap<(Slot, u32), usize>,
    /// By name the last one: a switch that is recreated has gone by now.
    switches: HashMap<String, SwitchSlot>,
}

impl Places {
    fn of(plan: &Plan, nodes: HashMap<NodeId, Slot>) -> Places {
        let of_node = |(slot, node): (Slot, &PlannedNode)| {
            let all = node.interfaces.iter().enumerate();
            all.map(|(at, own)| ((slot, own.index), at)).collect::<Vec<_>>()
        };
        let switches = plan.switch_slots().zip(&plan.switches);
        Places {
            nodes,
            interfaces: plan.slots().zip(&plan.nodes).flat_map(of_node).collect(),
            switches: switches.map(|(slot, switch)| (switch.name.clone(), slot)).collect(),
        }
    }
}

/// An end of a link that is left over, in the plan in between.
fn moved(
    plan: &mut Plan,
    running: &Plan,
    places: &mut Places,
    end: &PlannedEnd,
    at: LinkSlot,
) -> Option<PlannedEnd> {
    match end {
        PlannedEnd::Node { node, interface } => {
            let old = running.node_at(*node)?;
            let slot = *places.nodes.get(&old.id)?;
            let own = old.interfaces.get(*interface)?;
            let node = &mut plan.nodes[slot];
            let known = places.interfaces.entry((slot, own.index));
            let interface = *known.or_insert_with(|| {
                node.interfaces.push(own.clone());
                node.interfaces.len() - 1
            });
            node.interfaces[interface].link = at;
            Some(PlannedEnd::Node { node: slot, interface })
        }
        PlannedEnd::Port { switch, .. } => {
            let old = running.switch_at(*switch)?;
            let mut end = end.clone();
            if let PlannedEnd::Port { switch, .. } = &mut end {
                *switch = *places.switches.get(&old.name)?;
            }
            Some(end)
        }
        other => Some(other.clone()),
    }
}
