//! Names of nodes' network namespaces where iproute2 looks for them: `/run/netns/LAB-NODE`, if the user may write there.
//!
//! A name is a symbolic link to `/proc/PID/ns/net` of the node's init, so it keeps no namespace alive: when the init has
//! ended it leads nowhere, or to the network of another process that got its PID, and taking the lab down removes it.
//! Which namespace a name is for stands in the lab's folder. `ip netns exec LAB-NODE` and what is built on it
//! work by these names. One that is taken by somebody else stays as it is. See ip-netns(8).

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use netloom_model::plan::NodeId;
use serde::{Deserialize, Serialize};

use crate::Result;
use crate::build::keeper::{Context, Fresh, Gone, Keeper};
use crate::store::state::{Folder, State};

/// Where iproute2 has its names.
const PLACE: &str = "/run/netns";

/// The longest name of a file.
const LONGEST: usize = 255;

/// What a name of a lab leads to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Named {
    target: PathBuf,
    /// Device and inode of the namespace.
    space: (u64, u64),
}

impl Named {
    /// The namespace of a process.
    fn of(pid: i32) -> Option<Named> {
        let target = PathBuf::from(format!("/proc/{pid}/ns/net"));
        let space = space_at(&target).ok()?;
        Some(Named { target, space })
    }
}

/// The names that a lab has there, by path.
type Names = BTreeMap<PathBuf, Named>;

/// The names of nodes that a lab has there.
#[derive(Default)]
pub(crate) struct Namespaces {
    names: Mutex<BTreeMap<NodeId, (PathBuf, Named)>>,
}

/// The namespace to which a link leads.
fn space_at(path: &Path) -> std::io::Result<(u64, u64)> {
    std::fs::metadata(path).map(|found| (found.dev(), found.ino()))
}

/// The name of a node; a child's has its parent's before it.
fn path(lab: &str, node: &str) -> Option<PathBuf> {
    // Names of files have no slash.
    let name = format!("{lab}-{}", node.replace('/', "-"));
    (name.len() <= LONGEST).then(|| Path::new(PLACE).join(name))
}

/// Whether there is a name that leads to no living process, or to another namespace than the lab gave it to: then another
/// process has got the PID. Anything else there is somebody's.
fn is_dead(path: &Path, names: &Names) -> bool {
    let Ok(target) = std::fs::read_link(path) else { return false };
    let of_a_process = target.starts_with("/proc") && target.ends_with("ns/net");
    let is_gone = match space_at(&target) {
        Ok(space) => names.get(path).is_some_and(|own| own.target == target && own.space != space),
        // A process of another user does not show its namespaces.
        Err(e) => e.kind() == ErrorKind::NotFound,
    };
    of_a_process && is_gone
}

/// Removes a name that the lab gave; somebody's in its place stays.
fn take_back(path: &Path, named: &Named) {
    if std::fs::read_link(path).is_ok_and(|target| target == named.target) {
        let _ = std::fs::remove_file(path);
    }
}

/// Whether this user may give names.
fn is_allowed() -> bool {
    let may_write = |path: &str| rustix::fs::access(path, rustix::fs::Access::WRITE_OK);
    match may_write(PLACE) {
        // It is made for the first name.
        Err(rustix::io::Errno::NOENT) => may_write("/run").is_ok(),
        found => found.is_ok(),
    }
}

/// Gives a namespace its name; whatever prevents it is not a failure of the lab. `names` are those that the lab gave before.
fn place(path: &Path, named: &Named, names: &Names) -> bool {
    let target = &named.target;
    // The last name of another lab may take the folder away meanwhile.
    for _ in 0..10 {
        match symlink(target, path) {
            Ok(()) => return true,
            Err(e) if e.kind() == ErrorKind::NotFound => {
                if std::fs::create_dir(PLACE).is_err_and(|e| e.kind() != ErrorKind::AlreadyExists) {
                    return false;
                }
            }
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {
                // An earlier lab process gave it already.
                if std::fs::read_link(path).is_ok_and(|old| old == *target) {
                    return true;
                }
                if !is_dead(path, names) || std::fs::remove_file(path).is_err() {
                    return false;
                }
            }
            Err(_) => return false,
        }
    }
    false
}

impl Namespaces {
    fn names(&self) -> MutexGuard<'_, BTreeMap<NodeId, (PathBuf, Named)>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn place(&self, context: &Context<'_>, only: Option<&[NodeId]>) {
        if !is_allowed() {
            return;
        }
        let plan = &context.state.plan;
        let given: Names = context.folder.read_netns_names();
        let mut now = given.clone();
        let all: BTreeSet<PathBuf> =
            plan.nodes.iter().filter_map(|node| path(&plan.lab, &node.name)).collect();
        now.retain(|path, _| all.contains(path));
        let mut wanted = vec![];
        for node in plan.nodes.iter().filter(|node| only.is_none_or(|ids| ids.contains(&node.id))) {
            let init = context.inits.get(&node.id).filter(|init| init.lives());
            let (Some(init), Some(path)) = (init, path(&plan.lab, &node.name)) else { continue };
            let Some(named) = Named::of(init.pid.as_raw_nonzero().get()) else { continue };
            now.insert(path.clone(), named.clone());
            wanted.push((node.id, path, named));
        }
        // Before the names are given: the next lab process can tell each as its own.
        if wanted.is_empty() || (now != given && context.folder.write_netns_names(&now).is_err()) {
            return;
        }
        for (node, path, named) in wanted {
            // A node that was recreated.
            if let Some((path, named)) = self.names().remove(&node) {
                take_back(&path, &named);
            }
            if place(&path, &named, &given) {
                self.names().insert(node, (path, named));
            }
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
            if let Some((path, named)) = self.names().remove(node) {
                take_back(&path, &named);
            }
        }
    }

    fn restore_host(&self, folder: &Folder) -> Result<()> {
        let names: Names = folder.read_netns_names();
        let start = format!("{}-", folder.name());
        let mine = |path: &PathBuf| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&start))
        };
        let entries = std::fs::read_dir(PLACE).into_iter().flatten().flatten();
        for path in entries.map(|entry| entry.path()).filter(mine) {
            if is_dead(&path, &names) {
                let _ = std::fs::remove_file(path);
            }
        }
        // Only an empty folder goes.
        let _ = std::fs::remove_dir(PLACE);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A name in a folder of its own that leads to the network of this process, as if it had got the PID of an init.
    fn named(folder: &Path) -> (PathBuf, Named) {
        let path = folder.join("lab-a");
        let named = Named::of(std::process::id().cast_signed()).unwrap();
        symlink(&named.target, &path).unwrap();
        (path, named)
    }

    #[test]
    fn a_name_whose_pid_another_process_has_got_is_dead() {
        let folder = tempfile::tempdir().unwrap();
        let (path, own) = named(folder.path());
        let (dev, ino) = own.space;
        let other = Named { space: (dev, ino + 1), ..own.clone() };
        assert!(is_dead(&path, &[(path.clone(), other.clone())].into()), "it was for another");
        assert!(!is_dead(&path, &[(path.clone(), own.clone())].into()), "it is that one");
        assert!(!is_dead(&path, &Names::new()), "it may be somebody's");
        let elsewhere = Named { target: "/proc/1/ns/net".into(), ..other.clone() };
        assert!(!is_dead(&path, &[(path.clone(), elsewhere)].into()), "somebody made it again");
        // The node gets its name again; somebody's stays.
        let known = Names::from([(path.clone(), other)]);
        let fresh = Named { target: "/proc/self/ns/net".into(), space: own.space };
        assert!(!place(&path, &fresh, &Names::new()));
        assert!(place(&path, &fresh, &known));
        assert_eq!(std::fs::read_link(&path).unwrap(), fresh.target);
    }

    #[test]
    fn a_name_of_no_process_is_dead_and_what_is_not_of_a_process_is_somebodys() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lab-b");
        symlink("/proc/0/ns/net", &path).unwrap();
        assert!(is_dead(&path, &Names::new()));
        std::fs::remove_file(&path).unwrap();
        symlink("/nowhere", &path).unwrap();
        assert!(!is_dead(&path, &Names::new()));
    }
}
