//! Interfaces that are not where the plan put them (moved, lost) or are set down (cut).

use netloom_model::Plan;
use netloom_model::plan::Slot;
use netloom_model::plan::form::{LinkForm, Seat};
use netloom_model::plan::{Interface, PlannedLink, PlannedNode};

use crate::store::moved::Home;
use crate::store::state::State;
use crate::{Error, Result, Subject};

/// Whether an interface of a node, by places in the plan, is moved or lost.
pub(crate) fn is_away(state: &State, node: Slot, interface: usize) -> bool {
    let node = &state.plan.nodes[node];
    node.interfaces.get(interface).is_none_or(|found| is_absent(state, node, found))
}

/// Whether an interface of a node is not where the plan put it.
pub(crate) fn is_absent(state: &State, node: &PlannedNode, interface: &Interface) -> bool {
    let link = state.plan.link_at(interface.link);
    let home = Home::Node { node: node.id, index: interface.index };
    link.is_some_and(|link| state.lost.contains_key(&link.id))
        || state.moved.iter().any(|moved| moved.home == home)
}

/// The plan without routes by interfaces that are elsewhere or down.
pub(crate) fn without_absent(state: &State) -> Plan {
    let mut plan = state.plan.clone();
    for (slot, node) in state.plan.slots().zip(&mut plan.nodes) {
        let there = |at: usize| !is_away(state, slot, at) && !is_cut_here(state, slot, at);
        // Routes with only some next hops are installed by `following`.
        node.routes.retain(|r| there(r.interface) && r.also.iter().all(|hop| there(hop.interface)));
    }
    plan
}

/// Refuses to touch a link with a lost interface: another interface may have taken its index.
pub(crate) fn refuse_lost(state: &State, link: &PlannedLink) -> Result<()> {
    let Some(why) = state.lost.get(&link.id) else { return Ok(()) };
    Err(Error::Busy { object: Subject::of("link", &link.name), reason: why.clone() })
}

/// Where a link is set down.
pub(crate) enum Cut {
    /// At interfaces of the core namespace, by index.
    Core(Vec<u32>),
    /// At a node's interface, by places in the plan.
    Node(Slot, usize),
    /// At its plugs only.
    Plugs,
}

/// Where a link of any form is set down.
pub(crate) fn cut_of(state: &State, link: &PlannedLink) -> Cut {
    if state.form(link) == LinkForm::Wired {
        return Cut::Core([0, 1].map(|side| link.hidden_index(side)).into());
    }
    if state.form(link) == LinkForm::Joined {
        return Cut::Core([0, 1].map(|side| link.inner_index(side)).into());
    }
    if state.form(link) == LinkForm::Beside {
        let planes = (0..2).filter(|side| state.plan.separate_at(&link.ends[*side]).is_some());
        return Cut::Core(planes.map(|side| link.outer_index(side)).collect());
    }
    let seats = [0, 1].map(|side| state.seat(link, side));
    let ports: Vec<u32> = [0, 1]
        .into_iter()
        .filter(|side| seats[*side] == Seat::Port)
        .map(|side| link.port_index(side))
        .collect();
    if !ports.is_empty() {
        return Cut::Core(ports);
    }
    let node = seats.iter().rev().find_map(|seat| match seat {
        Seat::Node { node, interface } => Some(Cut::Node(*node, *interface)),
        _ => None,
    });
    node.filter(|_| !seats.contains(&Seat::Plug)).unwrap_or(Cut::Plugs)
}

/// Whether an interface of a node, by places in the plan, is where its link is set down.
pub(crate) fn is_cut_here(state: &State, node: Slot, interface: usize) -> bool {
    let at = state.plan.nodes[node].interfaces.get(interface).map(|i| i.link);
    let link = at.and_then(|at| state.plan.link_at(at));
    let down = link.filter(|link| state.down.contains(&link.id));
    down.is_some_and(
        |link| matches!(cut_of(state, link), Cut::Node(n, i) if (n, i) == (node, interface)),
    )
}
