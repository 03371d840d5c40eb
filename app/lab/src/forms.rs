//! How links are made: with a wire built in, as a tap of a plug, at a switch in shared memory; and what their hidden
//! interfaces are called.

use std::path::Path;

use netloom_model::Plan;
use netloom_model::kinds::shm::ShmSwitch;
use netloom_model::plan::{PlannedEnd, PlannedLink};

use crate::state::State;

/// Where taps are made.
const TUN: &str = "/dev/net/tun";

/// What names of hidden taps begin with.
pub(crate) const TAP: &str = "nlw";

/// Index of the first hidden tap; ports come before.
pub(crate) const FIRST_TAP: u32 = 200_000;

/// Whether a link was made with a wire in it.
pub(crate) fn built_in(state: &State, link: &PlannedLink) -> bool {
    state.wired.contains(&link.id)
}

/// Whether anything is asked of a link.
pub(crate) fn impaired(link: &PlannedLink) -> bool {
    link.impairments.iter().any(|i| !i.is_none())
}

/// Index of an inner end of a link that is built with a wire, in the core namespace.
pub(crate) fn inner_index(link: &PlannedLink, side: usize) -> u32 {
    FIRST_TAP + u32::try_from(number(link, side)).unwrap_or(0)
}

/// Name of the same, and of a direction's hidden tap.
pub(crate) fn hidden_name(link: &PlannedLink, side: usize) -> String {
    format!("{TAP}{}", number(link, side))
}

/// The number of a direction's wire in the process.
pub(crate) fn number(link: &PlannedLink, from: usize) -> usize {
    link.id * 2 + from
}

/// The options of a switch of this kind; `None` for a bridge of the kernel.
pub(crate) fn of(plan: &Plan, switch: usize) -> Option<&ShmSwitch> {
    plan.switches.get(switch).and_then(|s| s.kind.as_shm())
}

/// The shared-memory switch that an end of a link is in.
pub(crate) fn at(plan: &Plan, end: &PlannedEnd) -> Option<usize> {
    match end {
        PlannedEnd::Port { switch, .. } => of(plan, *switch).map(|_| *switch),
        _ => None,
    }
}

/// Whether a link can be a tap in its node: the other end is a shared-memory switch, and nothing has to
/// stand between the two.
pub(crate) fn can_be_tap(plan: &Plan, link: &PlannedLink) -> bool {
    let free = |end: &PlannedEnd| match end {
        PlannedEnd::Node { node, .. } => {
            let node = &plan.nodes[*node];
            node.protect.is_empty() && !node.charge_receive
        }
        end => at(plan, end).is_some(),
    };
    let nodes = link.ends.iter().filter(|e| matches!(e, PlannedEnd::Node { .. })).count();
    nodes == 1 && link.ends.iter().all(free) && !impaired(link)
}

/// Chooses how a link, by its place in the plan, is made: with a wire built in, or as a tap.
pub(crate) fn choose_way(state: &mut State, place: usize) {
    let link = &state.plan.links[place];
    let (id, plan) = (link.id, &state.plan);
    // Without BPF programs a wire cannot be put in later, nor where frames come from and go to a plug, which
    // hears them before any program does.
    let early = state.user || link.ends.iter().any(|end| at(plan, end).is_some());
    let wired = early && impaired(link);
    let tapped = !state.user && can_be_tap(plan, link) && Path::new(TUN).exists();
    if wired {
        state.wired.insert(id);
    }
    if tapped {
        state.tapped.insert(id);
    }
}
