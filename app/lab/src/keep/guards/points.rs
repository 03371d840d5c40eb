//! Where the frames for a node come by, and where a switch's neighbours of it enter.
//!
//! Only bridges have gates: in front of a shared-memory switch its processes carry frames past the ports' ingress.

use std::collections::BTreeSet;

use netloom_ebpf::Direction;
use netloom_model::plan::form::{LinkForm, Seat};
use netloom_model::plan::{Interface, LinkSlot, NodeId, PlannedEnd, PlannedLink, Slot, SwitchSlot};

use crate::stage::absent::is_absent;
use crate::stage::attach::{self, AttachPoint};
use crate::store::state::State;

/// Where frames for a node come by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    pub(super) at: AttachPoint,
    /// The address of the node's interface.
    pub(super) mac: [u8; 6],
    /// The bridge whose port it is: its place in the plan.
    pub(super) switch: Option<SwitchSlot>,
    /// A process forwards to it, too: only addresses tell who sent a frame.
    pub(super) beside: bool,
}

/// The points of a node: one an interface.
pub(super) fn points_of(state: &State, slot: Slot) -> Vec<Point> {
    let node = &state.plan.nodes[slot];
    // What comes by an interface that is elsewhere is not for this node.
    let here = node.interfaces.iter().enumerate().filter(|(_, i)| !is_absent(state, node, i));
    let point = |(interface, planned): (usize, &Interface)| {
        let link = &state.plan.links[planned.link];
        let here = PlannedEnd::Node { node: slot, interface };
        let side = link.ends.iter().position(|e| *e == here).unwrap_or(0);
        let at = match state.seat(link, 1 - side) {
            // Before a wire, which then carries only what passes.
            _ if state.form(link) == LinkForm::Joined => attach::behind_node(link, 1 - side),
            Seat::Port => AttachPoint {
                space: NodeId::CORE,
                index: link.port_index(1 - side),
                direction: Direction::Egress,
            },
            Seat::Node { .. } | Seat::Guest { .. } | Seat::Plug | Seat::Host => {
                attach::at_interface(state, slot, interface, Direction::Ingress)
            }
        };
        let beside = at.direction == Direction::Egress
            && state.plan.shm_switch_at(&link.ends[1 - side]).is_some();
        Point { at, mac: planned.mac, switch: bridge_at(state, link, 1 - side), beside }
    };
    here.map(point).collect()
}

/// The bridge at an end of a link, by its place in the plan.
fn bridge_at(state: &State, link: &PlannedLink, side: usize) -> Option<SwitchSlot> {
    let end = &link.ends[side];
    match end {
        PlannedEnd::Port { switch, .. } => (state.plan.shm_switch_at(end).is_none()
            && state.seat(link, side) == Seat::Port)
            .then_some(*switch),
        _ => None,
    }
}

/// What tells the bridges of a lab apart in the kernel.
pub(super) fn switch_number(state: &State, switch: SwitchSlot) -> u16 {
    // Addresses differ in any case; the number only keeps one switch's frames from another's budget.
    let index = state.plan.switch_at(switch).map_or(0, |switch| switch.index & 0xffff);
    u16::try_from(index).unwrap_or(0)
}

/// The ports of bridges among these links (places in the plan): index in the core namespace, and the number of
/// the switch.
pub(super) fn ports_of(state: &State, links: &[LinkSlot]) -> Vec<(u32, u16)> {
    let found = ports(state, links);
    found.into_iter().map(|(index, at)| (index, switch_number(state, at))).collect()
}

fn ports(state: &State, links: &[LinkSlot]) -> Vec<(u32, SwitchSlot)> {
    let there = links.iter().map(|at| &state.plan.links[*at]);
    let port = |(link, side): (&PlannedLink, usize)| {
        Some((link.port_index(side), bridge_at(state, link, side)?))
    };
    let there = there.filter(|link| !state.lost.contains_key(&link.id));
    there.flat_map(|link| [(link, 0), (link, 1)]).filter_map(port).collect()
}

/// The links of the bridges that a node is protected at, by places in the plan.
pub(super) fn links_around(state: &State, slot: Slot) -> Vec<LinkSlot> {
    let switches: Vec<SwitchSlot> =
        points_of(state, slot).into_iter().filter_map(|point| point.switch).collect();
    links_of(state, &switches)
}

fn links_of(state: &State, switches: &[SwitchSlot]) -> Vec<LinkSlot> {
    let is_there = |link: &PlannedLink| {
        link.ends
            .iter()
            .any(|e| matches!(e, PlannedEnd::Port { switch, .. } if switches.contains(switch)))
    };
    state.plan.link_slots().filter(|at| is_there(&state.plan.links[*at])).collect()
}

/// The bridges that nodes other than this one are protected at.
fn guarded(state: &State, but: Option<Slot>) -> Vec<SwitchSlot> {
    let nodes = state.plan.slots().zip(&state.plan.nodes);
    let protected = nodes.filter(|(slot, node)| !node.protect.is_empty() && but != Some(*slot));
    let points = protected.flat_map(|(slot, _)| points_of(state, slot));
    points.filter_map(|point| point.switch).collect()
}

/// Those ports of these links (places in the plan) that are to be gates, with their switches' numbers.
pub(super) fn gates_of(state: &State, links: &[LinkSlot]) -> Vec<(u32, u16)> {
    let mut fresh = ports(state, links);
    if fresh.is_empty() {
        return Vec::new();
    }
    let guarded: BTreeSet<SwitchSlot> = guarded(state, None).into_iter().collect();
    fresh.retain(|(_, switch)| guarded.contains(switch));
    fresh.into_iter().map(|(index, at)| (index, switch_number(state, at))).collect()
}

/// The gates that nobody needs once a node is not protected at a point.
pub(super) fn idle_gates(state: &State, point: &Point, slot: Slot) -> Vec<u32> {
    let Some(switch) = point.switch.filter(|at| !guarded(state, Some(slot)).contains(at)) else {
        return Vec::new();
    };
    ports_of(state, &links_of(state, &[switch])).into_iter().map(|(index, _)| index).collect()
}
