//! Differences between a running or surviving lab and the file of an `up`.
//!
//! A running lab may have been changed by hand, and its file may have been edited. The first change by hand keeps
//! the plan of the file beside the state ([`Folder::keep_made`]), so that the two can be distinguished. This module
//! only describes; it changes nothing.

use std::path::Path;

use netloom_model::Plan;
use netloom_model::difference::difference;
use netloom_model::plan::NodeId;

use crate::stage::images;
use crate::store::moved::Home;
use crate::store::state::{Folder, State};
use crate::{Error, Result};

/// The most objects listed for each kind of change.
const MOST: usize = 10;

/// The lab that `up` shall bring up.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub(crate) plan: &'a Plan,
    /// Its file.
    pub(crate) file: Option<&'a Path>,
}

/// Changes of the running lab since it came up, one line per object. The file is the one that it was made
/// from.
pub(crate) fn by_hand(state: &State, asked: &Plan) -> Vec<String> {
    let mut asked = asked.clone();
    images::dress(state, &mut asked);
    let found = difference(&asked, &state.plan);
    let mut lines = found.lines(&state.plan, MOST);
    lines.extend(state.moved.iter().take(MOST).map(|moved| moved_words(&state.plan, moved)));
    let down = state.plan.links.iter().filter(|link| state.down.contains(&link.id));
    lines.extend(down.take(MOST).map(|link| format!("link {}: taken down", link.name)));
    lines
}

fn moved_words(plan: &Plan, moved: &crate::store::moved::Moved) -> String {
    let name = |id: NodeId| plan.slot_of(id).map_or("", |slot| plan.nodes[slot].name.as_str());
    let home = match moved.home {
        Home::Host => "host",
        Home::Node { node, .. } => name(node),
    };
    format!("interface {home}:{}: moved to node {}", moved.old_name, name(moved.node))
}

/// The refusal of a lab of the same name and other content: the differences, and what to do.
///
/// # Errors
/// The plan that the lab was made from cannot be read.
pub(crate) fn refusal(
    folder: &Folder,
    state: &State,
    asked: Asked<'_>,
    runs: bool,
) -> Result<Error> {
    // One of an earlier file is left when a file was applied and the lab process killed at that moment.
    let made = folder.read_made()?.filter(|made| made.plan.digest == state.plan.digest);
    let before = made.as_ref().map_or(&state.plan, |made| &made.plan);
    let how = if runs { "already running" } else { "lives on after its process was killed" };
    let which = match (&state.file, asked.file) {
        (Some(old), Some(new)) if old == new => ", and its file has been changed since".to_owned(),
        (Some(old), _) => format!(", from another file, {old:?}"),
        (None, _) => ", and not from this file".to_owned(),
    };
    let mut words = format!("{how}{which}:");
    let mut dressed = asked.plan.clone();
    images::dress(state, &mut dressed);
    let told = difference(before, &dressed).lines(asked.plan, MOST);
    if told.is_empty() {
        words.push_str("\n  the order in which it names things");
    }
    push_lines(&mut words, &told);
    if let Some(made) = &made {
        let hand = by_hand(state, &made.plan);
        if !hand.is_empty() {
            words.push_str("\nand has manual changes:");
            push_lines(&mut words, &hand);
        }
    }
    words.push_str(
        "\n`netloom apply FILE` changes what differs and leaves the rest as it is; `netloom up --replace FILE` \
         takes the lab down and brings up what the file says; with --name OTHER it becomes a lab beside it",
    );
    Ok(Error::Conflict { lab: asked.plan.lab.clone(), reason: words })
}

fn push_lines(words: &mut String, lines: &[String]) {
    for line in lines {
        words.push_str("\n  ");
        words.push_str(line);
    }
}
