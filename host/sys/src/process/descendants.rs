//! Ends everything that a process has started. It must be a subreaper (prctl(2), `PR_SET_CHILD_SUBREAPER`), so that
//! orphans become its children.

use rustix::process::{Pid, Signal};

use super::Status;

/// Kills children until none are left: children of killed ones are reparented to this process.
pub fn end_descendants() {
    loop {
        let children = children();
        if children.is_empty() {
            return;
        }
        for child in children {
            // An ended child is reaped below.
            let _ = rustix::process::kill_process(child, Signal::KILL);
            let _ = super::wait_or_stop(child);
        }
    }
}

/// This process's children. /proc may belong to an outer PID namespace (proc(5)): `NSpid` lists a process's
/// pids from that namespace inwards, and only the pid in this process's own namespace can be signalled.
fn children() -> Vec<Pid> {
    let Some((own, _, numbers)) = identity("self") else { return vec![] };
    let level = numbers.len().saturating_sub(1);
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let all = entries.filter_map(|e| identity(e.file_name().to_str()?));
    let children = all.filter(|(_, parent, _)| *parent == own);
    children.filter_map(|(_, _, numbers)| Pid::from_raw(*numbers.get(level)?)).collect()
}

/// A process's pid and its parent's in the namespace of /proc, and its pids from there inwards.
fn identity(name: &str) -> Option<(i32, i32, Vec<i32>)> {
    let status = Status::of(name)?;
    let numbers = status.field("NSpid")?.split_ascii_whitespace().filter_map(|n| n.parse().ok());
    Some((status.number("Pid")?, status.number("PPid")?, numbers.collect()))
}
