//! The lab process: its name, which identifies it to others, its limit of open files, its clock.

use std::time::{SystemTime, UNIX_EPOCH};

use netloom_node::spawner;
use netloom_sys::{process, title};

use crate::store::state::Folder;

/// Files that a lab process has open beside those of nodes.
const FILES_BESIDES: u64 = 48;

/// Raises the limit of open files to the hard limit; returns the previous limit.
pub(crate) fn raise_open_files() -> (Option<u64>, Option<u64>) {
    use rustix::process::{Resource, Rlimit};
    let old = rustix::process::getrlimit(Resource::Nofile);
    let raised = Rlimit { current: old.maximum, maximum: old.maximum };
    // With the old limit large labs fail with a clear error.
    let _ = rustix::process::setrlimit(Resource::Nofile, raised);
    (old.current, old.maximum)
}

/// An explanation why a lab of this many nodes could not be made, if the limit of open files is too low: making a
/// lab takes two for each node.
pub(crate) fn few_files(nodes: usize) -> Option<String> {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current?;
    let wanted = 2 * u64::try_from(nodes).unwrap_or(u64::MAX / 4) + FILES_BESIDES;
    let words = "files may be open at once; a lab of this size may need";
    (limit < wanted).then(|| format!("{limit} {words} {wanted}: see `ulimit -Hn`"))
}

/// Whether this process is the lab process: by its name, and by the lab's lock among its open files.
pub(crate) fn is_lab_process(folder: &Folder, pid: i32) -> bool {
    has_lock(folder, pid, process_name())
}

/// Whether this process is a spawner of the lab.
pub(crate) fn is_spawner(folder: &Folder, pid: i32) -> bool {
    has_lock(folder, pid, spawner::NAME)
}

/// Whether a process has this name and the lab's lock among its open files.
fn has_lock(folder: &Folder, pid: i32, name: &str) -> bool {
    let comm = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    let lock = folder.path().join("lock");
    let has_lock = || {
        let files = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        files.filter_map(|f| std::fs::read_link(f.path()).ok()).any(|target| target == lock)
    };
    comm.trim_end() == name && has_lock()
}

/// The lab process's name in the process list.
pub(crate) fn process_name() -> &'static str {
    "netloom-lab"
}

/// Sets the process's name and its title in the process list.
pub(crate) fn name_process(lab: &str) {
    process::set_name(process_name());
    title::set(&format!("{}: {lab}", process_name()));
}

/// Unix time in nanoseconds.
pub(crate) fn now_ns() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
}
