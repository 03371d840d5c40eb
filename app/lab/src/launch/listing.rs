//! Lists labs by their folders, whether their processes live or not.

use std::path::Path;

use netloom_model::plan::PlannedNode;
use netloom_sys::process;

use crate::run::{status, teardown};
use crate::stage::lab_process::is_lab_process;
use crate::store::state::Folder;
use crate::view::{LabCounts, LabState, LabSummary};
use crate::{Error, Result};

/// Asks a lab process how many nodes its lab has; `None` if it does not say so soon.
pub type Told = dyn Fn(&Folder) -> Option<LabCounts>;

/// All labs below a folder of labs, by name. `told` spares reading all of a large lab's state.
pub fn labs(runtime: &Path, told: &Told) -> Result<Vec<LabSummary>> {
    let folders = Folder::all(runtime)?;
    folders.iter().filter_map(|folder| of_folder(folder, told).transpose()).collect()
}

/// The summary of a folder's lab; `None` if it is taken down meanwhile, which removes files one by one.
fn of_folder(folder: &Folder, told: &Told) -> Result<Option<LabSummary>> {
    match summary(folder, told) {
        Err(_) if !folder.exists()? => Ok(None),
        found => found.map(Some),
    }
}

fn summary(folder: &Folder, told: &Told) -> Result<LabSummary> {
    let pid = folder.read_pid().filter(|p| is_lab_process(folder, *p));
    // One that is stopped would only be waited for.
    let answers = |pid: i32| !process::is_stopped(pid);
    if folder.is_up()
        && pid.is_some_and(answers)
        && let Some(counts) = told(folder)
    {
        return Ok(LabSummary {
            name: folder.name().to_owned(),
            state: counts.state,
            nodes: counts.nodes.all,
            links: counts.links.all,
            pid,
            since: counts.since,
            unreadable: None,
        });
    }
    let (state, unreadable) = match folder.read_state() {
        Err(error @ Error::Unreadable { .. }) => (None, Some(netloom_sys::describe(&error))),
        state => (state?, None),
    };
    // The lock is held: the lab runs, or is made or taken down.
    let held = folder.try_lock()?.is_none();
    let standing = match (held, folder.is_up()) {
        _ if unreadable.is_some() => LabState::Broken,
        (true, false) if folder.has_failed() => LabState::Failed,
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
        unreadable,
    })
}

/// Whether all inits live, no link is lost, and no program ended with an error.
fn whole(folder: &Folder, state: &Option<crate::State>) -> LabState {
    let nodes = state.as_ref().map_or(&[][..], |s| s.plan.nodes.as_slice());
    let failed = |n: &PlannedNode| {
        let report = status::report(folder, n).unwrap_or_default();
        report.programs.iter().any(|p| p.ended && p.exit_code != Some(0))
    };
    let lost = state.as_ref().is_some_and(|s| !s.lost.is_empty());
    if !lost && teardown::count_inits(folder) > nodes.len() && !nodes.iter().any(failed) {
        LabState::Up
    } else {
        LabState::Degraded
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lab_taken_down_while_labs_are_listed_is_none() {
        let runtime = tempfile::tempdir().unwrap();
        let [stays, goes] = ["stays", "goes"].map(|name| Folder::new(runtime.path(), name));
        stays.create().unwrap();
        let told = |_: &Folder| -> Option<LabCounts> { panic!("no process to ask") };
        assert!(summary(&goes, &told).is_err());
        assert!(of_folder(&goes, &told).unwrap().is_none());
        assert_eq!(of_folder(&stays, &told).unwrap().unwrap().name, "stays");
    }
}
