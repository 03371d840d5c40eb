//! Placement of processes: descriptors to join by, moving running processes, making room for children.
//!
//! A process that joins by itself costs nothing; moving one takes about 9 ms. Processes forked
//! during a move are found by looking again. See cgroups(7), cgroup-v2.rst ("no internal
//! processes").

use std::collections::BTreeSet;
use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};

use super::hierarchy::{enable, enrol, move_all};
use super::usage::members;
use super::{Groups, Hierarchy, OWN, Version, mkdir};
use crate::process::is_kernel_thread;
use crate::{Failure, Result};

/// Passes that look for processes forked meanwhile.
const PASSES: usize = 64;
/// Longest time from a kernel thread's creation to its first instruction; until then the kernel
/// refuses to move it, with the same EINVAL as for a permanently bound one.
const THREAD_WAIT: Duration = Duration::from_secs(1);

impl Groups {
    /// The `tasks` files of a node's version 1 groups, for a process that joins by itself.
    pub fn tasks_files(&self, node: usize) -> Vec<PathBuf> {
        let v1 = self.hierarchies.iter().filter(|h| h.version == Version::V1);
        v1.filter_map(|h| self.seat(h, node)).map(|d| d.join("tasks")).collect()
    }

    /// The directory of a node's version 2 group, for a process that is cloned into it.
    pub fn v2_dir(&self, node: usize) -> Option<PathBuf> {
        let mut v2 = self.hierarchies.iter().filter(|h| h.version == Version::V2);
        v2.find_map(|h| self.seat(h, node))
    }

    /// Descriptors by which another process can join a node's groups.
    pub fn join_handles(&self, node: usize) -> Result<Join> {
        let open = |path: &Path, flags| {
            rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::empty())
                .map_err(|e| Failure::path(path, "open", e).into())
        };
        let tasks = self.tasks_files(node);
        let tasks = tasks.iter().map(|p| open(p, OFlags::WRONLY)).collect::<Result<Vec<_>>>()?;
        let v2 = self.v2_dir(node).map(|p| open(&p, OFlags::RDONLY | OFlags::DIRECTORY));
        Ok(Join { tasks, v2: v2.transpose()? })
    }

    /// Moves the processes of a node, and those of descendants without a nearer group, into groups
    /// created after them. Returns the number moved. The node's other groups identify the
    /// processes; without any, none is found, see [`Groups::move_in`].
    pub fn move_processes(&self, node: usize) -> Result<usize> {
        let mut moved = 0;
        for member in self.below(node).into_iter().chain([node]) {
            for _ in 0..PASSES {
                let pids = self.processes(member);
                match self.move_in(member, &pids)? {
                    0 => break,
                    n => moved += n,
                }
            }
        }
        Ok(moved)
    }

    /// Moves these processes into all groups of a node that they are not in; returns the number of
    /// moves. Processes that have ended are skipped.
    pub fn move_in(&self, node: usize, pids: &[i32]) -> Result<usize> {
        let mut moved = 0;
        for seat in self.hierarchies.iter().filter_map(|h| self.seat(h, node)) {
            let there: BTreeSet<i32> = members(&seat).into_iter().collect();
            let procs = seat.join("cgroup.procs");
            for pid in pids.iter().filter(|p| !there.contains(p)) {
                moved += usize::from(enrol(&procs, &pid.to_string())?);
            }
        }
        Ok(moved)
    }

    /// Moves a kernel thread into a node's CPU groups, so that its CPU time counts as the node's.
    /// On version 2 this places it under all controllers.
    ///
    /// # Errors
    /// EINVAL for a thread that the kernel binds, after a second; ESRCH for one that has ended or is no
    /// kernel thread here: the kernel takes 0 for the caller, and a PID namespace numbers differently.
    pub fn move_thread(&self, tid: i32, node: usize) -> Result<()> {
        if !is_kernel_thread(tid) {
            let gone = std::io::Error::from_raw_os_error(libc::ESRCH);
            return Err(
                Failure::new(format!("kernel thread {tid}"), "move to a group", gone).into()
            );
        }
        let seats = self.accounting().filter_map(|h| Some((h, self.seat(h, node)?)));
        for (h, seat) in seats {
            put_thread(h, &seat, tid)?;
        }
        Ok(())
    }

    /// Moves a kernel thread out of the lab's groups, back to the hierarchies' roots: a group that
    /// holds one cannot be removed. Succeeds if it has ended.
    pub fn release_thread(&self, tid: i32) -> Result<()> {
        for h in self.accounting() {
            match put_thread(h, &h.base, tid) {
                Err(e) if e.raw_os_error() == Some(libc::ESRCH) => {}
                outcome => outcome?,
            }
        }
        Ok(())
    }

    /// The hierarchies that distribute and account CPU time.
    fn accounting(&self) -> impl Iterator<Item = &Hierarchy> {
        self.hierarchies.iter().filter(|h| h.has("cpu") || h.has("cpuacct"))
    }

    /// Creates a group that can have child groups: on version 2 its processes move into a leaf first.
    pub(super) fn make_room(&self, h: &Hierarchy, node: usize) -> Result<()> {
        if !self.needs_leaf(h) {
            return Ok(());
        }
        let dir = self.dir(h, node);
        let leaf = dir.join(OWN);
        mkdir(&leaf)?;
        let handed_out = self.handed_out(h);
        let mut outcome = Ok(());
        for _ in 0..PASSES {
            move_all(&dir, || Ok(leaf.clone()))?;
            outcome = enable(&dir, &handed_out);
            // A process was forked meanwhile.
            match &outcome {
                Err(e) if e.raw_os_error() == Some(libc::EBUSY) => {}
                _ => break,
            }
        }
        outcome
    }
}

/// Moves the kernel threads of a group to the hierarchy's root. Returns whether there were any.
pub(super) fn release_kernel_threads(h: &Hierarchy, dir: &Path) -> bool {
    let mut threads = members(dir);
    threads.retain(|pid| is_kernel_thread(*pid));
    for tid in &threads {
        // One that has ended meanwhile has also left.
        let _ = put_thread(h, &h.base, *tid);
    }
    !threads.is_empty()
}

fn put_thread(h: &Hierarchy, dir: &Path, tid: i32) -> Result<()> {
    let file = dir.join(if h.version == Version::V1 { "tasks" } else { "cgroup.procs" });
    let end = Instant::now() + THREAD_WAIT;
    loop {
        match fs::write(&file, tid.to_string()) {
            Err(e) if e.raw_os_error() == Some(libc::EINVAL) && Instant::now() < end => {
                std::thread::sleep(Duration::from_millis(1));
            }
            outcome => return outcome.map_err(|e| Failure::path(file, "move thread to", e).into()),
        }
    }
}

/// Descriptors by which a process joins a node's groups.
#[derive(Debug, Default)]
pub struct Join {
    /// `tasks` files of version 1 groups; `cgroup.procs` of the version 2 group where there is no `v2`.
    pub tasks: Vec<OwnedFd>,
    /// Directory of the version 2 group, to be cloned into.
    pub v2: Option<OwnedFd>,
}

impl Join {
    /// Replaces the version 2 group's directory by a file. Joining by it takes some milliseconds
    /// longer, but it gives its holder no way to other host directories, as `..` of a directory would.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn without_directory(&mut self) -> Result<()> {
        if let Some(dir) = &self.v2 {
            let name = "cgroup.procs";
            let file =
                rustix::fs::openat(dir, name, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())
                    .map_err(|e| Failure::path(name, "open", e))?;
            self.tasks.push(file);
        }
        self.v2 = None;
        Ok(())
    }

    /// Moves the calling, single-threaded process into the groups listed in `tasks`.
    pub fn enter_files(&self) -> Result<()> {
        for fd in &self.tasks {
            rustix::io::write(fd, b"0").map_err(|e| Failure::new("cgroup", "join", e))?;
        }
        Ok(())
    }
}

/// Opens the directory of a version 2 group, for a process that is cloned into it.
pub fn open_dir(path: &Path) -> Result<OwnedFd> {
    rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        .map_err(|e| Failure::path(path, "open cgroup", e).into())
}

/// Opens these `tasks` files for a process that joins their groups later.
pub fn open_v1(tasks: &[PathBuf]) -> Result<Join> {
    let open = |path: &PathBuf| {
        rustix::fs::open(path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())
            .map_err(|e| Failure::path(path, "open cgroup", e).into())
    };
    Ok(Join { tasks: tasks.iter().map(open).collect::<Result<_>>()?, v2: None })
}
