//! The lab process: its name, which identifies it to others, its limit of open files, its clock.

use std::os::fd::OwnedFd;
use std::time::{SystemTime, UNIX_EPOCH};

use netloom_node::spawner;
use netloom_sys::trusted::identity;
use netloom_sys::{process, title};
use rustix::process::Pid;

use crate::stage::spaces::LINKS_AT_A_TIME;
use crate::store::state::{Folder, LOCK};

/// Files that a lab process has open beside those of nodes, among them namespaces of [`NODES_AT_A_TIME`] for each thread
/// that goes through all nodes.
///
/// [`NODES_AT_A_TIME`]: crate::stage::spaces::NODES_AT_A_TIME
const FILES_BESIDES: u64 = 80;

/// The most namespaces that are kept open.
const MOST_SPACES: usize = 2048;

/// Raises the limit of open files to the hard limit; returns the previous limit.
pub(crate) fn raise_open_files() -> (Option<u64>, Option<u64>) {
    use rustix::process::{Resource, Rlimit};
    let old = rustix::process::getrlimit(Resource::Nofile);
    let raised = Rlimit { current: old.maximum, maximum: old.maximum };
    // With the old limit large labs fail with a clear error.
    let _ = rustix::process::setrlimit(Resource::Nofile, raised);
    (old.current, old.maximum)
}

/// An explanation why a lab of this many nodes could not be made, if the limit of open files is too low: it has one for
/// each node, and while it is made those of the namespaces that are worked on.
pub(crate) fn few_files(nodes: usize) -> Option<String> {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current?;
    let wanted = files_for(nodes) + as_u64(nodes.min(2 * LINKS_AT_A_TIME));
    let words = "files may be open at once; a lab of this size may need";
    (limit < wanted).then(|| format!("{limit} {words} {wanted}: see `ulimit -Hn`"))
}

/// How many namespaces of a lab of this many nodes this process may keep open while it makes links. It opens the others when
/// it needs them.
pub(crate) fn room_for_spaces(nodes: usize) -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let room = |limit: u64| limit.saturating_sub(files_for(nodes + 2 * LINKS_AT_A_TIME));
    limit.map_or(nodes, |limit| usize::try_from(room(limit)).unwrap_or(nodes)).min(MOST_SPACES)
}

/// The files of a lab process with this many nodes.
fn files_for(nodes: usize) -> u64 {
    as_u64(nodes) + FILES_BESIDES
}

fn as_u64(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX / 4)
}

/// Whether this process is the lab process: by its name, and by the lab's lock among its open files.
pub(crate) fn is_lab_process(folder: &Folder, pid: i32) -> bool {
    lab_process(folder, pid).is_some()
}

/// The lab process, if this is its id.
pub(crate) fn lab_process(folder: &Folder, pid: i32) -> Option<OwnedFd> {
    with_lock(folder, pid, process_name())
}

/// A spawner of the lab, if this is its id.
pub(crate) fn spawner(folder: &Folder, pid: i32) -> Option<OwnedFd> {
    with_lock(folder, pid, spawner::NAME)
}

/// A process that has this name and the lab's lock among its open files, both of which only the kernel says. Its
/// descriptor is opened before, so that a number that is used again proves nothing.
fn with_lock(folder: &Folder, pid: i32, name: &str) -> Option<OwnedFd> {
    let pid = Pid::from_raw(pid.max(0))?;
    let pidfd = process::pidfd(pid).ok()?;
    if process::name_of(pid)? != name {
        return None;
    }
    let (lock, number) = (folder.lock_identity()?, pid.as_raw_nonzero());
    let files = std::fs::read_dir(format!("/proc/{number}/fd")).ok()?.flatten();
    let named = files
        .map(|file| file.path())
        .filter(|file| std::fs::read_link(file).is_ok_and(|target| target.ends_with(LOCK)));
    let mut open = named.filter_map(|file| Some(identity(&rustix::fs::stat(file).ok()?)));
    open.any(|file| file == lock).then_some(pidfd)
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
