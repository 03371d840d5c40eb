//! The mounted hierarchies and the use of each.
//!
//! Creates nothing but the leaf for the processes of a delegated group. Invariant: a controller is
//! in one hierarchy only. See cgroups(7), cgroup-v2.rst.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::mkdir;
use crate::mountinfo::{self, Mount};
use crate::{Failure, Result};

/// The controllers that limit and account nodes.
pub const CONTROLLERS: [&str; 4] = ["cpu", "cpuacct", "memory", "pids"];

/// Listed with the controllers of root's version 2 hierarchy: programs that count sockets can be
/// attached to its groups, whatever controllers it has.
pub const SOCKETS: &str = "sockets";

/// Version of a hierarchy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Version {
    /// A hierarchy for one or a few controllers.
    V1,
    /// The unified hierarchy.
    V2,
}

/// A hierarchy that a lab uses: the place of its groups and their controllers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hierarchy {
    /// Its version.
    pub version: Version,
    /// The directory that contains `netloom`.
    pub base: PathBuf,
    /// Its controllers out of [`CONTROLLERS`], and [`SOCKETS`].
    pub controllers: Vec<String>,
}

impl Hierarchy {
    pub(super) fn has(&self, controller: &str) -> bool {
        self.controllers.iter().any(|c| c == controller)
    }

    pub(super) fn only_for(&self, controller: &str) -> bool {
        self.controllers == [controller]
    }
}

/// The hierarchies in which root can create groups.
///
/// # Errors
/// Only if the mount list cannot be read; a system without cgroups gives an empty list.
pub fn hierarchies_of_root() -> Result<Vec<Hierarchy>> {
    Ok(select(&mountinfo::read()?, |base| {
        fs::read_to_string(base.join("cgroup.controllers")).unwrap_or_default()
    }))
}

/// The hierarchy delegated to this user: the version 2 group of the calling process, where it may
/// create groups and enable controllers. Empty if there is none.
pub fn hierarchies_of_user() -> Result<Vec<Hierarchy>> {
    let own = fs::read_to_string("/proc/self/cgroup")
        .map_err(|e| Failure::path("/proc/self/cgroup", "read", e))?;
    // The line of version 2 has number 0 and names no controllers (cgroups(7)).
    let Some(path) = own.lines().find_map(|l| l.strip_prefix("0::")) else { return Ok(vec![]) };
    let Some(mount) = mountinfo::read()?.into_iter().find(|m| m.fstype == "cgroup2") else {
        return Ok(vec![]);
    };
    let base = mount.path.join(path.trim_start_matches('/'));
    let writable = |p: &Path| rustix::fs::access(p, rustix::fs::Access::WRITE_OK).is_ok();
    if !writable(&base) || !writable(&base.join("cgroup.subtree_control")) {
        return Ok(vec![]);
    }
    let controllers = fs::read_to_string(base.join("cgroup.controllers")).unwrap_or_default();
    let controllers = wanted(&controllers, ' ');
    if controllers.is_empty() {
        return Ok(vec![]);
    }
    Ok(vec![Hierarchy { version: Version::V2, base, controllers }])
}

/// The version 2 hierarchy of the lab `id` as the kernel shows it: where its processes are; `None` if none is in a group of
/// the lab. Its controllers are not looked up.
pub fn hierarchy_with(id: &str, pids: impl IntoIterator<Item = i32>) -> Result<Option<Hierarchy>> {
    let base = |pid: i32| {
        let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
        let path = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
        let (base, below) = path.split_once(&format!("/netloom/{id}"))?;
        (below.is_empty() || below.starts_with('/')).then(|| base.to_owned())
    };
    let Some(base) = pids.into_iter().find_map(base) else { return Ok(None) };
    let mount = mountinfo::read()?.into_iter().find(|mount| mount.fstype == "cgroup2");
    Ok(mount.map(|mount| {
        let base = mount.path.join(base.trim_start_matches('/'));
        Hierarchy { version: Version::V2, base, controllers: vec![] }
    }))
}

fn wanted(list: &str, separator: char) -> Vec<String> {
    let mut found: Vec<String> = CONTROLLERS
        .iter()
        .filter(|c| list.trim().split(separator).any(|l| l == **c))
        .map(|c| (*c).to_owned())
        .collect();
    // Version 2 accounts CPU time with or without the cpu controller.
    if separator == ' ' && found.iter().any(|c| c == "cpu") {
        found.push("cpuacct".to_owned());
    }
    found
}

/// Picks each controller once, version 1 mounts first: version 2 lacks a controller mounted there.
pub(super) fn select(mounts: &[Mount], v2: impl Fn(&Path) -> String) -> Vec<Hierarchy> {
    let mut found: Vec<Hierarchy> = Vec::new();
    for mount in mounts {
        let (version, mut list) = match mount.fstype.as_str() {
            "cgroup" => (Version::V1, wanted(&mount.super_options, ',')),
            "cgroup2" => (Version::V2, wanted(&v2(&mount.path), ' ')),
            _ => continue,
        };
        if version == Version::V2 {
            list.push(SOCKETS.to_owned());
        }
        let controllers: Vec<String> =
            list.into_iter().filter(|c| !found.iter().any(|h| h.has(c))).collect();
        if !mount.read_only && !controllers.is_empty() {
            found.push(Hierarchy { version, base: mount.path.clone(), controllers });
        }
    }
    found
}

/// In a delegated version 2 group, only leaves may hold processes: moves them to one.
pub(super) fn leave_for_leaf(h: &Hierarchy) -> Result<()> {
    // The root group may keep its processes.
    if !h.base.join("cgroup.type").exists() {
        return Ok(());
    }
    move_all(&h.base, || {
        let leaf = h.base.join("netloom-supervisor");
        mkdir(&leaf).map(|()| leaf)
    })
}

/// Moves every process of a group into another, which is created only if there is one to move.
pub(super) fn move_all(from: &Path, to: impl Fn() -> Result<PathBuf>) -> Result<()> {
    let here = from.join("cgroup.procs");
    let pids = fs::read_to_string(&here).map_err(|e| Failure::path(&here, "read", e))?;
    if pids.trim().is_empty() {
        return Ok(());
    }
    let procs = to()?.join("cgroup.procs");
    pids.lines().try_for_each(|pid| enrol(&procs, pid).map(drop))
}

/// Writes a process into a `cgroup.procs` or `tasks` file; `false` if it has ended meanwhile.
pub(super) fn enrol(file: &Path, pid: &str) -> Result<bool> {
    match fs::write(file, pid) {
        Ok(()) => Ok(true),
        Err(e) if e.raw_os_error() == Some(libc::ESRCH) => Ok(false),
        Err(e) => Err(Failure::path(file, "move processes to", e).into()),
    }
}

/// Enables controllers (`+cpu +pids`, or nothing) below a version 2 group.
pub(super) fn enable(dir: &Path, controllers: &str) -> Result<()> {
    if controllers.is_empty() {
        return Ok(());
    }
    let path = dir.join("cgroup.subtree_control");
    fs::write(&path, controllers).map_err(|e| Failure::path(path, "hand out controllers", e).into())
}
