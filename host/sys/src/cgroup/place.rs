//! Where processes are put: descriptors to join by, moving the living, making room for children.
//!
//! A process that joins by itself costs nothing; one that is moved waits some 9 ms. Processes that
//! are born while others are moved are found by looking again. See cgroups(7), cgroup-v2.rst ("no
//! internal processes").

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
use crate::{Error, Result};

/// How often processes are looked for that were born meanwhile.
const PASSES: usize = 64;
/// How long a kernel thread may take from its making to its first instruction; until then the kernel
/// refuses to move it, with the same EINVAL as one that it binds for good.
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
                .map_err(|e| Error::path(path, "open", e))
        };
        let tasks = self.tasks_files(node);
        let tasks = tasks.iter().map(|p| open(p, OFlags::WRONLY)).collect::<Result<Vec<_>>>()?;
        let v2 = self.v2_dir(node).map(|p| open(&p, OFlags::RDONLY | OFlags::DIRECTORY));
        Ok(Join { tasks, v2: v2.transpose()? })
    }

    /// Moves the processes of a node, and those of descendants that have no nearer group, to where they
    /// belong by now: into groups that were made after they were born. Gives how many were moved.
    /// Which processes those are is told by the node's other groups; without any, none is found, see
    /// [`Groups::move_in`].
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

    /// Moves these processes into all groups of a node that they are not in; gives how many moves that
    /// took. Processes that have ended are left out.
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

    /// Puts a kernel thread into a node's CPU groups, so that its time is the node's. On version 2 it
    /// is then in all of them.
    ///
    /// # Errors
    /// EINVAL for a thread the kernel binds, after a second; ESRCH for one that has ended or is no kernel
    /// thread here: the kernel takes 0 for the caller, and a PID namespace has other numbers.
    pub fn move_thread(&self, tid: i32, node: usize) -> Result<()> {
        if !is_kernel_thread(tid) {
            let gone = std::io::Error::from_raw_os_error(libc::ESRCH);
            return Err(Error::call(format!("kernel thread {tid}"), "move to a group", gone));
        }
        let seats = self.accounting().filter_map(|h| Some((h, self.seat(h, node)?)));
        for (h, seat) in seats {
            put_thread(h, &seat, tid)?;
        }
        Ok(())
    }

    /// Takes a kernel thread out of the lab's groups, back to the hierarchies' roots: a group that
    /// holds one cannot be removed. That it has ended is success.
    pub fn release_thread(&self, tid: i32) -> Result<()> {
        for h in self.accounting() {
            match put_thread(h, &h.base, tid) {
                Err(e) if e.raw_os_error() == Some(libc::ESRCH) => {}
                outcome => outcome?,
            }
        }
        Ok(())
    }

    /// The hierarchies that give out and count CPU time.
    fn accounting(&self) -> impl Iterator<Item = &Hierarchy> {
        self.hierarchies.iter().filter(|h| h.has("cpu") || h.has("cpuacct"))
    }

    /// Makes a group that can have groups below it: on version 2 its processes move into a leaf first.
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
            // A process born meanwhile.
            match &outcome {
                Err(e) if e.raw_os_error() == Some(libc::EBUSY) => {}
                _ => break,
            }
        }
        outcome
    }
}

/// Takes the kernel threads in a group back to the hierarchy's root. Whether there was one.
pub(super) fn release_kernel_threads(h: &Hierarchy, dir: &Path) -> bool {
    let mut threads = members(dir);
    threads.retain(|pid| is_kernel_thread(*pid));
    for tid in &threads {
        // One that has ended meanwhile has left, too.
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
            outcome => return outcome.map_err(|e| Error::path(file, "move thread to", e)),
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
    /// Has a file in place of the version 2 group's directory. To join by it takes some milliseconds longer,
    /// but nobody who is given it gets to other directories of the host, as by `..` from a directory.
    ///
    /// # Errors
    /// The kernel's refusal to open the file.
    pub fn without_directory(&mut self) -> Result<()> {
        if let Some(dir) = &self.v2 {
            let name = "cgroup.procs";
            let file =
                rustix::fs::openat(dir, name, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())
                    .map_err(|e| Error::path(name, "open", e))?;
            self.tasks.push(file);
        }
        self.v2 = None;
        Ok(())
    }

    /// Puts the calling, single-threaded process into the groups that have a file here.
    pub fn enter_files(&self) -> Result<()> {
        for fd in &self.tasks {
            rustix::io::write(fd, b"0").map_err(|e| Error::call("cgroup", "join", e))?;
        }
        Ok(())
    }
}

/// Opens the directory of a version 2 group, for a process that is cloned into it.
pub fn open_dir(path: &Path) -> Result<OwnedFd> {
    rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        .map_err(|e| Error::path(path, "open cgroup", e))
}

/// Opens these `tasks` files for a process that joins their groups later.
pub fn open_v1(tasks: &[PathBuf]) -> Result<Join> {
    let open = |path: &PathBuf| {
        rustix::fs::open(path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())
            .map_err(|e| Error::path(path, "open cgroup", e))
    };
    Ok(Join { tasks: tasks.iter().map(open).collect::<Result<_>>()?, v2: None })
}
