//! Control groups of a lab's nodes: version 1, version 2 and both side by side.
//!
//! Each controller is looked for where it is mounted; a lab gets `netloom/ID` there and a directory
//! for each node. Limits are written before a process joins. On version 1 a process joins by
//! writing `0` to `tasks` itself, on version 2 by being cloned into it: moving another process
//! waits for an RCU grace period of some 9 ms. See cgroups(7), cgroup-v2.rst.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use serde::{Deserialize, Serialize};

use crate::mountinfo::{self, Mount};
use crate::{Error, Result};

/// The controllers a node is limited and accounted by.
pub const CONTROLLERS: [&str; 4] = ["cpu", "cpuacct", "memory", "pids"];

/// Version of a hierarchy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Version {
    /// One hierarchy a controller (or a few).
    V1,
    /// The unified one.
    V2,
}

/// Limits on all processes of a group together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Thousandths of a CPU.
    pub cpu_milli: Option<u32>,
    /// Bytes.
    pub memory: Option<u64>,
    /// Processes and threads.
    pub processes: Option<u32>,
}

/// What a group has used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// CPU time in nanoseconds.
    pub cpu_ns: Option<u64>,
    /// Bytes of memory now.
    pub memory: Option<u64>,
    /// Processes and threads now.
    pub processes: Option<u64>,
}

/// One hierarchy that a lab uses: where its groups are and for what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hierarchy {
    /// Its version.
    pub version: Version,
    /// The directory below which `netloom` is made.
    pub base: PathBuf,
    /// Which of [`CONTROLLERS`] it has.
    pub controllers: Vec<String>,
}

impl Hierarchy {
    fn has(&self, controller: &str) -> bool {
        self.controllers.iter().any(|c| c == controller)
    }
}

/// The hierarchies that root can make groups in.
///
/// # Errors
/// Only when the list of mounts cannot be read; a system without cgroups gives an empty list.
pub fn hierarchies_of_root() -> Result<Vec<Hierarchy>> {
    Ok(select(&mountinfo::read()?, |base| {
        fs::read_to_string(base.join("cgroup.controllers")).unwrap_or_default()
    }))
}

/// The hierarchy that was delegated to this user: the version 2 group of the calling process, where
/// it may make groups and hand out controllers. Empty when there is none.
pub fn hierarchies_of_user() -> Result<Vec<Hierarchy>> {
    let own = fs::read_to_string("/proc/self/cgroup")
        .map_err(|e| Error::path("/proc/self/cgroup", "read", e))?;
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

fn wanted(list: &str, separator: char) -> Vec<String> {
    let mut found: Vec<String> = CONTROLLERS
        .iter()
        .filter(|c| list.trim().split(separator).any(|l| l == **c))
        .map(|c| (*c).to_owned())
        .collect();
    // Version 2 accounts CPU time with the cpu controller, and without any.
    if separator == ' ' && found.iter().any(|c| c == "cpu") {
        found.push("cpuacct".to_owned());
    }
    found
}

/// Picks each controller once, from version 1 mounts first: where it is there, version 2 lacks it.
fn select(mounts: &[Mount], v2_controllers: impl Fn(&Path) -> String) -> Vec<Hierarchy> {
    let mut found: Vec<Hierarchy> = Vec::new();
    for mount in mounts {
        let (version, list) = match mount.fstype.as_str() {
            "cgroup" => (Version::V1, wanted(&mount.super_options, ',')),
            "cgroup2" => (Version::V2, wanted(&v2_controllers(&mount.path), ' ')),
            _ => continue,
        };
        let controllers: Vec<String> =
            list.into_iter().filter(|c| !found.iter().any(|h| h.has(c))).collect();
        if !mount.read_only && !controllers.is_empty() {
            found.push(Hierarchy { version, base: mount.path.clone(), controllers });
        }
    }
    found
}

/// The groups of one lab.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Groups {
    hierarchies: Vec<Hierarchy>,
    id: String,
    /// Nodes with a group of the memory controller. The kernel keeps a list of every mounted file
    /// system for each such group: with 1,000 nodes and their mounts some 100 to 220 KiB a node.
    memory: BTreeSet<usize>,
}

impl Groups {
    /// Groups of the lab `id` (a plain file name) in these hierarchies; `memory` are the nodes whose
    /// memory is limited. Nothing is made yet.
    pub fn new(hierarchies: Vec<Hierarchy>, id: &str, memory: BTreeSet<usize>) -> Groups {
        Groups { hierarchies, id: id.to_owned(), memory }
    }

    /// The hierarchies that a node has groups in.
    fn of(&self, node: usize) -> impl Iterator<Item = &Hierarchy> {
        let limited = self.memory.contains(&node);
        self.hierarchies.iter().filter(move |h| limited || h.controllers != ["memory"])
    }

    /// What is handed out below a version 2 group.
    fn handed_out(&self, h: &Hierarchy) -> String {
        let unlimited = self.memory.is_empty();
        let names = h.controllers.iter().filter(|c| *c != "cpuacct");
        let names = names.filter(|c| !unlimited || *c != "memory");
        names.map(|c| format!("+{c}")).collect::<Vec<_>>().join(" ")
    }

    /// Which controllers limits can use.
    pub fn has(&self, controller: &str) -> bool {
        self.hierarchies.iter().any(|h| h.has(controller))
    }

    fn lab_dir(&self, h: &Hierarchy) -> PathBuf {
        h.base.join("netloom").join(&self.id)
    }

    fn dir(&self, h: &Hierarchy, node: usize) -> PathBuf {
        self.lab_dir(h).join(node.to_string())
    }

    /// Makes the lab's own level. That it exists already is success.
    pub fn create(&self) -> Result<()> {
        for h in &self.hierarchies {
            if h.version == Version::V2 {
                leave_for_leaf(h)?;
                enable(&h.base, &self.handed_out(h))?;
            }
            mkdir(&h.base.join("netloom"))?;
            mkdir(&self.lab_dir(h))?;
            if h.version == Version::V2 {
                enable(&h.base.join("netloom"), &self.handed_out(h))?;
                enable(&self.lab_dir(h), &self.handed_out(h))?;
            }
        }
        Ok(())
    }

    /// Makes a node's groups and sets its limits.
    pub fn create_node(&self, node: usize, limits: &Limits) -> Result<()> {
        for h in self.of(node) {
            let dir = self.dir(h, node);
            mkdir(&dir)?;
            for (file, text) in limit_files(h, limits) {
                let path = dir.join(file);
                match fs::write(&path, &text) {
                    Ok(()) => {}
                    // Swap is not accounted on every kernel; memory alone is limited then.
                    Err(e) if file.contains("memsw") && e.kind() == io::ErrorKind::NotFound => {}
                    Err(e) => return Err(Error::path(path, "set limit", e)),
                }
            }
        }
        Ok(())
    }

    /// The `tasks` files of a node's version 1 groups, for a process that joins by itself.
    pub fn tasks_files(&self, node: usize) -> Vec<PathBuf> {
        let v1 = self.of(node).filter(|h| h.version == Version::V1);
        v1.map(|h| self.dir(h, node).join("tasks")).collect()
    }

    /// The directory of a node's version 2 group, for a process that is cloned into it.
    pub fn v2_dir(&self, node: usize) -> Option<PathBuf> {
        self.hierarchies.iter().find(|h| h.version == Version::V2).map(|h| self.dir(h, node))
    }

    /// What a node has used. What cannot be read is `None`.
    pub fn usage(&self, node: usize) -> Usage {
        let mut usage = Usage::default();
        for h in self.of(node) {
            let dir = self.dir(h, node);
            let v1 = h.version == Version::V1;
            if h.has("cpuacct") {
                usage.cpu_ns = if v1 {
                    number(&dir.join("cpuacct.usage"))
                } else {
                    keyed(&dir.join("cpu.stat"), "usage_usec").map(|us| us * 1000)
                };
            }
            if h.has("memory") {
                usage.memory =
                    number(&dir.join(if v1 { "memory.usage_in_bytes" } else { "memory.current" }));
            }
            if h.has("pids") {
                usage.processes = number(&dir.join("pids.current"));
            }
        }
        usage
    }

    /// Memory of a node's processes in bytes, by their own count of pages that are no file's: for nodes
    /// without a group that counts it. `None` where there are no groups.
    pub fn resident(&self, node: usize) -> Option<u64> {
        self.of(node).next()?;
        let of = |pid: i32| -> u64 {
            let path = format!("/proc/{pid}/status");
            let text = fs::read_to_string(path).unwrap_or_default();
            let parts = text.lines().filter_map(|l| {
                let value = l.strip_prefix("RssAnon:").or_else(|| l.strip_prefix("RssShmem:"))?;
                value.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()
            });
            parts.sum::<u64>() * 1024
        };
        Some(self.processes(node).into_iter().map(of).sum())
    }

    /// The processes of a node, by the host's ids; empty where there are no groups.
    pub fn processes(&self, node: usize) -> Vec<i32> {
        let Some(h) = self.of(node).next() else { return vec![] };
        let text = fs::read_to_string(self.dir(h, node).join("cgroup.procs")).unwrap_or_default();
        text.lines().filter_map(|l| l.parse().ok()).collect()
    }

    /// Removes the lab's groups with all nodes' left in them, goes on past errors, returns the first.
    pub fn remove(&self) -> Result<()> {
        let mut first = Ok(());
        for h in &self.hierarchies {
            let dir = self.lab_dir(h);
            for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
                if entry.file_type().is_ok_and(|t| t.is_dir()) {
                    first = first.and(rmdir(&entry.path()));
                }
            }
            first = first.and(rmdir(&dir));
            // The common level goes with the last lab; another lab's groups keep it, by ENOTEMPTY
            // or EBUSY.
            let _ = fs::remove_dir(h.base.join("netloom"));
        }
        first
    }
}

/// Opens what [`Join`] needs: write access to `tasks` files and a handle on the v2 directory.
impl Groups {
    /// Descriptors by which another process can join a node's groups.
    pub fn join_handles(&self, node: usize) -> Result<Join> {
        let open = |path: &Path, flags| {
            rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::empty())
                .map_err(|e| Error::path(path, "open", e))
        };
        let tasks = self.tasks_files(node);
        let tasks = tasks.iter().map(|p| open(p, OFlags::WRONLY)).collect::<Result<Vec<_>>>()?;
        let v2 = self.v2_dir(node).map(|p| open(&p, OFlags::RDONLY | OFlags::DIRECTORY));
        Ok(Join { tasks, v2: v2.transpose()? })
    }
}

/// Descriptors by which a process joins a node's groups.
#[derive(Debug, Default)]
pub struct Join {
    /// `tasks` files of version 1 groups.
    pub tasks: Vec<OwnedFd>,
    /// Directory of the version 2 group, to be cloned into.
    pub v2: Option<OwnedFd>,
}

impl Join {
    /// Puts the calling, single-threaded process into the version 1 groups.
    pub fn enter_v1(&self) -> Result<()> {
        for fd in &self.tasks {
            rustix::io::write(fd, b"0").map_err(|e| Error::call("cgroup", "join", e))?;
        }
        Ok(())
    }
}

/// Puts the calling, single-threaded process into the groups of these `tasks` files.
pub fn join_v1(tasks: &[PathBuf]) -> Result<()> {
    tasks.iter().try_for_each(|p| fs::write(p, "0").map_err(|e| Error::path(p, "join cgroup", e)))
}

fn limit_files(h: &Hierarchy, limits: &Limits) -> Vec<(&'static str, String)> {
    let mut files = Vec::new();
    let v1 = h.version == Version::V1;
    if let (true, Some(milli)) = (h.has("cpu"), limits.cpu_milli) {
        // A period of 100 ms: a thousandth of a CPU is 100 us of it. The kernel takes 1 ms or more.
        let quota = (u64::from(milli) * 100).max(1000);
        if v1 {
            files.push(("cpu.cfs_quota_us", quota.to_string()));
        } else {
            files.push(("cpu.max", format!("{quota} 100000")));
        }
    }
    if let (true, Some(bytes)) = (h.has("memory"), limits.memory) {
        if v1 {
            files.push(("memory.limit_in_bytes", bytes.to_string()));
            files.push(("memory.memsw.limit_in_bytes", bytes.to_string()));
        } else {
            files.push(("memory.max", bytes.to_string()));
        }
    }
    if let (true, Some(n)) = (h.has("pids"), limits.processes) {
        files.push(("pids.max", n.to_string()));
    }
    files
}

/// In a delegated version 2 group, processes may only live in leaves: they move to one.
fn leave_for_leaf(h: &Hierarchy) -> Result<()> {
    let here = h.base.join("cgroup.procs");
    // The root group may keep its processes.
    if !h.base.join("cgroup.type").exists() {
        return Ok(());
    }
    let pids = fs::read_to_string(&here).map_err(|e| Error::path(&here, "read", e))?;
    if pids.trim().is_empty() {
        return Ok(());
    }
    let leaf = h.base.join("netloom-supervisor");
    mkdir(&leaf)?;
    let procs = leaf.join("cgroup.procs");
    for pid in pids.lines() {
        match fs::write(&procs, pid) {
            Ok(()) => {}
            Err(e) if e.raw_os_error() == Some(libc::ESRCH) => {}
            Err(e) => return Err(Error::path(&procs, "move processes to", e)),
        }
    }
    Ok(())
}

fn enable(dir: &Path, controllers: &str) -> Result<()> {
    let path = dir.join("cgroup.subtree_control");
    fs::write(&path, controllers).map_err(|e| Error::path(path, "hand out controllers", e))
}

fn mkdir(path: &Path) -> Result<()> {
    match fs::create_dir(path) {
        Ok(()) => Ok(()),
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(e) => Err(Error::path(path, "make cgroup", e)),
    }
}

fn rmdir(path: &Path) -> Result<()> {
    match fs::remove_dir(path) {
        Ok(()) => Ok(()),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(e) => Err(Error::path(path, "remove cgroup", e)),
    }
}

fn number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

fn keyed(path: &Path, key: &str) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    text.lines().find_map(|l| l.strip_prefix(key)?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mount(path: &str, fstype: &str, options: &str) -> Mount {
        Mount {
            path: path.into(),
            fstype: fstype.into(),
            read_only: false,
            source: "cgroup".into(),
            super_options: options.into(),
        }
    }

    #[test]
    fn hybrid_takes_each_controller_once() {
        let mounts = [
            mount("/c/unified", "cgroup2", "rw"),
            mount("/c/cpu", "cgroup", "rw,cpu,cpuacct"),
            mount("/c/memory", "cgroup", "rw,memory"),
            mount("/c/pids", "cgroup", "rw,pids"),
        ];
        let found = select(&mounts, |_| String::new());
        let names: Vec<_> = found.iter().map(|h| (h.version, h.controllers.join(","))).collect();
        assert_eq!(
            names,
            [
                (Version::V1, "cpu,cpuacct".to_owned()),
                (Version::V1, "memory".to_owned()),
                (Version::V1, "pids".to_owned())
            ]
        );
    }

    #[test]
    fn unified_gives_all_from_one_directory() {
        let mounts = [mount("/sys/fs/cgroup", "cgroup2", "rw,nsdelegate")];
        let found = select(&mounts, |_| "cpuset cpu io memory pids\n".into());
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].controllers, ["cpu", "memory", "pids", "cpuacct"]);
    }

    #[test]
    fn version_2_groups_are_made_limited_read_and_removed() {
        let base = std::env::temp_dir().join(format!("netloom-cgroup-{}", std::process::id()));
        fs::create_dir(&base).unwrap();
        let h = Hierarchy {
            version: Version::V2,
            base: base.clone(),
            controllers: ["cpu", "memory", "pids", "cpuacct"].map(str::to_owned).to_vec(),
        };
        let limits = Limits { cpu_milli: Some(500), memory: Some(1 << 20), processes: Some(7) };
        let files = limit_files(&h, &limits);
        assert_eq!(
            files,
            [
                ("cpu.max", "50000 100000".to_owned()),
                ("memory.max", "1048576".to_owned()),
                ("pids.max", "7".to_owned())
            ]
        );
        let groups = Groups::new(vec![h.clone()], "lab-1", BTreeSet::new());
        mkdir(&base.join("netloom")).unwrap();
        mkdir(&groups.lab_dir(&h)).unwrap();
        mkdir(&groups.dir(&h, 3)).unwrap();
        groups.remove().unwrap();
        assert!(!base.join("netloom").exists());
        fs::remove_dir_all(base).unwrap();
    }

    #[test]
    fn only_limited_memory_has_a_group() {
        let v1 = |base: &str, names: &[&str]| Hierarchy {
            version: Version::V1,
            base: base.into(),
            controllers: names.iter().map(|n| (*n).to_owned()).collect(),
        };
        let all = vec![v1("/c/memory", &["memory"]), v1("/c/cpu", &["cpu", "cpuacct"])];
        let groups = Groups::new(all, "l", BTreeSet::from([1]));
        assert_eq!(groups.tasks_files(0), [PathBuf::from("/c/cpu/netloom/l/0/tasks")]);
        assert_eq!(groups.tasks_files(1).len(), 2);
        let v2 = Hierarchy { version: Version::V2, ..v1("/c", &["cpu", "memory", "cpuacct"]) };
        assert_eq!(groups.handed_out(&v2), "+cpu +memory");
        let unlimited = Groups::new(vec![], "l", BTreeSet::new());
        assert_eq!(unlimited.handed_out(&v2), "+cpu");
    }

    #[test]
    fn a_small_share_keeps_the_kernels_least_quota() {
        let h = Hierarchy {
            version: Version::V1,
            base: "/c".into(),
            controllers: vec!["cpu".to_owned()],
        };
        let files = limit_files(&h, &Limits { cpu_milli: Some(1), ..Limits::default() });
        assert_eq!(files, [("cpu.cfs_quota_us", "1000".to_owned())]);
    }
}
