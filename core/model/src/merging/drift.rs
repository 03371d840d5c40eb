//! Manual changes since a file was applied, and keeping them.
//!
//! `made` is the plan of the file that was applied last; `running` has the changes by hand.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, HashSet};

use super::{
    Act, Machine, Merged, Refusal, Step, merge_with, parts_of, routes, steps, with_leftovers,
};
use crate::difference::{Change, Item, Kind, difference};
use crate::plan::ports::free_number;
use crate::plan::{LinkId, LinkSlot, Plan, PlannedEnd, PlannedLink, Slot};
use crate::setting::Settings;

/// [`merge`], with the steps marked that revert manual changes. With `keep` those are left out, and the
/// target has what they would take back.
///
/// # Errors
/// As [`merge`]; and why a lab with both kinds of changes is impossible, in words.
pub fn merge_over(
    made: &Plan,
    running: &Plan,
    before: Option<&Plan>,
    wanted: &Plan,
    machine: &Machine<'_>,
    keep: bool,
) -> Result<Merged, Refusal> {
    let own = match keep {
        true => Cow::Owned(with_settings(made, running, wanted)),
        false => Cow::Borrowed(wanted),
    };
    let by_file = difference(made, wanted);
    let of_file: HashMap<(Kind, &str), &Item> =
        by_file.items.iter().map(|item| ((item.kind, item.name.as_str()), item)).collect();
    let drift = |kind, name: &str, changes: &[Change]| {
        of_file.get(&(kind, name)).is_none_or(|item| {
            let keys: HashSet<&str> = item.changes.iter().map(|c| c.key.as_str()).collect();
            // Where the file adds or removes an object, the step is the file's doing.
            let both = item.old.is_some() && item.new.is_some();
            both && !changes.iter().any(|change| keys.contains(change.key.as_str()))
        })
    };
    let merged = merge_with(running, before, &own, machine, &drift)?;
    if keep { kept(merged, running, before) } else { Ok(merged) }
}

/// The wanted plan with those settings of nodes and impairments of links that were changed by hand, where the file did
/// not change the same object.
fn with_settings(made: &Plan, running: &Plan, wanted: &Plan) -> Plan {
    let (by_hand, by_file) = (difference(made, running), difference(made, wanted));
    let of_file: HashSet<(Kind, &str)> =
        by_file.items.iter().map(|item| (item.kind, item.name.as_str())).collect();
    let mut plan = wanted.clone();
    let nodes: HashMap<&str, Slot> =
        wanted.slots().zip(&wanted.nodes).map(|(at, node)| (node.name.as_str(), at)).collect();
    let links: HashMap<&str, LinkSlot> =
        wanted.link_slots().zip(&wanted.links).map(|(at, l)| (l.name.as_str(), at)).collect();
    for item in by_hand.items.iter().filter(|item| item.old.is_some() && item.new.is_some()) {
        if of_file.contains(&(item.kind, item.name.as_str())) {
            continue;
        }
        // Objects made or removed by hand are handled by `kept`, as steps that are left out.
        match (item.kind, item.new) {
            (Kind::Node, Some(at)) => {
                let Some(slot) = nodes.get(item.name.as_str()).copied() else { continue };
                Settings::of(&running.nodes[at]).put(&mut plan.nodes[slot]);
                plan.nodes[slot].root.clone_from(&running.nodes[at].root);
            }
            (Kind::Link, Some(at)) => {
                let Some(slot) = links.get(item.name.as_str()).copied() else { continue };
                plan.links[slot].impairments.clone_from(&running.links[at].impairments);
                keep_macs(&mut plan, slot, (running, &running.links[at]));
            }
            _ => {}
        }
    }
    plan
}

/// Gives the ends of a link the hardware addresses that those of a running one have.
fn keep_macs(plan: &mut Plan, link: LinkSlot, (running, has): (&Plan, &PlannedLink)) {
    for side in [0, 1] {
        let (PlannedEnd::Node { node, interface }, PlannedEnd::Node { node: of, interface: other }) =
            (&plan.links[link].ends[side], &has.ends[side])
        else {
            continue;
        };
        let (node, interface) = (*node, *interface);
        let own = &running.nodes[*of].interfaces[*other];
        let kept = &mut plan.nodes[node].interfaces[interface];
        (kept.mac, kept.mac_given) = (own.mac, own.mac_given);
    }
}

/// Routes that are decided again at most, unless the running lab has as many.
const MOST_ROUTES: usize = 2_000_000;

/// Refuses labs whose routes would take long to decide, or memory that nobody has.
fn check_size(plan: &Plan, running: &Plan) -> Result<(), Refusal> {
    let routes = |plan: &Plan| {
        let routers = plan.nodes.iter().filter(|node| node.forwarding.any()).count();
        routers.saturating_mul(plan.links.len() + plan.switches.len())
    };
    if routes(plan) <= MOST_ROUTES.max(2 * routes(running)) {
        return Ok(());
    }
    let reason =
        "the lab would be much larger than it is; `netloom up --replace FILE` brings it up";
    Err(Refusal::Drift { reason: reason.to_owned() })
}

/// Gives other numbers to ports whose number one has that stays although it is not in the file.
fn renumber(plan: &mut Plan, left: &BTreeSet<LinkId>) -> Result<(), Refusal> {
    let is_left = |link: &PlannedLink| left.contains(&link.id);
    let left_over = plan.links.iter().filter(|link| is_left(link)).flat_map(|link| &link.ends);
    let taken: HashSet<(String, u32)> = left_over
        .filter_map(|end| plan.port_number(end))
        .map(|(of, number)| (of.to_owned(), number))
        .collect();
    for at in plan.link_slots() {
        for side in [0, 1] {
            let (link, end) = (&plan.links[at], &plan.links[at].ends[side]);
            let clash = plan.port_number(end).filter(|_| !is_left(link));
            let clash = clash.map(|(of, number)| (of.to_owned(), number));
            let Some((of, number)) = clash.filter(|port| taken.contains(port)) else { continue };
            if end.given_number().is_some() {
                let link = &link.name;
                let reason =
                    format!("link {link:?} gets port {number} of switch {of:?}, which another has");
                return Err(Refusal::Drift { reason });
            }
            let free = plan.switch(&of).and_then(|of| free_number(plan, of));
            if let PlannedEnd::Port { number, .. } = &mut plan.links[at].ends[side] {
                *number = free;
            }
        }
    }
    Ok(())
}

/// Leaves out the steps that are marked.
fn kept(mut merged: Merged, running: &Plan, before: Option<&Plan>) -> Result<Merged, Refusal> {
    let of = |steps: &[Step], act| -> BTreeSet<(Kind, String)> {
        let marked = steps.iter().filter(|step| step.drift && step.act == act);
        marked.filter_map(|step| Some((step.kind?, step.name.clone()))).collect()
    };
    let (stays, gone) = (of(&merged.steps, Act::Remove), of(&merged.steps, Act::Add));
    if stays.is_empty() && gone.is_empty() {
        return Ok(merged);
    }
    let parts = |plan: &Plan, all: &BTreeSet<(Kind, String)>| {
        parts_of(plan, |kind, name| all.contains(&(kind, name.to_owned())))
    };
    let (left, dropped) = (parts(running, &stays), parts(&merged.target, &gone));
    for of in [&mut merged.late, &mut merged.early] {
        of.nodes.retain(|id| !left.nodes.contains(id));
        of.links.retain(|id| !left.links.contains(id));
        of.switches.retain(|name| !left.switches.contains(name));
    }
    let mut plan = with_leftovers(&merged.target, running, &left);
    plan.forget_links(&dropped.links);
    let nodes = plan.slots().filter(|s| dropped.nodes.contains(&plan.nodes[*s].id)).collect();
    plan.remove_nodes(&nodes);
    for name in &dropped.switches {
        if let Some(slot) = plan.switch(name) {
            plan.remove_switch(slot);
        }
    }
    renumber(&mut plan, &left.links)?;
    let ids: BTreeSet<_> = plan.links.iter().map(|link| link.id).collect();
    merged.added.links.retain(|id| ids.contains(id));
    let ids: BTreeSet<_> = plan.nodes.iter().map(|node| node.id).collect();
    merged.added.nodes.retain(|id| ids.contains(id));
    let names: HashSet<&str> = plan.switches.iter().map(|switch| switch.name.as_str()).collect();
    merged.added.switches.retain(|name| names.contains(name.as_str()));
    // Checked before routes are decided, which is what would take long.
    check_size(&plan, running)?;
    plan.decide_routes().map_err(|reason| Refusal::Drift { reason })?;
    merged.target = plan;
    // The steps for routes are made again: they follow from the target, which is another one now.
    let routed = steps::of_routes(&routes(&merged, running, before));
    merged.steps.retain(|step| !step.drift && step.kind.is_some());
    let live = |step: &Step| matches!(step.act, Act::Add | Act::Change);
    let at = merged.steps.iter().take_while(|step| live(step)).count();
    merged.steps.splice(at..at, routed);
    Ok(merged)
}
