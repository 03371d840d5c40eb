//! What groups have used, and which processes they hold.
//!
//! Figures are the kernel's own for a group and its descendants; a figure that it does not count, or
//! that cannot be read, is `None`. See cpuacct.rst, memory.rst (v1), sched-bwc.rst, cgroup-v2.rst.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::{Groups, SOCKETS, Version};

/// Usage of a node and its descendants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// CPU time in nanoseconds.
    pub cpu_ns: Option<u64>,
    /// CPU time in user mode, as far as the kernel separates it.
    pub cpu_user_ns: Option<u64>,
    /// CPU time in the kernel.
    pub cpu_system_ns: Option<u64>,
    /// Periods in which the CPU limit throttled it.
    pub throttled: Option<u64>,
    /// Nanoseconds throttled by the CPU limit, summed over CPUs.
    pub throttled_ns: Option<u64>,
    /// Current bytes of memory.
    pub memory: Option<u64>,
    /// Peak bytes of memory.
    pub memory_peak: Option<u64>,
    /// Current processes and threads.
    pub processes: Option<u64>,
}

impl Groups {
    /// Usage of a node and its descendants. What cannot be read is `None`.
    pub fn usage(&self, node: usize) -> Usage {
        let mut usage = Usage::default();
        for h in self.of(node) {
            let dir = self.dir(h, node);
            let v1 = h.version == Version::V1;
            if h.has("cpuacct") {
                if v1 { cpu_v1(&mut usage, &dir) } else { cpu_v2(&mut usage, &dir) }
            }
            if h.has("cpu") {
                throttling(&mut usage, &dir, v1);
            }
            if h.has("memory") {
                let (now, peak) = if v1 {
                    ("memory.usage_in_bytes", "memory.max_usage_in_bytes")
                } else {
                    ("memory.current", "memory.peak")
                };
                usage.memory = number(&dir.join(now));
                usage.memory_peak = number(&dir.join(peak));
            }
            if h.has("pids") {
                usage.processes = number(&dir.join("pids.current"));
            }
        }
        usage
    }

    /// The files that say what a node may use, and what it and its descendants have used: CPU time, and memory where that
    /// is limited. A limit of a node around it is one of its own. A quota of version 1 comes before its period.
    pub fn gauges(&self, node: usize) -> Vec<PathBuf> {
        let mut files = Vec::new();
        for h in &self.hierarchies {
            let v1 = h.version == Version::V1;
            let line: Vec<usize> =
                self.line(node).into_iter().filter(|member| self.owns(h, *member)).collect();
            let Some(own) = line.first().map(|member| self.dir(h, *member)) else { continue };
            if h.has("cpuacct") {
                files.push(own.join(if v1 { "cpuacct.stat" } else { "cpu.stat" }));
            }
            let has_memory = |member: &&usize| self.memory.contains(member);
            let limited = line.iter().filter(|_| h.has("memory")).find(has_memory);
            if let Some(own) = limited.map(|member| self.dir(h, *member)) {
                let used = if v1 { "memory.usage_in_bytes" } else { "memory.current" };
                files.extend([own.join(used), own.join("memory.stat")]);
            }
            let limits: &[&str] = match (v1, h.has("cpu"), h.has("memory")) {
                (true, true, _) => &["cpu.cfs_quota_us", "cpu.cfs_period_us"],
                (false, true, false) => &["cpu.max"],
                (false, true, true) => &["cpu.max", "memory.max"],
                (false, false, true) => &["memory.max"],
                _ => &[],
            };
            let dirs = line.iter().map(|member| self.dir(h, *member));
            files.extend(dirs.flat_map(|dir| limits.iter().map(move |name| dir.join(name))));
        }
        files
    }

    /// Memory of a node's processes in bytes, summed from their resident anonymous and shared-memory
    /// pages: for nodes without a group that counts it. `None` if there are no groups.
    pub fn resident(&self, node: usize) -> Option<u64> {
        self.of(node).next()?;
        let of = |pid: i32| -> u64 {
            let path = format!("/proc/{pid}/status");
            let text = small(Path::new(&path)).unwrap_or_default();
            let parts = text.lines().filter_map(|l| {
                let value = l.strip_prefix("RssAnon:").or_else(|| l.strip_prefix("RssShmem:"))?;
                value.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()
            });
            parts.sum::<u64>() * 1024
        };
        Some(self.processes(node).into_iter().map(of).sum())
    }

    /// The processes of a node without its descendants', by host ids; empty without groups. If only
    /// CPU groups list them, they include kernel threads accounted to the node.
    pub fn processes(&self, node: usize) -> Vec<i32> {
        // A group created after the node is incomplete until the processes have been moved there,
        // and kernel threads are in the groups that count CPU time: those are asked last.
        let mut groups: Vec<_> = self.of(node).collect();
        groups.sort_by_key(|h| match h {
            h if h.controllers.iter().all(|c| c == "memory" || c == SOCKETS) => 2,
            h => u8::from(h.has("cpu") || h.has("cpuacct")),
        });
        let mut seats = groups.into_iter().filter_map(|h| self.seat(h, node));
        seats.find_map(|d| Some(members(&d)).filter(|m| !m.is_empty())).unwrap_or_default()
    }

    /// All processes and kernel threads in the lab's groups, of any node, by host ids.
    pub fn everybody(&self) -> BTreeSet<i32> {
        let mut left: Vec<PathBuf> = self.hierarchies.iter().map(|h| self.lab_dir(h)).collect();
        let mut found = BTreeSet::new();
        while let Some(dir) = left.pop() {
            found.extend(members(&dir));
            let below = fs::read_dir(&dir).into_iter().flatten().flatten();
            let groups = below.filter(|e| e.file_type().is_ok_and(|kind| kind.is_dir()));
            left.extend(groups.map(|e| e.path()));
        }
        found
    }
}

fn cpu_v1(usage: &mut Usage, dir: &Path) {
    // The sum of the other two, counted by ticks, lags behind.
    usage.cpu_ns = number(&dir.join("cpuacct.usage"));
    usage.cpu_user_ns = number(&dir.join("cpuacct.usage_user"));
    usage.cpu_system_ns = number(&dir.join("cpuacct.usage_sys"));
}

fn cpu_v2(usage: &mut Usage, dir: &Path) {
    let Some(text) = small(&dir.join("cpu.stat")) else { return };
    let ns = |key| value_of(&text, key).map(|us| us * 1000);
    usage.cpu_ns = ns("usage_usec");
    usage.cpu_user_ns = ns("user_usec");
    usage.cpu_system_ns = ns("system_usec");
}

fn throttling(usage: &mut Usage, dir: &Path, v1: bool) {
    let Some(stat) = small(&dir.join("cpu.stat")) else { return };
    usage.throttled = value_of(&stat, "nr_throttled");
    usage.throttled_ns = if v1 {
        value_of(&stat, "throttled_time")
    } else {
        value_of(&stat, "throttled_usec").map(|us| us * 1000)
    };
}

/// The processes in one group.
pub(super) fn members(dir: &Path) -> Vec<i32> {
    let text = fs::read_to_string(dir.join("cgroup.procs")).unwrap_or_default();
    text.lines().filter_map(|l| l.parse().ok()).collect()
}

/// The processes that keep a group from being removed, in words.
pub(super) fn inhabitants(dir: &Path) -> String {
    let name = |pid: i32| {
        let comm = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        format!("{pid} ({})", comm.trim())
    };
    let all = members(dir);
    let named: Vec<String> = all.iter().take(8).copied().map(name).collect();
    match all.len() {
        0 => "it is still in use".to_owned(),
        n if n > named.len() => format!("still in it: {} and {} more", named.join(", "), n - 8),
        _ => format!("still in it: {}", named.join(", ")),
    }
}

pub(super) fn number(path: &Path) -> Option<u64> {
    small(path)?.trim().parse().ok()
}

fn value_of(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|l| l.strip_prefix(key)?.strip_prefix(' ')?.trim().parse().ok())
}

/// Reads a small kernel file, which returns everything in one read. The status of a large lab reads
/// thousands of such files; three calls a file are half of what a general reader needs.
fn small(path: &Path) -> Option<String> {
    let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, rustix::fs::Mode::empty()).ok()?;
    let mut buffer = [0; 4096];
    let length = rustix::io::read(&file, &mut buffer).ok()?;
    std::str::from_utf8(&buffer[..length]).ok().map(str::to_owned)
}
