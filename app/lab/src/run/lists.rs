//! Reads the lists of a running lab, whole or a page of each. What a page costs is what is on it: the rest of the lab is looked
//! at in memory only, except that every init's pidfd is asked whether it lives.

use std::collections::{BTreeMap, BTreeSet};

use netloom_model::Plan;
use netloom_model::lookup::{find_link, slot};
use netloom_model::plan::{LinkSlot, PlannedEnd, PlannedLink, Slot, SwitchSlot};

use crate::Result;
use crate::keep::slicers;
use crate::keep::switches::Switches;
use crate::keep::wires;
use crate::run::drift::{self, Differences, Left, OfNode};
use crate::run::fidelity;
use crate::run::impairing;
use crate::run::losses::{self, Between};
use crate::run::running::{Phase, Running};
use crate::run::sources::Sources;
use crate::run::status;
use crate::service::call::Within;
use crate::service::calls;
use crate::service::values::{After, NodeName, Objects};
use crate::stage::lab_process::now_ns;
use crate::stage::spaces::in_parts;
use crate::store::moved::Home;
use crate::store::state::State;
use crate::view::{
    InterfaceStatus, LabCounts, LabStatus, LinkNumbers, LinkStatus, NodeNumbers, NodeState,
    NodeStatus, SwitchStatus,
};

/// A page with more than one link in eight reads the core's interfaces all at once, others read those of their links.
const FEW: usize = 8;

impl Running {
    /// See [`Status`](calls::Status).
    pub(crate) fn status(&self, call: &calls::Status) -> Result<LabStatus> {
        let state = self.state();
        let pids = self.pids(&state.plan);
        let whole = self.is_whole(&state, &pids);
        let slots = nodes_of(&state.plan, call.of, &call.after, call.limit)?;
        let mut sources = Sources::new(self, &state, &pids);
        // While it comes up everything differs.
        if self.phase() == Phase::Up {
            sources.drift = Some((Left::read(&self.folder)?, self.core_pid()));
        }
        read(&sources, whole, &slots)
    }

    /// See [`Summary`](calls::Summary).
    pub(crate) fn counts(&self, of: Within) -> Result<LabCounts> {
        let state = self.state();
        let plan = &state.plan;
        let pids = self.pids(plan);
        let whole = self.is_whole(&state, &pids);
        let slots = slots_within(plan, of);
        let phase = self.phase();
        let standing = in_parts(&slots, |slot| {
            let planned = &plan.nodes[slot];
            let alive = pids[slot.get()].is_some();
            let report = alive.then(|| status::report(&self.folder, planned)).flatten();
            Ok(status::standing(&state, planned, phase, alive, &report.unwrap_or_default()))
        })?;
        let names = slots.iter().map(|slot| plan.nodes[*slot].name.as_str());
        let (nodes, troubled) =
            NodeNumbers::of(names.zip(standing).map(|(name, (state, why))| (name, state, why)));
        Ok(LabCounts {
            name: plan.lab.clone(),
            state: status::lab_state(phase, whole, nodes.any_troubled()),
            digest: plan.digest.clone(),
            pid: rustix::process::getpid().as_raw_nonzero().get(),
            since: state.since,
            nodes,
            links: links_in_numbers(&state, of),
            switches: plan.switches.len(),
            troubled,
        })
    }

    /// See [`ListNodes`](calls::ListNodes).
    pub(crate) fn nodes(&self, call: &calls::ListNodes) -> Result<Vec<NodeStatus>> {
        let state = self.state();
        let slots = nodes_of(&state.plan, call.of, &call.after, call.limit)?;
        let pids = self.pids_of(&state.plan, &slots.iter().copied().collect());
        let sources = Sources::new(self, &state, &pids);
        let between = between(&sources, &links_at(&state, &slots));
        Ok(nodes(&sources, &slots, &between)?.into_iter().map(|(node, _)| node).collect())
    }

    /// See [`ListLinks`](calls::ListLinks).
    pub(crate) fn links(&self, call: &calls::ListLinks) -> Result<Vec<LinkStatus>> {
        let state = self.state();
        let plan = &state.plan;
        let after = call.after.0.as_deref().map(|name| find_link(plan, name)).transpose()?;
        let all = links_within(plan, call.of);
        self.links_at(&state, &page(all, after.map(|(at, _)| at), call.limit))
    }

    /// See [`ListSwitches`](calls::ListSwitches).
    pub(crate) fn switches(&self, call: &calls::ListSwitches) -> Result<Vec<SwitchStatus>> {
        let state = self.state();
        let plan = &state.plan;
        let find = |name: &str| plan.switch(name).ok_or_else(|| self.lacks("switch", name.into()));
        let after = call.after.0.as_deref().map(find).transpose()?;
        let slots = page(plan.switch_slots().collect(), after, call.limit);
        Ok(switches(&Sources::new(self, &state, &[]), &slots))
    }

    /// See [`ShowSwitch`](calls::ShowSwitch).
    pub(crate) fn switch(&self, name: &str) -> Result<SwitchStatus> {
        let state = self.state();
        let slot = state.plan.switch(name);
        let found = slot.map(|slot| switches(&Sources::new(self, &state, &[]), &[slot]));
        let found = found.into_iter().flatten().next();
        found.ok_or_else(|| self.lacks("switch", name.to_owned()))
    }

    /// See [`ShowLink`](calls::ShowLink).
    pub(crate) fn link(&self, link: &str) -> Result<LinkStatus> {
        let state = self.state();
        let (at, _) = find_link(&state.plan, link)?;
        let found = self.links_at(&state, &[at])?.into_iter().next();
        found.ok_or_else(|| self.lacks("link", link.to_owned()))
    }

    fn links_at(&self, state: &State, links: &[LinkSlot]) -> Result<Vec<LinkStatus>> {
        let ends = ends_of(state, links);
        let pids = self.pids_of(&state.plan, &ends);
        let sources = Sources::new(self, state, &pids);
        let between = between(&sources, links);
        let ends: Vec<Slot> = ends.into_iter().collect();
        let found = interfaces(&sources, &ends, &between)?;
        let found = |slot: Slot| found.get(&slot).map_or(&[][..], Vec::as_slice);
        let directions = directions(&sources, links);
        let shown = |at: &LinkSlot| {
            let link = &state.plan.links[*at];
            status::link(&sources, link, &between, &directions, &found, &ends)
        };
        Ok(links.iter().map(shown).collect())
    }
}

/// The part of the lab that is meant.
pub(super) fn slots_within(plan: &Plan, of: Within) -> Vec<Slot> {
    let Some(root) = of.0 else { return plan.slots().collect() };
    plan.slot_of(root).map_or_else(Vec::new, |slot| plan.descendants(slot))
}

/// The nodes on a page.
fn nodes_of(plan: &Plan, of: Within, after: &After<NodeName>, limit: Objects) -> Result<Vec<Slot>> {
    let after = after.0.as_deref().map(|name| slot(plan, name)).transpose()?;
    Ok(page(slots_within(plan, of), after, limit))
}

/// What is on a page of a list that is in order.
fn page<T: Ord>(mut all: Vec<T>, after: Option<T>, limit: Objects) -> Vec<T> {
    if let Some(after) = after {
        all.retain(|one| *one > after);
    }
    all.truncate(limit.size());
    all
}

/// The links that have an interface in one of these nodes.
fn links_at(state: &State, slots: &[Slot]) -> Vec<LinkSlot> {
    let plan = &state.plan;
    let mut links: BTreeSet<LinkSlot> =
        slots.iter().flat_map(|slot| &plan.nodes[*slot].interfaces).map(|i| i.link).collect();
    // Few were moved, if any.
    for moved in &state.moved {
        let Home::Node { node, index } = &moved.home else { continue };
        let guest_of = |slot: &&Slot| plan.nodes[**slot].id == moved.node;
        if let (Some(home), true) = (plan.slot_of(*node), slots.iter().any(|s| guest_of(&s))) {
            let found = plan.nodes[home].interfaces.iter().find(|i| i.index == *index);
            links.extend(found.map(|interface| interface.link));
        }
    }
    links.into_iter().collect()
}

/// The nodes that may have an interface of these links.
fn ends_of(state: &State, links: &[LinkSlot]) -> BTreeSet<Slot> {
    links.iter().flat_map(|at| status::ends_and_guests(state, &state.plan.links[*at])).collect()
}

/// The links of the lab; of the nodes in a node those that do not lead out.
fn links_within(plan: &Plan, of: Within) -> Vec<LinkSlot> {
    if of == Within::ALL {
        return plan.link_slots().collect();
    }
    let within: BTreeSet<Slot> = slots_within(plan, of).into_iter().collect();
    let here =
        |end: &PlannedEnd| matches!(end, PlannedEnd::Node { node, .. } if within.contains(node));
    plan.link_slots().filter(|at| plan.links[*at].ends.iter().all(here)).collect()
}

/// How many links there are, and how many of them are down.
fn links_in_numbers(state: &State, of: Within) -> LinkNumbers {
    let links = links_within(&state.plan, of);
    let is_down = |at: &&LinkSlot| state.down.contains(&state.plan.links[**at].id);
    let down = if state.down.is_empty() { 0 } else { links.iter().filter(is_down).count() };
    LinkNumbers { all: links.len(), down }
}

/// Counters of the interfaces that these links have outside of nodes.
fn between(sources: &Sources<'_>, links: &[LinkSlot]) -> Between {
    let plan = &sources.state.plan;
    let planned: Vec<&PlannedLink> = links.iter().map(|at| &plan.links[*at]).collect();
    Between::read(sources, &planned, links.len() * FEW > plan.links.len())
}

/// The wires of these links. Their process is asked only if there is one.
fn directions(sources: &Sources<'_>, links: &[LinkSlot]) -> wires::States {
    let state = sources.state;
    match links.iter().any(|at| impairing::has_wire(state, &state.plan.links[*at])) {
        true => sources.running.wire_states(state),
        false => Ok(BTreeMap::new()),
    }
}

/// Reads these nodes, and what differs in them.
fn nodes(
    sources: &Sources<'_>,
    slots: &[Slot],
    between: &Between,
) -> Result<Vec<(NodeStatus, OfNode)>> {
    in_parts(slots, |slot| {
        let visit = status::visit(sources, slot)?;
        let differs = sources
            .drift
            .as_ref()
            .map(|(left, _)| drift::compared(sources.state, slot, left, &visit.seen));
        Ok((status::node(sources, slot, between, &visit), differs.unwrap_or_default()))
    })
}

/// The interfaces of these nodes, as their links need them.
fn interfaces(
    sources: &Sources<'_>,
    slots: &[Slot],
    between: &Between,
) -> Result<BTreeMap<Slot, Vec<InterfaceStatus>>> {
    let found = in_parts(slots, |slot| status::glance(sources, slot, between))?;
    Ok(slots.iter().copied().zip(found).collect())
}

/// Switches, with the names of their links.
fn switches(sources: &Sources<'_>, slots: &[SwitchSlot]) -> Vec<SwitchStatus> {
    let plan = &sources.state.plan;
    // Without a slicer's answer the lab is shown all the same.
    let slicer = match slots.is_empty() {
        true => None,
        false => slicers::shown(&sources.running.folder, plan).ok(),
    };
    let mut links = status::links_of_switches(plan, slots);
    let links_of = |slot: &SwitchSlot| links.remove(slot).unwrap_or_default();
    let names: Vec<Vec<String>> = slots.iter().map(links_of).collect();
    let shown = slots.iter().zip(names);
    shown.map(|(slot, names)| status::switch(sources, *slot, names, slicer.as_ref())).collect()
}

/// The switches in which these links end.
fn switches_of(plan: &Plan, links: &[LinkSlot]) -> Vec<SwitchSlot> {
    let ends = links.iter().flat_map(|at| &plan.links[*at].ends);
    let switches = ends.filter_map(|end| match end {
        PlannedEnd::Port { switch, .. } => Some(*switch),
        _ => None,
    });
    switches.collect::<BTreeSet<_>>().into_iter().collect()
}

/// Reads these nodes, with the links at them and the switches in which these end; with all nodes the whole lab.
/// `whole`: all inits and keepers are complete.
fn read(sources: &Sources<'_>, whole: bool, slots: &[Slot]) -> Result<LabStatus> {
    let state = sources.state;
    let plan = &state.plan;
    let everything = slots.len() == plan.nodes.len();
    let links = match everything {
        true => plan.link_slots().collect(),
        false => links_at(state, slots),
    };
    let between = between(sources, &links);
    let read = nodes(sources, slots, &between)?;
    if everything {
        sources.running.quiet.keep(plan.nodes.iter().map(|node| node.id));
    }
    let (nodes, differences): (Vec<NodeStatus>, Vec<OfNode>) = read.into_iter().unzip();
    let places: BTreeMap<Slot, usize> = slots.iter().copied().zip(0..).collect();
    let mut beside = ends_of(state, &links);
    beside.retain(|slot| !places.contains_key(slot));
    let beside = interfaces(sources, &beside.into_iter().collect::<Vec<_>>(), &between)?;
    let found = |slot: Slot| match places.get(&slot) {
        Some(at) => nodes[*at].interfaces.as_slice(),
        None => beside.get(&slot).map_or(&[][..], Vec::as_slice),
    };
    let everywhere: Vec<Slot> = places.keys().chain(beside.keys()).copied().collect();
    let directions = directions(sources, &links);
    let link = |at: &LinkSlot| {
        status::link(sources, &plan.links[*at], &between, &directions, &found, &everywhere)
    };
    let troubled = |n: &NodeStatus| matches!(n.state, NodeState::Degraded | NodeState::Failed);
    let on_page = match everything {
        true => plan.switch_slots().collect(),
        false => switches_of(plan, &links),
    };
    Ok(LabStatus {
        name: plan.lab.clone(),
        state: status::lab_state(sources.phase, whole, nodes.iter().any(troubled)),
        digest: plan.digest.clone(),
        pid: rustix::process::getpid().as_raw_nonzero().get(),
        since: state.since,
        read_ns: now_ns(),
        machine_drops: losses::of_machine(),
        behind: fidelity::now(sources.running, plan, directions.as_ref().ok()),
        user: state.user,
        drift: differing(sources, slots, differences, everything)?,
        switches: switches(sources, &on_page),
        links: links.iter().map(link).collect(),
        nodes,
        across: sources.running.far_view(state),
    })
}

/// What differs from the plan, in words: in these nodes; with all of them also in the core, at doors, in
/// processes of switches, and of the recorder.
fn differing(
    sources: &Sources<'_>,
    slots: &[Slot],
    of_nodes: Vec<OfNode>,
    everything: bool,
) -> Result<Vec<String>> {
    let Some((_, core)) = &sources.drift else { return Ok(vec![]) };
    let state = sources.state;
    let of_nodes = slots.iter().copied().zip(of_nodes);
    if !everything {
        return Ok(drift::gathered(state, Differences::default(), of_nodes).lines(state));
    }
    let core = drift::core(state, *core)?;
    let doors = &sources.running.kept.keepers.doors;
    let doors = doors.differences(&sources.running.folder, state)?;
    let rules = Switches::differences(state, |switch| sources.switches.shown(sources, switch));
    let found = drift::gathered(state, core, of_nodes).with_doors(doors);
    Ok(found.with_processes(rules, sources.running.lacking_recorder(state)).lines(state))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::values::Whole;

    #[test]
    fn pages_follow_each_other_and_leave_nothing_out() {
        let all: Vec<u32> = (0..10).collect();
        let mut seen = Vec::new();
        loop {
            let next = page(all.clone(), seen.last().copied(), Whole(4));
            if next.is_empty() {
                break;
            }
            assert!(next.len() <= 4);
            seen.extend(next);
        }
        assert_eq!(seen, all);
        assert_eq!(page(all.clone(), None, Whole(Objects::DEFAULT)), all);
        assert_eq!(page(all, Some(8), Whole(4)), [9]);
    }
}
