//! What the changes of an object take, where the table of facts alone cannot say.

use std::path::Path;

use super::Machine;
use crate::difference::{Change, How, Item, Kind};
use crate::plan::form::{LinkForm, sides_to_remake};
use crate::plan::{Plan, PlannedEnd, PlannedLink, PlannedNode, Slot};

/// The changes of an item of both plans, each with what it takes; also those that no fact shows.
pub(super) fn changes(
    item: &Item,
    running: &Plan,
    wanted: &Plan,
    machine: &Machine<'_>,
) -> Vec<(How, Change)> {
    let (Some(old), Some(new)) = (item.old, item.new) else { return vec![] };
    let is_fixed = match item.kind {
        Kind::Node => of_node((running, old), (wanted, new)),
        Kind::Link => of_link((running, old), (wanted, new), machine),
        Kind::Switch | Kind::Slice | Kind::Recording => |_: &str| false,
    };
    if let Some(kind) = item.changes.iter().find(|change| change.key == "kind") {
        // The keys of the two kinds are not comparable.
        return vec![(How::Recreate, kind.clone())];
    }
    // A file that is taken out of a new node's layer shows what is below; in a living node that would stay hidden.
    let stays_hidden = |change: &Change| {
        let path = change.key.strip_prefix("files.").filter(|_| change.new.is_none());
        path.is_some_and(|path| {
            let nodes = [&running.nodes[old], &wanted.nodes[new]];
            let is_bound = |node: &&PlannedNode| {
                node.binds.iter().any(|bind| Path::new(path).starts_with(&bind.to))
            };
            nodes.iter().any(is_bound) || (machine.hides)(nodes[0], path)
        })
    };
    let moves = item.kind == Kind::Link && has_other_port(&running.links[old], &wanted.links[new]);
    let moves = |change: &Change| moves && change.key.starts_with("port.");
    let how = |change: &Change| {
        let recreates = is_fixed(&change.key) || stays_hidden(change) || moves(change);
        if recreates { How::Recreate } else { change.how }
    };
    item.changes.iter().map(|change| (how(change), change.clone())).collect()
}

/// Whether a file gives a port of a link another number than it has.
fn has_other_port(before: &PlannedLink, after: &PlannedLink) -> bool {
    before.ends.iter().zip(&after.ends).any(|ends| match ends {
        (PlannedEnd::Port { number: has, .. }, after) => {
            after.given_number().is_some_and(|given| *has != Some(given))
        }
        _ => false,
    })
}

/// Keys whose change recreates a node, beside those of the table.
fn of_node((running, old): (&Plan, usize), (wanted, new): (&Plan, usize)) -> fn(&str) -> bool {
    let (before, after) = (&running.nodes[old], &wanted.nodes[new]);
    if before.kind.as_vm().is_some() || after.kind.as_vm().is_some() {
        // A machine is told of these when it starts.
        return |key| {
            let first = key.split('.').next().unwrap_or_default();
            let of_programs = matches!(first, "run" | "env" | "ready" | "exec" | "health");
            of_programs || matches!(first, "files" | "binds" | "children" | "loopback" | "hostname")
        };
    }
    if is_special(before) || is_special(after) {
        // FRR is told of these with what is made of the plan, and an image adds its own.
        return |key| {
            let first = key.split('.').next().unwrap_or_default();
            matches!(first, "run" | "env" | "files" | "ready" | "children" | "health")
        };
    }
    if before.children.is_some() != after.children.is_some() {
        // Its way to manage nodes in it comes with its file system.
        return |key| key == "children";
    }
    |_| false
}

/// Whether a node's programs are not those of the file alone.
pub(super) fn is_special(node: &PlannedNode) -> bool {
    node.kind.as_vm().is_some() || node.kind.as_router().is_some() || node.image.is_some()
}

/// Whether a node of both plans must be recreated because of its links: a machine's cards and what FRR is told
/// are given to it when it starts.
pub(super) fn is_told_otherwise(running: &Plan, old: Slot, wanted: &Plan, new: Slot) -> bool {
    let (before, after) = (&running.nodes[old], &wanted.nodes[new]);
    if !is_special(after) {
        return false;
    }
    let cards = |node: &PlannedNode| -> Vec<_> {
        node.interfaces.iter().map(|i| (i.name.clone(), i.addresses.clone())).collect()
    };
    // A card's hardware address is a word of the machine's command line.
    let mut pairs = before.interfaces.iter().zip(&after.interfaces);
    let differs = cards(before) != cards(after) || pairs.any(|(a, b)| a.is_given_other_mac(b));
    let machine = after.kind.as_vm().is_some() && differs;
    machine || running.daemons_of(old) != wanted.daemons_of(new)
}

fn is_impairment(key: &str) -> bool {
    !matches!(key.split('.').next(), Some("mtu" | "ends" | "addresses" | "mac" | "port"))
}

/// Keys whose change recreates a link.
fn of_link(
    (running, old): (&Plan, usize),
    (wanted, new): (&Plan, usize),
    machine: &Machine<'_>,
) -> fn(&str) -> bool {
    let (before, after) = (&running.links[old], &wanted.links[new]);
    let form = (machine.form)(before);
    let is_plain =
        matches!(form, LinkForm::Pair | LinkForm::Wired | LinkForm::Joined | LinkForm::Tap);
    // A living pair or tap is led through the core namespace for a wire.
    let fits = matches!(form, LinkForm::Wired | LinkForm::Joined)
        || !sides_to_remake(wanted, after, form).is_empty()
        || !after.is_impaired()
        || LinkForm::of(wanted, after, machine.allowed) == form;
    if form.is_door() {
        // The host's end is made of these.
        return |key| key == "mtu" || key.starts_with("addresses.");
    }
    match (is_plain, fits) {
        (true, true) => |_| false,
        (false, true) => |key| key == "mtu",
        (true, false) => is_impairment,
        (false, false) => |key| key == "mtu" || is_impairment(key),
    }
}
