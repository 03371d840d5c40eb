//! Which labs there are: from their folders, whether their processes live or not.

use std::path::Path;

use crate::running::is_lab_process;
use crate::state::Folder;
use crate::view::{LabState, LabSummary};
use crate::{Result, teardown};

/// All labs below a folder of labs, by name.
pub fn labs(runtime: &Path) -> Result<Vec<LabSummary>> {
    Folder::all(runtime).iter().map(summary).collect()
}

fn summary(folder: &Folder) -> Result<LabSummary> {
    let state = folder.read_state()?;
    let pid = folder.read_pid().filter(|p| is_lab_process(folder, *p));
    // Held by somebody: it is run, made, or taken down.
    let held = folder.try_lock()?.is_none();
    let standing = match (held, folder.is_up()) {
        (true, false) => LabState::Starting,
        (true, true) => whole(folder, &state),
        (false, true) => LabState::Orphaned,
        (false, false) => LabState::Broken,
    };
    let plan = state.as_ref().map(|s| &s.plan);
    Ok(LabSummary {
        name: folder.name().to_owned(),
        state: standing,
        nodes: plan.map_or(0, |p| p.nodes.len()),
        links: plan.map_or(0, |p| p.links.len()),
        pid,
        since: state.as_ref().map_or(0, |s| s.since),
    })
}

/// Whether as many inits live as there should be.
fn whole(folder: &Folder, state: &Option<crate::State>) -> LabState {
    let wanted = state.as_ref().map_or(0, |s| s.plan.nodes.len() + 1);
    if teardown::find_inits(folder).len() >= wanted { LabState::Up } else { LabState::Degraded }
}
