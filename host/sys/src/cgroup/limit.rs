//! Limits of groups: set before any process runs in them, changed or lifted while it does.
//!
//! A change is applied whole or not at all: after a refusal the old limits are written again. The
//! kernel lets no version 1 CPU limit exceed an ancestor's, so the caller must raise an ancestor's
//! first and lower it last. See sched-bwc.rst, memory.rst (v1), cgroup-v2.rst.

use std::fs;
use std::io;
use std::path::Path;

use super::usage::number;
use super::{Groups, Hierarchy, Version};
use crate::{Error, Failure, Result, Unsupported};

/// The kernel's default period, in microseconds: a thousandth of a CPU is 100 us of it.
const PERIOD: u64 = 100_000;

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

impl Groups {
    /// Changes the limits of a node's groups from `old` to `new`; `None` lifts one. Returns notes
    /// for the user about new limits that are already exceeded.
    ///
    /// A node whose memory is limited for the first time needs [`Groups::add`] and
    /// [`Groups::create_node`] before.
    ///
    /// # Errors
    /// [`Error::Refused`] with the reason in words: a CPU limit above an ancestor's or below a
    /// descendant's (version 1), or a memory limit below what remains in use after reclaim.
    /// [`Error::Unsupported`] if a limit has no controller.
    pub fn apply(&self, node: usize, old: &Limits, new: &Limits) -> Result<Vec<String>> {
        for (controller, wanted) in [
            ("cpu", new.cpu_milli.filter(|_| old.cpu_milli != new.cpu_milli).is_some()),
            ("memory", new.memory.filter(|_| old.memory != new.memory).is_some()),
            ("pids", new.processes.filter(|_| old.processes != new.processes).is_some()),
        ] {
            // Version 2's groups have memory's files only where some node's memory is limited.
            let there = controller != "memory" || !self.memory.is_empty();
            if wanted && !(there && self.of(node).any(|h| h.has(controller))) {
                return Err(self.cannot_limit(controller));
            }
        }
        let mut notes = Vec::new();
        let outcome = self.change(node, old, new, &mut notes);
        if outcome.is_err() {
            // The limit that failed still has its old value; this refusal tells more than another would.
            let _ = self.change(node, new, old, &mut Vec::new());
        }
        outcome.map(|()| notes)
    }

    /// Sets a node's CPU weight against its competing siblings: 1 to 10,000; `None` is 100, the
    /// default of all.
    ///
    /// # Errors
    /// [`Error::Failed`]; [`Error::Unsupported`] if a weight is given and there is no controller for it.
    pub fn weigh(&self, node: usize, weight: Option<u32>) -> Result<()> {
        let Some(h) = self.of(node).find(|h| h.has("cpu")) else {
            return weight.map_or(Ok(()), |_| Err(self.cannot_limit("cpu")));
        };
        let weight = weight.unwrap_or(100);
        let (file, value) = match h.version {
            // Version 2's 100 corresponds to 1024 here.
            Version::V1 => ("cpu.shares", u64::from(weight) * 1024 / 100),
            Version::V2 => ("cpu.weight", u64::from(weight)),
        };
        write(&self.dir(h, node).join(file), "set weight", &value.to_string())
    }

    fn cannot_limit(&self, controller: &'static str) -> Error {
        let there = self.has(controller);
        Error::Unsupported(Unsupported {
            feature: "limits",
            reason: if there {
                format!("there is no group of the {controller} controller for this node")
            } else {
                format!("the lab has no groups of the {controller} controller")
            },
            needs: "cgroups with that controller when the lab is made, see `netloom doctor`".into(),
        })
    }

    /// Writes the limits that differ.
    pub(super) fn change(
        &self,
        node: usize,
        old: &Limits,
        new: &Limits,
        notes: &mut Vec<String>,
    ) -> Result<()> {
        for h in self.of(node) {
            let dir = self.dir(h, node);
            if h.has("cpu") && old.cpu_milli != new.cpu_milli {
                self.limit_cpu(h, node, new.cpu_milli)?;
            }
            if h.has("memory") && old.memory != new.memory {
                match h.version {
                    Version::V1 => limit_memory_v1(&dir, new.memory)?,
                    Version::V2 => limit_memory_v2(&dir, new.memory)?,
                }
            }
            if h.has("pids") && old.processes != new.processes {
                notes.extend(limit_processes(&dir, new.processes)?);
            }
        }
        Ok(())
    }

    fn limit_cpu(&self, h: &Hierarchy, node: usize, milli: Option<u32>) -> Result<()> {
        // The kernel accepts no quota below 1 ms.
        let quota = milli.map(|m| (u64::from(m) * PERIOD / 1000).max(1000));
        let (file, text) = match (h.version, quota) {
            (Version::V1, None) => ("cpu.cfs_quota_us", "-1".to_owned()),
            (Version::V1, Some(us)) => ("cpu.cfs_quota_us", us.to_string()),
            (Version::V2, None) => ("cpu.max", format!("max {PERIOD}")),
            (Version::V2, Some(us)) => ("cpu.max", format!("{us} {PERIOD}")),
        };
        let path = self.dir(h, node).join(file);
        match (fs::write(&path, text), quota) {
            (Err(source), Some(quota)) if source.raw_os_error() == Some(libc::EINVAL) => {
                let reason = self.quota_in_the_way(h, node, quota);
                Err(Error::Refused { path, operation: "set limit", reason, source })
            }
            (outcome, _) => outcome.map_err(|e| Failure::path(path, "set limit", e).into()),
        }
    }

    /// The reason for which version 1 refuses a quota.
    fn quota_in_the_way(&self, h: &Hierarchy, node: usize, quota: u64) -> String {
        // "-1", no quota, does not parse as a number.
        let of = |n: &usize| number(&self.dir(h, *n).join("cpu.cfs_quota_us"));
        let ancestors = self.line(node);
        if let Some(less) = ancestors.iter().skip(1).filter_map(of).filter(|q| *q < quota).min() {
            return format!("the node it is in may use {}", cpus(less));
        }
        match self.below(node).iter().filter_map(of).filter(|q| *q > quota).max() {
            Some(more) => format!("a node in it may use {}; lower that first", cpus(more)),
            None => "the kernel does not take this value".to_owned(),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "shown with three digits")]
fn cpus(quota: u64) -> String {
    format!("{} CPUs", quota as f64 / PERIOD as f64)
}

/// Memory plus swap has a limit of its own, never below that of memory. Not every kernel accounts
/// swap; then only memory is limited.
fn limit_memory_v1(dir: &Path, bytes: Option<u64>) -> Result<()> {
    let (memory, both) = ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes");
    let now = number(&dir.join(memory)).unwrap_or(u64::MAX);
    let raises = bytes.is_none_or(|b| b >= now);
    let text = bytes.map_or("-1".to_owned(), |b| b.to_string());
    // Raised, the sum goes first, lowered last: it may never be below memory's limit.
    for file in if raises { [both, memory] } else { [memory, both] } {
        if file == memory || dir.join(both).exists() {
            shrink(dir, file, &text)?;
        }
    }
    // TCP socket buffers are counted separately, from the first limit on; version 2 counts all
    // socket buffers with the rest. A kernel without this counter leaves them out.
    let _ = fs::write(dir.join("memory.kmem.tcp.limit_in_bytes"), &text);
    Ok(())
}

/// Writes a limit; if more is in use, reclaims memory first.
fn shrink(dir: &Path, file: &str, text: &str) -> Result<()> {
    let path = dir.join(file);
    let busy = |e: &io::Error| e.raw_os_error() == Some(libc::EBUSY);
    let mut outcome = fs::write(&path, text);
    if outcome.as_ref().is_err_and(busy) {
        // A refusal only means that nothing could be reclaimed, which the next write shows.
        let _ = fs::write(dir.join("memory.force_empty"), "0");
        outcome = fs::write(&path, text);
    }
    match outcome {
        Err(source) if busy(&source) => {
            let used = number(&path.with_file_name(file.replace("limit", "usage")));
            let reason = stays_in_use(used.unwrap_or(0));
            Err(Error::Refused { path, operation: "set limit", reason, source })
        }
        outcome => outcome.map_err(|e| Failure::path(path, "set limit", e).into()),
    }
}

/// Version 2 would kill processes to get below the limit; here it is refused, as by version 1.
fn limit_memory_v2(dir: &Path, bytes: Option<u64>) -> Result<()> {
    let path = dir.join("memory.max");
    let used = || number(&dir.join("memory.current")).unwrap_or(0);
    let Some(bytes) = bytes else { return write(&path, "set limit", "max") };
    if let Some(excess) = used().checked_sub(bytes).filter(|n| *n > 0) {
        // Absent before Linux 5.19; EAGAIN if less could be reclaimed, which the next read shows.
        let _ = fs::write(dir.join("memory.reclaim"), excess.to_string());
        let used = used();
        if used > bytes {
            let source = io::Error::from_raw_os_error(libc::EBUSY);
            let reason = stays_in_use(used);
            return Err(Error::Refused { path, operation: "set limit", reason, source });
        }
    }
    write(&path, "set limit", &bytes.to_string())
}

fn stays_in_use(bytes: u64) -> String {
    format!("{} KiB stay in use; end processes first or allow more", bytes.div_ceil(1024))
}

fn limit_processes(dir: &Path, limit: Option<u32>) -> Result<Option<String>> {
    let text = limit.map_or("max".to_owned(), |n| n.to_string());
    write(&dir.join("pids.max"), "set limit", &text)?;
    let run = number(&dir.join("pids.current"));
    Ok(limit.zip(run).filter(|(limit, run)| *run > u64::from(*limit)).map(|(limit, run)| {
        format!("{run} processes and threads run, limit {limit}: no more can start")
    }))
}

fn write(path: &Path, operation: &'static str, text: &str) -> Result<()> {
    fs::write(path, text).map_err(|e| Failure::path(path, operation, e).into())
}
