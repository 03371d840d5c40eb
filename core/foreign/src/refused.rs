//! The last word of the planner: what it still refuses of a draft is taken out, piece by piece, so that one item never
//! ends an import.
//!
//! Errors of the text lead by their lines to the pieces that [`crate::write`] made them of. Each piece that goes is left
//! out of the account, at its line of the source where that is known.

use std::collections::BTreeMap;

use netloom_config::Diagnostics;
use netloom_model::plan::PlanError;
use netloom_model::{Lab, Plan};

use crate::draft::Draft;
use crate::ledger::{Ledger, Verdict};
use crate::write::{Part, Piece, Written, write};

/// How often the text is tried. Each round takes out all that the one before named.
const ROUNDS: usize = 64;

/// Why a text is not a lab.
enum Problem {
    Text(Diagnostics),
    Plan(PlanError),
}

/// The text of a draft without what the planner refuses, what it means, and its plan.
///
/// # Errors
/// The text and why it is not a lab, if the fault itself is not known.
pub(crate) fn planned(
    draft: &mut Draft,
    (file, from, base): (&str, &str, &str),
    ledger: &Ledger,
) -> Result<(String, Lab, Plan), (String, String)> {
    // Taken before anything goes: the account looks for the names in the source.
    let names = crate::settle::source_names(draft);
    let mut rounds = 0;
    loop {
        let written = write(draft, from, base);
        let problem = match check(&written.text) {
            Ok((lab, plan)) => return Ok((written.text, lab, plan)),
            Err(problem) => problem,
        };
        rounds += 1;
        let pieces = pieces(&problem, &written, draft);
        // An error that leads to no piece would come again in each round.
        if pieces.is_empty() || rounds > ROUNDS {
            let why = match problem {
                Problem::Text(errors) => errors.to_string(),
                Problem::Plan(error) => error.to_string(),
            };
            return Err((written.text, why));
        }
        // From the end, so that the places of those before stay.
        for (piece, why) in pieces.into_iter().rev() {
            let item = if let Piece::Link(at) = piece { draft.links[at].item } else { None };
            let (node, value) = take_out(draft, piece, &why);
            let source = names.get(&node).unwrap_or(&node);
            let id = ledger.find(None, source, &value).or(item);
            let id = id.unwrap_or_else(|| ledger.enter(file, 0, format!("{node} {value}")));
            ledger.say(id, Verdict::LeftOut(format!("no lab file has this: {why}")));
        }
    }
}

/// What a text means, if it is a lab file with a plan.
fn check(lab: &str) -> Result<(Lab, Plan), Problem> {
    let parsed = netloom_model::parse("lab", lab.as_bytes(), "lab").map_err(Problem::Text)?;
    let plan = netloom_model::plan::plan(&parsed).map_err(Problem::Plan)?;
    Ok((parsed, plan))
}

/// The pieces that a problem is about, each with a reason.
fn pieces(problem: &Problem, written: &Written, draft: &Draft) -> BTreeMap<Piece, String> {
    let mut found = BTreeMap::new();
    match problem {
        Problem::Text(errors) => {
            for error in &errors.list {
                let line = usize::try_from(error.line).unwrap_or(0).saturating_sub(1);
                // The head is ours: to take it out would leave no lab.
                let piece = written.pieces.get(line).filter(|piece| **piece != Piece::Head);
                if let Some(piece) = piece {
                    // The first error of a piece is its cause; others often follow from it.
                    found.entry(*piece).or_insert_with(|| error.message.clone());
                }
            }
        }
        Problem::Plan(error) => {
            let why = error.to_string();
            if let PlanError::UnknownInterface { node, to, .. }
            | PlanError::NoNextHop { node, to, .. }
            | PlanError::NoWay { node, to }
            | PlanError::FamilyMismatch { node, to, .. } = error
                && let Some(at) = draft.nodes.iter().position(|known| known.name == *node)
                && let Some(n) = draft.nodes[at].routes.iter().position(|route| route.to == *to)
            {
                found.insert(Piece::Part(at, Part::Route(n)), why);
            } else if matches!(error, PlanError::WireAtDoor { .. }) {
                let is_shared = |name: &str| {
                    let shm = |(key, value): &(&str, String)| *key == "kind" && value == "shm";
                    draft.switches.iter().any(|s| s.name == name && s.keys.iter().any(shm))
                };
                // A door of a bridge or of a node has its wire.
                let doors = draft.links.iter().enumerate().filter(|(_, link)| {
                    let door = |at: &str| at == "internet" || at.starts_with("host:");
                    link.ends.iter().any(|end| door(&end.at))
                        && link.ends.iter().any(|end| is_shared(&end.at))
                        && link.impairments.iter().any(|keys| !keys.is_empty())
                });
                found.extend(doors.map(|(n, _)| (Piece::Link(n), why.clone())));
            }
        }
    }
    found
}

/// Takes a piece out; returns the node and the value by which its item is found.
fn take_out(draft: &mut Draft, piece: Piece, why: &str) -> (String, String) {
    match piece {
        Piece::Head => (String::new(), String::new()),
        Piece::Node(at) => {
            let name = draft.nodes.remove(at).name;
            unlink(draft, &name);
            (name.clone(), name)
        }
        Piece::Part(at, part) => {
            let node = &mut draft.nodes[at];
            let name = node.name.clone();
            let value = match part {
                Part::Key(n) => node.keys.remove(n).1,
                Part::Forwarding => node.forwarding.take().unwrap_or_default().to_owned(),
                Part::Env(n) => nth(&mut node.env, n),
                Part::Sysctl(n) => nth(&mut node.sysctls, n),
                Part::File(n) => node.files.remove(n).path,
                Part::Bind(n) => node.binds.remove(n).path,
                Part::Ports => {
                    let ports = std::mem::take(&mut node.ports);
                    ports.first().map(ToString::to_string).unwrap_or_default()
                }
                Part::Setup(n) => node.setup.remove(n).join(" "),
                Part::Run(n) => node.run.remove(n).command.join(" "),
                Part::Exec(n) => node.exec.remove(n).join(" "),
                Part::Route(n) => {
                    let route = node.routes.remove(n);
                    route.via.or(route.dev).unwrap_or(route.to)
                }
            };
            (name, value)
        }
        Piece::Switch(at) => {
            let switch = &mut draft.switches[at];
            let name = switch.name.clone();
            let value = strip(&mut switch.keys, why);
            if value.is_none() {
                draft.switches.remove(at);
                unlink(draft, &name);
            }
            (name.clone(), value.unwrap_or(name))
        }
        Piece::Link(at) => link(draft, at, why),
    }
}

/// The key of a map's nth entry, which goes.
fn nth(map: &mut BTreeMap<String, String>, n: usize) -> String {
    let key = map.keys().nth(n).cloned().unwrap_or_default();
    map.remove(&key);
    key
}

/// Takes out the keys that a reason names, or else all; the value of the first, if any went.
fn strip(keys: &mut Vec<(&'static str, String)>, why: &str) -> Option<String> {
    let named = |key: &str| {
        why.split(|c: char| !(c.is_ascii_alphanumeric() || "_-".contains(c))).any(|w| w == key)
    };
    let some = keys.iter().any(|(key, _)| named(key));
    let goes: Vec<String> = keys
        .iter()
        .filter(|(key, _)| !some || named(key))
        .map(|(_, value)| value.clone())
        .collect();
    keys.retain(|(key, _)| some && !named(key));
    goes.into_iter().next()
}

/// Takes out of a link what a reason is about: what it does to frames, its MTU, its addresses, or else all of it.
fn link(draft: &mut Draft, at: usize, why: &str) -> (String, String) {
    let link = &mut draft.links[at];
    let (node, name) =
        (link.ends[0].at.clone(), format!("{}--{}", link.ends[0].at, link.ends[1].at));
    if (why.contains("mtu") || why.contains("MTU"))
        && let Some(mtu) = link.mtu.take()
    {
        return (node, mtu.to_string());
    }
    for end in &mut link.ends {
        if why.contains("mac:")
            && let Some(mac) = end.mac.take()
        {
            return (end.at.clone(), mac);
        }
        let is_meant = |net: &ipnet::IpNet| why.contains(&net.addr().to_string());
        if let Some(n) = end.addresses.iter().position(is_meant) {
            return (end.at.clone(), end.addresses.remove(n).to_string());
        }
    }
    let gone: Vec<String> =
        link.impairments.iter_mut().filter_map(|keys| strip(keys, why)).collect();
    if let Some(first) = gone.into_iter().next() {
        return (node, first);
    }
    draft.links.remove(at);
    (node, name)
}

/// Removes the links of a node or switch.
fn unlink(draft: &mut Draft, name: &str) {
    draft.links.retain(|link| link.ends.iter().all(|end| end.at != name));
}
