//! What applying a file to a lab would do, without its process: by the lab's folder, and by what the kernel has.

use std::path::Path;

use netloom_model::Plan;

use crate::Result;
use crate::build::binds;
use crate::launch::orphan;
use crate::run::prospect;
use crate::store::state::Folder;
use crate::view::Applied;

/// Where a lab stands that a file is to be applied to.
#[derive(Debug)]
pub enum Standing {
    /// There is none, or only remains: its file can be brought up.
    Absent,
    /// It could not come up, and was kept.
    Failed,
    /// It is being made or taken down.
    Between,
    /// It is up, and applying the plan does these steps.
    Up(Applied),
}

/// Makes paths of the host in a plan absolute; `base` is the folder of its file.
///
/// # Errors
/// A bind of the file cannot be.
pub fn absolute(plan: &mut Plan, base: &Path, runtime: &Path) -> Result<()> {
    plan.make_absolute(base);
    binds::settle(&mut plan.nodes, runtime)
}

/// What applying a plan to the lab of a folder does; its paths are absolute. The calling process must have one thread.
///
/// # Errors
/// The lab's state cannot be read, or the lab cannot become that while it lives.
pub fn preview(folder: &Folder, wanted: &Plan, keep_drift: bool) -> Result<Standing> {
    let state = match folder.read_state()? {
        Some(state) if folder.is_up() => state,
        _ if folder.has_failed() => return Ok(Standing::Failed),
        _ if super::has_lab_process(folder) => return Ok(Standing::Between),
        _ => return Ok(Standing::Absent),
    };
    let found = prospect::look(folder, &state, wanted.clone(), keep_drift, &|_| vec![], &|| {
        orphan::differences(folder, &state)
    })?;
    Ok(Standing::Up(found.shown(&state)))
}
