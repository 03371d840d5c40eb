//! Names of nodes' network namespaces where iproute2 looks for them: `/run/netns/LAB-NODE`, if the user may write there.
//!
//! A name is a symbolic link to `/proc/PID/ns/net` of the node's init, so it keeps no namespace alive: when the init has
//! ended it leads nowhere, and taking the lab down removes it. `ip netns exec LAB-NODE` and what is built on it
//! work by these names. One that is taken by somebody else stays as it is. See ip-netns(8).

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use netloom_model::plan::NodeId;

use crate::Result;
use crate::build::keeper::{Context, Fresh, Gone, Keeper};
use crate::store::state::{Folder, State};

/// Where iproute2 has its names.
const PLACE: &str = "/run/netns";

/// The longest name of a file.
const LONGEST: usize = 255;

/// The names that a lab has there.
#[derive(Default)]
pub(crate) struct Namespaces {
    names: Mutex<BTreeMap<NodeId, PathBuf>>,
}

/// The name of a node; a child's has its parent's before it.
fn path(lab: &str, node: &str) -> Option<PathBuf> {
    // Names of files have no slash.
    let name = format!("{lab}-{}", node.replace('/', "-"));
    (name.len() <= LONGEST).then(|| Path::new(PLACE).join(name))
}

/// Whether there is a name that leads to no living process.
fn is_dead(path: &Path) -> bool {
    let Ok(target) = std::fs::read_link(path) else { return false };
    let of_a_process = target.starts_with("/proc") && target.ends_with("ns/net");
    // Anything else there is somebody's.
    of_a_process && std::fs::metadata(&target).is_err()
}

/// Gives a namespace its name; whatever prevents it is not a failure of the lab.
fn place(path: &Path, pid: i32) -> bool {
    let target = format!("/proc/{pid}/ns/net");
    // The last name of another lab may take the folder away meanwhile.
    for _ in 0..10 {
        match symlink(&target, path) {
            Ok(()) => return true,
            Err(e) if e.kind() == ErrorKind::NotFound => {
                if std::fs::create_dir(PLACE).is_err_and(|e| e.kind() != ErrorKind::AlreadyExists) {
                    return false;
                }
            }
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {
                // An earlier lab process gave it already.
                if std::fs::read_link(path).is_ok_and(|old| old == Path::new(&target)) {
                    return true;
                }
                if !is_dead(path) || std::fs::remove_file(path).is_err() {
                    return false;
                }
            }
            Err(_) => return false,
        }
    }
    false
}

impl Namespaces {
    fn names(&self) -> MutexGuard<'_, BTreeMap<NodeId, PathBuf>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn place(&self, context: &Context<'_>, only: Option<&[NodeId]>) {
        let plan = &context.state.plan;
        for node in plan.nodes.iter().filter(|node| only.is_none_or(|ids| ids.contains(&node.id))) {
            let init = context.inits.get(&node.id).filter(|init| init.lives());
            let (Some(init), Some(path)) = (init, path(&plan.lab, &node.name)) else { continue };
            // A node that was recreated.
            if self.names().contains_key(&node.id) {
                let _ = std::fs::remove_file(&path);
            }
            if !place(&path, init.pid.as_raw_nonzero().get()) {
                continue;
            }
            self.names().insert(node.id, path);
        }
    }
}

impl Keeper for Namespaces {
    fn fit(&self, context: &Context<'_>, fresh: Fresh<'_>) -> Result<()> {
        if !fresh.slots.is_empty() {
            self.place(context, Some(&fresh.ids(context.state)));
        }
        Ok(())
    }

    fn adopt(&self, context: &Context<'_>) -> Result<()> {
        self.place(context, None);
        Ok(())
    }

    fn forget(&self, _: &State, gone: Gone<'_>) {
        for node in gone.nodes {
            if let Some(path) = self.names().remove(node) {
                let _ = std::fs::remove_file(path);
            }
        }
    }

    fn restore_host(&self, folder: &Folder) -> Result<()> {
        let start = format!("{}-", folder.name());
        let mine = |path: &PathBuf| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&start))
        };
        let entries = std::fs::read_dir(PLACE).into_iter().flatten().flatten();
        for path in entries.map(|entry| entry.path()).filter(mine) {
            if is_dead(&path) {
                let _ = std::fs::remove_file(path);
            }
        }
        // Only an empty folder goes.
        let _ = std::fs::remove_dir(PLACE);
        Ok(())
    }
}
