//! What was changed by hand since a file was applied, and keeping it.
//!
//! `made` is the plan of the file that was applied last; `running` has the changes by hand.

use std::collections::BTreeSet;

use super::{Act, Machine, Merged, Refusal, Step, merge, parts_of, routes, steps, with_leftovers};
use crate::difference::{Kind, difference};
use crate::plan::Plan;
use crate::setting::Settings;

/// [`merge`], with the steps marked that take back what was changed by hand. With `keep` those are left out, and the
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
    let own = if keep { with_settings(made, running, wanted) } else { wanted.clone() };
    let mut merged = merge(running, before, &own, machine)?;
    let by_file = difference(made, wanted);
    for step in &mut merged.steps {
        let Some(kind) = step.kind else { continue };
        let of_file = by_file.items.iter().find(|item| item.kind == kind && item.name == step.name);
        step.drift = of_file.is_none_or(|item| {
            let same = |key: &str| item.changes.iter().any(|change| change.key == key);
            let both = item.old.is_some() && item.new.is_some();
            both && !step.changes.iter().any(|change| same(&change.key))
        });
    }
    if keep { kept(merged, running, before) } else { Ok(merged) }
}

/// The wanted plan with those settings of nodes and impairments of links that were changed by hand, where the file did
/// not change the same object.
fn with_settings(made: &Plan, running: &Plan, wanted: &Plan) -> Plan {
    let (by_hand, by_file) = (difference(made, running), difference(made, wanted));
    let mut plan = wanted.clone();
    for item in by_hand.items.iter().filter(|item| item.old.is_some() && item.new.is_some()) {
        if by_file.items.iter().any(|of| of.kind == item.kind && of.name == item.name) {
            continue;
        }
        match (item.kind, item.new) {
            (Kind::Node, Some(at)) => {
                let Some(slot) = plan.node(&item.name) else { continue };
                Settings::of(&running.nodes[at]).put(&mut plan.nodes[slot]);
                plan.nodes[slot].root.clone_from(&running.nodes[at].root);
            }
            (Kind::Link, Some(at)) => {
                let Some(slot) = plan.link(&item.name) else { continue };
                plan.links[slot].impairments.clone_from(&running.links[at].impairments);
            }
            _ => {}
        }
    }
    plan
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
    let ids: BTreeSet<_> = plan.links.iter().map(|link| link.id).collect();
    merged.added.links.retain(|id| ids.contains(id));
    merged.added.nodes.retain(|id| plan.slot_of(*id).is_some());
    merged.added.switches.retain(|name| plan.switch(name).is_some());
    plan.decide_routes().map_err(|reason| Refusal::Drift { reason })?;
    merged.target = plan;
    let routed = steps::of_routes(&routes(&merged, running, before));
    merged.steps.retain(|step| !step.drift && step.kind.is_some());
    let live = |step: &Step| matches!(step.act, Act::Add | Act::Change);
    let at = merged.steps.iter().take_while(|step| live(step)).count();
    merged.steps.splice(at..at, routed);
    Ok(merged)
}
