//! Control groups of a lab's nodes: version 1, version 2 or both side by side.
//!
//! Each controller is used where it is mounted. A lab gets `netloom/ID` there, and a node a
//! directory below its parent's: a parent's limits and counters cover its children. Where a node
//! has no group (memory and sockets have one only if limited), its processes are in its nearest
//! ancestor's. On version 2 the processes of a node with children are in a leaf `own`. Limits are
//! written before a process joins. On version 1 a process joins by writing `0` to `tasks` itself,
//! on version 2 by being cloned into the group: moving another process waits for an RCU grace
//! period of about 9 ms. Attaching programs to groups is done elsewhere. See cgroups(7),
//! cgroup-v2.rst.

mod hierarchy;
mod limit;
mod place;
mod usage;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::{Error, Failure, Result};
pub use hierarchy::{CONTROLLERS, Hierarchy, SOCKETS, Version};
use hierarchy::{enable, leave_for_leaf};
pub use hierarchy::{hierarchies_of_root, hierarchies_of_user, hierarchy_with};
pub use limit::Limits;
pub use place::{Join, open_dir, open_v1};
pub use usage::Usage;

/// On version 2, the leaf for the processes of a node that has children.
const OWN: &str = "own";
/// The kernel's numbers of file systems of groups, statfs(2).
const KINDS: [i64; 2] = [0x27_e0eb, 0x6367_7270];
/// Attempts to create the common level while other labs remove it.
const LEVEL_TRIES: usize = 16;

/// The groups of one lab. Each node has a number that never changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Groups {
    hierarchies: Vec<Hierarchy>,
    id: String,
    /// Nodes with a group of the memory controller, and their ancestors. The kernel keeps a list of
    /// every mounted file system for each such group: with 1,000 nodes and their mounts, 100 to 220
    /// KiB a node.
    memory: BTreeSet<usize>,
    /// Nodes with a group whose sockets are counted, and their ancestors.
    #[serde(default)]
    sockets: BTreeSet<usize>,
    /// The parent of each node that has one.
    #[serde(default)]
    parents: BTreeMap<usize, usize>,
    /// Nodes that have or had children.
    #[serde(default)]
    inner: BTreeSet<usize>,
}

impl Groups {
    /// Groups of the lab `id` (a plain file name) in these hierarchies; `memory` lists the nodes
    /// with limited memory. Creates nothing yet.
    pub fn new(hierarchies: Vec<Hierarchy>, id: &str, memory: BTreeSet<usize>) -> Groups {
        Groups::with(hierarchies, id, memory, BTreeSet::new(), BTreeMap::new())
    }

    /// As [`Groups::new`], plus the nodes with limited `sockets` and the parent of each node that
    /// has one. Parents must not form a cycle.
    pub fn with(
        hierarchies: Vec<Hierarchy>,
        id: &str,
        memory: BTreeSet<usize>,
        sockets: BTreeSet<usize>,
        parents: BTreeMap<usize, usize>,
    ) -> Groups {
        let inner = parents.values().copied().collect();
        let mut groups = Groups {
            hierarchies,
            id: id.to_owned(),
            memory: BTreeSet::new(),
            sockets: BTreeSet::new(),
            parents,
            inner,
        };
        groups.memory = memory.iter().flat_map(|n| groups.line(*n)).collect();
        groups.sockets = sockets.iter().flat_map(|n| groups.line(*n)).collect();
        groups
    }

    /// Records a new node, or a known one whose memory or sockets are limited from now on. Groups
    /// are created by [`Groups::create_node`], which accepts existing ones. For a running node,
    /// call [`Groups::move_processes`] afterwards.
    pub fn add(&mut self, node: usize, parent: Option<usize>, memory: bool, sockets: bool) {
        if let Some(parent) = parent {
            self.parents.insert(node, parent);
            self.inner.insert(parent);
        }
        let line = self.line(node);
        if memory {
            self.memory.extend(line.iter());
        }
        if sockets {
            self.sockets.extend(line.iter());
        }
    }

    /// Forgets a node and its descendants: their groups must be gone, see [`Groups::remove_node`].
    pub fn forget(&mut self, node: usize) {
        for gone in self.below(node).into_iter().chain([node]) {
            self.parents.remove(&gone);
            self.memory.remove(&gone);
            self.sockets.remove(&gone);
            self.inner.remove(&gone);
        }
    }

    /// Whether limits can use a controller; [`SOCKETS`] asks whether sockets can be counted by group.
    pub fn has(&self, controller: &str) -> bool {
        self.hierarchies.iter().any(|h| h.has(controller))
    }

    /// Creates the lab's own level; succeeds if it exists.
    pub fn create(&self) -> Result<()> {
        let used =
            self.hierarchies.iter().filter(|h| !h.only_for(SOCKETS) || self.counts_sockets());
        used.into_iter().try_for_each(|h| self.create_lab(h))
    }

    fn create_lab(&self, h: &Hierarchy) -> Result<()> {
        let handed_out = self.handed_out(h);
        if h.version == Version::V2 && !handed_out.is_empty() {
            leave_for_leaf(h)?;
            enable(&h.base, &handed_out)?;
        }
        let levels = || {
            for dir in [h.base.join("netloom"), self.lab_dir(h)] {
                mkdir(&dir)?;
                if h.version == Version::V2 {
                    enable(&dir, &handed_out)?;
                }
            }
            Ok(())
        };
        // Another lab that ends may remove the common level while it is empty.
        let vanished = |made: &Result<()>| {
            made.as_ref().is_err_and(|e| e.raw_os_error() == Some(libc::ENOENT)) && h.base.exists()
        };
        (1..LEVEL_TRIES).fold(levels(), |made, _| if vanished(&made) { levels() } else { made })
    }

    /// Creates a node's groups and missing ones of its ancestors, and sets its limits. Existing
    /// groups are accepted; limits not given then stay unchanged.
    ///
    /// # Errors
    /// [`Error::Refused`] with the reason in words if a CPU limit exceeds an ancestor's on version 1.
    pub fn create_node(&self, node: usize, limits: &Limits) -> Result<()> {
        for h in self.of(node) {
            if !self.lab_dir(h).exists() || self.newly_selective(h) {
                self.create_lab(h)?;
            }
            for ancestor in self.line(node).into_iter().rev().filter(|a| *a != node) {
                mkdir(&self.dir(h, ancestor))?;
                self.make_room(h, ancestor)?;
            }
            mkdir(&self.dir(h, node))?;
            if self.inner.contains(&node) {
                self.make_room(h, node)?;
            }
        }
        // A limit without a controller is ignored here: the caller has already decided that.
        self.change(node, &Limits::default(), limits, &mut Vec::new())
    }

    /// Removes the groups of a node and its descendants, continues past errors, returns the first.
    /// Kernel threads still in them go back to the hierarchies' roots.
    ///
    /// # Errors
    /// [`Error::Refused`] names the processes still in a group; they must have ended.
    pub fn remove_node(&self, node: usize) -> Result<()> {
        let mut first = Ok(());
        for h in self.of(node) {
            first = first.and(remove_tree(h, &self.dir(h, node)));
        }
        first
    }

    /// A place of these groups that is none: a directory of another file system, or one that the name leads to. Groups that
    /// were read from a file are asked before anything is removed.
    pub fn astray(&self) -> Option<&Path> {
        let is_plain = Path::new(&self.id).file_name().is_some_and(|name| name == &*self.id);
        let is_one = |h: &Hierarchy| match rustix::fs::statfs(&h.base) {
            Ok(found) => KINDS.contains(&found.f_type),
            // There is nothing to remove.
            Err(e) => e == rustix::io::Errno::NOENT,
        };
        self.hierarchies.iter().find(|h| !is_plain || !is_one(h)).map(|h| h.base.as_path())
    }

    /// Removes the lab's groups with all nodes' remaining ones, continues past errors, returns the first.
    pub fn remove(&self) -> Result<()> {
        let mut first = Ok(());
        for h in &self.hierarchies {
            first = first.and(remove_tree(h, &self.lab_dir(h)));
            // The common level goes with the last lab; another lab's groups keep it, by ENOTEMPTY
            // or EBUSY.
            let _ = fs::remove_dir(h.base.join("netloom"));
        }
        first
    }

    /// The directory of the group that holds the sockets of the node and its descendants, if its
    /// sockets are limited and can be counted.
    pub fn sockets_dir(&self, node: usize) -> Option<PathBuf> {
        let h = self.hierarchies.iter().find(|h| h.has(SOCKETS))?;
        self.sockets.contains(&node).then(|| self.dir(h, node))
    }

    /// The directory of the lab's group that contains the groups of [`Groups::sockets_dir`].
    pub fn lab_sockets_dir(&self) -> Option<PathBuf> {
        let h = self.hierarchies.iter().find(|h| h.has(SOCKETS))?;
        self.counts_sockets().then(|| self.lab_dir(h))
    }

    fn counts_sockets(&self) -> bool {
        !self.sockets.is_empty()
    }

    /// Whether a hierarchy's lab level may lack a controller that a later limit needs.
    fn newly_selective(&self, h: &Hierarchy) -> bool {
        let has = |dir: PathBuf| {
            let on = fs::read_to_string(dir.join("cgroup.subtree_control")).unwrap_or_default();
            on.split_whitespace().any(|c| c == "memory")
        };
        let wanted = h.version == Version::V2 && h.has("memory") && !self.memory.is_empty();
        wanted && !has(self.lab_dir(h))
    }

    /// A node and its ancestors, innermost first.
    fn line(&self, node: usize) -> Vec<usize> {
        let mut line = vec![node];
        let mut last = node;
        while let Some(parent) = self.parents.get(&last) {
            // A cycle, which callers rule out, must not hang.
            if line.contains(parent) {
                break;
            }
            line.push(*parent);
            last = *parent;
        }
        line
    }

    /// All descendants of a node.
    fn below(&self, node: usize) -> Vec<usize> {
        let known = self.parents.keys().filter(|n| **n != node);
        known.filter(|n| self.line(**n).contains(&node)).copied().collect()
    }

    /// Whether a node has its own group in a hierarchy. Its ancestors then have one, too.
    fn owns(&self, h: &Hierarchy, node: usize) -> bool {
        h.controllers.iter().any(|c| match c.as_str() {
            "memory" => self.memory.contains(&node),
            SOCKETS => self.sockets.contains(&node),
            _ => true,
        })
    }

    /// The hierarchies in which a node has its own groups.
    fn of(&self, node: usize) -> impl Iterator<Item = &Hierarchy> {
        self.hierarchies.iter().filter(move |h| self.owns(h, node))
    }

    /// The controllers enabled below a version 2 group.
    fn handed_out(&self, h: &Hierarchy) -> String {
        let unlimited = self.memory.is_empty();
        let names = h.controllers.iter().filter(|c| *c != "cpuacct" && *c != SOCKETS);
        let names = names.filter(|c| !unlimited || *c != "memory");
        names.map(|c| format!("+{c}")).collect::<Vec<_>>().join(" ")
    }

    fn lab_dir(&self, h: &Hierarchy) -> PathBuf {
        h.base.join("netloom").join(&self.id)
    }

    fn dir(&self, h: &Hierarchy, node: usize) -> PathBuf {
        let line = self.line(node).into_iter().rev();
        line.fold(self.lab_dir(h), |dir, n| dir.join(n.to_string()))
    }

    /// The group of a node's processes in a hierarchy: its own or the nearest ancestor's.
    fn seat(&self, h: &Hierarchy, node: usize) -> Option<PathBuf> {
        let group = self.line(node).into_iter().find(|n| self.owns(h, *n))?;
        let dir = self.dir(h, group);
        let leaf = self.inner.contains(&group) && self.needs_leaf(h);
        Some(if leaf { dir.join(OWN) } else { dir })
    }

    /// Whether inner groups of a hierarchy cannot hold processes.
    fn needs_leaf(&self, h: &Hierarchy) -> bool {
        h.version == Version::V2 && h.controllers.iter().any(|c| c != SOCKETS)
    }
}

fn mkdir(path: &Path) -> Result<()> {
    match fs::create_dir(path) {
        Ok(()) => Ok(()),
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(e) => Err(Failure::path(path, "make cgroup", e).into()),
    }
}

/// Removes a group and all below it, deepest first; continues past errors, returns the first.
fn remove_tree(h: &Hierarchy, path: &Path) -> Result<()> {
    let mut first = Ok(());
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|t| t.is_dir()) {
            first = first.and(remove_tree(h, &entry.path()));
        }
    }
    // An interface's kernel thread ends when the kernel has dismantled its namespace, which it does not
    // announce.
    let gone = match rmdir(path) {
        Err(_) if place::release_kernel_threads(h, path) => rmdir(path),
        outcome => outcome,
    };
    first.and(gone)
}

fn rmdir(path: &Path) -> Result<()> {
    match fs::remove_dir(path) {
        Ok(()) => Ok(()),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(e) if e.raw_os_error() == Some(libc::EBUSY) => {
            let reason = usage::inhabitants(path);
            Err(Error::Refused { path: path.into(), operation: "remove cgroup", reason, source: e })
        }
        Err(e) => Err(Failure::path(path, "remove cgroup", e).into()),
    }
}

#[cfg(test)]
mod tests;
