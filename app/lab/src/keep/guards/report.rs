//! Reports for a protected node's users: traffic by sender.

use std::collections::BTreeMap;

use netloom_ebpf::protect::{Protection, sender_of_mac};
use netloom_model::plan::{NodeId, PlannedEnd, PlannedLink, Slot};

use crate::store::state::State;
use crate::view::{ProtectView, SenderView};

/// Adds the counters of one namespace, or of a door (`None`), where only addresses tell senders apart.
pub(super) fn add(
    view: &mut ProtectView,
    state: &State,
    slot: Slot,
    space: Option<NodeId>,
    totals: &Protection,
) {
    view.passed_packets += totals.passed.frames;
    view.passed_bytes += totals.passed.bytes;
    view.dropped_packets += totals.dropped.frames;
    view.dropped_bytes += totals.dropped.bytes;
    let mut known: BTreeMap<String, usize> =
        // Several namespaces may count the same sender.
        view.senders.iter().enumerate().map(|(at, sender)| (sender.sender.clone(), at)).collect();
    for sender in &totals.senders {
        let words = sender_words(state, slot, space, sender.ifindex);
        let at = *known.entry(words.clone()).or_insert_with(|| {
            view.senders.push(SenderView { sender: words, ..SenderView::default() });
            view.senders.len() - 1
        });
        let told = &mut view.senders[at];
        told.passed_packets += sender.passed.frames;
        told.dropped_packets += sender.dropped.frames;
        told.dropped_bytes += sender.dropped.bytes;
    }
}

/// The sender: by the interface that frames entered by, by their source address, or all others.
fn sender_words(state: &State, slot: Slot, space: Option<NodeId>, sender: u32) -> String {
    // Indexes mean ports in the core alone.
    let plan = &state.plan;
    let by_port = || {
        let (link, side) = plan.port_of(sender).filter(|_| space == Some(NodeId::CORE))?;
        Some(plan.end_text(&link.ends[1 - side]))
    };
    let other = match space {
        None => "(the host)",
        Some(NodeId::CORE) => "(the switch)",
        Some(_) => "(neighbours)",
    };
    by_port()
        .or_else(|| by_address(state, sender))
        .or_else(|| only_neighbour(state, slot))
        .unwrap_or_else(|| other.to_owned())
}

/// The interface whose address ends so.
fn by_address(state: &State, sender: u32) -> Option<String> {
    let plan = &state.plan;
    plan.slots().zip(&plan.nodes).find_map(|(node, planned)| {
        let interface = planned.interfaces.iter().position(|i| sender_of_mac(i.mac) == sender)?;
        Some(plan.end_text(&PlannedEnd::Node { node, interface }))
    })
}

/// The other end of a node's only link, unless that is a switch.
fn only_neighbour(state: &State, slot: Slot) -> Option<String> {
    let plan = &state.plan;
    let other = |link: &PlannedLink, interface| {
        let here = PlannedEnd::Node { node: slot, interface };
        let side = link.ends.iter().position(|e| *e == here)?;
        let other = &link.ends[1 - side];
        // A switch has many senders behind it.
        (!matches!(other, PlannedEnd::Port { .. })).then(|| plan.end_text(other))
    };
    match plan.nodes[slot].interfaces.as_slice() {
        [only] => other(plan.link_at(only.link)?, 0),
        _ => None,
    }
}
